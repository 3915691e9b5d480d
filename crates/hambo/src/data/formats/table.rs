//! Tables, one row a step, into rows of a log.

use crate::data::Columns;
use crate::data::formats::columns::{ColumnNames, Places, listed};
use crate::data::log::{Format, Log};
use std::collections::HashSet;

/// Why a table cannot be read, in a sentence without the name of the file.
pub(crate) type Problem = String;

/// Rows as they come from a table.
pub(crate) struct Table {
    header: Vec<String>,
    pub(crate) places: Places,
    columns: Columns,
    /// The episode of the row before, and all that are over.
    episode: Option<String>,
    over: HashSet<String>,
    keep_not_finite: bool,
}

impl Table {
    /// An empty table with these columns.
    pub(crate) fn new(
        header: Vec<String>,
        names: &ColumnNames,
        keep_not_finite: bool,
    ) -> Result<Self, Problem> {
        let places = names.find(&header)?;
        let (state_dim, action_dim) = (places.state.len(), places.action.len());
        let columns = Columns { state_dim, action_dim, ..Columns::default() };
        Ok(Table { header, places, columns, episode: None, over: HashSet::new(), keep_not_finite })
    }

    /// Appends a row: `number` gives the value in a column, `line` names the row to the user, `episode` is the text
    /// in the column of that name.
    pub(crate) fn push(
        &mut self,
        line: &str,
        episode: Option<&str>,
        number: impl Fn(usize) -> Result<f64, Problem>,
    ) -> Result<(), Problem> {
        let (header, keep) = (&self.header, self.keep_not_finite);
        let wrong =
            |place: usize, what: String| format!("{line}, column `{}`: {what}", header[place]);
        let value = |place: usize| number(place).map_err(|what| wrong(place, what));
        let finite = |&place: &usize| {
            let wide = value(place)?;
            let narrow = wide as f32;
            match narrow.is_finite() || keep {
                true => Ok(narrow),
                false => Err(wrong(
                    place,
                    format!("{wide} is not a finite float32 number: remove or repair such rows"),
                )),
            }
        };
        let flag = |place: Option<usize>| {
            let Some(place) = place else { return Ok(false) };
            match value(place)? {
                v if v == 0.0 || v == 1.0 => Ok(v == 1.0),
                v => Err(wrong(place, format!("{v}: expected 0 or 1, true or false"))),
            }
        };
        let places = &self.places;
        let rows = &mut self.columns;
        for (list, values) in [
            (&places.state, &mut rows.states),
            (&places.action, &mut rows.actions),
            (&places.next, &mut rows.next_states),
        ] {
            for place in list {
                values.push(finite(place)?);
            }
        }
        rows.rewards.push(finite(&places.reward)?);
        let (terminal, timeout) = (flag(places.terminal)?, flag(places.timeout)?);
        if let (Some(place), Some(now)) = (places.episode, episode)
            && self.episode.as_deref() != Some(now)
        {
            if let Some(before) = self.episode.replace(now.to_owned()) {
                self.over.insert(before);
                if let (Some(timeout), Some(false)) =
                    (rows.timeouts.last_mut(), rows.terminals.last())
                {
                    *timeout = true; // the log goes on with another episode
                }
            }
            if self.over.contains(now) {
                return Err(wrong(
                    place,
                    format!(
                        "episode {now} begins again after others: sort the rows by episode and step"
                    ),
                ));
            }
        }
        rows.terminals.push(terminal);
        rows.timeouts.push(timeout);
        Ok(())
    }

    /// All rows as a log.
    pub(crate) fn finish(self, format: Format) -> Log {
        let Table { header, places, mut columns, .. } = self;
        let mut notes = Vec::new();
        let used: HashSet<usize> = places.all().into_iter().map(|(place, _)| place).collect();
        let unused: Vec<String> =
            (0..header.len()).filter(|i| !used.contains(i)).map(|i| header[i].clone()).collect();
        if !unused.is_empty() {
            notes.push(format!("columns not used: {}", listed(&unused)));
        }
        if places.terminal.is_none() {
            notes.push(
                "no terminal column: no transition is taken to end its episode for good".into(),
            );
        }
        if places.timeout.is_none() && places.episode.is_none() {
            columns.timeouts.clear(); // unknown, which is not the same as none
        }
        Log::of_rows(format, columns, notes)
    }
}
