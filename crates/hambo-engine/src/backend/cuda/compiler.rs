//! Kernels compiled at run time by NVRTC, which is found rather than linked, and kept for the next run.

use crate::files::{sha256_of, write_together};
use crate::{Error, Result};
use libloading::Library;
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

/// Where to look for the library besides the loader's own folders.
const PLACE: &str = "HAMBO_NVRTC";
const NAMES: [&str; 4] = ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"];

/// First version with an option that leaves out parts of the language.
const MINIMAL: [c_int; 2] = [12, 4];

type Program = *mut c_void;

/// NVRTC and the folder of what it compiled before.
pub(super) struct Compiler {
    library: Library,
    version: [c_int; 2],
    architecture: String,
    cache: Option<PathBuf>,
}

impl Compiler {
    /// Finds the library; code is for the compute capability `major.minor`.
    pub fn new([major, minor]: [i32; 2]) -> Result<Self> {
        let library = find()?;
        let mut version = [0; 2];
        // SAFETY: the signature is NVRTC's.
        unsafe {
            let function = symbol::<unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int>(
                &library,
                "nvrtcVersion",
            )?;
            let [major, minor] = &mut version;
            function(major, minor);
        }
        let cache = std::env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
        let cache = cache.map(|folder| folder.join("hambo"));
        Ok(Compiler {
            library,
            version,
            architecture: format!("--gpu-architecture=sm_{major}{minor}"),
            cache,
        })
    }

    /// Machine code of a source; from the cache where it was compiled before.
    pub fn compile(&self, name: &str, source: &str, defines: &[(&str, u32)]) -> Result<Vec<u8>> {
        let mut options =
            vec![self.architecture.clone(), "--std=c++17".to_owned(), "-default-device".to_owned()];
        if self.version >= MINIMAL {
            options.push("--minimal".to_owned()); // without what this code does not use
        }
        options.extend(defines.iter().map(|(name, value)| format!("-D{name}={value}")));
        let key = sha256_of(format!("{:?} {options:?}\n{source}", self.version).as_bytes());
        let kept =
            self.cache.as_ref().map(|folder| folder.join(format!("{name}-{}.cubin", &key[..16])));
        let read = |path: &PathBuf| unsealed(&std::fs::read(path).ok()?);
        if let Some(code) = kept.as_ref().and_then(read) {
            return Ok(code);
        }
        let code = self.run(name, source, &options)?;
        // Without a cache the next run compiles again, that is all.
        if let (Some(folder), Some(path)) = (&self.cache, kept)
            && std::fs::create_dir_all(folder).is_ok()
        {
            let _ = write_together(&[(path, sealed(&code))]);
        }
        Ok(code)
    }

    fn run(&self, name: &str, source: &str, options: &[String]) -> Result<Vec<u8>> {
        let text = |s: &str| {
            CString::new(s).map_err(|e| Error::Device(format!("kernel source {name}: {e}")))
        };
        let (source, file) = (text(source)?, text(&format!("{name}.cu"))?);
        let options = options.iter().map(|o| text(o)).collect::<Result<Vec<_>>>()?;
        let pointers: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
        type Get = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
        // SAFETY: the signatures are NVRTC's, strings end with 0, and buffers have the sizes it asked for.
        unsafe {
            let create = symbol::<
                unsafe extern "C" fn(
                    *mut Program,
                    *const c_char,
                    *const c_char,
                    c_int,
                    *const *const c_char,
                    *const *const c_char,
                ) -> c_int,
            >(&self.library, "nvrtcCreateProgram")?;
            let compile = symbol::<
                unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int,
            >(&self.library, "nvrtcCompileProgram")?;
            let destroy = symbol::<unsafe extern "C" fn(*mut Program) -> c_int>(
                &self.library,
                "nvrtcDestroyProgram",
            )?;
            let get = |program: Program, what: &str| -> Result<Vec<u8>> {
                let size = symbol::<Size>(&self.library, &format!("nvrtcGet{what}Size"))?;
                let get = symbol::<Get>(&self.library, &format!("nvrtcGet{what}"))?;
                let mut bytes = 0;
                size(program, &mut bytes);
                let mut buffer = vec![0u8; bytes];
                get(program, buffer.as_mut_ptr().cast());
                Ok(buffer)
            };
            let mut program: Program = std::ptr::null_mut();
            create(
                &mut program,
                source.as_ptr(),
                file.as_ptr(),
                0,
                std::ptr::null(),
                std::ptr::null(),
            );
            let status = compile(program, pointers.len() as c_int, pointers.as_ptr());
            let result = match status {
                0 => get(program, "CUBIN"),
                _ => get(program, "ProgramLog").and_then(|log| {
                    let log = String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned();
                    Err(Error::Device(format!(
                        "NVRTC could not compile {name}.cu for {}: {log}",
                        self.architecture
                    )))
                }),
            };
            destroy(&mut program);
            result
        }
    }
}

