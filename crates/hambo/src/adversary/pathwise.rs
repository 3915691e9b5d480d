//! The pathwise adversary: η(s, a) trained by back-propagation through the learned model, the policy, the
//! noise and the reward over the whole horizon.
//!
//! A forward pass keeps the states alone; the backward pass recomputes what it needs step by step, so that
//! memory grows with the horizon only by the size of a state.

use super::adjoint::{Adjoint, AdjointStep};
use crate::Result;
use crate::rollout::ShiftAdversary;
use crate::rollout::{
    ObservationBuffers, Propagation, Rollout, World, noise_stream, policy_stream,
};
use hambo_engine::backend::{Adam, Buffer, Counter, Input, Shift};
use hambo_engine::nn::{Optimizer, PassBuffers};
use hambo_engine::rng::Stream;

/// Trains all restarts of an adversary side by side, each on trajectories of its own.
pub(crate) struct Pathwise<'a> {
    world: &'a World<'a>,
    starts: usize,
    optimizer: Optimizer,
    adjoint: Adjoint<'a>,
    observed: ObservationBuffers,
    adversary_trace: PassBuffers,
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
    policy_noise: crate::policy::ActionNoise,
    d_next: Buffer,
    d_inputs: Buffer,
    /// Weight of every step's reward in the mean return.
    weights: Buffer,
    time: Counter,
}

