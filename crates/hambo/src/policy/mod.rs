//! Policies: what chooses the actions, and is evaluated.

mod action_noise;
mod action_std;
mod actor;
mod builtin;
mod coverage;
mod describe;
mod function;
mod hints;
mod layers;
mod mlp;
mod normalizer;
mod onnx;
mod readers;

pub use action_noise::ActionNoise;
pub use coverage::{Coverage, coverage};
pub use describe::Description;
pub use function::ActionFn;
pub use hints::PolicyHints;
pub use normalizer::NormalizerFile;

use crate::task::Task;
use crate::{Error, Result};
use function::Function;
use hambo_engine::backend::{Buffer, Device};
use hambo_engine::expression::Program;
use hambo_engine::nn::Ensemble;
use layers::{Linear, Output};
use mlp::Mlp;
use readers::safetensors;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A policy: built in, read from a file, or [a function](Policy::from_fn) of one's own.
///
/// ```
/// use hambo::Policy;
/// let policy = Policy::read("builtin:swing-up")?.with_noise(0.1)?;
/// assert_eq!((policy.state_dim(), policy.action_dim(), policy.is_random()), (3, 1, true));
/// # Ok::<(), hambo::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Policy {
    /// The specification it was read from, or its name.
    pub spec: String,
    state_dim: usize,
    action_dim: usize,
    kind: Kind,
    /// Whether it was read from a file, which `spec` names.
    from_file: bool,
    /// The file of the observation normalizer that it was read with.
    normalizer: Option<PathBuf>,
    /// Whether its actions are sampled from its own distribution.
    sampling: bool,
    /// Standard deviation of the Gaussian noise on top of its actions.
    noise: f64,
}

#[derive(Clone, Debug)]
enum Kind {
    /// One expression of the state per action dimension.
    Controller(Program),
    /// A network.
    Mlp(Arc<Mlp>),
    /// A function on the host: a closure, a type of the user's, or an ONNX graph that is not a plain MLP.
    Function(Function),
}

impl Policy {
    /// Reads a policy from its specification: `builtin:NAME[,gain=value…]`, or a file, whose kind is recognized by its
    /// content: a Stable-Baselines3 agent (.zip, with the `vecnormalize.pkl` next to it or in a folder of its name), a policy
    /// that D4RL stored with its data (.hdf5), an ONNX graph (.onnx), or [a saved network](Policy::save) (.safetensors).
    pub fn read(spec: &str) -> Result<Self> {
        Policy::read_with(spec, &NormalizerFile::Found)
    }

    /// The same, with what is known of an agent's observation normalizer.
    pub fn read_with(spec: &str, normalizer: &NormalizerFile) -> Result<Self> {
        Policy::read_as(
            spec,
            &PolicyHints { normalizer: normalizer.clone(), ..PolicyHints::default() },
        )
    }

    /// The same, with all that is known beyond the file: a PyTorch file (.pt, .pth) holds weights, but not the activation
    /// between them.
    pub fn read_as(spec: &str, hints: &PolicyHints) -> Result<Self> {
        if let Some(builtin) = spec.strip_prefix("builtin:") {
            return builtin::read(spec, builtin);
        }
        Ok(Policy { from_file: true, ..readers::read(spec, hints)? })
    }

    /// Writes a network as a safetensors file of format `hambo-policy/1`, which [`Policy::read`] reads.
    ///
    /// Its tensors, all F32, are `layers.0.weight` `[outputs, inputs]`, `layers.0.bias` `[outputs]`,
    /// `layers.1.weight`, … as in `torch.nn.Linear`. The header's `__metadata__` has text values: `format`
    /// (`hambo-policy/1`); `activation` of the hidden layers (`relu`, `tanh`, `linear`); `squash` (`tanh`: the output
    /// is squashed into the bounds, `none`: it is clipped to them) and, optionally, `squash_limit` (± on the output
    /// before tanh); `action_low` and `action_high` (JSON lists; with `none` both may be missing); optionally
    /// `observation_mean` and `observation_var` (JSON lists) with `observation_epsilon` and `observation_clip`, for
    /// inputs of (s − mean) / √(var + epsilon) clipped to ± clip.
    pub fn save(&self, path: &Path) -> Result<()> {
        match &self.kind {
            Kind::Mlp(mlp) => safetensors::write(mlp, path),
            _ => Err(Error::Mismatch(format!(
                "policy {} is not a network: only networks can be saved",
                self.spec
            ))),
        }
    }

