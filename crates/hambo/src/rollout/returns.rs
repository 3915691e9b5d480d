//! What trajectories gave.

use crate::run::checkpoint::Arrays;

/// What trajectories gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Returns {
    /// Σ γᵗ r of each trajectory; with [`super::Propagation::EachMember`] `[members, starts]`.
    pub values: Vec<f32>,
    /// Which of them left the finite numbers; the return of such a trajectory is −∞.
    pub diverged: Vec<bool>,
    /// Which of them left the range of the logs, widened; from there on they got the worst reward.
    pub left: Vec<bool>,
    /// Which of them ended more than [`FAR`] standard deviations from the mean of the data in some
    /// dimension: the model was asked about places that it knows nothing of.
    pub far: Vec<bool>,
    /// Models that as many equal parts of the trajectories followed.
    pub folds: usize,
}

/// Standard deviations from the mean of the data beyond which a state is far from them.
pub const FAR: f32 = 10.0;

impl Returns {
    /// Number of trajectories that diverged.
    pub fn diverged_count(&self) -> usize {
        self.diverged.iter().filter(|&&d| d).count()
    }

    /// Number of trajectories that left the range of the logs.
    pub fn left_count(&self) -> usize {
        self.left.iter().filter(|&&l| l).count()
    }

    /// Number of trajectories that ended far from the data.
    pub fn far_count(&self) -> usize {
        self.far.iter().filter(|&&f| f).count()
    }

    /// Those of one member of [`super::Propagation::EachMember`].
    pub fn of_member(&self, member: usize, members: usize) -> Returns {
        let n = self.values.len() / members;
        self.select((member * n..(member + 1) * n).collect())
    }

    /// OPE-TSinf from [`super::Propagation::EachMember`]: start l takes its member l mod K, so that every member
    /// has the same share of the trajectories.
    pub fn one_member_each(&self, members: usize) -> Returns {
        let n = self.values.len() / members;
        self.select((0..n).map(|l| l % members * n + l).collect())
    }

    /// As it is kept in case that the work is interrupted.
    pub(crate) fn stored(&self) -> Arrays {
        let mut arrays = Arrays::default();
        let flags = |which: &[bool]| which.iter().map(|&yes| u32::from(yes)).collect::<Vec<u32>>();
        arrays.put("values", &self.values);
        arrays.put("diverged", &flags(&self.diverged));
        arrays.put("left", &flags(&self.left));
        arrays.put("far", &flags(&self.far));
        arrays.put("folds", &[self.folds as u32]);
        arrays
    }

    /// The same back.
    pub(crate) fn restore(arrays: &Arrays) -> std::result::Result<Self, String> {
        let values: Vec<f32> = arrays.get("values")?;
        let flags = |name: &str| {
            let flags: Vec<u32> = arrays.get_exactly(name, values.len())?;
            Ok::<_, String>(flags.into_iter().map(|flag| flag != 0).collect())
        };
        let [diverged, left, far] = [flags("diverged")?, flags("left")?, flags("far")?];
        let folds = arrays.get_exactly::<u32>("folds", 1)?[0].max(1) as usize;
        Ok(Returns { diverged, left, far, values, folds })
    }

    fn select(&self, rows: Vec<usize>) -> Returns {
        Returns {
            values: rows.iter().map(|&i| self.values[i]).collect(),
            diverged: rows.iter().map(|&i| self.diverged[i]).collect(),
            left: rows.iter().map(|&i| self.left[i]).collect(),
            far: rows.iter().map(|&i| self.far[i]).collect(),
            folds: self.folds,
        }
    }
}
