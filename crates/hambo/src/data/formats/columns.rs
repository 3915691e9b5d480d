//! Which columns of a table are the state, the action, the reward: those that the user names, or the usual names.

use crate::{Error, Result};
use hambo_engine::spelling::edit_distance;

/// Names of the columns of a table (CSV, Parquet), by what they hold.
///
/// Columns that are not named here are found by their usual names. A name that ends in `*` stands for all columns `name0`, `name1`, … in
/// the order of their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnNames {
    /// s; usually `s0`, `s1`, … or `obs_0`, `state_0`, `observation[0]`, ….
    pub state: Vec<String>,
    /// a; usually `a0`, … or `action_0`, ….
    pub action: Vec<String>,
    /// r; usually `reward`.
    pub reward: Vec<String>,
    /// Whether no reward can follow; usually `terminal`, `terminated` or `done`.
    pub terminal: Vec<String>,
    /// Whether a time limit ended the episode; usually `timeout` or `truncated`.
    pub timeout: Vec<String>,
    /// Number or name of the episode; usually `episode` or `trajectory`.
    pub episode: Vec<String>,
    /// s'; usually those of the state with `next_` before them.
    pub next: Vec<String>,
}

/// What a column can be, as the user writes it.
const ROLES: [&str; 7] = ["state", "action", "reward", "terminal", "timeout", "episode", "next"];
/// Usual names, in lower case and without number.
const STATES: &[&str] =
    &["s", "obs", "observation", "observations", "state", "states", "observation.state"];
const ACTIONS: &[&str] = &["a", "act", "acts", "action", "actions"];
const REWARDS: &[&str] = &["reward", "rewards", "rews", "r", "next.reward"];
const TERMINALS: &[&str] = &[
    "terminal",
    "terminals",
    "terminated",
    "termination",
    "terminations",
    "next.terminated",
    "done",
    "dones",
    "next.done",
];
const TIMEOUTS: &[&str] =
    &["timeout", "timeouts", "truncated", "truncation", "truncations", "next.truncated"];
const EPISODES: &[&str] = &[
    "episode",
    "episode_id",
    "episode_index",
    "ep",
    "trajectory",
    "trajectory_id",
    "traj",
    "traj_id",
];
const NEXT: &[&str] =
    &["next_s", "next_obs", "next_observation", "next_observations", "next_state", "next_states"];

/// Places of the columns in a table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) state: Vec<usize>,
    pub(crate) action: Vec<usize>,
    /// None where there is none and none is needed.
    pub(crate) reward: Option<usize>,
    pub(crate) terminal: Option<usize>,
    pub(crate) timeout: Option<usize>,
    pub(crate) episode: Option<usize>,
    /// Empty where no next states are stored.
    pub(crate) next: Vec<usize>,
}

impl ColumnNames {
    /// From words like `state=x,y,z` and `reward=r`.
    pub fn parse(words: &[String]) -> Result<Self> {
        let mut names = ColumnNames::default();
        for word in words.iter().flat_map(|w| w.split_whitespace()) {
            let expected = "words like `state=x,y` `action=u` `reward=r`, with state, action, reward, terminal, timeout, \
                            episode or next before the equals sign";
            let Some((role, list)) = word.split_once('=') else {
                return Err(Error::setting("columns", word, expected));
            };
            let list: Vec<String> = list.split(',').map(|name| name.trim().to_owned()).collect();
            let Some(place) = names.role_mut(role) else {
                let near = ROLES.iter().find(|r| edit_distance(r, role) <= 2);
                let hint = near.map_or(String::new(), |near| format!(" (did you mean `{near}`?)"));
                return Err(Error::setting("columns", word, format!("{expected}{hint}")));
            };
            if list.iter().any(String::is_empty) {
                return Err(Error::setting(
                    "columns",
                    word,
                    "names of columns, separated by single commas",
                ));
            }
            if !place.is_empty() {
                return Err(Error::setting("columns", word, format!("`{role}` only once")));
            }
            *place = list;
        }
        Ok(names)
    }

    /// Whether anything was said.
    pub(crate) fn is_empty(&self) -> bool {
        *self == ColumnNames::default()
    }