impl<'a> Pathwise<'a> {
    /// Room to train `adversary` on `starts` trajectories a restart.
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
        let parameters = networks.params.len();
        let weights = (0..horizon)
            .map(|t| (setting.discount.powi(t as i32) / starts as f64) as f32)
            .collect();
        Ok(Pathwise {
            world,
            starts,
            optimizer: Optimizer::new(device, adam, parameters),
            adjoint: Adjoint::new(world, rows)?,
            observed: world.observation_buffers(rows),
            adversary_trace: PassBuffers::new(device, &networks.shape, starts),
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
            policy_noise: world.setting.policy.noise(device, rows, rows / starts),
            d_next: device.zeros(rows * ds),
            d_inputs: device.zeros(rows * model.input_dim()),
            weights: device.adopt(weights),
            time: device.counter(),
        })
    }

    /// One descent step of every restart on its mean return; gives the mean return of each before the step.
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
        device.clip_norm(networks.shape.members, 1.0, &mut self.gradient);
        self.optimizer.step(device, &mut networks.params, &self.gradient);
        Ok(returns)
    }

    /// Whether a restart could not move in the last step: its gradient vanished, or overflowed and was dropped.
    pub fn stands_still(&self) -> Result<bool> {
        let gradient = self.world.device.download(&self.gradient)?;
        let each = gradient.len() * self.starts / self.running.len();
        Ok(gradient.chunks_exact(each).any(|restart| restart.iter().all(|&g| g == 0.0)))
    }

    /// Everything of a training that later steps build on, by name; with [`Pathwise::set_steps`] enough to go on.
    pub fn parts<'b>(
        &'b mut self,
        adversary: &'b mut ShiftAdversary,
    ) -> [(&'static str, &'b mut Buffer); 3] {
        let [mean, square] = self.optimizer.moments();
        [("pathwise", &mut adversary.networks.params), ("adam.mean", mean), ("adam.square", square)]
    }

    /// Goes on as if `steps` descent steps had been made.
    pub fn set_steps(&mut self, steps: usize) {
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
                let mut moved = adversary.restart(device, 0);
                moved.networks.shape = adversary.networks.shape.clone();
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
        let returns = rollout.returns(device)?.values;
        let mean =
            |group: &[f32]| group.iter().map(|&r| f64::from(r)).sum::<f64>() / group.len() as f64;
        Ok(returns.chunks_exact(self.starts).map(mean).collect())
    }

    fn backward(&mut self, adversary: &ShiftAdversary, stream: Stream) {
        let device = self.world.device;
        device.fill(&mut self.gradient, 0.0);
        device.fill(&mut self.d_next, 0.0); // no reward follows the last step
        let horizon = self.world.setting.horizon;
        device.set(&mut self.time, horizon as u32);
        self.world.repeat(horizon, || {
            device.retreat(&mut self.time);
            device.load_at(&self.states, &self.time, 0, &mut self.s);
            device.load_at(&self.states, &self.time, 1, &mut self.next);
            device.load_at(&self.actions, &self.time, 0, &mut self.a);
            device.load_at(&self.status, &self.time, 0, &mut self.running);
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

        // Reward and model.
        let step = AdjointStep {
            s: &self.s,
            a: &self.a,
            next: &self.next,
            running: &self.running,
            shift: Shift { amount: &self.shifts, power: adversary.set.power, noise: &self.noise },
            weight: (&self.weights, &self.time),
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
        self.world.inputs_back(&self.s, &mut self.observed, &self.d_inputs, (&mut *d_s, &mut *d_a));

        // a = π(s)
        self.world.act_back(&self.s, &mut self.observed, &self.policy_noise, (&self.a, d_a), d_s);
        device.still_running(&self.running, d_s);
        std::mem::swap(d_s, &mut self.d_next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confidence::ConfidenceSet;
    use crate::data::{Columns, Transitions};
    use crate::dynamics::{Bnn, BnnConfig, Dynamics};
    use crate::policy::Policy;
    use crate::rollout::Setting;
    use crate::run::Run;
    use crate::task::Task;
    use crate::testing::{self, pendulum_data};
    use hambo_engine::backend::Device;
    use std::f64::consts::PI;

    const STARTS: usize = 5;

    fn pendulum() -> (Device, Task, Policy, Bnn, Vec<f32>) {
        let device = Device::cpu(Some(2)).unwrap();
        let policy = Policy::read("builtin:swing-up").unwrap();
        let data = pendulum_data(&device, &policy, 1.0, 600);
        let config =
            BnnConfig { particles: 3, hidden: vec![16, 16], steps: 300, ..Default::default() };
        let model = Bnn::learn(&device, &data, &config, 0, &Run::default()).unwrap();
        let task = testing::pendulum();
        let starts = task.initial.sample(STARTS, &data, Stream::new(4)).unwrap();
        (device, task, policy, model, starts)
    }

    /// dJ/dη through model, noise, policy and reward, over several steps, for both widths of the set and for discounted
    /// rewards.
    #[test]
    fn gradients_are_those_of_finite_differences() {
        let (device, task, policy, model, starts) = pendulum();
        let setting = Setting { task: &task, policy: &policy, horizon: 6, discount: 0.9 };
        let world = World::new(&device, &model, setting);
        for set in [ConfidenceSet::new(&model, 3.0).unwrap(), ConfidenceSet::literal(&model)] {
            let adversary =
                ShiftAdversary::random(&device, &model, &set, 2, &[8], Stream::new(5)).unwrap();
            Pathwise::check_gradient(&world, &adversary, &starts, 1e-2);
        }
    }

    /// The same where the reward is learned and an entry of the state is an angle, which the networks see as cosine
    /// and sine, and which starts anew at ±π.
    #[test]
    fn gradients_go_through_learned_rewards_and_angles() {
        let device = Device::cpu(Some(2)).unwrap();
        let mut generator = Stream::new(9).generator();
        let mut c = Columns { state_dim: 2, action_dim: 2, ..Default::default() };
        for i in 0..600 {
            let (angle, speed) = (generator.range(-3.1, 3.1), generator.range(-2.0, 2.0));
            let a = [generator.range(-1.0, 1.0), generator.range(-1.0, 1.0)];
            let next = [angle + 0.3 * speed, speed + angle.sin() + 0.5 * a[0]];
            c.states.extend([angle, speed].map(|x| x as f32));
            c.next_states
                .extend([(next[0] + PI).rem_euclid(2.0 * PI) - PI, next[1]].map(|x| x as f32));
            c.actions.extend(a.map(|x| x as f32));
            c.rewards.push((angle.cos() - 0.1 * speed * speed + 0.2 * a[1]) as f32);
            c.terminals.push(false);
            c.timeouts.push(i % 20 == 19);
            if i % 20 == 0 {
                c.episode_starts.push(i);
            }
        }
        let data = Transitions::new(c).unwrap();
        let config = BnnConfig {
            particles: 3,
            hidden: vec![16, 16],
            steps: 300,
            angles: vec![0],
            reward: true,
            ..Default::default()
        };
        let model = Bnn::learn(&device, &data, &config, 0, &Run::default()).unwrap();
        assert_eq!(model.layout().angles[0].from, Some(-std::f32::consts::PI));
        let task =
            Task::new("test", [2, 2], "r - 0.1*n[1]^2").unwrap().with_action_bounds(-9.0, 9.0);
        let policy = Policy::read("builtin:proportional,gain=0.7").unwrap();
        let setting = Setting { task: &task, policy: &policy, horizon: 6, discount: 0.9 };
        let world = World::new(&device, &model, setting);
        let set = ConfidenceSet::new(&model, 3.0).unwrap();
        let adversary =
            ShiftAdversary::random(&device, &model, &set, 1, &[8], Stream::new(5)).unwrap();
        let starts = task.initial.sample(STARTS, &data, Stream::new(4)).unwrap();
        Pathwise::check_gradient(&world, &adversary, &starts, 2e-2);
    }

    #[test]
    fn descent_lowers_the_return() {
        let (device, task, policy, model, starts) = pendulum();
        let setting = Setting { task: &task, policy: &policy, horizon: 10, discount: 1.0 };
        let world = World::new(&device, &model, setting);
        let set = ConfidenceSet::new(&model, 3.0).unwrap();
        let mut adversary =
            ShiftAdversary::random(&device, &model, &set, 1, &[16], Stream::new(5)).unwrap();
        let mut pathwise = Pathwise::new(&world, &adversary, STARTS, Adam::constant(1e-2)).unwrap();
        let idle = pathwise.forward(&adversary.idle(&device), &starts, Stream::new(6)).unwrap()[0];
        let values: Vec<f64> = (0..20)
            .map(|_| pathwise.descend(&mut adversary, &starts, Stream::new(6)).unwrap()[0])
            .collect();
        assert!(values[19] < idle && values[19] < values[0], "neutral {idle}, descent {values:?}");
    }
}
