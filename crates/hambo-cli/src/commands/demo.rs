//! `hambo demo`: the paper's PointSafety, from data to verdict.

use super::{Outcome, SCHEMA, device};
use crate::args::Demo;
use crate::folder::Folder;
use crate::output::{command_line, number, print, table};
use crate::progress::Bars;
use hambo::adversary::SearchConfig;
use hambo::dynamics::{BnnConfig, ModelConfig, Target};
use hambo::evaluate::{EvaluationConfig, Evaluator, Method, Warning};
use hambo::report::{Answer, Verdict, html, warnings_of_several};
use hambo::run::Run;
use hambo::task::TaskSpec;
use hambo::{Logs, Policy};
use hambo_engine::backend::Activation;
use hambo_engine::rng::Stream;
use hambo_envs::{Behavior, Collection, EnvName, Episodes, collect, simulate};
use serde_json::json;
use std::process::ExitCode;
use std::time::Instant;

const ENV: EnvName = EnvName::PointSafety;
const SAFE: &str = "builtin:waypoint,y=1.6";
const UNSAFE: &str = "builtin:waypoint,y=1.1";
const NOISE: f64 = 0.1;
// Few data, and networks that predict s' itself, as the paper's Equation 4 has it: away from the data they stay near it.
// With 1500 transitions and networks that predict the change s' − s, every method sees the danger.
const TRANSITIONS: usize = 300;
const TARGET: Target = Target::NextState;
const ROLLOUTS: usize = 1000;
const STEPS: u32 = 600;
/// The way around the danger zone returns −27, and a step inside costs 50: above this the policy keeps out of it.
const THRESHOLD: f64 = -75.0;

pub fn run(arguments: &Demo) -> Outcome {
    let start = Instant::now();
    let device = device(&arguments.machine)?;
    let out = Folder::prepare(&arguments.out)?;
    let bars = Bars::default();
    let stream = Stream::new(arguments.seed);
    let env = ENV.spec()?;
    let horizon = env.time_limit;
    let behavior = Behavior { policy: Policy::read(SAFE)?, noise: NOISE };
    let collection = Collection { steps: TRANSITIONS, horizon, stream: stream.child("collection") };
    let logs = Logs::from(collect(&device, &env, &[behavior], &collection, &bars)?);

    let networks = BnnConfig {
        steps: Some(STEPS),
        target: TARGET,
        activation: Some(Activation::Relu),
        variance_weight: Some(0.0),
        hidden_rate: 0.0,
        ..BnnConfig::default()
    };
    let config = EvaluationConfig {
        horizon,
        threshold: Some(THRESHOLD),
        rollouts: ROLLOUTS,
        seed: arguments.seed,
        model: ModelConfig::Bnn(networks),
        search: SearchConfig { batch: 32, iterations: 30, ..SearchConfig::default() },
        explain: true,
        ..EvaluationConfig::default()
    };
    let mut task = TaskSpec::default().resolve(&logs.transitions, Some(env.task.clone()))?;
    task.notes.clear(); // the data are its own
    let builder = Evaluator::builder(logs, task, config).device(device.clone());
    let evaluator = builder.run(Run::new(&bars, None)).fit()?;

    let (mut rows, mut results, mut notes, mut files) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (spec, page) in [(UNSAFE, "report.html"), (SAFE, "safe.html")] {
        let policy = Policy::read(spec)?;
        // Start and dynamics are deterministic: two episodes are as good as a thousand.
        let episodes = Episodes { horizon, count: 2, discount: 1.0, stream };
        let truth = simulate(&device, &env, &policy, &episodes, &bars)?.truth(None);
        let mut answer = evaluator.evaluate(&policy)?;
        for e in &answer.estimates {
            let kind = if e.method.is_conservative() { "conservative" } else { "neutral" };
            let bound = e.lower_bound.map_or("–".to_owned(), number);
            let name = if e.method == Method::ALL[0] { spec } else { "" };
            let verdict = match e.method.is_conservative() {
                true => Verdict::of_one(e, THRESHOLD).words().to_lowercase(),
                false if e.value >= THRESHOLD => "calls it safe".to_owned(),
                false => "calls it unsafe".to_owned(),
            };
            let numbers = [number(truth.value), number(e.value), bound, verdict];
            rows.push(
                [vec![name.to_owned(), format!("{} ({kind})", e.method.name())], numbers.to_vec()]
                    .concat(),
            );
        }
        let value = truth.value;
        answer.truth = Some(truth);
        answer.setup.command = command_line();
        answer.setup.seconds = start.elapsed().as_secs_f64();
        files.push((out.path().join(page), html(&answer).into_bytes()));
        let Answer { estimates, summary, warnings, .. } = answer;
        results.push(
            json!({"policy": spec, "truth": value, "estimates": estimates, "summary": summary}),
        );
        notes.push((spec, warnings));
    }
    let each: Vec<(&str, &[Warning])> =
        notes.iter().map(|(spec, notes)| (*spec, notes.as_slice())).collect();
    let notes = warnings_of_several(&each);
    out.write(&files)?;
    bars.clear();
    let seconds = start.elapsed().as_secs_f64();
    if arguments.json {
        let result = json!({
            "schema": SCHEMA, "task": env.task.name, "transitions": TRANSITIONS, "threshold": THRESHOLD, "policies": results,
            "warnings": notes, "seed": arguments.seed, "seconds": seconds,
        });
        print(&result.to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut lines = vec![
        "PointSafety: from (-2, 0) around the unit circle, a danger zone, to (2, 0). The logs are of a policy that"
            .to_owned(),
        format!("passes at y = 1.6, with noise {NOISE} on its actions. Passing at y = 1.1 cuts through the danger zone. Safe: a"),
        format!("return above {THRESHOLD}. Bounds meet that, or do not show it; neutral estimates only call it."),
        String::new(),
        table(&["policy", "method", "true return", "estimate", "lower bound", "verdict"], &rows),
        String::new(),
    ];
    lines.extend(notes.iter().map(|w| format!("{}: {w}", w.rank())));
    lines.push(format!("{TRANSITIONS} transitions, seed {}, {seconds:.0} s", arguments.seed));
    lines.push(format!("report: {}", arguments.out.join("report.html").display()));
    print(&lines.join("\n"))?;
    Ok(ExitCode::SUCCESS)
}
