//! Forward and backward passes of an ensemble of MLPs.

use crate::backend::cpu::activation::{activate, slope};
use crate::backend::cpu::product::{Matrix, Patch, WIDE, product, strided_product};
use crate::backend::cpu::{Cpu, Parts, vectorized};
use crate::backend::{
    Buffer, Input, Pass,
    shape::{Layer, Shape},
};
use std::cell::RefCell;
use std::ops::Range;

/// Rows that a thread takes through a network at a time at the most: their activations stay in its cache.
const ROWS: usize = 512;
/// Columns of a weight gradient that a thread computes at a time at the most, and where there are more threads than
/// members.
const COLUMNS: [usize; 2] = [256, 128];
// A part of more than that is computed as the whole would be.
const _: () = assert!(COLUMNS[1] / 2 >= WIDE);

/// How the rows of all members are shared out: in large blocks, which use the weights often once they are packed, and
/// so that all threads end together. What comes out does not depend on it.
struct Units {
    members: usize,
    rows: usize,
    /// Segments of whole members, one a thread, with a part of each of the members that are left over; or 1.
    segments: usize,
    /// Blocks of a member within a segment.
    blocks: usize,
}

impl Units {
    fn new(cpu: &Cpu, members: usize, rows: usize) -> Self {
        let threads = cpu.pool.current_num_threads();
        let large = rows.div_ceil(ROWS);
        if large == 1 && members >= threads && rows >= 16 * threads {
            return Units { members, rows, segments: threads, blocks: 1 };
        }
        let evenly = |&blocks: &usize| {
            members * blocks >= 4 * threads || (members * blocks).is_multiple_of(threads)
        };
        let smallest = rows.div_ceil(ROWS / 4);
        let blocks = [large, rows.div_ceil(ROWS / 2)].into_iter().find(evenly).unwrap_or(smallest);
        Units { members, rows, segments: 1, blocks }
    }

    fn len(&self) -> usize {
        self.segments * (self.members / self.segments * self.blocks + self.members % self.segments)
    }

    /// The member and the rows of a unit.
    fn get(&self, unit: usize) -> (usize, Range<usize>) {
        let whole = self.members / self.segments * self.blocks;
        let per_segment = whole + self.members % self.segments;
        let (segment, unit) = (unit / per_segment, unit % per_segment);
        let part = |i: usize, n: usize| part(self.rows, i, n);
        match unit.checked_sub(whole) {
            // Neighboring units share a member, so that its weights stay in the cache.
            None => {
                let member = segment * (self.members / self.segments) + unit / self.blocks;
                (member, part(unit % self.blocks, self.blocks))
            }
            Some(left) => {
                (self.members - self.members % self.segments + left, part(segment, self.segments))
            }
        }
    }
}

/// The i-th of n parts of about the same size.
fn part(len: usize, i: usize, n: usize) -> Range<usize> {
    len * i / n..len * (i + 1) / n
}

thread_local! {
    /// Activations of one block of rows where nobody asked to keep them; grows once, then is reused.
    static SCRATCH: RefCell<[Vec<f32>; 2]> = const { RefCell::new([Vec::new(), Vec::new()]) };
}

impl Cpu {
    /// All members' outputs `[members, rows, outputs]`, keeping no activations.
    pub fn infer(&self, pass: &Pass<'_, [f32]>, output: &mut [f32], precise: bool) {
        let Pass { shape, params, input, rows } = *pass;
        let units = Units::new(self, shape.members, rows);
        let output = Parts::new(output);
        self.parallel(units.len(), |unit| {
            let (member, block) = units.get(unit);
            let (first, n) = (block.start, block.len());
            let params = member_params(shape, params, member);
            SCRATCH.with_borrow_mut(|scratch| {
                scratch.iter_mut().for_each(|s| s.resize(s.len().max(ROWS * shape.widest()), 0.0));
                let [from, to] = scratch;
                for (l, layer) in shape.layers() {
                    let x = match l {
                        0 => input.rows(shape, rows, member, first, n),
                        _ => &from[..n * layer.inputs],
                    };
                    if l + 1 == shape.depth() {
                        let start = (member * rows + first) * layer.outputs;
                        // SAFETY: each unit writes the rows of its own member and block.
                        let out = unsafe { output.take(start..start + n * layer.outputs) };
                        layer_forward(layer, params, x, n, out, precise);
                    } else {
                        layer_forward(layer, params, x, n, &mut to[..n * layer.outputs], precise);
                        std::mem::swap(from, to);
                    }
                }
            });
        });
    }

