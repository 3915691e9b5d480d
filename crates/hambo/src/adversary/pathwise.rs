//! The pathwise adversary: η(s, a) trained by back-propagation through the learned model, the policy, the
//! noise, the reward and the ends of episodes over the whole horizon.
//!
//! A forward pass keeps the states alone; the backward pass recomputes what it needs step by step, so that
//! memory grows with the horizon only by the size of a state.

use super::adjoint::{Adjoint, AdjointStep};
use super::survival::Survival;
use crate::Result;
use crate::rollout::ShiftAdversary;
use crate::rollout::{
    ObservationBuffers, Propagation, Rollout, Setting, World, noise_stream, policy_stream,
};
use hambo_engine::backend::{Adam, Buffer, Counter, Input, Shift, Status};
use hambo_engine::expression::Program;
use hambo_engine::nn::{Optimizer, PassBuffers};
use hambo_engine::rng::Stream;

/// Trains all restarts of an adversary side by side, each on trajectories of its own.
pub(crate) struct Pathwise<'a> {
    world: &'a World<'a>,
    starts: usize,
    optimizer: Optimizer,
    adjoint: Adjoint<'a>,
    /// What ends are worth; none: they have no gradient.
    survival: Option<Survival>,
    observed: ObservationBuffers,
    adversary_trace: PassBuffers,
    gradient: Buffer,
    /// Steps since [`Pathwise::count_anew`] that each restart did not take.
    idle: Buffer,
    steps: usize,
    step_gradient: Buffer,
    reach: Buffer,
    /// States before every step and after the last, `[horizon + 1, rows, state]`, and what went with them.
    states: Buffer,
    status: Buffer<u32>,
    actions: Buffer,
    // One step of the backward pass.
    s: Buffer,
    a: Buffer,
    next: Buffer,
    running: Buffer<u32>,
    shifts: Buffer,
    noise: Buffer,
    policy_noise: crate::policy::ActionNoise,
    d_next: Buffer,
    d_inputs: Buffer,
    /// Weight of every step's reward in the mean return.
    weights: Buffer,
    /// Where only the worst trajectories count: `Running` for those.
    among_worst: Option<Buffer<u32>>,
    time: Counter,
}

impl<'a> Pathwise<'a> {
    /// Room to train `adversary` on `starts` trajectories a network.
    pub fn new(
        world: &'a World<'a>,
        adversary: &ShiftAdversary,
        starts: usize,
        adam: Adam,
    ) -> Result<Self> {
        let World { device, model, setting, .. } = *world;
        let (ds, da, horizon) = (model.state_dim(), model.action_dim(), setting.horizon);
        let networks = &adversary.networks;
        let rows = networks.shape.members * starts;
        let folds = model.folds();
        let noisy = world.noise_rows(folds * starts, adversary.restarts(folds));
        let parameters = networks.params.len();
        let pathwise = Pathwise {
            world,
            starts,
            optimizer: Optimizer::new(device, adam, parameters),
            adjoint: Adjoint::new(world, rows)?,
            survival: None,
            observed: world.observation_buffers(rows),
            adversary_trace: PassBuffers::new(device, &networks.shape, starts),
            gradient: device.zeros(parameters),
            idle: device.zeros(networks.shape.members),
            steps: 0,
            step_gradient: device.zeros(parameters),
            reach: device.upload(&adversary.set.reach),
            states: device.zeros((horizon + 1) * rows * ds),
            status: device.zeros((horizon + 1) * rows),
            actions: device.zeros(horizon * rows * da),
            s: device.zeros(rows * ds),
            a: device.zeros(rows * da),
            next: device.zeros(rows * ds),
            running: device.zeros(rows),
            shifts: device.zeros(rows * ds),
            noise: device.zeros(noisy * ds),
            policy_noise: world.setting.policy.noise(device, rows, rows / noisy),
            d_next: device.zeros(rows * ds),
            d_inputs: device.zeros(rows * model.input_dim()),
            weights: device.zeros(horizon),
            among_worst: setting.tail.map(|_| device.zeros(rows)),
            time: device.counter(),
        };
        Ok(pathwise.in_units_of(1.0))
    }

    /// With ends that have the gradient of this probability.
    pub fn with_soft_termination(mut self, end: Option<Program>) -> Self {
        let (rows, device) = (self.running.len(), self.world.device);
        self.survival = end.map(|end| Survival::new(device, end, (rows / self.starts, rows)));
        self
    }

