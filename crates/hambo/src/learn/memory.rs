//! What policy and adversary learn from: the same rollouts, each with what it sees of them, and the logged transitions.

use super::config::LearnConfig;
use crate::run::checkpoint::{Arrays, Element};
use crate::{Error, Result};
use hambo_engine::backend::{Buffer, Device, Number, Status};
use hambo_engine::rl::{ReplayBuffer, Widths};
use hambo_engine::rng::Stream;
use std::collections::VecDeque;

/// Transitions of the latest rounds of rollouts and of the log. In a round row t · starts + i is step t of rollout i; the
/// last step of each is there only as what follows the one before.
pub(super) struct Memory<A> {
    /// What the policy sees: logged transitions first, two rows each, then those of the rounds.
    pub policy: ReplayBuffer,
    /// What the adversary sees: those of the rounds.
    pub adversary: ReplayBuffer<A>,
    logged: usize,
    real_share: f64,
    starts: usize,
    steps: usize,
    most_rounds: usize,
    /// Row and next row of each transition of the rounds, and where the next round is written.
    rounds: VecDeque<Vec<[u32; 2]>>,
    slot: usize,
}

/// The log as the policy sees it.
pub(super) struct Logged {
    /// Standardized observations, two rows for each transition.
    pub observations: Vec<f32>,
    /// Actions in \[−1, 1\], of which every second row counts.
    pub actions: Vec<f32>,
    /// The same for rewards.
    pub rewards: Vec<f32>,
    /// And for whether something follows.
    pub continues: Vec<f32>,
}

impl<A: Number + Element> Memory<A> {
    /// Room for the latest rounds of `starts` rollouts, and the log.
    pub fn new(
        device: &Device,
        widths: [Widths; 2],
        (config, starts): (&LearnConfig, usize),
        log: &Logged,
    ) -> Result<Self> {
        let LearnConfig { remembered_rounds, rollout_steps, batch, real_share, .. } = *config;
        let rows = remembered_rounds * starts * (rollout_steps + 1);
        let logged = log.rewards.len();
        if u32::try_from(logged + rows).is_err() {
            let expected = format!("fewer: {} rows are more than can be counted", logged + rows);
            return Err(Error::setting("learn.remembered_rounds", remembered_rounds, expected));
        }
        let mut policy = ReplayBuffer::new(device, widths[0], logged + rows, batch);
        let [observations, nothing, rewards, actions] =
            [&log.observations, &Vec::new(), &log.rewards, &log.actions]
                .map(|column| device.upload(column));
        policy.store(device, 0, [&observations, &nothing, &rewards], &actions);
        policy.mark(device, 0, &log.continues);
        Ok(Memory {
            policy,
            adversary: ReplayBuffer::new(device, widths[1], rows, batch),
            logged,
            real_share,
            starts,
            steps: rollout_steps,
            most_rounds: remembered_rounds,
            rounds: VecDeque::new(),
            slot: 0,
        })
    }

    /// Where the next round is written, in the adversary's rows.
    pub fn first(&self) -> usize {
        self.slot * self.starts * (self.steps + 1)
    }

    /// The same in the policy's rows.
    pub fn first_of_policy(&self) -> usize {
        self.logged + self.first()
    }

    /// Lists the transitions of the round that was written, by the status before and after each step, `[steps + 2, starts]`.
    /// Those that left the finite numbers are left out. The share of rollouts that left the range of the logs.
    pub fn remember(&mut self, device: &Device, statuses: &[u32], stream: Stream) -> f64 {
        let (n, first) = (self.starts, self.first());
        let is = |place: usize, status: Status| statuses[place] == status as u32;
        let mut continues = vec![0.0; n * (self.steps + 1)];
        let mut transitions = Vec::with_capacity(n * self.steps);
        for (step, continues) in continues[..n * self.steps].iter_mut().enumerate() {
            if !is(step, Status::Running) || is(step + n, Status::Diverged) {
                continue;
            }
            // The next row is a place to go on from unless nothing is known of what follows it.
            let goes_on = is(step + n, Status::Running) && !is(step + 2 * n, Status::Diverged);
            *continues = f32::from(u8::from(goes_on));
            let row = (first + step) as u32;
            transitions.push([row, if goes_on { row + n as u32 } else { row }]);
        }
        self.policy.mark(device, self.logged + first, &continues);
        self.adversary.mark(device, first, &continues);
        self.slot = (self.slot + 1) % self.most_rounds;
        self.rounds.push_back(transitions);
        if self.rounds.len() > self.most_rounds {
            self.rounds.pop_front();
        }
        self.list(device, stream);
        let last = &statuses[n * self.steps..][..n];
        last.iter().filter(|&&s| s == Status::Left as u32).count() as f64 / n as f64
    }