    fn role_mut(&mut self, role: &str) -> Option<&mut Vec<String>> {
        Some(match role {
            "state" => &mut self.state,
            "action" => &mut self.action,
            "reward" => &mut self.reward,
            "terminal" => &mut self.terminal,
            "timeout" => &mut self.timeout,
            "episode" => &mut self.episode,
            "next" => &mut self.next,
            _ => return None,
        })
    }

    /// Finds the columns in the header of a table; the error is a sentence without the name of the file.
    pub(crate) fn find(
        &self,
        header: &[String],
        needs_reward: bool,
    ) -> std::result::Result<Places, String> {
        // A flag that is named for one kind of end is not looked at for the other.
        let claimed =
            |name: &str| self.terminal.iter().chain(&self.timeout).any(|said| said == name);
        let rest: Vec<String> = header
            .iter()
            .map(|name| if claimed(name) { String::new() } else { name.clone() })
            .collect();
        let many = |role: &str, said: &[String], usual: &[&str]| match said.is_empty() {
            false => said_columns(header, role, said),
            true => usual_columns(&rest, role, usual),
        };
        let one = |role: &str, said: &[String], usual: &[&str]| match said {
            [] => {
                let is = |i: &usize, name: &str| rest[*i].eq_ignore_ascii_case(name);
                Ok(usual.iter().find_map(|name| (0..header.len()).find(|i| is(i, name))))
            }
            said => match said_columns(header, role, said)?[..] {
                [place] => Ok(Some(place)),
                ref places => Err(format!("{} columns for {role}: expected one", places.len())),
            },
        };
        let missing = |role: &str, usual: &str| {
            format!(
                "no column for the {role} ({usual}): it has {}; name it with --columns {role}=…",
                listed(header)
            )
        };
        let places = Places {
            state: many("state", &self.state, STATES)?,
            action: many("action", &self.action, ACTIONS)?,
            reward: one("reward", &self.reward, REWARDS)?,
            terminal: one("terminal", &self.terminal, TERMINALS)?,
            timeout: one("timeout", &self.timeout, TIMEOUTS)?,
            episode: one("episode", &self.episode, EPISODES)?,
            next: many("next", &self.next, NEXT)?,
        };
        if needs_reward && places.reward.is_none() {
            return Err(
                missing("reward", "`reward`") + ", or say what a step pays with --reward EXPR"
            );
        }
        if places.state.is_empty() {
            return Err(missing("state", "`s0`, `obs_0`, `state_0`, …"));
        }
        if places.action.is_empty() {
            return Err(missing("action", "`a0`, `action_0`, …"));
        }
        if !places.next.is_empty() && places.next.len() != places.state.len() {
            return Err(format!(
                "{} columns for the state, {} for the next state: expected as many",
                places.state.len(),
                places.next.len()
            ));
        }
        let used = places.all();
        if let Some((place, [a, b])) = (0..header.len()).find_map(|place| {
            let mut roles = used.iter().filter(|(p, _)| *p == place).map(|(_, role)| *role);
            Some((place, [roles.next()?, roles.next()?]))
        }) {
            return Err(format!("column `{}` is used twice, for {a} and {b}", header[place]));
        }
        if let Some((place, _)) =
            used.iter().find(|(p, _)| header.iter().filter(|h| **h == header[*p]).count() > 1)
        {
            return Err(format!("two columns are named `{}`: rename one", header[*place]));
        }
        Ok(places)
    }
}

impl Places {
    /// The same places in a table in which each column has become those of a range.
    #[cfg(feature = "parquet")]
    pub(crate) fn expanded(
        &self,
        ranges: &[std::ops::Range<usize>],
    ) -> std::result::Result<Places, String> {
        let many = |places: &[usize]| places.iter().flat_map(|&p| ranges[p].clone()).collect();
        let one = |place: Option<usize>, role: &str| match place.map(|p| ranges[p].clone()) {
            None => Ok(None),
            Some(range) if range.len() == 1 => Ok(Some(range.start)),
            Some(range) => Err(format!("lists of {} numbers for the {role}", range.len())),
        };
        let places = Places {
            state: many(&self.state),
            action: many(&self.action),
            reward: one(self.reward, "reward")?,
            terminal: one(self.terminal, "terminal flag")?,
            timeout: one(self.timeout, "timeout flag")?,
            episode: one(self.episode, "episode")?,
            next: many(&self.next),
        };
        match places.state.is_empty() || places.action.is_empty() {
            true => Err("the lists of states or actions in the first row are empty".into()),
            false => Ok(places),
        }
    }

