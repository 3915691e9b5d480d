//! Logs of long work, written while it goes on: CSV for people and programs, events for TensorBoard.

use crate::{Error, Result};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Figures of a run in its folder, `log.csv` and a file of events. Nothing is written before the first figure.
#[derive(Debug)]
pub struct Log {
    folder: PathBuf,
    /// Whether work goes on that was logged there before.
    resumed: bool,
    start: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Empty,
    Open(File, Events),
    /// The first problem; nothing is written after it.
    Broken(Option<Error>),
}

impl Log {
    /// A log in this folder, which exists. Where work is resumed, what was logged of it stays.
    pub fn new(folder: &Path, resumed: bool) -> Self {
        let (folder, start) = (folder.to_owned(), Instant::now());
        Log { folder, resumed, start, state: Mutex::new(State::Empty) }
    }

    /// Writes figures of one step of a stage, at once to the disk.
    pub fn figures(&self, stage: &str, step: usize, figures: &[(&str, f64)]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(problem) = self.write(&mut state, stage, step, figures) {
            *state = State::Broken(Some(problem));
        }
    }

    fn write(
        &self,
        state: &mut State,
        stage: &str,
        step: usize,
        figures: &[(&str, f64)],
    ) -> Result<()> {
        let path = self.folder.join("log.csv");
        let failed = |e| Error::io(&path, "write", e);
        if matches!(state, State::Empty) {
            // Opening a pipe would wait for whoever reads it.
            let there = path.metadata().ok();
            if there.as_ref().is_some_and(|there| !there.is_file()) {
                return Err(Error::file(
                    &path,
                    "not a plain file: move it away, or name another folder",
                ));
            }
            let goes_on = self.resumed && there.is_some_and(|there| there.len() > 0);
            let mut options = File::options();
            let mut csv = match goes_on {
                true => options.append(true).open(&path),
                false => options.write(true).create(true).truncate(true).open(&path),
            }
            .map_err(failed)?;
            if !goes_on {
                csv.write_all(b"seconds,stage,step,figure,value\n").map_err(failed)?;
            }
            *state = State::Open(csv, Events::create(&self.folder)?);
        }
        let State::Open(csv, events) = state else { return Ok(()) };
        let seconds = self.start.elapsed().as_secs_f64();
        let line =
            |(name, value): &(&str, f64)| format!("{seconds:.3},{stage},{step},{name},{value}\n");
        csv.write_all(figures.iter().map(line).collect::<String>().as_bytes()).map_err(failed)?;
        let names: Vec<String> =
            figures.iter().map(|(name, _)| format!("{stage}/{name}")).collect();
        let named: Vec<(&str, f64)> =
            names.iter().map(String::as_str).zip(figures.iter().map(|f| f.1)).collect();
        events.add(step, &named)
    }

    /// An error if something could not be written.
    pub fn check(&self) -> Result<()> {
        match &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Broken(problem) => problem.take().map_or(Ok(()), Err),
            _ => Ok(()),
        }
    }
}

/// A file of TensorBoard's events.
#[derive(Debug)]
pub struct Events {
    path: PathBuf,
    file: File,
}

impl Events {
    /// A new file in the folder; TensorBoard goes by the part of the name before the seconds, and puts the files of
    /// one folder together.
    pub fn create(folder: &Path) -> Result<Self> {
        let seconds = now();
        let name =
            |n: u64| folder.join(format!("events.out.tfevents.{}.hambo", seconds as u64 + n));
        let path = (0..).map(name).find(|path| !path.exists()).unwrap_or_else(|| name(0));
        let file = File::create(&path).map_err(|e| Error::io(&path, "write", e))?;
        let mut events = Events { path, file };
        events.append(&event(seconds, 0, |event| field(event, 3, b"brain.Event:2")))?;
        Ok(events)
    }

