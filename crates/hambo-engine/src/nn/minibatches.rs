//! Minibatches for training: drawn on the device where it has room for all rows, else sent there as they are needed.

use crate::backend::{Buffer, Counter, Device};
use crate::rng::{Stream, uniform_indices_of_lists};

/// Largest share of a device's free memory that rows may take.
const SHARE: f64 = 0.5;

/// Rows drawn with replacement, the same wherever all of them are kept.
pub struct Minibatches {
    /// Rows of each list.
    rows: usize,
    sizes: BatchSizes,
    widths: [usize; 2],
    all: Rows,
    indices: Buffer<u32>,
    /// Inputs and targets of the minibatches, `[batches, rows, width]` each.
    pub now: [Buffer; 2],
}

/// What is drawn in a step.
#[derive(Clone, Copy, Debug)]
pub struct BatchSizes {
    /// Lists of rows, all of the same length, one after the other.
    pub lists: usize,
    /// Minibatches of a step; that of number b is of list b mod lists.
    pub batches: usize,
    /// Rows of each.
    pub rows: usize,
}

impl BatchSizes {
    /// One minibatch from one list.
    pub fn one(rows: usize) -> Self {
        BatchSizes { lists: 1, batches: 1, rows }
    }
}

enum Rows {
    /// All rows on the device.
    OnDevice([Buffer; 2]),
    /// All rows on the host, and on the device the minibatches of the steps from `first` on.
    OnHost { all: [Vec<f32>; 2], sent: [Buffer; 2], first: u32 },
    /// The minibatches alone: who asks makes them.
    Made { sent: [Buffer; 2], first: u32 },
}

impl Minibatches {
    /// Of inputs and targets `[rows, width]`.
    pub fn new(device: &Device, all: [Vec<f32>; 2], widths: [usize; 2], sizes: BatchSizes) -> Self {
        let bytes = 4.0 * (all[0].len() + all[1].len()) as f64;
        let fits = device.free_memory().is_none_or(|free| bytes <= SHARE * free as f64);
        Self::kept(device, all, widths, sizes, fits)
    }

    /// The same with all rows on the device, or on the host.
    pub fn kept(
        device: &Device,
        all: [Vec<f32>; 2],
        widths: [usize; 2],
        sizes: BatchSizes,
        on_device: bool,
    ) -> Self {
        let batch = sizes.batches * sizes.rows;
        Minibatches {
            rows: all[0].len() / widths[0] / sizes.lists,
            sizes,
            widths,
            all: match on_device {
                true => Rows::OnDevice(all.map(|values| device.adopt(values))),
                false => Rows::OnHost { all, sent: [device.zeros(0), device.zeros(0)], first: 0 },
            },
            indices: device.zeros(batch),
            now: widths.map(|width| device.zeros(batch * width)),
        }
    }

    /// Of lists of so many rows that are kept nowhere, but made as they are needed: [`Minibatches::prepare_made`].
    pub fn made(device: &Device, rows: usize, widths: [usize; 2], sizes: BatchSizes) -> Self {
        let all = Rows::Made { sent: [device.zeros(0), device.zeros(0)], first: 0 };
        Minibatches { rows, all, ..Self::kept(device, [vec![], vec![]], widths, sizes, false) }
    }

    /// Makes ready what the steps `first`, `first` + 1, … will draw of rows that `make` makes, by their numbers.
    pub fn prepare_made(
        &mut self,
        device: &Device,
        stream: Stream,
        (first, steps): (u32, u32),
        make: impl Fn(&[u32]) -> [Vec<f32>; 2],
    ) {
        let indices = self.indices_of(stream, first, steps);
        if let Rows::Made { sent, first: start } = &mut self.all {
            (*sent, *start) = (make(&indices).map(|rows| device.adopt(rows)), first);
        }
    }

