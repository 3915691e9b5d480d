//! Arrow's own files (also called Feather), not compressed: numbers and flags, lists of them, and records of these.

#[cfg(test)]
mod tests;

use crate::data::ReadOptions;
use crate::data::formats::Entry;
use crate::data::formats::flatbuffer::Record;
use crate::data::formats::table::Table;
use crate::data::log::{Format, Log};
use crate::{Error, Result};
use std::path::Path;

/// Records within records and lists at the most, and columns of a table.
const DEEPEST: usize = 8;
const MOST_COLUMNS: usize = 1 << 16;
const CUT_SHORT: &str = "a damaged Arrow file: it is cut short, or its description makes no sense";

/// What a column holds.
#[derive(Clone, Debug)]
enum Type {
    Int {
        bits: i32,
        signed: bool,
    },
    Float {
        bits: i32,
    },
    Bool,
    List {
        long: bool,
    },
    FixedList(usize),
    Struct,
    /// Text or bytes.
    Text,
    Null,
}

#[derive(Clone, Debug)]
struct Column {
    name: String,
    kind: Type,
    children: Vec<Column>,
}

/// Numbers of a column, the same count for every row.
struct Numbers {
    name: String,
    width: usize,
    is_list: bool,
    values: Vec<f64>,
}

/// The columns of an Arrow file, each with its number of rows.
pub(crate) fn entries(path: &Path) -> Result<Vec<Entry>> {
    let (columns, rows) = read(path)?;
    let entry = |c: Numbers| {
        let shape = if c.is_list { vec![rows, c.width] } else { vec![rows] };
        Entry { path: c.name, shape, dtype: "number".into() }
    };
    Ok(columns.into_iter().map(entry).collect())
}

/// The rows of a file, one a step.
pub(super) fn steps(path: &Path, options: &ReadOptions) -> Result<Table> {
    let (columns, rows) = read(path)?;
    let fail = |problem: String| Error::file(path, problem);
    let mut header = Vec::new();
    let mut parts = Vec::new();
    for (i, column) in columns.iter().enumerate() {
        if header.len() + column.width > MOST_COLUMNS {
            return Err(fail(format!(
                "column `{}` holds lists of {} numbers",
                column.name, column.width
            )));
        }
        for at in 0..column.width {
            header.push(match column.is_list {
                true => format!("{}[{at}]", column.name),
                false => column.name.clone(),
            });
            parts.push((i, at));
        }
    }
    let mut table = Table::of_options(header, options).map_err(fail)?;
    for row in 0..rows {
        let number = |place: usize| {
            let (column, at) = parts[place];
            Ok(columns[column].values[row * columns[column].width + at])
        };
        let episode = table.places.episode.map(|place| number(place).map(|n: f64| n.to_string()));
        let episode = episode.transpose().map_err(fail)?;
        table.push(&format!("row {row}"), episode.as_deref(), number).map_err(fail)?;
    }
    Ok(table)
}

impl Log {
    /// Reads an Arrow file.
    pub(crate) fn read_arrow(path: &Path, options: &ReadOptions) -> Result<Log> {
        Ok(steps(path, options)?.finish(Format::Arrow))
    }
}

/// All columns of numbers, and how many rows they have; those of text are left out.
fn read(path: &Path) -> Result<(Vec<Numbers>, usize)> {
    let bytes = std::fs::read(path).map_err(|e| Error::io(path, "read", e))?;
    batches(&bytes).map_err(|problem| Error::file(path, problem))
}

fn batches(bytes: &[u8]) -> std::result::Result<(Vec<Numbers>, usize), String> {
    let mut rest = bytes.strip_prefix(b"ARROW1\0\0").ok_or(CUT_SHORT)?;
    let mut schema: Option<Vec<Column>> = None;
    let (mut all, mut rows): (Vec<Numbers>, usize) = (Vec::new(), 0);
    while let Some((message, body, after)) = message(rest)? {
        rest = after;
        let header = message.record(2).ok_or(CUT_SHORT)?;
        match (message.byte(1), &schema) {
            (Some(1), None) => {
                if header.short(0).unwrap_or(0) != 0 {
                    return Err("an Arrow file in big-endian order, which is not read".into());
                }
                let fields = header.records(1).ok_or(CUT_SHORT)?;
                let mut left = MOST_COLUMNS;
                schema = Some(
                    fields
                        .into_iter()
                        .map(|f| column(f, 0, &mut left))
                        .collect::<std::result::Result<_, _>>()?,
                );
            }
            (Some(3), Some(schema)) => {
                if header.record(3).is_some() {
                    return Err(
                        "a compressed Arrow file: write it with compression=\"uncompressed\", or as Parquet".into()
                    );
                }
                let length =
                    header.long(0).and_then(|n| usize::try_from(n).ok()).ok_or(CUT_SHORT)?;
                let mut batch = Batch {
                    body,
                    nodes: header.pairs(1).ok_or(CUT_SHORT)?.into_iter(),
                    buffers: header.pairs(2).ok_or(CUT_SHORT)?.into_iter(),
                    found: Vec::new(),
                };
                for column in schema {
                    batch.column(column, &column.name, (length, 1, false))?;
                }
                match all.is_empty() {
                    true => all = batch.found,
                    false => join(&mut all, batch.found)?,
                }
                rows = rows.checked_add(length).ok_or(CUT_SHORT)?;
            }
            (Some(2), _) => {
                return Err(
                    "an Arrow file with dictionaries (categories): write these columns as numbers"
                        .into(),
                );
            }
            _ => return Err(CUT_SHORT.into()),
        }
    }
    Ok((all, rows))
}

