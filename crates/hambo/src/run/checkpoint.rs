//! Unfinished work on disk: arrays that are saved now and then, and taken up after an interruption.
//!
//! Randomness is a function of (stream, counter), so that work which is taken up goes on with the same bits as work that
//! was never interrupted.

use super::arrays::Problem;
use crate::{Error, Result};
use hambo_engine::backend::{Buffer, Device};
use hambo_engine::files::{left_over, make_folder, sha256_of, write_together};
use safetensors::tensor::SafeTensors;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

pub use super::arrays::{Arrays, Element};

const FORMAT: &str = "hambo-unfinished/1";
const IDENTITY: &str = "identity.json";
/// The name of the identity's own digest beside it.
const DIGEST: &str = "sha256";
/// Saving takes at most this share of the time, unless it is asked for at every opportunity.
const SHARE: f64 = 0.02;

/// A folder of unfinished work. It is made when something is saved for the first time.
#[derive(Debug)]
pub struct Checkpoints {
    folder: PathBuf,
    /// All that decides what comes out, by name.
    identity: BTreeMap<String, String>,
    every: Duration,
    last: Mutex<Last>,
}

/// A piece of work as it was saved.
#[derive(Debug)]
pub struct Saved {
    arrays: Arrays,
    path: PathBuf,
}

impl Saved {
    /// Whether there is an array of this name.
    pub fn has(&self, name: &str) -> bool {
        self.arrays.has(name)
    }

    /// What `read` makes of it; errors name the file.
    pub fn read<T>(
        &self,
        read: impl FnOnce(&Arrays) -> std::result::Result<T, Problem>,
    ) -> Result<T> {
        read(&self.arrays)
            .map_err(|problem| Error::file(&self.path, format!("{problem}; {DAMAGED}")))
    }
}

/// When something was saved, and how long that took.
#[derive(Clone, Copy, Debug)]
struct Last {
    end: Instant,
    took: Duration,
    made: bool,
}

impl Checkpoints {
    /// Work in `folder` of this identity, saved every so often; with 0 at every opportunity. Work of another identity is an
    /// error that names what differs.
    pub fn open(
        folder: &Path,
        identity: BTreeMap<String, String>,
        every: Duration,
    ) -> Result<Self> {
        let path = folder.join(IDENTITY);
        let made = match fs::read(&path) {
            Ok(bytes) => {
                let there = read_identity(&bytes)
                    .map_err(|problem| Error::file(&path, format!("{problem}; {DAMAGED}")))?;
                match difference(&there, &identity) {
                    Some(difference) => {
                        let problem = format!(
                            "unfinished work of another evaluation: {difference}. {REMEDY}"
                        );
                        return Err(Error::file(folder, problem));
                    }
                    None => true,
                }
            }
            // Where there is a file in the folder's place, whoever wants to write will say so.
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => false,
            Err(e) => return Err(Error::io(&path, "read", e)),
        };
        let last = Mutex::new(Last { end: Instant::now(), took: Duration::ZERO, made });
        Ok(Checkpoints { folder: folder.to_owned(), identity, every, last })
    }

    /// Whether it is time to save: often enough that little is lost, seldom enough that it costs little.
    pub fn due(&self) -> bool {
        let enough = |last: Last| last.end.elapsed() >= self.every.max(last.took.div_f64(SHARE));
        self.every.is_zero() || self.last.lock().is_ok_and(|last| enough(*last))
    }

    /// Saves a piece of work in place of what was saved under its name before.
    pub fn save(&self, name: &str, arrays: &Arrays) -> Result<()> {
        let start = Instant::now();
        let Ok(mut last) = self.last.lock() else { return Ok(()) };
        let path = self.path(name);
        if !last.made {
            make_folder(&self.folder)?;
            let mut identity = self.identity.clone();
            identity.insert(DIGEST.to_owned(), self.digest());
            let identity = serde_json::to_vec_pretty(&identity)
                .map_err(|e| Error::file(&self.folder, e.to_string()))?;
            write_together(&[(self.folder.join(IDENTITY), identity)])?;
        }
        let header = [("format", FORMAT), ("work", &self.digest())];
        let bytes = arrays.to_file(&header).map_err(|problem| Error::file(&path, problem))?;
        write_together(&[(path, bytes)])?;
        *last = Last { end: Instant::now(), took: start.elapsed(), made: true };
        Ok(())
    }

