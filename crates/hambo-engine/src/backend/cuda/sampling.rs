//! Starts the kernels of policies that draw their actions.

use crate::backend::cuda::{Cuda, DeviceMemory, Grid, launch};
use crate::backend::sampling::FEATURE_VARIANCE;

impl Cuda {
    pub fn add_scaled_columns(
        &self,
        factors: &DeviceMemory,
        from: &DeviceMemory,
        to: &DeviceMemory,
    ) {
        let (n, width) = (to.words(), factors.words() as u32);
        let (to, from, factors) = (to.address, from.address, factors.address);
        launch!(self, "add_scaled_columns", Grid::over(n), n as u32, to, from, width, factors);
    }

    pub fn sample_gaussian(
        &self,
        dims: usize,
        output: &DeviceMemory,
        noise: &DeviceMemory,
        values: &DeviceMemory,
    ) {
        let n = values.words();
        let (output, noise, values) = (output.address, noise.address, values.address);
        launch!(
            self,
            "sample_gaussian",
            Grid::over(n),
            n as u32,
            dims as u32,
            output,
            noise,
            values
        );
    }

    pub fn sample_gaussian_gradient(
        &self,
        dims: usize,
        output: &DeviceMemory,
        noise: &DeviceMemory,
        d_values: &DeviceMemory,
        d_output: &DeviceMemory,
    ) {
        let n = d_values.words();
        let (kernel, dims, output) = ("sample_gaussian_gradient", dims as u32, output.address);
        let (noise, d_values, d_output) = (noise.address, d_values.address, d_output.address);
        launch!(self, kernel, Grid::over(n), n as u32, dims, output, noise, d_values, d_output);
    }

    pub fn sample_gsde(
        &self,
        dims: usize,
        features: &DeviceMemory,
        variances: &DeviceMemory,
        noise: &DeviceMemory,
        values: &DeviceMemory,
    ) {
        let n = values.words();
        launch!(
            self,
            "sample_gsde",
            Grid::over(n),
            n as u32,
            dims as u32,
            (variances.words() / dims) as u32,
            features.address,
            variances.address,
            FEATURE_VARIANCE,
            noise.address,
            values.address
        );
    }
}
