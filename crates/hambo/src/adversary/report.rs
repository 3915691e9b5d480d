//! How a search went: every candidate, the lowest, and whether it had stopped falling.

use crate::run::checkpoint::Arrays;
use serde::Serialize;

/// What found an adversary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum FoundBy {
    /// Back-propagation through the model.
    #[serde(rename = "pathwise")]
    Pathwise,
    /// Soft Actor-Critic, the paper's choice for CA.
    #[serde(rename = "sac")]
    Sac,
    /// Nothing: one particle throughout, as DAinf.
    #[serde(rename = "constant")]
    Constant,
    /// DQN, the paper's choice for DA1.
    #[serde(rename = "dqn")]
    Dqn,
    /// The same networks, comparing particles by where they lead.
    #[serde(rename = "dqn, a step ahead")]
    DqnLookAhead,
}

impl FoundBy {
    /// All of them; unfinished work tells them by their places here.
    const ALL: [FoundBy; 5] =
        [FoundBy::Pathwise, FoundBy::Sac, FoundBy::Constant, FoundBy::Dqn, FoundBy::DqnLookAhead];
}

impl std::fmt::Display for FoundBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            FoundBy::Pathwise => "pathwise",
            FoundBy::Sac => "sac",
            FoundBy::Constant => "constant",
            FoundBy::Dqn => "dqn",
            FoundBy::DqnLookAhead => "dqn, a step ahead",
        })
    }
}

/// Share of the standard error of a measurement that counts as no difference.
const NOISE: f64 = 0.1;

/// One of the adversaries that were compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// What found it.
    #[serde(rename = "optimiser")]
    pub found_by: FoundBy,
    /// Its number among those: the restart, the round, or the particle.
    pub index: usize,
    /// Return under it, on the fixed seeds.
    pub value: f64,
}

/// How the search went.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SearchReport {
    /// Return without an adversary, on the fixed seeds.
    pub neutral: f64,
    /// Standard error of that, from the single returns.
    pub std_error: f64,
    /// Lowest return of each restart, on the fixed seeds; with several folds those of the first fold come first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub restarts: Vec<f64>,
    /// All that was compared: every restart at its lowest, the SAC adversary after every round; for DA1 every
    /// particle for the whole trajectory, the DQN adversary after every round.
    pub candidates: Vec<Candidate>,
    /// The lowest of all; with several folds the mean of the lowest of each.
    pub lowest: f64,
    /// The lowest of each fold.
    pub lowest_of_folds: Vec<f64>,
    /// Lowest value so far after each measurement.
    pub curve: Vec<f64>,
    /// Iterations of the pathwise adversary, or rounds of DQN.
    pub iterations: usize,
    /// Whether the lowest value had stopped falling.
    pub converged: bool,
}

impl SearchReport {
    /// Before anything was tried.
    pub(super) fn new((neutral, std_error): (f64, f64), lowest: f64) -> Self {
        SearchReport {
            neutral,
            lowest_of_folds: Vec::new(),
            std_error,
            restarts: Vec::new(),
            candidates: Vec::new(),
            lowest,
            curve: vec![neutral],
            iterations: 0,
            converged: false,
        }
    }

    /// Lists a candidate, and says whether it is the lowest so far.
    pub(super) fn compare(&mut self, found_by: FoundBy, index: usize, value: f64) -> bool {
        self.candidates.push(Candidate { found_by, index, value });
        let lower = value < self.lowest;
        self.lowest = self.lowest.min(value);
        lower
    }

    /// Lowest value that one of the optimizers reached.
    pub(super) fn lowest_of(&self, found_by: FoundBy) -> f64 {
        let values = self.candidates.iter().filter(|c| c.found_by == found_by).map(|c| c.value);
        values.fold(f64::INFINITY, f64::min)
    }

    /// Whether SAC was asked, alone or for a second opinion.
    pub(crate) fn by_sac(&self) -> bool {
        self.count_of(FoundBy::Sac) > 0
    }