    /// All members' activations, one buffer `[members, rows, width]` a layer; the last is the output.
    pub fn forward(&self, pass: &Pass<'_, [f32]>, activations: &mut [Buffer], precise: bool) {
        let Pass { shape, params, input, rows } = *pass;
        let units = Units::new(self, shape.members, rows);
        with_parts(activations, |activations| {
            self.parallel(units.len(), |unit| {
                let (member, block) = units.get(unit);
                let (first, n) = (block.start, block.len());
                let params = member_params(shape, params, member);
                let mut x = input.rows(shape, rows, member, first, n);
                for (l, layer) in shape.layers() {
                    let start = (member * rows + first) * layer.outputs;
                    // SAFETY: each unit writes the rows of its own member and block.
                    let out = unsafe { activations[l].take(start..start + n * layer.outputs) };
                    layer_forward(layer, params, x, n, out, precise);
                    x = out;
                }
            });
        });
    }

    /// Back-propagation. On entry the last of `deltas` holds dL/d(output); on return each holds dL/d(sum)
    /// of its layer, `gradient` dL/d(parameters) and `d_input` dL/d(input) `[members, rows, inputs]`.
    pub fn backward(
        &self,
        pass: &Pass<'_, [f32]>,
        activations: &[Buffer],
        deltas: &mut [Buffer],
        gradient: Option<&mut [f32]>,
        d_input: Option<&mut [f32]>,
        precise: bool,
    ) {
        let Pass { shape, params, rows, .. } = *pass;
        let units = Units::new(self, shape.members, rows);
        let d_input = d_input.map(Parts::new);
        with_parts(deltas, |deltas| {
            self.parallel(units.len(), |unit| {
                let (member, block) = units.get(unit);
                let (first, n) = (block.start, block.len());
                let params = member_params(shape, params, member);
                let range = |width: usize| {
                    let start = (member * rows + first) * width;
                    start..start + n * width
                };
                let last = shape.layer(shape.depth() - 1);
                // SAFETY: each unit touches the rows of its own member and block.
                let delta = unsafe { deltas[shape.depth() - 1].take(range(last.outputs)) };
                let live =
                    if gradient.is_some() { Live::all(n) } else { Live::pack(delta, last.outputs) };
                let through = |l: usize, delta: Patch<'_>| {
                    let layer = shape.layer(l);
                    through_activation(
                        layer,
                        &activations[l].cpu()[range(layer.outputs)],
                        &live,
                        delta,
                    );
                };
                let delta = &mut delta[..live.n * last.outputs];
                through(shape.depth() - 1, Patch::all(delta, last.outputs));
                for (l, layer) in shape.layers().rev() {
                    let below = match (l, d_input) {
                        (0, None) => continue,
                        (0, Some(d_input)) => d_input,
                        _ => deltas[l - 1],
                    };
                    // SAFETY: as above.
                    let delta =
                        &unsafe { deltas[l].take(range(layer.outputs)) }[..live.n * layer.outputs];
                    // SAFETY: as above.
                    let below = unsafe { below.take(range(layer.inputs)) };
                    let weights = &params[layer.offset..][..layer.inputs * layer.outputs];
                    // dx = delta · Wᵀ
                    product(
                        Matrix::new(delta, live.n, layer.outputs),
                        Matrix::new(weights, layer.inputs, layer.outputs).transposed(),
                        &mut below[..live.n * layer.inputs],
                        precise,
                        |patch| {
                            if l > 0 {
                                through(l - 1, patch);
                            }
                        },
                    );
                    if l == 0 {
                        live.unpack(below, layer.inputs);
                    }
                }
            });
        });
        if let Some(gradient) = gradient {
            self.weight_gradients(pass, activations, deltas, gradient, precise);
        }
    }

    /// dW = xᵀ · delta and db = Σ delta, split over members, layers and columns: no partial sums to add up.
    fn weight_gradients(
        &self,
        pass: &Pass<'_, [f32]>,
        activations: &[Buffer],
        deltas: &[Buffer],
        gradient: &mut [f32],
        precise: bool,
    ) {
        let Pass { shape, input, rows, .. } = *pass;
        let columns = COLUMNS[usize::from(shape.members < self.threads())];
        let blocks_of = |layer: Layer| layer.outputs.div_ceil(columns);
        let per_member: usize = shape.layers().map(|(_, layer)| blocks_of(layer)).sum();
        let gradient = Parts::new(gradient);
        self.parallel(shape.members * per_member, |unit| {
            let (member, mut block) = (unit / per_member, unit % per_member);
            for (l, layer) in shape.layers() {
                if block >= blocks_of(layer) {
                    block -= blocks_of(layer);
                    continue;
                }
                let part = part(layer.outputs, block, blocks_of(layer));
                let (first, n) = (part.start, part.len());
                let x = match l {
                    0 => input.rows(shape, rows, member, 0, rows),
                    _ => &activations[l - 1].cpu()[member * rows * layer.inputs..]
                        [..rows * layer.inputs],
                };
                let delta =
                    &deltas[l].cpu()[member * rows * layer.outputs..][..rows * layer.outputs];
                let start = member * shape.stride() + layer.offset;
                // SAFETY: columns of different units do not overlap; `strided_product` writes these alone.
                unsafe {
                    strided_product(
                        Matrix::new(x, rows, layer.inputs).transposed(),
                        Matrix::new(delta, rows, layer.outputs).columns(first, n),
                        gradient.start.add(start + first),
                        layer.outputs,
                        precise,
                        |_| (),
                    );
                    let bias = start + layer.inputs * layer.outputs + first;
                    column_sums(delta, layer.outputs, first, gradient.take(bias..bias + n));
                }
                return;
            }
        });
    }
}

