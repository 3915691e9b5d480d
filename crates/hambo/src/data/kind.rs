//! What a file is, by its first bytes and its name: a format that is read, or one whose name helps.

use super::formats::csv;
use crate::{Error, Result};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Bytes at the start of a file that decide what it is.
const BEGINNING: usize = 1 << 16;

/// The kind of a data file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Hdf5,
    Zip,
    Parquet,
    Arrow,
    /// With the separator of its fields.
    Csv(u8),
}

impl Kind {
    /// The kind of a file that can be read; an error says what it is otherwise, and what to do.
    pub(super) fn of(path: &Path) -> Result<Kind> {
        let file = File::open(path).map_err(|e| Error::io(path, "read", e))?;
        let mut start = Vec::new();
        file.take(BEGINNING as u64)
            .read_to_end(&mut start)
            .map_err(|e| Error::io(path, "read", e))?;
        let at = |place: usize, magic: &[u8]| {
            start.get(place..).is_some_and(|rest| rest.starts_with(magic))
        };
        // HDF5 allows a user block before its first bytes, of 512 bytes times a power of two.
        if [0, 512, 1024, 2048, 4096].into_iter().any(|place| at(place, b"\x89HDF\r\n\x1a\n")) {
            return Ok(Kind::Hdf5);
        }
        if at(0, b"PK\x03\x04") || at(0, b"PK\x05\x06") {
            return Ok(Kind::Zip);
        }
        if at(0, b"PAR1") {
            return Ok(Kind::Parquet);
        }
        if at(0, b"ARROW1\0\0") {
            return Ok(Kind::Arrow);
        }
        if let Some(advice) = other(path, &start) {
            return Err(Error::file(path, advice));
        }
        let separator = first_line(&start).and_then(csv::separator);
        separator.map(Kind::Csv).ok_or_else(|| {
            Error::file(
                path,
                "no log that can be read, or a damaged one: it is neither HDF5, NPZ, Parquet nor Arrow, nor CSV with the names \
                 of its columns in the first line",
            )
        })
    }

    /// What it is called.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Hdf5 => "HDF5",
            Kind::Zip => "NPZ or another zip archive",
            Kind::Parquet => "Parquet",
            Kind::Arrow => "Arrow",
            Kind::Csv(_) => "CSV",
        }
    }
}

/// What a file is that cannot be read, and what to do about it, in one line.
pub(crate) fn other(path: &Path, start: &[u8]) -> Option<&'static str> {
    const POINTER: &str = "a Git-LFS pointer, not the file itself: run `git lfs pull` in its repository, or download the file itself";
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_lowercase();
    let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    let begins = |magic: &[u8]| start.starts_with(magic);
    Some(match start {
        _ if begins(b"version https://git-lfs.github.com/spec/") => POINTER,
        _ if begins(b"\x93NUMPY") => {
            "one array of numpy (NPY): put all arrays into one file with numpy.savez(\"log.npz\", observations=…, actions=…, \
             rewards=…, terminals=…, timeouts=…)"
        }
        _ if begins(b"\x89MCAP0\r\n") => {
            "an MCAP recording: give the topics a common clock and write them as a table (mcap_ros2.reader and pandas: \
             one row a step, columns s0, …, a0, …, reward, episode)"
        }
        _ if begins(b"#ROSBAG V") => {
            "a rosbag of ROS 1: write its topics as a table, one row a step (bagpy or rosbags, then pandas.DataFrame.to_parquet)"
        }
        _ if begins(b"SQLite format 3\0") => {
            "an SQLite database, as ROS 2 bags are: write its topics as a table, one row a step (rosbags, then \
             pandas.DataFrame.to_parquet)"
        }
        [0x80, 2..=5, ..] => {
            "a Python pickle, which could run anything: nothing here loads one; load it where you trust it, and write its \
             arrays with numpy.savez(\"log.npz\", observations=…, actions=…, rewards=…, terminals=…, timeouts=…)"
        }
        _ if begins(b"\x1f\x8b") => "packed by gzip: unpack it first",
        _ if begins(b"\x28\xb5\x2f\xfd") => "packed by Zstandard: unpack it first",
        _ if is_tfrecord(start)
            || ends(&[".tfrecord", ".tfrecords"])
            || name.contains(".tfrecord-") =>
        {
            "a TFRecord file, as RLDS and TensorFlow data sets are: load it with tensorflow_datasets, and write its steps with \
             numpy.savez(\"log.npz\", observations=…, actions=…, rewards=…, terminals=…, timeouts=…)"
        }
        _ if ends(&[".ckpt.index", ".data-00000-of-00001"]) || name == "checkpoint" => {
            "a part of a TensorFlow checkpoint: it has weights without the network; export the policy to ONNX with tf2onnx"
        }
        _ if name == "saved_model.pb" => {
            "a TensorFlow SavedModel: export the policy to ONNX with `python -m tf2onnx.convert --saved-model FOLDER \
             --output policy.onnx`"
        }
        _ if name == ".zarray" || name == ".zgroup" || name == "zarr.json" => {
            "a part of a Zarr array: name its folder"
        }
        _ if begins(b"#{\"t_start\"") => {
            "what Monitor of Stable-Baselines3 writes: returns and lengths of training episodes, without states or actions; \
             it is not needed here"
        }
        _ if name.ends_with(".safetensors") => {
            "the weights of a network, not logs: it may be what --policy names"
        }
        [b'{' | b'[', ..] => {
            "JSON: write it as a table, one row a step (pandas.DataFrame(…).to_csv, columns s0, …, a0, …, reward, episode)"
        }
        [] => "an empty file: whatever wrote it did not finish",
        _ => return None,
    })
}

/// Length, its checksum, data: a record of a length that is in the file begins with these.
fn is_tfrecord(start: &[u8]) -> bool {
    let Some((length, rest)) = start.split_first_chunk::<8>() else { return false };
    let length = u64::from_le_bytes(*length);
    // A protocol buffer follows the checksum: tf.train.Example begins with its features.
    (1..1 << 30).contains(&length)
        && rest.get(4) == Some(&0x0a)
        && length > 2
        && rest.get(..4).is_some_and(|crc| {
            u32::from_le_bytes([crc[0], crc[1], crc[2], crc[3]]) == masked_crc(&start[..8])
        })
}

/// CRC-32C, masked as TensorFlow does.
fn masked_crc(bytes: &[u8]) -> u32 {
    let crc = !bytes.iter().fold(!0u32, |mut crc, &byte| {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
        crc
    });
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The first line, if it is text.
fn first_line(start: &[u8]) -> Option<&str> {
    let line = start.split(|&b| b == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?.trim_end();
    line.chars().all(|c| c == '\t' || !c.is_control()).then_some(line)
}
