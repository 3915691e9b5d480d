//! Model, task and policy on a device, and what one step of a trajectory asks of them.

use super::Setting;
use crate::dynamics::{Dynamics, Frame};
use crate::policy::ActionNoise;
use hambo_engine::backend::{Buffer, Device, Exit, Limits, Prediction, Step};
use hambo_engine::expression::Program;

/// Model, task and policy with what they need on the device.
pub(crate) struct World<'a> {
    pub device: &'a Device,
    pub model: &'a dyn Dynamics,
    pub setting: Setting<'a>,
    /// Mean and deviation of the networks' inputs.
    pub units_in: [Buffer; 2],
    /// Scale and offset of their outputs.
    pub units_out: [Buffer; 2],
    /// Smallest and largest action.
    pub bounds: [Buffer; 2],
    policy_keeps_to_bounds: bool,
    /// The task's reward, of states as they are carried.
    pub reward: Program,
    /// And what ends an episode.
    pub termination: Option<Program>,
    /// Smallest and largest value of what trajectories carry.
    range: [Buffer; 2],
    /// γ + γ² + … over the steps that remain after each step.
    pub(super) remaining: Buffer,
    /// γᵗ and t / T of every step.
    pub discounts: Buffer,
    pub(super) fractions: Buffer,
    /// (t + 1) / T
    pub(super) next_fractions: Buffer,
    /// What the value of the next state counts in a look ahead: γ, and 0 after the last step.
    pub(super) next_discounts: Buffer,
    pub(super) nothing: Buffer,
}

/// Room for what is seen of the states of some trajectories; empty where they are seen as they are.
pub(crate) struct ObservationBuffers {
    observation: Buffer,
    features: Buffer,
    pub(super) wrapped: Buffer,
    d_observation: Buffer,
    d_features: Buffer,
}

impl<'a> World<'a> {
    pub fn new(device: &'a Device, model: &'a dyn Dynamics, setting: Setting<'a>) -> Self {
        let over_steps = |value: &dyn Fn(usize) -> f64| {
            (0..=setting.horizon).map(|t| value(t) as f32).collect::<Vec<f32>>()
        };
        let Frame { inputs, targets, range, .. } = model.frame();
        let limit = |side: usize, none: f32| {
            device
                .adopt(range.iter().map(|range| range.map_or(none, |range| range[side])).collect())
        };
        let remaining = |t: usize| {
            (1..setting.horizon.saturating_sub(t)).map(|k| setting.discount.powi(k as i32)).sum()
        };
        World {
            device,
            model,
            setting,
            units_in: [device.upload(&inputs.mean), device.upload(&inputs.std)],
            units_out: [device.upload(&targets.std), device.upload(&targets.mean)],
            bounds: [
                device.upload(&setting.task.action_low),
                device.upload(&setting.task.action_high),
            ],
            policy_keeps_to_bounds: setting
                .policy
                .keeps_to(&setting.task.action_low, &setting.task.action_high),
            reward: setting.task.reward.widened(model.state_dim()),
            termination: setting.task.termination.as_ref().map(|t| t.widened(model.state_dim())),
            range: [limit(0, f32::NEG_INFINITY), limit(1, f32::INFINITY)],
            remaining: device.adopt(over_steps(&remaining)),
            discounts: device.adopt(over_steps(&|t| setting.discount.powi(t as i32))),
            fractions: device.adopt(over_steps(&|t| (t as f32 / setting.horizon as f32).into())),
            next_fractions: device
                .adopt(over_steps(&|t| ((t + 1) as f32 / setting.horizon as f32).into())),
            next_discounts: device.adopt(over_steps(&|t| match t + 1 < setting.horizon {
                true => setting.discount,
                false => 0.0,
            })),
            nothing: device.zeros(0),
        }
    }

    /// The same for adversaries that do not look at the time: they see 0 of it, and every step has one after it.
    pub fn timeless(mut self) -> Self {
        let (device, discount) = (self.device, self.setting.discount);
        device.fill(&mut self.fractions, 0.0);
        device.fill(&mut self.next_fractions, 0.0);
        device.fill(&mut self.next_discounts, discount as f32);
        self
    }

