//! The whole way from logged transitions to a bound.

use crate::adversary::{Beta, SearchConfig, SearchReport, SetReport, confidence_set, search, search_members};
use crate::compute::Device;
use crate::data::{Split, Transitions, refuse_constant_columns};
use crate::dynamics::{Bnn, BnnConfig, Dynamics, Gp, GpConfig, ModelReport};
use crate::estimate::{Estimate, MONTE_CARLO_SHARE, Method, adversarial, dainf, neutral};
use crate::hallucination::{Continuous, Discrete};
use crate::policy::Policy;
use crate::progress::Progress;
use crate::reliability::{Distributions, Reliability, reliability};
use crate::rng::Stream;
use crate::rollout::{Chooser, Propagation, Returns, Setting, World, rollout};
use crate::support::{SupportReport, support};
use crate::task::{Constraint, Task};
use crate::theory::{self, Known, TheoryReport};
use crate::trace::{Followed, Trace, trace};
use crate::{Error, Result, warnings};
use serde::Serialize;

/// Trajectories of one estimate; each needs some hundred bytes.
const MOST_ROLLOUTS: usize = 10_000_000;

/// What is asked of an evaluation.
#[derive(Clone, Debug)]
pub struct Question {
    /// Steps, T.
    pub horizon: usize,
    /// γ
    pub discount: f64,
    /// The methods, the one whose bound counts first.
    pub methods: Vec<Method>,
    /// A bound may fail with this probability.
    pub delta: f64,
    /// Trajectories of each estimate, L.
    pub rollouts: usize,
    /// Master seed.
    pub seed: u64,
    /// Size of the confidence set of CA.
    pub beta: Beta,
    /// How the adversaries of CA and DA1 are searched for.
    pub search: SearchConfig,
    /// Go on where a column of the data never changes.
    pub allow_constant: bool,
    /// Also look at where the bound comes from, for the report.
    pub explain: bool,
    /// What the theory of Gaussian processes needs to be told.
    pub known: Known,
}

impl Default for Question {
    fn default() -> Self {
        Question {
            horizon: 200,
            discount: 1.0,
            methods: Method::USUAL.to_vec(),
            delta: 0.05,
            rollouts: 10_000,
            seed: 0,
            beta: Beta::Trajectory { least: 0.0 },
            search: SearchConfig::default(),
            allow_constant: false,
            explain: false,
            known: Known::default(),
        }
    }
}

impl Question {
    /// Checks every part against its range.
    pub fn validate(&self) -> Result<()> {
        if self.horizon == 0 {
            return Err(Error::setting("horizon", self.horizon, "at least 1 step"));
        }
        if !(self.delta > 0.0 && self.delta < 1.0) {
            return Err(Error::setting("delta", self.delta, "a probability between 0 and 1, both excluded"));
        }
        if !(self.discount > 0.0 && self.discount <= 1.0) {
            return Err(Error::setting("discount", self.discount, "a number in (0, 1]"));
        }
        if self.rollouts < 100 {
            return Err(Error::setting(
                "rollouts",
                self.rollouts,
                "at least 100, for a Monte-Carlo margin that means something",
            ));
        }
        if self.rollouts > MOST_ROLLOUTS {
            return Err(Error::setting("rollouts", self.rollouts, format!("at most {MOST_ROLLOUTS}")));
        }
        if self.methods.is_empty() {
            return Err(Error::setting("method", "", "at least one method"));
        }
        self.known.validate()
    }
}

impl Question {
    /// Checks the question, and whether the data can answer it.
    fn check_data(&self, data: &Transitions) -> Result<()> {
        self.validate()?;
        if !self.allow_constant {
            refuse_constant_columns("states", data.states(), data.state_dim())?;
            refuse_constant_columns("actions", data.actions(), data.action_dim())?;
        }
        Ok(())
    }

