//! Forward and backward passes of an ensemble of MLPs, see `mlp.cu`.

use crate::backend::cuda::optimize::FUSED;
use crate::backend::cuda::{
    Argument, Cuda, DeviceMemory, Grid, Kernel, Last, Source, launch, lock,
};
use crate::backend::shape::{Activation, Shape};
use crate::backend::{Buffer, Pass};
use std::sync::Arc;

/// As in `mlp.cu`.
#[repr(C)]
struct Net {
    params: u64,
    stride: u32,
    members: u32,
    rows: u32,
    depth: u32,
    widths: [u32; Shape::DEEPEST + 1],
    offsets: [u32; Shape::DEEPEST],
    hidden: u32,
    output: u32,
}
// SAFETY: the same fields in the same order as in `mlp.cu`.
unsafe impl Argument for Net {}

#[repr(C)]
struct Layers([u64; Shape::DEEPEST]);
// SAFETY: as above.
unsafe impl Argument for Layers {}

#[repr(C)]
struct Bounds {
    low: u64,
    high: u64,
    limit: f32,
}
// SAFETY: as above.
unsafe impl Argument for Bounds {}

/// When a pass waits for the kernel before it, as in `mlp.cu`.
#[derive(Clone, Copy)]
enum Order {
    First,
    AfterWeights,
    Overlapping,
}

/// Columns of a last layer that can keep within bounds by themselves.
const MOST_BOUNDED: usize = 32;
/// Most rows of a block, in units of 16.
pub(super) const MOST_TILES: u32 = 4;
const THREADS: u32 = 256;
/// Least rows of a batch that are worth a part of their own where weight gradients are summed up.
const ROWS_OF_A_PART: u32 = 256;

impl Net {
    /// Without the address of its parameters.
    fn new(shape: &Shape, rows: usize) -> Self {
        let mut net = Net {
            params: 0,
            stride: shape.stride() as u32,
            members: shape.members as u32,
            rows: rows as u32,
            depth: shape.depth() as u32,
            widths: [0; Shape::DEEPEST + 1],
            offsets: [0; Shape::DEEPEST],
            hidden: code(shape.hidden),
            output: code(shape.output),
        };
        for (to, &width) in net.widths.iter_mut().zip(&shape.widths) {
            *to = width as u32;
        }
        for (l, layer) in shape.layers() {
            net.offsets[l] = layer.offset as u32;
        }
        net
    }

    fn of(pass: &Pass<'_, DeviceMemory>) -> Self {
        Net { params: pass.params.address, ..Net::new(pass.shape, pass.rows) }
    }

    /// Distance of pairs of rows in shared memory: four banks apart, so that lanes that read two of them at once do
    /// not wait for each other.
    fn pitch(&self) -> u32 {
        self.widths.iter().max().map_or(0, |widest| 2 * widest.next_multiple_of(32) + 4)
    }

    /// Width of the hidden layers, if addresses can be made of it at compile time.
    fn width(&self) -> u32 {
        let hidden = &self.widths[1..self.depth as usize];
        match hidden.first() {
            Some(&width) if width % 64 == 0 && hidden.iter().all(|&w| w == width) => width,
            _ => 0,
        }
    }

    /// A kernel of `mlp.cu`, and so many rows a block that all blocks run at once, if that is possible; as many as possible
    /// where few blocks are wanted.
    fn pass(&self, gpu: &Cuda, backward: bool, precise: bool) -> Option<(Kernel, Grid)> {
        // Rows before and after a layer, and the parts of narrow products.
        let shared = |tiles: u32| 4 * 16 * tiles * (self.pitch() + THREADS);
        let blocks = |tiles: u32| self.rows.div_ceil(16 * tiles);
        let fits = |&tiles: &u32| shared(tiles) <= gpu.shared;
        let few = lock(&gpu.next_pass).few_blocks;
        let one_wave = |&tiles: &u32| !few && blocks(tiles) * self.members <= gpu.multiprocessors;
        let choices = || 1..=MOST_TILES;
        let Some(tiles) = choices().filter(fits).find(one_wave).or_else(|| choices().rfind(fits))
        else {
            gpu.fail(format!(
                "{}: networks of this width do not fit into its shared memory",
                gpu.name()
            ));
            return None;
        };
        let source =
            Source::Passes { backward, tiles, precise, width: self.width(), pitch: self.pitch() };
        let name = if backward { "mlp_backward" } else { "mlp_forward" };
        let grid = Grid {
            blocks: [blocks(tiles), self.members, 1],
            threads: THREADS,
            shared: shared(tiles),
        };
        Some((Kernel { name, source }, grid))
    }
}

fn code(activation: Activation) -> u32 {
    match activation {
        Activation::Linear => 0,
        Activation::Relu => 1,
        Activation::Tanh => 2,
        Activation::Elu => 3,
        Activation::LeakyRelu => 4,
        Activation::Softplus => 5,
    }
}

impl Cuda {
    /// All members' outputs.
    pub fn infer(&self, pass: &Pass<'_, DeviceMemory>, output: &DeviceMemory, precise: bool) {
        self.through(pass, last(pass.shape, output), None, precise);
    }