    /// All columns in use, with what they are.
    pub(crate) fn all(&self) -> Vec<(usize, &'static str)> {
        let [state, action, reward, terminal, timeout, episode, next] = ROLES;
        let many = |places: &[usize], role| places.iter().map(|&p| (p, role)).collect::<Vec<_>>();
        let one = |place: Option<usize>, role| place.map(|p| (p, role));
        let mut all =
            [many(&self.state, state), many(&self.action, action), many(&self.next, next)].concat();
        all.extend(one(self.reward, reward));
        all.extend(one(self.terminal, terminal));
        all.extend(one(self.timeout, timeout));
        all.extend(one(self.episode, episode));
        all
    }
}

/// Places of the columns that the user named.
fn said_columns(
    header: &[String],
    role: &str,
    said: &[String],
) -> std::result::Result<Vec<usize>, String> {
    let mut places = Vec::new();
    for name in said {
        let found = match name.strip_suffix('*') {
            Some(prefix) => numbered(header, |name| name == bare(prefix), role)?,
            None => header.iter().position(|h| h == name).into_iter().collect(),
        };
        if found.is_empty() {
            let near = header.iter().min_by_key(|h| edit_distance(h, name));
            let hint = match near.filter(|h| edit_distance(h, name) <= 2) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("it has {}", listed(header)),
            };
            return Err(format!("no column `{name}` for {role}: {hint}"));
        }
        places.extend(found);
    }
    Ok(places)
}

/// Places of the columns with one of the usual names, numbered or alone; none if there are none.
fn usual_columns(
    header: &[String],
    role: &str,
    usual: &[&str],
) -> std::result::Result<Vec<usize>, String> {
    let mut found: Option<(&str, Vec<usize>)> = None;
    for name in usual {
        let mut places = numbered(header, |prefix| prefix.eq_ignore_ascii_case(name), role)?;
        if places.is_empty() {
            places.extend(header.iter().position(|h| h.eq_ignore_ascii_case(name)));
        }
        if places.is_empty() {
            continue;
        }
        if let Some((other, _)) = found {
            return Err(format!(
                "columns `{other}…` and `{name}…` may both be the {role}: say which with --columns {role}={name}*"
            ));
        }
        found = Some((name, places));
    }
    Ok(found.map(|(_, places)| places).unwrap_or_default())
}

/// Places of the columns whose name without number is accepted, in the order of their numbers, which must have no gap.
fn numbered(
    header: &[String],
    is: impl Fn(&str) -> bool,
    role: &str,
) -> std::result::Result<Vec<usize>, String> {
    let mut found: Vec<(u32, usize)> = header
        .iter()
        .enumerate()
        .filter_map(|(place, name)| {
            number_of(name).filter(|(prefix, _)| is(prefix)).map(|(_, n)| (n, place))
        })
        .collect();
    found.sort_unstable();
    for pair in found.windows(2) {
        let ((a, first), (b, second)) = (pair[0], pair[1]);
        if a.checked_add(1) != Some(b) {
            return Err(format!(
                "columns `{}` and `{}` of the {role} are not numbered one after the other: is one missing?",
                header[first], header[second]
            ));
        }
    }
    Ok(found.into_iter().map(|(_, place)| place).collect())
}

/// `obs_12`, `obs12`, `obs[12]`, `obs.12` as `obs` and 12.
fn number_of(name: &str) -> Option<(&str, u32)> {
    let inner = name.strip_suffix(']').unwrap_or(name);
    let prefix = inner.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = inner[prefix.len()..].parse().ok()?;
    Some((bare(prefix), number))
}

/// A prefix without what joins it to its number.
fn bare(prefix: &str) -> &str {
    prefix.trim_end_matches(['_', '.', '[', '-', ' '])
}

/// Some names of columns, for a message.
pub(crate) fn listed(names: &[String]) -> String {
    let some: Vec<_> = names.iter().take(12).map(|n| format!("`{n}`")).collect();
    format!("{}{}", some.join(", "), if names.len() > 12 { ", …" } else { "" })
}

#[cfg(test)]
mod tests;