    /// Where the initial states of all estimates are drawn.
    pub(crate) fn starts_stream(&self) -> Stream {
        Stream::new(self.seed).child("rollouts").child("initial states")
    }

    /// An error if a method needs particles and the model has none.
    fn check_model(&self, model: &dyn Dynamics) -> Result<()> {
        match self.methods.iter().find(|method| method.needs_particles()) {
            Some(method) if !model.has_particles() => {
                let names = Method::ALL.into_iter().filter(|m| !m.needs_particles()).map(Method::name);
                let expected = format!(
                    "one of {}: a Gaussian process has no particles that a trajectory could follow",
                    names.collect::<Vec<_>>().join(", ")
                );
                Err(Error::setting("method", method.name(), expected))
            }
            _ => Ok(()),
        }
    }
}

/// The answer.
#[derive(Clone, Debug, Serialize)]
pub struct Evaluation {
    /// One per method, in the order asked for.
    pub estimates: Vec<Estimate>,
    /// What happened in the fit.
    pub model: ModelReport,
    /// τ per state dimension.
    pub tau: Vec<f32>,
    /// The confidence set that CA's adversary chose from.
    pub set: Option<SetReport>,
    /// How CA's adversary was searched for.
    pub search: Option<SearchReport>,
    /// And DA1's.
    pub search_members: Option<SearchReport>,
    /// Bounds of further rewards; with the first they share δ.
    pub constraints: Vec<ConstraintBound>,
    /// The failure probability of each bound: all hold together but for a share δ.
    pub delta_each: f64,
    /// What the theory says, where the model is a Gaussian process.
    pub theory: Option<TheoryReport>,
    /// How far the policy leaves the data.
    pub support: SupportReport,
    /// What the reader of the numbers must know.
    pub warnings: Vec<String>,
    /// Where the bound comes from, if [`Question::explain`] asked for it.
    #[serde(skip)]
    pub why: Option<Why>,
}

/// Where a bound comes from.
#[derive(Clone, Debug, Serialize)]
pub struct Why {
    /// Trajectories with and without the adversary; none where no conservative method was asked for.
    pub trace: Option<Trace>,
    /// Returns of all methods; DAinf's are those of the worst particle.
    pub distributions: Distributions,
    /// The model on held-out data.
    pub reliability: Option<Reliability>,
}

/// The bound of a further reward.
#[derive(Clone, Debug, Serialize)]
pub struct ConstraintBound {
    /// Its name.
    pub name: String,
    /// Its reward.
    pub expression: String,
    /// One per method, in the order asked for.
    pub estimates: Vec<Estimate>,
    /// The bound of the method asked for first.
    pub lower_bound: Option<f64>,
    /// What the bound has to reach.
    pub threshold: Option<f64>,
    /// Whether it does.
    pub met: Option<bool>,
    /// The confidence set that CA's adversary chose from.
    pub set: Option<SetReport>,
    /// How CA's adversary was searched for.
    pub search: Option<SearchReport>,
    /// And DA1's.
    pub search_members: Option<SearchReport>,
}

impl Evaluation {
    /// Whether the method asked for first shows that the return reaches a threshold.
    pub fn meets(&self, threshold: f64) -> bool {
        self.estimates.first().is_some_and(|estimate| estimate.meets(threshold))
    }

    /// The bound of the method asked for first; none if that method is neutral.
    pub fn lower_bound(&self) -> Option<f64> {
        self.estimates.first().and_then(|e| e.lower_bound)
    }
}

/// Learns the model that [`evaluate`] asks.
pub fn fit(
    device: &Device,
    data: &Transitions,
    config: &BnnConfig,
    question: &Question,
    progress: &dyn Progress,
) -> Result<Bnn> {
    question.check_data(data)?;
    let stream = Stream::new(question.seed).child("model");
    let split = Split::new(data, config.holdout, stream.child("split"))?;
    Bnn::fit(device, data, &split, config, stream, progress)
}

