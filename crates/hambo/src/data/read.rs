//! Data files of any known format, recognized by what is in them; several as one data set, or a part of it.

use super::Columns;
use super::formats::columns::ColumnNames;
use super::formats::hdf5::Source;
use super::formats::{Entry, arrow, csv, demos, minari, npz};
use super::kind::Kind;
use super::log::{Log, Logs};
use super::place::Place;
use crate::{Error, Result};
use hambo_engine::files::{sha256, sha256_of};
use hambo_engine::rng::Stream;
use std::path::{Path, PathBuf};
use std::str::FromStr;

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
    /// Also read logs without rewards: the task says them.
    pub without_rewards: bool,
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
    /// Reads one data set: a file of any [`Format`](super::Format), a folder of Minari or LeRobot, or
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
    let mut all = read_place(first, options)?;
    let mut notes: Vec<(String, Vec<&Path>)> =
        all.notes.drain(..).map(|note| (note, vec![first])).collect();
    for path in others {
        let path = path.as_ref();
        let mut log = read_place(path, options)?;
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
    if all.columns.without_rewards {
        all.notes.push(
            "no rewards in the log: an evaluation needs --reward EXPR, or a task that says them"
                .into(),
        );
    }
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

/// The SHA-256 of a file (of a Minari data set, that of its main file); of several files, or a folder of them, that of their
/// digests in hexadecimal one after another.
pub fn digest<P: AsRef<Path>>(paths: &[P]) -> Result<String> {
    let mut digests = Vec::new();
    for path in paths {
        for file in Place::of(path.as_ref())?.files() {
            digests.push(sha256(file)?);
        }
    }
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
            let first = minari::episodes(&source).first().map(|&(_, group)| group.to_owned());
            let first = first.or_else(|| demos::groups(&source).into_iter().next());
            Ok(source.entries(first.as_deref()))
        }
        Kind::Zip => npz::entries(&path),
        #[cfg(feature = "parquet")]
        Kind::Parquet => super::formats::parquet::entries(&path),
        #[cfg(not(feature = "parquet"))]
        Kind::Parquet => Err(no_parquet(&path)),
        Kind::Arrow => arrow::entries(&path),
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

/// The file that holds the data of a file, or the first one of a folder or a name in Minari's store.
pub fn locate(path: &Path) -> Result<PathBuf> {
    Ok(Place::of(path)?.first().to_owned())
}

/// Reads the log of a path.
fn read_place(path: &Path, options: &ReadOptions) -> Result<Log> {
    match Place::of(path)? {
        Place::File(file) => read_log(&file, options),
        #[cfg(feature = "parquet")]
        Place::LeRobot { files, info } => Log::read_lerobot(&files, &info, options),
        Place::MinariFolder { episodes, metadata } => {
            let log = Log::read_minari_folder(&episodes, options)?;
            minari::check_totals(&metadata, episodes.len(), log.rows)?;
            Ok(log)
        }
        #[cfg(not(feature = "parquet"))]
        Place::LeRobot { .. } => Err(no_parquet(path)),
    }
}

fn read_log(path: &Path, options: &ReadOptions) -> Result<Log> {
    let kind = Kind::of(path)?;
    let no_names = match options.columns.is_empty() {
        true => Ok(()),
        false => Err(Error::file(
            path,
            "column names are for CSV and Parquet: this file names its own arrays",
        )),
    };
    match kind {
        Kind::Hdf5 => {
            let mut source = Source::open(path)?;
            source.keep_not_finite = options.keep_not_finite;
            let demos = demos::groups(&source);
            if !demos.is_empty() {
                return Log::read_demos(&source, &demos, options);
            }
            no_names?;
            match &minari::episodes(&source)[..] {
                [] => Log::read_d4rl(&source, options.without_rewards),
                episodes => {
                    let log = Log::read_minari(&source, episodes)?;
                    minari::check_totals(path, episodes.len(), log.rows)?;
                    Ok(log)
                }
            }
        }
        Kind::Zip => no_names.and_then(|()| Log::read_npz(path, options)),
        #[cfg(feature = "parquet")]
        Kind::Parquet => Log::read_parquet(path, options),
        #[cfg(not(feature = "parquet"))]
        Kind::Parquet => Err(no_parquet(path)),
        Kind::Arrow => Log::read_arrow(path, options),
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
