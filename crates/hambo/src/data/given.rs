//! Data that are in memory already: arrays, or a table with named columns.

use super::Columns;
use super::formats::table::Table;
use super::log::{Format, Log, Logs};
use super::read::ReadOptions;
use super::transitions::Transitions;
use crate::{Error, Result};
use hambo_engine::rng::Stream;

/// A column of a table in memory.
#[derive(Clone, Debug)]
pub enum TableColumn {
    /// Numbers, and flags as 0 and 1.
    Numbers(Vec<f64>),
    /// Text, such as the names of episodes.
    Text(Vec<String>),
}

impl TableColumn {
    fn len(&self) -> usize {
        match self {
            TableColumn::Numbers(numbers) => numbers.len(),
            TableColumn::Text(texts) => texts.len(),
        }
    }

    fn number(&self, row: usize) -> std::result::Result<f64, String> {
        match self {
            TableColumn::Numbers(numbers) => Ok(numbers[row]),
            TableColumn::Text(texts) => Err(format!("{:?}: expected a number", texts[row])),
        }
    }

    fn text(&self, row: usize) -> String {
        match self {
            TableColumn::Numbers(numbers) => numbers[row].to_string(),
            TableColumn::Text(texts) => texts[row].clone(),
        }
    }
}

impl Logs {
    /// Rows of episodes one after another, read as those of an NPZ file are: `next_states` may be empty (they are then
    /// the states of the next rows), and so may `timeouts`; `episode_starts` are found.
    pub fn from_rows(columns: Columns, options: &ReadOptions) -> Result<Logs> {
        let (n, ds) = (columns.rewards.len(), columns.state_dim);
        let sizes = [
            ("states", columns.states.len(), n * ds),
            ("actions", columns.actions.len(), n * columns.action_dim),
            ("terminals", columns.terminals.len(), n),
        ];
        let optional = [
            ("next states", columns.next_states.len(), n * ds),
            ("timeouts", columns.timeouts.len(), n),
        ];
        let optional = optional.into_iter().filter(|(_, len, _)| *len > 0);
        for (name, len, expected) in sizes.into_iter().chain(optional) {
            if len != expected {
                let problem = format!("{name} hold {len} values, but {n} rewards need {expected}");
                return Err(Error::Data(problem));
            }
        }
        if ds == 0 || columns.action_dim == 0 || n < 2 {
            Transitions::new(columns)?; // says what is missing
            return Err(Error::Data(format!("{n} rows: at least 2 are needed")));
        }
        in_memory(Log::of_rows(Format::NpzRows, columns, Vec::new()), options)
    }

    /// A table, read as a CSV file with these columns is.
    pub fn from_table(columns: &[(String, TableColumn)], options: &ReadOptions) -> Result<Logs> {
        let header: Vec<String> = columns.iter().map(|(name, _)| name.clone()).collect();
        let rows = columns.first().map_or(0, |(_, column)| column.len());
        if let Some((name, column)) = columns.iter().find(|(_, column)| column.len() != rows) {
            let problem = format!("column `{name}` has {} rows, others {rows}", column.len());
            return Err(Error::Data(problem));
        }
        let options = ReadOptions { keep_not_finite: false, ..options.clone() };
        let mut table = Table::of_options(header, &options).map_err(Error::Data)?;
        for row in 0..rows {
            let episode = table.places.episode.map(|place| columns[place].1.text(row));
            table
                .push(&format!("row {row}"), episode.as_deref(), |at| columns[at].1.number(row))
                .map_err(Error::Data)?;
        }
        in_memory(table.finish(Format::Csv), &options)
    }
}

/// The checked logs, without copies of episodes, or the part of them that is asked for.
fn in_memory(mut log: Log, options: &ReadOptions) -> Result<Logs> {
    log.drop_copies();
    if let Some(subsample) = options.subsample {
        log.subsample(subsample, Stream::new(options.seed).child("subsample"));
    }
    let (notes, rows) = (log.notes, log.rows);
    let transitions = Transitions::new(log.columns).map_err(|e| match e {
        Error::Data(problem) => {
            let remarks: String = notes.iter().map(|n| format!("; {n}")).collect();
            Error::Data(format!("{problem} ({rows} rows{remarks})"))
        }
        other => other,
    })?;
    Ok(Logs { transitions, paths: Vec::new(), format: None, notes, sha256: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Two episodes of four rows, the second of which ends for good.
    fn rows() -> Columns {
        Columns {
            state_dim: 1,
            action_dim: 1,
            states: vec![0.0, 0.5, 1.0, 1.5, 3.0, 3.25, 3.5, 4.0],
            actions: vec![0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.5, 0.0],
            rewards: vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0],
            terminals: vec![false, false, false, false, false, false, false, true],
            timeouts: vec![false, false, false, true, false, false, false, false],
            ..Columns::default()
        }
    }

    #[test]
    fn a_table_in_memory_is_read_as_the_same_file() {
        let rows = rows();
        let path = std::env::temp_dir().join(format!("hambo-given-{}.csv", std::process::id()));
        let line = |i: usize| {
            let flag = |b: bool| u8::from(b);
            format!(
                "{},{},{},{},{}\n",
                rows.states[i],
                rows.actions[i],
                rows.rewards[i],
                flag(rows.terminals[i]),
                flag(rows.timeouts[i])
            )
        };
        let text: String = (0..8).map(line).collect();
        fs::write(&path, format!("s0,a0,reward,terminal,timeout\n{text}")).unwrap();
        let read = Logs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let wide = |x: &[f32]| TableColumn::Numbers(x.iter().map(|&x| x.into()).collect());
        let flags =
            |x: &[bool]| TableColumn::Numbers(x.iter().map(|&x| f64::from(u8::from(x))).collect());
        let columns = [
            ("s0", wide(&rows.states)),
            ("a0", wide(&rows.actions)),
            ("reward", wide(&rows.rewards)),
            ("terminal", flags(&rows.terminals)),
            ("timeout", flags(&rows.timeouts)),
        ]
        .map(|(name, column)| (name.to_owned(), column));
        let table = Logs::from_table(&columns, &ReadOptions::default()).unwrap();
        assert_eq!((&table.transitions, &table.notes), (&read.transitions, &read.notes));
        let arrays = Logs::from_rows(rows, &ReadOptions::default()).unwrap();
        assert_eq!((&arrays.transitions, arrays.notes), (&read.transitions, read.notes));
        assert_eq!(arrays.transitions.len(), 6);
    }

    #[test]
    fn wrong_sizes_and_numbers_are_named() {
        let told =
            |columns| Logs::from_rows(columns, &ReadOptions::default()).unwrap_err().to_string();
        let short = Columns { actions: vec![0.0; 7], ..rows() };
        assert_eq!(told(short), "data: actions hold 7 values, but 8 rewards need 8");
        let mut broken = rows();
        broken.states[2] = f32::NAN;
        assert!(told(broken).contains("states"));
        assert!(told(Columns::default()).contains("at least one"));
        let columns = [("s0".to_owned(), TableColumn::Text(vec!["x".to_owned()]))];
        let problem = Logs::from_table(&columns, &ReadOptions::default()).unwrap_err().to_string();
        assert!(problem.starts_with("data: no column for"), "{problem}");
    }
}
