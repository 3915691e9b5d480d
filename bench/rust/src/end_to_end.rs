//! A whole evaluation of `builtin:swing-up` on Pendulum, stage by stage; `bench/end_to_end.py` runs it beside PyTorch.

use hambo::adversary::{DqnConfig, LearningConfig, Optimizers, SacConfig, SearchConfig};
use hambo::confidence::Beta;
use hambo::dynamics::{BnnConfig, ModelConfig};
use hambo::evaluate::{EvaluationConfig, Evaluator, Method};
use hambo::run::{Observer, Run};
use hambo::task::TaskSpec;
use hambo::{Device, Policy};
use hambo_engine::backend::Activation;
use hambo_envs::EnvName;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

/// What is done, besides the sizes that are fixed.
pub struct Work<'a> {
    /// The D4RL file that `hambo collect` wrote.
    pub data: &'a Path,
    /// `ca`, `da1` or both.
    pub methods: &'a str,
    /// Training steps of the model.
    pub steps: u32,
    /// Rounds of SAC and of DQN.
    pub rounds: usize,
}

/// Seconds of every stage, by what the library reports: the time before a report belongs to its stage, that before the
/// report of a beginning to whatever prepared it.
struct Stages(Mutex<(Instant, BTreeMap<String, f64>)>);

impl Stages {
    fn end(&self, stage: &str) {
        let Ok(mut stages) = self.0.lock() else { return };
        let (last, now) = (stages.0, Instant::now());
        stages.0 = now;
        *stages.1.entry(stage.to_owned()).or_default() += (now - last).as_secs_f64();
    }
}

impl Observer for Stages {
    fn report(&self, stage: &str, done: usize, _: usize, _: &str) {
        let stage = match stage {
            "training" => "fit",
            "adversary (sac)" => "ca: rounds",
            "adversary (dqn)" => "da1: rounds",
            "rollouts (ca)" => "ca: rollouts",
            "rollouts (da1)" => "da1: rollouts",
            other => other,
        };
        self.end(if done == 0 { "besides: support, size of the set" } else { stage });
    }
}

/// All stages since `start`.
pub fn measure(device: &Device, work: &Work<'_>, start: Instant) -> Result<Value, Box<dyn Error>> {
    let stages = Stages(Mutex::new((start, BTreeMap::new())));
    // The likelihood as it is, as PyTorch's side has it.
    let config = BnnConfig {
        folds: Some(1),
        activation: Some(Activation::Relu),
        steps: Some(work.steps),
        patience: work.steps,
        variance_weight: Some(0.0),
        ..BnnConfig::default()
    };
    config.announce(device);
    let data = hambo::data::read_d4rl(work.data)?.transitions;
    let (task, policy) = (EnvName::Pendulum.task()?, Policy::read("builtin:swing-up")?);
    let learning = LearningConfig { rounds: work.rounds, ..Default::default() };
    let search = SearchConfig {
        optimizers: Optimizers::Sac,
        sac: SacConfig { learning: learning.clone(), ..Default::default() },
        // As many rounds as were asked for: the search does not stop earlier.
        dqn: DqnConfig { learning, exploration_rounds: work.rounds, ..DqnConfig::paper_scale() },
        ..Default::default()
    };
    let methods = Method::parse_list(work.methods)?;
    let model = ModelConfig::Bnn(config);
    let config = EvaluationConfig {
        methods,
        model,
        beta: Beta::Fixed(1.0),
        search,
        ..EvaluationConfig::default()
    };
    stages.end("start");
    let task = TaskSpec::default().resolve(&data, Some(task))?;
    let run = Run::new(&stages, None);
    let evaluator =
        Evaluator::builder(data, task, config).device(device.clone()).run(run.clone()).fit()?;
    stages.end("calibrate");
    let evaluation = evaluator.problem().evaluate(&policy, &run)?;
    stages.end("besides: support, size of the set");
    let values: BTreeMap<&str, f64> =
        evaluation.estimates.iter().map(|e| (e.method.name(), e.value)).collect();
    let seconds = stages.0.lock().map(|stages| stages.1.clone()).unwrap_or_default();
    Ok(
        json!({"peer": "hambo", "stages": seconds, "values": values, "tau": evaluator.model().tau()}),
    )
}
