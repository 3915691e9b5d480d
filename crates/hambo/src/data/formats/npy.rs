//! numpy's array format (NEP 1): a header in text, then the numbers. Pickled objects are refused, so nothing in
//! a file can run.

use crate::data::transitions::first_not_finite;
use std::io::Read;

/// Longest header that is read; numpy's own limit is 10 000 bytes.
const LONGEST_HEADER: usize = 1 << 16;
/// Bytes converted at a time.
const BLOCK: usize = 1 << 18;

/// Why an array cannot be read, in words.
pub(crate) type Problem = String;

/// What a header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// As numpy writes it: `<f4`, `|b1`, `|O`, …
    descr: String,
    fortran: bool,
    pub(crate) shape: Vec<usize>,
    /// Bytes before the numbers.
    length: u64,
}

/// How one number is stored.
#[derive(Clone, Copy)]
struct Kind {
    letter: u8,
    size: usize,
    big_endian: bool,
}

impl Header {
    /// Reads the header, and leaves the numbers to be read.
    pub(crate) fn read(reader: &mut impl Read) -> Result<Header, Problem> {
        let mut start = [0; 8];
        reader.read_exact(&mut start).map_err(cut_short)?;
        if start[..6] != *b"\x93NUMPY" {
            return Err("not in numpy's array format".into());
        }
        let (length, before) = match start[6] {
            1 => {
                let mut bytes = [0; 2];
                reader.read_exact(&mut bytes).map_err(cut_short)?;
                (usize::from(u16::from_le_bytes(bytes)), 10)
            }
            2 | 3 => {
                let mut bytes = [0; 4];
                reader.read_exact(&mut bytes).map_err(cut_short)?;
                (u32::from_le_bytes(bytes) as usize, 12)
            }
            other => {
                return Err(format!("version {other} of numpy's array format: expected 1, 2 or 3"));
            }
        };
        if length > LONGEST_HEADER {
            return Err(format!("a header of {length} bytes: expected at most {LONGEST_HEADER}"));
        }
        let mut bytes = vec![0; length];
        reader.read_exact(&mut bytes).map_err(cut_short)?;
        let text =
            std::str::from_utf8(&bytes).map_err(|_| "a header that is no text".to_owned())?;
        let (descr, fortran, shape) =
            parse(text).ok_or_else(|| format!("a header that cannot be read: {}", brief(text)))?;
        Ok(Header { descr, fortran, shape, length: (before + length) as u64 })
    }

    /// The element type in numpy's words.
    pub(crate) fn dtype(&self) -> String {
        let Ok(kind) = self.kind() else {
            return if self.is_object() { "object".into() } else { self.descr.clone() };
        };
        match kind.letter {
            b'b' => "bool".into(),
            b'f' => format!("float{}", kind.size * 8),
            b'i' => format!("int{}", kind.size * 8),
            _ => format!("uint{}", kind.size * 8),
        }
    }

    /// Rows and width of an array of one or two dimensions.
    pub(crate) fn extent(&self) -> Result<(usize, usize), Problem> {
        let extent = match self.shape[..] {
            [rows] => (rows, 1),
            [rows, width] => (rows, width),
            _ => return Err(format!("has shape {:?}: expected [n] or [n, width]", self.shape)),
        };
        match extent.0 == 0 || extent.1 == 0 {
            true => Err(format!("has shape {:?}: there is nothing in it", self.shape)),
            false => Ok(extent),
        }
    }

    /// Episodes, steps and width of an array of two or three dimensions.
    pub(crate) fn stack(&self) -> Result<[usize; 3], Problem> {
        let stack = match self.shape[..] {
            [episodes, steps] => [episodes, steps, 1],
            [episodes, steps, width] => [episodes, steps, width],
            _ => {
                return Err(format!(
                    "has shape {:?}: expected [episodes, steps, width] or [episodes, steps]",
                    self.shape
                ));
            }
        };
        match () {
            () if stack.contains(&0) => {
                Err(format!("has shape {:?}: there is nothing in it", self.shape))
            }
            () if self.fortran => {
                Err("is in Fortran order: save it by numpy.ascontiguousarray".into())
            }
            () => Ok(stack),
        }
    }

    /// All numbers in the order of the file, as float32.
    pub(crate) fn read_stack(
        &self,
        reader: &mut impl Read,
        keep_not_finite: bool,
    ) -> Result<Vec<f32>, Problem> {
        let mut values = Vec::new();
        self.for_each(reader, |v| values.push(v))?;
        match first_not_finite(&values).filter(|_| !keep_not_finite) {
            None => Ok(values),
            Some(i) => Err(format!(
                "is not a finite float32 number in place {i}: remove or repair such episodes"
            )),
        }
    }

