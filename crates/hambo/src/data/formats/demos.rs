//! HDF5 files with one group a demonstration, as robomimic (`data/demo_0`) and ManiSkill (`traj_0`) write them.

use crate::Result;
use crate::data::formats::by_episode::{ByEpisode, Episode};
use crate::data::formats::hdf5::{Field, Source};
use crate::data::log::{Format, Log};
use crate::data::{ColumnNames, ReadOptions};

/// How the groups begin that are followed by their numbers.
const GROUPS: [&str; 4] = ["data/demo_", "demo_", "traj_", "data/episode_"];
const STATES: [&str; 3] = ["obs", "observations", "observation"];
const NEXT: [&str; 2] = ["next_obs", "next_observations"];
const ACTIONS: [&str; 2] = ["actions", "action"];
const REWARDS: [&str; 2] = ["rewards", "reward"];
const TERMINALS: [&str; 4] = ["terminals", "terminated", "terminations", "dones"];
const TIMEOUTS: [&str; 3] = ["timeouts", "truncated", "truncations"];

/// Paths of the groups in the order of their numbers; empty where a file is in another layout.
pub(crate) fn groups(source: &Source) -> Vec<String> {
    for prefix in GROUPS {
        let number = |name: &str| name.strip_prefix(prefix)?.split_once('/')?.0.parse::<u64>().ok();
        let mut numbers: Vec<u64> = source.names().iter().filter_map(|n| number(n)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        if !numbers.is_empty() {
            return numbers.into_iter().map(|n| format!("{prefix}{n}")).collect();
        }
    }
    Vec::new()
}

impl Log {
    /// Reads these groups of a file.
    pub(crate) fn read_demos(
        source: &Source,
        groups: &[String],
        options: &ReadOptions,
    ) -> Result<Log> {
        let names = Names::of(source, &groups[0], options)?;
        let mut all = ByEpisode::new(names.reward.is_none());
        let mut ended = 0;
        for group in groups {
            let matrices = |names: &[String]| {
                let fields = names.iter().map(|name| source.matrix(&format!("{group}/{name}")));
                let fields = fields.collect::<Result<Vec<_>>>()?;
                match fields.iter().find(|field| field.rows != fields[0].rows) {
                    Some(other) => Err(source.problem(format!(
                        "`{}` has {} rows, `{}` has {}",
                        fields[0].name, fields[0].rows, other.name, other.rows
                    ))),
                    None => beside(fields),
                }
            };
            let flags = |name: &Option<String>| match name {
                Some(name) => source.column(&format!("{group}/{name}"))?.read_flags().map(Some),
                None => Ok(None),
            };
            let (state_dim, mut states) = matrices(&names.state)?;
            let (action_dim, actions) = matrices(&names.action)?;
            let n = actions.len() / action_dim.max(1);
            let rewards = match &names.reward {
                Some(name) => source.column(&format!("{group}/{name}"))?.read()?,
                None => vec![0.0; n],
            };
            if !names.next.is_empty() && states.len() == n * state_dim {
                let (width, next) = matrices(&names.next)?;
                if width != state_dim || next.len() != states.len() {
                    return Err(source.problem(format!("`{group}`: other next states than states")));
                }
                states.extend_from_slice(&next[(n - 1) * state_dim..]);
            }
            let (terminals, timeouts) = (flags(&names.terminal)?, flags(&names.timeout)?);
            ended += usize::from(terminals.as_ref().is_some_and(|t| t.last() == Some(&true)));
            let episode = Episode { states, actions, rewards, terminals, timeouts };
            all.push([state_dim, action_dim], episode)
                .map_err(|problem| source.problem(format!("`{group}`: {problem}")))?;
        }
        let mut notes = Vec::new();
        if let Some(name) = names.terminal.filter(|_| ended == groups.len()) {
            notes.push(format!(
                "`{name}` is set at the end of every episode, which is taken to be terminal: if the recording only stopped \
                 there, say --columns timeout={name}"
            ));
        }
        Ok(all.finish(Format::Demos, notes))
    }
}

/// Which datasets of a group hold what.
struct Names {
    state: Vec<String>,
    action: Vec<String>,
    next: Vec<String>,
    reward: Option<String>,
    terminal: Option<String>,
    timeout: Option<String>,
}

impl Names {
    fn of(source: &Source, group: &str, options: &ReadOptions) -> Result<Names> {
        let said: &ColumnNames = &options.columns;
        let has = |name: &str| source.contains(&format!("{group}/{name}"));
        let one = |named: &[String], usual: &[&str]| match named {
            [] => {
                let claimed = |name: &str| {
                    let said = [&said.terminal, &said.timeout, &said.reward];
                    said.into_iter().flatten().any(|said| said == name)
                };
                usual.iter().find(|name| has(name) && !claimed(name)).map(|name| (*name).to_owned())
            }
            named => named.first().cloned(),
        };
        let state = match &said.state[..] {
            [] => states(source, group)?,
            said => said.to_vec(),
        };
        // Next states are those of the same names.
        let mut next = said.next.clone();
        if next.is_empty() {
            let twin = |name: &String| {
                let twin = STATES
                    .iter()
                    .zip(NEXT)
                    .find_map(|(s, n)| Some(format!("{n}{}", name.strip_prefix(s)?)));
                twin.filter(|twin| has(twin))
            };
            next = state.iter().map(twin).collect::<Option<Vec<_>>>().unwrap_or_default();
        }
        let action = match (&said.action[..], one(&[], &ACTIONS)) {
            ([], Some(name)) => vec![name],
            ([], None) => return Err(source.problem(format!("no actions in `{group}`"))),
            (said, _) => said.to_vec(),
        };
        let reward = one(&said.reward, &REWARDS);
        if reward.is_none() && !options.without_rewards {
            return Err(source.problem(format!(
                "no rewards in `{group}`: say what a step pays with --reward EXPR"
            )));
        }
        let (terminal, timeout) = (one(&said.terminal, &TERMINALS), one(&said.timeout, &TIMEOUTS));
        Ok(Names { state, action, next, reward, terminal, timeout })
    }
}

/// The dataset of observations, or the only one in their group.
fn states(source: &Source, group: &str) -> Result<Vec<String>> {
    for name in STATES {
        if source.contains(&format!("{group}/{name}")) {
            return Ok(vec![name.to_owned()]);
        }
        let inside = format!("{group}/{name}/");
        let keys: Vec<&str> =
            source.names().iter().filter_map(|path| path.strip_prefix(&inside)).collect();
        match keys[..] {
            [] => {}
            [key] => return Ok(vec![format!("{name}/{key}")]),
            _ => {
                let listed: Vec<String> =
                    keys.iter().take(24).map(|key| format!("{name}/{key}")).collect();
                return Err(source.problem(format!(
                    "its observations are in {} parts: say which make up the state, in the order that the policy takes \
                     them, with --columns state=NAME,… out of {}",
                    keys.len(),
                    listed.join(", ")
                )));
            }
        }
    }
    Err(source.problem(format!("no observations in `{group}` (`obs`): say which make up the state with --columns state=NAME,…")))
}

/// Matrices side by side.
fn beside(fields: Vec<Field<'_>>) -> Result<(usize, Vec<f32>)> {
    let width: usize = fields.iter().map(|field| field.width).sum();
    let rows = fields.iter().map(|field| field.rows).min().unwrap_or(0);
    let mut all = vec![0.0; rows * width];
    let mut at = 0;
    for field in &fields {
        let values = field.read()?;
        for row in 0..rows {
            all[row * width + at..][..field.width]
                .copy_from_slice(&values[row * field.width..][..field.width]);
        }
        at += field.width;
    }
    Ok((width, all))
}