    /// The same for short rollouts from anywhere in an episode: one that leaves the range of the logs gets the worst reward
    /// for all the steps of an episode.
    pub fn far_from_the_end(mut self) -> Self {
        let all = self.setting.total_weight() - 1.0;
        self.device.fill(&mut self.remaining, all as f32);
        self
    }

    /// Whether no gradient tells how to lower returns: they depend on where states go, but only in steps; or the model has
    /// none. With the softened termination, where that is looked at, to end or not to end an episode has a gradient.
    pub fn lacks_gradient(&self, soft_termination: Option<&Program>) -> bool {
        let reward = &self.reward;
        let depends = reward.uses_state() || reward.uses_action() || reward.uses_next_state();
        let in_steps = !reward.has_gradient() && (depends || self.termination.is_some());
        (in_steps && soft_termination.is_none()) || self.model.pass(self.device, 1).is_none()
    }

    /// Takes steps, recorded and replayed where that is possible: policy, model and task must be on the device.
    pub fn repeat(&self, times: usize, mut step: impl FnMut()) {
        let Setting { policy, task, .. } = self.setting;
        match policy.on_device() && self.model.on_device(self.device) && !task.calls_functions() {
            true => self.device.repeat(times, step),
            false => (0..times).for_each(|_| step()),
        }
    }

    /// Different rows of noise of so many starts, which all methods share; restarts are compared on fewer, the same for
    /// each.
    pub fn noise_rows(&self, starts: usize, restarts: usize) -> usize {
        if restarts > 1 { starts / self.model.folds() } else { starts }
    }

    /// Room to see that many states.
    pub fn observation_buffers(&self, rows: usize) -> ObservationBuffers {
        let views = &self.model.frame().views;
        let room = |view: &Option<Program>| {
            self.device.zeros(view.as_ref().map_or(0, |program| rows * program.outputs().len()))
        };
        ObservationBuffers {
            observation: room(&views.observation),
            features: room(&views.features),
            wrapped: room(&views.wrapped),
            d_observation: room(&views.observation),
            d_features: room(&views.features),
        }
    }

    /// a = π(s), within the bounds; with the policy's luck of the step, or its mean.
    pub fn act(
        &self,
        states: &Buffer,
        observed: &mut ObservationBuffers,
        noise: Option<&ActionNoise>,
        actions: &mut Buffer,
    ) {
        let seen =
            self.see(&self.model.frame().views.observation, states, &mut observed.observation);
        match noise {
            Some(noise) => self.setting.policy.sample(self.device, seen, noise, actions),
            None => self.setting.policy.act(self.device, seen, actions),
        }
        if !self.policy_keeps_to_bounds {
            self.device.clamp(&self.bounds[0], &self.bounds[1], actions);
        }
    }

    /// observations `[rows, observed]` ← what policies see of the states
    pub fn observe(&self, states: &Buffer, observations: &mut Buffer) {
        match &self.model.frame().views.observation {
            None => self.device.copy(states, observations),
            Some(view) => {
                self.device.evaluate(view, states, &self.nothing, &self.nothing, observations);
            }
        }
    }

    /// Back through [`World::act`], whose result was `actions`: adds to `d_states`.
    pub fn act_back(
        &self,
        states: &Buffer,
        observed: &mut ObservationBuffers,
        noise: &ActionNoise,
        (actions, d_actions): (&Buffer, &mut Buffer),
        d_states: &mut Buffer,
    ) {
        let (device, policy) = (self.device, self.setting.policy);
        device.clamp_gradient(&self.bounds[0], &self.bounds[1], actions, d_actions);
        let Some(observation) = &self.model.frame().views.observation else {
            return policy.sample_backward(device, states, noise, d_actions, d_states);
        };
        device.evaluate(
            observation,
            states,
            &self.nothing,
            &self.nothing,
            &mut observed.observation,
        );
        device.fill(&mut observed.d_observation, 0.0);
        policy.sample_backward(
            device,
            &observed.observation,
            noise,
            d_actions,
            &mut observed.d_observation,
        );
        self.see_back(observation, states, &observed.d_observation, d_states);
    }

