//! What ends an episode, learned from the log's terminal flags as thresholds on entries of the state.
//!
//! Most episodes end when something leaves a range: a height, an angle, a position. So the rule says that an episode
//! ends when an entry of the next state is beyond all values from which the log went on. It has as few thresholds as
//! recognize the terminal states, the one that recognizes the most first. Between the last value from which the log
//! went on and the first that ended it nobody knows; there the worse is assumed: an end if the log's rewards are
//! gains on average, and no end if they are costs.

use crate::data::Transitions;
use crate::{Error, Result};
use hambo_engine::expression::{Program, Scope};
use serde::Serialize;

/// Share of the terminal states that thresholds must recognize.
const ENOUGH: f64 = 0.9;

/// A learned rule, and how well it recognizes the log's terminal states.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LearnedTermination {
    /// The rule, an expression of the next state.
    pub rule: String,
    /// Logged terminal states.
    pub terminals: usize,
    /// Those that the rule recognizes; it takes none of the states from which the log went on for an end.
    pub explained: usize,
    /// Whether states between those that ended and those that went on count as ends.
    pub ends_in_doubt: bool,
}

/// One entry of the state beyond one end of the range that went on.
struct Side {
    dim: usize,
    above: bool,
    /// The last value from which the log went on.
    last: f32,
}

impl Side {
    fn recognizes(&self, next: &[f32]) -> bool {
        if self.above { next[self.dim] > self.last } else { next[self.dim] < self.last }
    }
}

/// Learns the rule; `rewards` are the task's rewards of the logged transitions.
pub(super) fn learn(data: &Transitions, rewards: &[f32]) -> Result<(Program, LearnedTermination)> {
    let terminal = |row: &usize| data.terminals()[*row];
    let mut left: Vec<usize> = (0..data.len()).filter(terminal).collect();
    let terminals = left.len();
    let went_on = |dim: usize| {
        let next = (0..data.len())
            .filter(move |row| !terminal(row))
            .map(move |row| data.next_state(row)[dim]);
        next.chain((0..data.len()).map(move |row| data.state(row)[dim]))
    };
    let mut sides: Vec<Side> = Vec::new();
    for dim in 0..data.state_dim() {
        let (low, high) =
            went_on(dim).fold((f32::INFINITY, f32::NEG_INFINITY), |(l, h), x| (l.min(x), h.max(x)));
        sides.extend([(false, low), (true, high)].map(|(above, last)| Side { dim, above, last }));
    }
    let ends_in_doubt = rewards.iter().map(|&r| f64::from(r)).sum::<f64>() >= 0.0;
    let mut parts: Vec<String> = Vec::new();
    loop {
        let recognized =
            |side: &Side| left.iter().filter(|&&row| side.recognizes(data.next_state(row))).count();
        // The first of equals, in the user's order of entries.
        let Some(best) = sides
            .iter()
            .rev()
            .max_by_key(|side| recognized(side))
            .filter(|side| recognized(side) > 0)
        else {
            break;
        };
        let values =
            left.iter().map(|&row| data.next_state(row)).filter(|next| best.recognizes(next));
        let values = values.map(|next| next[best.dim]);
        let first = if best.above {
            values.fold(f32::INFINITY, f32::min)
        } else {
            values.fold(f32::NEG_INFINITY, f32::max)
        };
        parts.push(match (best.above, ends_in_doubt) {
            (true, true) => format!("n[{}] > {:?}", best.dim, best.last),
            (true, false) => format!("n[{}] >= {first:?}", best.dim),
            (false, true) => format!("n[{}] < {:?}", best.dim, best.last),
            (false, false) => format!("n[{}] <= {first:?}", best.dim),
        });
        left.retain(|&row| !best.recognizes(data.next_state(row)));
    }
    let explained = terminals - left.len();
    if (explained as f64) < ENOUGH * terminals as f64 {
        return Err(Error::Data(format!(
            "termination cannot be learned: thresholds on entries of the state recognize {explained} of {terminals} terminal \
             states; give the rule (--termination EXPRESSION), or --termination none if the flags are time limits"
        )));
    }
    let rule = parts.join(" || ");
    let program = Program::parse(&[&rule], data.state_dim(), data.action_dim(), Scope::REWARD)?;
    Ok((program, LearnedTermination { rule, terminals, explained, ends_in_doubt }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Columns;
    use hambo_engine::rng::Stream;

    /// Random walks in the plane that end for good where x > 1 or y < −0.5.
    fn walks(reward: f32, flag_all: bool) -> Transitions {
        let mut generator = Stream::new(4).generator();
        let mut c = Columns { state_dim: 2, action_dim: 1, ..Default::default() };
        for _ in 0..40 {
            c.episode_starts.push(c.rewards.len());
            let mut s = [0.0f32, 0.0];
            for t in 0..50 {
                let next = [
                    s[0] + 0.3 * generator.normal() as f32,
                    s[1] + 0.2 * generator.normal() as f32,
                ];
                let over = next[0] > 1.0 || next[1] < -0.5;
                c.states.extend(s);
                c.next_states.extend(next);
                c.actions.push(0.0);
                c.rewards.push(reward);
                c.terminals.push(over || (flag_all && t == 3));
                c.timeouts.push(!over && t == 49);
                if over {
                    break;
                }
                s = next;
            }
        }
        Transitions::new(c).unwrap()
    }

    #[test]
    fn thresholds_are_found_on_the_side_that_is_worse() {
        let data = walks(1.0, false);
        let (program, learned) = learn(&data, data.rewards()).unwrap();
        assert_eq!(learned.explained, learned.terminals);
        assert!(learned.terminals > 20 && learned.ends_in_doubt);
        let parts: Vec<&str> = learned.rule.split(" || ").collect();
        let threshold = |part: &str| part.rsplit(' ').next().unwrap().parse::<f32>().unwrap();
        let of = |start: &str| parts.iter().find(|p| p.starts_with(start)).map(|p| threshold(p));
        let (x, y) = (of("n[0] > ").unwrap(), of("n[1] < ").unwrap());
        assert_eq!(parts.len(), 2, "{}", learned.rule);
        assert!(x <= 1.0 && x > 0.9 && (-0.5..-0.4).contains(&y), "{}", learned.rule);
        // It agrees with the log on every logged state.
        let task = crate::task::tests::task("1", Some(program));
        assert_eq!(task.logged(&data).unwrap().1, data.terminals());

        let costs = walks(-1.0, false);
        let (_, learned) = learn(&costs, costs.rewards()).unwrap();
        assert!(!learned.ends_in_doubt);
        let of =
            |start: &str| learned.rule.split(" || ").find(|p| p.starts_with(start)).map(threshold);
        assert!(
            of("n[0] >= ").unwrap() > 1.0 && of("n[1] <= ").unwrap() < -0.5,
            "{}",
            learned.rule
        );
    }

    #[test]
    fn flags_that_no_threshold_recognizes_are_refused() {
        let data = walks(1.0, true);
        let error = learn(&data, data.rewards()).unwrap_err().to_string();
        assert!(
            error.contains("termination cannot be learned") && error.contains("--termination none"),
            "{error}"
        );
    }
}
