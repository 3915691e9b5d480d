//! CSV: a line of names, then a line a step, separated by commas, semicolons or tabs.

use crate::data::ReadOptions;
use crate::data::formats::Entry;
use crate::data::formats::table::Table;
use crate::data::log::{Format, Log};
use crate::{Error, Result};
use csv::{ErrorKind, Reader, ReaderBuilder, StringRecord, Trim};
use std::fs::File;
use std::path::Path;

/// Bytes of the name of a column, at the most.
const LONGEST_NAME: usize = 1000;

/// What separates the fields of a first line: the most frequent of comma, semicolon and tab; none if there is none.
pub(crate) fn separator(line: &str) -> Option<u8> {
    let count = |c: u8| line.bytes().filter(|&b| b == c).count();
    // Of equally many the first listed.
    [b'\t', b';', b','].into_iter().max_by_key(|&c| count(c)).filter(|&c| count(c) > 0)
}

/// The columns of a CSV file, each with its number of rows.
pub(crate) fn entries(path: &Path, separator: u8) -> Result<Vec<Entry>> {
    let mut reader = open(path, separator)?;
    let header = header(path, &mut reader)?;
    let mut rows = 0;
    let mut record = StringRecord::new();
    while reader.read_record(&mut record).map_err(|e| damaged(path, &e))? {
        rows += 1;
    }
    Ok(header
        .into_iter()
        .map(|path| Entry { path, shape: vec![rows], dtype: "text".into() })
        .collect())
}

impl Log {
    /// Reads a CSV file.
    pub(crate) fn read_csv(path: &Path, separator: u8, options: &ReadOptions) -> Result<Log> {
        let mut reader = open(path, separator)?;
        let fail = |problem: String| Error::file(path, problem);
        let mut table = Table::of_options(header(path, &mut reader)?, options).map_err(fail)?;
        let mut record = StringRecord::new();
        while reader.read_record(&mut record).map_err(|e| damaged(path, &e))? {
            let line = format!("line {}", record.position().map_or(0, |p| p.line()));
            let episode = table.places.episode.and_then(|place| record.get(place));
            table
                .push(&line, episode, |place| number(record.get(place).unwrap_or_default()))
                .map_err(fail)?;
        }
        Ok(table.finish(Format::Csv))
    }
}

fn open(path: &Path, separator: u8) -> Result<Reader<File>> {
    let file = File::open(path).map_err(|e| Error::io(path, "read", e))?;
    Ok(ReaderBuilder::new().delimiter(separator).trim(Trim::All).from_reader(file))
}

/// The names in the first line.
fn header(path: &Path, reader: &mut Reader<File>) -> Result<Vec<String>> {
    let header = reader.headers().map_err(|e| damaged(path, &e))?;
    if header.iter().all(|name| name.parse::<f64>().is_ok()) {
        return Err(Error::file(path, "line 1 holds numbers: expected the names of the columns"));
    }
    if let Some(name) = header.iter().find(|name| name.len() > LONGEST_NAME || name.contains('\n'))
    {
        let brief: String = name.chars().take_while(|c| !c.is_control()).take(60).collect();
        let problem =
            format!("line 1: a name of {} bytes, `{brief}…`: is a quote not closed?", name.len());
        return Err(Error::file(path, problem));
    }
    // Some programs begin a file with a mark of its encoding.
    Ok(header.iter().map(|name| name.trim_start_matches('\u{feff}').to_owned()).collect())
}

fn number(text: &str) -> std::result::Result<f64, String> {
    match text {
        "" => Err("empty: expected a number".into()),
        _ if text.eq_ignore_ascii_case("true") => Ok(1.0),
        _ if text.eq_ignore_ascii_case("false") => Ok(0.0),
        _ => text.parse().map_err(|_| {
            let brief: String = text.chars().take(60).collect();
            format!("`{brief}` is not a number")
        }),
    }
}

fn damaged(path: &Path, error: &csv::Error) -> Error {
    let line = error.position().map_or(String::new(), |p| format!("line {}: ", p.line()));
    Error::file(
        path,
        match error.kind() {
            ErrorKind::UnequalLengths { expected_len, len, .. } => {
                format!("{line}{len} fields, where the lines before have {expected_len}")
            }
            ErrorKind::Utf8 { err, .. } => {
                format!("{line}field {} is not text in UTF-8", err.field() + 1)
            }
            ErrorKind::Io(e) => format!("{line}cannot read: {e}"),
            _ => format!("{line}{error}"),
        },
    )
}
