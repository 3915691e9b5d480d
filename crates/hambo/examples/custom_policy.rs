//! A policy of one's own: any function from states to actions.
//!
//!     cargo run --release -p hambo --example custom_policy

use hambo::dynamics::{BnnConfig, ModelConfig};
use hambo::{Device, EvaluationConfig, Evaluator, Method, Policy};
use hambo_engine::rng::Stream;
use hambo_envs::{Behavior, Collection, EnvName, collect};

fn main() -> hambo::Result<()> {
    let behavior = Behavior { policy: Policy::read("builtin:waypoint,y=1.6")?, noise: 0.2 };
    let collection = Collection { horizon: 15, steps: 1500, stream: Stream::new(1) };
    let logs =
        collect(&Device::cpu(None)?, &EnvName::PointSafety.spec()?, &[behavior], &collection, &())?;

    // Straight to the goal at (2, 0), through the danger zone. States and actions come in batches, row by row.
    let straight =
        Policy::from_fn("straight to the goal", 2, 2, |states: &[f32], actions: &mut [f32]| {
            for (s, a) in states.chunks_exact(2).zip(actions.chunks_exact_mut(2)) {
                let [dx, dy] = [2.0 - s[0], -s[1]];
                let scale = 0.5 / dx.hypot(dy).max(0.5);
                (a[0], a[1]) = (scale * dx, scale * dy);
            }
        });
    let config = EvaluationConfig {
        horizon: 15,
        methods: vec![Method::Ca, Method::Ds],
        rollouts: 500,
        model: ModelConfig::Bnn(BnnConfig {
            hidden: vec![64, 64],
            steps: Some(1500),
            ..Default::default()
        }),
        ..Default::default()
    };
    let evaluator = Evaluator::fit(logs, EnvName::PointSafety.task()?, config)?;
    println!("{}", evaluator.evaluate(&straight)?);
    Ok(())
}
