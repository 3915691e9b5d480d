//! How much time an evaluation may take, for those who do not want to choose settings.

use crate::adversary::SearchConfig;
use crate::dynamics::BnnConfig;

/// How much time an evaluation may take. Whatever the data, one effort has the same settings.
///
/// ```
/// use hambo::evaluate::Effort;
/// assert!(Effort::Quick.networks().folds < Effort::Best.networks().folds);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// Minutes on two cores: fewer folds, shorter trainings and searches, looser bounds.
    Quick,
    /// Seconds on a GPU.
    #[default]
    Standard,
    /// More folds, longer trainings with larger minibatches, more restarts of the adversary.
    Best,
}

impl Effort {
    /// Settings of the networks.
    pub fn networks(self) -> BnnConfig {
        let standard = BnnConfig::default();
        match self {
            Effort::Quick => {
                BnnConfig { folds: Some(3), steps: Some(500), patience: 500, ..standard }
            }
            Effort::Standard => standard,
            Effort::Best => BnnConfig {
                folds: Some(10),
                steps: Some(20_000),
                patience: 20_000,
                batch: 512,
                ..standard
            },
        }
    }

    /// Settings of the search for an adversary.
    pub fn search(self) -> SearchConfig {
        let standard = SearchConfig::default();
        match self {
            Effort::Quick => SearchConfig { restarts: 1, batch: 48, evaluation: 150, ..standard },
            Effort::Standard => standard,
            Effort::Best => SearchConfig { restarts: 4, iterations: 120, ..standard },
        }
    }
}
