//! Trajectories of a policy in a learned model, many at a time.
//!
//! All methods of one run start from the same states and use the same noise (common random numbers), so
//! that differences between them are differences of the models, not of luck.

mod choice;

pub use choice::Chooser;

use crate::checkpoint::Arrays;
use crate::compute::{Buffer, Counter, Device, Input, Status, Step, Travel, Way};
use crate::dynamics::{Dynamics, Frame};
use crate::expression::Program;
use crate::hallucination::{ConfidenceSet, Continuous};
use crate::nn::Ensemble;
use crate::policy::{Noise, Policy};
use crate::progress::Progress;
use crate::rng::Stream;
use crate::task::Task;
use choice::{Choice, Now};

/// How uncertainty travels along a trajectory.
#[derive(Clone, Copy, Debug)]
pub enum Propagation<'a> {
    /// The mean of all members, without noise.
    Mean,
    /// One Gaussian of the mixture's mean and variance (OPE-DS).
    Moments,
    /// A member drawn anew at every step (OPE-TS1).
    DrawEveryStep,
    /// Every member for itself, each with the same starts and noise (OPE-TSinf, HAMBO-DAinf).
    EachMember,
    /// The mean of all members, shifted by an adversary (HAMBO-CA); every restart of the adversary for
    /// itself, each with the same starts and noise.
    Shifted(&'a Continuous),
    /// Shifted by draws from an adversary that still learns.
    Explored(Explorer<'a>),
    /// A member chosen at every step by an adversary (HAMBO-DA1).
    Chosen(Chooser<'a>),
}

/// A stochastic adversary: η ~ tanh N(μ(s, a), σ²(s, a)).
#[derive(Clone, Copy, Debug)]
pub struct Explorer<'a> {
    /// One network from standardized (s, a) to (μ, ln σ).
    pub actor: &'a Ensemble,
    /// The set it chooses from.
    pub set: &'a ConfidenceSet,
}

/// The question that trajectories answer.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// Reward, termination, bounds.
    pub task: &'a Task,
    /// The policy under evaluation.
    pub policy: &'a Policy,
    /// Steps, T.
    pub horizon: usize,
    /// γ
    pub discount: f64,
}

/// What trajectories gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Returns {
    /// Σ γᵗ r of each trajectory; with [`Propagation::EachMember`] `[members, starts]`.
    pub values: Vec<f32>,
    /// Which of them left the finite numbers; the rest of such a trajectory counts as its lowest reward.
    pub diverged: Vec<bool>,
    /// Which of them ended more than [`FAR`] standard deviations from the mean of the data in some
    /// dimension: the model was asked about places that it knows nothing of.
    pub far: Vec<bool>,
}

/// Standard deviations from the mean of the data beyond which a state is far from them.
pub const FAR: f32 = 10.0;

impl Returns {
    /// Number of trajectories that diverged.
    pub fn diverged_count(&self) -> usize {
        self.diverged.iter().filter(|&&d| d).count()
    }

    /// Number of trajectories that ended far from the data.
    pub fn far_count(&self) -> usize {
        self.far.iter().filter(|&&f| f).count()
    }

    /// Those of one member of [`Propagation::EachMember`].
    pub fn of_member(&self, member: usize, members: usize) -> Returns {
        let n = self.values.len() / members;
        self.select((member * n..(member + 1) * n).collect())
    }

    /// OPE-TSinf from [`Propagation::EachMember`]: start l takes its member l mod K, so that every member
    /// has the same share of the trajectories.
    pub fn one_member_each(&self, members: usize) -> Returns {
        let n = self.values.len() / members;
        self.select((0..n).map(|l| l % members * n + l).collect())
    }

    /// As it is kept in case that the work is interrupted.
    pub(crate) fn stored(&self) -> Arrays {
        let mut arrays = Arrays::default();
        let flags = |which: &[bool]| which.iter().map(|&yes| u32::from(yes)).collect::<Vec<u32>>();
        arrays.put("values", &self.values);
        arrays.put("diverged", &flags(&self.diverged));
        arrays.put("far", &flags(&self.far));
        arrays
    }

    /// The same back.
    pub(crate) fn restore(arrays: &Arrays) -> std::result::Result<Self, String> {
        let values: Vec<f32> = arrays.get("values")?;
        let flags = |name: &str| {
            let flags: Vec<u32> = arrays.get_exactly(name, values.len())?;
            Ok::<_, String>(flags.into_iter().map(|flag| flag != 0).collect())
        };
        Ok(Returns { diverged: flags("diverged")?, far: flags("far")?, values })
    }

