//! Data files of any known format, recognized by what is in them; several as one data set, or a part of it.

use super::Columns;
use super::formats::columns::ColumnNames;
use super::formats::hdf5::Source;
use super::formats::{Entry, csv, minari, npz};
use super::log::{Log, Logs};
use crate::{Error, Result};
use hambo_engine::files::{sha256, sha256_of};
use hambo_engine::rng::Stream;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Bytes at the start of a file that decide what it is.
const BEGINNING: usize = 1 << 16;
/// Where Minari keeps a data set's episodes within its folder.
const MINARI_FILES: [&str; 2] = ["data/main_data.hdf5", "main_data.hdf5"];
/// What names a data set of Minari's own store.
const MINARI: &str = "minari:";

/// How data files are read.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// Which columns of a table hold what; found by their usual names if left empty. Other formats name their arrays.
    pub columns: ColumnNames,
    /// Keep only a part.
    pub subsample: Option<Subsample>,
    /// Seed for choosing that part.
    pub seed: u64,
    /// Keep values that are not finite, for [`survey`](super::survey), which counts them; [`Logs::read_with`] refuses them anyway.
    pub keep_not_finite: bool,
}

/// A part of a data set, chosen at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subsample {
    /// Whole episodes until there are this many transitions; the last one chosen is cut to fit.
    Episodes(usize),
    /// This many single transitions. Without their neighbors, what is left of an episode is short.
    Rows(usize),
}

impl FromStr for Subsample {
    type Err = Error;

    /// `N`, or `rows:N`.
    fn from_str(text: &str) -> Result<Self> {
        let (rows, number) = text.strip_prefix("rows:").map_or((false, text), |rest| (true, rest));
        match number.parse() {
            Ok(n) if n >= 2 && rows => Ok(Subsample::Rows(n)),
            Ok(n) if n >= 2 => Ok(Subsample::Episodes(n)),
            _ => Err(Error::setting(
                "subsample",
                text,
                "a number of transitions, at least 2, to keep whole episodes, or rows:NUMBER to keep single transitions",
            )),
        }
    }
}

impl Logs {
    /// Reads one data set: a file of any [`Format`](super::Format), a Minari data-set folder, or
    /// `minari:namespace/name-v0`, which is looked up in `MINARI_DATASETS_PATH` or else in `~/.minari/datasets`.
    ///
    /// ```
    /// use hambo::data::Logs;
    ///
    /// let path = std::env::temp_dir().join(format!("hambo-read-{}.csv", std::process::id()));
    /// std::fs::write(&path, "ep,s0,a0,reward\n1,0.0,1.0,0.0\n1,0.5,1.0,0.1\n1,1.0,1.0,0.2\n")?;
    /// let logs = Logs::read(&path)?;
    /// assert_eq!(logs.transitions.next_states(), [0.5, 1.0]);
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read(path: impl AsRef<Path>) -> Result<Logs> {
        Logs::read_with(&[path], &ReadOptions::default())
    }

    /// Reads several files as one data set, in this order. Their sizes must agree; their formats need not.
    pub fn read_with<P: AsRef<Path>>(paths: &[P], options: &ReadOptions) -> Result<Logs> {
        let (first, mut all) = read_logs(paths, options)?;
        if let Some(subsample) = options.subsample {
            all.subsample(subsample, Stream::new(options.seed).child("subsample"));
        }
        let logs = all.check(first)?;
        let paths_read = paths.iter().map(|path| path.as_ref().to_owned()).collect();
        Ok(Logs { paths: paths_read, sha256: Some(digest(paths)?), ..logs })
    }
}

