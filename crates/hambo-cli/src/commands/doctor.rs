//! `hambo doctor`: what this machine has, and what to do about what it has not.

use super::Outcome;
use crate::output::print;
use hambo::report::printable;
use hambo_engine::backend::Device;
use hambo_envs::EnvName;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// One thing that was looked at.
struct Finding {
    what: &'static str,
    state: State,
    /// What was found, with the cure where something is missing.
    text: String,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Good,
    /// Not there, and not needed by everybody.
    Absent,
    /// There, but of no use as it is.
    Broken,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Good => "ok",
            State::Absent => "absent",
            State::Broken => "BROKEN",
        }
    }
}

pub fn run() -> Outcome {
    let mut findings = vec![processor(), threads()];
    findings.extend(gpu());
    findings.extend([cache(), mujoco()]);
    for Finding { what, state, text } in &findings {
        print(&format!("{:<6}  {what:<9}  {}", state.name(), printable(text)))?;
    }
    let broken = findings.iter().filter(|f| f.state == State::Broken).count();
    print(&match broken {
        0 => "nothing is broken".to_owned(),
        broken => format!("{broken} broken: see above for what to do"),
    })?;
    Ok(if broken == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn good(what: &'static str, text: impl Into<String>) -> Finding {
    Finding { what, state: State::Good, text: text.into() }
}

fn absent(what: &'static str, text: impl Into<String>) -> Finding {
    Finding { what, state: State::Absent, text: text.into() }
}

fn broken(what: &'static str, text: impl Into<String>) -> Finding {
    Finding { what, state: State::Broken, text: text.into() }
}

/// The processor, and what its products are made with.
fn processor() -> Finding {
    let known = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = known.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or(std::env::consts::ARCH, |(_, name)| name.trim());
    match Device::cpu(None) {
        Ok(device) => good("processor", format!("{model}; {}{}", device.kind(), slow())),
        Err(problem) => broken("processor", format!("{model}; {problem}")),
    }
}

/// What a processor without wide vectors means.
#[cfg(target_arch = "x86_64")]
fn slow() -> &'static str {
    match std::is_x86_feature_detected!("avx2") {
        true => "",
        false => {
            "; without AVX2 all takes several times as long: use a newer machine if there is one"
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn slow() -> &'static str {
    ""
}

fn threads() -> Finding {
    match std::thread::available_parallelism() {
        Ok(n) => good("threads", format!("{n}; --threads N uses fewer")),
        Err(problem) => {
            broken("threads", format!("cannot be counted ({problem}): give --threads N"))
        }
    }
}

/// Driver, GPU and NVRTC: each is of use only with those before it.
fn gpu() -> [Finding; 3] {
    if !Device::has_gpu() {
        let driver = "no NVIDIA driver (libcuda.so.1), so the processor is used; with a GPU of Ampere or newer, install its driver";
        return [
            absent("driver", driver),
            absent("GPU", "none without a driver"),
            absent("NVRTC", "not needed without a GPU"),
        ];
    }
    let driver = good("driver", "NVIDIA's libcuda is there");
    match Device::cuda() {
        Ok(device) => {
            let free = device.free_memory().unwrap_or(0) >> 30;
            let text =
                format!("{}, {free} GiB free; `hambo selftest` checks its numbers", device.name());
            [driver, good("GPU", text), good("NVRTC", "compiles the kernels")]
        }
        Err(problem) if problem.to_string().contains("NVRTC") => {
            [driver, absent("GPU", "not tried without NVRTC"), broken("NVRTC", problem.to_string())]
        }
        Err(problem) => {
            [driver, broken("GPU", problem.to_string()), absent("NVRTC", "not tried without a GPU")]
        }
    }
}

/// The folder of compiled kernels.
fn cache() -> Finding {
    let Some(folder) = cache_folder() else {
        return absent(
            "cache",
            "neither XDG_CACHE_HOME nor HOME is set: kernels of a GPU are compiled at every start",
        );
    };
    let place = folder.ancestors().find(|place| place.is_dir()).unwrap_or(Path::new("/"));
    match tempfile_in(place) {
        Ok(()) => good("cache", format!("{}, for kernels of a GPU", folder.display())),
        Err(problem) => absent(
            "cache",
            format!(
                "{}: {problem}; kernels of a GPU are compiled at every start; set XDG_CACHE_HOME to a folder that can be written to",
                folder.display()
            ),
        ),
    }
}

/// As the compiler of kernels has it.
fn cache_folder() -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CACHE_HOME").filter(|name| !name.is_empty());
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    named.map(PathBuf::from).or_else(home).map(|folder| folder.join("hambo"))
}

/// Whether a file can be written there; it is gone after that.
fn tempfile_in(folder: &Path) -> std::io::Result<()> {
    let path = folder.join(format!(".hambo-doctor-{}", std::process::id()));
    std::fs::write(&path, b"")?;
    std::fs::remove_file(&path)
}

/// MuJoCo, which two environments need.
fn mujoco() -> Finding {
    let hopper = EnvName::ALL.into_iter().find(|env| env.name() == "hopper");
    let made = hopper.map(|env| env.spec().and_then(|spec| spec.make().map(drop)));
    match made {
        Some(Err(problem)) if std::env::var_os("MUJOCO_LIB").is_some() => {
            broken("MuJoCo", problem.to_string())
        }
        Some(Err(problem)) => {
            absent("MuJoCo", format!("{problem}; only hopper and halfcheetah need it"))
        }
        _ => good("MuJoCo", "for hopper and halfcheetah"),
    }
}