/// Learns a Gaussian process in the place of networks.
pub fn fit_gp(
    device: &Device,
    data: &Transitions,
    config: &GpConfig,
    question: &Question,
    progress: &dyn Progress,
) -> Result<Gp> {
    question.check_data(data)?;
    device.run(|| Gp::fit(data, config, Stream::new(question.seed).child("model"), progress))
}

/// Rolls the policy out in the model by every method asked for.
pub fn evaluate(
    device: &Device,
    data: &Transitions,
    model: &dyn Dynamics,
    task: &Task,
    policy: &Policy,
    question: &Question,
    progress: &dyn Progress,
) -> Result<Evaluation> {
    evaluate_all(device, data, model, task, &[], policy, question, progress)
}

/// The same with further rewards, each with a bound of its own on the same model; δ is shared by all (union bound).
#[allow(clippy::too_many_arguments)]
pub fn evaluate_all(
    device: &Device,
    data: &Transitions,
    model: &dyn Dynamics,
    task: &Task,
    constraints: &[Constraint],
    policy: &Policy,
    question: &Question,
    progress: &dyn Progress,
) -> Result<Evaluation> {
    question.validate()?;
    question.check_model(model)?;
    // Networks live on one device; a Gaussian process lives on the host, which every device has.
    if !model.on_device(device) && model.has_particles() {
        let device = device.name();
        return Err(Error::Mismatch(format!(
            "the model is on another device than {device}: save and load it there"
        )));
    }
    let delta_each = question.delta / (1 + constraints.len()) as f64;
    let question = Question { delta: delta_each, ..question.clone() };
    for task in constraints.iter().map(|c| &c.task).chain([task]) {
        check(data, model, task, policy)?;
    }
    model.check_data(data)?;
    let setting = Setting { task, policy, horizon: question.horizon, discount: question.discount };
    let stream = Stream::new(question.seed).child("support");
    let starts = task.initial.sample(question.rollouts, data, stream.child("initial states"))?;
    let support = support(device, data, model, setting, &starts, stream);
    let bounds = bound(device, data, model, (task, 0), policy, &question, progress)?;
    let mut warnings: Vec<String> = support.warning().into_iter().chain(warnings::of_model(model)).collect();
    if !model.on_device(device) {
        let name = device.name();
        warnings.push(format!(
            "the Gaussian process computes on the processor: every step on {name} waits for it"
        ));
    }
    warnings.extend(bounds.warnings(model, &question));
    let mut constraint_bounds = Vec::with_capacity(constraints.len());
    // The set is of the dynamics: what one reward asks for, others may need where the log does not show it.
    let beta = match (question.beta, &bounds.set) {
        (Beta::Trajectory { .. }, Some(SetReport { beta: Some(least), .. })) => {
            Beta::Trajectory { least: *least }
        }
        (beta, _) => beta,
    };
    let plainly = Question { explain: false, beta, ..question.clone() };
    for (index, Constraint { task, threshold }) in constraints.iter().enumerate() {
        let bounds = bound(device, data, model, (task, index + 1), policy, &plainly, progress)?;
        let own = bounds.warnings(model, &question).into_iter();
        warnings.extend(own.map(|warning| format!("{}: {warning}", task.name)));
        let lower_bound = bounds.estimates.first().and_then(|e| e.lower_bound);
        constraint_bounds.push(ConstraintBound {
            name: task.name.clone(),
            expression: task.reward.to_string(),
            lower_bound,
            threshold: *threshold,
            met: threshold.map(|threshold| bounds.estimates.first().is_some_and(|e| e.meets(threshold))),
            estimates: bounds.estimates,
            set: bounds.set,
            search: bounds.search,
            search_members: bounds.search_members,
        });
    }
    if bounds.estimates.iter().any(|e| e.method == Method::DaInf) {
        warnings.push(
            "DAinf takes the worst of the particles for the worst case; nothing guarantees that the truth is \
             among them"
                .to_owned(),
        );
    }
    device.check()?; // nothing is reported from a device that failed on the way
    Ok(Evaluation {
        estimates: bounds.estimates,
        model: model.fit_report(),
        tau: model.tau().to_vec(),
        set: bounds.set,
        search: bounds.search,
        search_members: bounds.search_members,
        constraints: constraint_bounds,
        delta_each,
        theory: model.as_gp().map(|gp| {
            let delta = (1.0 - MONTE_CARLO_SHARE) * delta_each;
            theory::report(gp, question.known, delta, question.horizon, support.mean_deviation)
        }),
        support,
        warnings,
        why: bounds.why,
    })
}