    /// Tells both what there is. The policy's list has its share of logged transitions, drawn anew in every round.
    fn list(&mut self, device: &Device, stream: Stream) {
        let hallucinated: Vec<[u32; 2]> = self.rounds.iter().flatten().copied().collect();
        let column = |list: &[[u32; 2]], i: usize| list.iter().map(|t| t[i]).collect::<Vec<u32>>();
        let [rows, next] = [0, 1].map(|i| column(&hallucinated, i));
        self.adversary.set_transitions(device, &rows, &next);
        let share = self.real_share / (1.0 - self.real_share);
        let real = match hallucinated.len() {
            0 => self.logged / 2, // everything left the finite numbers at once
            n => (n as f64 * share).round() as usize,
        };
        let mut generator = stream.generator();
        let drawn = (0..real).map(|_| 2 * generator.below(self.logged / 2) as u32);
        let logged = self.logged as u32;
        let own = hallucinated.iter().map(|[row, next]| [logged + row, logged + next]);
        let all: Vec<[u32; 2]> = drawn.map(|row| [row, row + 1]).chain(own).collect();
        let [rows, next] = [0, 1].map(|i| column(&all, i));
        self.policy.set_transitions(device, &rows, &next);
    }

    /// All that is remembered of the rounds.
    pub fn store(&mut self, device: &Device) -> Result<Arrays> {
        let mut arrays = Arrays::default();
        let lengths: Vec<u32> = self.rounds.iter().map(|round| round.len() as u32).collect();
        let transitions: Vec<u32> = self.rounds.iter().flatten().flatten().copied().collect();
        arrays.put("lengths", &lengths);
        arrays.put("transitions", &transitions);
        arrays.put("slot", &[self.slot as u32]);
        let rows = self.rounds.len() * self.starts * (self.steps + 1);
        let policy = columns(device, &mut self.policy, self.logged, rows)?;
        arrays.put_part("policy", policy);
        arrays.put_part("adversary", columns(device, &mut self.adversary, 0, rows)?);
        Ok(arrays)
    }

    /// Remembers what was stored, which is not trusted.
    pub fn restore(&mut self, device: &Device, arrays: &Arrays) -> std::result::Result<(), String> {
        let lengths: Vec<u32> = arrays.get("lengths")?;
        let rows = lengths.len() * self.starts * (self.steps + 1);
        let count = lengths.iter().map(|&n| n as usize).sum::<usize>();
        let flat: Vec<u32> = arrays.get_exactly("transitions", 2 * count)?;
        let slot = arrays.get_exactly::<u32>("slot", 1)?[0] as usize;
        let beyond = flat.iter().any(|&row| row as usize >= rows);
        if lengths.len() > self.most_rounds || slot >= self.most_rounds || beyond {
            return Err("transitions that point beyond what is remembered".to_owned());
        }
        put_back(device, &mut self.policy, self.logged, rows, &arrays.part("policy"))?;
        put_back(device, &mut self.adversary, 0, rows, &arrays.part("adversary"))?;
        let mut pairs = flat.chunks_exact(2).map(|pair| [pair[0], pair[1]]);
        self.rounds = lengths.iter().map(|&n| pairs.by_ref().take(n as usize).collect()).collect();
        self.slot = slot;
        Ok(())
    }
}

/// `rows` rows from `first` on.
fn columns<A: Number + Element>(
    device: &Device,
    replay: &mut ReplayBuffer<A>,
    first: usize,
    rows: usize,
) -> Result<Arrays> {
    let mut arrays = Arrays::default();
    let (numbers, (width, choices)) = replay.columns();
    for (name, width, column) in numbers {
        arrays.put(name, &device.download(column)?[first * width..][..rows * width]);
    }
    arrays.put("choices", &device.download(choices)?[first * width..][..rows * width]);
    Ok(arrays)
}

/// The same back.
fn put_back<A: Number + Element>(
    device: &Device,
    replay: &mut ReplayBuffer<A>,
    first: usize,
    rows: usize,
    arrays: &Arrays,
) -> std::result::Result<(), String> {
    let (numbers, (width, choices)) = replay.columns();
    for (name, width, column) in numbers {
        write(device, &arrays.get_exactly::<f32>(name, rows * width)?, first * width, column);
    }
    write(device, &arrays.get_exactly::<A>("choices", rows * width)?, first * width, choices);
    Ok(())
}

fn write<T: Number>(device: &Device, values: &[T], first: usize, to: &mut Buffer<T>) {
    if !values.is_empty() {
        device.copy_part(&device.upload(values), 0, to, first, values.len());
    }
}
