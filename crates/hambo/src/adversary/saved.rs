//! A search as it is kept in case that it is interrupted.

use super::portfolio::{Candidate, SearchReport};
use crate::checkpoint::Arrays;
use crate::compute::{Device, Shape};
use crate::nn::Ensemble;

type Read<T> = std::result::Result<T, String>;

/// The names that [`Candidate::optimiser`] may have.
const OPTIMISERS: [&str; 5] = ["pathwise", "sac", "constant", "dqn", "dqn, a step ahead"];

impl SearchReport {
    /// Adds what was found so far.
    pub(super) fn store(&self, arrays: &mut Arrays) {
        let name = |c: &Candidate| OPTIMISERS.iter().position(|o| *o == c.optimiser).unwrap_or(0);
        let kinds: Vec<u32> = self.candidates.iter().flat_map(|c| [name(c) as u32, c.index as u32]).collect();
        let values: Vec<f64> = self.candidates.iter().map(|c| c.value).collect();
        arrays.put("report.neutral_lowest", &[self.neutral, self.lowest]);
        arrays.put("report.restarts", &self.restarts);
        arrays.put("report.candidates", &kinds);
        arrays.put("report.values", &values);
        arrays.put("report.curve", &self.curve);
        arrays.put("report.iterations_converged", &[self.iterations as u32, u32::from(self.converged)]);
    }

    /// What was found when this was stored.
    pub(super) fn restore(arrays: &Arrays) -> Read<Self> {
        let levels: Vec<f64> = arrays.get_exactly("report.neutral_lowest", 2)?;
        let state: Vec<u32> = arrays.get_exactly("report.iterations_converged", 2)?;
        let values: Vec<f64> = arrays.get("report.values")?;
        let kinds: Vec<u32> = arrays.get_exactly("report.candidates", 2 * values.len())?;
        let candidate = |(kind, &value): (&[u32], &f64)| {
            let optimiser = OPTIMISERS.get(kind[0] as usize).ok_or("a candidate of no known optimiser")?;
            Ok(Candidate { optimiser, index: kind[1] as usize, value })
        };
        Ok(SearchReport {
            neutral: levels[0],
            lowest: levels[1],
            restarts: arrays.get("report.restarts")?,
            candidates: kinds.chunks_exact(2).zip(&values).map(candidate).collect::<Read<_>>()?,
            curve: arrays.get("report.curve")?,
            iterations: state[0] as usize,
            converged: state[1] != 0,
        })
    }
}

/// Adds the networks of the best adversary so far.
pub(super) fn store_best(device: &Device, networks: &Ensemble, arrays: &mut Arrays) {
    let Shape { members, widths, .. } = &networks.shape;
    let sizes: Vec<u32> = [members].into_iter().chain(widths).map(|&n| n as u32).collect();
    arrays.put("best.shape", &sizes);
    arrays.put("best.params", &device.download(&networks.params));
}

/// The same back, for networks that go from as many inputs to as many outputs as `like` does, in the same way.
pub(super) fn restore_best(device: &Device, like: &Shape, arrays: &Arrays) -> Read<Ensemble> {
    let sizes: Vec<u32> = arrays.get("best.shape")?;
    let Some((&members, widths)) = sizes.split_first() else {
        return Err("`best.shape` is empty".to_owned());
    };
    let widths = widths.iter().map(|&n| n as usize).collect();
    let mut shape = Shape::new(members as usize, widths, like.hidden).map_err(|e| e.to_string())?;
    if (shape.inputs(), shape.outputs()) != (like.inputs(), like.outputs()) {
        return Err(format!("`best.shape` is {sizes:?}, which does not fit the model"));
    }
    shape.output = like.output;
    let params = arrays.get_exactly("best.params", shape.members * shape.stride())?;
    Ok(Ensemble { params: device.adopt(params), shape })
}
