//! The entry point: from logs, a task and a policy to an answer.

use super::config::EvaluationConfig;
use super::curves::{Curves, Through, curves};
use super::evaluation::Evaluation;
use super::problem::Problem;
use super::rank::Ranked;
use super::truth::Truth;
use crate::data::Logs;
use crate::dynamics::{self, Dynamics};
use crate::policy::Policy;
use crate::report::{Answer, Ranking, Setup};
use crate::run::Run;
use crate::task::{ResolvedTask, Task, TaskSpec};
use crate::{Error, Result};
use hambo_engine::backend::Device;
use std::path::Path;
use std::time::Instant;

/// Evaluates policies in a model that was learned from logs.
///
/// ```
/// use hambo::data::Columns;
/// use hambo::dynamics::{BnnConfig, ModelConfig};
/// use hambo::{EvaluationConfig, Evaluator, Method, Policy, Task, Transitions};
///
/// // A point on a line that moves by its action and is to stay near 0: a hundred transitions, cut into ten episodes.
/// let mut logs = Columns { state_dim: 1, action_dim: 1, ..Default::default() };
/// for row in 0..100 {
///     let (s, a) = ((row * 37 % 100) as f32 / 50.0 - 1.0, (row * 61 % 100) as f32 / 50.0 - 1.0);
///     logs.states.push(s);
///     logs.actions.push(a);
///     logs.rewards.push(-s.abs());
///     logs.next_states.push(s + 0.5 * a);
///     logs.terminals.push(false);
///     logs.timeouts.push(row % 10 == 9);
///     if row % 10 == 0 {
///         logs.episode_starts.push(row);
///     }
/// }
/// let networks = BnnConfig { hidden: vec![16], steps: Some(200), ..Default::default() };
/// let config = EvaluationConfig {
///     horizon: 3,
///     threshold: Some(-100.0),
///     accept_extrapolation: true, // these rows are no real episodes: nothing in them can support a bound
///     methods: vec![Method::DaInf, Method::Ds],
///     rollouts: 100,
///     model: ModelConfig::Bnn(networks),
///     ..Default::default()
/// };
/// let task = Task::new("near 0", [1, 1], "-abs(s[0])")?;
/// let evaluator = Evaluator::fit(Transitions::new(logs)?, task, config)?;
/// let home = Policy::from_fn("home", 1, 1, |s: &[f32], a: &mut [f32]| {
///     a.iter_mut().zip(s).for_each(|(a, s)| *a = -s);
/// });
/// let answer = evaluator.evaluate(&home)?;
/// assert!(answer.lower_bound.unwrap() < 0.0 && answer.meets(-100.0));
///
/// let still = Policy::from_fn("still", 1, 1, |_: &[f32], a: &mut [f32]| a.fill(0.0));
/// let ranking = evaluator.rank(&[still, home], &[])?;
/// assert_eq!(ranking.policies[0].name, "home");
/// # Ok::<(), hambo::Error>(())
/// ```
pub struct Evaluator<'a> {
    logs: Logs,
    task: ResolvedTask,
    config: EvaluationConfig,
    device: Device,
    run: Run<'a>,
    start: Instant,
    model: Box<dyn Dynamics>,
    /// Whether the model was fitted here, with the settings at hand.
    fitted: bool,
}

/// An [`Evaluator`] that has no model yet.
pub struct EvaluatorBuilder<'a> {
    logs: Logs,
    task: ResolvedTask,
    config: EvaluationConfig,
    device: Option<Device>,
    run: Run<'a>,
    start: Instant,
}

impl Evaluator<'static> {
    /// Learns a model of the logs for a task, on all cores of the processor.
    pub fn fit(logs: impl Into<Logs>, task: Task, config: EvaluationConfig) -> Result<Self> {
        let logs = logs.into();
        let task = TaskSpec::default().resolve(&logs.transitions, Some(task))?;
        Evaluator::builder(logs, task, config).fit()
    }
}

