//! What a learning adversary tried in its latest rounds of hallucinated episodes.

use super::learning::LearningConfig;
use crate::Result;
use crate::rollout::{Rollout, World};
use crate::run::checkpoint::{Arrays, Element};
use hambo_engine::backend::{Buffer, Device, Number, Status};
use hambo_engine::rl::{ReplayBuffer, Widths};
use hambo_engine::rng::Stream;
use std::collections::VecDeque;

/// The steps of the latest rounds. An observation is the standardized (s, a), its context t / T, because the
/// return that is left depends on the time that is left. With the time in sight the last step of the horizon is
/// an end like any other: nothing follows it.
pub(super) struct Experience<A> {
    pub replay: ReplayBuffer<A>,
    episodes: usize,
    horizon: usize,
    most_rounds: usize,
    /// Row and next row of the transitions of each remembered round, and where the next round is written.
    rounds: VecDeque<Vec<[u32; 2]>>,
    slot: usize,
    rewards: RunningStd,
}

/// Lengths of what goes into a step, with choices that are `action` wide.
pub(super) fn widths(world: &World<'_>, action: usize) -> Widths {
    Widths { observation: world.model.input_dim(), context: 1, action }
}

impl<A: Number> Experience<A> {
    /// Room for the latest rounds.
    pub fn new(world: &World<'_>, widths: Widths, learning: &LearningConfig) -> Result<Self> {
        let LearningConfig { remembered_rounds: most_rounds, episodes, batch, .. } = *learning;
        let World { device, model, setting, .. } = *world;
        let episodes = episodes.next_multiple_of(model.folds());
        let rows = most_rounds.saturating_mul(episodes).saturating_mul(setting.horizon);
        learning.check_size(setting.horizon)?;
        Ok(Experience {
            replay: ReplayBuffer::new(device, widths, rows, batch),
            episodes,
            horizon: setting.horizon,
            most_rounds,
            rounds: VecDeque::new(),
            slot: 0,
            rewards: RunningStd::default(),
        })
    }

    /// Follows a round of episodes to its end and remembers its steps in place of the oldest round's.
    pub fn collect<'w>(
        &mut self,
        device: &Device,
        mut rollout: Rollout<'w>,
        stream: Stream,
        choices: impl for<'r> Fn(&'r Rollout<'w>) -> &'r Buffer<A>,
    ) -> Result<()> {
        let (episodes, horizon) = (self.episodes, self.horizon);
        let first = self.slot * horizon * episodes;
        self.slot = (self.slot + 1) % self.most_rounds;
        let mut statuses: Buffer<u32> = device.zeros((horizon + 1) * episodes);
        let replay = &mut self.replay;
        rollout.world.repeat(horizon, || {
            rollout.step(stream); // the time is now that after the step
            let columns = [&rollout.inputs, &rollout.elapsed, &rollout.rewards];
            replay.store_at(device, first, &rollout.time, columns, choices(&rollout));
            device.store_at(&rollout.status, &rollout.time, 0, 0, &mut statuses);
        });
        self.remember(device, first, &device.download(&statuses)?)
    }

    /// Gradient steps, each on what `update` draws from it with rewards in its unit: their number.
    pub fn learn(
        &mut self,
        device: &Device,
        updates: usize,
        mut update: impl FnMut(&Device, &mut ReplayBuffer<A>, &Buffer),
    ) -> u32 {
        if self.replay.is_empty() {
            return 0; // every episode left the finite numbers at once
        }
        let reward_scale = device.upload(&[self.reward_scale()]);
        let device = &device.fast();
        device.repeat(updates, || update(device, &mut self.replay, &reward_scale));
        updates as u32
    }

    /// −1 / deviation of the rewards so far: what lowers the return is what the adversary gains.
    pub fn reward_scale(&self) -> f32 {
        -1.0 / self.rewards.deviation()
    }

    /// Lists the steps that can be learned from. One that left the finite numbers cannot.
    fn remember(&mut self, device: &Device, first: usize, statuses: &[u32]) -> Result<()> {
        let (episodes, steps) = (self.episodes, self.horizon);
        let rewards = device.download(self.replay.rewards())?;
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
        if self.rounds.len() > self.most_rounds {
            self.rounds.pop_front();
        }
        self.list(device);
        Ok(())
    }

    /// Tells the replay which steps there are.
    fn list(&mut self, device: &Device) {
        let [rows, next] =
            [0, 1].map(|i| self.rounds.iter().flatten().map(|t| t[i]).collect::<Vec<u32>>());
        self.replay.set_transitions(device, &rows, &next);
    }
}

impl<A: Number + Element> Experience<A> {
    /// Adds all that is remembered.
    pub fn store(&mut self, device: &Device, arrays: &mut Arrays) -> Result<()> {
        let rows = self.rounds.len() * self.horizon * self.episodes;
        let (numbers, (width, actions)) = self.replay.columns();
        for (name, width, column) in numbers {
            arrays.put(name, &device.download(column)?[..rows * width]);
        }
        arrays.put("choices", &device.download(actions)?[..rows * width]);
        let lengths: Vec<u32> = self.rounds.iter().map(|round| round.len() as u32).collect();
        let transitions: Vec<u32> = self.rounds.iter().flatten().flatten().copied().collect();
        arrays.put("memory.lengths", &lengths);
        arrays.put("memory.transitions", &transitions);
        arrays.put("memory.slot", &[self.slot as u32]);
        let RunningStd { count, mean, squares } = self.rewards;
        arrays.put("memory.rewards", &[count, mean, squares]);
        Ok(())
    }

    /// Remembers what was stored, which is not trusted.
    pub fn restore(&mut self, device: &Device, arrays: &Arrays) -> std::result::Result<(), String> {
        let lengths: Vec<u32> = arrays.get("memory.lengths")?;
        let rows = lengths.len() * self.horizon * self.episodes;
        let flat: Vec<u32> = arrays.get_exactly(
            "memory.transitions",
            2 * lengths.iter().map(|&n| n as usize).sum::<usize>(),
        )?;
        let slot = arrays.get_exactly::<u32>("memory.slot", 1)?[0] as usize;
        if lengths.len() > self.most_rounds
            || slot >= self.most_rounds
            || flat.iter().any(|&r| r as usize >= rows)
        {
            return Err("transitions that point beyond what is remembered".to_owned());
        }
        let (numbers, (width, actions)) = self.replay.columns();
        for (name, width, column) in numbers {
            let mut values: Vec<f32> = arrays.get_exactly(name, rows * width)?;
            values.resize(column.len(), 0.0);
            *column = device.adopt(values);
        }
        let mut values: Vec<A> = arrays.get_exactly("choices", rows * width)?;
        values.resize(actions.len(), A::default());
        *actions = device.adopt(values);
        let mut pairs = flat.chunks_exact(2).map(|pair| [pair[0], pair[1]]);
        self.rounds = lengths.iter().map(|&n| pairs.by_ref().take(n as usize).collect()).collect();
        self.slot = slot;
        let rewards: Vec<f64> = arrays.get_exactly("memory.rewards", 3)?;
        self.rewards = RunningStd { count: rewards[0], mean: rewards[1], squares: rewards[2] };
        self.list(device);
        Ok(())
    }
}

/// Mean and deviation of all rewards so far (Welford).
#[derive(Default)]
struct RunningStd {
    count: f64,
    mean: f64,
    squares: f64,
}

impl RunningStd {
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
