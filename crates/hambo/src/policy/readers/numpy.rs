//! Arrays and numbers that numpy wrote into a pickle.

use crate::policy::readers::pickle::View;
use std::borrow::Cow;

/// An array or a number of numpy or Python: its shape, and its values as f64, row-major.
pub(super) fn array(view: View<'_, '_>) -> Option<(Vec<usize>, Vec<f64>)> {
    if let Some(number) = view.number() {
        return Some((Vec::new(), vec![number]));
    }
    let (name, arguments) = view.call()?;
    let (shape, dtype, bytes, fortran) = match name {
        // Made empty; shape, type, order and bytes come as its state.
        "_reconstruct" => {
            let [_version, shape, dtype, fortran, bytes] = view.state()?.first()?;
            (shape.sizes()?, dtype, bytes, fortran.boolean()?)
        }
        "_frombuffer" => {
            let [bytes, dtype, shape, order] = arguments.first()?;
            (shape.sizes()?, dtype, bytes, order.text()? == "F")
        }
        "scalar" => {
            let [dtype, bytes] = arguments.first()?;
            (Vec::new(), dtype, bytes, false)
        }
        _ => return None,
    };
    let values = Type::of(dtype)?.values(&raw(bytes)?);
    let count = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d))?;
    // Column order differs from row order only where there are two dimensions to exchange.
    let ordered = !fortran || shape.iter().filter(|&&d| d > 1).count() < 2;
    (values.len() == count && ordered).then_some((shape, values))
}

/// Bytes, or their Latin-1 text, which is what Python 2's protocol writes for them.
fn raw<'a>(view: View<'_, 'a>) -> Option<Cow<'a, [u8]>> {
    if let Some(bytes) = view.bytes() {
        return Some(Cow::Borrowed(bytes));
    }
    let (name, arguments) = view.call()?;
    let [text] = arguments.first().filter(|_| name == "encode")?;
    let text = text.text()?;
    text.chars()
        .map(|c| u8::try_from(u32::from(c)).ok())
        .collect::<Option<Vec<u8>>>()
        .map(Cow::Owned)
}

/// An element type.
struct Type {
    kind: u8,
    size: usize,
    big_endian: bool,
}

impl Type {
    /// `dtype('f8', …)` with its byte order as state.
    fn of(view: View<'_, '_>) -> Option<Self> {
        let (name, arguments) = view.call()?;
        let [text] = arguments.first().filter(|_| name == "dtype")?;
        let (&kind, size) = text.text()?.as_bytes().split_first()?;
        let size = std::str::from_utf8(size).ok()?.parse().ok()?;
        let [_version, order] = view.state()?.first()?;
        let known =
            matches!((kind, size), (b'f', 4 | 8) | (b'i' | b'u', 1 | 2 | 4 | 8) | (b'b', 1));
        known.then_some(Type { kind, size, big_endian: order.text()? == ">" })
    }

    fn values(&self, bytes: &[u8]) -> Vec<f64> {
        let value = |element: &[u8]| {
            let mut b = [0; 8];
            b[..self.size].copy_from_slice(element);
            if self.big_endian {
                b[..self.size].reverse();
            }
            let unsigned = u64::from_le_bytes(b);
            match (self.kind, self.size) {
                (b'f', 4) => f64::from(f32::from_bits(unsigned as u32)),
                (b'f', _) => f64::from_bits(unsigned),
                (b'i', size) => {
                    let unused = 64 - 8 * size as u32;
                    ((unsigned << unused) as i64 >> unused) as f64
                }
                _ => unsigned as f64,
            }
        };
        bytes.chunks_exact(self.size).map(value).collect()
    }
}
