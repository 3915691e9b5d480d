//! Which transitions train the models, which stop their training, and which they have never seen.

use super::Transitions;
use crate::{Error, Result};
use hambo_engine::rng::Stream;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Episodes needed before whole episodes are held out; with fewer, single transitions are.
const EPISODES: usize = 10;

/// The rows of the data as the models of an evaluation see them: one [`Fold`] for each model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// [`Transitions::digest`] of the data that the rows belong to.
    pub data_sha256: String,
    /// One for each model. With several of them every row is held out by one.
    pub folds: Vec<Fold>,
    /// Whether whole episodes were held out; otherwise neighbors of held-out rows may be in training.
    pub by_episode: bool,
}

/// Disjoint sets of rows, each in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fold {
    /// Rows that the model is trained on; not stored with a model.
    #[serde(skip)]
    pub train: Vec<u32>,
    /// Rows that decide when training stops.
    pub validation: Vec<u32>,
    /// Rows that neither trained the model nor stopped its training: its uncertainty is calibrated on them, D_c of the
    /// paper, and its trajectories are compared with theirs.
    pub held_out: Vec<u32>,
}

impl Split {
    /// One model: holds out a fraction of the data for validation and as much again for calibration, whole episodes
    /// where there are enough of them, since neighboring rows of one episode are near copies.
    pub fn new(data: &Transitions, fraction: f64, stream: Stream) -> Result<Self> {
        check_holdout(fraction)?;
        let (units, by_episode) = shuffled_units(data, stream);
        let wanted = ((data.len() as f64 * fraction).round() as usize).max(1);
        let mut sets: [Vec<u32>; 3] = Default::default();
        for unit in units {
            let set = if sets[1].len() < wanted {
                1
            } else if sets[2].len() < wanted {
                2
            } else {
                0
            };
            sets[set].extend(unit.map(|row| row as u32));
        }
        sets.iter_mut().for_each(|set| set.sort_unstable());
        let [train, validation, held_out] = sets;
        if train.is_empty() || validation.is_empty() || held_out.is_empty() {
            return Err(Error::Data(format!(
                "{} transitions are too few to hold some out for validation and calibration",
                data.len()
            )));
        }
        let folds = vec![Fold { train, validation, held_out }];
        Ok(Split { data_sha256: data.digest(), folds, by_episode })
    }

    /// So many models, each of which holds out other episodes, and stops training by a fraction of the data that the
    /// next one holds out; with too few episodes for that, one model as in [`Split::new`].
    pub fn cross(data: &Transitions, folds: usize, fraction: f64, stream: Stream) -> Result<Self> {
        if folds < 2 || data.episodes().len() < EPISODES.max(2 * folds) {
            return Split::new(data, fraction, stream);
        }
        check_holdout(fraction)?;
        let (units, by_episode) = shuffled_units(data, stream);
        let mut parts: Vec<(usize, Vec<Range<usize>>)> = vec![Default::default(); folds];
        for unit in units {
            // The next episode goes where the fewest rows are, so that all models have about as many.
            let least = (0..folds).min_by_key(|&fold| parts[fold].0).unwrap_or(0);
            parts[least].0 += unit.len();
            parts[least].1.push(unit);
        }
        let rows = |units: &[Range<usize>]| {
            let mut rows: Vec<u32> =
                units.iter().flat_map(|u| u.start as u32..u.end as u32).collect();
            rows.sort_unstable();
            rows
        };
        let fold = |own: usize| {
            let next = (own + 1) % folds;
            // At least one episode, and never all of them.
            let share =
                (fraction * parts[next].1.len() as f64 * folds as f64 * 0.5).ceil() as usize;
            let stops = share.clamp(1, parts[next].1.len() - 1);
            let mut train = parts[next].1[stops..].to_vec();
            let others = (0..folds).filter(|&other| other != own && other != next);
            train.extend(others.flat_map(|other| parts[other].1.iter().cloned()));
            Fold {
                train: rows(&train),
                validation: rows(&parts[next].1[..stops]),
                held_out: rows(&parts[own].1),
            }
        };
        let folds = (0..folds).map(fold).collect();
        Ok(Split { data_sha256: data.digest(), folds, by_episode })
    }

    /// All rows that some model has never seen.
    pub fn held_out(&self) -> Vec<u32> {
        self.folds.iter().flat_map(|fold| &fold.held_out).copied().collect()
    }

    /// The rows that each model has never seen.
    pub(crate) fn held_out_by_fold(&self) -> Vec<&[u32]> {
        self.folds.iter().map(|fold| fold.held_out.as_slice()).collect()
    }

