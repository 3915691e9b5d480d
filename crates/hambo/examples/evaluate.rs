//! From logs to a bound: a pendulum's swing-up controller, evaluated on what noisy copies of it logged.
//!
//!     cargo run --release -p hambo --example evaluate

use hambo::dynamics::{BnnConfig, ModelConfig};
use hambo::{Device, EvaluationConfig, Evaluator, Method, Policy, report};
use hambo_engine::rng::Stream;
use hambo_envs::{Behavior, Collection, EnvName, collect};

fn main() -> hambo::Result<()> {
    // Logs of one's own are read by `Logs::read("log.csv")`; these are simulated.
    let policy = Policy::read("builtin:swing-up")?;
    let behavior = Behavior { policy: policy.clone(), noise: 0.5 };
    let collection = Collection { horizon: 200, steps: 4000, stream: Stream::new(1) };
    let logs =
        collect(&Device::cpu(None)?, &EnvName::Pendulum.spec()?, &[behavior], &collection, &())?;

    let config = EvaluationConfig {
        horizon: 100,
        threshold: Some(-250.0),
        methods: vec![Method::Ca, Method::Ds],
        rollouts: 1000,
        model: ModelConfig::Bnn(BnnConfig {
            hidden: vec![64, 64],
            steps: Some(2000),
            ..Default::default()
        }),
        ..Default::default()
    };
    let evaluator = Evaluator::fit(logs, EnvName::Pendulum.task()?, config)?;
    let answer = evaluator.evaluate(&policy)?;
    println!("{answer}");
    let page = std::env::temp_dir().join("hambo-example.html");
    std::fs::write(&page, report::html(&answer))
        .map_err(|e| hambo::Error::io(&page, "write", e))?;
    println!("report: {}", page.display());
    Ok(())
}
