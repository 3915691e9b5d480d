//! libmujoco, loaded when it is first asked for, so that nothing else needs it.
//!
//! Only opaque pointers and the flat state cross the border: no layout of MuJoCo's structures is assumed.

use hambo::{Error, Result};
use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The version that the environments are held against; others compute other trajectories.
const VERSION: &str = "3.17.0";
const CURE: &str =
    "scripts/get-mujoco fetches it; or name the file in the environment variable MUJOCO_LIB";

// Parts of the state, as mjtState numbers them.
const TIME: c_int = 1 << 0;
const POSITIONS: c_int = 1 << 1;
const VELOCITIES: c_int = 1 << 2;
const CONTROLS: c_int = 1 << 6;

type Pointer = *mut c_void;

/// The functions in use.
struct Functions {
    parse: unsafe extern "C" fn(*const c_char, *const c_void, *mut c_char, c_int) -> Pointer,
    compile: unsafe extern "C" fn(Pointer, *const c_void) -> Pointer,
    spec_error: unsafe extern "C" fn(Pointer) -> *const c_char,
    delete_spec: unsafe extern "C" fn(Pointer),
    delete_model: unsafe extern "C" fn(Pointer),
    make_data: unsafe extern "C" fn(Pointer) -> Pointer,
    delete_data: unsafe extern "C" fn(Pointer),
    reset: unsafe extern "C" fn(Pointer, Pointer),
    forward: unsafe extern "C" fn(Pointer, Pointer),
    step: unsafe extern "C" fn(Pointer, Pointer),
    state_size: unsafe extern "C" fn(Pointer, c_int) -> c_int,
    get_state: unsafe extern "C" fn(Pointer, Pointer, *mut f64, c_int),
    set_state: unsafe extern "C" fn(Pointer, Pointer, *const f64, c_int),
}

/// The library, loaded once; an error in words if it is missing or another version.
fn functions() -> Result<&'static Functions> {
    static FUNCTIONS: OnceLock<std::result::Result<Functions, String>> = OnceLock::new();
    let loaded = FUNCTIONS.get_or_init(|| match find()? {
        Some(path) => {
            load(&path).map_err(|problem| format!("{}: {problem}; {CURE}", path.display()))
        }
        None => {
            Err(format!("MuJoCo's library (libmujoco {VERSION}) is not on this machine: {CURE}"))
        }
    });
    loaded.as_ref().map_err(|problem| Error::Library(problem.clone()))
}

/// Where the library is: `MUJOCO_LIB` (a file or a folder), else beside the program, else in the user's data folder. Nothing is
/// taken from the working folder, where anybody may have put it, and nothing is executed to find it.
fn find() -> std::result::Result<Option<PathBuf>, String> {
    if let Some(named) = std::env::var_os("MUJOCO_LIB").filter(|name| !name.is_empty()) {
        let path = PathBuf::from(named);
        return match path.is_dir() {
            false => Ok(Some(path)),
            true => library_in(&path).map(Some).ok_or_else(|| {
                format!(
                    "MUJOCO_LIB = {}: there is no libmujoco in this folder; {CURE}",
                    path.display()
                )
            }),
        };
    }
    let program = std::env::current_exe().ok();
    let places = program.iter().flat_map(|program| beside(program)).chain(data_folder());
    let Some(path) = places.into_iter().find_map(|folder| library_in(&folder)) else {
        return Ok(None);
    };
    check_owner(&path).map_err(|problem| {
        format!("{}: {problem}; if it is to be trusted, name it in MUJOCO_LIB", path.display())
    })?;
    Ok(Some(path))
}

/// `.mujoco` beside a program, and at the top of the checkout that it was built in (`target/PROFILE/`, also below it).
fn beside(program: &Path) -> Vec<PathBuf> {
    let built_in = program.ancestors().find(|folder| folder.ends_with("target"));
    let folders = [program.parent(), built_in.and_then(Path::parent)];
    folders.into_iter().flatten().map(|folder| folder.join(".mujoco")).collect()
}

