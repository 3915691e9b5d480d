//! A dynamics model of one's own: five methods are enough to bound a policy's return in it.

#![allow(clippy::unwrap_used)]

mod common;

use hambo::confidence::ConfidenceSet;
use hambo::data::{Split, Transitions};
use hambo::dynamics::{Dynamics, Frame, Target};
use hambo::evaluate::{EvaluationConfig, Method};
use hambo::task::{Initial, Task};
use hambo::{Device, Policy};
use hambo_engine::backend::{Buffer, Gaussian, Input};

/// s' = s + g·a, where the members do not agree on the gain g.
#[derive(Debug)]
struct Gains {
    gains: [f32; 2],
    frame: Frame,
    head: Gaussian,
    held_out: Split,
    tau: f32,
}

impl Dynamics for Gains {
    fn frame(&self) -> &Frame {
        &self.frame
    }
    fn members(&self) -> usize {
        self.gains.len()
    }
    fn head(&self) -> &Gaussian {
        &self.head
    }
    fn infer(&self, device: &Device, input: Input<'_>, rows: usize, output: &mut Buffer) {
        let (x, _) = input.batches(self.members());
        let (x, own) = (device.download_or_nan(x), matches!(input, Input::PerMember(_)));
        let (inputs, targets) = (&self.frame.inputs, &self.frame.targets);
        let mut values = Vec::new();
        for (k, gain) in self.gains.iter().enumerate() {
            for row in 0..rows {
                let x = &x[(if own { k * rows } else { 0 } + row) * 4..][..4];
                let change = |d: usize| gain * (x[2 + d] * inputs.std[2 + d] + inputs.mean[2 + d]);
                values.extend((0..2).map(|d| (change(d) - targets.mean[d]) / targets.std[d]));
                values.extend([-104.0; 2]); // no noise
            }
        }
        *output = device.adopt(values);
    }
    fn held_out(&self) -> &Split {
        &self.held_out
    }
    fn tau(&self) -> Vec<f32> {
        vec![1.0, self.tau]
    }
}

fn gains(data: &Transitions, tau: f32) -> Gains {
    let rows: Vec<u32> = (0..100).collect();
    Gains {
        gains: [1.0, 0.5],
        frame: Frame::fit(data, &rows, Target::Change, &[], false).unwrap(),
        head: Gaussian { dims: 2, floor: 0.0 },
        held_out: Split { data_sha256: data.digest(), ..Split::default() },
        tau,
    }
}

#[test]
fn a_calibration_that_is_no_number_has_no_set() {
    let data = common::transitions::<2, 2>(100, |s, a, _| [s[0] + a[0], s[1] + a[1]]);
    assert!(ConfidenceSet::new(&gains(&data, 2.0), 1.0).is_ok());
    for tau in [f32::NAN, f32::INFINITY, -1.0] {
        let problem = ConfidenceSet::new(&gains(&data, tau), 1.0).unwrap_err().to_string();
        assert!(problem.contains(&format!("τ = {tau}")), "{problem}");
    }
}

#[test]
fn the_worst_member_of_a_model_of_ones_own_is_found() {
    let device = Device::cpu(Some(2)).unwrap();
    let data = common::transitions::<2, 2>(100, |s, a, _| [s[0] + a[0], s[1] + a[1]]);
    let model = gains(&data, 1.0);
    let start = Initial::Fixed(vec![1.0, 0.0]);
    let task = Task { initial: start, ..Task::new("to 0", [2, 2], "-abs(s[0])").unwrap() };
    let config = EvaluationConfig {
        horizon: 5,
        rollouts: 100,
        methods: vec![Method::DaInf, Method::Mean],
        ..Default::default()
    };
    // a = −s: one member is at 0 after a step, the other halves the way at every step.
    let policy = Policy::read("builtin:proportional,gain=1").unwrap();
    let found = common::evaluate(&device, &data, &model, &task, &policy, &config).unwrap();
    let halving = -(1.0 + 0.5 + 0.25 + 0.125 + 0.0625);
    assert!((found.estimates[0].value - halving).abs() < 1e-5, "{:?}", found.estimates[0].value);
    let mean = -(0..5).map(|t| 0.25f64.powi(t)).sum::<f64>();
    assert!((found.estimates[1].value - mean).abs() < 1e-5, "{:?}", found.estimates[1].value);
}
