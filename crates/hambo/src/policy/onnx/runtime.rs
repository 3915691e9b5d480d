//! Graphs that are no plain MLPs, through ONNX Runtime on the host, whatever the device. It gives no gradients: those
//! that an adversary follows are differences.

use super::Stop;
use super::graph::Graph;
use super::walk::chosen_output;
use crate::compute::{Buffer, Device};
use ort::environment::Environment;
use ort::session::Session;
use ort::value::TensorRef;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Names the library.
const LIBRARY: &str = "ORT_DYLIB_PATH";
/// Step of a difference, relative to the size of a number.
const STEP: f32 = 1e-3;

/// A graph that is ready to run.
pub(in crate::policy) struct Runtime {
    session: Mutex<Session>,
    input: String,
    output: String,
    /// Whether it takes any number of rows, or one; and whether that one has a dimension for it.
    batch: bool,
    flat: bool,
    pub state_dim: usize,
    pub action_dim: usize,
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ONNX Runtime, {} to {}", self.state_dim, self.action_dim)
    }
}

/// The library, loaded once.
fn environment() -> Result<&'static Environment, String> {
    static ENVIRONMENT: OnceLock<Result<Environment, String>> = OnceLock::new();
    let made = ENVIRONMENT.get_or_init(|| {
        let named = std::env::var(LIBRARY).ok().filter(|path| !path.is_empty());
        let path = named.unwrap_or_else(|| {
            format!("{}onnxruntime{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX)
        });
        let builder = ort::init_from(&path).map_err(|e| e.to_string())?;
        builder.with_telemetry(false).build().map_err(|e| e.to_string())
    });
    made.as_ref().map_err(|e| {
        format!(
            "ONNX Runtime is needed for it and cannot be loaded: {e}. Install it (`pip install onnxruntime`) and let \
             {LIBRARY} name its library (libonnxruntime.so.*, in the package's folder `capi`)"
        )
    })
}

impl Runtime {
    /// The graph, after a trial with one row.
    pub(super) fn new(graph: &Graph<'_>, bytes: &[u8]) -> Result<Self, String> {
        let output = chosen_output(graph).map_err(|stop| match stop {
            Stop::Damaged(problem) | Stop::NotPlain(problem) => problem,
        })?;
        let [input] = &graph.inputs[..] else {
            return Err(format!("it has {} inputs: expected one, the observation", graph.inputs.len()));
        };
        let state_dim = match input.shape[..] {
            [Some(n)] | [_, Some(n)] => n,
            _ => return Err(format!("its input has shape {:?}: expected [batch, columns]", input.shape)),
        };
        let session = Session::builder(environment()?)
            .and_then(|builder| Ok(builder.with_intra_threads(1)?)) // results do not depend on threads
            .and_then(|mut builder| builder.commit_from_memory(bytes))
            .map_err(|e| format!("ONNX Runtime refuses it: {e}"))?;
        let flat = input.shape.len() == 1;
        let mut runtime = Runtime {
            session: Mutex::new(session),
            input: input.name.to_owned(),
            output: output.to_owned(),
            batch: !flat && input.shape[0] != Some(1),
            flat,
            state_dim,
            action_dim: 0,
        };
        runtime.action_dim = runtime.run(&vec![0.0; state_dim])?.len();
        match runtime.action_dim {
            0 => Err("it gives no actions".to_owned()),
            _ => Ok(runtime),
        }
    }

    /// actions `[rows, action]` ← the graph on every row; NaN where it fails.
    pub fn act(&self, device: &Device, states: &Buffer, actions: &mut Buffer) {
        let values = self.actions(&device.download(states));
        device.copy(&device.adopt(values), actions);
    }

    /// d_states += d_actionsᵀ · dπ/ds, by central differences.
    pub fn back(&self, device: &Device, states: &Buffer, d_actions: &Buffer, d_states: &mut Buffer) {
        let (states, d_actions) = (device.download(states), device.download(d_actions));
        let (ds, da) = (self.state_dim, self.action_dim);
        let mut gradient = vec![0.0; states.len()];
        for column in 0..ds {
            let moved = |sign: f32| {
                let mut moved = states.clone();
                moved.iter_mut().skip(column).step_by(ds).for_each(|s| *s += sign * STEP * (1.0 + s.abs()));
                let actions = self.actions(&moved);
                (moved, actions)
            };
            let ((up, ups), (down, downs)) = (moved(1.0), moved(-1.0));
            for row in 0..states.len() / ds {
                let at = row * ds + column;
                let slope: f32 = (row * da..(row + 1) * da).map(|i| d_actions[i] * (ups[i] - downs[i])).sum();
                gradient[at] = slope / (up[at] - down[at]);
            }
        }
        device.add(&device.adopt(gradient), d_states);
    }

    fn actions(&self, states: &[f32]) -> Vec<f32> {
        let rows = states.len() / self.state_dim;
        let expected = rows * self.action_dim;
        let made = match self.batch {
            true => self.run(states),
            false => {
                states.chunks_exact(self.state_dim).try_fold(Vec::with_capacity(expected), |mut all, row| {
                    all.extend(self.run(row)?);
                    Ok(all)
                })
            }
        };
        // It ran once when it was read; a trajectory without a number counts as diverged.
        made.ok().filter(|v: &Vec<f32>| v.len() == expected).unwrap_or_else(|| vec![f32::NAN; expected])
    }

    fn run(&self, states: &[f32]) -> Result<Vec<f32>, String> {
        let rows = states.len() / self.state_dim;
        let shape = if self.flat { vec![self.state_dim] } else { vec![rows, self.state_dim] };
        let problem = |e: ort::Error| format!("ONNX Runtime cannot run it: {e}");
        let input = TensorRef::from_array_view((shape, states)).map_err(problem)?;
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let outputs = session.run(ort::inputs![self.input.as_str() => input]).map_err(problem)?;
        let output = outputs.get(&self.output).ok_or("ONNX Runtime does not give its output")?;
        let (_, values) = output.try_extract_tensor::<f32>().map_err(problem)?;
        Ok(values.to_vec())
    }
}