    fn select(&self, rows: Vec<usize>) -> Returns {
        Returns {
            values: rows.iter().map(|&i| self.values[i]).collect(),
            diverged: rows.iter().map(|&i| self.diverged[i]).collect(),
            far: rows.iter().map(|&i| self.far[i]).collect(),
        }
    }
}

/// Rolls the policy out from `starts` `[rows, state]`.
pub fn rollout(
    device: &Device,
    model: &dyn Dynamics,
    setting: &Setting<'_>,
    propagation: Propagation<'_>,
    starts: &[f32],
    stream: Stream,
    progress: &dyn Progress,
) -> Returns {
    let world = World::new(device, model, *setting);
    let mut rollout = Rollout::new(&world, propagation, starts);
    let (mut done, horizon) = (0, setting.horizon);
    let report = |done: usize| progress.report(propagation.stage(), done, horizon, "");
    device.run(|| {
        world.repeat(horizon, || {
            rollout.step(stream);
            done += 1;
            report(done);
        });
    });
    report(horizon); // a recording that is replayed does not report
    rollout.returns(device)
}

impl Propagation<'_> {
    fn stage(&self) -> &'static str {
        match self {
            Propagation::Mean => "rollouts (mean)",
            Propagation::Moments => "rollouts (ds)",
            Propagation::DrawEveryStep => "rollouts (ts1)",
            Propagation::EachMember => "rollouts (particles)",
            Propagation::Shifted(_) => "rollouts (ca)",
            Propagation::Explored(_) => "rollouts (exploration)",
            Propagation::Chosen(_) => "rollouts (da1)",
        }
    }
}

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
    /// γᵗ and t / T of every step.
    pub discounts: Buffer,
    fractions: Buffer,
    /// (t + 1) / T
    next_fractions: Buffer,
    /// What the value of the next state counts in a look ahead: γ, and 0 after the last step.
    next_discounts: Buffer,
    nothing: Buffer,
}

/// Room for what is seen of the states of some trajectories; empty where they are seen as they are.
pub(crate) struct Senses {
    observation: Buffer,
    features: Buffer,
    settled: Buffer,
    d_observation: Buffer,
    d_features: Buffer,
}

impl<'a> World<'a> {
    pub fn new(device: &'a Device, model: &'a dyn Dynamics, setting: Setting<'a>) -> Self {
        let over_steps = |value: &dyn Fn(usize) -> f64| {
            (0..=setting.horizon).map(|t| value(t) as f32).collect::<Vec<f32>>()
        };
        let Frame { inputs, targets, .. } = model.frame();
        World {
            device,
            model,
            setting,
            units_in: [device.upload(&inputs.mean), device.upload(&inputs.std)],
            units_out: [device.upload(&targets.std), device.upload(&targets.mean)],
            bounds: [device.upload(&setting.task.action_low), device.upload(&setting.task.action_high)],
            policy_keeps_to_bounds: setting
                .policy
                .keeps_to(&setting.task.action_low, &setting.task.action_high),
            reward: setting.task.reward.widened(model.state_dim()),
            termination: setting.task.termination.as_ref().map(|t| t.widened(model.state_dim())),
            discounts: device.adopt(over_steps(&|t| setting.discount.powi(t as i32))),
            fractions: device.adopt(over_steps(&|t| (t as f32 / setting.horizon as f32).into())),
            next_fractions: device.adopt(over_steps(&|t| ((t + 1) as f32 / setting.horizon as f32).into())),
            next_discounts: device.adopt(over_steps(&|t| match t + 1 < setting.horizon {
                true => setting.discount,
                false => 0.0,
            })),
            nothing: device.zeros(0),
        }
    }

    /// Takes steps, recorded and replayed where that is possible: policy and model must be on the device.
    pub fn repeat(&self, times: usize, mut step: impl FnMut()) {
        match self.setting.policy.on_device() && self.model.on_device(self.device) {
            true => self.device.repeat(times, step),
            false => (0..times).for_each(|_| step()),
        }
    }

    /// Room to see that many states.
    pub fn senses(&self, rows: usize) -> Senses {
        let views = &self.model.frame().views;
        let room = |view: &Option<Program>| {
            self.device.zeros(view.as_ref().map_or(0, |program| rows * program.outputs().len()))
        };
        Senses {
            observation: room(&views.observation),
            features: room(&views.features),
            settled: room(&views.settled),
            d_observation: room(&views.observation),
            d_features: room(&views.features),
        }
    }