/// An error where data, model, task and policy do not belong together.
fn check(data: &Transitions, model: &dyn Dynamics, task: &Task, policy: &Policy) -> Result<()> {
    task.check_data(data)?;
    policy.check_task(task)?;
    if (model.layout().observed, model.action_dim()) != (task.state_dim, task.action_dim) {
        return Err(Error::Mismatch(format!(
            "the model has states of {} and actions of {} dimensions, task {} has {} and {}",
            model.layout().observed,
            model.action_dim(),
            task.name,
            task.state_dim,
            task.action_dim
        )));
    }
    if task.learns_reward() && !model.layout().reward {
        return Err(Error::Mismatch(format!(
            "task {} asks for the learned reward, which this model does not predict: fit one that does (`reward` \
             in its settings)",
            task.name
        )));
    }
    Ok(())
}

/// What every method says of one reward.
struct Bounds {
    estimates: Vec<Estimate>,
    set: Option<SetReport>,
    search: Option<SearchReport>,
    search_members: Option<SearchReport>,
    why: Option<Why>,
}

impl Bounds {
    fn warnings(&self, model: &dyn Dynamics, question: &Question) -> Vec<String> {
        let mut warnings = warnings::of_estimates(model, &self.estimates);
        warnings.extend(self.set.iter().flat_map(|set| warnings::of_set(set, question.delta)));
        let asked = question.search.optimisers;
        warnings.extend(self.search.as_ref().and_then(|search| warnings::of_search(search, asked)));
        warnings
    }
}

