//! What it costs that initial states are drawn from the logged ones, not from their distribution.

use super::estimate::Estimate;
use crate::data::Transitions;
use crate::rollout::Returns;
use crate::stats::upper_limit;
use std::collections::HashMap;

/// The distance from the mean over logged starts down to the lower confidence limit of the mean over all starts there could
/// have been, at level 1 − δ. Return i is that of a trajectory from row i of `starts`, each one of the logged ones.
pub(super) fn margin(data: &Transitions, starts: &[f32], returns: &[f32], delta: f64) -> f64 {
    let key = |state: &[f32]| state.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
    let mut sums: HashMap<Vec<u32>, (f64, f64)> = HashMap::new();
    for (start, &r) in starts.chunks_exact(data.state_dim()).zip(returns) {
        let (sum, count) = sums.entry(key(start)).or_default();
        (*sum, *count) = (*sum + f64::from(r), *count + 1.0);
    }
    // Of many episodes some starts were never drawn.
    let lost_from = |start: usize| sums.get(&key(data.state(start))).map(|(sum, n)| -sum / n);
    let lost: Vec<f64> = data.episodes().filter_map(|e| lost_from(e.start)).collect();
    let mean = lost.iter().sum::<f64>() / lost.len() as f64;
    // A single episode supports nothing, and a return of −∞ is a bound of −∞ already.
    if lost.len() < 2 || !mean.is_finite() { 0.0 } else { upper_limit(&lost, delta) - mean }
}

impl Estimate {
    /// The same with the sampling error of `starts`, which were drawn from the log, paid for.
    pub(super) fn paying_for_starts(
        self,
        (data, starts, delta): (&Transitions, &[f32], f64),
        returns: &Returns,
    ) -> Self {
        let starts_margin = margin(data, starts, &returns.values, delta);
        let lower_bound = self.lower_bound.map(|bound| bound - starts_margin);
        Estimate { lower_bound, starts_margin, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Columns;
    use hambo_engine::rng::{Generator, Stream};

    /// Episodes of one step from these states.
    fn log(starts: &[f32]) -> Transitions {
        let n = starts.len();
        Transitions::new(Columns {
            state_dim: 1,
            action_dim: 1,
            states: starts.to_vec(),
            actions: vec![0.0; n],
            rewards: vec![0.0; n],
            next_states: starts.to_vec(),
            terminals: vec![false; n],
            timeouts: vec![true; n],
            episode_starts: (0..n).collect(),
            ..Default::default()
        })
        .unwrap()
    }

    /// The return is the start and some noise, and starts are normal, or 0 but for a rare −20: how often the limit is above
    /// the expectation.
    fn failures(start: impl Fn(&mut Generator) -> f64, expectation: f64, delta: f64) -> f64 {
        let mut generator = Stream::new(9).generator();
        let (logs, episodes, rollouts) = (2000, 60, 600);
        let mut above = 0;
        for _ in 0..logs {
            let logged: Vec<f32> = (0..episodes).map(|_| start(&mut generator) as f32).collect();
            let data = log(&logged);
            let starts: Vec<f32> =
                (0..rollouts).map(|_| logged[generator.below(episodes)]).collect();
            let returns: Vec<f32> =
                starts.iter().map(|s| s + 0.1 * generator.normal() as f32).collect();
            let mean = returns.iter().map(|&r| f64::from(r)).sum::<f64>() / f64::from(rollouts);
            above += usize::from(mean - margin(&data, &starts, &returns, delta) > expectation);
        }
        f64::from(above as u32) / f64::from(logs)
    }

    #[test]
    fn starts_that_were_not_logged_are_paid_for() {
        let normal = failures(|g| g.normal(), 0.0, 0.05);
        assert!((0.005..0.06).contains(&normal), "{normal}");
        let rare = |g: &mut Generator| if g.range(0.0, 1.0) < 0.1 { -20.0 } else { g.normal() };
        let skewed = failures(rare, -2.0, 0.05);
        assert!(skewed < 0.06, "{skewed}");
    }

    #[test]
    fn known_starts_cost_nothing() {
        let data = log(&[1.0; 12]);
        assert_eq!(margin(&data, &[1.0; 4], &[3.0, 4.0, 5.0, 6.0], 0.05), 0.0, "always the same");
        let one = log(&[1.0, 2.0]);
        assert_eq!(margin(&one, &[1.0; 2], &[f32::NEG_INFINITY; 2], 0.05), 0.0, "−∞ already");
    }
}
