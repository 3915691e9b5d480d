//! Policies trained by Soft Actor-Critic.
//!
//! A training lives in a folder: `training.safetensors` (everything that it needs to go on), `replay.bin` (every
//! transition so far), `curve.csv` and TensorBoard's events (the learning curve), and the policies `step-N.safetensors`
//! and `final.safetensors`. It is saved at ends of episodes, so that no simulator's state has to be: one that was
//! interrupted goes on from there and ends with the same bits as one that was not.

mod curve;
mod folder;

pub use curve::CurvePoint;

use crate::{EnvSpec, Environment, Episodes, simulate};
use curve::Curve;
use folder::Folder;
use hambo::policy::Policy;
use hambo::run::Observer;
use hambo::stats::Mean;
use hambo::{Error, Result};
use hambo_engine::backend::{Buffer, Device, Input};
use hambo_engine::files::Digest;
use hambo_engine::rl::{ReplayBuffer, Sac, SacUpdate, Transition, Widths};
use hambo_engine::rng::Stream;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Settings of a training; the defaults are those of Stable-Baselines3's SAC, except `learning_starts` (100 there).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainConfig {
    /// Settings of the update.
    pub update: SacUpdate,
    /// Steps of uniformly random actions before the first update.
    pub learning_starts: usize,
    /// Steps from one update to the next. Steps cost little compared with updates, so fewer updates can train faster.
    pub update_every: usize,
    /// Size of the replay buffer: the latest transitions are kept.
    pub remembered: u32,
    /// Steps from one evaluation, checkpoint and save to the next; they wait for the end of an episode.
    pub evaluate_every: usize,
    /// Episodes of an evaluation.
    pub evaluation_episodes: usize,
    /// Seed of everything random.
    pub seed: u64,
}

impl Default for TrainConfig {
    fn default() -> Self {
        TrainConfig {
            update: SacUpdate::default(),
            learning_starts: 1000,
            update_every: 1,
            remembered: 1_000_000,
            evaluate_every: 10_000,
            evaluation_episodes: 10,
            seed: 0,
        }
    }
}

impl TrainConfig {
    /// Checks every setting against its range.
    pub fn validate(&self) -> Result<()> {
        self.update.validate()?;
        let counts = [
            ("learning_starts", self.learning_starts),
            ("update_every", self.update_every),
            ("evaluate_every", self.evaluate_every),
            ("remembered", self.remembered as usize),
        ];
        for (name, value) in counts {
            if value == 0 {
                return Err(Error::setting(name, value, "at least 1"));
            }
        }
        if self.remembered > u32::MAX / 2 {
            return Err(Error::setting(
                "remembered",
                self.remembered,
                format!("at most {}", u32::MAX / 2),
            ));
        }
        Error::check_count("evaluation_episodes", self.evaluation_episodes, 1_000_000)?;
        if self.evaluation_episodes < 2 {
            let expected = "at least 2, for a standard error";
            return Err(Error::setting("evaluation_episodes", self.evaluation_episodes, expected));
        }
        Ok(())
    }

    /// Updates that belong to this many steps.
    fn updates(&self, steps: usize) -> usize {
        steps.saturating_sub(self.learning_starts).div_ceil(self.update_every)
    }
}

/// Updates that a training can count.
const MOST_STEPS: usize = u32::MAX as usize;
/// Episodes in a row that break down at their first step before a training gives up.
const MOST_BREAKDOWNS: usize = 100;

/// The result of a training.
#[derive(Clone, Debug)]
pub struct TrainingResult {
    /// The learning curve, one point an evaluation.
    pub curve: Vec<CurvePoint>,
    /// The step at which an earlier training in the folder was resumed; 0 if there was none.
    pub resumed_at: usize,
}

