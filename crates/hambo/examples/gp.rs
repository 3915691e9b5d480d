//! A Gaussian process in the place of networks, for small systems with few data; with a bound on the norm of the dynamics the
//! paper's theory sizes the confidence set.
//!
//!     cargo run --release -p hambo --example gp

use hambo::confidence::Beta;
use hambo::dynamics::{GpConfig, ModelConfig};
use hambo::{Device, EvaluationConfig, Evaluator, Method, Policy};
use hambo_engine::rng::Stream;
use hambo_envs::{Behavior, Collection, EnvName, collect};

fn main() -> hambo::Result<()> {
    let policy = Policy::read("builtin:swing-up")?;
    let behavior = Behavior { policy: policy.clone(), noise: 1.0 };
    let collection = Collection { horizon: 200, steps: 400, stream: Stream::new(1) };
    let logs =
        collect(&Device::cpu(None)?, &EnvName::Pendulum.spec()?, &[behavior], &collection, &())?;
    let config = EvaluationConfig {
        horizon: 20,
        methods: vec![Method::Ca, Method::Mean],
        rollouts: 200,
        model: ModelConfig::Gp(GpConfig { subset: Some(150), ..Default::default() }),
        beta: Beta::Theory { norm_bound: 1.0 },
        ..Default::default()
    };
    let evaluator = Evaluator::fit(logs, EnvName::Pendulum.task()?, config)?;
    println!("{}", evaluator.evaluate(&policy)?);
    Ok(())
}
