//! The pathwise adversary: η(s, a) trained by back-propagation through the learned model, the policy, the
//! noise and the reward over the whole horizon.
//!
//! A forward pass keeps the states alone; the backward pass recomputes what it needs step by step, so that
//! memory grows with the horizon only by the size of a state.

use super::adjoint::{Adjoint, Moment};
use crate::compute::{Adam, Buffer, Counter, Device, Input, Shift};
use crate::hallucination::Continuous;
use crate::nn::{Optimiser, Trace};
use crate::rng::Stream;
use crate::rollout::{Propagation, Rollout, World, noise_stream};

/// Trains all restarts of an adversary side by side, each on trajectories of its own.
pub(crate) struct Pathwise<'a> {
    world: &'a World<'a>,
    starts: usize,
    optimiser: Optimiser,
    adjoint: Adjoint,
    adversary_trace: Trace,
    gradient: Buffer,
    step_gradient: Buffer,
    reach: Buffer,
    /// States before every step and after the last, `[horizon + 1, rows, state]`, and what went with them.
    states: Buffer,
    actions: Buffer,
    status: Buffer<u32>,
    // One step of the backward pass.
    s: Buffer,
    a: Buffer,
    next: Buffer,
    running: Buffer<u32>,
    shifts: Buffer,
    noise: Buffer,
    d_next: Buffer,
    d_inputs: Buffer,
    time: Counter,
}

impl<'a> Pathwise<'a> {
    /// Room to train `adversary` on `starts` trajectories a restart.
    pub fn new(world: &'a World<'a>, adversary: &Continuous, starts: usize, adam: Adam) -> Self {
        let World { device, model, setting, .. } = *world;
        let (ds, da, horizon) = (model.state_dim(), model.action_dim(), setting.horizon);
        let networks = &adversary.networks;
        let rows = networks.shape.members * starts;
        let parameters = networks.params.len();
        Pathwise {
            world,
            starts,
            optimiser: Optimiser::new(device, adam, parameters),
            adjoint: Adjoint::new(world, rows),
            adversary_trace: Trace::new(device, &networks.shape, starts),
            gradient: device.zeros(parameters),
            step_gradient: device.zeros(parameters),
            reach: device.upload(&adversary.set.reach),
            states: device.zeros((horizon + 1) * rows * ds),
            actions: device.zeros(horizon * rows * da),
            status: device.zeros(horizon * rows),
            s: device.zeros(rows * ds),
            a: device.zeros(rows * da),
            next: device.zeros(rows * ds),
            running: device.zeros(rows),
            shifts: device.zeros(rows * ds),
            noise: device.zeros(starts * ds),
            d_next: device.zeros(rows * ds),
            d_inputs: device.zeros(rows * (ds + da)),
            time: device.counter(),
        }
    }

    /// One descent step of every restart on its mean return; gives the mean return of each before the step.
    pub fn descend(&mut self, adversary: &mut Continuous, starts: &[f32], stream: Stream) -> Vec<f64> {
        let returns = self.forward(adversary, starts, stream);
        self.backward(adversary, stream);
        let device = self.world.device;
        let networks = &mut adversary.networks;
        device.clip_norm(networks.shape.members, 1.0, &mut self.gradient);
        self.optimiser.step(device, &mut networks.params, &self.gradient);
        returns
    }

    /// dJ/d(parameters) of every restart, for tests.
    #[cfg(test)]
    #[allow(dead_code)]
    pub fn gradient(
        &mut self,
        adversary: &Continuous,
        starts: &[f32],
        stream: Stream,
    ) -> (Vec<f64>, Vec<f32>) {
        let returns = self.forward(adversary, starts, stream);
        self.backward(adversary, stream);
        (returns, self.world.device.download(&self.gradient))
    }

