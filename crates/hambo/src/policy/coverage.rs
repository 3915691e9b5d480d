//! How well the data cover a policy: its actions in logged states against the actions logged nearby.

use super::Policy;
use crate::data::Transitions;
use crate::stats::empirical_quantile;
use crate::{Error, Result};
use hambo_engine::backend::Device;
use hambo_engine::rng::Stream;
use rayon::prelude::*;
use serde::Serialize;

/// At most so many logged states are queried.
const QUERIED: usize = 1000;
/// At most so many logged pairs are compared with.
const COMPARED: usize = 20_000;
/// Share of the logged pairs whose distance to the nearest other pair counts as near.
const NEAR: f64 = 0.95;

/// How well the data cover a policy. Distances are Euclidean in (s, a), each column in units of its standard deviation.
/// For every queried state, the nearest logged pair of another episode (of another row, if there is only one episode) is
/// found twice: from the logged action, which shows how far apart the data are anyway, and from the policy's action.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Coverage {
    /// Number of logged states in which the policy was queried.
    pub states: usize,
    /// Number of logged pairs that were searched.
    pub pairs: usize,
    /// Median distance from a logged pair to the nearest other pair.
    pub logged_distance: f64,
    /// Median distance from (s, π(s)) to the nearest logged pair.
    pub policy_distance: f64,
    /// Share of (s, π(s)) that are as near to a logged pair as 95 % of the logged pairs are to each other.
    pub covered: f64,
    /// What keeps the others away: the mean share of each dimension, state before action, in the squared distance to the
    /// nearest logged pair, over the (s, π(s)) that are not covered. Empty if all are covered.
    pub distance_shares: Vec<f64>,
    /// Root mean square of π(s) − a per dimension, in units of the logged actions' standard deviation.
    pub action_difference: Vec<f64>,
    /// Share of the policy's actions outside the range of the logged ones, per dimension.
    pub outside_range: Vec<f64>,
    /// Mean of ln π(a | s) over the queried pairs; none if the policy is deterministic.
    pub log_density: Option<f64>,
}

/// Compares the policy's mean actions with the logged ones.
pub fn coverage(
    device: &Device,
    policy: &Policy,
    data: &Transitions,
    stream: Stream,
) -> Result<Coverage> {
    let (ds, da) = (data.state_dim(), data.action_dim());
    if (policy.state_dim(), policy.action_dim()) != (ds, da) {
        return Err(Error::Mismatch(format!(
            "policy {} takes states of {} and gives actions of {} dimensions, the data have {ds} and {da}",
            policy.spec,
            policy.state_dim(),
            policy.action_dim()
        )));
    }
    let episode: Vec<usize> = data
        .episodes()
        .enumerate()
        .flat_map(|(i, rows)| std::iter::repeat_n(i, rows.len()))
        .collect();
    let episodes = episode.last().map_or(0, |last| last + 1);
    let mut order: Vec<usize> = (0..data.len()).collect();
    stream.generator().shuffle(&mut order);
    let queried = &order[..QUERIED.min(order.len())];
    let compared = &order[..COMPARED.min(order.len())];

    let states: Vec<f32> = queried.iter().flat_map(|&i| data.state(i)).copied().collect();
    let logged: Vec<f32> = queried.iter().flat_map(|&i| data.action(i)).copied().collect();
    let mut chosen = device.zeros(queried.len() * da);
    policy.act(device, &device.upload(&states), &mut chosen);
    let chosen = device.download(&chosen)?;

    let (state_std, action_std) = (deviations(data.states(), ds), deviations(data.actions(), da));
    let place = |state: &[f32], action: &[f32]| -> Vec<f32> {
        let states = state.iter().zip(&state_std).map(|(x, s)| x / s);
        states.chain(action.iter().zip(&action_std).map(|(x, s)| x / s)).collect()
    };
    let places: Vec<Vec<f32>> =
        compared.iter().map(|&i| place(data.state(i), data.action(i))).collect();
    // Squared distances per dimension.
    let apart = |place: &[f32], point: &[f32]| -> Vec<f32> {
        place.iter().zip(point).map(|(a, b)| (a - b) * (a - b)).collect()
    };
    let nearest = |point: Vec<f32>, row: usize| -> Vec<f32> {
        let other = |j: usize| if episodes > 1 { episode[j] != episode[row] } else { j != row };
        let candidates =
            compared.iter().zip(&places).filter(|(j, _)| other(**j)).map(|(_, place)| place);
        let squared =
            |place: &[f32]| place.iter().zip(&point).map(|(a, b)| (a - b) * (a - b)).sum::<f32>();
        let found = candidates.min_by(|a, b| squared(a).total_cmp(&squared(b)));
        found.map_or_else(
            || vec![f32::MAX / (ds + da) as f32; ds + da],
            |place| apart(place, &point),
        )
    };
    let all_nearest = |actions: &[f32]| -> Vec<Vec<f32>> {
        let rows: Vec<_> = queried.iter().zip(actions.chunks_exact(da)).collect();
        rows.into_par_iter()
            .map(|(&row, action)| nearest(place(data.state(row), action), row))
            .collect()
    };
    let distance = |parts: &Vec<f32>| f64::from(parts.iter().sum::<f32>().sqrt());
    let sorted = |parts: &[Vec<f32>]| {
        let mut values: Vec<f64> = parts.iter().map(distance).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let (between, from) = device.run(|| (all_nearest(&logged), all_nearest(&chosen)));
    let (between, distances) = (sorted(&between), sorted(&from));
    let near = empirical_quantile(&between, NEAR);
    let away: Vec<&Vec<f32>> = from.iter().filter(|parts| distance(parts) > near).collect();
    let share = |c: usize| {
        let all = |parts: &[f32]| parts.iter().map(|&part| f64::from(part)).sum::<f64>();
        let shares = away.iter().map(|parts| f64::from(parts[c]) / all(parts));
        shares.sum::<f64>() / away.len() as f64
    };
    let n = queried.len() as f64;
    let column = |values: &'_ [f32], c: usize| {
        values.iter().skip(c).step_by(da).copied().collect::<Vec<f32>>()
    };
    let difference = |c: usize| {
        let squares = column(&chosen, c)
            .into_iter()
            .zip(column(&logged, c))
            .map(|(a, b)| f64::from(a - b).powi(2));
        (squares.sum::<f64>() / n).sqrt() / f64::from(action_std[c])
    };
    let outside = |c: usize| {
        let all = data.actions().iter().skip(c).step_by(da);
        let (low, high) =
            all.fold((f32::INFINITY, f32::NEG_INFINITY), |(l, h), &a| (l.min(a), h.max(a)));
        column(&chosen, c).into_iter().filter(|a| !(*a >= low && *a <= high)).count() as f64 / n
    };
    let log_density = policy.log_densities(device, &states, &logged);
    device.check()?; // a device that failed on the way leaves no densities, as a deterministic policy does
    Ok(Coverage {
        states: queried.len(),
        pairs: compared.len(),
        logged_distance: empirical_quantile(&between, 0.5),
        policy_distance: empirical_quantile(&distances, 0.5),
        covered: 1.0 - away.len() as f64 / n,
        distance_shares: if away.is_empty() {
            Vec::new()
        } else {
            (0..ds + da).map(share).collect()
        },
        action_difference: (0..da).map(difference).collect(),
        outside_range: (0..da).map(outside).collect(),
        log_density: log_density.map(|all| all.iter().sum::<f64>() / n).filter(|d| d.is_finite()),
    })
}