/// Trains for `steps` steps in all, going on where an earlier training in `folder` was saved.
pub fn train(
    device: &Device,
    env: &EnvSpec,
    steps: usize,
    config: &TrainConfig,
    folder: &Path,
    progress: &dyn Observer,
) -> Result<TrainingResult> {
    config.validate()?;
    if !(1..=MOST_STEPS).contains(&steps) {
        return Err(Error::setting("steps", steps, format!("1 to {MOST_STEPS}")));
    }
    let mut bounds = env.task.action_low.iter().chain(&env.task.action_high);
    if !bounds.all(|bound| bound.is_finite()) {
        return Err(Error::Mismatch(format!(
            "{}: training needs a finite range of actions",
            env.name
        )));
    }
    let mut training = Training::new(device, env, config)?;
    let folder = Folder::open(folder)?;
    let resumed_at = training.resume(&folder)?;
    if resumed_at > steps {
        let expected = format!(
            "at least the {resumed_at} steps that the training in the folder has already made"
        );
        return Err(Error::setting("steps", steps, expected));
    }
    let mut curve = Curve::new(&folder, std::mem::take(&mut training.points))?;
    device.run(|| training.run(steps, &folder, &mut curve, progress))?;
    Ok(TrainingResult { curve: curve.points, resumed_at })
}

/// A training at the start of an episode.
struct Training<'a> {
    device: &'a Device,
    env: &'a EnvSpec,
    config: &'a TrainConfig,
    simulator: Box<dyn Environment>,
    stream: Stream,
    sac: Sac,
    replay: ReplayBuffer,
    steps: usize,
    episodes: u64,
    /// The learning curve of earlier runs.
    points: Vec<CurvePoint>,
    /// Transitions that are not in the folder yet.
    unsaved: Vec<f32>,
    /// The digest of those that are.
    replayed: Digest,
    // One step's working memory.
    output: Buffer,
    log_prob: Buffer,
    squashed: Buffer,
}

impl<'a> Training<'a> {
    fn new(device: &'a Device, env: &'a EnvSpec, config: &'a TrainConfig) -> Result<Self> {
        let task = &env.task;
        let stream = Stream::new(config.seed).child("training");
        let widths = Widths { observation: task.state_dim, context: 0, action: task.action_dim };
        Ok(Training {
            device,
            env,
            config,
            simulator: env.make()?,
            stream,
            sac: Sac::new(device, widths, &config.update, stream.child("initialisation"))?,
            replay: ReplayBuffer::of_transitions(
                device,
                widths,
                config.remembered,
                config.update.batch,
            ),
            steps: 0,
            episodes: 0,
            points: Vec::new(),
            unsaved: Vec::new(),
            replayed: Digest::default(),
            output: device.zeros(2 * task.action_dim),
            log_prob: device.zeros(1),
            squashed: device.zeros(task.action_dim),
        })
    }

    /// Episode after episode until `steps` steps are made.
    fn run(
        &mut self,
        steps: usize,
        folder: &Folder,
        curve: &mut Curve,
        progress: &dyn Observer,
    ) -> Result<()> {
        let mut earned = Vec::new();
        let mut breakdowns = 0;
        while self.steps < steps {
            let before = self.steps;
            let (total, whole) = self.episode(steps)?;
            breakdowns = if self.steps == before { breakdowns + 1 } else { 0 };
            if breakdowns == MOST_BREAKDOWNS {
                return Err(Error::Numeric(format!(
                    "the simulator of {} breaks down at the first step of every episode",
                    self.env.name
                )));
            }
            if whole {
                earned.push(total);
                self.episodes += 1;
            }
            let due = self.steps / self.config.evaluate_every > before / self.config.evaluate_every;
            if (due && whole) || self.steps == steps {
                let name = if self.steps == steps {
                    "final".to_owned()
                } else {
                    format!("step-{}", self.steps)
                };
                let policy = self.policy(&name)?;
                let point = self.evaluate(&policy, &earned)?;
                progress.report(
                    "training",
                    self.steps,
                    steps,
                    &format!("return {:.1}", point.value),
                );
                folder.save_policy(&policy, &name)?;
                curve.add(folder, point)?;
                if due && whole {
                    self.save(folder, &curve.points)?;
                    earned.clear();
                }
            } else {
                let note = curve.points.last().map(|p| format!("return {:.1}", p.value));
                progress.report("training", self.steps, steps, &note.unwrap_or_default());
            }
        }
        Ok(())
    }

