//! Starts the kernels that update parameters: Adam, and SVGD with it.

use crate::backend;
use crate::backend::cuda::{Argument, Cuda, DeviceMemory, Grid, Kernel, Source, launch, lock};
use crate::backend::optimize::HiddenWeights;
use crate::backend::shape::Shape;
use crate::backend::{Adam, Optimizer, Svgd};
use std::sync::Arc;

/// Particles up to whose number the direction and Adam's step are one kernel.
pub(super) const FUSED: usize = 8;
/// Most pairs of particles: two numbers of each are in a block's 48 KiB of shared memory.
const MOST_PAIRS: usize = 48 * 1024 / 16 - 64;
/// Parts in which distances of parameters are summed.
const PARTS: usize = 26;

#[repr(C)]
pub(super) struct AdamNumbers {
    rate: f32,
    beta1: f32,
    beta2: f32,
    epsilon: f32,
    log_beta1: f32,
    log_beta2: f32,
    decay_steps: u32,
}
#[repr(C)]
struct SvgdNumbers {
    length_scale: f32,
    prior: f32,
    scale: f32,
}
/// Where the weights lie that move by Muon, as in `shared.cu`.
#[repr(C)]
pub(super) struct Places {
    count: u32,
    stride: u32,
    momentum: f32,
    offsets: [u32; Shape::DEEPEST],
    inputs: [u32; Shape::DEEPEST],
    outputs: [u32; Shape::DEEPEST],
}

// SAFETY: the same fields in the same order as in `shared.cu` and `optimizers.cu`.
unsafe impl Argument for Places {}
// SAFETY: as above.
unsafe impl Argument for AdamNumbers {}
// SAFETY: as above.
unsafe impl Argument for SvgdNumbers {}

impl From<&Adam> for AdamNumbers {
    fn from(a: &Adam) -> Self {
        AdamNumbers {
            rate: a.rate,
            beta1: a.beta1,
            beta2: a.beta2,
            epsilon: a.epsilon,
            log_beta1: f64::from(a.beta1).ln() as f32,
            log_beta2: f64::from(a.beta2).ln() as f32,
            decay_steps: a.decay_steps.map_or(0, |steps| steps.max(1)),
        }
    }
}

impl Places {
    /// Those of an ensemble whose members are so many parameters apart.
    pub fn new(hidden: &HiddenWeights, stride: usize) -> Self {
        let mut places = Places {
            count: hidden.layers.len() as u32,
            stride: stride as u32,
            momentum: hidden.muon.momentum,
            offsets: [0; Shape::DEEPEST],
            inputs: [0; Shape::DEEPEST],
            outputs: [0; Shape::DEEPEST],
        };
        for (i, layer) in hidden.layers.iter().enumerate() {
            places.offsets[i] = layer.offset as u32;
            places.inputs[i] = layer.inputs as u32;
            places.outputs[i] = layer.outputs as u32;
        }
        places
    }
}

/// Weights of gradients and parameters in the SVGD direction, and what they are computed from.
pub(super) struct SvgdWorkspace {
    members: usize,
    weights: DeviceMemory,
    partials: DeviceMemory,
    ticket: DeviceMemory,
}

impl Cuda {
    pub fn adam(
        &self,
        optimizer: &Optimizer,
        members: usize,
        params: &DeviceMemory,
        gradient: &DeviceMemory,
    ) {
        let n = params.words();
        let (grid, adam) = (Grid::over(n), AdamNumbers::from(&optimizer.adam));
        let places = Places::new(&optimizer.hidden, n / members);
        let (params, gradient) = (params.address, gradient.address);
        let [m, v] = optimizer.moments.each_ref().map(|moment| moment.gpu().address);
        let (step, ticket) = (optimizer.step.0.gpu().address, self.tickets);
        launch!(self, "adam", grid, n as u32, params, gradient, m, v, adam, step, ticket, places);
    }