/// Standard deviation of every column; 1 for a column that never changes.
fn deviations(values: &[f32], width: usize) -> Vec<f32> {
    let n = (values.len() / width) as f64;
    let column = |c: usize| values.iter().skip(c).step_by(width).map(|&v| f64::from(v));
    let std = |c: usize| {
        let mean = column(c).sum::<f64>() / n;
        (column(c).map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt()
    };
    (0..width).map(std).map(|s| if s > 0.0 { s as f32 } else { 1.0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Columns;
    use crate::testing::pendulum_data;

    fn data(noise: f64) -> (Device, Transitions) {
        let device = Device::cpu(Some(2)).unwrap();
        let policy = Policy::read("builtin:swing-up").unwrap();
        let data = pendulum_data(&device, &policy, noise, 4000);
        (device, data)
    }

    #[test]
    fn the_policy_that_made_the_data_is_covered_and_another_is_less() {
        let (device, data) = data(0.1);
        let own = Policy::read("builtin:swing-up").unwrap();
        let other = Policy::read("builtin:swing-up,energy=-0.3,angle=-8").unwrap();
        let of = |policy: &Policy| coverage(&device, policy, &data, Stream::new(2)).unwrap();
        let (own, other) = (of(&own), of(&other));
        assert!(own.covered > 0.9 && own.action_difference[0] < 0.2, "{own:?}");
        // Most of the data are near the top, where any gain asks for little torque.
        assert!(other.covered < own.covered - 0.1 && other.action_difference[0] > 1.0, "{other:?}");
        assert_eq!(own.log_density, None);
    }

    /// Two equal episodes through the corners of a cube, so that every logged pair has its double at no distance; a policy
    /// that never acts is covered where no action was logged, and elsewhere as far away as that action.
    #[test]
    fn corners_of_a_cube_are_covered_where_the_policy_acts_alike() {
        let actions = [0.0, 0.0, 0.0, 3.0, -3.0, 0.0, 1.0, 0.0];
        let corner = |i: usize| (0..3).map(move |c| if i >> c & 1 == 1 { 1.0 } else { -1.0 });
        let states: Vec<f32> = (0..16).flat_map(corner).collect();
        let columns = Columns {
            state_dim: 3,
            action_dim: 1,
            next_states: states.clone(),
            states,
            actions: [actions, actions].concat(),
            rewards: vec![0.0; 16],
            terminals: vec![false; 16],
            timeouts: vec![false; 16],
            episode_starts: vec![0, 8],
            ..Default::default()
        };
        let device = Device::cpu(Some(1)).unwrap();
        let idle = Policy::read("builtin:swing-up,energy=0,angle=0,rate=0").unwrap();
        let found =
            coverage(&device, &idle, &Transitions::new(columns).unwrap(), Stream::new(1)).unwrap();
        assert_eq!((found.states, found.pairs, found.covered), (16, 16, 5.0 / 8.0));
        assert_eq!((found.logged_distance, found.policy_distance), (0.0, 0.0));
        assert_eq!(found.distance_shares, [0.0, 0.0, 0.0, 1.0]);
        // Root mean square of the actions logged, in their standard deviation; their mean is 1/8.
        let (square, mean): (f64, f64) = (19.0 / 8.0, 1.0 / 8.0);
        let expected = (square / (square - mean * mean)).sqrt();
        assert!((found.action_difference[0] - expected).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn a_policy_of_other_sizes_is_refused() {
        let (device, data) = data(0.1);
        let error =
            coverage(&device, &Policy::read("builtin:waypoint").unwrap(), &data, Stream::new(2));
        assert!(error.unwrap_err().to_string().contains("the data have 3 and 1"));
    }
}