    /// Descends on returns in this unit, so that the unit of rewards does not matter to how long a gradient is.
    pub fn in_units_of(mut self, unit: f64) -> Self {
        let Setting { discount, horizon, tail, .. } = self.world.setting;
        let count = self.starts as f64 * tail.map_or(1.0, |tail| tail.share);
        let weight = |t: usize| (discount.powi(t as i32) / count / unit) as f32;
        self.weights = self.world.device.adopt((0..horizon).map(weight).collect());
        self
    }

    /// One descent step of every network on its mean return from `starts`, those of each fold together; gives the mean
    /// return of each before the step.
    pub fn descend(
        &mut self,
        adversary: &mut ShiftAdversary,
        starts: &[f32],
        stream: Stream,
    ) -> Result<Vec<f64>> {
        let returns = self.forward(adversary, starts, stream)?;
        self.backward(adversary, stream);
        let device = self.world.device;
        let networks = &mut adversary.networks;
        device.clip_norm(networks.shape.members, 1.0, &mut self.gradient, &mut self.idle);
        self.steps += 1;
        self.optimizer.step(device, &mut networks.params, &self.gradient);
        Ok(returns)
    }

    /// Whether a restart could not move in the last step, or in more than half of those since [`Pathwise::count_anew`]: its
    /// gradient vanished, or overflowed and was dropped.
    pub fn stands_still(&self) -> Result<bool> {
        let idle = self.world.device.download(&self.idle)?;
        if idle.iter().any(|&steps| 2.0 * steps > self.steps as f32) {
            return Ok(true);
        }
        let gradient = self.world.device.download(&self.gradient)?;
        let each = gradient.len() * self.starts / self.running.len();
        Ok(gradient.chunks_exact(each).any(|restart| restart.iter().all(|&g| g == 0.0)))
    }

    /// Forgets which steps were not taken so far.
    pub fn count_anew(&mut self) {
        self.world.device.fill(&mut self.idle, 0.0);
        self.steps = 0;
    }

