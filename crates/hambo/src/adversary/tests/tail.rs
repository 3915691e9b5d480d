//! CVaR in place of the mean, where their worst adversaries go opposite ways.

use super::*;
use crate::rollout::{Setting, Tail};
use crate::stats::normal_quantile;

const SHARE: f64 = 0.2;
/// s₁ after the first step is within this.
const REACH: f64 = BETA * SPREAD;

/// ln(1 + eˣ): the noise of s₀ where s₁ is s, by the model's last layer.
fn noise(s: f64) -> f64 {
    (-1.0 + 20.0 * s).exp().ln_1p() + 1e-3
}

/// Two members that disagree by ± 0.1 on s₁, and draw s₀ with a noise that grows with s₁.
fn model(device: &Device) -> Bnn {
    let shape = Shape::new(2, vec![4, 4], Activation::Relu).unwrap();
    let member = |offset: f32| {
        let mut params = vec![0.0; shape.parameters()]; // weights [4 inputs, 4 outputs], biases [4]
        params[4 + 2] = 20.0;
        params[16..].copy_from_slice(&[0.0, offset, -1.0, -30.0]);
        params
    };
    let params = [member(SPREAD as f32), member(-SPREAD as f32)].concat();
    Bnn::by_hand(2, 2, Ensemble { params: device.adopt(params), shape: shape.clone() }, 1e-3)
}

/// Two steps from 0 that pay how far s₀ goes, and s₁: the return is s₁ + σ(0) ε + σ(s₁) ε'. Its mean is lowest where s₁ is;
/// its CVaR, s₁ − √(σ(0)² + σ(s₁)²) φ(z) / α, where s₁ is highest.
fn lowest(tail: Option<Tail>) -> SearchReport {
    let device = Device::cpu(Some(2)).unwrap();
    let model = model(&device);
    let task =
        Task::new("spread", [2, 2], "n[0] - s[0] + s[1]").unwrap().with_action_bounds(-1.0, 1.0);
    let initial = Initial::Box { low: vec![0.0; 2], high: vec![0.0; 2], map: None };
    let task = Task { initial, ..task };
    let policy = Policy::read("builtin:proportional,gain=0").unwrap();
    let setting = Setting { tail, ..setting(&task, &policy, 2, 1.0) };
    let set = ConfidenceSet::new(&model, BETA).unwrap();
    let config = SearchConfig {
        hidden: vec![16],
        restarts: 2,
        iterations: 200,
        evaluation: 20_000,
        learning_rate: 1e-2,
        ..Default::default()
    };
    device.run(|| {
        let world = World::new(&device, &model, setting);
        let (stream, run) = (Stream::new(3), Run::default());
        search_shifts(&world, &set, None, (&config, &no_data()), stream, (&run, "")).unwrap().1
    })
}

#[test]
fn the_worst_for_cvar_is_not_the_worst_for_the_mean() {
    let z = normal_quantile(SHARE);
    let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let spread = |s: f64| noise(0.0).hypot(noise(s));
    let cvar = |s: f64| s - spread(s) * density / SHARE;
    assert!(cvar(REACH) < cvar(-REACH), "the case is too easy");

    let of_mean = lowest(None);
    assert!((of_mean.lowest + REACH).abs() < 0.05, "{} for {}", of_mean.lowest, -REACH);

    let at = |s: f64| Tail { share: SHARE, below: s + spread(s) * z };
    let of_tail = lowest(Some(at(REACH)));
    let expected = cvar(REACH);
    assert!((of_tail.lowest / expected - 1.0).abs() < 0.03, "{} for {expected}", of_tail.lowest);
    assert!(of_tail.converged, "{of_tail:?}");

    // With the quantile without an adversary, which is what is known beforehand, the value is lower.
    let beforehand = lowest(Some(at(0.0)));
    assert!(beforehand.lowest <= expected * 0.97, "{} for {expected}", beforehand.lowest);
    assert!((beforehand.neutral / cvar(0.0) - 1.0).abs() < 0.03, "{}", beforehand.neutral);
}