    /// A policy from a function of batches: `states` is `[rows, state]`, `actions` is `[rows, action]`, both row-major.
    /// It runs on the host, and its gradients are taken by central differences; [`Policy::custom`] takes gradients of
    /// one's own. Actions that are left unwritten are NaN.
    ///
    /// ```
    /// use hambo::policy::Policy;
    /// use hambo_engine::backend::Device;
    ///
    /// // Brakes a pendulum, whose state is (cos θ, sin θ, angular velocity).
    /// let policy = Policy::from_fn("brake", 3, 1, |states, actions| {
    ///     for (state, action) in states.chunks_exact(3).zip(actions) {
    ///         *action = -0.5 * state[2];
    ///     }
    /// });
    ///
    /// let device = Device::cpu(None)?;
    /// let mut actions = device.zeros(2);
    /// policy.act(&device, &device.upload(&[1.0, 0.0, 4.0, 0.0, 1.0, -2.0]), &mut actions);
    /// assert_eq!(device.download(&actions)?, [-2.0, 1.0]);
    /// # Ok::<(), hambo::Error>(())
    /// ```
    pub fn from_fn(
        name: &str,
        state_dim: usize,
        action_dim: usize,
        function: impl Fn(&[f32], &mut [f32]) + Send + Sync + 'static,
    ) -> Self {
        Policy::custom(name, state_dim, action_dim, function)
    }

    /// A policy of one's own, which may bring its own gradients.
    pub fn custom(
        name: &str,
        state_dim: usize,
        action_dim: usize,
        function: impl ActionFn + 'static,
    ) -> Self {
        Policy::function(
            name,
            Function { kind: "function", state_dim, action_dim, function: Arc::new(function) },
        )
    }

    /// The policy of a trained actor, an ensemble of one network, whose outputs tanh squashes into the bounds.
    pub fn squashed(
        spec: &str,
        device: &Device,
        actor: &Ensemble,
        [low, high]: [Vec<f32>; 2],
    ) -> Result<Self> {
        let output = Output::Tanh { limit: f32::INFINITY };
        let params = device.download(&actor.params)?;
        let layers = Linear::unpack(&actor.shape, &params);
        let mlp = Mlp::new(&layers, actor.shape.hidden, None, output, [low, high]);
        Ok(Policy::network(spec, mlp.map_err(|e| Error::Numeric(format!("policy {spec}: {e}")))?))
    }

    fn network(spec: &str, mlp: Mlp) -> Self {
        Policy::new(spec, mlp.shape.inputs(), mlp.shape.outputs(), Kind::Mlp(Arc::new(mlp)))
    }

    fn controller(spec: &str, state_dim: usize, program: Program) -> Self {
        Policy::new(spec, state_dim, program.outputs().len(), Kind::Controller(program))
    }

    fn function(spec: &str, function: Function) -> Self {
        Policy::new(spec, function.state_dim, function.action_dim, Kind::Function(function))
    }

    fn new(spec: &str, state_dim: usize, action_dim: usize, kind: Kind) -> Self {
        let spec = spec.to_owned();
        Policy {
            spec,
            state_dim,
            action_dim,
            kind,
            from_file: false,
            normalizer: None,
            sampling: false,
            noise: 0.0,
        }
    }

    /// The same policy with actions sampled from its own distribution instead of their mean.
    pub fn sampling(mut self) -> Result<Self> {
        if !self.has_distribution() {
            return Err(Error::Mismatch(format!(
                "policy {} is deterministic: it has no distribution to sample from; leave out --stochastic, or add noise \
                 to its actions with --policy-noise",
                self.spec
            )));
        }
        self.sampling = true;
        Ok(self)
    }

    /// The same policy with Gaussian noise of this standard deviation added to its actions, before they are clipped to
    /// the task's bounds.
    pub fn with_noise(mut self, std: f64) -> Result<Self> {
        if !(std >= 0.0 && std.is_finite()) {
            return Err(Error::setting("policy-noise", std, "0 or a positive standard deviation"));
        }
        self.noise = std;
        Ok(self)
    }

    /// Whether it has a distribution of actions to sample from, see [`Policy::sampling`].
    pub fn has_distribution(&self) -> bool {
        matches!(&self.kind, Kind::Mlp(mlp) if mlp.action_std.is_some())
    }

    /// The same policy by another name, for one that was read from a file which is gone soon.
    pub fn named(self, name: &str) -> Self {
        Policy { spec: name.to_owned(), from_file: false, normalizer: None, ..self }
    }

    /// The file of the observation normalizer that it was read with.
    pub fn normalizer_file(&self) -> Option<&Path> {
        self.normalizer.as_deref()
    }

    /// Whether it was read from a file, which its specification names.
    pub(crate) fn is_from_file(&self) -> bool {
        self.from_file
    }

    /// Whether its actions are sampled from its own distribution.
    pub fn is_sampling(&self) -> bool {
        self.sampling
    }

    /// Standard deviation of the noise on top of its actions.
    pub fn noise_std(&self) -> f64 {
        self.noise
    }

    /// Whether its actions are random, from its own distribution or from noise on top.
    pub fn is_random(&self) -> bool {
        self.sampling || self.noise > 0.0
    }