    /// What was saved under this name, if anything was.
    pub fn load(&self, name: &str) -> Result<Option<Saved>> {
        let path = self.path(name);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(e) => return Err(Error::io(&path, "read", e)),
        };
        let problem = |problem: Problem| Error::file(&path, format!("{problem}; {DAMAGED}"));
        let (arrays, header) = Arrays::from_file(&bytes).map_err(problem)?;
        if header.get("format").map(String::as_str) != Some(FORMAT)
            || header.get("work") != Some(&self.digest())
        {
            return Err(problem("not a part of this work".to_owned()));
        }
        Ok(Some(Saved { arrays, path }))
    }

    /// Whether there is something to go on from.
    pub fn resumes(&self) -> bool {
        self.last.lock().is_ok_and(|last| last.made)
    }

    /// Removes what was saved, and nothing else: the work is done.
    pub fn finish(&self) -> Result<()> {
        if !self.last.lock().is_ok_and(|last| last.made) {
            return Ok(());
        }
        let problem = |e| Error::io(&self.folder, "remove unfinished work that is done now", e);
        for entry in fs::read_dir(&self.folder).map_err(problem)? {
            let path = entry.map_err(problem)?.path();
            if self.is_own(&path) || is_temporary(&path) {
                fs::remove_file(&path).map_err(problem)?;
            }
        }
        // Last, so that whatever is left after an interruption still says whose it is.
        fs::remove_file(self.folder.join(IDENTITY)).map_err(problem)?;
        let _ = fs::remove_dir(&self.folder); // stays where somebody else put a file there
        Ok(())
    }

    /// Whether a file says that it is a part of this work.
    fn is_own(&self, path: &Path) -> bool {
        let named = path.extension().is_some_and(|kind| kind == "safetensors");
        let plain = path.symlink_metadata().is_ok_and(|there| there.is_file());
        let Some(bytes) = fs::read(path).ok().filter(|_| named && plain) else { return false };
        let Ok((_, metadata)) = SafeTensors::read_metadata(&bytes) else { return false };
        metadata.metadata().as_ref().and_then(|header| header.get("work")) == Some(&self.digest())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.safetensors"))
    }

    fn digest(&self) -> String {
        digest(&self.identity)
    }
}

/// What work this is, of a file that is not trusted.
fn read_identity(bytes: &[u8]) -> std::result::Result<BTreeMap<String, String>, Problem> {
    let mut identity: BTreeMap<String, String> = serde_json::from_slice(bytes)
        .map_err(|e| format!("does not say what work this is: {e}"))?;
    match identity.remove(DIGEST) {
        Some(own) if own == digest(&identity) => Ok(identity),
        Some(_) => Err("damaged: what it says does not have the SHA-256 beside it".to_owned()),
        None => Err("damaged, or of an older version: no SHA-256 in it".to_owned()),
    }
}

fn digest(identity: &BTreeMap<String, String>) -> String {
    let all = identity.iter().map(|(name, value)| format!("{name}={value}\n"));
    sha256_of(all.collect::<String>().as_bytes())
}

/// What to do about a part that cannot be used.
const DAMAGED: &str = "delete the folder to begin anew, or name another one";
/// What to do about the work of somebody else.
const REMEDY: &str = "Run the same command as before to go on, name another folder, or delete this one to begin anew";

/// Whether a file is what an interrupted write of this library left behind.
fn is_temporary(path: &Path) -> bool {
    left_over(path).is_some_and(|name| name.ends_with(".safetensors") || name == IDENTITY)
}

/// The first thing that is not the same, with both values.
fn difference(there: &BTreeMap<String, String>, here: &BTreeMap<String, String>) -> Option<String> {
    let names = there.keys().chain(here.keys());
    let value = |values: &BTreeMap<String, String>, name: &str| {
        values.get(name).cloned().unwrap_or_else(|| "not given".to_owned())
    };
    let mut differing = names.filter(|name| there.get(*name) != here.get(*name));
    differing
        .next()
        .map(|name| format!("{name} was {}, now it is {}", value(there, name), value(here, name)))
}

/// Copies buffers to arrays of their names.
pub fn store_parts<'b>(
    device: &Device,
    parts: impl IntoIterator<Item = (&'static str, &'b mut Buffer)>,
    arrays: &mut Arrays,
) -> Result<()> {
    parts.into_iter().try_for_each(|(name, part)| {
        arrays.put(name, &device.download(part)?);
        Ok(())
    })
}