    /// a = π(s), within the bounds; with the policy's luck of the step, or its mean.
    pub fn act(&self, states: &Buffer, senses: &mut Senses, noise: Option<&Noise>, actions: &mut Buffer) {
        let seen = self.see(&self.model.frame().views.observation, states, &mut senses.observation);
        match noise {
            Some(noise) => self.setting.policy.draw(self.device, seen, noise, actions),
            None => self.setting.policy.act(self.device, seen, actions),
        }
        if !self.policy_keeps_to_bounds {
            self.device.clamp(&self.bounds[0], &self.bounds[1], actions);
        }
    }

    /// Back through [`World::act`], whose result was `actions`: adds to `d_states`.
    pub fn act_back(
        &self,
        states: &Buffer,
        senses: &mut Senses,
        noise: &Noise,
        (actions, d_actions): (&Buffer, &mut Buffer),
        d_states: &mut Buffer,
    ) {
        let (device, policy) = (self.device, self.setting.policy);
        device.clamp_gradient(&self.bounds[0], &self.bounds[1], actions, d_actions);
        let Some(observation) = &self.model.frame().views.observation else {
            return policy.draw_back(device, states, noise, d_actions, d_states);
        };
        device.evaluate(observation, states, &self.nothing, &self.nothing, &mut senses.observation);
        device.fill(&mut senses.d_observation, 0.0);
        policy.draw_back(device, &senses.observation, noise, d_actions, &mut senses.d_observation);
        self.see_back(observation, states, &senses.d_observation, d_states);
    }

    /// The networks' inputs: (s, a) standardized, with angles embedded.
    pub fn inputs(&self, states: &Buffer, actions: &Buffer, senses: &mut Senses, inputs: &mut Buffer) {
        let [mean, std] = &self.units_in;
        let seen = self.see(&self.model.frame().views.features, states, &mut senses.features);
        let widths = (self.model.layout().features(), self.model.action_dim());
        self.device.standardize((seen, widths.0), (actions, widths.1), mean, std, inputs);
    }

    /// Back through [`World::inputs`] for one or more networks: adds to `d_states` and `d_actions`.
    pub fn inputs_back(
        &self,
        states: &Buffer,
        senses: &mut Senses,
        d_inputs: &Buffer,
        (d_states, d_actions): (&mut Buffer, &mut Buffer),
    ) {
        let (device, std) = (self.device, &self.units_in[1]);
        let widths = (self.model.layout().features(), self.model.action_dim());
        let Some(features) = &self.model.frame().views.features else {
            return device.standardize_gradient(d_inputs, std, (d_states, widths.0), (d_actions, widths.1));
        };
        let d_seen = &mut senses.d_features;
        device.fill(d_seen, 0.0);
        device.standardize_gradient(d_inputs, std, (&mut *d_seen, widths.0), (d_actions, widths.1));
        self.see_back(features, states, d_seen, d_states);
    }

    /// s' as `step` says, from the networks' outputs.
    pub fn propagate(
        &self,
        step: &Step<'_>,
        outputs: &Buffer,
        states: &Buffer,
        senses: &mut Senses,
        next: &mut Buffer,
    ) {
        let (model, device, [scale, offset]) = (self.model, self.device, &self.units_out);
        let (members, relative) = (model.members(), model.frame().relative());
        device.propagate(model.head(), members, step, outputs, (scale, offset), relative, states, next);
        if let Some(settled) = &model.frame().views.settled {
            device.evaluate(settled, next, &self.nothing, &self.nothing, &mut senses.settled);
            device.copy(&senses.settled, next);
        }
    }

    fn see<'b>(&self, view: &Option<Program>, states: &'b Buffer, room: &'b mut Buffer) -> &'b Buffer {
        let Some(view) = view else { return states };
        self.device.evaluate(view, states, &self.nothing, &self.nothing, room);
        room
    }

    fn see_back(&self, view: &Program, states: &Buffer, d_seen: &Buffer, d_states: &mut Buffer) {
        let [mut no_action, mut no_next] = [self.device.zeros(0), self.device.zeros(0)];
        let inputs = [states, &self.nothing, &self.nothing];
        self.device.evaluate_gradient(view, inputs, d_seen, [d_states, &mut no_action, &mut no_next]);
    }
}

