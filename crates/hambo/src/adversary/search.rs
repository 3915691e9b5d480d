//! The search for the worst adversary, whatever its kind.
//!
//! Every candidate is an attainable adversary, so the lowest value over all of them is only nearer to the
//! true minimum. All are compared on the same fixed starts and noise; the value that is reported comes from
//! fresh ones, so that taking the minimum does not bias it.

use super::config::SearchConfig;
use super::report::SearchReport;
use crate::Result;
use crate::data::Transitions;
use crate::rollout::{Propagation, Rollout, World};
use crate::run::Run;
use crate::run::checkpoint::{Arrays, Saved};
use hambo_engine::backend::{Device, Shape};
use hambo_engine::nn::Ensemble;
use hambo_engine::rng::Stream;

/// A search under way: what it is about, and the starts and the noise that all candidates are compared on.
pub(super) struct Search<'a> {
    pub world: &'a World<'a>,
    data: &'a Transitions,
    pub config: &'a SearchConfig,
    pub stream: Stream,
    starts: Vec<f32>,
    /// Who watches it, where it is saved, and by which name.
    pub run: &'a Run<'a>,
    name: &'a str,
}

impl<'a> Search<'a> {
    pub fn new(
        world: &'a World<'a>,
        config: &'a SearchConfig,
        data: &'a Transitions,
        stream: Stream,
        (run, name): (&'a Run<'a>, &'a str),
    ) -> Result<Self> {
        config.validate()?;
        let mut search = Search { world, data, config, stream, starts: Vec::new(), run, name };
        let evaluation = config.evaluation * world.model.folds();
        search.starts = search.draw(evaluation, stream.child("fixed starts"))?;
        Ok(search)
    }

    /// Initial states to learn from, as many for each fold of the model.
    pub fn draw(&self, n: usize, stream: Stream) -> Result<Vec<f32>> {
        let n = n.next_multiple_of(self.world.model.folds());
        self.world.setting.task.initial.sample(n, self.data, stream)
    }

    /// What the returns of each of so many groups of trajectories that follow each other come to: their mean, or that of the worst.
    pub fn measure(&self, propagation: Propagation<'_>, groups: usize) -> Result<Vec<f64>> {
        let returns = self.returns(propagation)?;
        Ok(returns.chunks_exact(returns.len() / groups).map(mean).collect())
    }

    /// Mean return of trajectories without an adversary with its standard error, and that of each of so many groups.
    pub fn measure_neutral(
        &self,
        propagation: Propagation<'_>,
        groups: usize,
    ) -> Result<((f64, f64), Vec<f64>)> {
        let returns = self.returns(propagation)?;
        let (all, n) = (mean(&returns), returns.len() as f64);
        let squares = returns.iter().map(|&x| (f64::from(x) - all).powi(2)).sum::<f64>();
        let variance = if n > 1.0 { squares / (n - 1.0) } else { f64::INFINITY };
        let std_error = if all.is_finite() { (variance / n).sqrt() } else { f64::INFINITY };
        let each = returns.chunks_exact(returns.len() / groups).map(mean).collect();
        Ok(((all, std_error), each))
    }

    fn returns(&self, propagation: Propagation<'_>) -> Result<Vec<f32>> {
        let World { device, setting, .. } = *self.world;
        let mut rollout = Rollout::new(self.world, propagation, &self.starts);
        let noise = self.stream.child("fixed noise");
        self.world.repeat(setting.horizon, || rollout.step(noise));
        Ok(rollout.returns(device)?.valued(setting.tail).values)
    }

    /// What was saved of it when it was interrupted.
    pub fn load(&self) -> Result<Option<Saved>> {
        self.run.load(self.name)
    }

    /// Saves the search as it stands, with what its optimizer adds, if it is time for that.
    pub fn save(
        &self,
        report: &SearchReport,
        best: &Ensemble,
        more: impl FnOnce(&mut Arrays) -> Result<()>,
    ) -> Result<()> {
        self.run.save(self.name, || {
            let mut arrays = Arrays::default();
            report.store(&mut arrays);
            store_best(self.world.device, best, &mut arrays)?;
            more(&mut arrays)?;
            Ok(arrays)
        })
    }
}

fn mean(returns: &[f32]) -> f64 {
    returns.iter().map(|&x| f64::from(x)).sum::<f64>() / returns.len() as f64
}

/// Adds the networks of the best adversary so far.
fn store_best(device: &Device, networks: &Ensemble, arrays: &mut Arrays) -> Result<()> {
    let Shape { members, widths, .. } = &networks.shape;
    let sizes: Vec<u32> = [members].into_iter().chain(widths).map(|&n| n as u32).collect();
    arrays.put("best.shape", &sizes);
    arrays.put("best.params", &device.download(&networks.params)?);
    Ok(())
}

/// The same back, for networks that go from as many inputs to as many outputs as `like` does, in the same way.
pub(super) fn restore_best(
    device: &Device,
    like: &Shape,
    arrays: &Arrays,
) -> std::result::Result<Ensemble, String> {
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
