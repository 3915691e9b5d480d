//! What the card can do at best, see `floor.cu`.

use super::{Cuda, Grid, Kernel, Source, launch};
use crate::Result;
use crate::compute::Floor;
use std::sync::Arc;
use std::time::Instant;

const THREADS: u32 = 512;
/// Bytes of a copy in the card's memory, far more than its cache holds.
const COPIED: usize = 1 << 30;
/// Bytes that stay in the cache: about the weights of five networks.
const CACHED: usize = 4 << 20;
/// How often each thing is done.
const TIMES: usize = 64;

impl Cuda {
    pub fn floor(self: &Arc<Self>) -> Result<Floor> {
        let (from, to) = (self.zeros(COPIED), self.zeros(COPIED));
        let counter = self.zeros(4);
        let all = Grid { blocks: [2 * self.multiprocessors, 1, 1], threads: THREADS, shared: 0 };
        let kernel = |name| Kernel { name, source: Source::Floor };
        let seconds = |work: &dyn Fn()| {
            self.repeat(2 * super::stream::RECORDED, work);
            self.check()?;
            let start = Instant::now();
            self.repeat(TIMES, work);
            self.check().map(|()| start.elapsed().as_secs_f64() / TIMES as f64)
        };
        let (numbers, reads) = ((CACHED / 16) as u32, 8u32);
        let rounds = 4096u32;
        let copied = seconds(&|| self.copy(&from, 0, &to, 0, COPIED))?;
        let read = seconds(&|| {
            launch!(self, kernel("floor_read"), all, from.address, numbers, reads, counter.address)
        })?;
        let multiplied = seconds(&|| launch!(self, kernel("floor_multiply"), all, rounds, counter.address))?;
        let counted = seconds(&|| self.count(&counter, 1))?;
        let [blocks, warps] = [all.blocks[0], all.blocks[0] * THREADS / 32].map(f64::from);
        Ok(Floor {
            memory: 2.0 * COPIED as f64 / copied,
            cache: blocks * f64::from(reads) * CACHED as f64 / read,
            products: warps * f64::from(rounds) * 8.0 * f64::from(2 * 16 * 8 * 8) / multiplied,
            kernels: 1.0 / counted,
        })
    }
}
