//! The part of Protocol Buffers that ONNX files need: the fields of a message, one after another, without copies.

use crate::policy::readers::Problem;

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    /// Numbers, truth values, enumerations.
    Number(u64),
    /// A message, text, bytes, or numbers in a row.
    Bytes(&'a [u8]),
    /// The bits of an f32.
    Bits32(u32),
    /// The bits of an f64.
    Bits64(u64),
}

/// The fields of a message as (number, value). Ends after the first mistake.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

pub(super) fn fields(message: &[u8]) -> Fields<'_> {
    Fields { rest: message }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), Problem>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.rest = &[];
        }
        Some(field.ok_or_else(|| "not an ONNX file, or a damaged one".to_owned()))
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 => Value::Bits64(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Bits32(u32::from_le_bytes(self.take(4)?.try_into().ok()?)),
            _ => return None, // groups, which nobody writes any more
        };
        Some((key >> 3, value))
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for i in 0..10 {
            let byte = *self.take(1)?.first()?;
            number |= u64::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }
}

impl<'a> Value<'a> {
    /// A message within a message, or plain bytes.
    pub fn bytes(self) -> Result<&'a [u8], Problem> {
        match self {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err("damaged: bytes were expected".to_owned()),
        }
    }

    pub fn text(self) -> Result<&'a str, Problem> {
        std::str::from_utf8(self.bytes()?)
            .map_err(|_| "damaged: a name that is not text".to_owned())
    }

    /// Signed numbers are written as they lie in memory.
    pub fn integer(self) -> Result<i64, Problem> {
        match self {
            Value::Number(n) => Ok(n as i64),
            _ => Err("damaged: a whole number was expected".to_owned()),
        }
    }

    /// Whole numbers, alone or packed in a row.
    pub fn integers(self, to: &mut Vec<i64>) -> Result<(), Problem> {
        match self {
            Value::Bytes(bytes) => {
                let mut packed = fields(bytes);
                while !packed.rest.is_empty() {
                    to.push(
                        packed.varint().ok_or("damaged: a list of numbers is cut short")? as i64
                    );
                }
                Ok(())
            }
            one => one.integer().map(|n| to.push(n)),
        }
    }

    /// f32 numbers, alone or packed in a row.
    pub fn floats(self, to: &mut Vec<f64>) -> Result<(), Problem> {
        match self {
            Value::Bits32(bits) => to.push(f32::from_bits(bits).into()),
            Value::Bytes(bytes) => {
                to.extend(
                    bytes
                        .chunks_exact(4)
                        .map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]))),
                );
            }
            _ => return Err("damaged: a number was expected".to_owned()),
        }
        Ok(())
    }

    /// f64 numbers, alone or packed in a row.
    pub fn doubles(self, to: &mut Vec<f64>) -> Result<(), Problem> {
        match self {
            Value::Bits64(bits) => to.push(f64::from_bits(bits)),
            Value::Bytes(bytes) => {
                let double =
                    |b: &[u8]| b.iter().rev().fold(0u64, |bits, &byte| bits << 8 | u64::from(byte));
                to.extend(bytes.chunks_exact(8).map(|b| f64::from_bits(double(b))));
            }
            _ => return Err("damaged: a number was expected".to_owned()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The encodings that the format's own documentation gives as examples.
    #[test]
    fn documented_examples_are_read() {
        let all = |bytes: &[u8]| {
            fields(bytes).map(|f| f.map(|(n, v)| (n, format!("{v:?}")))).collect::<Vec<_>>()
        };
        assert_eq!(all(&[0x08, 0x96, 0x01]), [Ok((1, "Number(150)".to_owned()))]);
        let text = fields(&[0x12, 0x07, b't', b'e', b's', b't', b'i', b'n', b'g'])
            .next()
            .unwrap()
            .unwrap();
        assert_eq!((text.0, text.1.text().unwrap()), (2, "testing"));
        let mut packed = Vec::new();
        let field =
            fields(&[0x32, 0x06, 0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05]).next().unwrap().unwrap();
        field.1.integers(&mut packed).unwrap();
        assert_eq!((field.0, packed), (6, vec![3, 270, 86942]));
        let minus_two = [0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(fields(&minus_two).next().unwrap().unwrap().1.integer(), Ok(-2));
    }

    #[test]
    fn lengths_are_not_trusted() {
        for bytes in [
            &[0x12, 0xff, 0xff, 0xff, 0xff, 0x0f, 1][..],
            &[0x12, 5, 1],
            &[0x80; 11],
            &[0x0b],
            &[0x0d, 1, 2],
        ] {
            let read: Vec<_> = fields(bytes).collect();
            assert!(read.len() == 1 && read[0].is_err(), "{bytes:?}: {read:?}");
        }
    }
}