    /// Bytes of the whole array, header included; none if that is no number a file can have.
    pub(crate) fn bytes(&self) -> Result<Option<u64>, Problem> {
        let size = self.kind()?.size as u64;
        let numbers = self.shape.iter().try_fold(size, |all, &d| all.checked_mul(d as u64));
        Ok(numbers.and_then(|bytes| bytes.checked_add(self.length)))
    }

    fn is_object(&self) -> bool {
        self.descr.ends_with('O')
    }

    fn kind(&self) -> Result<Kind, Problem> {
        let wrong = || {
            format!("holds {}: expected numbers (float32, float64, integers or bool)", self.descr)
        };
        if self.is_object() {
            return Err(
                "holds pickled Python objects, which are never read: save it as an array of numbers".into()
            );
        }
        let &[order, letter, digit @ b'1'..=b'8'] = self.descr.as_bytes() else {
            return Err(wrong());
        };
        let size = usize::from(digit - b'0');
        let known = match letter {
            b'f' => matches!(size, 4 | 8),
            b'i' | b'u' => matches!(size, 1 | 2 | 4 | 8),
            b'b' => size == 1,
            _ => false,
        };
        // One byte has no order; "=" stands for that of the machine that wrote it, which nobody knows here.
        let big_endian = match order {
            b'<' => false,
            b'>' => true,
            b'|' if size == 1 => false,
            _ => return Err(wrong()),
        };
        if known { Ok(Kind { letter, size, big_endian }) } else { Err(wrong()) }
    }

    /// Calls `each` with all numbers in the order of the file.
    ///
    /// Memory grows with what is really there, whatever the header declares.
    fn for_each(&self, reader: &mut impl Read, mut each: impl FnMut(f32)) -> Result<(), Problem> {
        let kind = self.kind()?;
        let mut left = self
            .shape
            .iter()
            .try_fold(kind.size, |all, &d| all.checked_mul(d))
            .ok_or("is too large")?;
        let mut block = vec![0; BLOCK.min(left)];
        while left > 0 {
            let bytes = &mut block[..BLOCK.min(left)]; // a multiple of every size
            reader.read_exact(bytes).map_err(cut_short)?;
            bytes.chunks_exact(kind.size).for_each(|b| each(kind.number(b)));
            left -= bytes.len();
        }
        Ok(())
    }

    /// All numbers, row by row, as float32; what is not finite is an error, unless it is to be kept.
    pub(crate) fn read_numbers(
        &self,
        reader: &mut impl Read,
        keep_not_finite: bool,
    ) -> Result<Vec<f32>, Problem> {
        let (rows, width) = self.extent()?;
        let mut values = Vec::new();
        self.for_each(reader, |v| values.push(v))?;
        if self.fortran && width > 1 {
            values = (0..rows * width).map(|i| values[i % width * rows + i / width]).collect();
        }
        match first_not_finite(&values).filter(|_| !keep_not_finite) {
            None => Ok(values),
            Some(i) => Err(format!(
                "in row {}, column {} is not a finite float32 number: remove or repair such rows",
                i / width,
                i % width
            )),
        }
    }

    /// All values as yes or no: bool, or numbers that are 0 or 1.
    pub(crate) fn read_flags(&self, reader: &mut impl Read) -> Result<Vec<bool>, Problem> {
        let mut flags = Vec::new();
        let mut wrong = None;
        self.for_each(reader, |v| {
            if v != 0.0 && v != 1.0 && wrong.is_none() {
                wrong = Some((flags.len(), v));
            }
            flags.push(v == 1.0);
        })?;
        match wrong {
            None => Ok(flags),
            Some((row, value)) => Err(format!("is {value} in row {row}: expected 0 or 1")),
        }
    }
}

impl Kind {
    fn number(self, bytes: &[u8]) -> f32 {
        let mut word = [0; 8];
        word[..self.size].copy_from_slice(bytes);
        if self.big_endian {
            word[..self.size].reverse();
        }
        let bits = u64::from_le_bytes(word);
        let unused = 64 - 8 * self.size as u32;
        match (self.letter, self.size) {
            (b'f', 4) => f32::from_bits(bits as u32),
            (b'f', _) => f64::from_bits(bits) as f32,
            (b'i', _) => (((bits << unused) as i64) >> unused) as f32, // the shift back extends the sign
            _ => bits as f32,
        }
    }
}

/// The three entries of a header, a Python dictionary of literals.
fn parse(text: &str) -> Option<(String, bool, Vec<usize>)> {
    let value = |key: &str| {
        let after = &text[text.find(key)? + key.len()..];
        after.trim_start().strip_prefix(':').map(str::trim_start)
    };
    let descr = value("'descr'")?;
    let descr = match descr.strip_prefix('\'') {
        Some(rest) => &rest[..rest.find('\'')?],
        None => brief(descr), // a list: a structured array, which no one reads here
    };
    let order = value("'fortran_order'")?;
    let fortran = order.starts_with("True");
    if !fortran && !order.starts_with("False") {
        return None;
    }
    let shape = value("'shape'")?.strip_prefix('(')?;
    let shape = shape[..shape.find(')')?].split(',').map(str::trim).filter(|d| !d.is_empty());
    let shape = shape.map(|d| d.parse().ok()).collect::<Option<_>>()?;
    Some((descr.to_owned(), fortran, shape))
}

