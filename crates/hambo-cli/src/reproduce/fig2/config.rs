//! How many data sets, and how much computation for each.

use hambo::adversary::{LearningConfig, Optimizers, SacConfig, SearchConfig};

/// How many data sets, and how much computation for each.
#[derive(Clone, Debug)]
pub struct Fig2Config {
    /// Sizes n of the data sets, in ascending order.
    pub sizes: Vec<usize>,
    /// Number of seeds for each size.
    pub seeds: u64,
    /// Number of trajectories for each estimate.
    pub rollouts: usize,
    /// The search for the adversary.
    pub search: SearchConfig,
}

impl Fig2Config {
    /// A minute on two cores.
    pub fn quick() -> Self {
        Fig2Config {
            sizes: vec![25, 50, 100, 200, 400],
            seeds: 5,
            rollouts: 500,
            search: SearchConfig {
                hidden: vec![64, 64],
                restarts: 1,
                batch: 32,
                iterations: 40,
                evaluation: 64,
                learning_rate: 1e-2,
                ..SearchConfig::default()
            },
        }
    }

    /// More data, a longer search with a second start, and the paper's SAC adversary as a second opinion.
    pub fn paper() -> Self {
        let learning = LearningConfig {
            rounds: 5,
            episodes: 100,
            updates: 500,
            batch: 256,
            ..Default::default()
        };
        Fig2Config {
            sizes: vec![25, 50, 100, 200, 400, 800],
            seeds: 5,
            rollouts: 2000,
            search: SearchConfig {
                optimizers: Optimizers::Portfolio,
                restarts: 2,
                batch: 64,
                iterations: 80,
                evaluation: 256,
                sac: SacConfig { learning, ..Default::default() },
                ..Fig2Config::quick().search
            },
        }
    }
}
