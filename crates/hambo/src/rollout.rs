//! Trajectories of a policy in a learned model, many at a time.
//!
//! All methods of one run start from the same states and use the same noise (common random numbers), so
//! that differences between them are differences of the models, not of luck.

use crate::compute::{Buffer, Counter, Device, Input, Status, Step};
use crate::dynamics::Bnn;
use crate::policy::Policy;
use crate::progress::Progress;
use crate::rng::Stream;
use crate::task::Task;

/// How uncertainty travels along a trajectory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// The mean of all members, without noise.
    Mean,
    /// One Gaussian of the mixture's mean and variance (OPE-DS).
    Moments,
    /// A member drawn anew at every step (OPE-TS1).
    DrawEveryStep,
    /// Every member for itself, each with the same starts and noise (OPE-TSinf, HAMBO-DAinf).
    EachMember,
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
}

impl Returns {
    /// Number of trajectories that diverged.
    pub fn diverged_count(&self) -> usize {
        self.diverged.iter().filter(|&&d| d).count()
    }

    /// Those of one member of [`Propagation::EachMember`].
    pub fn of_member(&self, member: usize, members: usize) -> Returns {
        let n = self.values.len() / members;
        let range = member * n..(member + 1) * n;
        Returns { values: self.values[range.clone()].to_vec(), diverged: self.diverged[range].to_vec() }
    }

    /// OPE-TSinf from [`Propagation::EachMember`]: start l takes its member l mod K, so that every member
    /// has the same share of the trajectories.
    pub fn one_member_each(&self, members: usize) -> Returns {
        let n = self.values.len() / members;
        let chosen = (0..n).map(|l| l % members * n + l);
        Returns {
            values: chosen.clone().map(|i| self.values[i]).collect(),
            diverged: chosen.map(|i| self.diverged[i]).collect(),
        }
    }
}

/// Rolls the policy out from `starts` `[rows, state]`.
pub fn rollout(
    device: &Device,
    model: &Bnn,
    setting: &Setting<'_>,
    propagation: Propagation,
    starts: &[f32],
    stream: Stream,
    progress: &dyn Progress,
) -> Returns {
    let mut rollout = Rollout::new(device, model, setting, propagation, starts);
    device.run(|| {
        for t in 0..setting.horizon {
            rollout.step(stream, setting.discount.powi(t as i32) as f32);
            progress.report(propagation.stage(), t + 1, setting.horizon, "");
        }
    });
    let status = device.download(&rollout.status);
    Returns {
        values: device.download(&rollout.returns),
        diverged: status.iter().map(|&s| s == Status::Diverged as u32).collect(),
    }
}

impl Propagation {
    fn stage(self) -> &'static str {
        match self {
            Propagation::Mean => "rollouts (mean)",
            Propagation::Moments => "rollouts (ds)",
            Propagation::DrawEveryStep => "rollouts (ts1)",
            Propagation::EachMember => "rollouts (particles)",
        }
    }
}

/// Trajectories under way, all buffers on the device.
struct Rollout<'a> {
    device: &'a Device,
    model: &'a Bnn,
    setting: &'a Setting<'a>,
    propagation: Propagation,
    rows: usize,
    /// Mean and deviation of the networks' inputs.
    units_in: [Buffer; 2],
    /// Scale and offset of their outputs.
    units_out: [Buffer; 2],
    bounds: [Buffer; 2],
    states: Buffer,
    actions: Buffer,
    inputs: Buffer,
    outputs: Buffer,
    next: Buffer,
    noise: Buffer,
    members: Buffer<u32>,
    rewards: Buffer,
    ended: Buffer,
    returns: Buffer,
    lowest: Buffer,
    status: Buffer<u32>,
    time: Counter,
}

impl<'a> Rollout<'a> {
    fn new(
        device: &'a Device,
        model: &'a Bnn,
        setting: &'a Setting<'a>,
        propagation: Propagation,
        starts: &[f32],
    ) -> Self {
        let (ds, da) = (model.state_dim(), model.action_dim());
        let each_member = propagation == Propagation::EachMember;
        let groups = if each_member { model.particles() } else { 1 };
        let rows = groups * starts.len() / ds;
        let outputs = if each_member { rows } else { model.particles() * rows };
        let mut lowest = device.zeros(rows);
        device.fill(&mut lowest, f32::INFINITY);
        Rollout {
            device,
            model,
            setting,
            propagation,
            rows,
            units_in: [device.upload(&model.inputs().mean), device.upload(&model.inputs().std)],
            units_out: [device.upload(&model.targets().std), device.upload(&model.targets().mean)],
            bounds: [device.upload(&setting.task.action_low), device.upload(&setting.task.action_high)],
            states: device.adopt(starts.repeat(groups)),
            actions: device.zeros(rows * da),
            inputs: device.zeros(rows * (ds + da)),
            outputs: device.zeros(outputs * 2 * ds),
            next: device.zeros(rows * ds),
            noise: device.zeros(starts.len()),
            members: device.zeros(rows),
            rewards: device.zeros(rows),
            ended: device.zeros(rows),
            returns: device.zeros(rows),
            lowest,
            status: device.zeros(rows),
            time: device.counter(),
        }
    }

    /// a = π(s), s' ~ model(s, a), return += weight · r(s, a, s').
    fn step(&mut self, stream: Stream, weight: f32) {
        let Rollout { device, model, setting: Setting { task, policy, .. }, .. } = *self;
        let (ds, da) = (model.state_dim(), model.action_dim());

        policy.act(device, &self.states, &mut self.actions);
        device.clamp(&self.bounds[0], &self.bounds[1], &mut self.actions);

        let [mean, std] = &self.units_in;
        device.standardize((&self.states, ds), (&self.actions, da), mean, std, &mut self.inputs);
        let (input, rows) = match self.propagation {
            Propagation::EachMember => (Input::PerMember(&self.inputs), self.rows / model.particles()),
            _ => (Input::Shared(&self.inputs), self.rows),
        };
        model.ensemble().infer(device, input, rows, &mut self.outputs);

        if self.propagation != Propagation::Mean {
            device.normals(stream.child("noise"), &self.time, &mut self.noise);
        }
        let noise = &self.noise;
        let step = match self.propagation {
            Propagation::Mean => Step::Mean,
            Propagation::Moments => Step::Moments { noise },
            Propagation::DrawEveryStep => {
                device.uniform_indices(
                    stream.child("member"),
                    &self.time,
                    model.particles(),
                    &mut self.members,
                );
                Step::Chosen { members: &self.members, noise }
            }
            Propagation::EachMember => Step::Own { noise },
        };
        device.propagate(
            model.head(),
            model.particles(),
            &step,
            &self.outputs,
            (&self.units_out[0], &self.units_out[1]),
            model.relative(),
            &self.states,
            &mut self.next,
        );

        device.evaluate(&task.reward, &self.states, &self.actions, &self.next, &mut self.rewards);
        let ended = task.termination.as_ref().map(|termination| {
            device.evaluate(termination, &self.states, &self.actions, &self.next, &mut self.ended);
            &self.ended
        });
        device.account(
            weight,
            &self.rewards,
            ended,
            &mut self.states,
            &self.next,
            &mut self.returns,
            &mut self.lowest,
            &mut self.status,
        );
        device.advance(&mut self.time);
    }
}
