//! Values of Parquet columns: numbers, flags and text, lists of numbers, and lists of lists.

use parquet::basic::{ConvertedType, LogicalType, Repetition};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::schema::types::ColumnDescriptor;

/// Bytes of a text, which may be the name of an episode.
const LONGEST_TEXT: usize = 1000;

/// One value.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    Null,
    Number(f64),
    Text(String),
    List(Vec<f64>),
    /// Lists of one length, one after another.
    Rows {
        width: usize,
        values: Vec<f64>,
    },
}

impl Cell {
    pub(super) fn number(&self) -> Result<f64, String> {
        match self {
            Cell::Number(v) => Ok(*v),
            Cell::Null => Err("empty: expected a number".into()),
            Cell::Text(text) => {
                Err(format!("`{}` is not a number", text.chars().take(60).collect::<String>()))
            }
            Cell::List(_) | Cell::Rows { .. } => Err("a list: expected a number".into()),
        }
    }

    /// The number, or that in a list.
    pub(super) fn number_at(&self, place: usize) -> Result<f64, String> {
        match self {
            Cell::List(list) => list.get(place).copied().ok_or_else(|| "is missing".to_owned()),
            other => other.number(),
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            Cell::Null | Cell::Rows { .. } => String::new(),
            Cell::Number(v) => v.to_string(),
            Cell::Text(text) => text.clone(),
            Cell::List(list) => format!("{list:?}"),
        }
    }
}

/// What a column holds: its name without what lists add to it, and how deep its lists are.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub(super) name: String,
    /// The definition level from which on the list of each depth has an element.
    filled: Vec<i16>,
    deepest: i16,
}

impl Leaf {
    pub(super) fn of(column: &ColumnDescriptor, root: &parquet::schema::types::Type) -> Self {
        let (mut level, mut filled) = (0, Vec::new());
        let mut names: Vec<&str> = Vec::new();
        let (mut node, mut in_list) = (root, false);
        for part in column.path().parts() {
            let Some(child) = node.is_group().then(|| node.get_fields()).and_then(|fields| {
                fields.iter().find(|field| field.name() == part).map(|field| &**field)
            }) else {
                break;
            };
            node = child;
            let info = node.get_basic_info();
            let repetition = info.has_repetition().then(|| info.repetition());
            level += i16::from(repetition != Some(Repetition::REQUIRED) && repetition.is_some());
            if !in_list {
                names.push(part);
            }
            in_list |= info.converted_type() == ConvertedType::LIST
                || info.logical_type_ref() == Some(&LogicalType::List);
            if repetition == Some(Repetition::REPEATED) {
                filled.push(level);
                in_list = true;
            }
        }
        Leaf { name: names.join("."), filled, deepest: column.max_def_level() }
    }

    /// How many lists are around its numbers.
    pub(super) fn depth(&self) -> usize {
        self.filled.len()
    }
}

/// The next `count` values of a column.
pub(super) fn next_cells(
    column: &mut ColumnReader,
    leaf: &Leaf,
    count: usize,
) -> Result<Vec<Cell>, ParquetError> {
    let number = |v| Cell::Number(v);
    let is_list = leaf.depth() > 0;
    match column {
        ColumnReader::BoolColumnReader(r) if is_list => {
            lists(r, leaf, count, |v| f64::from(u8::from(*v)))
        }
        ColumnReader::Int32ColumnReader(r) if is_list => lists(r, leaf, count, |v| f64::from(*v)),
        ColumnReader::Int64ColumnReader(r) if is_list => lists(r, leaf, count, |v| *v as f64),
        ColumnReader::FloatColumnReader(r) if is_list => lists(r, leaf, count, |v| f64::from(*v)),
        ColumnReader::DoubleColumnReader(r) if is_list => lists(r, leaf, count, |v| *v),
        _ if is_list => Err(general("lists of something else than numbers or flags")),
        ColumnReader::BoolColumnReader(r) => {
            cells(r, count, |v| Ok(number(f64::from(u8::from(*v)))))
        }
        ColumnReader::Int32ColumnReader(r) => cells(r, count, |v| Ok(number(f64::from(*v)))),
        ColumnReader::Int64ColumnReader(r) => cells(r, count, |v| Ok(number(*v as f64))),
        ColumnReader::FloatColumnReader(r) => cells(r, count, |v| Ok(number(f64::from(*v)))),
        ColumnReader::DoubleColumnReader(r) => cells(r, count, |v| Ok(number(*v))),
        ColumnReader::ByteArrayColumnReader(r) => cells(r, count, |v| match v.data().len() {
            0..=LONGEST_TEXT => Ok(Cell::Text(String::from_utf8_lossy(v.data()).into_owned())),
            bytes => Err(general(&format!("a text of {bytes} bytes: expected numbers or names"))),
        }),
        _ => Err(general("expected numbers, flags or text")),
    }
}

