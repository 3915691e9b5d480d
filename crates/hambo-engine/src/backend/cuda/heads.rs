//! Starts the kernels of `heads.cu`: Gaussian heads of ensembles.

use crate::backend::Gaussian;
use crate::backend::cuda::{Cuda, DeviceMemory, Grid, launch};

/// Most parts in which a sum is taken, and most members that have one.
pub(super) const MOST_PARTS: usize = 256;
pub(super) const MOST_MEMBERS: usize = 1024;
impl Cuda {
    pub fn gaussian_nll(
        &self,
        head: &Gaussian,
        members: usize,
        output: &DeviceMemory,
        targets: &DeviceMemory,
        d_output: Option<(&DeviceMemory, f32)>,
        losses: &DeviceMemory,
    ) {
        let rows = (output.words() / (2 * head.dims * members)) as u32;
        let groups = (targets.words() / head.dims) as u32 / rows;
        let (d_output, weight) = d_output.map_or((0, 0.0), |(d, weight)| (d.address, weight));
        let blocks = (rows as usize * head.dims).div_ceil(256).min(MOST_PARTS) as u32;
        if members > MOST_MEMBERS {
            return self.fail(format!(
                "{members} particles, and a GPU takes {MOST_MEMBERS}; use --device cpu"
            ));
        }
        launch!(
            self,
            "gaussian_nll",
            Grid { blocks: [blocks, members as u32, 1], threads: 256, shared: 0 },
            rows,
            head.dims as u32,
            head.floor,
            output.address,
            targets.address,
            groups,
            d_output,
            weight,
            losses.address,
            self.partials,
            self.tickets
        );
    }

    pub fn moments(
        &self,
        head: &Gaussian,
        members: usize,
        output: &DeviceMemory,
        mean: &DeviceMemory,
        epistemic: &DeviceMemory,
        aleatoric: &DeviceMemory,
    ) {
        let n = mean.words();
        launch!(
            self,
            "moments",
            Grid::over(n),
            (n / head.dims) as u32,
            head.dims as u32,
            head.floor,
            members as u32,
            output.address,
            mean.address,
            epistemic.address,
            aleatoric.address
        );
    }
}