/// All files as one log, not yet checked, with the first of the paths.
pub(super) fn read_logs<'a, P: AsRef<Path>>(
    paths: &'a [P],
    options: &ReadOptions,
) -> Result<(&'a Path, Log)> {
    let Some((first, others)) = paths.split_first() else {
        return Err(Error::Data("no data file was given".into()));
    };
    let first = first.as_ref();
    let mut all = read_log(&locate(first)?, options)?;
    let mut notes: Vec<(String, Vec<&Path>)> =
        all.notes.drain(..).map(|note| (note, vec![first])).collect();
    for path in others {
        let path = path.as_ref();
        let mut log = read_log(&locate(path)?, options)?;
        let sizes = |c: &Columns| (c.state_dim, c.action_dim);
        if sizes(&log.columns) != sizes(&all.columns) {
            let words =
                |(state, action)| format!("states of {state} and actions of {action} dimensions");
            return Err(Error::file(
                path,
                format!(
                    "{}, but {} has {}: files of one data set need the same sizes",
                    words(sizes(&log.columns)),
                    first.display(),
                    words(sizes(&all.columns))
                ),
            ));
        }
        for note in log.notes.drain(..) {
            match notes.iter_mut().find(|(known, _)| *known == note) {
                Some((_, files)) => files.push(path),
                None => notes.push((note, vec![path])),
            }
        }
        all.append(log);
    }
    all.notes =
        notes.into_iter().map(|(note, files)| attributed(note, &files, paths.len())).collect();
    all.drop_copies();
    Ok((first, all))
}

/// A remark, with the files that it is about if there are several.
fn attributed(note: String, files: &[&Path], all: usize) -> String {
    match files {
        _ if all == 1 => note,
        [file] => format!("{}: {note}", file.display()),
        _ if files.len() == all => format!("{note} (in each of {all} files)"),
        _ => format!("{note} (in {} of {all} files)", files.len()),
    }
}

/// The SHA-256 of a file (of a Minari data set, that of its main file); of several files, that of their digests in
/// hexadecimal one after another.
pub fn digest<P: AsRef<Path>>(paths: &[P]) -> Result<String> {
    let digests: Vec<String> =
        paths.iter().map(|path| sha256(&locate(path.as_ref())?)).collect::<Result<_>>()?;
    match &digests[..] {
        [one] => Ok(one.clone()),
        several => Ok(sha256_of(several.concat().as_bytes())),
    }
}

/// What is in a data file: datasets, arrays or columns; of a Minari data set only those of its first episode.
pub fn describe(path: &Path) -> Result<Vec<Entry>> {
    let path = locate(path)?;
    match Kind::of(&path)? {
        Kind::Hdf5 => {
            let source = Source::open(&path)?;
            // The episodes of a Minari file are alike, and there may be thousands.
            let first = minari::episodes(&source).first().map(|&(_, group)| group);
            Ok(source.entries(first))
        }
        Kind::Zip => npz::entries(&path),
        #[cfg(feature = "parquet")]
        Kind::Parquet => super::formats::parquet::entries(&path),
        #[cfg(not(feature = "parquet"))]
        Kind::Parquet => Err(no_parquet(&path)),
        Kind::Csv(separator) => csv::entries(&path, separator),
    }
}

/// The text attributes at the root of an HDF5 file, in the order of their names; other files have none.
pub fn attributes(path: &Path) -> Result<Vec<(String, String)>> {
    let path = locate(path)?;
    match Kind::of(&path)? {
        Kind::Hdf5 => Source::open(&path)?.attributes(),
        _ => Ok(Vec::new()),
    }
}

/// The file that holds the data of a file, a Minari folder, or a name in Minari's store.
pub fn locate(path: &Path) -> Result<PathBuf> {
    if let Some(name) = path.to_str().and_then(|text| text.strip_prefix(MINARI)) {
        let store = match (std::env::var_os("MINARI_DATASETS_PATH"), std::env::home_dir()) {
            (Some(store), _) => PathBuf::from(store),
            (None, Some(home)) => home.join(".minari/datasets"),
            (None, None) => {
                return Err(Error::file(path, "no home folder: set MINARI_DATASETS_PATH"));
            }
        };
        let plain = |part| matches!(part, std::path::Component::Normal(_));
        if name.is_empty() || !Path::new(name).components().all(plain) {
            let problem = "not the name of a data set: expected minari:namespace/name-v0; name a file or folder as it is";
            return Err(Error::file(path, problem));
        }
        let file = store.join(name).join(MINARI_FILES[0]);
        return match file.is_file() {
            true => Ok(file),
            false => Err(Error::file(
                path,
                format!(
                    "no file {}: download it with `minari download {name}`, or set MINARI_DATASETS_PATH to the folder \
                     of data sets",
                    file.display()
                ),
            )),
        };
    }
    let metadata = std::fs::metadata(path).map_err(|e| Error::io(path, "read", e))?;
    if metadata.is_dir() {
        let file = MINARI_FILES.iter().map(|name| path.join(name)).find(|file| file.is_file());
        return file.ok_or_else(|| {
            Error::file(
                path,
                "a folder without data/main_data.hdf5: expected a Minari data set, or name its files",
            )
        });
    }
    match metadata.is_file() {
        true => Ok(path.to_owned()),
        false => Err(Error::file(path, "not a regular file: expected a data file")),
    }
}

