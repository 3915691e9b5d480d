//! Policies: what chooses the actions that are to be evaluated.

mod archive;
mod builtin;
mod coverage;
mod d4rl;
mod describe;
#[cfg(test)]
mod hostile;
mod mlp;
mod numpy;
mod onnx;
mod pickle;
mod safe;
mod sb3;
mod spread;
mod torch;

pub use coverage::{Coverage, coverage};
pub use describe::Description;
pub use spread::Noise;

use crate::compute::{Buffer, Device};
use crate::expression::Program;
use crate::nn::Ensemble;
use crate::task::Task;
use crate::{Error, Result};
use mlp::Mlp;
use std::path::Path;
use std::sync::Arc;

/// A policy.
#[derive(Clone, Debug)]
pub struct Policy {
    /// How the user named it.
    pub spec: String,
    state_dim: usize,
    action_dim: usize,
    kind: Kind,
    /// Whether it draws its actions from its own distribution.
    sampling: bool,
    /// Standard deviation of Gaussian noise on top.
    noise: f32,
}

#[derive(Clone, Debug)]
enum Kind {
    /// One expression of the state per action dimension.
    Controller(Program),
    /// A network.
    Mlp(Arc<Mlp>),
    /// Any other ONNX graph.
    #[cfg(feature = "onnxruntime")]
    Graph(Arc<onnx::Runtime>),
}

/// Files larger than this are no policies.
const LARGEST_FILE: u64 = 4 << 30;

