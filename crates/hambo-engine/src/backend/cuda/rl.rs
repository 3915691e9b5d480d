//! Starts the kernels of reinforcement learning in `rl.cu`.

use crate::backend::cuda::{Cuda, DeviceMemory, Grid, launch};
use crate::backend::{SquashedActions, TdTarget};

impl Cuda {
    pub fn squash(
        &self,
        output: &DeviceMemory,
        noise: &DeviceMemory,
        before: &[(&DeviceMemory, usize)],
        joined: &DeviceMemory,
        log_probs: &DeviceMemory,
    ) {
        let rows = log_probs.words();
        let [(a, wa), (b, wb)] = columns(before);
        launch!(
            self,
            "squash",
            Grid::over(32 * rows),
            rows as u32,
            (noise.words() / rows) as u32,
            output.address,
            noise.address,
            a,
            wa,
            b,
            wb,
            joined.address,
            log_probs.address
        );
    }

    pub fn squash_gradient(
        &self,
        drawn: &SquashedActions<'_, DeviceMemory>,
        d_joined: &DeviceMemory,
        log_temperature: &DeviceMemory,
        d_output: &DeviceMemory,
    ) {
        let SquashedActions { rows, output, noise, joined } = *drawn;
        launch!(
            self,
            "squash_gradient",
            Grid::over(noise.words()),
            rows as u32,
            (noise.words() / rows) as u32,
            output.address,
            noise.address,
            joined.address,
            (joined.words() / rows) as u32,
            (d_joined.words() / joined.words()) as u32,
            d_joined.address,
            log_temperature.address,
            d_output.address
        );
    }

    pub fn td_target(&self, of: &TdTarget<'_, DeviceMemory>, targets: &DeviceMemory) {
        let TdTarget { discount, rewards, continues, values, log_probs, log_temperature } = *of;
        let rows = targets.words();
        launch!(
            self,
            "td_target",
            Grid::over(rows),
            rows as u32,
            discount,
            rewards.address,
            continues.address,
            (values.words() / rows) as u32,
            values.address,
            log_probs.address,
            log_temperature.address,
            targets.address
        );
    }

    pub fn squared_error(
        &self,
        values: &DeviceMemory,
        targets: &DeviceMemory,
        d_values: &DeviceMemory,
        losses: &DeviceMemory,
    ) {
        let (rows, critics) = (targets.words() as u32, losses.bytes / 8);
        let (values, targets, d_values) = (values.address, targets.address, d_values.address);
        launch!(
            self,
            "squared_error",
            Grid::blocks(critics),
            rows,
            values,
            targets,
            d_values,
            losses.address
        );
    }

    pub fn actor_loss(
        &self,
        values: &DeviceMemory,
        log_probs: &DeviceMemory,
        log_temperature: &DeviceMemory,
        d_values: &DeviceMemory,
        losses: &DeviceMemory,
    ) {
        let rows = log_probs.words();
        let (temperature, d_values) = (log_temperature.address, d_values.address);
        launch!(
            self,
            "actor_loss",
            Grid::blocks(1),
            rows as u32,
            (values.words() / rows) as u32,
            values.address,
            log_probs.address,
            temperature,
            d_values,
            losses.address
        );
    }

    pub fn temperature_gradient(
        &self,
        target_entropy: f32,
        losses: &DeviceMemory,
        log_temperature: &DeviceMemory,
        gradient: &DeviceMemory,
    ) {
        let one = Grid { blocks: [1, 1, 1], threads: 1, shared: 0 };
        let (losses, temperature) = (losses.address, log_temperature.address);
        launch!(
            self,
            "temperature_gradient",
            one,
            target_entropy,
            losses,
            temperature,
            gradient.address
        );
    }

    pub fn choose(
        &self,
        values: &DeviceMemory,
        options: usize,
        epsilon: f32,
        key: [u32; 2],
        step: &DeviceMemory,
        choices: &DeviceMemory,
    ) {
        let rows = choices.words();
        launch!(
            self,
            "choose",
            Grid::over(rows),
            rows as u32,
            (values.words() / (rows * options)) as u32,
            values.address,
            options as u32,
            epsilon,
            key[0],
            key[1],
            step.address,
            choices.address
        );
    }

    pub fn look_ahead(
        &self,
        scale: f32,
        (discounts, step): (&DeviceMemory, &DeviceMemory),
        [rewards, status]: [&DeviceMemory; 2],
        values: &DeviceMemory,
        options: usize,
        scores: &DeviceMemory,
    ) {
        let n = scores.words();
        launch!(
            self,
            "look_ahead",
            Grid::over(n),
            (n / options) as u32,
            options as u32,
            scale,
            discounts.address,
            step.address,
            rewards.address,
            status.address,
            (values.words() / (n * options)) as u32,
            values.address,
            scores.address
        );
    }

    pub fn double_q_target(
        &self,
        discount: f32,
        [rewards, continues]: [&DeviceMemory; 2],
        [online, target]: [&DeviceMemory; 2],
        options: usize,
        targets: &DeviceMemory,
    ) {
        let rows = targets.words();
        launch!(
            self,
            "double_q_target",
            Grid::over(rows),
            rows as u32,
            options as u32,
            discount,
            rewards.address,
            continues.address,
            (target.words() / (rows * options)) as u32,
            online.address,
            target.address,
            targets.address
        );
    }

    pub fn choice_error(
        &self,
        values: &DeviceMemory,
        choices: &DeviceMemory,
        targets: &DeviceMemory,
        d_values: &DeviceMemory,
        losses: &DeviceMemory,
    ) {
        let (rows, networks) = (targets.words(), losses.bytes / 8);
        launch!(
            self,
            "choice_error",
            Grid::blocks(networks),
            rows as u32,
            (values.words() / (rows * networks)) as u32,
            values.address,
            choices.address,
            targets.address,
            d_values.address,
            losses.address
        );
    }

    pub fn polyak(&self, rate: f32, params: &DeviceMemory, target: &DeviceMemory) {
        let n = target.words();
        launch!(self, "polyak", Grid::over(n), n as u32, target.address, params.address, rate);
    }

    /// The columns of up to three matrices side by side.
    pub fn join(&self, parts: &[(&DeviceMemory, usize)], out: &DeviceMemory) {
        let n = out.words();
        let [(a, wa), (b, wb), (c, wc)] = columns(parts);
        launch!(
            self,
            "join",
            Grid::over(n),
            n as u32,
            out.address,
            wa + wb + wc,
            a,
            wa,
            b,
            wb,
            c,
            wc
        );
    }
}

/// Where up to N matrices are and how wide, as kernels take them; none is 0 wide.
fn columns<const N: usize>(parts: &[(&DeviceMemory, usize)]) -> [(u64, u32); N] {
    let mut columns = [(0, 0); N];
    for (to, (memory, width)) in columns.iter_mut().zip(parts) {
        *to = (memory.address, *width as u32);
    }
    columns
}