    /// Figures of one step.
    pub fn add(&mut self, step: usize, figures: &[(&str, f64)]) -> Result<()> {
        self.append(&event(now(), step as u64, |event| {
            let mut summary = Vec::new();
            for (name, figure) in figures {
                let mut value = Vec::new();
                field(&mut value, 1, name.as_bytes());
                value.push(2 << 3 | 5); // simple_value, a float
                value.extend((*figure as f32).to_le_bytes());
                field(&mut summary, 1, &value);
            }
            field(event, 5, &summary);
        }))
    }

    fn append(&mut self, event: &[u8]) -> Result<()> {
        self.file.write_all(&record(event)).map_err(|e| Error::io(&self.path, "write", e))
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}

/// A protocol buffer `Event` of TensorBoard: wall_time (1), step (2), and what `content` adds.
fn event(seconds: f64, step: u64, content: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut event = vec![1 << 3 | 1];
    event.extend(seconds.to_le_bytes());
    event.push(2 << 3);
    varint(&mut event, step);
    content(&mut event);
    event
}

/// A field of bytes in a protocol buffer.
fn field(to: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    to.push(number << 3 | 2);
    varint(to, bytes.len() as u64);
    to.extend(bytes);
}

fn varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 128 {
        to.push(value as u8 | 128);
        value >>= 7;
    }
    to.push(value as u8);
}

/// A TFRecord: length, its checksum, the bytes, their checksum.
fn record(bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u64).to_le_bytes();
    [
        &length[..],
        &masked(crc32c(&length)).to_le_bytes(),
        bytes,
        &masked(crc32c(bytes)).to_le_bytes(),
    ]
    .concat()
}

fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C (Castagnoli), bit by bit: a few hundred bytes an evaluation.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// The check value of the CRC catalogue, and RFC 3720, B.4.
    #[test]
    fn checksums_are_those_of_the_standard() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    }

    #[test]
    fn figures_are_on_the_disk_at_once_and_nothing_before_them() {
        let folder = std::env::temp_dir().join(format!("hambo-logs-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let log = Log::new(&folder, false);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        log.figures("adversary", 5, &[("lowest", -1.5), ("neutral", 2.0)]);
        log.figures("model", 200, &[("loss", 0.25)]);
        let text = fs::read_to_string(folder.join("log.csv")).unwrap();
        let lines: Vec<&str> = text.lines().map(|line| line.split_once(',').unwrap().1).collect();
        assert_eq!(
            lines,
            [
                "stage,step,figure,value",
                "adversary,5,lowest,-1.5",
                "adversary,5,neutral,2",
                "model,200,loss,0.25"
            ]
        );
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        log.check().unwrap();
        // Work that is resumed keeps what was logged before, other work does not.
        Log::new(&folder, true).figures("model", 400, &[("loss", 0.125)]);
        let resumed = fs::read_to_string(folder.join("log.csv")).unwrap();
        assert!(
            resumed.starts_with(&text) && resumed.ends_with(",model,400,loss,0.125\n"),
            "{resumed}"
        );
        Log::new(&folder, false).figures("model", 1, &[("loss", 1.0)]);
        assert_eq!(fs::read_to_string(folder.join("log.csv")).unwrap().lines().count(), 2);
        fs::remove_dir_all(&folder).unwrap();
        let log = Log::new(&folder, false);
        log.figures("model", 1, &[("loss", 1.0)]);
        log.figures("model", 2, &[("loss", 1.0)]);
        assert!(log.check().unwrap_err().to_string().contains("log.csv: cannot write: "));
        log.check().unwrap();
    }

    /// The first record of every file that TensorFlow writes, but for the time: `brain.Event:2`.
    #[test]
    fn a_record_is_laid_out_as_tensorboard_reads_it() {
        let bytes = record(&event(0.0, 300, |e| field(e, 3, b"brain.Event:2")));
        assert_eq!(bytes[..8], 27u64.to_le_bytes());
        assert_eq!(bytes[12..24], [9, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0xac, 2]);
        assert_eq!(bytes[24..39], *b"\x1a\x0dbrain.Event:2");
        assert_eq!(bytes.len(), 8 + 4 + 27 + 4);
    }
}
