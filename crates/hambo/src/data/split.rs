//! Which transitions train the model, which stop its training, which calibrate it.

use super::Transitions;
use crate::{Error, Result};
use hambo_engine::rng::Stream;
use serde::{Deserialize, Serialize};

/// Episodes needed before whole episodes are held out; with fewer, single transitions are.
const EPISODES: usize = 10;

/// Disjoint sets of rows, each in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// [`Transitions::digest`] of the data that the rows belong to.
    pub data_sha256: String,
    /// Rows that the model is trained on; not stored with a model.
    #[serde(skip)]
    pub train: Vec<u32>,
    /// Rows that decide when training stops.
    pub validation: Vec<u32>,
    /// Rows that the uncertainty is calibrated on, D_c of the paper.
    pub calibration: Vec<u32>,
    /// Whether whole episodes were held out; otherwise neighbors of held-out rows may be in training.
    pub by_episode: bool,
}

impl Split {
    /// Holds out a fraction of the data for validation and as much again for calibration: whole episodes
    /// where there are enough of them, since neighboring rows of one episode are near copies.
    pub fn new(data: &Transitions, fraction: f64, stream: Stream) -> Result<Self> {
        check_holdout(fraction)?;
        let mut generator = stream.generator();
        let by_episode = data.episodes().len() >= EPISODES;
        let mut units: Vec<std::ops::Range<usize>> = if by_episode {
            data.episodes().collect()
        } else {
            (0..data.len()).map(|i| i..i + 1).collect()
        };
        generator.shuffle(&mut units);
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
        let [train, validation, calibration] = sets;
        if train.is_empty() || validation.is_empty() || calibration.is_empty() {
            return Err(Error::Data(format!(
                "{} transitions are too few to hold some out for validation and calibration",
                data.len()
            )));
        }
        Ok(Split { data_sha256: data.digest(), train, validation, calibration, by_episode })
    }
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
        })
        .unwrap()
    }

    #[test]
    fn every_row_is_in_exactly_one_set() {
        for (episodes, length) in [(1, 3), (1, 100), (10, 7), (100, 10)] {
            let split = Split::new(&data(episodes, length), 0.1, Stream::new(1)).unwrap();
            let mut all = [split.train, split.validation, split.calibration].concat();
            all.sort_unstable();
            assert_eq!(all, (0..(episodes * length) as u32).collect::<Vec<_>>());
        }
    }

    #[test]
    fn episodes_are_not_cut_where_there_are_enough() {
        let split = Split::new(&data(40, 5), 0.1, Stream::new(2)).unwrap();
        assert!(split.by_episode);
        assert_eq!(split.validation.len(), 20);
        for set in [&split.train, &split.validation, &split.calibration] {
            assert!(set.chunks(5).all(|e| e[0] % 5 == 0 && e[4] == e[0] + 4), "{set:?}");
        }
        assert!(!Split::new(&data(9, 5), 0.1, Stream::new(2)).unwrap().by_episode);
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
