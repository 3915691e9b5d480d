//! Starts the kernels of `moving.cu`: random numbers, counters, rows that are copied or added.

use crate::backend::cuda::{Cuda, DeviceMemory, Grid, launch};

impl Cuda {
    /// counter ← counter + by, where 2³² − 1 counts back.
    pub fn count(&self, counter: &DeviceMemory, by: u32) {
        let one = Grid { blocks: [1, 1, 1], threads: 1, shared: 0 };
        launch!(self, "advance", one, counter.address, by);
    }

    pub fn fill_at(&self, values: &DeviceMemory, step: &DeviceMemory, out: &DeviceMemory) {
        let n = out.words();
        launch!(
            self,
            "fill_at",
            Grid::over(n),
            n as u32,
            out.address,
            values.address,
            step.address
        );
    }

    pub fn load_at(
        &self,
        parts: &DeviceMemory,
        step: &DeviceMemory,
        ahead: usize,
        out: &DeviceMemory,
    ) {
        let n = out.words();
        let (out, parts, step) = (out.address, parts.address, step.address);
        launch!(self, "load_at", Grid::over(n), n as u32, out, parts, step, ahead as u32);
    }

    pub fn store_at(
        &self,
        from: &DeviceMemory,
        step: &DeviceMemory,
        behind: usize,
        start: usize,
        parts: &DeviceMemory,
    ) {
        let n = from.words();
        let (from, step, parts) = (from.address, step.address, parts.address);
        launch!(
            self,
            "store_at",
            Grid::over(n),
            n as u32,
            from,
            step,
            behind as u32,
            start as u64,
            parts
        );
    }

    pub fn gather(
        &self,
        from: &DeviceMemory,
        width: usize,
        indices: &DeviceMemory,
        out: &DeviceMemory,
    ) {
        let n = out.words();
        let grid = Grid::over(n);
        launch!(
            self,
            "gather",
            grid,
            n as u32,
            out.address,
            from.address,
            width as u32,
            indices.address
        );
    }

    pub fn uniform_indices(
        &self,
        key: [u32; 2],
        step: &DeviceMemory,
        below: u32,
        (lists, batch): (u32, u32),
        out: &DeviceMemory,
    ) {
        let n = out.words();
        let grid = Grid::over(n.div_ceil(4));
        launch!(
            self,
            "uniform_indices",
            grid,
            n as u32,
            out.address,
            key[0],
            key[1],
            step.address,
            below,
            lists,
            batch
        );
    }

    pub fn normals(&self, key: [u32; 2], step: &DeviceMemory, out: &DeviceMemory) {
        let n = out.words();
        let grid = Grid::over(n.div_ceil(4));
        launch!(self, "normals", grid, n as u32, out.address, key[0], key[1], step.address);
    }

    pub fn add(&self, from: &DeviceMemory, to: &DeviceMemory) {
        let n = to.words();
        launch!(self, "add", Grid::over(n), n as u32, to.address, from.address);
    }

    pub fn scale_columns(&self, factors: &DeviceMemory, values: &DeviceMemory) {
        let n = values.words();
        let width = factors.words() as u32;
        launch!(
            self,
            "scale_columns",
            Grid::over(n),
            n as u32,
            values.address,
            width,
            factors.address
        );
    }
}