/// `hambo/mujoco` in the user's data folder.
fn data_folder() -> Option<PathBuf> {
    let named =
        |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = named("XDG_DATA_HOME").or_else(|| Some(named("HOME")?.join(".local/share")))?;
    Some(data.join("hambo/mujoco"))
}

/// An error if somebody else could have put the library there: it and its folder must belong to the user or to root, and
/// others must not be able to write to them.
#[cfg(unix)]
fn check_owner(library: &Path) -> std::result::Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    // SAFETY: it has no preconditions.
    let user = unsafe { libc::geteuid() };
    for path in [Some(library), library.parent()].into_iter().flatten() {
        let found = path.metadata().map_err(|e| format!("cannot look at it: {e}"))?;
        if ![user, 0].contains(&found.uid()) {
            return Err(format!(
                "it is not loaded, because {} belongs to another user",
                path.display()
            ));
        }
        if found.mode() & 0o022 != 0 {
            return Err(format!(
                "it is not loaded, because others can write to {}",
                path.display()
            ));
        }
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_owner(_: &Path) -> std::result::Result<(), String> {
    Ok(())
}

/// The newest libmujoco in a folder; its name carries its version.
fn library_in(folder: &Path) -> Option<PathBuf> {
    let is_library = |path: &PathBuf| {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        name.starts_with("libmujoco.") || name == "mujoco.dll"
    };
    std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).filter(is_library).max()
}

fn load(path: &Path) -> std::result::Result<Functions, String> {
    // SAFETY: libmujoco does nothing when loaded; the types are those of its header (mujoco.h, 3.17.0), and the
    // version is checked before anything else is called.
    unsafe {
        let library = Library::new(path).map_err(|e| format!("cannot load: {e}"))?;
        macro_rules! function {
            ($name:literal) => {
                *library
                    .get(concat!($name, "\0").as_bytes())
                    .map_err(|e| format!("not a libmujoco {VERSION}: {e}"))?
            };
        }
        let version: unsafe extern "C" fn() -> *const c_char = function!("mj_versionString");
        let found = CStr::from_ptr(version()).to_string_lossy();
        if found != VERSION {
            return Err(format!("this is MuJoCo {found}, expected {VERSION}"));
        }
        // By default warnings go to standard error and to a file MUJOCO_LOG.TXT in the working folder.
        let on_warning: *mut Option<unsafe extern "C" fn(*const c_char)> =
            function!("mju_user_warning");
        *on_warning = Some(ignore);
        let functions = Functions {
            parse: function!("mj_parseXMLString"),
            compile: function!("mj_compile"),
            spec_error: function!("mjs_getError"),
            delete_spec: function!("mj_deleteSpec"),
            delete_model: function!("mj_deleteModel"),
            make_data: function!("mj_makeData"),
            delete_data: function!("mj_deleteData"),
            reset: function!("mj_resetData"),
            forward: function!("mj_forward"),
            step: function!("mj_step"),
            state_size: function!("mj_stateSize"),
            get_state: function!("mj_getState"),
            set_state: function!("mj_setState"),
        };
        std::mem::forget(library); // it stays loaded: the functions are used until the program ends
        Ok(functions)
    }
}

unsafe extern "C" fn ignore(_: *const c_char) {}

/// A compiled model; nothing changes it, so that simulations on all threads share it.
pub(super) struct Model {
    functions: &'static Functions,
    pointer: Pointer,
    positions: usize,
    velocities: usize,
    controls: usize,
}

// SAFETY: MuJoCo only reads a model while it simulates.
unsafe impl Send for Model {}
// SAFETY: as above.
unsafe impl Sync for Model {}

