//! Networks that went wrong in training: they are found on validation data, and left out.

use super::Bnn;
use super::windows::{Prediction, Windows};
use crate::Result;
use crate::data::Transitions;
use crate::dynamics::Dynamics;
use hambo_engine::backend::{Device, Input};

/// A network is broken if predictions of several steps are off by this many times as much as the median of its fold.
const TIMES: f64 = 2.0;

impl Bnn {
    /// Finds broken particles, and puts the best other one of their fold in the place of each.
    pub(super) fn leave_out_broken(&mut self, device: &Device, data: &Transitions) -> Result<()> {
        let (members, folds) = (self.ensemble.shape.members, self.report.folds);
        if members == folds {
            return Ok(()); // there is no other
        }
        let nll = self.report.validation_nll.clone();
        let worse_by_a_nat = worse(&nll, folds, |median| median + self.state_dim() as f64);
        let off = match self.errors_of_members(device, data)? {
            Some(errors) => worse(&errors, folds, |median| TIMES * median),
            None => Vec::new(),
        };
        let broken: Vec<usize> =
            (0..members).filter(|k| worse_by_a_nat.contains(k) || off.contains(k)).collect();
        let mut params = device.download(&self.ensemble.params)?;
        let n = params.len() / members;
        for &k in &broken {
            let others =
                (k % folds..members).step_by(folds).filter(|other| !broken.contains(other));
            if let Some(best) = others.min_by(|&i, &j| nll[i].total_cmp(&nll[j])) {
                params.copy_within(best * n..(best + 1) * n, k * n);
            }
        }
        if !broken.is_empty() {
            self.ensemble.params = device.adopt(params);
        }
        self.report.broken_particles = broken;
        Ok(())
    }

    /// How far each network is off over several steps of validation episodes, without noise, in deviations of the data:
    /// geometric mean over the steps.
    fn errors_of_members(&self, device: &Device, data: &Transitions) -> Result<Option<Vec<f64>>> {
        let Some(windows) = Windows::of(&self.held_out, data) else { return Ok(None) };
        let (members, folds, ds) =
            (self.ensemble.shape.members, self.report.folds, self.state_dim());
        let rows = (0..members).flat_map(|k| windows.of_fold(k % folds)).copied().collect();
        let mut prediction = Prediction::new(&self.frame, data, rows);
        let mut output = device.zeros(members * windows.each * 2 * ds);
        let mut logarithms = vec![0.0; members];
        for _ in 0..windows.steps {
            let x = device.adopt(prediction.inputs());
            self.ensemble.infer(device, Input::PerMember(&x), windows.each, &mut output);
            let means = device.download(&output)?;
            prediction.step(|i, d| means[i * 2 * ds + d]);
            let [predicted, logged] = prediction.and_logged();
            let part = windows.each * self.frame.input_dim();
            let parts = predicted.chunks_exact(part).zip(logged.chunks_exact(part));
            for (sum, (predicted, logged)) in logarithms.iter_mut().zip(parts) {
                let width = self.frame.input_dim();
                let pairs = predicted.chunks_exact(width).zip(logged.chunks_exact(width));
                let mean = pairs.map(|(p, q)| prediction.distance(p, q)).sum::<f64>()
                    / windows.each as f64;
                *sum += mean.max(f64::MIN_POSITIVE).ln() / windows.steps as f64;
            }
        }
        Ok(Some(logarithms.into_iter().map(f64::exp).collect()))
    }
}

/// Networks k · folds + f that are above a limit, which hangs on the median of their fold (the lower one of two).
fn worse(values: &[f64], folds: usize, limit: impl Fn(f64) -> f64) -> Vec<usize> {
    let limit_of = |fold: usize| {
        let mut sorted: Vec<f64> = values.iter().skip(fold).step_by(folds).copied().collect();
        sorted.sort_by(f64::total_cmp);
        limit(sorted[(sorted.len() - 1) / 2])
    };
    let limits: Vec<f64> = (0..folds).map(limit_of).collect();
    let is_worse = |k: &usize| values[*k].is_nan() || values[*k] > limits[k % folds];
    (0..values.len()).filter(is_worse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Split;
    use crate::dynamics::BnnConfig;
    use crate::policy::Policy;
    use crate::run::Run;
    use crate::testing::pendulum_data;
    use hambo_engine::rng::Stream;

    #[test]
    fn each_fold_is_its_own_measure() {
        let worse_by_a_nat = |nll: &[f64], dims: f64, folds| worse(nll, folds, |m| m + dims);
        assert_eq!(worse_by_a_nat(&[-3.0, -2.9, 0.2, -3.1, -2.8], 3.0, 1), [2]);
        assert_eq!(worse_by_a_nat(&[-3.0, -2.9, 0.0, -3.1, -2.8], 3.0, 1), [] as [usize; 0]);
        assert_eq!(worse_by_a_nat(&[5.0, -3.0, 5.0, -3.0, -3.0], 1.0, 1), [0, 2]);
        assert_eq!(
            worse_by_a_nat(&[7.0, 0.0], 2.0, 1),
            [0],
            "of two the better one is the measure"
        );
        assert_eq!(worse_by_a_nat(&[7.0], 2.0, 1), [] as [usize; 0]);
        assert_eq!(worse_by_a_nat(&[9.0, 0.0, 9.5, 0.1, 9.2, 5.0], 2.0, 2), [5], "two folds");
        assert_eq!(worse_by_a_nat(&[1.0, f64::NAN, 1.0], 2.0, 1), [1]);
    }

    /// One network of three is given wrong weights: the best of the others stands in for it.
    #[test]
    fn a_network_that_is_wrong_over_several_steps_is_left_out() {
        let device = Device::cpu(Some(1)).unwrap();
        let policy = Policy::read("builtin:swing-up").unwrap();
        let data = pendulum_data(&device, &policy, 0.5, 4000);
        let split = Split::cross(&data, 1, 0.1, Stream::new(1)).unwrap();
        let config = BnnConfig {
            particles: 3,
            hidden: vec![16],
            steps: Some(400),
            folds: Some(1),
            ..Default::default()
        };
        let mut model =
            Bnn::fit(&device, &data, &split, &config, Stream::new(2), &Run::default()).unwrap();
        assert_eq!(model.report.broken_particles, [] as [usize; 0]);
        let mut params = device.download(&model.ensemble.params).unwrap();
        let n = params.len() / 3;
        params[n..2 * n].iter_mut().for_each(|w| *w *= -3.0);
        model.set_parameters(&device, params);
        model.leave_out_broken(&device, &data).unwrap();
        assert_eq!(model.report.broken_particles, [1]);
        let params = device.download(&model.ensemble.params).unwrap();
        let nll = &model.report.validation_nll;
        let best = if nll[0] < nll[2] { 0 } else { 2 };
        assert_eq!(params[n..2 * n], params[best * n..(best + 1) * n]);
    }
}