impl<'a> Evaluator<'a> {
    /// Starts a builder, to choose a device, an observer, a folder for checkpoints or a model that was fitted before.
    pub fn builder(
        logs: impl Into<Logs>,
        task: ResolvedTask,
        config: EvaluationConfig,
    ) -> EvaluatorBuilder<'a> {
        let (logs, start) = (logs.into(), Instant::now());
        EvaluatorBuilder { logs, task, config, device: None, run: Run::default(), start }
    }

    /// Bounds the return of a policy from below.
    pub fn evaluate(&self, policy: &Policy) -> Result<Answer> {
        self.answer(policy, self.problem().evaluate(policy, &self.run)?)
    }

    /// Bounds the returns of several policies, such that all bounds hold together, and puts them in order. `truths` has the
    /// true return of each, or nothing.
    pub fn rank(&self, policies: &[Policy], truths: &[Truth]) -> Result<Ranking> {
        let ranked = self.problem().rank(policies, truths, &self.run)?;
        let setup = self.setup();
        let setup = policies.first().map(|policy| setup.clone().acting_as(policy)).unwrap_or(setup);
        Ranking::new(setup, policies, ranked)
    }

    /// Bounds of several policies, such that all hold together, the best first.
    pub fn bounds(&self, policies: &[Policy]) -> Result<Vec<Ranked>> {
        self.problem().rank(policies, &[], &self.run)
    }

    /// The answer for a policy of which this was found.
    pub fn answer(&self, policy: &Policy, evaluation: Evaluation) -> Result<Answer> {
        Answer::new(self.setup().acting_as(policy), policy, evaluation)
    }

    /// What watches the work, and where it is kept.
    pub fn run(&self) -> &Run<'a> {
        &self.run
    }

    /// What the bound of an answer would be with another horizon, another β or less data; none where it has no bound.
    pub fn curves(&self, policy: &Policy, answer: &Answer) -> Result<Option<Curves>> {
        let through = Through {
            estimates: &answer.estimates,
            beta: answer.confidence_set.as_ref().and_then(|set| set.beta),
            delta_each: answer.delta_each,
            fitted: self.fitted,
        };
        curves(&self.problem(), policy, &through, &self.run)
    }

    /// All that policies are evaluated on.
    pub fn problem(&self) -> Problem<'_> {
        let ResolvedTask { task, constraints, .. } = &self.task;
        let (device, data, model) = (&self.device, &self.logs.transitions, self.model.as_ref());
        Problem { device, data, model, task, constraints, config: &self.config }
    }

    /// The model.
    pub fn model(&self) -> &dyn Dynamics {
        self.model.as_ref()
    }

    /// Where it computes.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// What is asked.
    pub fn config(&self) -> &EvaluationConfig {
        &self.config
    }

    /// What was asked, for answers.
    fn setup(&self) -> Setup {
        let seconds = self.start.elapsed().as_secs_f64();
        Setup { seconds, ..Setup::new(&self.problem(), &self.task, &self.logs) }
    }
}

impl<'a> EvaluatorBuilder<'a> {
    /// Where to compute; by default on all cores of the processor.
    pub fn device(self, device: Device) -> Self {
        EvaluatorBuilder { device: Some(device), ..self }
    }

    /// Sets the progress observer and the folder for checkpoints; by default there is neither.
    pub fn run(self, run: Run<'a>) -> Self {
        EvaluatorBuilder { run, ..self }
    }

    /// Learns the model.
    pub fn fit(mut self) -> Result<Evaluator<'a>> {
        let device = self.prepare()?;
        self.run.report("fitting the model", 0, 1, "");
        let fitted = self.config.fit_model(&device, &self.logs.transitions, &self.run);
        let model = fitted.map_err(|e| self.logs.name_file(e))?;
        Ok(self.with(device, model, true))
    }

    /// Takes the model that an earlier run left in a folder.
    pub fn load(mut self, folder: &Path) -> Result<Evaluator<'a>> {
        let device = self.prepare()?;
        let model = dynamics::load(&device, folder)?;
        let (layout, angles) = (model.layout(), self.config.model.angles());
        let same = layout.angles.len() == angles.len()
            && layout.angles.iter().all(|a| angles.contains(&a.index));
        if (self.task.learns_reward() && !layout.reward) || !same {
            let problem = "this model was fitted for other angles, or without the reward that is to be learned: fit anew";
            return Err(Error::file(folder, problem));
        }
        Ok(self.with(device, model, false))
    }

    /// Uses a model you supply, which must have been fitted on these logs and live on the device.
    pub fn model(mut self, model: Box<dyn Dynamics>) -> Result<Evaluator<'a>> {
        let device = self.prepare()?;
        Ok(self.with(device, model, false))
    }

    /// Checks what was asked, and adds what the task needs of the model.
    fn prepare(&mut self) -> Result<Device> {
        self.config.validate()?;
        let tasks = self.task.constraints.iter().map(|c| &c.task).chain([&self.task.task]);
        for task in tasks {
            task.check_data(&self.logs.transitions).map_err(|e| self.logs.name_file(e))?;
        }
        if self.task.constraints.iter().any(|c| c.threshold.is_some()) {
            self.config.check_threshold_method()?;
        }
        self.config.model.extend(self.task.learns_reward(), &self.task.angles);
        self.device.take().map_or_else(|| Device::cpu(None), Ok)
    }

    fn with(self, device: Device, model: Box<dyn Dynamics>, fitted: bool) -> Evaluator<'a> {
        let EvaluatorBuilder { logs, task, config, run, start, .. } = self;
        Evaluator { logs, task, config, device, run, start, model, fitted }
    }
}
