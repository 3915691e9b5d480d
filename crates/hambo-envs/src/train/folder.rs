//! A training on disk.

use super::{CurvePoint, TrainConfig, Training};
use hambo::policy::Policy;
use hambo::run::checkpoint::Arrays;
use hambo::run::checkpoint::{restore_parts, store_parts};
use hambo::{Error, Result};
use hambo_engine::files::{Digest, Lock, make_folder, write_together};
use hambo_engine::rl::Transition;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const FORMAT: &str = "hambo-training/2";
const STATE: &str = "training.safetensors";
const REPLAY: &str = "replay.bin";

pub(super) struct Folder {
    path: PathBuf,
    /// No other process works in it meanwhile.
    _lock: Lock,
}

/// What to do about a file that cannot be used.
const DAMAGED: &str = "delete the folder to begin anew, or name another one";

/// The digest of the first bytes of a file, which is left behind them.
fn digest_of(file: &mut File, length: u64) -> std::io::Result<Digest> {
    let mut digest = Digest::default();
    let mut rest = file.take(length);
    let mut piece = vec![0; 1 << 16];
    loop {
        match rest.read(&mut piece) {
            Ok(0) => return Ok(digest),
            Ok(n) => digest.add_bytes(&piece[..n]),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// The state of a training, except the weights of its networks.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    env: String,
    config: TrainConfig,
    steps: usize,
    episodes: u64,
    updates: u32,
    /// SHA-256 of the transitions of these steps.
    replay_sha256: String,
    points: Vec<CurvePoint>,
}

impl Folder {
    /// The folder, made where it is missing.
    pub fn open(path: &Path) -> Result<Self> {
        make_folder(path)?;
        Ok(Folder { path: path.to_owned(), _lock: Lock::take(path)? })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn write(&self, name: &str, bytes: Vec<u8>) -> Result<()> {
        write_together(&[(self.path.join(name), bytes)])
    }

    pub fn save_policy(&self, policy: &Policy, name: &str) -> Result<()> {
        policy.save(&self.path.join(format!("{name}.safetensors")))
    }
}

impl Training<'_> {
    /// Saves the training: first the new transitions of the replay, then, in one write, the state that counts them.
    pub(super) fn save(&mut self, folder: &Folder, points: &[CurvePoint]) -> Result<()> {
        let path = folder.path.join(REPLAY);
        let bytes: Vec<u8> = self.unsaved.iter().flat_map(|x| x.to_le_bytes()).collect();
        let start = (self.steps * self.row()) as u64 * 4 - bytes.len() as u64;
        let mut options = OpenOptions::new();
        let written =
            options.create(true).truncate(false).write(true).open(&path).and_then(|mut file| {
                file.set_len(start)?; // an interrupted run may have left more
                file.seek(SeekFrom::Start(start))?;
                file.write_all(&bytes)?;
                file.sync_all()
            });
        written.map_err(|e| Error::io(&path, "write", e))?;
        self.replayed.add_bytes(&bytes);
        self.unsaved.clear();

        let path = folder.path.join(STATE);
        let description = Description {
            env: self.env.name.clone(),
            config: self.config.clone(),
            steps: self.steps,
            episodes: self.episodes,
            updates: self.config.updates(self.steps) as u32,
            replay_sha256: self.replayed.clone().finish(),
            points: points.to_vec(),
        };
        let text =
            serde_json::to_string(&description).map_err(|e| Error::file(&path, e.to_string()))?;
        let mut arrays = Arrays::default();
        store_parts(self.device, self.sac.parts(), &mut arrays)?;
        let file = arrays.to_file(&[("format", FORMAT), ("training", &text)]);
        folder.write(STATE, file.map_err(|problem| Error::file(&path, problem))?)
    }

    /// Resumes what was saved in the folder, if anything was, and returns the step it had reached.
    pub(super) fn resume(&mut self, folder: &Folder) -> Result<usize> {
        let path = folder.path.join(STATE);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(0),
            Err(e) => return Err(Error::io(&path, "read", e)),
        };
        let description = self.read_state(&bytes).map_err(|problem| Error::file(&path, problem))?;
        self.steps = description.steps;
        self.episodes = description.episodes;
        self.points = description.points;
        self.sac.set_updates(self.device, description.updates);
        self.read_replay(&folder.path.join(REPLAY), &description.replay_sha256)?;
        Ok(self.steps)
    }

    /// Restores the networks and returns the rest. The file is not trusted.
    fn read_state(&mut self, bytes: &[u8]) -> std::result::Result<Description, String> {
        let damaged = |problem: String| format!("{problem}; {DAMAGED}");
        let (arrays, header) = Arrays::from_file(bytes).map_err(damaged)?;
        if header.get("format").map(String::as_str) != Some(FORMAT) {
            return Err(format!(
                "`format` in its header is {:?}: expected {FORMAT:?}; {DAMAGED}",
                header.get("format")
            ));
        }
        let text = header.get("training").map_or("", String::as_str);
        let description: Description =
            serde_json::from_str(text).map_err(|e| format!("`training` in its header: {e}"))?;
        if description.env != self.env.name || description.config != *self.config {
            return Err(format!(
                "a training of {} with other settings ({}); use the same settings, or another folder",
                description.env,
                self.difference(&description)
            ));
        }
        if description.updates as usize != self.config.updates(description.steps) {
            return Err(format!(
                "{} updates after {} steps",
                description.updates, description.steps
            ));
        }
        restore_parts(self.device, self.sac.parts(), &arrays)?;
        for (name, part) in self.sac.parts() {
            let values = self.device.download(part).map_err(|e| e.to_string())?;
            if !values.iter().all(|x| x.is_finite()) {
                return Err(format!("`{name}` holds numbers that are not finite"));
            }
        }
        Ok(description)
    }

    /// Reads the transitions, which must have this digest, and keeps those that are still remembered.
    fn read_replay(&mut self, path: &Path, digest: &str) -> Result<()> {
        let row = self.row();
        let first = self.steps.saturating_sub(self.config.remembered as usize);
        let problem = |e| Error::io(path, "read the transitions", e);
        let mut file = File::open(path).map_err(problem)?;
        let length = file.metadata().map_err(problem)?.len();
        // Before the memory is asked for: the state's number of steps is not trusted.
        let expected = self.steps as u128 * row as u128 * 4;
        if u128::from(length) < expected {
            let text = format!(
                "{length} bytes: the state beside it counts {} steps, {expected} bytes; {DAMAGED}",
                self.steps
            );
            return Err(Error::file(path, text));
        }
        self.replayed = digest_of(&mut file, (first * row * 4) as u64).map_err(problem)?;
        let mut bytes = vec![0; (self.steps - first) * row * 4];
        file.read_exact(&mut bytes).map_err(problem)?;
        self.replayed.add_bytes(&bytes);
        if self.replayed.clone().finish() != digest {
            let text = "its bytes do not have the SHA-256 in the state beside it";
            return Err(Error::file(path, format!("damaged: {text}; {DAMAGED}")));
        }
        let (ds, da) = (self.env.task.state_dim, self.env.task.action_dim);
        for (number, bytes) in (first..).zip(bytes.chunks_exact(4 * row)) {
            let row: Vec<f32> = bytes
                .chunks_exact(4)
                .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
                .collect();
            if !row.iter().all(|x| x.is_finite()) {
                return Err(Error::file(
                    path,
                    format!("transition {number} holds numbers that are not finite"),
                ));
            }
            let transition = Transition {
                observation: &row[..ds],
                action: &row[ds..ds + da],
                reward: row[ds + da],
                continues: row[ds + da + 1] != 0.0,
                next_observation: &row[ds + da + 2..],
            };
            self.replay.put(self.device, number, &transition);
        }
        Ok(())
    }

    /// Numbers of a transition in the replay's file: observation, action, reward, continues, next observation.
    fn row(&self) -> usize {
        2 * self.env.task.state_dim + self.env.task.action_dim + 2
    }

    /// The first setting that differs, with both values.
    fn difference(&self, there: &Description) -> String {
        let here = serde_json::to_value(self.config).unwrap_or_default();
        let there = serde_json::to_value(&there.config).unwrap_or_default();
        let flat = |value: &serde_json::Value| {
            let mut fields = value.as_object().cloned().unwrap_or_default();
            if let Some(serde_json::Value::Object(update)) = fields.remove("update") {
                fields.extend(update);
            }
            fields
        };
        let (here, there) = (flat(&here), flat(&there));
        let differs = there.iter().find(|(name, value)| here.get(*name) != Some(*value));
        differs.map_or("another environment".to_owned(), |(name, value)| {
            format!(
                "{name} = {value} there, {} here",
                here.get(name).unwrap_or(&serde_json::Value::Null)
            )
        })
    }
}
