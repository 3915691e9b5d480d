//! `hambo demo`: the paper's PointSafety, from data to verdict.

use super::describe::{Told, command_line, warnings_of_several};
use super::{Outcome, SCHEMA, device};
use crate::arguments::Demo;
use crate::folder::Folder;
use crate::output::{Bars, number, print, table};
use hambo::adversary::{Beta, SearchConfig};
use hambo::dynamics::{BnnConfig, Target};
use hambo::envs::{Behaviour, EnvName, Truth, collect, simulate};
use hambo::estimate::Method;
use hambo::evaluate::{Question, evaluate, fit};
use hambo::policy::Policy;
use hambo::report::Page;
use hambo::rng::Stream;
use hambo::task::Declaration;
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
    let task = ENV.task()?;
    let behaviour = Behaviour { policy: Policy::read(SAFE)?, noise: NOISE };
    let data = collect(
        &device,
        ENV,
        &[behaviour],
        ENV.time_limit(),
        TRANSITIONS,
        stream.child("collection"),
        &bars,
    )?;

    let question = Question {
        horizon: ENV.time_limit(),
        rollouts: ROLLOUTS,
        seed: arguments.seed,
        beta: Beta::Conformal,
        explain: true,
        search: SearchConfig { batch: 32, iterations: 30, ..SearchConfig::default() },
        ..Question::default()
    };
    let config =
        BnnConfig { steps: STEPS, target: TARGET, variance_weight: Some(0.0), ..BnnConfig::default() };
    let model = device.run(|| fit(&device, &data, &config, &question, &bars))?;

    let declared = Declaration::default().resolve(&data, Some(task.clone()))?.declared;
    let (mut rows, mut results, mut notes, mut files) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (spec, page) in [(UNSAFE, "report.html"), (SAFE, "safe.html")] {
        let policy = Policy::read(spec)?;
        // Start and dynamics are deterministic: two episodes are as good as a thousand.
        let found = simulate(&device, ENV, &policy, question.horizon, 2, 1.0, stream, &bars)?;
        let truth = Truth::from(&found).value;
        let evaluation = evaluate(&device, &data, &model, &task, &policy, &question, &bars)?;
        for e in &evaluation.estimates {
            let kind = if e.method.is_conservative() { "conservative" } else { "neutral" };
            let bound = e.lower_bound.map_or("–".to_owned(), number);
            let name = if e.method == Method::ALL[0] { spec } else { "" };
            let safe = e.lower_bound.unwrap_or(e.value) >= THRESHOLD;
            let verdict = if safe { "safe" } else { "UNSAFE" };
            let numbers = [number(truth), number(e.value), bound, verdict.to_owned()];
            rows.push(
                [vec![name.to_owned(), format!("{} ({kind})", e.method.name())], numbers.to_vec()].concat(),
            );
        }
        let told = Told {
            device: &device,
            question: &question,
            task: &task,
            declared: &declared,
            env: Some(ENV.name()),
            data: &data,
            sha256: None,
            policy: &policy,
            acting: None,
            evaluation: &evaluation,
            model: &model,
            truth: Some(&Truth::from(&found)),
            threshold: Some(THRESHOLD),
            curves: None,
            seconds: start.elapsed().as_secs_f64(),
        };
        let (result, why) = (told.result()?, evaluation.why.as_ref());
        let html = Page { result: &result, why, curves: None, command: &command_line() }.html();
        files.push((out.path().join(page), html.into_bytes()));
        results.push(json!({"policy": spec, "truth": truth, "estimates": evaluation.estimates, "summary": result["summary"]}));
        notes.push((spec, evaluation.warnings));
    }
    let each: Vec<(&str, &[String])> = notes.iter().map(|(spec, notes)| (*spec, notes.as_slice())).collect();
    let notes = warnings_of_several(&each);
    out.write(&files)?;
    let seconds = start.elapsed().as_secs_f64();
    if arguments.json {
        let result = json!({
            "schema": SCHEMA, "task": task.name, "transitions": TRANSITIONS, "threshold": THRESHOLD, "policies": results,
            "warnings": notes, "seed": arguments.seed, "seconds": seconds,
        });
        print(&result.to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut lines = vec![
        "PointSafety: from (-2, 0) around the unit circle, a danger zone, to (2, 0). The logs are of a policy that"
            .to_owned(),
        format!("passes at y = 1.6, with noise {NOISE} on its actions. Passing at y = 1.1 cuts through the danger zone. Safe: a"),
        format!("return above {THRESHOLD}, by the lower bound where there is one."),
        String::new(),
        table(&["policy", "method", "true return", "estimate", "lower bound", "verdict"], &rows),
        String::new(),
    ];
    lines.extend(notes.iter().map(|w| format!("note: {w}")));
    lines.push(format!("{TRANSITIONS} transitions, seed {}, {seconds:.0} s", arguments.seed));
    lines.push(format!("report: {}", arguments.out.join("report.html").display()));
    print(&lines.join("\n"))?;
    Ok(ExitCode::SUCCESS)
}
