//! Starts the kernels of `muon.cu`.

use crate::backend::cuda::optimize::{AdamNumbers, Places};
use crate::backend::cuda::{Argument, Cuda, DeviceMemory, Grid, launch};
use crate::backend::optimize::{Muon, Optimizer};
use crate::backend::shape::Layer;

/// Side of a tile.
const SIDE: usize = 64;

/// As in `muon.cu`.
#[repr(C)]
struct MuonNumbers {
    rate: f32,
    polynomial: [f32; 3],
    kind: u32,
    first: u32,
}
// SAFETY: the same fields in the same order as there.
unsafe impl Argument for MuonNumbers {}

/// What becomes of a product, as in `muon.cu`.
#[derive(Clone, Copy)]
enum Product {
    Gram,
    Polynomial,
    Next,
    Step,
}

/// Rows and columns to which all matrices are padded; as many rows as columns, or more.
fn padded(layers: &[Layer]) -> [usize; 2] {
    let side = |of: fn(usize, usize) -> usize| {
        let sides = layers.iter().map(|layer| of(layer.inputs, layer.outputs));
        sides.max().unwrap_or(0).next_multiple_of(SIDE)
    };
    [side(usize::max), side(usize::min)]
}

/// Floats that the work needs: four matrices and two squares of bfloat16, and a sum of each tile.
pub fn muon_words(members: usize, layers: &[Layer]) -> usize {
    let [rows, columns] = padded(layers);
    let (large, small) = (rows * columns, columns * columns);
    members * layers.len() * (2 * large + small + large / (SIDE * SIDE))
}

impl Cuda {
    /// The step of the hidden weights, after that of all others, along the directions in the optimizer's second moments.
    pub(super) fn orthogonal_step(
        &self,
        optimizer: &Optimizer,
        members: usize,
        params: &DeviceMemory,
    ) {
        let hidden = &optimizer.hidden;
        let matrices = members * hidden.layers.len();
        if matrices == 0 {
            return;
        }
        let [rows, columns] = padded(&hidden.layers);
        let (large, small) = (rows * columns, columns * columns);
        let start = hidden.room.gpu().address;
        let place = |words: usize| start + 4 * (matrices * words) as u64;
        let halves = |n: usize| place(n * large / 2); // the n-th matrix of bfloat16
        let (gram, polynomial) = (place(2 * large), place(2 * large + small / 2));
        let squares = place(2 * large + small);
        let tiles = large / (SIDE * SIDE);
        let grid = |tiles: usize, threads| Grid {
            blocks: [tiles as u32, hidden.layers.len() as u32, members as u32],
            threads,
            shared: 0,
        };
        let places = Places::new(hidden, params.words() / members);
        let (size, directions) =
            ([rows as u32, columns as u32], optimizer.moments[1].gpu().address);
        let [mut now, mut next] = [[halves(0), halves(1)], [halves(2), halves(3)]];
        launch!(
            self,
            "muon_begin",
            grid(tiles, 256),
            places,
            directions,
            size[0],
            size[1],
            now[0],
            now[1],
            squares
        );
        let side = columns / SIDE;
        let (adam, step) = (AdamNumbers::from(&optimizer.adam), optimizer.step.0.gpu().address);
        for i in 0..hidden.muon.iterations {
            let last = i + 1 == hidden.muon.iterations;
            let end = if last { Product::Step } else { Product::Next };
            for kind in [Product::Gram, Product::Polynomial, end] {
                let tiles = match kind {
                    Product::Gram | Product::Polynomial => side * (side + 1) / 2,
                    Product::Next | Product::Step => tiles,
                };
                let muon = MuonNumbers {
                    rate: hidden.muon.rate,
                    polynomial: Muon::POLYNOMIAL,
                    kind: kind as u32,
                    first: u32::from(i == 0),
                };
                launch!(
                    self,
                    "muon_product",
                    grid(tiles, 128),
                    places,
                    adam,
                    step,
                    muon,
                    size[0],
                    size[1],
                    now[0],
                    now[1],
                    gram,
                    polynomial,
                    next[0],
                    next[1],
                    squares,
                    params.address
                );
            }
            std::mem::swap(&mut now, &mut next);
        }
    }
}