impl<'a> Input<'a, [f32]> {
    /// n rows of the member's input.
    fn rows(&self, shape: &Shape, rows: usize, member: usize, first: usize, n: usize) -> &'a [f32] {
        let width = shape.inputs();
        let (x, batches) = self.batches(shape.members);
        &x[(member % batches * rows + first) * width..][..n * width]
    }
}

/// Views of several buffers for parallel writing, without an allocation.
fn with_parts<R>(buffers: &mut [Buffer], work: impl FnOnce(&[Parts<'_, f32>]) -> R) -> R {
    let mut parts = [Parts::new(&mut []); Shape::DEEPEST];
    let n = buffers.len();
    for (part, buffer) in parts.iter_mut().zip(buffers) {
        *part = Parts::new(buffer.cpu_mut());
    }
    work(&parts[..n])
}

fn member_params<'a>(shape: &Shape, params: &'a [f32], member: usize) -> &'a [f32] {
    &params[member * shape.stride()..][..shape.parameters()]
}

/// out = activation(x · W + b)
fn layer_forward(
    layer: Layer,
    params: &[f32],
    x: &[f32],
    rows: usize,
    out: &mut [f32],
    precise: bool,
) {
    let (weights, rest) = params[layer.offset..].split_at(layer.inputs * layer.outputs);
    let bias = &rest[..layer.outputs];
    let (x, weights) =
        (Matrix::new(x, rows, layer.inputs), Matrix::new(weights, layer.inputs, layer.outputs));
    product(x, weights, out, precise, |mut patch| {
        let bias = &bias[patch.first[1]..];
        vectorized(|| {
            for (_, row) in patch.rows() {
                let sums = row.iter_mut().zip(bias);
                activate(layer.activation, sums);
            }
        });
    });
}

/// delta ← delta · activation'(sum), from the activation itself; row i of `delta` belongs to the i-th live row.
fn through_activation(layer: Layer, output: &[f32], live: &Live, mut delta: Patch<'_>) {
    let (width, first) = (layer.outputs, delta.first[1]);
    vectorized(|| {
        for (row, delta) in delta.rows() {
            let pairs = delta.iter_mut().zip(&output[live.rows[row] as usize * width + first..]);
            slope(layer.activation, pairs);
        }
    });
}

/// The rows of a block that the loss depends on. Of twin critics only the lower one has a say in each row, and
/// trajectories that have ended have none: their rows need not go back through the network.
struct Live {
    rows: [u16; ROWS],
    n: usize,
}

impl Live {
    fn all(n: usize) -> Self {
        Live { rows: std::array::from_fn(|i| i as u16), n }
    }

    /// Moves the rows of `delta` that are not 0 to its front.
    fn pack(delta: &mut [f32], width: usize) -> Self {
        let mut live = Live { rows: [0; ROWS], n: 0 };
        for row in 0..delta.len() / width {
            let from = row * width..(row + 1) * width;
            if delta[from.clone()].iter().any(|&d| d != 0.0) {
                delta.copy_within(from, live.n * width);
                live.rows[live.n] = row as u16;
                live.n += 1;
            }
        }
        live
    }

    /// Moves rows from the front back to where they belong, with 0 in between.
    fn unpack(&self, values: &mut [f32], width: usize) {
        let mut end = values.len();
        for i in (0..self.n).rev() {
            let start = self.rows[i] as usize * width;
            values.copy_within(i * width..(i + 1) * width, start);
            values[start + width..end].fill(0.0);
            end = start;
        }
        values[..end].fill(0.0);
    }
}

fn column_sums(matrix: &[f32], width: usize, first: usize, sums: &mut [f32]) {
    vectorized(|| {
        sums.fill(0.0);
        for row in matrix.chunks_exact(width) {
            sums.iter_mut().zip(&row[first..]).for_each(|(s, v)| *s += v);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_cover_every_row_of_every_member_once() {
        for threads in 1..=4 {
            let cpu = Cpu::new(Some(threads)).unwrap();
            for (members, rows) in
                [(5, 256), (1, 1), (2, 1024), (5, 1000), (7, 100), (3, 257), (1, 300), (4, 3)]
            {
                let units = Units::new(&cpu, members, rows);
                let mut seen = vec![0; members * rows];
                for (member, block) in (0..units.len()).map(|unit| units.get(unit)) {
                    assert!(block.len() <= ROWS);
                    block.for_each(|row| seen[member * rows + row] += 1);
                }
                assert!(seen.iter().all(|&n| n == 1), "{threads} threads, {members} × {rows}");
            }
        }
    }
}
