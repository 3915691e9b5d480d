//! `hambo train`

use super::{Outcome, SCHEMA, host_device};
use crate::args::Train;
use crate::output::{number, print, table};
use crate::progress::Bars;
use hambo_engine::rl::SacUpdate;
use hambo_envs::EnvName;
use hambo_envs::train::{TrainConfig, train};
use serde_json::json;
use std::process::ExitCode;
use std::time::Instant;

pub fn run(arguments: &Train) -> Outcome {
    let start = Instant::now();
    let env = arguments.env.parse::<EnvName>()?.spec()?;
    let config = TrainConfig {
        update: SacUpdate {
            hidden: arguments.hidden.clone(),
            batch: arguments.batch,
            learning_rate: arguments.learning_rate,
            temperature_rate: arguments.learning_rate,
            discount: arguments.discount,
            ..SacUpdate::default()
        },
        learning_starts: arguments.learning_starts,
        update_every: arguments.update_every,
        evaluate_every: arguments.evaluate_every,
        evaluation_episodes: arguments.evaluation_episodes,
        seed: arguments.seed,
        ..TrainConfig::default()
    };
    let device = host_device(&arguments.machine)?;
    let trained = train(&device, &env, arguments.steps, &config, &arguments.out, &Bars::default())?;
    let seconds = start.elapsed().as_secs_f64();
    let rate = (arguments.steps - trained.resumed_at) as f64 / seconds;
    if arguments.json {
        let result = json!({
            "schema": SCHEMA, "env": env.name, "out": arguments.out, "steps": arguments.steps,
            "resumed_at": trained.resumed_at, "curve": trained.curve, "config": config,
            "steps_per_second": rate, "seconds": seconds,
        });
        print(&result.to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let last = trained.curve.len().saturating_sub(1);
    let rows = trained.curve.iter().enumerate().map(|(i, point)| {
        let name = if i == last { "final".to_owned() } else { format!("step-{}", point.step) };
        let figures = [point.value, point.std_error, point.entropy].map(number);
        [vec![format!("{name}.safetensors"), point.step.to_string()], figures.to_vec()].concat()
    });
    let header = ["policy", "step", "return", "std error", "entropy"];
    let from = match trained.resumed_at {
        0 => String::new(),
        step => format!(", resumed at step {step}"),
    };
    print(&format!(
        "{} in {}{from}: {rate:.0} steps a second\n\n{}",
        env.name,
        arguments.out.display(),
        table(&header, &rows.collect::<Vec<_>>())
    ))?;
    Ok(ExitCode::SUCCESS)
}
