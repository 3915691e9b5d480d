//! The learning curve: one point an evaluation, as CSV and as TensorBoard's events.

use super::folder::Folder;
use crate::Result;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::time::{SystemTime, UNIX_EPOCH};

/// Where a training stood at an evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Steps made.
    pub step: usize,
    /// Episodes ended.
    pub episodes: u64,
    /// Mean return of the actor without its noise.
    pub value: f64,
    /// Its standard error.
    pub std_error: f64,
    /// Mean return of the episodes since the last evaluation, with the noise; none ended: none.
    pub exploring: Option<f64>,
    /// Sum of the critics' mean squared errors in the last update.
    pub critic_loss: f64,
    /// mean (α ln π − min Q) in the last update.
    pub actor_loss: f64,
    /// −mean ln π in the last update.
    pub entropy: f64,
    /// α
    pub temperature: f64,
}

const COLUMNS: [&str; 9] = [
    "step",
    "episodes",
    "return",
    "return_std_error",
    "return_exploring",
    "critic_loss",
    "actor_loss",
    "entropy",
    "temperature",
];

impl Point {
    /// All but step and episodes, in the order of [`COLUMNS`].
    fn figures(&self) -> [Option<f64>; 7] {
        let Point { value, std_error, exploring, critic_loss, actor_loss, entropy, temperature, .. } = *self;
        let known = [critic_loss, actor_loss, entropy, temperature].map(Some);
        [Some(value), Some(std_error), exploring, known[0], known[1], known[2], known[3]]
    }
}

/// The curve in its two files.
pub(super) struct Curve {
    pub points: Vec<Point>,
    events: File,
}

impl Curve {
    /// Goes on from earlier points. Events go to a file of their own each time, which TensorBoard puts together.
    pub fn new(folder: &Folder, points: Vec<Point>) -> Result<Self> {
        let seconds = now();
        let mut events = folder.create_events(seconds as u64)?;
        let version = event(seconds, 0, |event| field(event, 3, b"brain.Event:2"));
        folder.append_event(&mut events, &record(&version))?;
        Ok(Curve { points, events })
    }

    /// One more point, at once on the disk.
    pub fn add(&mut self, folder: &Folder, point: Point) -> Result<()> {
        let event = event(now(), point.step as u64, |event| {
            let mut summary = Vec::new();
            for (name, figure) in COLUMNS[2..].iter().zip(point.figures()) {
                let Some(figure) = figure else { continue };
                let mut value = Vec::new();
                field(&mut value, 1, name.as_bytes());
                value.push(2 << 3 | 5); // simple_value, a float
                value.extend((figure as f32).to_le_bytes());
                field(&mut summary, 1, &value);
            }
            field(event, 5, &summary);
        });
        folder.append_event(&mut self.events, &record(&event))?;
        self.points.push(point);
        folder.write("curve.csv", self.csv().into_bytes())
    }

    fn csv(&self) -> String {
        let mut text = COLUMNS.join(",") + "\n";
        for point in &self.points {
            let figures = point.figures().map(|x| x.map_or(String::new(), |x| x.to_string()));
            text += &format!("{},{},{}\n", point.step, point.episodes, figures.join(","));
        }
        text
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
    [&length[..], &masked(crc32c(&length)).to_le_bytes(), bytes, &masked(crc32c(bytes)).to_le_bytes()]
        .concat()
}

fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C (Castagnoli), bit by bit: a few hundred bytes an evaluation.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of the CRC catalogue, and RFC 3720, B.4.
    #[test]
    fn checksums_are_those_of_the_standard() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
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