/// Trajectories under way, all buffers on the device.
pub(crate) struct Rollout<'a> {
    pub world: &'a World<'a>,
    propagation: Propagation<'a>,
    rows: usize,
    pub states: Buffer,
    senses: Senses,
    pub actions: Buffer,
    pub inputs: Buffer,
    outputs: Buffer,
    next: Buffer,
    noise: Buffer,
    policy_noise: Noise,
    members: Buffer<u32>,
    shifts: Buffer,
    reach: Buffer,
    exploration: Option<Exploration>,
    choice: Option<Choice>,
    /// t / T of the last step, for adversaries that look at it, `[rows]`.
    pub elapsed: Buffer,
    pub rewards: Buffer,
    ended: Buffer,
    returns: Buffer,
    lowest: Buffer,
    pub status: Buffer<u32>,
    /// Steps taken.
    pub time: Counter,
}

impl<'a> Rollout<'a> {
    pub fn new(world: &'a World<'a>, propagation: Propagation<'a>, starts: &[f32]) -> Self {
        let World { device, model, .. } = *world;
        let (ds, da) = (model.state_dim(), model.action_dim());
        let groups = match propagation {
            Propagation::EachMember => model.members(),
            Propagation::Shifted(adversary) => adversary.networks.shape.members,
            _ => 1,
        };
        let each = starts.len() / model.layout().observed;
        let rows = groups * each;
        let outputs =
            if matches!(propagation, Propagation::EachMember) { rows } else { model.members() * rows };
        let reach = match propagation {
            Propagation::Shifted(adversary) => adversary.set.reach.as_slice(),
            Propagation::Explored(explorer) => &explorer.set.reach,
            _ => &[],
        };
        let explored = matches!(propagation, Propagation::Explored(_));
        let choice = match propagation {
            Propagation::Chosen(chooser) => Some(Choice::new(world, chooser.adversary, rows)),
            _ => None,
        };
        let timed = explored || choice.is_some();
        let mut lowest = device.zeros(rows);
        device.fill(&mut lowest, f32::INFINITY);
        Rollout {
            world,
            propagation,
            rows,
            states: device.adopt(model.layout().carry(starts).repeat(groups)),
            senses: world.senses(rows),
            actions: device.zeros(rows * da),
            inputs: device.zeros(rows * model.input_dim()),
            outputs: device.zeros(outputs * 2 * ds),
            next: device.zeros(rows * ds),
            noise: device.zeros(each * ds),
            policy_noise: world.setting.policy.noise(device, rows, groups),
            members: device.zeros(rows),
            shifts: device.zeros(if reach.is_empty() { 0 } else { rows * ds }),
            reach: device.upload(reach),
            exploration: explored.then(|| Exploration::new(device, rows, ds)),
            choice,
            elapsed: device.zeros(if timed { rows } else { 0 }),
            rewards: device.zeros(rows),
            ended: device.zeros(rows),
            returns: device.zeros(rows),
            lowest,
            status: device.zeros(rows),
            time: device.counter(),
        }
    }

    /// a = π(s), s' ~ model(s, a), return += γᵗ r(s, a, s').
    pub fn step(&mut self, stream: Stream) {
        let World { device, model, .. } = *self.world;
        self.policy_noise.draw(device, policy_stream(stream), &self.time);
        self.world.act(&self.states, &mut self.senses, Some(&self.policy_noise), &mut self.actions);
        self.world.inputs(&self.states, &self.actions, &mut self.senses, &mut self.inputs);
        let (input, rows) = match self.propagation {
            Propagation::EachMember => (Input::PerMember(&self.inputs), self.rows / model.members()),
            _ => (Input::Shared(&self.inputs), self.rows),
        };
        let mut predict = || model.infer(device, input, rows, &mut self.outputs);
        // The adversary's networks are few: they go first, and the model's find room beside them.
        match (self.propagation, &mut self.exploration) {
            (Propagation::Shifted(Continuous { networks, .. }), _) => {
                let rows = self.rows / networks.shape.members;
                let input = Input::PerMember(&self.inputs);
                device.sparingly(|| networks.infer(device, input, rows, &mut self.shifts));
                device.beside(predict);
            }
            (Propagation::Explored(explorer), Some(exploration)) => {
                device.sparingly(|| exploration.see(device, explorer.actor, &self.inputs));
                device.beside(predict);
            }
            _ => predict(),
        }
        device.fill_at(&self.world.fractions, &self.time, &mut self.elapsed);

        let way = match self.propagation {
            Propagation::Mean => Way::Mean,
            Propagation::Moments => Way::Moments,
            Propagation::DrawEveryStep => {
                let members = &mut self.members;
                device.uniform_indices(stream.child("member"), &self.time, model.members(), members);
                Way::Chosen(members)
            }
            Propagation::EachMember => Way::Own,
            Propagation::Shifted(Continuous { set, .. }) => {
                Way::Shifted { amount: &mut self.shifts, reach: &self.reach, power: set.power }
            }
            Propagation::Explored(Explorer { set, .. }) => {
                if let Some(exploration) = &mut self.exploration {
                    exploration.draw(device, stream, &self.time);
                    device.copy(&exploration.choices, &mut self.shifts);
                }
                Way::Shifted { amount: &mut self.shifts, reach: &self.reach, power: set.power }
            }
            Propagation::Chosen(chooser) => {
                if let Some(choice) = &mut self.choice {
                    let now = Now {
                        states: &self.states,
                        actions: &self.actions,
                        inputs: &self.inputs,
                        elapsed: &self.elapsed,
                        outputs: &self.outputs,
                        time: &self.time,
                    };
                    choice.choose(self.world, chooser, &now, (stream, &self.time), &mut self.members);
                }
                Way::Chosen(&self.members)
            }
        };
        let views = &model.frame().views;
        device.travel(Travel {
            head: model.head(),
            members: model.members(),
            outputs: &self.outputs,
            way,
            luck: noise_stream(stream),
            noise: &mut self.noise,
            units: &self.world.units_out,
            relative: model.frame().relative(),
            settled: views.settled.as_ref().map(|settled| (settled, &mut self.senses.settled)),
            reward: &self.world.reward,
            termination: self.world.termination.as_ref(),
            discounts: &self.world.discounts,
            time: &mut self.time,
            states: &mut self.states,
            actions: &self.actions,
            next: &mut self.next,
            rewards: &mut self.rewards,
            ended: &mut self.ended,
            returns: &mut self.returns,
            lowest: &mut self.lowest,
            status: &mut self.status,
        });
    }