    /// Leaves the weights of the SVGD direction in the room made for them, and gives their address.
    fn svgd_weights(self: &Arc<Self>, svgd: &Svgd, members: usize, params: &DeviceMemory) -> u64 {
        let mut room = lock(&self.svgd);
        if room.as_ref().is_none_or(|room| room.members != members) {
            let pairs = members * (members - 1) / 2; // as if all saw each other
            *room = Some(SvgdWorkspace {
                members,
                weights: self.zeros(2 * members * members * 4),
                partials: self.zeros(pairs * PARTS * 8),
                ticket: self.zeros(4),
            });
        }
        let Some(room) = &*room else { return 0 };
        let numbers = |length_scale| SvgdNumbers {
            length_scale,
            prior: svgd.prior_temperature,
            scale: svgd.likelihood_scale,
        };
        let length_scale = match svgd.kernel {
            backend::SteinKernel::Rbf { length_scale } => Some(length_scale),
            backend::SteinKernel::Median => Some(0.0),
            backend::SteinKernel::None => None,
        };
        let weights = room.weights.address;
        let groups = svgd.groups;
        match length_scale.filter(|_| members > groups) {
            None => {
                let grid = Grid::over(members * members);
                launch!(self, "svgd_alone", grid, members as u32, numbers(0.0), weights);
            }
            Some(length_scale) => {
                let particles = members / groups;
                let pairs = groups * particles * (particles - 1) / 2;
                if pairs > MOST_PAIRS {
                    self.fail(format!(
                        "{members} particles that see each other are more pairs than a GPU takes ({MOST_PAIRS}); use \
                         --device cpu, or kernel \"none\""
                    ));
                    return weights;
                }
                let n = (params.words() / members) as u32;
                let blocks = [PARTS as u32, pairs as u32, 1];
                let grid = Grid { blocks, threads: 512, shared: 2 * 8 * pairs as u32 };
                let (partials, ticket) = (room.partials.address, room.ticket.address);
                launch!(
                    self,
                    "svgd_weights",
                    grid,
                    n,
                    members as u32,
                    groups as u32,
                    params.address,
                    numbers(length_scale),
                    partials,
                    ticket,
                    weights
                );
            }
        }
        weights
    }

    pub fn svgd_direction(
        self: &Arc<Self>,
        svgd: &Svgd,
        members: usize,
        params: &DeviceMemory,
        gradient: &DeviceMemory,
        out: &DeviceMemory,
    ) {
        let weights = self.svgd_weights(svgd, members, params);
        let n = params.words() / members;
        let (grid, members, groups) = (Grid::over(n), members as u32, svgd.groups as u32);
        let (params, gradient) = (params.address, gradient.address);
        launch!(
            self,
            "svgd_direction",
            grid,
            n as u32,
            members,
            groups,
            params,
            gradient,
            weights,
            out.address
        );
    }

    pub fn svgd_adam(
        self: &Arc<Self>,
        svgd: &Svgd,
        members: usize,
        optimizer: &Optimizer,
        params: &DeviceMemory,
        gradient: &DeviceMemory,
    ) {
        let particles = members / svgd.groups;
        if particles > FUSED {
            let direction = self.allocate(params.bytes);
            self.svgd_direction(svgd, members, params, gradient, &direction);
            self.adam(optimizer, members, params, &direction);
            return self.orthogonal_step(optimizer, members, params);
        }
        let kernel =
            Kernel { name: "svgd_adam", source: Source::Stein { particles: particles as u32 } };
        let weights = self.svgd_weights(svgd, members, params);
        let n = params.words() / members;
        let mut grid = Grid::over(n);
        grid.blocks[1] = svgd.groups as u32;
        let adam = AdamNumbers::from(&optimizer.adam);
        let places = Places::new(&optimizer.hidden, n);
        let (p, g) = (params.address, gradient.address);
        let [m, v] = optimizer.moments.each_ref().map(|moment| moment.gpu().address);
        let (step, ticket) = (optimizer.step.0.gpu().address, self.tickets);
        launch!(self, kernel, grid, n as u32, p, g, m, v, adam, step, ticket, weights, places);
        self.orthogonal_step(optimizer, members, params);
    }

    pub fn clip_norm(&self, limit: f32, values: &DeviceMemory, idle: &DeviceMemory) {
        let members = idle.words();
        let (n, grid) = ((values.words() / members) as u32, Grid::blocks(members));
        launch!(self, "clip_norm", grid, n, values.address, limit, idle.address);
    }
}