    /// The rows that steps will draw.
    fn indices_of(&self, stream: Stream, first: u32, steps: u32) -> Vec<u32> {
        let batch = self.indices.len();
        let mut indices = vec![0; batch * steps as usize];
        let lists = (self.sizes.lists as u32, self.sizes.rows as u32);
        for (step, indices) in (first..).zip(indices.chunks_exact_mut(batch)) {
            uniform_indices_of_lists(stream.key(), step, self.rows as u32, lists, indices);
        }
        indices
    }

    /// Makes ready what the steps `first`, `first` + 1, … will draw.
    pub fn prepare(&mut self, device: &Device, stream: Stream, first: u32, steps: u32) {
        if !matches!(self.all, Rows::OnHost { .. }) {
            return;
        }
        let indices = self.indices_of(stream, first, steps);
        let Rows::OnHost { all, sent, first: start } = &mut self.all else { return };
        for ((sent, all), width) in sent.iter_mut().zip(all).zip(self.widths) {
            let row = |&index: &u32| &all[index as usize * width..][..width];
            *sent = device.adopt(indices.iter().flat_map(row).copied().collect());
        }
        *start = first;
    }

    /// The minibatches of a step.
    pub fn draw(&mut self, device: &Device, stream: Stream, step: &Counter) {
        match &self.all {
            Rows::OnDevice(all) => {
                let lists = (self.sizes.lists, self.sizes.rows);
                let indices = &mut self.indices;
                device.uniform_indices_of_lists((stream, step), self.rows, lists, indices);
                for ((all, width), now) in all.iter().zip(self.widths).zip(&mut self.now) {
                    device.gather(all, width, &self.indices, now);
                }
            }
            Rows::OnHost { sent, first, .. } | Rows::Made { sent, first } => {
                for (sent, now) in sent.iter().zip(&mut self.now) {
                    device.load_since(sent, step, *first, now);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_sent_are_those_that_would_be_drawn() {
        let device = Device::cpu(Some(2)).unwrap();
        let stream = Stream::new(5);
        let all =
            [(0..60).map(|i| i as f32).collect::<Vec<_>>(), (0..20).map(|i| -i as f32).collect()];
        let sizes = BatchSizes { lists: 2, batches: 4, rows: 7 };
        let [mut there, mut here] = [true, false]
            .map(|there| Minibatches::kept(&device, all.clone(), [3, 1], sizes, there));
        let mut made = Minibatches::made(&device, 10, [3, 1], sizes);
        let make = |indices: &[u32]| {
            let rows = |of: usize, width: usize| {
                let row = |&index: &u32| &all[of][index as usize * width..][..width];
                indices.iter().flat_map(row).copied().collect::<Vec<f32>>()
            };
            [rows(0, 3), rows(1, 1)]
        };
        let mut step = device.counter();
        let mut seen = Vec::new();
        for (first, steps) in [(0, 4), (4, 4), (8, 1)] {
            here.prepare(&device, stream, first, steps);
            made.prepare_made(&device, stream, (first, steps), make);
            for _ in 0..steps {
                there.draw(&device, stream, &step);
                here.draw(&device, stream, &step);
                made.draw(&device, stream, &step);
                for ((a, b), c) in there.now.iter().zip(&here.now).zip(&made.now) {
                    assert_eq!(device.download(a).unwrap(), device.download(b).unwrap());
                    assert_eq!(device.download(a).unwrap(), device.download(c).unwrap());
                }
                let now = device.download(&here.now[0]).unwrap();
                for (batch, rows) in now.chunks_exact(7 * 3).enumerate() {
                    let list = |x: f32| (x / 30.0) as usize; // of 10 rows of 3 numbers
                    assert!(rows.iter().all(|&x| list(x) == batch % 2), "batch {batch}: {rows:?}");
                }
                seen.push(now);
                device.advance(&mut step);
            }
        }
        assert!(seen.windows(2).all(|pair| pair[0] != pair[1]), "every step draws anew");
    }
}
