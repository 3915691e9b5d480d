//! Starts the kernels of policies that draw their actions.

use super::{Cuda, Grid, Memory, launch};
use crate::compute::sampling::FEATURE_VARIANCE;

impl Cuda {
    pub fn add_scaled_columns(&self, factors: &Memory, from: &Memory, to: &Memory) {
        let (n, width) = (to.words(), factors.words() as u32);
        let (to, from, factors) = (to.address, from.address, factors.address);
        launch!(self, "add_scaled_columns", Grid::over(n), n as u32, to, from, width, factors);
    }

    pub fn deviate_by_logs(&self, dims: usize, output: &Memory, noise: &Memory, values: &Memory) {
        let n = values.words();
        let (output, noise, values) = (output.address, noise.address, values.address);
        launch!(self, "deviate_by_logs", Grid::over(n), n as u32, dims as u32, output, noise, values);
    }

    pub fn deviate_by_logs_gradient(
        &self,
        dims: usize,
        output: &Memory,
        noise: &Memory,
        d_values: &Memory,
        d_output: &Memory,
    ) {
        let n = d_values.words();
        let (kernel, dims, output) = ("deviate_by_logs_gradient", dims as u32, output.address);
        let (noise, d_values, d_output) = (noise.address, d_values.address, d_output.address);
        launch!(self, kernel, Grid::over(n), n as u32, dims, output, noise, d_values, d_output);
    }

    pub fn deviate_by_features(
        &self,
        dims: usize,
        features: &Memory,
        variances: &Memory,
        noise: &Memory,
        values: &Memory,
    ) {
        let n = values.words();
        launch!(
            self,
            "deviate_by_features",
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