/// `index` tells the task from the others in the names under which unfinished work is kept.
fn bound(
    device: &Device,
    data: &Transitions,
    model: &dyn Dynamics,
    (task, index): (&Task, usize),
    policy: &Policy,
    question: &Question,
    progress: &dyn Progress,
) -> Result<Bounds> {
    let stream = Stream::new(question.seed).child("rollouts");
    let starts = task.initial.sample(question.rollouts, data, question.starts_stream())?;
    let setting = Setting { task, policy, horizon: question.horizon, discount: question.discount };
    let roll = |name: &str, propagation: Propagation<'_>| {
        let name = format!("{index}-{name}");
        if let Some(saved) = progress.take_up(&name)? {
            return saved.read(Returns::restore);
        }
        let noise = stream.child("transitions");
        let returns = rollout(device, model, &setting, propagation, &starts, noise, progress);
        device.check()?; // nothing is concluded from a device that failed on the way
        progress.keep(&name, || Ok(returns.stored()))?;
        Ok::<_, Error>(returns)
    };

    let members = model.members();
    let mut each_member: Option<Returns> = None; // DAinf and TSinf look at the same trajectories
    let mut each = || match &each_member {
        Some(returns) => Ok::<_, Error>(returns.clone()),
        None => Ok(each_member.insert(roll("particles", Propagation::EachMember)?).clone()),
    };
    let mut estimates = Vec::with_capacity(question.methods.len());
    let (mut set_report, mut search_report, mut members_report) = (None, None, None);
    let mut seen = Seen { explain: question.explain, returns: Vec::new(), adversary: None };
    for &method in &question.methods {
        estimates.push(match method {
            Method::Ca => {
                let stream = stream.child("adversary");
                let share = (1.0 - MONTE_CARLO_SHARE) * question.delta;
                let name = format!("{index}-search-ca");
                let (set, (adversary, report)) = device.run(|| {
                    let world = World::new(device, model, setting);
                    let (set, set_report) = confidence_set(&world, data, question.beta, share, progress)?;
                    let found = search(&world, &set, &question.search, data, stream, (progress, &name))?;
                    Ok::<_, Error>((set_report, found))
                })?;
                set_report = Some(set);
                let returns = roll("ca", Propagation::Shifted(&adversary))?;
                let estimate = adversarial(method, &returns, question.delta, &report);
                search_report = Some(report);
                seen.keep(method, &returns, Some(Found::Continuous(adversary)));
                estimate
            }
            Method::Da1 => {
                let stream = stream.child("discrete adversary");
                let (adversary, report) = device.run(|| {
                    let world = World::new(device, model, setting);
                    let name = format!("{index}-search-da1");
                    search_members(&world, &question.search, data, stream, (progress, &name))
                })?;
                let greedy = Chooser { adversary: &adversary, exploration: 0.0 };
                let returns = roll("da1", Propagation::Chosen(greedy))?;
                let estimate = adversarial(method, &returns, question.delta, &report);
                members_report = Some(report);
                seen.keep(method, &returns, Some(Found::Discrete(adversary)));
                estimate
            }
            Method::DaInf => {
                let estimate = dainf(&each()?, members, question.delta);
                let worst = estimate.particles.iter().position(|&value| value == estimate.value).unwrap_or(0);
                let constant = Found::Discrete(Discrete::constant(device, model, worst)?);
                seen.keep(method, &each()?.of_member(worst, members), Some(constant));
                estimate
            }
            _ => {
                let returns = match method {
                    Method::TsInf => each()?.one_member_each(members),
                    Method::Ds => roll("ds", Propagation::Moments)?,
                    Method::Ts1 => roll("ts1", Propagation::DrawEveryStep)?,
                    _ => roll("mean", Propagation::Mean)?,
                };
                seen.keep(method, &returns, None);
                neutral(method, &returns)
            }
        });
    }
    let why = match question.explain {
        true => Some(seen.why(device, data, model, setting, &starts, stream.child("transitions"))?),
        false => None,
    };
    Ok(Bounds { estimates, set: set_report, search: search_report, search_members: members_report, why })
}

/// The adversary of a conservative method.
enum Found {
    Continuous(Continuous),
    Discrete(Discrete),
}

/// What is kept of the methods to explain the bound.
struct Seen {
    explain: bool,
    returns: Vec<(Method, Vec<f32>)>,
    /// Of the first conservative method.
    adversary: Option<(Method, Found)>,
}

impl Seen {
    fn keep(&mut self, method: Method, returns: &Returns, adversary: Option<Found>) {
        if self.explain {
            self.returns.push((method, Distributions::keep(returns)));
            self.adversary = self.adversary.take().or(adversary.map(|found| (method, found)));
        }
    }

    fn why(
        &self,
        device: &Device,
        data: &Transitions,
        model: &dyn Dynamics,
        setting: Setting<'_>,
        starts: &[f32],
        stream: Stream,
    ) -> Result<Why> {
        let trace = match &self.adversary {
            None => None,
            Some((method, found)) => {
                let (propagation, continuous) = match found {
                    Found::Continuous(adversary) => (Propagation::Shifted(adversary), Some(adversary)),
                    Found::Discrete(adversary) => {
                        (Propagation::Chosen(Chooser { adversary, exploration: 0.0 }), None)
                    }
                };
                let followed = Followed { method: *method, propagation, continuous, starts, stream };
                Some(trace(device, data, model, setting, &followed)?)
            }
        };
        Ok(Why {
            trace,
            distributions: Distributions::of(&self.returns),
            reliability: reliability(device, data, model),
        })
    }
}