    /// Everything of a training that later steps build on, by name; with [`Pathwise::set_steps`] enough to go on.
    pub fn parts<'b>(
        &'b mut self,
        adversary: &'b mut ShiftAdversary,
    ) -> [(&'static str, &'b mut Buffer); 4] {
        let [mean, square] = self.optimizer.moments();
        [
            ("pathwise", &mut adversary.networks.params),
            ("adam.mean", mean),
            ("adam.square", square),
            ("pathwise.idle", &mut self.idle),
        ]
    }

    /// Goes on as if `steps` descent steps had been made, the last of them, `since`, after [`Pathwise::count_anew`].
    pub fn set_steps(&mut self, steps: usize, since: usize) {
        self.steps = since;
        self.optimizer.set_steps(self.world.device, steps as u32);
    }

    /// Fails unless dJ/d(parameters) of every restart is that of central differences along the gradient itself, `h`
    /// long on either side; J is of trajectories from `starts` `[rows, state]`.
    #[cfg(test)]
    pub fn check_gradient(
        world: &'a World<'a>,
        adversary: &ShiftAdversary,
        starts: &[f32],
        h: f64,
    ) {
        let (device, stream, restarts) =
            (world.device, Stream::new(6), adversary.networks.shape.members);
        let rows = starts.len() / world.model.layout().observed;
        let mut pathwise = Pathwise::new(world, adversary, rows, Adam::constant(1e-3)).unwrap();
        pathwise.forward(adversary, starts, stream).unwrap();
        pathwise.backward(adversary, stream);
        let gradient = device.download(&pathwise.gradient).unwrap();
        let n = gradient.len() / restarts;
        for (restart, g) in gradient.chunks_exact(n).enumerate() {
            let norm = g.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
            let mut value = |h: f64| {
                let mut params = device.download(&adversary.networks.params).unwrap();
                let moved = params[restart * n..].iter_mut().zip(g);
                moved.for_each(|(p, g)| *p += (h * f64::from(*g) / norm) as f32);
                let mut moved = adversary.within(device, &adversary.set);
                moved.networks.params = device.adopt(params);
                pathwise.forward(&moved, starts, stream).unwrap()[restart]
            };
            let difference = (value(h) - value(-h)) / (2.0 * h);
            let set = &adversary.set;
            assert!(
                (difference / norm - 1.0).abs() < 0.02,
                "{difference} instead of {norm}, {set:?}"
            );
        }
    }

    fn forward(
        &mut self,
        adversary: &ShiftAdversary,
        starts: &[f32],
        stream: Stream,
    ) -> Result<Vec<f64>> {
        let device = self.world.device;
        let mut rollout = Rollout::new(self.world, Propagation::Shifted(adversary), starts);
        self.world.repeat(self.world.setting.horizon, || {
            device.store_at(&rollout.states, &rollout.time, 0, 0, &mut self.states);
            device.store_at(&rollout.status, &rollout.time, 0, 0, &mut self.status);
            rollout.step(stream);
            device.store_at(&rollout.actions, &rollout.time, 1, 0, &mut self.actions);
        });
        device.store_at(&rollout.states, &rollout.time, 0, 0, &mut self.states);
        device.store_at(&rollout.status, &rollout.time, 0, 0, &mut self.status);
        let returns = rollout.returns(device)?;
        let tail = self.world.setting.tail;
        if let (Some(tail), Some(among)) = (tail, &mut self.among_worst) {
            let status = |&r: &f32| match f64::from(r) < tail.below {
                true => Status::Running as u32,
                false => Status::Ended as u32,
            };
            *among = device.adopt(returns.values.iter().map(status).collect());
        }
        let returns = returns.valued(tail).values;
        let mean =
            |group: &[f32]| group.iter().map(|&r| f64::from(r)).sum::<f64>() / group.len() as f64;
        Ok(returns.chunks_exact(self.starts).map(mean).collect())
    }

    fn backward(&mut self, adversary: &ShiftAdversary, stream: Stream) {
        let device = self.world.device;
        device.fill(&mut self.gradient, 0.0);
        device.fill(&mut self.d_next, 0.0); // no reward follows the last step
        self.survival.iter_mut().for_each(|survival| survival.begin(device));
        let horizon = self.world.setting.horizon;
        device.set(&mut self.time, horizon as u32);
        self.world.repeat(horizon, || {
            device.retreat(&mut self.time);
            device.load_at(&self.states, &self.time, 0, &mut self.s);
            device.load_at(&self.states, &self.time, 1, &mut self.next);
            device.load_at(&self.actions, &self.time, 0, &mut self.a);
            device.load_at(&self.status, &self.time, 0, &mut self.running);
            if let Some(survival) = &mut self.survival {
                device.load_at(&self.status, &self.time, 1, &mut survival.goes_on);
            }
            self.back_one_step(adversary, stream);
            device.add(&self.step_gradient, &mut self.gradient);
        });
    }

    /// From dJ/ds' in `d_next` to dJ/ds, left there for the step before, and to the adversary's parameters.
    fn back_one_step(&mut self, adversary: &ShiftAdversary, stream: Stream) {
        let device = self.world.device;
        // What the step was.
        self.adjoint.recompute(self.world, &self.s, &self.a);
        let own = Input::PerMember(&self.adjoint.inputs);
        adversary.networks.forward(device, own, &mut self.adversary_trace);
        device.copy(self.adversary_trace.output().0, &mut self.shifts);
        device.scale_columns(&self.reach, &mut self.shifts);
        device.normals(noise_stream(stream), &self.time, &mut self.noise);
        self.policy_noise.draw(device, policy_stream(stream), &self.time);

        // Reward, end and model.
        let weight = (&self.weights, &self.time);
        if let Some(survival) = &mut self.survival {
            survival.back(self.world, [&self.s, &self.a, &self.next], &self.running, weight);
        }
        let step = AdjointStep {
            s: &self.s,
            a: &self.a,
            next: &self.next,
            running: &self.running,
            shift: Shift { amount: &self.shifts, power: adversary.set.power, noise: &self.noise },
            weight,
            end: self.survival.as_ref().map(|survival| (&survival.end, &survival.d_end)),
        };
        self.adjoint.back(self.world, &step, &mut self.d_next);

        // η(s, a)
        let Adjoint { inputs, d_shifts, d_s, d_a, .. } = &mut self.adjoint;
        device.scale_columns(&self.reach, d_shifts);
        // The others' returns count for the same whatever they are.
        if let Some(among) = &self.among_worst {
            device.still_running(among, d_shifts);
        }
        device.copy(d_shifts, self.adversary_trace.output().1);
        adversary.networks.backward(
            device,
            Input::PerMember(inputs),
            &mut self.adversary_trace,
            Some(&mut self.step_gradient),
            Some(&mut self.d_inputs),
        );
        self.world.inputs_back(&self.s, &mut self.observed, &self.d_inputs, (&mut *d_s, &mut *d_a));

        // a = π(s)
        self.world.act_back(&self.s, &mut self.observed, &self.policy_noise, (&self.a, d_a), d_s);
        device.still_running(&self.running, d_s);
        std::mem::swap(d_s, &mut self.d_next);
    }
}

#[cfg(test)]
mod tests;
