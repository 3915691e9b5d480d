//! Tables, one row a step, into rows of a log.

use crate::data::Columns;
use crate::data::ReadOptions;
use crate::data::formats::columns::{Places, listed};
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
    /// An empty table with the columns that `options` name.
    pub(crate) fn of_options(header: Vec<String>, options: &ReadOptions) -> Result<Self, Problem> {
        let places = options.columns.find(&header, !options.without_rewards)?;
        Ok(Table::new(header, places, options.keep_not_finite))
    }

    /// An empty table with columns at these places.
    pub(crate) fn new(header: Vec<String>, places: Places, keep_not_finite: bool) -> Self {
        let (state_dim, action_dim) = (places.state.len(), places.action.len());
        let without_rewards = places.reward.is_none();
        let columns = Columns { state_dim, action_dim, without_rewards, ..Columns::default() };
        Table { header, places, columns, episode: None, over: HashSet::new(), keep_not_finite }
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
        rows.rewards.push(places.reward.as_ref().map_or(Ok(0.0), finite)?);
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

    /// Whether it has these columns in this order.
    #[cfg(feature = "parquet")]
    pub(crate) fn has_columns(&self, header: &[String], places: &Places) -> bool {
        self.header == header && self.places == *places
    }

    /// Numbers of rows and of episodes, as the column of their numbers tells them.
    #[cfg(feature = "parquet")]
    pub(crate) fn counts(&self) -> [usize; 2] {
        [self.columns.rewards.len(), self.over.len() + usize::from(self.episode.is_some())]
    }

    /// The rows as they came.
    pub(crate) fn into_rows(self) -> Columns {
        self.columns
    }

    /// The name of the column of terminal flags, if each episode's last row has one.
    #[cfg(feature = "parquet")]
    pub(crate) fn always_terminal(&self) -> Option<&str> {
        let name = self.places.terminal.map(|place| self.header[place].as_str())?;
        let terminals = self.columns.terminals.iter().filter(|&&t| t).count();
        let [_, episodes] = self.counts();
        let cut = self.columns.timeouts.iter().any(|&t| t);
        (!cut && terminals >= episodes && episodes > 0).then_some(name)
    }

    /// All rows as a log.
    pub(crate) fn finish(self, format: Format) -> Log {
        let Table { header, places, mut columns, .. } = self;
        let mut notes = Vec::new();
        let used: Vec<usize> = places.all().into_iter().map(|(place, _)| place).collect();
        note_unused(&header, &used, &mut notes);
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

/// Names the columns that nothing was taken from: one may be what the user meant.
pub(crate) fn note_unused(header: &[String], used: &[usize], notes: &mut Vec<String>) {
    let unused: Vec<String> =
        (0..header.len()).filter(|i| !used.contains(i)).map(|i| header[i].clone()).collect();
    if !unused.is_empty() {
        notes.push(format!("columns not used: {}", listed(&unused)));
    }
}
