//! Graphs that are not plain MLPs, by ONNX Runtime on the host. It gives no gradients: they are taken by differences.

use crate::policy::function::ActionFn;
use crate::policy::readers::onnx::graph::Graph;
use ort::environment::Environment;
use ort::session::Session;
use ort::value::TensorRef;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The environment variable that names the library.
const LIBRARY: &str = "ORT_DYLIB_PATH";

/// A graph that is ready to run.
pub(super) struct Runtime {
    session: Mutex<Session>,
    input: String,
    output: String,
    /// Whether it takes any number of rows at once, or one.
    batch: bool,
    /// Whether its input is `[columns]`, without a dimension for rows.
    flat: bool,
    pub state_dim: usize,
    pub action_dim: usize,
}

impl ActionFn for Runtime {
    fn act(&self, states: &[f32], actions: &mut [f32]) {
        let made = match self.batch {
            true => self.run(states),
            false => states.chunks_exact(self.state_dim).try_fold(Vec::new(), |mut all, row| {
                all.extend(self.run(row)?);
                Ok(all)
            }),
        };
        // It ran once when it was read; a trajectory without a number counts as diverged.
        match made {
            Ok(values) if values.len() == actions.len() => actions.copy_from_slice(&values),
            _ => actions.fill(f32::NAN),
        }
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
            "it needs ONNX Runtime, which cannot be loaded: {e}. Install it (`pip install onnxruntime`) and set \
             {LIBRARY} to the path of its library (libonnxruntime.so.*, in the package's folder `capi`)"
        )
    })
}

impl Runtime {
    /// Loads the graph and tries it on one row.
    pub fn new(graph: &Graph<'_>, bytes: &[u8]) -> Result<Self, String> {
        let output = graph.action_output()?;
        let [input] = &graph.inputs[..] else {
            return Err(format!(
                "it has {} inputs: expected one, the observation",
                graph.inputs.len()
            ));
        };
        let state_dim = match input.shape[..] {
            [Some(n)] | [_, Some(n)] => n,
            _ => {
                return Err(format!(
                    "its input has shape {:?}: expected [batch, columns]",
                    input.shape
                ));
            }
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