impl Policy {
    /// Reads a policy from its specification: `builtin:NAME[,gain=value…]`, or a file. What is in a file tells its
    /// kind: an agent of Stable-Baselines3 (.zip, with the `vecnormalize.pkl` beside it), a policy that D4RL put
    /// beside its data (.hdf5), an ONNX graph (.onnx), or [a network of our own](Policy::save) (.safetensors).
    pub fn read(spec: &str) -> Result<Self> {
        if let Some(builtin) = spec.strip_prefix("builtin:") {
            return builtin::read(spec, builtin);
        }
        let path = Path::new(spec);
        let metadata = match std::fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(e) if FILES.iter().any(|kind| spec.ends_with(kind)) => {
                return Err(Error::io(path, "read", e));
            }
            Err(_) => {
                return Err(Error::Mismatch(format!(
                    "policy {spec:?}: not a kind of policy that can be read; expected builtin:NAME with NAME one of {}; or \
                     a file, {}",
                    builtin::names(),
                    FILE_KINDS
                )));
            }
        };
        if !metadata.is_file() || metadata.len() > LARGEST_FILE {
            let problem = format!("not a file of at most {LARGEST_FILE} bytes: expected {FILE_KINDS}");
            return Err(Error::file(path, problem));
        }
        let mut start = Vec::new();
        let read = |e| Error::io(path, "read", e);
        let file = std::fs::File::open(path).map_err(read)?;
        std::io::Read::read_to_end(&mut std::io::Read::take(file, 9), &mut start).map_err(read)?;
        match &start[..] {
            [0x89, b'H', b'D', b'F', ..] => d4rl::read(spec, path),
            [b'P', b'K', ..] => sb3::read(spec, path, &std::fs::read(path).map_err(read)?),
            [_, _, _, _, _, _, _, 0, b'{'] => safe::read(spec, path, &std::fs::read(path).map_err(read)?),
            [0x08, 1..=32, ..] => onnx::read(spec, path, &std::fs::read(path).map_err(read)?),
            _ if spec.ends_with(".onnx") => onnx::read(spec, path, &std::fs::read(path).map_err(read)?),
            _ => Err(Error::file(path, format!("not a policy: expected {FILE_KINDS}"))),
        }
    }

    /// Writes a network as a safetensors file of format `hambo-policy/1`, which [`Policy::read`] reads.
    ///
    /// Its tensors, all F32, are `layers.0.weight` `[outputs, inputs]`, `layers.0.bias` `[outputs]`,
    /// `layers.1.weight`, … as `torch.nn.Linear` has them. The header's `__metadata__` says in text: `format`
    /// (`hambo-policy/1`); `activation` of the hidden layers (`relu`, `tanh`, `linear`); `squash` (`tanh`: the output
    /// goes by tanh between the bounds, `none`: it is limited to them) and, optionally, `squash_limit` (± on the output
    /// before); `action_low` and `action_high` (JSON lists; with `none` both may be missing); optionally
    /// `observation_mean` and `observation_var` (JSON lists) with `observation_epsilon` and `observation_clip`, for
    /// inputs of (s − mean) / √(var + epsilon) within ± clip.
    pub fn save(&self, path: &Path) -> Result<()> {
        match &self.kind {
            Kind::Mlp(mlp) => safe::write(mlp, path),
            _ => Err(Error::Mismatch(format!("policy {} is no network and needs no file", self.spec))),
        }
    }

    #[cfg(feature = "onnxruntime")]
    fn graph(spec: &str, graph: onnx::Runtime) -> Self {
        let (state_dim, action_dim) = (graph.state_dim, graph.action_dim);
        let kind = Kind::Graph(Arc::new(graph));
        Policy { spec: spec.to_owned(), state_dim, action_dim, kind, sampling: false, noise: 0.0 }
    }

    /// The policy of a trained actor: its one network's outputs go by tanh between the bounds.
    pub fn squashed(
        spec: &str,
        device: &Device,
        actor: &Ensemble,
        [low, high]: [Vec<f32>; 2],
    ) -> Result<Self> {
        let output = mlp::Output::Tanh { limit: f32::INFINITY };
        let params = device.download(&actor.params);
        let layers = mlp::layers(&actor.shape, &params);
        let mlp = Mlp::new(&layers, actor.shape.hidden, None, output, [low, high]);
        Ok(Policy::network(spec, mlp.map_err(|e| Error::Numeric(format!("policy {spec}: {e}")))?))
    }

    fn network(spec: &str, mlp: Mlp) -> Self {
        let (state_dim, action_dim) = (mlp.shape.inputs(), mlp.shape.outputs());
        Policy {
            spec: spec.to_owned(),
            state_dim,
            action_dim,
            kind: Kind::Mlp(Arc::new(mlp)),
            sampling: false,
            noise: 0.0,
        }
    }

    /// The same policy, drawing its actions from its own distribution rather than taking the mean.
    pub fn sampling(mut self) -> Result<Self> {
        if !self.has_distribution() {
            return Err(Error::Mismatch(format!(
                "policy {} is deterministic: there is no distribution in it to sample from; leave --stochastic away, or                  add noise to its actions with --policy-noise",
                self.spec
            )));
        }
        self.sampling = true;
        Ok(self)
    }

    /// The same policy with Gaussian noise of this standard deviation on its actions, before they are limited to the
    /// task's bounds.
    pub fn with_noise(mut self, std: f64) -> Result<Self> {
        if !(std >= 0.0 && std.is_finite()) {
            return Err(Error::setting("policy-noise", std, "0 or a positive standard deviation"));
        }
        self.noise = std as f32;
        Ok(self)
    }

    /// Whether it can draw its actions, see [`Policy::sampling`].
    pub fn has_distribution(&self) -> bool {
        matches!(&self.kind, Kind::Mlp(mlp) if mlp.spread.is_some())
    }

    /// Whether its actions are random, by its own distribution or by noise on top.
    pub fn is_random(&self) -> bool {
        self.sampling || self.noise > 0.0
    }

    /// Numbers in a state.
    pub fn state_dim(&self) -> usize {
        self.state_dim
    }

    /// Numbers in an action.
    pub fn action_dim(&self) -> usize {
        self.action_dim
    }

    fn controller(spec: &str, state_dim: usize, program: Program) -> Self {
        let action_dim = program.outputs().len();
        Policy {
            spec: spec.to_owned(),
            state_dim,
            action_dim,
            kind: Kind::Controller(program),
            sampling: false,
            noise: 0.0,
        }
    }

    /// An error that says which sizes differ, if the policy does not belong to this task.
    pub fn check_task(&self, task: &Task) -> Result<()> {
        if (self.state_dim, self.action_dim) != (task.state_dim, task.action_dim) {
            return Err(Error::Mismatch(format!(
                "policy {} takes states of {} and gives actions of {} dimensions, task {} has {} and {}",
                self.spec, self.state_dim, self.action_dim, task.name, task.state_dim, task.action_dim
            )));
        }
        Ok(())
    }

    /// Whether its actions are within these bounds as they are.
    pub(crate) fn keeps_to(&self, low: &[f32], high: &[f32]) -> bool {
        match &self.kind {
            Kind::Mlp(mlp) if !self.is_random() => {
                let above = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| a >= b);
                above(&mlp.low, low) && above(high, &mlp.high)
            }
            _ => false,
        }
    }

    /// Room for the random numbers of `rows` rows, in `groups` equal groups that draw the same numbers.
    pub fn noise(&self, device: &Device, rows: usize, groups: usize) -> Noise {
        Noise::new(device, rows, groups, self.action_dim, self.sampling, self.noise)
    }

    /// actions `[rows, action]` ← what the policy does with this luck, before the task's limits.
    pub fn draw(&self, device: &Device, states: &Buffer, noise: &Noise, actions: &mut Buffer) {
        match &self.kind {
            Kind::Mlp(mlp) if !noise.sample.is_empty() => mlp.draw(device, states, &noise.sample, actions),
            _ => self.act(device, states, actions),
        }
        let (extra, std) = &noise.extra;
        if !extra.is_empty() {
            device.add_scaled_columns(std, extra, actions);
        }
    }

    /// d_states += d_actionsᵀ · da/ds for the actions that [`Policy::draw`] gave with the same noise.
    pub(crate) fn draw_back(
        &self,
        device: &Device,
        states: &Buffer,
        noise: &Noise,
        d_actions: &Buffer,
        d_states: &mut Buffer,
    ) {
        match &self.kind {
            Kind::Mlp(mlp) if !noise.sample.is_empty() => {
                mlp.draw_back(device, states, &noise.sample, d_actions, d_states)
            }
            _ => self.back(device, states, d_actions, d_states),
        }
    }

    /// ln π(a | s) of every row of `states` `[rows, state]` and `actions` `[rows, action]`, by the policy's own
    /// distribution; none where it has none.
    pub fn log_densities(&self, device: &Device, states: &[f32], actions: &[f32]) -> Option<Vec<f64>> {
        match &self.kind {
            Kind::Mlp(mlp) => mlp.log_densities(device, &device.upload(states), actions),
            _ => None,
        }
    }

    /// actions `[rows, action]` ← π(states), the mean where the policy has a distribution, before the task's limits.
    pub fn act(&self, device: &Device, states: &Buffer, actions: &mut Buffer) {
        let none = device.zeros(0);
        match &self.kind {
            Kind::Controller(program) => device.evaluate(program, states, &none, &none, actions),
            Kind::Mlp(mlp) => mlp.act(device, states, actions),
            #[cfg(feature = "onnxruntime")]
            Kind::Graph(graph) => graph.act(device, states, actions),
        }
    }

    /// Whether its actions are computed where the states are, rather than by a runtime on the host.
    pub(crate) fn on_device(&self) -> bool {
        match &self.kind {
            Kind::Controller(_) | Kind::Mlp(_) => true,
            #[cfg(feature = "onnxruntime")]
            Kind::Graph(_) => false,
        }
    }

    /// d_states += d_actionsᵀ · dπ/ds.
    fn back(&self, device: &Device, states: &Buffer, d_actions: &Buffer, d_states: &mut Buffer) {
        let none = device.zeros(0);
        let [mut no_action, mut no_next] = [device.zeros(0), device.zeros(0)];
        match &self.kind {
            Kind::Controller(program) => device.evaluate_gradient(
                program,
                [states, &none, &none],
                d_actions,
                [d_states, &mut no_action, &mut no_next],
            ),
            Kind::Mlp(mlp) => mlp.back(device, states, d_actions, d_states),
            #[cfg(feature = "onnxruntime")]
            Kind::Graph(graph) => graph.back(device, states, d_actions, d_states),
        }
    }
}

/// Endings of files that can be read.
const FILES: [&str; 4] = [".zip", ".hdf5", ".onnx", ".safetensors"];
const FILE_KINDS: &str = "an agent of Stable-Baselines3 (.zip), a D4RL file with a policy in it (.hdf5), an ONNX graph \
                          (.onnx) or a network in hambo-policy/1 (.safetensors)";