impl Model {
    pub fn compile(xml: &str) -> Result<Self> {
        let functions = functions()?;
        let refused =
            |problem: &str| Error::Library(format!("MuJoCo refuses the model: {problem}"));
        let text = CString::new(xml).map_err(|e| refused(&e.to_string()))?;
        let mut problem: [c_char; 1000] = [0; 1000];
        // SAFETY: the text ends in 0, the buffer for the problem has the length given, a null file system is allowed,
        // and what `parse` and `compile` return is used only if it is not null.
        unsafe {
            let spec = (functions.parse)(
                text.as_ptr(),
                std::ptr::null(),
                problem.as_mut_ptr(),
                problem.len() as c_int,
            );
            if spec.is_null() {
                return Err(refused(&CStr::from_ptr(problem.as_ptr()).to_string_lossy()));
            }
            let pointer = (functions.compile)(spec, std::ptr::null());
            if pointer.is_null() {
                let error =
                    refused(&CStr::from_ptr((functions.spec_error)(spec)).to_string_lossy());
                (functions.delete_spec)(spec);
                return Err(error);
            }
            (functions.delete_spec)(spec);
            let size = |part| (functions.state_size)(pointer, part) as usize;
            let (positions, velocities, controls) =
                (size(POSITIONS), size(VELOCITIES), size(CONTROLS));
            Ok(Model { functions, pointer, positions, velocities, controls })
        }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: made by `compile`, and simulations borrow the model.
        unsafe { (self.functions.delete_model)(self.pointer) }
    }
}

/// One simulated body.
pub(super) struct Simulation {
    model: &'static Model,
    data: Pointer,
    /// Time, positions, velocities.
    state: Vec<f64>,
}

// SAFETY: the data belong to this simulation alone.
unsafe impl Send for Simulation {}

/// What MuJoCo's clock shows when an episode starts. A simulation that becomes unstable is reset by MuJoCo, clock
/// and all: a clock that shows less gives it away.
const START: f64 = 1.0;

impl Simulation {
    pub fn new(model: &'static Model) -> Result<Self> {
        // SAFETY: the model is compiled.
        let data = unsafe { (model.functions.make_data)(model.pointer) };
        if data.is_null() {
            return Err(Error::Library("MuJoCo has no memory for another simulation".to_owned()));
        }
        let mut simulation =
            Simulation { model, data, state: vec![0.0; 1 + model.positions + model.velocities] };
        simulation.reset(|_, _| {});
        Ok(simulation)
    }

    /// Where every joint is.
    pub fn positions(&self) -> &[f64] {
        &self.state[1..=self.model.positions]
    }

    /// How fast every joint moves.
    pub fn velocities(&self) -> &[f64] {
        &self.state[1 + self.model.positions..]
    }

    /// Goes to the model's initial state, which `change` may change: positions, velocities.
    pub fn reset(&mut self, change: impl FnOnce(&mut [f64], &mut [f64])) {
        let Model { functions, pointer, positions, .. } = *self.model;
        // SAFETY: the state has room for time, positions and velocities.
        unsafe {
            (functions.reset)(pointer, self.data);
            (functions.get_state)(
                pointer,
                self.data,
                self.state.as_mut_ptr(),
                TIME | POSITIONS | VELOCITIES,
            );
            self.state[0] = START;
            let (before, velocities) = self.state.split_at_mut(1 + positions);
            change(&mut before[1..], velocities);
            (functions.set_state)(
                pointer,
                self.data,
                self.state.as_ptr(),
                TIME | POSITIONS | VELOCITIES,
            );
            (functions.forward)(pointer, self.data);
        }
    }

    /// `times` steps under the same controls. False if the simulation became unstable: then the state means nothing
    /// until the next reset.
    pub fn step(&mut self, controls: &[f64], times: usize) -> bool {
        let Model { functions, pointer, .. } = *self.model;
        assert_eq!(controls.len(), self.model.controls, "numbers of controls");
        if !controls.iter().all(|c| c.is_finite()) {
            return false; // MuJoCo would take them for 0
        }
        // SAFETY: there are as many controls as the model has, and the state has room for what is read.
        unsafe {
            (functions.set_state)(pointer, self.data, controls.as_ptr(), CONTROLS);
            for _ in 0..times {
                (functions.step)(pointer, self.data);
            }
            (functions.get_state)(
                pointer,
                self.data,
                self.state.as_mut_ptr(),
                TIME | POSITIONS | VELOCITIES,
            );
        }
        self.state[0] >= START && self.state.iter().all(|x| x.is_finite())
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        // SAFETY: made by `new`.
        unsafe { (self.model.functions.delete_data)(self.data) }
    }
}
