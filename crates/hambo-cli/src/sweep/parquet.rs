//! The table as a Parquet file.

use super::columns::{Cells, Column};
use ::parquet::basic::Compression;
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use ::parquet::errors::Result as Written;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use ::parquet::schema::parser::parse_message_type;
use hambo::{Error, Result};
use std::path::Path;
use std::sync::Arc;

/// The file's bytes; `path` is for errors.
pub fn parquet(columns: &[Column], path: &Path) -> Result<Vec<u8>> {
    file(columns).map_err(|e| Error::file(path, e.to_string()))
}

fn file(columns: &[Column]) -> Written<Vec<u8>> {
    let field = |column: &Column| {
        let kind = match column.cells {
            Cells::Text(_) => "BYTE_ARRAY",
            Cells::Number(_) => "DOUBLE",
            Cells::Count(_) => "INT64",
            Cells::Flag(_) => "BOOLEAN",
        };
        let is_text = matches!(column.cells, Cells::Text(_));
        format!("OPTIONAL {kind} {}{};", column.name, if is_text { " (UTF8)" } else { "" })
    };
    let fields: String = columns.iter().map(field).collect();
    let schema = Arc::new(parse_message_type(&format!("message sweep {{ {fields} }}"))?);
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for column in columns {
        let Some(mut into) = group.next_column()? else { break };
        match &column.cells {
            Cells::Text(cells) => {
                let bytes = |text: &String| ByteArray::from(text.as_str());
                write::<ByteArrayType, _>(&mut into, cells, bytes)?;
            }
            Cells::Number(cells) => write::<DoubleType, _>(&mut into, cells, |value| *value)?,
            Cells::Count(cells) => write::<Int64Type, _>(&mut into, cells, |value| *value)?,
            Cells::Flag(cells) => write::<BoolType, _>(&mut into, cells, |value| *value)?,
        }
        into.close()?;
    }
    group.close()?;
    writer.close()?;
    Ok(bytes)
}

/// Values one after another, and which cells have one.
fn write<D: DataType, T>(
    into: &mut SerializedColumnWriter<'_>,
    cells: &[Option<T>],
    value: impl Fn(&T) -> D::T,
) -> Written<()> {
    let values: Vec<D::T> = cells.iter().flatten().map(value).collect();
    let there: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
    into.typed::<D>().write_batch(&values, Some(&there), None).map(drop)
}