    /// The same, taken into bounds by tanh.
    pub fn infer_within(
        &self,
        pass: &Pass<'_, DeviceMemory>,
        ([low, high], limit): ([&DeviceMemory; 2], f32),
        output: &DeviceMemory,
        precise: bool,
    ) {
        if pass.shape.outputs() > MOST_BOUNDED {
            self.infer(pass, output, precise);
            return self.squash_to_bounds(low, high, limit, output);
        }
        let bounds = Bounds { low: low.address, high: high.address, limit };
        self.through(pass, last(pass.shape, output), Some(bounds), precise);
    }

    /// All members' activations.
    pub fn forward(&self, pass: &Pass<'_, DeviceMemory>, activations: &[Buffer], precise: bool) {
        self.through(pass, addresses(activations), None, precise);
    }

    fn through(
        &self,
        pass: &Pass<'_, DeviceMemory>,
        layers: Layers,
        bounds: Option<Bounds>,
        precise: bool,
    ) {
        let net = Net::of(pass);
        let Some((kernel, grid)) = net.pass(self, false, precise) else { return };
        let (input, batches) = place(pass);
        let next = *lock(&self.next_pass);
        let order = match next.last {
            Last::Overlapping => Order::First,
            _ if next.overlaps => Order::Overlapping,
            Last::Writer => Order::First,
            Last::Other => Order::AfterWeights,
        };
        let bounds = bounds.unwrap_or(Bounds { low: 0, high: 0, limit: 0.0 });
        launch!(self, kernel, grid, net, input, batches, layers, order as u32, bounds);
        if let Order::Overlapping = order {
            lock(&self.next_pass).last = Last::Overlapping;
        }
    }

    /// Begins to compile what training networks of that shape and evaluating them needs.
    pub fn expect_training(&self, shape: &Shape, groups: usize, rows: usize, precise: bool) {
        let net = Net::new(shape, rows);
        let pass = |precise| net.pass(self, false, precise).map(|(kernel, _)| kernel.source);
        let (Some(inference), Some(training)) = (pass(precise), pass(false)) else { return };
        // The number of rows at inference is not known yet. What takes longest comes first: sources are read one after the other.
        let mut sources = inference.other_sizes();
        sources.extend([inference, training]);
        sources.extend(training.backward_passes());
        if shape.members / groups <= FUSED {
            sources.push(Source::Stein { particles: (shape.members / groups) as u32 });
        }
        self.expect(sources);
    }

    /// Back-propagation, see [`crate::backend::Device::backward`].
    pub fn backward(
        self: &Arc<Self>,
        pass: &Pass<'_, DeviceMemory>,
        (activations, deltas): (&[Buffer], &[Buffer]),
        (gradient, d_input): (Option<&DeviceMemory>, Option<&DeviceMemory>),
        precise: bool,
    ) {
        let net = Net::of(pass);
        let Some((kernel, grid)) = net.pass(self, true, precise) else { return };
        let (layers, deltas) = (addresses(activations), addresses(deltas));
        let d_input = d_input.map_or(0, |d| d.address);
        launch!(self, kernel, grid, net, layers, deltas, d_input, u32::from(gradient.is_some()));
        if let Some(gradient) = gradient {
            self.weight_gradients(&net, place(pass), (layers, deltas), gradient, precise);
        }
    }

    fn weight_gradients(
        self: &Arc<Self>,
        net: &Net,
        (input, batches): (u64, u32),
        (layers, deltas): (Layers, Layers),
        gradient: &DeviceMemory,
        precise: bool,
    ) {
        let tiles = |w: &[u32]| w[0].div_ceil(64) * w[1].div_ceil(64);
        let blocks: u32 = net.widths[..=net.depth as usize].windows(2).map(tiles).sum();
        // Two blocks fit on a multiprocessor: where there are fewer, each takes a part of the rows.
        let parts = (2 * self.multiprocessors / (blocks * net.members))
            .min(net.rows / ROWS_OF_A_PART)
            .max(1);
        let grid = Grid { blocks: [net.members, blocks, parts], threads: THREADS, shared: 0 };
        let kernel =
            Kernel { name: "mlp_weights", source: Source::Weights { precise, width: net.width() } };
        if parts == 1 {
            launch!(self, kernel, grid, *net, input, batches, layers, deltas, gradient.address);
            return;
        }
        let mut room = lock(&self.gradients);
        if room.as_ref().is_none_or(|room| room.bytes < parts as usize * gradient.bytes) {
            *room = Some(self.zeros(parts as usize * gradient.bytes));
        }
        let Some(room) = &*room else { return };
        launch!(self, kernel, grid, *net, input, batches, layers, deltas, room.address);
        let n = gradient.words();
        launch!(self, "sum_parts", Grid::over(n), n as u32, gradient.address, room.address, parts);
    }
}

/// Address of the input, and how many batches it has.
fn place(pass: &Pass<'_, DeviceMemory>) -> (u64, u32) {
    let (memory, batches) = pass.input.batches(pass.shape.members);
    (memory.address, batches as u32)
}

/// Only the last layer is kept.
fn last(shape: &Shape, output: &DeviceMemory) -> Layers {
    let mut layers = Layers([0; Shape::DEEPEST]);
    layers.0[shape.depth() - 1] = output.address;
    layers
}

fn addresses(of: &[Buffer]) -> Layers {
    let mut layers = Layers([0; Shape::DEEPEST]);
    for (address, buffer) in layers.0.iter_mut().zip(of) {
        *address = buffer.gpu().address;
    }
    layers
}