    fn forward(&mut self, adversary: &Continuous, starts: &[f32], stream: Stream) -> Vec<f64> {
        let device = self.world.device;
        let mut rollout = Rollout::new(self.world, Propagation::Shifted(adversary), starts);
        let horizon = self.world.setting.horizon;
        let (states, actions, rows) = (self.s.len(), self.a.len(), self.running.len());
        for t in 0..horizon {
            device.copy_part(&rollout.states, 0, &mut self.states, t * states, states);
            device.copy_part(&rollout.status, 0, &mut self.status, t * rows, rows);
            rollout.step(stream);
            device.copy_part(&rollout.actions, 0, &mut self.actions, t * actions, actions);
        }
        device.copy_part(&rollout.states, 0, &mut self.states, horizon * states, states);
        let returns = rollout.returns(device).values;
        let mean = |group: &[f32]| group.iter().map(|&r| f64::from(r)).sum::<f64>() / group.len() as f64;
        returns.chunks_exact(self.starts).map(mean).collect()
    }

    fn backward(&mut self, adversary: &Continuous, stream: Stream) {
        let device = self.world.device;
        device.fill(&mut self.gradient, 0.0);
        device.fill(&mut self.d_next, 0.0); // no reward follows the last step
        for t in (0..self.world.setting.horizon).rev() {
            self.load(device, t);
            self.back_one_step(adversary, stream, t);
            device.add(&self.step_gradient, &mut self.gradient);
        }
    }

    fn load(&mut self, device: &Device, t: usize) {
        let (states, actions, rows) = (self.s.len(), self.a.len(), self.running.len());
        device.copy_part(&self.states, t * states, &mut self.s, 0, states);
        device.copy_part(&self.states, (t + 1) * states, &mut self.next, 0, states);
        device.copy_part(&self.actions, t * actions, &mut self.a, 0, actions);
        device.copy_part(&self.status, t * rows, &mut self.running, 0, rows);
    }

    /// From dJ/ds' in `d_next` to dJ/ds, left there for the step before, and to the adversary's parameters.
    fn back_one_step(&mut self, adversary: &Continuous, stream: Stream, t: usize) {
        let World { device, model, setting, ref units_in, ref bounds, .. } = *self.world;
        let (ds, da) = (model.state_dim(), model.action_dim());
        // What the step was.
        self.adjoint.recompute(self.world, &self.s, &self.a);
        let own = Input::PerMember(&self.adjoint.inputs);
        adversary.networks.forward(device, own, &mut self.adversary_trace);
        device.copy(self.adversary_trace.output().0, &mut self.shifts);
        device.scale_columns(&self.reach, &mut self.shifts);
        device.set(&mut self.time, t as u32);
        device.normals(noise_stream(stream), &self.time, &mut self.noise);

        // Reward and model.
        let step = Moment {
            s: &self.s,
            a: &self.a,
            next: &self.next,
            running: &self.running,
            shift: Shift { amount: &self.shifts, power: adversary.set.power, noise: &self.noise },
            weight: (setting.discount.powi(t as i32) / self.starts as f64) as f32,
        };
        self.adjoint.back(self.world, &step, &mut self.d_next);

        // η(s, a)
        let Adjoint { inputs, d_shifts, d_s, d_a, .. } = &mut self.adjoint;
        device.scale_columns(&self.reach, d_shifts);
        device.copy(d_shifts, self.adversary_trace.output().1);
        adversary.networks.backward(
            device,
            Input::PerMember(inputs),
            &mut self.adversary_trace,
            Some(&mut self.step_gradient),
            Some(&mut self.d_inputs),
        );
        device.standardize_gradient(&self.d_inputs, &units_in[1], (d_s, ds), (d_a, da));

        // a = π(s)
        device.clamp_gradient(&bounds[0], &bounds[1], &self.a, d_a);
        setting.policy.back(device, &self.s, d_a, d_s);
        device.still_running(&self.running, d_s);
        std::mem::swap(d_s, &mut self.d_next);
    }
}