fn cells<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    count: usize,
    cell: impl Fn(&T::T) -> Result<Cell, ParquetError>,
) -> Result<Vec<Cell>, ParquetError> {
    let mut all = Vec::new();
    while all.len() < count {
        let (mut values, mut levels) = (Vec::new(), Vec::new());
        let wanted = count - all.len();
        let (records, present, _) =
            reader.read_records(wanted, Some(&mut levels), None, &mut values)?;
        if records == 0 {
            return Err(general("fewer rows than are declared"));
        }
        if present == records {
            for value in &values {
                all.push(cell(value)?);
            }
        } else {
            // A value is there where its level is the deepest.
            let deepest = levels.iter().max().copied().unwrap_or(0).max(1);
            let mut values = values.iter();
            for level in levels {
                let value = if level == deepest { values.next() } else { None };
                all.push(value.map_or(Ok(Cell::Null), &cell)?);
            }
        }
    }
    all.truncate(count);
    Ok(all)
}

/// Lists, or lists of lists, each of `count` rows.
fn lists<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    leaf: &Leaf,
    count: usize,
    number: impl Fn(&T::T) -> f64,
) -> Result<Vec<Cell>, ParquetError> {
    let (mut values, mut defined, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
    let (records, ..) =
        reader.read_records(count, Some(&mut defined), Some(&mut repeated), &mut values)?;
    if records < count {
        return Err(general("fewer rows than are declared"));
    }
    let mut values = values.iter().map(number);
    let mut all: Vec<Nested> = Vec::new();
    for (defined, repeated) in defined.into_iter().zip(repeated) {
        if repeated == 0 {
            all.push(Nested::default());
        }
        let row = all.last_mut().ok_or_else(|| general("a list begins before its row"))?;
        // A list begins where the repetition is that of the one around it.
        if defined >= leaf.filled[0] && usize::from(repeated.unsigned_abs()) < leaf.depth() {
            row.close()?;
        }
        if defined == leaf.deepest {
            let value = values.next().ok_or_else(|| general("fewer numbers than are declared"))?;
            row.values.push(value);
            row.open += 1;
        } else if leaf.filled.last().is_some_and(|&filled| defined >= filled) {
            return Err(general("an empty place in a list: expected numbers"));
        }
    }
    if all.len() != count {
        return Err(general("other rows than are declared"));
    }
    all.into_iter()
        .map(|mut row| match leaf.depth() {
            1 => Ok(Cell::List(row.values)),
            _ => {
                row.close()?;
                Ok(Cell::Rows { width: row.width.unwrap_or(0), values: row.values })
            }
        })
        .collect()
}

/// A row of lists while it is read.
#[derive(Default)]
struct Nested {
    values: Vec<f64>,
    /// Length of the lists before the last, which have all the same, and of the last so far.
    width: Option<usize>,
    open: usize,
}

impl Nested {
    /// Ends the last list.
    fn close(&mut self) -> Result<(), ParquetError> {
        if self.open > 0 && *self.width.get_or_insert(self.open) != self.open {
            return Err(general("lists of different lengths within a row"));
        }
        self.open = 0;
        Ok(())
    }
}

fn general(text: &str) -> ParquetError {
    ParquetError::General(text.into())
}
