//! Flatbuffers, in which Arrow describes itself: every place is checked before it is read.

/// A table within a flatbuffer.
#[derive(Clone, Copy)]
pub(super) struct Record<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Record<'a> {
    /// The outermost table.
    pub(super) fn root(bytes: &'a [u8]) -> Option<Self> {
        Record { bytes, at: 0 }.follow(0)
    }

    /// Where a field lies; none where it is left out.
    fn place(self, field: usize) -> Option<usize> {
        let back = i32::from_le_bytes(self.array(self.at)?);
        let table = usize::try_from(self.at as i64 - i64::from(back)).ok()?;
        let size = usize::from(u16::from_le_bytes(self.array(table)?));
        let entry = 4 + 2 * field;
        if entry + 2 > size {
            return None;
        }
        match u16::from_le_bytes(self.array(table.checked_add(entry)?)?) {
            0 => None,
            offset => self.at.checked_add(offset.into()),
        }
    }

    fn array<const N: usize>(self, at: usize) -> Option<[u8; N]> {
        self.bytes.get(at..)?.first_chunk::<N>().copied()
    }

    /// The table that the offset at a place leads to.
    fn follow(self, place: usize) -> Option<Self> {
        let offset = u32::from_le_bytes(self.array(place)?);
        let at = place.checked_add(usize::try_from(offset).ok()?)?;
        (at < self.bytes.len()).then_some(Record { at, ..self })
    }

    pub(super) fn byte(self, field: usize) -> Option<u8> {
        self.place(field).and_then(|at| self.array(at)).map(|[byte]| byte)
    }

    pub(super) fn short(self, field: usize) -> Option<i16> {
        self.place(field).and_then(|at| self.array(at)).map(i16::from_le_bytes)
    }

    pub(super) fn int(self, field: usize) -> Option<i32> {
        self.place(field).and_then(|at| self.array(at)).map(i32::from_le_bytes)
    }

    pub(super) fn long(self, field: usize) -> Option<i64> {
        self.place(field).and_then(|at| self.array(at)).map(i64::from_le_bytes)
    }

    pub(super) fn record(self, field: usize) -> Option<Self> {
        self.follow(self.place(field)?)
    }

    /// Where the elements of a list begin, and how many there are, each of `size` bytes.
    fn list(self, field: usize, size: usize) -> Option<(usize, usize)> {
        let list = self.record(field)?;
        let count = usize::try_from(u32::from_le_bytes(self.array(list.at)?)).ok()?;
        let start = list.at + 4;
        self.bytes.get(start..start.checked_add(count.checked_mul(size)?)?)?;
        Some((start, count))
    }

    pub(super) fn text(self, field: usize) -> Option<&'a str> {
        let (start, length) = self.list(field, 1)?;
        std::str::from_utf8(&self.bytes[start..start + length]).ok()
    }

    /// The tables of a list; empty where there is none.
    pub(super) fn records(self, field: usize) -> Option<Vec<Self>> {
        let Some((start, count)) = self.list(field, 4) else { return Some(Vec::new()) };
        (0..count).map(|i| self.follow(start + 4 * i)).collect()
    }

    /// The pairs of numbers of a list.
    pub(super) fn pairs(self, field: usize) -> Option<Vec<[i64; 2]>> {
        let (start, count) = self.list(field, 16)?;
        let number = |at: usize| self.array(at).map(i64::from_le_bytes);
        (0..count).map(|i| Some([number(start + 16 * i)?, number(start + 16 * i + 8)?])).collect()
    }
}