    /// One episode, cut where the training has made `most` steps: its return, and whether it is whole.
    fn episode(&mut self, most: usize) -> Result<(f64, bool)> {
        let mut total = 0.0;
        let mut state = vec![0.0; self.env.task.state_dim];
        let mut next = state.clone();
        self.simulator.reset(&mut self.stream.child("reset").index(self.episodes).generator());
        self.simulator.observe(&mut state);
        for _ in 0..self.env.time_limit {
            if self.steps == most {
                return Ok((total, false));
            }
            let choice = self.explore(&state)?;
            let action = self.action(&choice);
            let Some(outcome) = self.simulator.step(&action) else { break };
            self.simulator.observe(&mut next);
            total += outcome.reward;
            self.remember(&Transition {
                observation: &state,
                action: &choice,
                reward: outcome.reward as f32,
                continues: !outcome.terminal,
                next_observation: &next,
            });
            self.steps += 1;
            if self.config.updates(self.steps) > self.config.updates(self.steps - 1) {
                self.learn();
            }
            if outcome.terminal {
                break;
            }
            std::mem::swap(&mut state, &mut next);
        }
        Ok((total, true))
    }

    /// The exploring action, in [−1, 1]: uniformly random before learning starts, then drawn by the actor.
    fn explore(&mut self, state: &[f32]) -> Result<Vec<f32>> {
        let mut generator = self.stream.child("exploration").index(self.steps as u64).generator();
        if self.steps < self.config.learning_starts {
            return Ok((0..self.env.task.action_dim)
                .map(|_| generator.range(-1.0, 1.0) as f32)
                .collect());
        }
        let noise: Vec<f32> =
            (0..self.env.task.action_dim).map(|_| generator.normal() as f32).collect();
        let device = self.device;
        self.sac.actor.infer(device, Input::Shared(&device.upload(state)), 1, &mut self.output);
        device.squash(
            &self.output,
            &device.adopt(noise),
            [],
            &mut self.squashed,
            &mut self.log_prob,
        );
        device.download(&self.squashed)
    }

    /// From [−1, 1] to the task's bounds.
    fn action(&self, choice: &[f32]) -> Vec<f32> {
        let bounds = self.env.task.action_low.iter().zip(&self.env.task.action_high);
        choice
            .iter()
            .zip(bounds)
            .map(|(c, (low, high))| low + 0.5 * (c + 1.0) * (high - low))
            .collect()
    }

    fn remember(&mut self, transition: &Transition<'_>) {
        self.replay.put(self.device, self.steps, transition);
        self.unsaved.extend_from_slice(transition.observation);
        self.unsaved.extend_from_slice(transition.action);
        self.unsaved.extend([transition.reward, f32::from(u8::from(transition.continues))]);
        self.unsaved.extend_from_slice(transition.next_observation);
    }

    fn learn(&mut self) {
        let rewards_as_they_are = self.device.upload(&[1.0]);
        self.sac.draw(
            self.device,
            &mut self.replay,
            &rewards_as_they_are,
            self.stream.child("updates"),
        );
        self.sac.update(self.device);
    }

    /// The actor without its noise.
    fn policy(&self, name: &str) -> Result<Policy> {
        let bounds = [self.env.task.action_low.clone(), self.env.task.action_high.clone()];
        Policy::squashed(name, self.device, &self.sac.means(self.device)?, bounds)
    }

    /// The return without noise, and the state of the learning; `earned` are the returns with noise since the last
    /// evaluation.
    fn evaluate(&self, policy: &Policy, earned: &[f64]) -> Result<CurvePoint> {
        let device = self.device;
        let episodes = Episodes {
            horizon: self.env.time_limit,
            count: self.config.evaluation_episodes,
            discount: 1.0,
            stream: self.stream.child("evaluation").index(self.steps as u64),
        };
        let returns = simulate(device, self.env, policy, &episodes, &())?.values;
        let mean = Mean::of(returns.iter().copied());
        let losses = self.sac.losses(device)?;
        if !(losses.critics.is_finite() && losses.actor.is_finite()) {
            return Err(Error::Numeric(format!(
                "the losses are no longer finite at step {}; try a lower learning rate",
                self.steps
            )));
        }
        Ok(CurvePoint {
            step: self.steps,
            episodes: self.episodes,
            value: mean.value,
            std_error: mean.std_error,
            exploring: (!earned.is_empty())
                .then(|| earned.iter().sum::<f64>() / earned.len() as f64),
            critic_loss: losses.critics,
            actor_loss: losses.actor,
            entropy: losses.entropy,
            temperature: device.download(&self.sac.log_temperature)?[0].exp().into(),
        })
    }
}