/// A function of the library.
unsafe fn symbol<'l, F>(library: &'l Library, name: &str) -> Result<libloading::Symbol<'l, F>> {
    // SAFETY: the caller names the function's true signature.
    unsafe { library.get(name.as_bytes()) }.map_err(|e| {
        Error::Device(format!("NVRTC has no function {name} ({e}); a newer CUDA 12 or 13 has"))
    })
}

/// Digits of a SHA-256.
const DIGITS: usize = 64;

/// Compiled code as it is kept: after its SHA-256, so that a damaged kernel never runs.
fn sealed(code: &[u8]) -> Vec<u8> {
    [sha256_of(code).as_bytes(), code].concat()
}

/// The code of a kept file; none where it is damaged, and is to be compiled again.
fn unsealed(file: &[u8]) -> Option<Vec<u8>> {
    let (digest, code) = file.split_at_checked(DIGITS)?;
    (digest == sha256_of(code).as_bytes() && !code.is_empty()).then(|| code.to_vec())
}

fn find() -> Result<Library> {
    // SAFETY: NVRTC's initialization has no preconditions.
    let open = |path: &Path| unsafe { Library::new(path) }.ok();
    let mut looked = Vec::new();
    if let Some(path) = std::env::var_os(PLACE) {
        let path = PathBuf::from(path);
        return open(&path).ok_or_else(|| {
            Error::Device(format!(
                "{PLACE} = {}: this is no NVRTC library that can be loaded",
                path.display()
            ))
        });
    }
    for name in NAMES {
        if let Some(library) = open(Path::new(name)) {
            return Ok(library);
        }
    }
    looked.push("the loader's folders".to_owned());
    for folder in folders() {
        for name in NAMES {
            let path = folder.join(name);
            if path.exists()
                && let Some(library) = open(&path)
            {
                return Ok(library);
            }
        }
        looked.push(folder.display().to_string());
    }
    Err(Error::Device(format!(
        "NVRTC, CUDA's compiler library (one of {}), was not found in {}. Install it, for example with \
         `pip install nvidia-cuda-nvrtc`, or name the file in {PLACE}, or use --device cpu",
        NAMES.join(", "),
        looked.join(", ")
    )))
}

/// CUDA's own folders, and those of Python packages that bring NVRTC along (PyTorch and JAX install them).
fn folders() -> Vec<PathBuf> {
    let of = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
    let mut folders: Vec<PathBuf> =
        ["CUDA_HOME", "CUDA_PATH"].iter().filter_map(|v| of(v)).map(|p| p.join("lib64")).collect();
    folders.push("/usr/local/cuda/lib64".into());
    let roots = [of("VIRTUAL_ENV"), of("CONDA_PREFIX"), of("HOME").map(|home| home.join(".local"))];
    let system = ["/usr/local", "/usr"].map(|p| Some(PathBuf::from(p)));
    for root in roots.into_iter().chain(system).flatten() {
        let Ok(entries) = std::fs::read_dir(root.join("lib")) else { continue };
        let mut pythons: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
        pythons.sort();
        for python in pythons {
            if !python.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3"))
            {
                continue;
            }
            for packages in ["site-packages", "dist-packages"] {
                for package in ["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"] {
                    folders.push(python.join(packages).join(package));
                }
            }
        }
    }
    folders.retain(|folder| folder.is_dir());
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_kernel_with_one_other_bit_is_compiled_again() {
        let file = sealed(b"code of a kernel");
        assert_eq!(unsealed(&file).as_deref(), Some(&b"code of a kernel"[..]));
        for bit in 0..8 * file.len() {
            let mut damaged = file.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(unsealed(&damaged), None, "bit {bit}");
        }
        for size in 0..file.len() {
            assert_eq!(unsealed(&file[..size]), None, "{size} bytes");
        }
        assert_eq!(unsealed(&sealed(b"")), None);
    }
}
