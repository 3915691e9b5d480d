//! Which warnings matter most.

use super::warning::Warning;
use serde::Serialize;
use std::fmt;

/// How much a warning matters, what matters most first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Rank {
    /// The bound shows nothing, or there is none.
    Critical,
    /// Something may be wrong, or costs much of the bound.
    Caution,
    /// Good to know.
    Information,
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rank::Critical => "critical",
            Rank::Caution => "caution",
            Rank::Information => "information",
        })
    }
}

impl Warning {
    /// How much it matters.
    pub fn rank(&self) -> Rank {
        let of_bound = |bound: Rank, method: &super::Method| match method.is_conservative() {
            true => bound,
            false => Rank::Information, // what a neutral estimate rests on bounds nothing
        };
        match self {
            Warning::About { warning, .. } => warning.rank(),
            Warning::Diverged { method, .. } => of_bound(Rank::Critical, method),
            Warning::NotConverged(_)
            | Warning::Unsupported { .. }
            | Warning::Extrapolated { .. }
            | Warning::LearnedFromLogs => Rank::Critical,
            Warning::Left { method, .. } | Warning::Far { method, .. } => {
                of_bound(Rank::Caution, method)
            }
            Warning::Note(_)
            | Warning::LeavesData(_)
            | Warning::SingleRowsHeldOut
            | Warning::BrokenParticles { .. }
            | Warning::OneParticle
            | Warning::ConstantTargets(_)
            | Warning::AboveNeutral { .. }
            | Warning::SearchedBySac
            | Warning::ModelWithoutGradient
            | Warning::RewardWithoutGradient(_)
            | Warning::PolicyWithoutGradient { by_sac: true, .. }
            | Warning::GivenBeta
            | Warning::Subtracted { .. } => Rank::Caution,
            Warning::SubsetOfRows { .. }
            | Warning::Jitter(_)
            | Warning::ModelOnHost { .. }
            | Warning::NothingToChoose
            | Warning::PolicyWithoutGradient { by_sac: false, .. }
            | Warning::ZeroBeta
            | Warning::DaInf => Rank::Information,
        }
    }
}

/// Warnings with what matters most first; equal ones are told once, and those that differ by whom they are about alone with
/// all of the names.
pub fn by_rank(warnings: impl IntoIterator<Item = Warning>) -> Vec<Warning> {
    let mut told: Vec<Warning> = Vec::new();
    for warning in warnings {
        if told.contains(&warning) {
            continue;
        }
        let Warning::About { name: new, warning: inner } = &warning else {
            told.push(warning);
            continue;
        };
        let same = |other: &&mut Warning| matches!(other, Warning::About { warning: known, .. } if known == inner);
        match told.iter_mut().find(same) {
            Some(Warning::About { name, .. }) if !name.split(", ").any(|known| known == new) => {
                *name += &format!(", {new}");
            }
            Some(_) => {}
            None => told.push(warning),
        }
    }
    told.sort_by_key(Warning::rank);
    told
}

#[cfg(test)]
mod tests {
    use super::super::Method;
    use super::*;

    #[test]
    fn what_matters_most_comes_first_and_equal_ones_once() {
        let note = Warning::Note("columns not used".to_owned());
        let left = |method| Warning::Left { method, trajectories: 3, of: 200 };
        let told = by_rank([
            Warning::DaInf,
            note.clone(),
            Warning::GivenBeta.about("speed"),
            left(Method::Ds),
            Warning::NotConverged(Method::Ca),
            note.clone(),
            left(Method::Ca),
            Warning::GivenBeta.about("height"),
            Warning::GivenBeta.about("height"),
        ]);
        let texts: Vec<String> = told.iter().map(|w| w.to_string()).collect();
        assert_eq!(told[0], Warning::NotConverged(Method::Ca));
        assert_eq!(texts[1], "columns not used");
        assert!(texts[2].starts_with("speed, height: ca: the size"), "{}", texts[2]);
        assert_eq!(told[3..], [left(Method::Ca), Warning::DaInf, left(Method::Ds)]);
        assert!(told.is_sorted_by_key(Warning::rank));
    }
}