/// The beginning of a text that may be of any length.
fn brief(text: &str) -> &str {
    let end = text.char_indices().nth(60).map_or(text.len(), |(i, _)| i);
    &text[..end]
}

fn cut_short(error: std::io::Error) -> Problem {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => "is cut short".into(),
        _ => format!("is damaged: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, numbers: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(numbers);
        bytes
    }

    fn numbers(header: &str, numbers: &[u8]) -> Result<Vec<f32>, Problem> {
        let bytes = file(header, numbers);
        let mut reader = &bytes[..];
        Header::read(&mut reader)?.read_numbers(&mut reader, false)
    }

    fn typed(descr: &str, bytes: &[u8]) -> Vec<f32> {
        let size = descr[2..].parse::<usize>().unwrap();
        let header = format!(
            "{{'descr': '{descr}', 'fortran_order': False, 'shape': ({},), }}\n",
            bytes.len() / size
        );
        numbers(&header, bytes).unwrap()
    }

    #[test]
    fn every_type_is_read_in_both_byte_orders() {
        assert_eq!(
            typed("<f4", &[1.5f32.to_le_bytes(), (-2.0f32).to_le_bytes()].concat()),
            [1.5, -2.0]
        );
        assert_eq!(typed(">f4", &1.5f32.to_be_bytes()), [1.5]);
        assert_eq!(typed("<f8", &0.1f64.to_le_bytes()), [0.1]);
        assert_eq!(typed(">f8", &(-3.25f64).to_be_bytes()), [-3.25]);
        assert_eq!(typed("|i1", &[0xff, 0x7f]), [-1.0, 127.0]);
        assert_eq!(typed("|u1", &[0xff, 0x7f]), [255.0, 127.0]);
        assert_eq!(typed("|b1", &[0, 1]), [0.0, 1.0]);
        assert_eq!(typed("<i2", &(-2i16).to_le_bytes()), [-2.0]);
        assert_eq!(typed(">u2", &0xfffeu16.to_be_bytes()), [65534.0]);
        assert_eq!(typed(">i4", &(-70_000i32).to_be_bytes()), [-70_000.0]);
        assert_eq!(typed("<u4", &u32::MAX.to_le_bytes()), [u32::MAX as f32]);
        assert_eq!(typed("<i8", &(-5i64).to_le_bytes()), [-5.0]);
        assert_eq!(typed("<u8", &u64::MAX.to_le_bytes()), [u64::MAX as f32]);
    }

    #[test]
    fn fortran_order_is_turned() {
        let bytes: Vec<u8> = (0..6u8).collect();
        let read = |order| {
            numbers(
                &format!("{{'descr': '|u1', 'fortran_order': {order}, 'shape': (3, 2)}}"),
                &bytes,
            )
            .unwrap()
        };
        assert_eq!(read("False"), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(read("True"), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    }

    #[test]
    fn what_is_no_array_of_numbers_is_refused() {
        let error = |descr: &str, shape: &str| {
            numbers(
                &format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}"),
                &[0; 8],
            )
            .unwrap_err()
        };
        assert!(error("'|O'", "(1,)").contains("pickled Python objects"));
        assert!(error("'<U1'", "(1,)").contains("expected numbers"));
        assert!(error("'<f2'", "(1,)").contains("holds <f2"));
        assert!(error("'<c8'", "(1,)").contains("expected numbers"));
        assert!(error("[('x', '<f4')]", "(1,)").contains("holds [('x', '<f4')]"));
        assert!(error("'<f4'", "(3,)").contains("cut short"));
        assert!(error("'<f4'", "(1099511627776, 4)").contains("cut short"));
        assert!(error("'<f4'", "(18446744073709551615, 4)").contains("too large"));
        assert!(error("'<f4'", "(1, 1, 1)").contains("expected [n] or [n, width]"));
        assert!(error("'<f4'", "(0, 3)").contains("nothing in it"));
        assert!(error("'<f4'", "(-1,)").contains("header that cannot be read"));
        assert!(error("'<f4'", "3").contains("header that cannot be read"));
        assert!(
            Header::read(&mut &b"PK\x03\x04aaaaaa"[..]).unwrap_err().contains("not in numpy's")
        );
        assert!(
            Header::read(&mut &b"\x93NUMPY\x09\x00aaaaaa"[..]).unwrap_err().contains("version 9")
        );
        assert!(
            Header::read(&mut &b"\x93NUMPY\x02\x00\xff\xff\xff\xff"[..])
                .unwrap_err()
                .contains("at most")
        );
    }
}
