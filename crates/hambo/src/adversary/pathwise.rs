//! The pathwise adversary: η(s, a) trained by back-propagation through the learned model, the policy, the
//! noise and the reward over the whole horizon.
//!
//! A forward pass keeps the states alone; the backward pass recomputes what it needs step by step, so that
//! memory grows with the horizon only by the size of a state.

use crate::compute::{Adam, Buffer, Counter, Device, Input, Shift};
use crate::hallucination::Continuous;
use crate::nn::{Optimiser, Trace};
use crate::rng::Stream;
use crate::rollout::{Propagation, Rollout, World, noise_stream};

/// Trains all restarts of an adversary side by side, each on trajectories of its own.
pub(crate) struct Pathwise<'a> {
    world: &'a World<'a>,
    starts: usize,
    horizon: usize,
    optimiser: Optimiser,
    model_trace: Trace,
    adversary_trace: Trace,
    gradient: Buffer,
    step_gradient: Buffer,
    /// States before every step and after the last, `[horizon + 1, rows, state]`, and what went with them.
    states: Buffer,
    actions: Buffer,
    status: Buffer<u32>,
    reach: Buffer,
    // One step of the backward pass.
    s: Buffer,
    a: Buffer,
    n: Buffer,
    running: Buffer<u32>,
    inputs: Buffer,
    shifts: Buffer,
    noise: Buffer,
    weights: Buffer,
    d_s: Buffer,
    d_a: Buffer,
    d_n: Buffer,
    d_shifts: Buffer,
    d_inputs: Buffer,
    d_adversary_inputs: Buffer,
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
            horizon,
            optimiser: Optimiser::new(device, adam, parameters),
            model_trace: Trace::new(device, &model.ensemble().shape, rows),
            adversary_trace: Trace::new(device, &networks.shape, starts),
            gradient: device.zeros(parameters),
            step_gradient: device.zeros(parameters),
            states: device.zeros((horizon + 1) * rows * ds),
            actions: device.zeros(horizon * rows * da),
            status: device.zeros(horizon * rows),
            reach: device.upload(&adversary.set.reach),
            s: device.zeros(rows * ds),
            a: device.zeros(rows * da),
            n: device.zeros(rows * ds),
            running: device.zeros(rows),
            inputs: device.zeros(rows * (ds + da)),
            shifts: device.zeros(rows * ds),
            noise: device.zeros(starts * ds),
            weights: device.zeros(rows),
            d_s: device.zeros(rows * ds),
            d_a: device.zeros(rows * da),
            d_n: device.zeros(rows * ds),
            d_shifts: device.zeros(rows * ds),
            d_inputs: device.zeros(model.particles() * rows * (ds + da)),
            d_adversary_inputs: device.zeros(rows * (ds + da)),
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
        let (states, actions, rows) = (self.s.len(), self.a.len(), self.running.len());
        for t in 0..self.horizon {
            device.copy_part(&rollout.states, 0, &mut self.states, t * states, states);
            device.copy_part(&rollout.status, 0, &mut self.status, t * rows, rows);
            rollout.step(stream);
            device.copy_part(&rollout.actions, 0, &mut self.actions, t * actions, actions);
        }
        device.copy_part(&rollout.states, 0, &mut self.states, self.horizon * states, states);
        let returns = rollout.returns(device).values;
        let mean = |group: &[f32]| group.iter().map(|&r| f64::from(r)).sum::<f64>() / group.len() as f64;
        returns.chunks_exact(self.starts).map(mean).collect()
    }

    fn backward(&mut self, adversary: &Continuous, stream: Stream) {
        let device = self.world.device;
        device.fill(&mut self.gradient, 0.0);
        device.fill(&mut self.d_n, 0.0); // no reward follows the last step
        for t in (0..self.horizon).rev() {
            self.load(device, t);
            self.recompute(adversary, stream, t);
            self.back_one_step(adversary, t);
            device.add(&self.step_gradient, &mut self.gradient);
        }
    }

    fn load(&mut self, device: &Device, t: usize) {
        let (states, actions, rows) = (self.s.len(), self.a.len(), self.running.len());
        device.copy_part(&self.states, t * states, &mut self.s, 0, states);
        device.copy_part(&self.states, (t + 1) * states, &mut self.n, 0, states);
        device.copy_part(&self.actions, t * actions, &mut self.a, 0, actions);
        device.copy_part(&self.status, t * rows, &mut self.running, 0, rows);
    }

    /// The forward pass of step t once more, this time keeping the activations.
    fn recompute(&mut self, adversary: &Continuous, stream: Stream, t: usize) {
        let World { device, model, .. } = *self.world;
        self.world.inputs(&self.s, &self.a, &mut self.inputs);
        model.ensemble().forward(device, Input::Shared(&self.inputs), &mut self.model_trace);
        let own = Input::PerMember(&self.inputs);
        adversary.networks.forward(device, own, &mut self.adversary_trace);
        device.copy(self.adversary_trace.output().0, &mut self.shifts);
        device.scale_columns(&self.reach, &mut self.shifts);
        device.set(&mut self.time, t as u32);
        device.normals(noise_stream(stream), &self.time, &mut self.noise);
    }

    /// From dJ/ds' in `d_n` to dJ/ds, left in `d_n` for the step before, and to the adversary's parameters.
    fn back_one_step(&mut self, adversary: &Continuous, t: usize) {
        let World { device, model, setting, ref units_in, ref units_out, ref bounds } = *self.world;
        let (ds, da) = (model.state_dim(), model.action_dim());
        device.fill(&mut self.d_s, 0.0);
        device.fill(&mut self.d_a, 0.0);

        // r(s, a, s')
        device.fill(&mut self.weights, (setting.discount.powi(t as i32) / self.starts as f64) as f32);
        device.tame_rows(&self.running, f32::MAX, &mut self.weights);
        device.evaluate_gradient(
            &setting.task.reward,
            [&self.s, &self.a, &self.n],
            &self.weights,
            [&mut self.d_s, &mut self.d_a, &mut self.d_n],
        );
        device.tame_rows(&self.running, f32::MAX, &mut self.d_n);

        // s' = s + offset + scale (μ + shift σ_e + σ_a ε)
        let power = adversary.set.power;
        let shift = Shift { amount: &self.shifts, power, noise: &self.noise };
        let (output, d_output) = self.model_trace.output();
        let members = model.particles();
        let scale = &units_out[0];
        device.shift_gradient(
            model.head(),
            members,
            &shift,
            output,
            scale,
            &self.d_n,
            d_output,
            &mut self.d_shifts,
        );
        device.scale_columns(&self.reach, &mut self.d_shifts);
        device.copy(&self.d_shifts, self.adversary_trace.output().1);
        let shared = Input::Shared(&self.inputs);
        model.ensemble().backward(device, shared, &mut self.model_trace, None, Some(&mut self.d_inputs));
        adversary.networks.backward(
            device,
            Input::PerMember(&self.inputs),
            &mut self.adversary_trace,
            Some(&mut self.step_gradient),
            Some(&mut self.d_adversary_inputs),
        );
        for d_inputs in [&self.d_inputs, &self.d_adversary_inputs] {
            device.standardize_gradient(d_inputs, &units_in[1], (&mut self.d_s, ds), (&mut self.d_a, da));
        }
        if model.relative() {
            device.add(&self.d_n, &mut self.d_s);
        }

        // a = π(s)
        device.clamp_gradient(&bounds[0], &bounds[1], &self.a, &mut self.d_a);
        setting.policy.back(device, &self.s, &self.d_a, &mut self.d_s);
        device.tame_rows(&self.running, f32::MAX, &mut self.d_s);
        std::mem::swap(&mut self.d_s, &mut self.d_n);
    }
}
