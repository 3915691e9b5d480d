//! Thrift's compact protocol, as far as it takes to see that a description makes sense.
//!
//! The Parquet reader beneath believes the length of a list, and walks through what is not there. So descriptions are walked
//! through here first, where every element takes a byte at least.

/// Groups of columns within groups at the most.
const DEEPEST_GROUP: usize = 16;

/// Bytes in Thrift's compact protocol, in which Parquet describes itself. Nothing is kept of them: they are walked through.
pub(super) struct Compact<'a>(pub(super) &'a [u8]);

impl Compact<'_> {
    /// Whether the elements of the schema, a list of groups and columns, make one tree.
    pub(super) fn has_sound_schema(mut self) -> bool {
        let mut sound = false;
        let walked = self.fields(&mut |this, id, kind| match (id, kind) {
            (2, 9) => {
                sound = this.is_tree()?;
                Some(())
            }
            _ => this.skip(kind, 0),
        });
        sound && walked.is_some()
    }

    /// Whether they begin with a whole structure, however it is made.
    pub(super) fn begin_with_a_structure(mut self) -> bool {
        self.skip(12, 0).is_some()
    }

    fn is_tree(&mut self) -> Option<bool> {
        let (elements, kind) = self.list()?;
        let mut open = vec![1]; // children still missing, of the groups around the next element
        for _ in 0..elements {
            let mut children = 0;
            self.fields(&mut |this, id, kind| match (id, kind) {
                (5, 5) => this.number().map(|n| children = n),
                _ => this.skip(kind, 0),
            })?;
            match open.last_mut() {
                Some(missing) if kind == 12 => *missing -= 1,
                _ => return Some(false),
            }
            if children > 0 {
                open.push(children);
            }
            while open.last() == Some(&0) {
                open.pop();
            }
            if children < 0 || open.len() > DEEPEST_GROUP {
                return Some(false);
            }
        }
        Some(open.is_empty())
    }

    /// Gives each field of a structure, with its number and kind, to `field`, which has to go past it.
    fn fields(&mut self, field: &mut dyn FnMut(&mut Self, i64, u8) -> Option<()>) -> Option<()> {
        let mut id = 0i64;
        loop {
            let head = self.byte()?;
            let kind = head & 15;
            if kind == 0 {
                return Some(());
            }
            id = match head >> 4 {
                0 => self.number()?,
                step => id.checked_add(i64::from(step))?,
            };
            field(self, id, kind)?;
        }
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        match kind {
            _ if depth > 32 => None,
            1 | 2 => Some(()), // the kind is the value
            3 => self.byte().map(|_| ()),
            4..=6 => self.unsigned().map(|_| ()),
            7 => self.bytes(8),
            8 => {
                let length = usize::try_from(self.unsigned()?).ok()?;
                self.bytes(length)
            }
            9 | 10 => {
                let (count, kind) = self.list()?;
                (0..count).try_for_each(|_| self.skip(kind.max(3), depth + 1)) // flags in lists have a byte each
            }
            11 => {
                let count = self.unsigned()?;
                let kinds = if count > 0 { self.byte()? } else { 0 };
                (0..count).try_for_each(|_| {
                    self.skip((kinds >> 4).max(3), depth + 1)?;
                    self.skip((kinds & 15).max(3), depth + 1)
                })
            }
            12 => self.fields(&mut |this, _, kind| this.skip(kind, depth + 1)),
            13 => self.bytes(16),
            _ => None,
        }
    }

    /// Length and kind of a list.
    fn list(&mut self) -> Option<(u64, u8)> {
        let head = self.byte()?;
        let count = if head >> 4 == 15 { self.unsigned()? } else { u64::from(head >> 4) };
        Some((count, head & 15))
    }

    fn number(&mut self) -> Option<i64> {
        self.unsigned().map(|n| (n >> 1) as i64 ^ -((n & 1) as i64))
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut n = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            n |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Some(n);
            }
        }
        None
    }

    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn bytes(&mut self, n: usize) -> Option<()> {
        self.0 = self.0.get(n..)?;
        Some(())
    }
}
