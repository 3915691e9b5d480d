//! Trajectories of a policy in a learned model, many at a time.
//!
//! All methods of one run start from the same states and use the same noise (common random numbers), so
//! that differences between them are differences of the models, not of luck.

mod choice;
mod exploration;
mod hallucination;
mod returns;
mod setting;
mod tail;
mod world;

pub use choice::Chooser;
pub use hallucination::{MemberAdversary, ShiftAdversary};
pub use returns::{FAR, Returns};
pub use setting::Setting;
pub use tail::Tail;
pub(crate) use tail::valued;
pub(crate) use world::{ObservationBuffers, World};

use crate::confidence::ConfidenceSet;
use crate::dynamics::Dynamics;
use crate::policy::ActionNoise;
use crate::run::Run;
use crate::{Error, Result};
use choice::{Choice, Now};
use exploration::Exploration;
use hambo_engine::backend::{Buffer, Counter, Device, Input, RolloutStep, Status, StepKind};
use hambo_engine::nn::Ensemble;
use hambo_engine::rng::Stream;

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
    /// The mean of all members, shifted by an adversary (HAMBO-CA): one network for all trajectories, or one for each fold
    /// of the model; of several restarts every one for itself, with the same starts and noise.
    Shifted(&'a ShiftAdversary),
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

/// Rolls the policy out from `starts` `[rows, state]`, as many for each fold of the model.
pub fn rollout(
    device: &Device,
    model: &dyn Dynamics,
    setting: &Setting<'_>,
    propagation: Propagation<'_>,
    starts: &[f32],
    stream: Stream,
    run: &Run<'_>,
) -> Result<Returns> {
    let rows = starts.len() / model.layout().observed;
    if !rows.is_multiple_of(model.folds()) {
        let expected = format!("a multiple of the model's {} folds", model.folds());
        return Err(Error::setting("number of starts", rows, expected));
    }
    let world = World::new(device, model, *setting);
    let mut rollout = Rollout::new(&world, propagation, starts);
    let (mut done, horizon) = (0, setting.horizon);
    let report = |done: usize| run.report(propagation.stage(), done, horizon, "");
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

/// Trajectories under way, all buffers on the device.
pub(crate) struct Rollout<'a> {
    pub world: &'a World<'a>,
    propagation: Propagation<'a>,
    rows: usize,
    pub states: Buffer,
    observed: ObservationBuffers,
    pub actions: Buffer,
    /// What is added to the policy's actions, `[horizon, rows, action]`, and room for one step of it.
    deviations: Option<(&'a Buffer, Buffer)>,
    pub inputs: Buffer,
    outputs: Buffer,
    next: Buffer,
    noise: Buffer,
    policy_noise: ActionNoise,
    members: Buffer<u32>,
    shifts: Buffer,
    reach: Buffer,
    exploration: Option<Exploration>,
    choice: Option<Choice>,
    /// t / T of the last step, for adversaries that look at it, `[rows]`.
    pub elapsed: Buffer,
    pub rewards: Buffer,
    ended: Buffer,
    pub returns: Buffer,
    pub status: Buffer<u32>,
    /// Steps taken.
    pub time: Counter,
}

impl<'a> Rollout<'a> {
    pub fn new(world: &'a World<'a>, propagation: Propagation<'a>, starts: &[f32]) -> Self {
        let World { device, model, .. } = *world;
        let (ds, da) = (model.state_dim(), model.action_dim());
        let folds = model.folds();
        // Trajectories of a fold follow each other: [folds, restarts, starts of the fold].
        let restarts = match propagation {
            Propagation::Shifted(adversary) => adversary.restarts(folds),
            _ => 1,
        };
        let groups =
            if matches!(propagation, Propagation::EachMember) { model.members() } else { 1 };
        let each = starts.len() / model.layout().observed;
        let rows = groups * restarts * each;
        assert!(
            each.is_multiple_of(folds),
            "{each} starts, which are no multiple of {folds} folds"
        );
        let of_fold = starts.chunks_exact(starts.len() / folds);
        let starts: Vec<f32> = of_fold.flat_map(|starts| starts.repeat(restarts)).collect();
        let noisy = world.noise_rows(each, restarts);
        let outputs = if matches!(propagation, Propagation::EachMember) {
            rows
        } else {
            model.members() * rows
        };
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
        Rollout {
            world,
            propagation,
            rows,
            states: device.adopt(model.layout().carry(&starts).repeat(groups)),
            observed: world.observation_buffers(rows),
            actions: device.zeros(rows * da),
            deviations: None,
            inputs: device.zeros(rows * model.input_dim()),
            outputs: device.zeros(outputs * 2 * ds),
            next: device.zeros(rows * ds),
            noise: device.zeros(noisy * ds),
            policy_noise: world.setting.policy.noise(device, rows, rows / noisy),
            members: device.zeros(rows),
            shifts: device.zeros(if reach.is_empty() { 0 } else { rows * ds }),
            reach: device.upload(reach),
            exploration: explored.then(|| Exploration::new(device, rows, ds)),
            choice,
            elapsed: device.zeros(if timed { rows } else { 0 }),
            rewards: device.zeros(rows),
            ended: device.zeros(rows),
            returns: device.zeros(rows),
            status: device.zeros(rows),
            time: device.counter(),
        }
    }

    /// The same from states as they are carried, one for each trajectory, with something added to the policy's actions,
    /// `[horizon, rows, action]`.
    pub fn replaying(
        world: &'a World<'a>,
        propagation: Propagation<'a>,
        (starts, deviations): (&Buffer, &'a Buffer),
    ) -> Self {
        let World { device, model, .. } = *world;
        let rows = starts.len() / model.state_dim();
        let anywhere = vec![0.0; rows * model.layout().observed];
        let mut rollout = Rollout::new(world, propagation, &anywhere);
        device.copy(starts, &mut rollout.states);
        rollout.deviations = Some((deviations, device.zeros(rollout.actions.len())));
        rollout
    }

    /// a = π(s), s' ~ model(s, a), return += γᵗ r(s, a, s').
    pub fn step(&mut self, stream: Stream) {
        let World { device, model, .. } = *self.world;
        // What was logged of a random policy's noise is among the deviations.
        let noise = match self.deviations {
            Some(_) => None,
            None => {
                self.policy_noise.draw(device, policy_stream(stream), &self.time);
                Some(&self.policy_noise)
            }
        };
        self.world.act(&self.states, &mut self.observed, noise, &mut self.actions);
        if let Some((deviations, now)) = &mut self.deviations {
            device.load_at(deviations, &self.time, 0, now);
            device.add(now, &mut self.actions);
            device.clamp(&self.world.bounds[0], &self.world.bounds[1], &mut self.actions);
        }
        self.world.inputs(&self.states, &self.actions, &mut self.observed, &mut self.inputs);
        let (input, rows) = match self.propagation {
            Propagation::EachMember => {
                (Input::PerMember(&self.inputs), self.rows / model.members())
            }
            _ => (Input::Shared(&self.inputs), self.rows),
        };
        let mut predict = || model.infer(device, input, rows, &mut self.outputs);
        // The adversary's networks are few: they go first, and the model's find room beside them.
        match (self.propagation, &mut self.exploration) {
            (Propagation::Shifted(ShiftAdversary { networks, .. }), _) => {
                let rows = self.rows / networks.shape.members;
                let input = Input::PerMember(&self.inputs);
                device.with_few_blocks(|| networks.infer(device, input, rows, &mut self.shifts));
                device.overlapping(predict);
            }
            (Propagation::Explored(explorer), Some(exploration)) => {
                device.with_few_blocks(|| exploration.see(device, explorer.actor, &self.inputs));
                device.overlapping(predict);
            }
            _ => predict(),
        }
        device.fill_at(&self.world.fractions, &self.time, &mut self.elapsed);

        let way = match self.propagation {
            Propagation::Mean => StepKind::Mean,
            Propagation::Moments => StepKind::Moments,
            Propagation::DrawEveryStep => {
                let members = &mut self.members;
                device.uniform_indices(
                    stream.child("member"),
                    &self.time,
                    model.members(),
                    members,
                );
                StepKind::Chosen(members)
            }
            Propagation::EachMember => StepKind::Own,
            Propagation::Shifted(ShiftAdversary { set, .. }) => {
                StepKind::Shifted { amount: &mut self.shifts, reach: &self.reach, power: set.power }
            }
            Propagation::Explored(Explorer { set, .. }) => {
                if let Some(exploration) = &mut self.exploration {
                    exploration.draw(device, stream, &self.time);
                    device.copy(&exploration.choices, &mut self.shifts);
                }
                StepKind::Shifted { amount: &mut self.shifts, reach: &self.reach, power: set.power }
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
                    choice.choose(
                        self.world,
                        chooser,
                        &now,
                        (stream, &self.time),
                        &mut self.members,
                    );
                }
                StepKind::Chosen(&self.members)
            }
        };
        let views = &model.frame().views;
        device.rollout_step(RolloutStep {
            prediction: self.world.prediction(&self.outputs),
            kind: way,
            noise_stream: noise_stream(stream),
            noise: &mut self.noise,
            wrapped: views.wrapped.as_ref().map(|wrapped| (wrapped, &mut self.observed.wrapped)),
            reward: &self.world.reward,
            termination: self.world.termination.as_ref(),
            exit: Some(self.world.exit(&self.world.remaining)),
            discounts: &self.world.discounts,
            time: &mut self.time,
            states: &mut self.states,
            actions: &self.actions,
            next: &mut self.next,
            rewards: &mut self.rewards,
            ended: &mut self.ended,
            returns: &mut self.returns,
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
    pub fn returns(&self, device: &Device) -> Result<Returns> {
        let status = device.download(&self.status)?;
        let model = self.world.model;
        let (units, mut features) = (&model.frame().inputs, vec![0.0; model.layout().features()]);
        let mut far = |state: &[f32]| {
            model.layout().embed(state, &mut features);
            let mut units = features.iter().zip(&units.mean).zip(&units.std);
            units.any(|((x, mean), std)| (x - mean).abs() > FAR * std)
        };
        Ok(Returns {
            folds: model.folds(),
            far: device
                .download(&self.states)?
                .chunks_exact(model.state_dim())
                .map(&mut far)
                .collect(),
            values: device.download(&self.returns)?,
            diverged: status.iter().map(|&s| s == Status::Diverged as u32).collect(),
            left: status.iter().map(|&s| s == Status::Left as u32).collect(),
        })
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