/// The kind of a file, by its first bytes.
enum Kind {
    Hdf5,
    Zip,
    Parquet,
    /// With the separator of its fields.
    Csv(u8),
}

impl Kind {
    fn of(path: &Path) -> Result<Kind> {
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
        let separator = first_line(&start).and_then(csv::separator);
        separator.map(Kind::Csv).ok_or_else(|| {
            Error::file(
                path,
                "not an HDF5 file, or a damaged one; nor NPZ, Parquet, or CSV with the names of its columns in the \
                 first line",
            )
        })
    }
}

/// The first line, if it is text.
fn first_line(start: &[u8]) -> Option<&str> {
    let line = start.split(|&b| b == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?.trim_end();
    line.chars().all(|c| c == '\t' || !c.is_control()).then_some(line)
}

fn read_log(path: &Path, options: &ReadOptions) -> Result<Log> {
    let kind = Kind::of(path)?;
    if !options.columns.is_empty() && !matches!(kind, Kind::Csv(_) | Kind::Parquet) {
        return Err(Error::file(
            path,
            "column names are for CSV and Parquet: this file names its own arrays",
        ));
    }
    match kind {
        Kind::Hdf5 => {
            let mut source = Source::open(path)?;
            source.keep_not_finite = options.keep_not_finite;
            match &minari::episodes(&source)[..] {
                [] => Log::read_d4rl(&source),
                episodes => {
                    let log = Log::read_minari(&source, episodes)?;
                    minari::check_totals(path, episodes.len(), log.rows)?;
                    Ok(log)
                }
            }
        }
        Kind::Zip => Log::read_npz(path, options.keep_not_finite),
        #[cfg(feature = "parquet")]
        Kind::Parquet => Log::read_parquet(path, options),
        #[cfg(not(feature = "parquet"))]
        Kind::Parquet => Err(no_parquet(path)),
        Kind::Csv(separator) => Log::read_csv(path, separator, options),
    }
}

#[cfg(not(feature = "parquet"))]
fn no_parquet(path: &Path) -> Error {
    Error::file(
        path,
        "Parquet is not built in: build with `--features parquet`, or convert the file to CSV or NPZ",
    )
}

impl Log {
    /// Keeps a random part, in the order of the log.
    pub(super) fn subsample(&mut self, subsample: Subsample, stream: Stream) {
        let all = self.columns.rewards.len();
        let (Subsample::Episodes(n) | Subsample::Rows(n)) = subsample;
        if n >= all {
            self.notes.push(format!("all {all} transitions kept: {n} were asked for"));
            return;
        }
        let mut generator = stream.generator();
        let mut keep = vec![false; all];
        match subsample {
            Subsample::Rows(_) => {
                let mut rows: Vec<usize> = (0..all).collect();
                generator.shuffle(&mut rows);
                rows[..n].iter().for_each(|&row| keep[row] = true);
            }
            Subsample::Episodes(_) => {
                let starts = &self.columns.episode_starts;
                let ends = starts.iter().skip(1).copied().chain([all]);
                let mut episodes: Vec<_> = starts.iter().copied().zip(ends).collect();
                generator.shuffle(&mut episodes);
                let mut left = n;
                for (start, end) in episodes {
                    let kept = left.min(end - start);
                    keep[start..start + kept].fill(true);
                    left -= kept;
                }
            }
        }
        self.keep(&keep);
        let episodes = self.columns.episode_starts.len();
        self.notes.push(match subsample {
            Subsample::Rows(_) => format!(
                "{n} of {all} transitions kept, chosen one by one: they form {episodes} pieces of episodes"
            ),
            Subsample::Episodes(_) => {
                format!("{n} of {all} transitions kept, in {episodes} episodes chosen at random")
            }
        });
    }
}