    /// The networks' inputs: (s, a) standardized, with angles embedded.
    pub fn inputs(
        &self,
        states: &Buffer,
        actions: &Buffer,
        observed: &mut ObservationBuffers,
        inputs: &mut Buffer,
    ) {
        let [mean, std] = &self.units_in;
        let seen = self.see(&self.model.frame().views.features, states, &mut observed.features);
        let widths = (self.model.layout().features(), self.model.action_dim());
        self.device.standardize((seen, widths.0), (actions, widths.1), mean, std, inputs);
    }

    /// Back through [`World::inputs`] for one or more networks: adds to `d_states` and `d_actions`.
    pub fn inputs_back(
        &self,
        states: &Buffer,
        observed: &mut ObservationBuffers,
        d_inputs: &Buffer,
        (d_states, d_actions): (&mut Buffer, &mut Buffer),
    ) {
        let (device, std) = (self.device, &self.units_in[1]);
        let widths = (self.model.layout().features(), self.model.action_dim());
        let Some(features) = &self.model.frame().views.features else {
            return device.standardize_gradient(
                d_inputs,
                std,
                (d_states, widths.0),
                (d_actions, widths.1),
            );
        };
        let d_seen = &mut observed.d_features;
        device.fill(d_seen, 0.0);
        device.standardize_gradient(d_inputs, std, (&mut *d_seen, widths.0), (d_actions, widths.1));
        self.see_back(features, states, d_seen, d_states);
    }

    /// What the networks' outputs say of the next states.
    pub fn prediction<'b>(&'b self, output: &'b Buffer) -> Prediction<'b> {
        let (model, [scale, offset]) = (self.model, &self.units_out);
        let (members, relative) = (model.members(), model.frame().relative());
        let (head, limits) = (model.head(), Some(self.limits()));
        Prediction { head, members, output, scale, offset, relative, limits }
    }

    fn limits(&self) -> Limits<'_> {
        let [low, high] = &self.range;
        Limits { low, high, sums_from: self.model.layout().observed }
    }

    /// What becomes of trajectories that leave the range of the logs, where the steps that remain count as given.
    pub fn exit<'b>(&'b self, remaining: &'b Buffer) -> Exit<'b> {
        let (worst, may_end) = (self.setting.worst_reward, self.termination.is_some());
        Exit { limits: self.limits(), worst, remaining, may_end }
    }

    /// s' as `step` says, from the networks' outputs.
    pub fn propagate(
        &self,
        step: &Step<'_>,
        outputs: &Buffer,
        states: &Buffer,
        observed: &mut ObservationBuffers,
        next: &mut Buffer,
    ) {
        let device = self.device;
        device.propagate(&self.prediction(outputs), step, states, next);
        if let Some(wrapped) = &self.model.frame().views.wrapped {
            device.evaluate(wrapped, next, &self.nothing, &self.nothing, &mut observed.wrapped);
            device.copy(&observed.wrapped, next);
        }
    }

    fn see<'b>(
        &self,
        view: &Option<Program>,
        states: &'b Buffer,
        room: &'b mut Buffer,
    ) -> &'b Buffer {
        let Some(view) = view else { return states };
        self.device.evaluate(view, states, &self.nothing, &self.nothing, room);
        room
    }

    fn see_back(&self, view: &Program, states: &Buffer, d_seen: &Buffer, d_states: &mut Buffer) {
        let [mut no_action, mut no_next] = [self.device.zeros(0), self.device.zeros(0)];
        let inputs = [states, &self.nothing, &self.nothing];
        self.device.evaluate_gradient(
            view,
            inputs,
            d_seen,
            [d_states, &mut no_action, &mut no_next],
        );
    }
}
