//! Pages of Parquet columns that take no more memory than their bytes in the file can fill.
//!
//! The reader beneath believes what the head of a page says of its size once unpacked, and of the number of values of a
//! dictionary, and the lists in that head. So heads are looked at before it sees them, and pages are taken from it as they
//! lie in the file, and unpacked here.

use crate::data::formats::thrift::Compact;
use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;
use std::fs::File;
use std::io::{Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Snappy's best: three bytes for a repetition of 64.
const LARGEST_EXPANSION: usize = 22;
/// Bytes of the head of a page, with the smallest and the largest of its values, at the most.
const LONGEST_HEAD: u64 = 32 << 10;

/// The pages of one column of a row group.
pub(crate) struct Pages {
    packed: SerializedPageReader<CheckedFile>,
    snappy: Option<snap::raw::Decoder>,
    /// Whether the dictionary has come that later pages may refer to.
    has_dictionary: bool,
    /// The next page, where it was looked at: the reader beneath would look for it by other ways than [`CheckedFile`].
    ahead: Option<Option<Page>>,
    /// How many more values the pages of this file may declare.
    values_left: Arc<AtomicU64>,
}

impl Pages {
    pub(crate) fn new(
        file: &Arc<File>,
        column: &ColumnChunkMetaData,
        rows: usize,
        values_left: &Arc<AtomicU64>,
    ) -> Result<Self> {
        let snappy = match column.compression() {
            Compression::UNCOMPRESSED => None,
            Compression::SNAPPY => Some(snap::raw::Decoder::new()),
            other => {
                let name = other.to_string(); // with settings in brackets
                let name = name.split('(').next().unwrap_or(&name);
                return Err(problem(format!(
                    "compressed by {name}: write the file uncompressed or with Snappy"
                )));
            }
        };
        let as_it_lies =
            column.clone().into_builder().set_compression(Compression::UNCOMPRESSED).build()?;
        let file = Arc::new(CheckedFile(file.clone()));
        Ok(Pages {
            packed: SerializedPageReader::new(file, &as_it_lies, rows, None)?,
            snappy,
            has_dictionary: false,
            ahead: None,
            values_left: values_left.clone(),
        })
    }

    /// `bytes`, unpacked after the first `plain` of them.
    fn unpack(&mut self, bytes: &[u8], plain: usize) -> Result<Option<Vec<u8>>> {
        let Some(decoder) = &mut self.snappy else { return Ok(None) };
        let (Some(plain), Some(packed)) = (bytes.get(..plain), bytes.get(plain..)) else {
            return Err(problem("a page is cut short".into()));
        };
        let mut all = plain.to_vec();
        if !packed.is_empty() {
            let length = snap::raw::decompress_len(packed)?;
            if length > packed.len().saturating_mul(LARGEST_EXPANSION) {
                return Err(problem(
                    "a page declares more than its bytes can hold: it is damaged".into(),
                ));
            }
            all.resize(plain.len() + length, 0);
            decoder.decompress(packed, &mut all[plain.len()..])?;
        }
        Ok(Some(all))
    }
}

impl Pages {
    fn unpacked(&mut self) -> Result<Option<Page>> {
        let Some(mut page) = self.packed.get_next_page()? else { return Ok(None) };
        let plain = match &page {
            Page::DataPageV2 { is_compressed: false, .. } => None,
            Page::DataPageV2 { def_levels_byte_len, rep_levels_byte_len, .. } => {
                Some(*def_levels_byte_len as usize + *rep_levels_byte_len as usize)
            }
            Page::DataPage { .. } | Page::DictionaryPage { .. } => Some(0),
        };
        let (Page::DataPage { buf, .. }
        | Page::DataPageV2 { buf, .. }
        | Page::DictionaryPage { buf, .. }) = &mut page;
        if let Some(plain) = plain
            && let Some(bytes) = self.unpack(buf, plain)?
        {
            *buf = bytes.into();
        }
        if let Page::DictionaryPage { buf, num_values, .. } = &page
            && *num_values as usize > buf.len()
        {
            return Err(problem(format!(
                "a dictionary of {num_values} values in {} bytes",
                buf.len()
            )));
        }
        match page {
            Page::DictionaryPage { .. } => self.has_dictionary = true,
            _ if self.has_dictionary => (),
            _ if matches!(
                page.encoding(),
                Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY
            ) =>
            {
                return Err(problem(
                    "refers to a dictionary that is not there: it is damaged".into(),
                ));
            }
            _ => (),
        }
        // Texts so encoded declare their number once more, and nothing checks it.
        if let encoding @ (Encoding::DELTA_LENGTH_BYTE_ARRAY | Encoding::DELTA_BYTE_ARRAY) =
            page.encoding()
        {
            return Err(problem(format!(
                "text encoded as {encoding}: write it plain or with a dictionary"
            )));
        }
        // A list may have any number of equal values for a few bytes, and rows do not limit them.
        let left = self.values_left.load(Ordering::Relaxed).checked_sub(page.num_values().into());
        let left = left.ok_or_else(|| {
            problem("declares more values than a file of this size can tell: it is damaged, or hardly one differs".into())
        })?;
        self.values_left.store(left, Ordering::Relaxed);
        Ok(Some(page))
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        match self.ahead.take() {
            Some(page) => Ok(page),
            None => self.unpacked(),
        }
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        if self.ahead.is_none() {
            self.ahead = Some(self.unpacked()?);
        }
        let page = self.ahead.as_ref().and_then(Option::as_ref);
        Ok(page.map(|page| PageMetadata {
            num_rows: match page {
                Page::DataPageV2 { num_rows, .. } => Some(*num_rows as usize),
                _ => None,
            },
            num_levels: Some(page.num_values() as usize),
            is_dict: page.is_dictionary_page(),
        }))
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.get_next_page().map(drop)
    }
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

/// A file from which only sound heads of pages are read. (Where pages are skipped or looked at the reader beneath asks for other
/// places in this way, too: [`Pages`] never lets it.)
struct CheckedFile(Arc<File>);

impl Length for CheckedFile {
    fn len(&self) -> u64 {
        Length::len(&*self.0)
    }
}

impl ChunkReader for CheckedFile {
    type T = Cursor<Vec<u8>>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        let mut head = Vec::new();
        self.0.get_read(start)?.take(LONGEST_HEAD).read_to_end(&mut head)?;
        if !Compact(&head).begin_with_a_structure() {
            return Err(problem("the head of a page makes no sense: it is damaged".into()));
        }
        Ok(Cursor::new(head))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.0.get_bytes(start, length)
    }
}

fn problem(text: String) -> ParquetError {
    ParquetError::General(text)
}