fn join(all: &mut [Numbers], more: Vec<Numbers>) -> std::result::Result<(), String> {
    for (all, more) in all.iter_mut().zip(more) {
        if all.width != more.width {
            return Err(format!("column `{}` holds lists of different lengths", all.name));
        }
        all.values.extend(more.values);
    }
    Ok(())
}

type Message<'a> = (Record<'a>, &'a [u8], &'a [u8]);

/// The next message, its body, and what follows; none at the end.
fn message(bytes: &[u8]) -> std::result::Result<Option<Message<'_>>, String> {
    let length = |at: usize| {
        bytes
            .get(at..)
            .and_then(|b| b.first_chunk::<4>())
            .map(|b| u32::from_le_bytes(*b))
            .ok_or(CUT_SHORT)
    };
    if length(0)? != u32::MAX {
        return Err("an Arrow file of a version before 0.15, which is not read".into());
    }
    let size = length(4)? as usize;
    if size == 0 {
        return Ok(None);
    }
    let description = bytes.get(8..).and_then(|b| b.get(..size)).ok_or(CUT_SHORT)?;
    let record = Record::root(description).ok_or(CUT_SHORT)?;
    let body = usize::try_from(record.long(3).unwrap_or(0)).map_err(|_| CUT_SHORT)?;
    let rest = &bytes[8 + size..];
    match rest.get(..body) {
        Some(inside) => Ok(Some((record, inside, &rest[body..]))),
        None => Err(CUT_SHORT.into()),
    }
}

/// A column and those within it. Several places may lead to one description, so a short file could speak of columns without
/// end: of those that are `left` each takes one.
fn column(
    field: Record<'_>,
    depth: usize,
    left: &mut usize,
) -> std::result::Result<Column, String> {
    *left = left.checked_sub(1).ok_or("an Arrow file with more than 65536 columns")?;
    let name = field.text(0).unwrap_or_default().to_owned();
    let details = field.record(3);
    let int = |i: usize| details.and_then(|d| d.int(i)).unwrap_or(0);
    let kind = match field.byte(2).unwrap_or(0) {
        _ if depth > DEEPEST => return Err(CUT_SHORT.into()),
        _ if field.record(4).is_some() => {
            return Err(format!("column `{name}` holds categories: write it as numbers"));
        }
        1 => Type::Null,
        2 => Type::Int { bits: int(0), signed: details.and_then(|d| d.byte(1)) == Some(1) },
        3 => match details.and_then(|d| d.short(0)) {
            Some(1) => Type::Float { bits: 32 },
            Some(2) => Type::Float { bits: 64 },
            _ => return Err(format!("column `{name}` holds float16: write it as float32")),
        },
        4 | 5 | 19 | 20 => Type::Text,
        6 => Type::Bool,
        12 => Type::List { long: false },
        21 => Type::List { long: true },
        13 => Type::Struct,
        16 => Type::FixedList(usize::try_from(int(0)).map_err(|_| CUT_SHORT)?),
        other => {
            return Err(format!(
                "column `{name}` holds values of Arrow's type {other}: expected numbers, flags or lists of them"
            ));
        }
    };
    let children = field.records(5).ok_or(CUT_SHORT)?;
    let children: Vec<Column> = children
        .into_iter()
        .map(|child| column(child, depth + 1, left))
        .collect::<std::result::Result<_, _>>()?;
    if matches!(kind, Type::List { .. } | Type::FixedList(_)) && children.len() != 1 {
        return Err(CUT_SHORT.into());
    }
    Ok(Column { name, kind, children })
}

