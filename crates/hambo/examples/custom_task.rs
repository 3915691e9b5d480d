//! A task of one's own: reward, termination and a safety constraint as expressions of states and actions.
//!
//!     cargo run --release -p hambo --example custom_task

use hambo::dynamics::{BnnConfig, ModelConfig};
use hambo::task::ConstraintSpec;
use hambo::{Device, EvaluationConfig, Evaluator, Logs, Method, Policy, TaskSpec};
use hambo_engine::rng::Stream;
use hambo_envs::{Behavior, Collection, EnvName, collect};

fn main() -> hambo::Result<()> {
    let behavior = Behavior { policy: Policy::read("builtin:swing-up")?, noise: 0.5 };
    let collection = Collection { horizon: 200, steps: 4000, stream: Stream::new(1) };
    let data =
        collect(&Device::cpu(None)?, &EnvName::Pendulum.spec()?, &[behavior], &collection, &())?;
    let logs = Logs::from(data);

    // States are (cos θ, sin θ, speed): stay upright, and do not spin fast.
    let spec = TaskSpec {
        name: Some("upright".to_owned()),
        reward: Some("s[0] - 0.01*a[0]^2".to_owned()),
        constraints: vec![ConstraintSpec {
            name: "speed".to_owned(),
            expression: "-max(0, abs(s[2]) - 6)".to_owned(),
            threshold: Some(-20.0),
            worst_reward: None,
        }],
        ..Default::default()
    };
    let config = EvaluationConfig {
        horizon: 50,
        methods: vec![Method::Ca, Method::Ds],
        rollouts: 1000,
        model: ModelConfig::Bnn(BnnConfig {
            hidden: vec![64, 64],
            steps: Some(1500),
            ..Default::default()
        }),
        ..Default::default()
    };
    let task = spec.resolve(&logs.transitions, None)?;
    let evaluator = Evaluator::builder(logs, task, config).fit()?;
    println!("{}", evaluator.evaluate(&Policy::read("builtin:swing-up")?)?);
    Ok(())
}