/// The same back, into buffers of the same lengths.
pub fn restore_parts<'b>(
    device: &Device,
    parts: impl IntoIterator<Item = (&'static str, &'b mut Buffer)>,
    arrays: &Arrays,
) -> std::result::Result<(), String> {
    for (name, part) in parts {
        *part = device.adopt(arrays.get_exactly(name, part.len())?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(seed: &str) -> BTreeMap<String, String> {
        [("policy", "builtin:swing-up"), ("seed", seed)]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into()
    }

    fn arrays() -> Arrays {
        let mut arrays = Arrays::default();
        arrays.put("floats", &[1.5f32, f32::NEG_INFINITY, -0.0]);
        arrays.put("doubles", &[0.1f64, f64::NAN]);
        arrays.put("counts", &[7u32]);
        arrays.put::<f32>("nothing", &[]);
        arrays
    }

    #[test]
    fn finishing_removes_what_was_saved_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("hambo-finish-{}", std::process::id()));
        let work = Checkpoints::open(&folder, identity("1"), Duration::ZERO).unwrap();
        assert!(!work.resumes());
        work.save("part", &arrays()).unwrap();
        assert!(work.resumes());
        for left in [".part.safetensors.12-3.tmp", ".identity.json.12-0.tmp"] {
            fs::write(folder.join(left), "ours").unwrap();
        }
        let own = fs::read(folder.join("part.safetensors")).unwrap();
        let others =
            Checkpoints::open(&folder.join("others"), identity("2"), Duration::ZERO).unwrap();
        others.save("part", &arrays()).unwrap();
        let theirs = fs::read(folder.join("others/part.safetensors")).unwrap();
        for (name, bytes) in
            [("agent.safetensors", &theirs), ("notes.tmp", &own), ("copy.bin", &own)]
        {
            fs::write(folder.join(name), bytes).unwrap();
        }
        work.finish().unwrap();
        let mut left: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["agent.safetensors", "copy.bin", "notes.tmp", "others"]);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_saved_comes_back_with_every_bit() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("unfinished");
        let open = || Checkpoints::open(&folder, identity("1"), Duration::ZERO).unwrap();
        assert!(open().load("part").unwrap().is_none());
        assert!(!folder.exists(), "nothing was saved yet");
        open().save("part", &arrays()).unwrap();
        let check = |a: &Arrays| {
            assert_eq!(a.get_exactly::<f32>("floats", 3)?[2].to_bits(), (-0.0f32).to_bits());
            assert!(a.get::<f64>("doubles")?[0] == 0.1 && a.get::<f64>("doubles")?[1].is_nan());
            assert_eq!(a.get::<u32>("counts")?, [7]);
            assert!(a.get_exactly::<f32>("nothing", 0)?.is_empty());
            assert_eq!(a.get::<f32>("counts").unwrap_err(), "`counts` is U32: expected F32");
            assert_eq!(
                a.get_exactly::<u32>("counts", 2).unwrap_err(),
                "`counts` has 1 numbers: expected 2"
            );
            Ok(())
        };
        let saved = open().load("part").unwrap().unwrap();
        assert!(saved.has("counts") && !saved.has("count"));
        saved.read(check).unwrap();
        let error = saved.read(|a| a.get::<u32>("count")).unwrap_err().to_string();
        assert!(
            error.contains("part.safetensors: `count` is missing; delete the folder to begin anew"),
            "{error}"
        );
        open().finish().unwrap();
        assert!(!folder.exists());
    }

    #[test]
    fn work_of_another_identity_is_refused_and_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("unfinished");
        Checkpoints::open(&folder, identity("1"), Duration::ZERO)
            .unwrap()
            .save("part", &arrays())
            .unwrap();
        let error =
            Checkpoints::open(&folder, identity("2"), Duration::ZERO).unwrap_err().to_string();
        assert!(
            error.contains("seed was 1, now it is 2. Run the same command as before"),
            "{error}"
        );
        // A part of other work under the right identity, as after copying files about.
        let own = Checkpoints::open(&folder, identity("1"), Duration::ZERO).unwrap();
        let other = place.path().join("other");
        let stranger = Checkpoints::open(&other, identity("2"), Duration::ZERO).unwrap();
        stranger.save("part", &arrays()).unwrap();
        fs::copy(other.join("part.safetensors"), folder.join("part.safetensors")).unwrap();
        let error = own.load("part").unwrap_err().to_string();
        assert!(error.contains("not a part of this work"), "{error}");
        fs::write(folder.join("part.safetensors"), b"half a fi").unwrap();
        let error = own.load("part").unwrap_err().to_string();
        assert!(error.contains("not a safetensors file, or a damaged one"), "{error}");
    }

    #[test]
    fn saving_waits_for_its_time() {
        let place = tempfile::tempdir().unwrap();
        let hour =
            Checkpoints::open(place.path(), identity("1"), Duration::from_secs(3600)).unwrap();
        assert!(!hour.due());
        let often =
            Checkpoints::open(place.path(), identity("1"), Duration::from_nanos(1)).unwrap();
        assert!(often.due());
        often.save("part", &arrays()).unwrap();
        assert!(!often.due(), "a fiftieth of the time at the most");
        let always = Checkpoints::open(place.path(), identity("1"), Duration::ZERO).unwrap();
        always.save("part", &arrays()).unwrap();
        assert!(always.due());
    }
}
