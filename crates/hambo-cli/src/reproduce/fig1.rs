//! Figure 1: PointSafety. A policy that cuts through the danger zone, and the one that made the logs and goes around it:
//! where they really go, where a neutral model says they go, and where an adversary takes them within the confidence sets.
//! Of the trajectories that were followed, the one that ended worst is drawn, and the neutral one with the same noise.
//!
//! The paper names neither n, noise, horizon nor reward; data and networks are those of `hambo demo`. Its rule is β = 1; the
//! default rule here is beside it.

use super::{Claim, Picture, Reproduced};
use crate::args::Scale;
use crate::output::{number, table};
use crate::plane::Plane;
use hambo::adversary::SearchConfig;
use hambo::confidence::Beta;
use hambo::dynamics::{BnnConfig, Dynamics, ModelConfig, Target};
use hambo::evaluate::{Estimate, Evaluation, EvaluationConfig, Method, Problem};
use hambo::explain::trace::{Sample, Trace};
use hambo::run::Run;
use hambo::{Device, Error, Logs, Policy, Result};
use hambo_engine::backend::Activation;
use hambo_engine::rng::Stream;
use hambo_envs::{Behavior, Collection, EnvName, EnvSpec, Episodes, collect, simulate};
use serde_json::json;

const SAFE: &str = "builtin:waypoint,y=1.6";
const UNSAFE: &str = "builtin:waypoint,y=1.1";
const NOISE: f64 = 0.1;
const TRANSITIONS: usize = 300;
const SEED: u64 = 0;
/// Radius of the danger zone.
const DANGER: f64 = 1.0;

/// A policy under one of the rules.
struct Panel {
    policy: &'static str,
    rule: &'static str,
    truth: f64,
    evaluation: Evaluation,
    plane: Plane,
}

/// Runs the experiment and draws its figure.
pub fn run(device: &Device, scale: Scale, work: &Run<'_>) -> Result<Reproduced> {
    let env = EnvName::PointSafety.spec()?;
    let stream = Stream::new(SEED);
    let behavior = Behavior { policy: Policy::read(SAFE)?, noise: NOISE };
    let collection = Collection {
        steps: TRANSITIONS,
        horizon: env.time_limit,
        stream: stream.child("collection"),
    };
    let data = collect(device, &env, &[behavior], &collection, work.observer())?;
    let logs = Logs::from(data);
    let config = config(scale, env.time_limit);
    let model = config.fit_model(device, &logs.transitions, work)?;
    let mut panels = Vec::new();
    for (policy, name) in [(SAFE, "safe policy"), (UNSAFE, "unsafe policy")] {
        for (beta, rule) in [(Beta::Trajectory, "default β"), (Beta::Fixed(1.0), "β = 1")] {
            let config = EvaluationConfig { beta, ..config.clone() };
            let asked =
                Asked { device, env: &env, logs: &logs, model: model.as_ref(), config: &config };
            panels.push(asked.panel((policy, name), rule, work)?);
        }
    }
    Ok(Reproduced {
        text: text(&panels),
        numbers: json!({"transitions": TRANSITIONS, "noise": NOISE, "horizon": env.time_limit, "seed": SEED,
            "panels": panels.iter().map(numbers).collect::<Vec<_>>()}),
        claims: claims(&panels),
        picture: Picture::Planes(panels.into_iter().map(|panel| panel.plane).collect()),
    })
}

fn config(scale: Scale, horizon: usize) -> EvaluationConfig {
    let (steps, rollouts, iterations) = match scale {
        Scale::Quick => (600, 1000, 30),
        Scale::Paper => (3000, 10_000, 100),
    };
    let networks = BnnConfig {
        steps: Some(steps),
        target: Target::NextState,
        activation: Some(Activation::Relu),
        variance_weight: Some(0.0),
        hidden_rate: 0.0,
        ..BnnConfig::default()
    };
    EvaluationConfig {
        horizon,
        methods: vec![Method::Ca, Method::Ds],
        rollouts,
        seed: SEED,
        model: ModelConfig::Bnn(networks),
        search: SearchConfig { batch: 32, iterations, ..SearchConfig::default() },
        explain: true,
        ..EvaluationConfig::default()
    }
}

struct Asked<'a> {
    device: &'a Device,
    env: &'a EnvSpec,
    logs: &'a Logs,
    model: &'a dyn Dynamics,
    config: &'a EvaluationConfig,
}