    /// From here on the adversary does nothing: η = 0, or a particle drawn at every step.
    pub fn switch_off_adversary(&mut self) {
        match self.propagation {
            Propagation::Shifted(_) => self.world.device.fill(&mut self.reach, 0.0),
            Propagation::Chosen(_) => self.propagation = Propagation::DrawEveryStep,
            _ => {}
        }
    }

    /// What an [`Explorer`] chose in the last step, `[rows, state]`; the shifts of any other adversary.
    pub fn choices(&self) -> &Buffer {
        self.exploration.as_ref().map_or(&self.shifts, |e| &e.choices)
    }

    /// The member that a [`Chooser`] chose in the last step, `[rows]`.
    pub fn members(&self) -> &Buffer<u32> {
        &self.members
    }

    /// What the trajectories gave so far.
    pub fn returns(&self, device: &Device) -> Returns {
        let status = device.download(&self.status);
        let model = self.world.model;
        let (units, mut features) = (&model.frame().inputs, vec![0.0; model.layout().features()]);
        let mut far = |state: &[f32]| {
            model.layout().embed(state, &mut features);
            let mut units = features.iter().zip(&units.mean).zip(&units.std);
            units.any(|((x, mean), std)| (x - mean).abs() > FAR * std)
        };
        Returns {
            far: device.download(&self.states).chunks_exact(model.state_dim()).map(&mut far).collect(),
            values: device.download(&self.returns),
            diverged: status.iter().map(|&s| s == Status::Diverged as u32).collect(),
        }
    }
}

/// Where an [`Explorer`] draws.
struct Exploration {
    outputs: Buffer,
    noise: Buffer,
    choices: Buffer,
    log_probs: Buffer,
}

impl Exploration {
    fn new(device: &Device, rows: usize, dims: usize) -> Self {
        let room = |width: usize| device.zeros(rows * width);
        Exploration { outputs: room(2 * dims), noise: room(dims), choices: room(dims), log_probs: room(1) }
    }

    fn see(&mut self, device: &Device, actor: &Ensemble, inputs: &Buffer) {
        actor.infer(device, Input::Shared(inputs), self.log_probs.len(), &mut self.outputs);
    }

    fn draw(&mut self, device: &Device, stream: Stream, time: &Counter) {
        device.normals(stream.child("exploration"), time, &mut self.noise);
        device.squash(&self.outputs, &self.noise, &mut self.choices, &mut self.log_probs);
    }
}

/// The stream of transition noise: the number at (t, row, dimension) is the same for all methods.
pub(crate) fn noise_stream(stream: Stream) -> Stream {
    stream.child("noise")
}

/// The stream of a random policy's draws, the same for all methods, too.
pub(crate) fn policy_stream(stream: Stream) -> Stream {
    stream.child("policy")
}