    /// The rows that stopped the training of each model.
    pub(crate) fn validation_by_fold(&self) -> Vec<&[u32]> {
        self.folds.iter().map(|fold| fold.validation.as_slice()).collect()
    }

    /// The same without the rows of the training.
    pub(crate) fn without_training(&self) -> Split {
        let mut split = self.clone();
        split.folds.iter_mut().for_each(|fold| fold.train = Vec::new());
        split
    }
}

/// Episodes, or single rows where there are few episodes, in random order; and whether they are episodes.
fn shuffled_units(data: &Transitions, stream: Stream) -> (Vec<Range<usize>>, bool) {
    let by_episode = data.episodes().len() >= EPISODES;
    let mut units: Vec<Range<usize>> = match by_episode {
        true => data.episodes().collect(),
        false => (0..data.len()).map(|i| i..i + 1).collect(),
    };
    stream.generator().shuffle(&mut units);
    (units, by_episode)
}

/// Twice the fraction is held out, and some must be left to train on.
pub(crate) fn check_holdout(fraction: f64) -> Result<()> {
    match fraction > 0.0 && fraction <= 0.4 {
        true => Ok(()),
        false => Err(Error::setting("holdout", fraction, "a number in (0, 0.4]")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Columns;

    fn data(episodes: usize, length: usize) -> Transitions {
        let n = episodes * length;
        Transitions::new(Columns {
            state_dim: 1,
            action_dim: 1,
            states: vec![0.0; n],
            actions: vec![0.0; n],
            rewards: vec![0.0; n],
            next_states: vec![0.0; n],
            terminals: vec![false; n],
            timeouts: vec![false; n],
            episode_starts: (0..episodes).map(|e| e * length).collect(),
            ..Default::default()
        })
        .unwrap()
    }

    fn all_rows(fold: &Fold) -> Vec<u32> {
        let mut all = [&fold.train[..], &fold.validation, &fold.held_out].concat();
        all.sort_unstable();
        all
    }

    #[test]
    fn every_row_is_in_exactly_one_set() {
        for (episodes, length) in [(1, 3), (1, 100), (10, 7), (100, 10)] {
            let split = Split::new(&data(episodes, length), 0.1, Stream::new(1)).unwrap();
            let rows = (0..(episodes * length) as u32).collect::<Vec<_>>();
            assert_eq!(all_rows(&split.folds[0]), rows);
        }
    }

    #[test]
    fn episodes_are_not_cut_where_there_are_enough() {
        let split = Split::new(&data(40, 5), 0.1, Stream::new(2)).unwrap();
        assert!(split.by_episode);
        let Fold { train, validation, held_out } = &split.folds[0];
        assert_eq!(validation.len(), 20);
        for set in [train, validation, held_out] {
            assert!(set.chunks(5).all(|e| e[0] % 5 == 0 && e[4] == e[0] + 4), "{set:?}");
        }
        assert!(!Split::new(&data(9, 5), 0.1, Stream::new(2)).unwrap().by_episode);
    }

    #[test]
    fn every_episode_is_held_out_by_one_model() {
        for (episodes, folds) in [(10, 5), (23, 5), (57, 3)] {
            let split = Split::cross(&data(episodes, 4), folds, 0.1, Stream::new(3)).unwrap();
            assert_eq!(split.folds.len(), folds);
            let everything: Vec<u32> = (0..4 * episodes as u32).collect();
            let mut held_out = split.held_out();
            held_out.sort_unstable();
            assert_eq!(held_out, everything);
            for fold in &split.folds {
                assert_eq!(all_rows(fold), everything);
                assert!(!fold.validation.is_empty() && fold.validation.len() < fold.train.len());
                for set in [&fold.train, &fold.validation, &fold.held_out] {
                    assert!(set.chunks(4).all(|e| e[0] % 4 == 0 && e[3] == e[0] + 3), "{set:?}");
                }
            }
        }
        let few = Split::cross(&data(9, 4), 5, 0.1, Stream::new(3)).unwrap();
        assert_eq!((few.folds.len(), few.by_episode), (1, false));
    }

    #[test]
    fn fractions_out_of_range_and_tiny_data_are_refused() {
        assert!(Split::new(&data(1, 50), 0.0, Stream::new(1)).is_err());
        assert!(Split::new(&data(1, 50), 0.5, Stream::new(1)).is_err());
        assert!(
            Split::new(&data(1, 2), 0.1, Stream::new(1))
                .unwrap_err()
                .to_string()
                .contains("too few")
        );
    }
}
