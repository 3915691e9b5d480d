//! The paper's adversary for HAMBO-CA: η(s, a) trained by Soft Actor-Critic on the negative return, in rounds
//! of hallucinated episodes and gradient steps.
//!
//! It asks for no gradient of model, policy or reward. The adversary sees (s, a) alone; its critics also see
//! t / T, because the return that is left depends on the time that is left. With the time in sight the last
//! step of the horizon is an end like any other: nothing follows it.

use crate::compute::{Buffer, Device, Status};
use crate::hallucination::{ConfidenceSet, Continuous};
use crate::rl::{Replay, Sac, SacUpdate, Widths};
use crate::rng::Stream;
use crate::rollout::{Explorer, Propagation, Rollout, World};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Settings of the SAC adversary; the defaults are the paper's where it names one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SacConfig {
    /// Rounds; 0: no SAC adversary.
    pub rounds: usize,
    /// Hallucinated episodes a round.
    pub episodes: usize,
    /// Gradient steps a round.
    pub updates: usize,
    /// Rows of a minibatch.
    pub batch: usize,
    /// Widths of the hidden layers (ReLU) of adversary and critics.
    pub hidden: Vec<usize>,
    /// Adam's learning rate for adversary and critics.
    pub learning_rate: f32,
    /// Adam's learning rate for the entropy parameter.
    pub temperature_rate: f32,
    /// The entropy parameter at the start, in units of the deviation of rewards. At its learning rate it
    /// hardly moves, so that this decides how far the adversary commits itself.
    pub temperature: f32,
    /// Rounds whose episodes are learned from, the latest ones.
    pub remembered_rounds: usize,
}

impl Default for SacConfig {
    fn default() -> Self {
        SacConfig {
            rounds: 0,
            episodes: 1000,
            updates: 1000,
            batch: 1024,
            hidden: vec![256, 256],
            learning_rate: 1e-3,
            temperature_rate: 5e-5,
            temperature: 0.02,
            remembered_rounds: 5,
        }
    }
}

impl SacConfig {
    /// Checks every setting against its range.
    pub fn validate(&self) -> Result<()> {
        let counts = [
            ("sac.episodes", self.episodes),
            ("sac.updates", self.updates),
            ("sac.batch", self.batch),
            ("sac.remembered_rounds", self.remembered_rounds),
        ];
        for (name, value) in counts {
            if value == 0 {
                return Err(Error::setting(name, value, "at least 1"));
            }
        }
        Ok(())
    }
}

/// Trains one adversary, round after round.
pub(crate) struct SacAdversary<'a> {
    world: &'a World<'a>,
    set: ConfidenceSet,
    config: SacConfig,
    sac: Sac,
    replay: Replay,
    /// Row and next row of the transitions of each remembered round, and where the next round is written.
    rounds: VecDeque<Vec<[u32; 2]>>,
    slot: usize,
    rewards: Spread,
    reward_scale: Buffer,
    time: Buffer,
}

impl<'a> SacAdversary<'a> {
    pub fn new(
        world: &'a World<'a>,
        set: &ConfidenceSet,
        config: &SacConfig,
        stream: Stream,
    ) -> Result<Self> {
        config.validate()?;
        let World { device, model, setting, .. } = *world;
        let (ds, da) = (model.state_dim(), model.action_dim());
        let rows = config.remembered_rounds * config.episodes * setting.horizon;
        if u32::try_from(rows).is_err() {
            return Err(Error::setting(
                "sac.remembered_rounds",
                config.remembered_rounds,
                format!("fewer: {rows} steps would be remembered, and 2³² − 1 are possible"),
            ));
        }
        let widths = Widths { observation: ds + da, context: 1, action: ds };
        let update = SacUpdate {
            hidden: config.hidden.clone(),
            batch: config.batch,
            learning_rate: config.learning_rate,
            temperature_rate: config.temperature_rate,
            temperature: config.temperature,
            discount: setting.discount as f32,
            ..Default::default()
        };
        Ok(SacAdversary {
            world,
            set: set.clone(),
            sac: Sac::new(device, widths, &update, stream.child("initialisation"))?,
            replay: Replay::new(device, widths, rows, config.batch),
            rounds: VecDeque::new(),
            slot: 0,
            rewards: Spread::default(),
            reward_scale: device.zeros(1),
            time: device.zeros(config.episodes),
            config: config.clone(),
        })
    }

