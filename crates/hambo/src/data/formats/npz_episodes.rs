//! NPZ files of many episodes: arrays `[episodes, steps, width]`, and the trajectories of `imitation`.

use crate::Result;
use crate::data::ReadOptions;
use crate::data::formats::by_episode::{ByEpisode, Episode};
use crate::data::formats::npz::{
    ACTIONS, Archive, DONES, OBSERVATIONS, REWARDS, TERMINALS, TIMEOUTS,
};
use crate::data::log::{Format, Log};

/// Names of the array with the number of steps of each episode, where arrays are filled up.
const LENGTHS: &[&str] = &["lengths", "episode_lengths", "traj_lengths"];

/// Steps up to which their numbers are exact in float32.
const MOST_STEPS: usize = 1 << 24;

/// An array `[episodes, steps, width]`.
struct Stack {
    name: &'static str,
    shape: [usize; 3],
    values: Vec<f32>,
}

impl Stack {
    fn read(archive: &mut Archive, names: &[&'static str]) -> Result<Option<Stack>> {
        let Some(name) = archive.find(names) else { return Ok(None) };
        let keep = archive.keep_not_finite;
        let array = archive.with(name, |header, mut reader| {
            Ok(Stack {
                name,
                shape: header.stack()?,
                values: header.read_stack(&mut reader, keep)?,
            })
        });
        array.map(Some).map_err(|problem| archive.problem(format!("`{name}` {problem}")))
    }

    fn required(archive: &mut Archive, names: &[&'static str]) -> Result<Stack> {
        match Stack::read(archive, names)? {
            Some(stack) => Ok(stack),
            None => Err(archive.problem(format!("no array `{}`", names[0]))),
        }
    }

    /// Flags, which are 0 or 1.
    fn flags(archive: &mut Archive, names: &[&'static str]) -> Result<Option<Stack>> {
        let stack = Stack::read(archive, names)?;
        let wrong = |stack: &Stack| {
            let value = stack.values.iter().find(|&&v| v != 0.0 && v != 1.0);
            value.map(|v| archive.problem(format!("`{}` holds {v}: expected 0 or 1", stack.name)))
        };
        stack.as_ref().and_then(wrong).map_or(Ok(()), Err)?;
        Ok(stack)
    }

    /// The first steps of an episode.
    fn steps(&self, episode: usize, steps: usize) -> &[f32] {
        let [_, all, width] = self.shape;
        &self.values[episode * all * width..][..steps * width]
    }
}

impl Log {
    /// Reads arrays `[episodes, steps, width]`.
    pub(super) fn read_stack(mut archive: Archive, options: &ReadOptions) -> Result<Log> {
        let states = Stack::required(&mut archive, OBSERVATIONS)?;
        let actions = Stack::required(&mut archive, ACTIONS)?;
        let rewards = match Stack::read(&mut archive, REWARDS)? {
            None if !options.without_rewards => {
                return Err(archive.problem(NO_REWARDS.into()));
            }
            rewards => rewards,
        };
        let terminals = match Stack::flags(&mut archive, TERMINALS)? {
            None => Stack::flags(&mut archive, DONES)?,
            terminals => terminals,
        };
        let timeouts = Stack::flags(&mut archive, TIMEOUTS)?;
        let lengths = archive.optional(LENGTHS)?;
        let [episodes, steps, action_dim] = actions.shape;
        for other in [Some(&states), rewards.as_ref(), terminals.as_ref(), timeouts.as_ref()] {
            let Some(other) = other else { continue };
            let fits = match other.name == states.name {
                true => other.shape[1] == steps || other.shape[1] == steps + 1,
                false => other.shape[1..] == [steps, 1],
            };
            if other.shape[0] != episodes || !fits {
                return Err(archive.problem(format!(
                    "`{}` has shape {:?}, `{}` has {:?}: expected as many episodes and steps",
                    actions.name, actions.shape, other.name, other.shape
                )));
            }
        }
        if let Some((name, rows, ..)) = lengths.as_ref().filter(|l| l.1 != episodes || l.2 != 1) {
            return Err(
                archive.problem(format!("`{name}` has {rows} rows for {episodes} episodes"))
            );
        }
        let extra = states.shape[1] - steps;
        let mut all = ByEpisode::new(rewards.is_none());
        for e in 0..episodes {
            let wrong = |problem| archive.problem(format!("episode {e}: {problem}"));
            let n = match &lengths {
                None => steps,
                Some((_, _, _, values)) => match values[e] {
                    n if n >= 1.0 && n <= steps as f32 && n.fract() == 0.0 => n as usize,
                    n => return Err(wrong(format!("a length of {n} in arrays of {steps} steps"))),
                },
            };
            let flags = |stack: &Option<Stack>| {
                stack.as_ref().map(|s| s.steps(e, n).iter().map(|&v| v == 1.0).collect())
            };
            let episode = Episode {
                states: states.steps(e, n + extra).to_vec(),
                actions: actions.steps(e, n).to_vec(),
                rewards: rewards.as_ref().map_or_else(|| vec![0.0; n], |r| r.steps(e, n).to_vec()),
                terminals: flags(&terminals),
                timeouts: flags(&timeouts),
            };
            all.push([states.shape[2], action_dim], episode).map_err(|problem| {
                wrong(format!(
                    "{problem} (arrays are taken as [episodes, steps, width]; episodes that end early need `lengths`)"
                ))
            })?;
        }
        let mut notes = Vec::new();
        archive.note_unused(&mut notes);
        Ok(all.finish(Format::NpzStack, notes))
    }

    /// Reads the trajectories of `imitation`: all steps one after another, one observation more for each, and where the next
    /// one begins.
    pub(super) fn read_trajectories(mut archive: Archive, options: &ReadOptions) -> Result<Log> {
        let (_, state_rows, state_dim, states) = archive.required(OBSERVATIONS)?;
        let (_, n, action_dim, actions) = archive.required(ACTIONS)?;
        let rewards = match archive.optional(REWARDS)? {
            Some((name, rows, width, _)) if (rows, width) != (n, 1) => {
                return Err(archive.problem(format!("`{name}` has {rows} rows for {n} actions")));
            }
            Some((.., rewards)) => Some(rewards),
            None if !options.without_rewards => return Err(archive.problem(NO_REWARDS.into())),
            None => None,
        };
        if n > MOST_STEPS {
            return Err(archive.problem(format!(
                "{n} steps in one file: expected at most {MOST_STEPS}; split it"
            )));
        }
        let name = archive.find(&["indices"]).unwrap_or_default();
        let splits = archive.with(name, |header, mut reader| match header.shape[..] {
            [count] if count <= n => header.read_stack(&mut reader, false),
            _ => Err(format!("has shape {:?} for {n} steps", header.shape)),
        });
        let splits = splits.map_err(|problem| archive.problem(format!("`{name}` {problem}")))?;
        let mut starts = vec![0];
        starts.extend(splits.iter().map(|&split| split as usize));
        let ends: Vec<usize> = starts.iter().skip(1).copied().chain([n]).collect();
        if starts.iter().zip(&ends).any(|(start, end)| start >= end) || state_rows != n + ends.len()
        {
            return Err(archive.problem(format!(
                "`indices` make {} trajectories of {n} steps, which does not fit {state_rows} observations: expected one \
                 more for each trajectory",
                ends.len()
            )));
        }
        let terminal = archive.optional(&["terminal"])?;
        let mut all = ByEpisode::new(rewards.is_none());
        for (e, (&start, &end)) in starts.iter().zip(&ends).enumerate() {
            let steps = end - start;
            let ended = terminal.as_ref().and_then(|(.., values)| values.get(e)).map(|&v| v == 1.0);
            let flags = |last: bool| (0..steps).map(|i| last && i + 1 == steps).collect();
            let episode = Episode {
                states: states[(start + e) * state_dim..(end + e + 1) * state_dim].to_vec(),
                actions: actions[start * action_dim..end * action_dim].to_vec(),
                rewards: rewards
                    .as_ref()
                    .map_or_else(|| vec![0.0; steps], |r| r[start..end].to_vec()),
                terminals: ended.map(flags),
                timeouts: None,
            };
            all.push([state_dim, action_dim], episode)
                .map_err(|problem| archive.problem(format!("trajectory {e}: {problem}")))?;
        }
        let mut notes = Vec::new();
        archive.note_unused(&mut notes);
        if terminal.is_some() {
            notes.push(
                "`terminal` of `imitation` is also set where a time limit ended a trajectory"
                    .into(),
            );
        }
        Ok(all.finish(Format::NpzTrajectories, notes))
    }
}

const NO_REWARDS: &str = "no array `rewards`: say what a step pays with --reward EXPR";