    /// Size of a state.
    pub fn state_dim(&self) -> usize {
        self.state_dim
    }

    /// Size of an action.
    pub fn action_dim(&self) -> usize {
        self.action_dim
    }

    /// An error that names both sizes if the policy does not fit this task.
    pub fn check_task(&self, task: &Task) -> Result<()> {
        if (self.state_dim, self.action_dim) != (task.state_dim, task.action_dim) {
            return Err(Error::Mismatch(format!(
                "policy {} takes states of {} and gives actions of {} dimensions, task {} has {} and {}",
                self.spec,
                self.state_dim,
                self.action_dim,
                task.name,
                task.state_dim,
                task.action_dim
            )));
        }
        Ok(())
    }

    /// Whether all its actions lie within these bounds.
    pub(crate) fn keeps_to(&self, low: &[f32], high: &[f32]) -> bool {
        match &self.kind {
            Kind::Mlp(mlp) if !self.is_random() => {
                let above = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| a >= b);
                above(&mlp.low, low) && above(high, &mlp.high)
            }
            _ => false,
        }
    }

    /// Room for the random numbers of `rows` rows, in `groups` equal groups that share their numbers.
    pub fn noise(&self, device: &Device, rows: usize, groups: usize) -> ActionNoise {
        ActionNoise::new(device, [rows, groups, self.action_dim], self.sampling, self.noise as f32)
    }

    /// actions `[rows, action]` ← the policy's actions with these random numbers, before the task's bounds.
    pub fn sample(
        &self,
        device: &Device,
        states: &Buffer,
        noise: &ActionNoise,
        actions: &mut Buffer,
    ) {
        match &self.kind {
            Kind::Mlp(mlp) if !noise.sample.is_empty() => {
                mlp.sample(device, states, &noise.sample, actions)
            }
            _ => self.act(device, states, actions),
        }
        let (extra, std) = &noise.extra;
        if !extra.is_empty() {
            device.add_scaled_columns(std, extra, actions);
        }
    }

    /// d_states += d_actionsᵀ · da/ds for the actions that [`Policy::sample`] gave with the same noise.
    pub(crate) fn sample_backward(
        &self,
        device: &Device,
        states: &Buffer,
        noise: &ActionNoise,
        d_actions: &Buffer,
        d_states: &mut Buffer,
    ) {
        match &self.kind {
            Kind::Mlp(mlp) if !noise.sample.is_empty() => {
                mlp.sample_backward(device, (states, &noise.sample), d_actions, d_states)
            }
            _ => self.backward(device, states, d_actions, d_states),
        }
    }

    /// ln π(a | s) of every row of `states` `[rows, state]` and `actions` `[rows, action]` under the policy's own
    /// distribution; none for a deterministic policy.
    pub fn log_densities(
        &self,
        device: &Device,
        states: &[f32],
        actions: &[f32],
    ) -> Option<Vec<f64>> {
        match &self.kind {
            Kind::Mlp(mlp) => mlp.log_densities(device, &device.upload(states), actions),
            _ => None,
        }
    }

    /// actions `[rows, action]` ← π(states), the mean if the policy has a distribution, before the task's bounds.
    pub fn act(&self, device: &Device, states: &Buffer, actions: &mut Buffer) {
        let none = device.zeros(0);
        match &self.kind {
            Kind::Controller(program) => device.evaluate(program, states, &none, &none, actions),
            Kind::Mlp(mlp) => mlp.act(device, states, actions),
            Kind::Function(function) => function.act(device, states, actions),
        }
    }

    /// Whether its actions are computed where the states are, rather than by a function on the host.
    pub(crate) fn on_device(&self) -> bool {
        !matches!(self.kind, Kind::Function(_))
    }

    /// Whether it is a function that brings no gradient of its own.
    pub(crate) fn lacks_gradient(&self) -> bool {
        matches!(&self.kind, Kind::Function(function) if !function.has_gradient())
    }

    /// Whether it is such a function, and its actions do not follow small changes of most of these states.
    pub(crate) fn jumps(&self, states: &[f32]) -> bool {
        matches!(&self.kind, Kind::Function(function) if !function.has_gradient() && function.jumps(states))
    }

    /// d_states += d_actionsᵀ · dπ/ds.
    fn backward(
        &self,
        device: &Device,
        states: &Buffer,
        d_actions: &Buffer,
        d_states: &mut Buffer,
    ) {
        let none = device.zeros(0);
        let [mut no_action, mut no_next] = [device.zeros(0), device.zeros(0)];
        match &self.kind {
            Kind::Controller(program) => device.evaluate_gradient(
                program,
                [states, &none, &none],
                d_actions,
                [d_states, &mut no_action, &mut no_next],
            ),
            Kind::Mlp(mlp) => mlp.backward(device, states, d_actions, d_states),
            Kind::Function(function) => function.backward(device, states, d_actions, d_states),
        }
    }
}