    /// One round: episodes from `starts` `[episodes, state]`, then gradient steps.
    pub fn round(&mut self, starts: &[f32], stream: Stream) {
        self.collect(starts, stream.child("episodes"));
        if self.replay.is_empty() {
            return; // every episode left the finite numbers at once
        }
        let device = self.world.device;
        self.reward_scale = device.upload(&[-1.0 / self.rewards.deviation()]);
        let stream = stream.child("updates");
        for _ in 0..self.config.updates {
            self.sac.draw(device, &mut self.replay, &self.reward_scale, stream);
            self.sac.update(device);
        }
    }

    /// The adversary as it stands, without its noise: η = tanh μ(s, a).
    pub fn candidate(&self) -> Continuous {
        Continuous { networks: self.sac.deterministic(self.world.device), set: self.set.clone() }
    }

    /// Rolls the exploring adversary out and remembers its steps in place of the oldest round's.
    fn collect(&mut self, starts: &[f32], stream: Stream) {
        let World { device, setting, .. } = *self.world;
        let (episodes, horizon) = (self.config.episodes, setting.horizon);
        let first = self.slot * horizon * episodes;
        self.slot = (self.slot + 1) % self.config.remembered_rounds;

        let explorer = Explorer { actor: &self.sac.actor, set: &self.set };
        let mut rollout = Rollout::new(self.world, Propagation::Explored(explorer), starts);
        let mut statuses: Buffer<u32> = device.zeros((horizon + 1) * episodes);
        for t in 0..horizon {
            device.fill(&mut self.time, t as f32 / horizon as f32);
            rollout.step(stream);
            let columns = [&rollout.inputs, &self.time, rollout.choices(), &rollout.rewards];
            self.replay.store(device, first + t * episodes, columns);
            device.copy_part(&rollout.status, 0, &mut statuses, (t + 1) * episodes, episodes);
        }
        let statuses = device.download(&statuses);
        self.remember(device, first, &statuses);
    }

    /// Lists the steps that can be learned from. One that left the finite numbers cannot.
    fn remember(&mut self, device: &Device, first: usize, statuses: &[u32]) {
        let episodes = self.config.episodes;
        let steps = statuses.len() / episodes - 1;
        let rewards = device.download(self.replay.rewards());
        let mut continues = vec![0.0; steps * episodes];
        let mut transitions = Vec::with_capacity(steps * episodes);
        for step in 0..steps * episodes {
            let (before, after) = (statuses[step], statuses[step + episodes]);
            if before != Status::Running as u32 || after == Status::Diverged as u32 {
                continue;
            }
            let row = first + step;
            let goes_on = after == Status::Running as u32
                && step + episodes < steps * episodes
                && statuses[step + 2 * episodes] != Status::Diverged as u32;
            continues[step] = f32::from(u8::from(goes_on));
            transitions.push([row as u32, if goes_on { row + episodes } else { row } as u32]);
            self.rewards.add(rewards[row].into());
        }
        self.replay.mark(device, first, &continues);
        self.rounds.push_back(transitions);
        if self.rounds.len() > self.config.remembered_rounds {
            self.rounds.pop_front();
        }
        let [rows, next] = [0, 1].map(|i| self.rounds.iter().flatten().map(|t| t[i]).collect::<Vec<u32>>());
        self.replay.set_transitions(device, &rows, &next);
    }
}

/// Mean and deviation of all rewards so far (Welford).
#[derive(Default)]
struct Spread {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Spread {
    fn add(&mut self, x: f64) {
        self.count += 1.0;
        let before = x - self.mean;
        self.mean += before / self.count;
        self.squares += before * (x - self.mean);
    }

    /// The standard deviation, with a floor that keeps rewards that never differ from exploding.
    fn deviation(&self) -> f32 {
        let deviation = (self.squares / self.count.max(1.0)).sqrt();
        deviation.max(1e-3 * self.mean.abs()).max(1e-12) as f32
    }
}