/// A part of the rows while it is read.
struct Batch<'a> {
    body: &'a [u8],
    nodes: std::vec::IntoIter<[i64; 2]>,
    buffers: std::vec::IntoIter<[i64; 2]>,
    found: Vec<Numbers>,
}

impl<'a> Batch<'a> {
    fn buffer(&mut self) -> std::result::Result<&'a [u8], String> {
        let [offset, length] = self.buffers.next().ok_or(CUT_SHORT)?;
        let place = usize::try_from(offset).ok().zip(usize::try_from(length).ok());
        let part = place.and_then(|(offset, length)| self.body.get(offset..)?.get(..length));
        part.ok_or_else(|| CUT_SHORT.into())
    }

    /// Reads a column of `rows` times `width` values, and those within it.
    fn column(
        &mut self,
        column: &Column,
        name: &str,
        (rows, width, is_list): (usize, usize, bool),
    ) -> std::result::Result<(), String> {
        let count = rows.checked_mul(width).ok_or(CUT_SHORT)?;
        let [length, nulls] = self.nodes.next().ok_or(CUT_SHORT)?;
        if usize::try_from(length) != Ok(count) {
            return Err(CUT_SHORT.into());
        }
        if matches!(column.kind, Type::Null) {
            return Ok(());
        }
        let _validity = self.buffer()?;
        let is_number = matches!(column.kind, Type::Int { .. } | Type::Float { .. } | Type::Bool);
        if nulls > 0 && is_number {
            return Err(format!("column `{name}` has {nulls} empty places: expected numbers"));
        }
        match &column.kind {
            Type::Null => Ok(()),
            Type::Text => {
                self.buffer()?;
                self.buffer()?;
                Ok(())
            }
            Type::Struct => column.children.iter().try_for_each(|child| {
                let name = format!("{name}.{}", child.name);
                self.column(child, &name, (rows, width, is_list))
            }),
            Type::FixedList(size) => {
                let width = width.checked_mul(*size).ok_or(CUT_SHORT)?;
                self.column(&column.children[0], name, (rows, width, true))
            }
            Type::List { long } => {
                let offsets = self.buffer()?;
                let size = equal_lengths(offsets, *long, count)
                    .ok_or_else(|| format!("column `{name}` holds lists of different lengths"))?;
                let width = width.checked_mul(size).ok_or(CUT_SHORT)?;
                self.column(&column.children[0], name, (rows, width, true))
            }
            kind => {
                let values = numbers(kind, self.buffer()?, count).ok_or(CUT_SHORT)?;
                self.found.push(Numbers { name: name.to_owned(), width, is_list, values });
                Ok(())
            }
        }
    }
}

/// The length of `count` lists with these offsets, if all have the same and the first begins at 0.
fn equal_lengths(offsets: &[u8], long: bool, count: usize) -> Option<usize> {
    if count == 0 {
        return Some(0);
    }
    let at = |i: usize| -> Option<i64> {
        match long {
            true => offsets.get(8 * i..)?.first_chunk::<8>().map(|b| i64::from_le_bytes(*b)),
            false => {
                offsets.get(4 * i..)?.first_chunk::<4>().map(|b| i32::from_le_bytes(*b).into())
            }
        }
    };
    let size = at(1)?.checked_sub(at(0)?).filter(|_| at(0) == Some(0))?;
    let equal =
        (1..=count).all(|i| at(i) == i64::try_from(i).ok().and_then(|i| i.checked_mul(size)));
    usize::try_from(size).ok().filter(|_| equal)
}

fn numbers(kind: &Type, bytes: &[u8], count: usize) -> Option<Vec<f64>> {
    let size = match kind {
        Type::Bool => {
            let bits = bytes.get(..count.div_ceil(8))?;
            return Some((0..count).map(|i| f64::from(bits[i / 8] >> (i % 8) & 1)).collect());
        }
        Type::Int { bits, .. } | Type::Float { bits } if [8, 16, 32, 64].contains(bits) => {
            *bits as usize / 8
        }
        _ => return None,
    };
    let bytes = bytes.get(..count.checked_mul(size)?)?;
    let value = |element: &[u8]| {
        let mut word = [0; 8];
        word[..size].copy_from_slice(element);
        let bits = u64::from_le_bytes(word);
        let unused = 64 - 8 * size as u32;
        match kind {
            Type::Float { bits: 32 } => f64::from(f32::from_bits(bits as u32)),
            Type::Float { .. } => f64::from_bits(bits),
            Type::Int { signed: true, .. } => ((bits << unused) as i64 >> unused) as f64,
            _ => bits as f64,
        }
    };
    Some(bytes.chunks_exact(size).map(value).collect())
}