impl Asked<'_> {
    fn panel(
        &self,
        (policy, name): (&'static str, &'static str),
        rule: &'static str,
        work: &Run<'_>,
    ) -> Result<Panel> {
        let Asked { device, env, logs, model, config } = *self;
        let read = Policy::read(policy)?;
        // Start and dynamics are deterministic: two episodes are as good as a thousand.
        let stream = Stream::new(SEED);
        let episodes = Episodes { horizon: config.horizon, count: 2, discount: 1.0, stream };
        let truth = simulate(device, env, &read, &episodes, work.observer())?.values[0];
        let data = &logs.transitions;
        let problem = Problem { device, data, model, task: &env.task, constraints: &[], config };
        let evaluation = problem.evaluate(&read, work)?;
        let trace = evaluation.why.as_ref().and_then(|why| why.trace.as_ref());
        let trace = trace.ok_or_else(|| Error::Numeric("no trajectory was followed".to_owned()))?;
        let title = format!(
            "{name}, {rule}: truth {}, bound {}",
            number(truth),
            bound(&evaluation.estimates[0])
        );
        let plane = plane(title, trace, logs, self.true_states(&read)?);
        Ok(Panel { policy, rule, truth, evaluation, plane })
    }

    /// Where the policy really goes.
    fn true_states(&self, policy: &Policy) -> Result<Vec<[f64; 2]>> {
        let behavior = Behavior { policy: policy.clone(), noise: 0.0 };
        let steps = self.config.horizon;
        let collection = Collection { steps, horizon: steps, stream: Stream::new(SEED) };
        let walk = collect(self.device, self.env, &[behavior], &collection, &())?;
        Ok(walk.states().chunks_exact(2).map(pair).collect())
    }
}

fn plane(title: String, trace: &Trace, logs: &Logs, truth: Vec<[f64; 2]>) -> Plane {
    let adversarial = trace.hallucinated.samples.first();
    let same = |s: &&Sample| Some(s.trajectory) == adversarial.map(|a| a.trajectory);
    let neutral = trace.neutral.samples.iter().find(same);
    let states = |sample: Option<&Sample>| -> Vec<[f64; 2]> {
        sample.map_or(Vec::new(), |s| s.states.iter().map(|state| pair(state)).collect())
    };
    let sets = adversarial.map_or(Vec::new(), |s| {
        s.middle.iter().zip(&s.reach).map(|(middle, reach)| [pair(middle), pair(reach)]).collect()
    });
    Plane {
        title,
        logged: logs.transitions.states().chunks_exact(2).map(pair).collect(),
        trajectories: [
            ("true", truth),
            ("neutral", states(neutral)),
            ("adversarial", states(adversarial)),
        ],
        sets,
        danger: DANGER,
    }
}

fn pair(state: &[f32]) -> [f64; 2] {
    [f64::from(state[0]), f64::from(state[1])]
}

fn bound(estimate: &Estimate) -> String {
    estimate.lower_bound.map_or("–".to_owned(), number)
}

fn text(panels: &[Panel]) -> String {
    let row = |p: &Panel| {
        let [ca, ds] = [0, 1].map(|i| &p.evaluation.estimates[i]);
        let beta =
            p.evaluation.set.as_ref().and_then(|set| set.beta).map_or("–".to_owned(), number);
        let evidence = ca.evidence.map_or(String::new(), |e| e.to_string());
        vec![
            p.policy.to_owned(),
            p.rule.to_owned(),
            beta,
            number(p.truth),
            number(ds.value),
            number(ca.value),
            bound(ca),
            evidence,
        ]
    };
    let rows: Vec<Vec<String>> = panels.iter().map(row).collect();
    let head = ["policy", "rule", "β", "true return", "neutral (DS)", "CA", "bound", "evidence"];
    format!(
        "PointSafety: from (-2, 0) around the unit circle, a danger zone, to (2, 0); {TRANSITIONS} transitions of the safe policy with \
         noise {NOISE}.\n\n{}",
        table(&head, &rows)
    )
}

fn numbers(panel: &Panel) -> serde_json::Value {
    let Panel { policy, rule, truth, evaluation, plane } = panel;
    let [(_, real), (_, neutral), (_, adversarial)] = &plane.trajectories;
    json!({
        "policy": policy, "rule": rule, "truth": truth, "estimates": evaluation.estimates, "set": evaluation.set,
        "true_states": real, "neutral_states": neutral, "adversarial_states": adversarial, "sets": plane.sets,
    })
}

/// Of the unsafe policy, under both rules.
fn claims(panels: &[Panel]) -> Vec<Claim> {
    let mut found = Vec::new();
    for panel in panels.iter().filter(|p| p.policy == UNSAFE) {
        let [ca, ds] = [0, 1].map(|i| &panel.evaluation.estimates[i]);
        let truth = number(panel.truth);
        if found.is_empty() {
            found.push(Claim {
                claim: "Neutral evaluation overestimates the unsafe policy.".to_owned(),
                found: format!("DS {}, truth {truth}", number(ds.value)),
                confirmed: Some(ds.value > panel.truth),
            });
        }
        found.push(Claim {
            claim: format!(
                "HAMBO's estimate of the unsafe policy is conservative ({}).",
                panel.rule
            ),
            found: format!("bound {}, truth {truth}", bound(ca)),
            confirmed: Some(ca.lower_bound.is_some_and(|bound| bound <= panel.truth)),
        });
    }
    found
}