    /// Whether SAC alone was asked.
    pub(crate) fn by_sac_alone(&self) -> bool {
        self.count_of(FoundBy::Sac) > 0 && self.count_of(FoundBy::Pathwise) == 0
    }

    /// How many candidates one of the optimizers brought.
    pub(super) fn count_of(&self, found_by: FoundBy) -> usize {
        self.candidates.iter().filter(|c| c.found_by == found_by).count()
    }

    /// The difference of values that counts as none: a share of what the adversary achieves, and what a measurement can
    /// hardly tell. It is in the unit of rewards, and a constant added to them does not change it.
    pub(super) fn slack(&self, tolerance: f64) -> f64 {
        let achieved = (self.neutral - self.lowest).max(0.0);
        let noise = if self.std_error.is_finite() { self.std_error } else { 0.0 };
        tolerance * achieved + NOISE * noise
    }

    /// A unit of returns that says how much they matter: their error, or where all are the same a share of them.
    pub(super) fn unit(&self) -> f64 {
        let share = 0.01 * self.neutral.abs();
        let error = Some(self.std_error).filter(|e| e.is_finite() && *e > 1e-4 * share);
        let or_share = error.or(Some(share).filter(|s| s.is_finite() && *s > 0.0));
        or_share.unwrap_or(1.0)
    }

    /// Whether the lowest value has stopped falling; there is nothing below −∞.
    pub(super) fn stopped_falling(&self, tolerance: f64, patience: usize) -> bool {
        if self.lowest == f64::NEG_INFINITY {
            return true;
        }
        let before = self.curve.len().checked_sub(patience + 1);
        before.is_some_and(|before| self.curve[before] - self.lowest <= self.slack(tolerance))
    }
}

/// What was read, or what is wrong with it.
type Read<T> = std::result::Result<T, String>;

impl SearchReport {
    /// Adds what was found so far.
    pub(super) fn store(&self, arrays: &mut Arrays) {
        let name = |c: &Candidate| FoundBy::ALL.iter().position(|f| *f == c.found_by).unwrap_or(0);
        let kinds: Vec<u32> =
            self.candidates.iter().flat_map(|c| [name(c) as u32, c.index as u32]).collect();
        let values: Vec<f64> = self.candidates.iter().map(|c| c.value).collect();
        arrays.put("report.neutral_lowest", &[self.neutral, self.lowest]);
        arrays.put("report.std_error", &[self.std_error]);
        arrays.put("report.restarts", &self.restarts);
        arrays.put("report.folds", &self.lowest_of_folds);
        arrays.put("report.candidates", &kinds);
        arrays.put("report.values", &values);
        arrays.put("report.curve", &self.curve);
        arrays.put(
            "report.iterations_converged",
            &[self.iterations as u32, u32::from(self.converged)],
        );
    }

    /// What was found when this was stored.
    pub(super) fn restore(arrays: &Arrays) -> Read<Self> {
        let levels: Vec<f64> = arrays.get_exactly("report.neutral_lowest", 2)?;
        let state: Vec<u32> = arrays.get_exactly("report.iterations_converged", 2)?;
        let values: Vec<f64> = arrays.get("report.values")?;
        let kinds: Vec<u32> = arrays.get_exactly("report.candidates", 2 * values.len())?;
        let candidate = |(kind, &value): (&[u32], &f64)| {
            let found_by =
                *FoundBy::ALL.get(kind[0] as usize).ok_or("a candidate of no known optimizer")?;
            Ok(Candidate { found_by, index: kind[1] as usize, value })
        };
        Ok(SearchReport {
            neutral: levels[0],
            lowest: levels[1],
            std_error: arrays.get_exactly::<f64>("report.std_error", 1)?[0],
            restarts: arrays.get("report.restarts")?,
            lowest_of_folds: arrays.get("report.folds")?,
            candidates: kinds.chunks_exact(2).zip(&values).map(candidate).collect::<Read<_>>()?,
            curve: arrays.get("report.curve")?,
            iterations: state[0] as usize,
            converged: state[1] != 0,
        })
    }
}
