//! The stack machine that pickles are programs for, with the opcodes that tensors and arrays are written with.

use super::names::KNOWN;
use crate::policy::readers::Problem;
use std::collections::HashMap;

/// A value's place in the list of all values.
pub(super) type Id = usize;

/// A value.
#[derive(Debug)]
pub(super) enum Node<'a> {
    None,
    Bool(bool),
    Int(i64),
    /// An integer too long for the one above, little-endian.
    Long(&'a [u8]),
    Float(f64),
    Bytes(&'a [u8]),
    Text(&'a str),
    /// Tuple, list or set.
    Sequence(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    Global(usize),
    /// What a call would have made.
    Object {
        global: usize,
        arguments: Id,
        items: Vec<(Id, Id)>,
        state: Option<Id>,
    },
    /// Something outside the pickle.
    Persistent(Id),
}

/// The state of the stack machine.
pub(super) struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    nodes: Vec<Node<'a>>,
    stack: Vec<Id>,
    /// Heights of the stack at which marks were set.
    marks: Vec<usize>,
    memo: HashMap<u64, Id>,
}

impl<'a> Machine<'a> {
    /// Runs the pickle that begins `bytes`; gives its values, the place of the outermost one and its length in bytes.
    pub fn run(bytes: &'a [u8]) -> Result<(Vec<Node<'a>>, Id, usize), Problem> {
        let mut machine = Machine {
            bytes,
            at: 0,
            nodes: Vec::new(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
        };
        while machine.step()? {}
        let root = machine.pop()?;
        Ok((machine.nodes, root, machine.at))
    }

    /// Executes one opcode; false after the last.
    fn step(&mut self) -> Result<bool, Problem> {
        let at = self.at;
        match self.byte()? {
            0x80 => {
                let version = self.byte()?; // PROTO
                if version > 5 {
                    return Err(format!("pickle protocol {version}: this reader knows 2 to 5"));
                }
            }
            0x95 => drop(self.take(8)?), // FRAME
            b'.' => return Ok(false),    // STOP
            b'(' => self.marks.push(self.stack.len()),
            b'0' => drop(self.pop()?),
            b'2' => {
                let top = self.top()?;
                self.stack.push(top);
            }
            b'N' => self.push(Node::None),
            0x88 => self.push(Node::Bool(true)),
            0x89 => self.push(Node::Bool(false)),
            b'K' => {
                let value = self.byte()?;
                self.push(Node::Int(value.into()));
            }
            b'M' => {
                let value = self.unsigned(2)? as i64;
                self.push(Node::Int(value));
            }
            b'J' => {
                let value = self.unsigned(4)? as u32 as i32;
                self.push(Node::Int(value.into()));
            }
            0x8a => self.long(1)?,
            0x8b => self.long(4)?,
            b'G' => {
                let bytes = self.take(8)?;
                let bits = bytes.iter().fold(0, |bits, &b| bits << 8 | u64::from(b));
                self.push(Node::Float(f64::from_bits(bits)));
            }
            b'C' | b'U' => self.bytes(1)?,
            b'B' | b'T' => self.bytes(4)?,
            0x8e | 0x96 => self.bytes(8)?, // BINBYTES8, BYTEARRAY8
            0x8c => self.text(1)?,
            b'X' => self.text(4)?,
            0x8d => self.text(8)?,
            b')' | b']' | 0x8f => self.push(Node::Sequence(Vec::new())),
            b't' | 0x91 | b'l' => {
                let items = self.marked()?; // TUPLE, FROZENSET, LIST
                self.push(Node::Sequence(items));
            }
            op @ 0x85..=0x87 => {
                let n = usize::from(op - 0x84); // TUPLE1, 2, 3
                let start = self.stack.len().checked_sub(n).filter(|&s| s >= self.floor());
                let items = self.stack.split_off(start.ok_or_else(|| self.short())?);
                self.push(Node::Sequence(items));
            }
            b'}' => self.push(Node::Dict(Vec::new())),
            b'd' => {
                let items = self.marked()?;
                let items = pairs(&items)?;
                self.push(Node::Dict(items));
            }
            b'a' => {
                let item = self.pop()?;
                self.append(&[item])?;
            }
            b'e' | 0x90 => {
                let items = self.marked()?; // APPENDS, ADDITEMS
                self.append(&items)?;
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.set(vec![(key, value)])?;
            }
            b'u' => {
                let items = self.marked()?;
                self.set(pairs(&items)?)?;
            }
            b'q' => {
                let index = self.byte()?.into();
                self.remember(index)?;
            }
            b'r' => {
                let index = self.unsigned(4)?;
                self.remember(index)?;
            }
            0x94 => self.remember(self.memo.len() as u64)?, // MEMOIZE
            b'h' => {
                let index = self.byte()?.into();
                self.recall(index)?;
            }
            b'j' => {
                let index = self.unsigned(4)?;
                self.recall(index)?;
            }
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.global(module, name)?;
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                match (&self.nodes[module], &self.nodes[name]) {
                    (&Node::Text(module), &Node::Text(name)) => self.global(module, name)?,
                    _ => return Err("a name that is not text".to_owned()),
                }
            }
            b'R' | 0x81 => {
                let (arguments, callee) = (self.pop()?, self.pop()?); // REDUCE, NEWOBJ
                self.call(callee, arguments)?;
            }
            0x92 => {
                let (_keywords, arguments, class) = (self.pop()?, self.pop()?, self.pop()?); // NEWOBJ_EX
                self.call(class, arguments)?;
            }
            b'b' => {
                let new = self.pop()?;
                let top = self.top()?;
                match &mut self.nodes[top] {
                    Node::Object { state, .. } => *state = Some(new),
                    _ => return Err("a state for a value that has none".to_owned()),
                }
            }
            b'Q' => {
                let id = self.pop()?;
                self.push(Node::Persistent(id));
            }
            op => {
                return Err(format!(
                    "pickle opcode {op:#04x} at byte {at} is not needed for tensors and is refused"
                ));
            }
        }
        Ok(true)
    }

    fn short(&self) -> Problem {
        format!("the pickle takes from an empty stack before byte {}", self.at)
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8], Problem> {
        let rest = &self.bytes[self.at..];
        let taken = rest.get(..n).ok_or_else(|| {
            format!("the pickle ends at byte {}, but {n} more were announced", self.bytes.len())
        })?;
        self.at += n;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Problem> {
        Ok(self.take(1)?[0])
    }

    /// A little-endian number of up to 8 bytes.
    fn unsigned(&mut self, bytes: usize) -> Result<u64, Problem> {
        Ok(self.take(bytes)?.iter().rev().fold(0, |value, &b| value << 8 | u64::from(b)))
    }

    /// As many bytes as a number of `width` bytes announces.
    fn announced(&mut self, width: usize) -> Result<&'a [u8], Problem> {
        let n = self.unsigned(width)?;
        self.take(usize::try_from(n).unwrap_or(usize::MAX))
    }

    fn line(&mut self) -> Result<&'a str, Problem> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|&b| b == b'\n').ok_or("a name without an end")?;
        self.at += end + 1;
        std::str::from_utf8(&rest[..end]).map_err(|_| "a name that is not UTF-8".to_owned())
    }

    fn long(&mut self, width: usize) -> Result<(), Problem> {
        let bytes = self.announced(width)?;
        self.push(match bytes {
            [] => Node::Int(0),
            [.., last] if bytes.len() <= 8 => {
                let sign = if last & 0x80 != 0 { -1i64 } else { 0 };
                Node::Int(bytes.iter().rev().fold(sign, |value, &b| value << 8 | i64::from(b)))
            }
            _ => Node::Long(bytes),
        });
        Ok(())
    }

    fn bytes(&mut self, width: usize) -> Result<(), Problem> {
        let bytes = self.announced(width)?;
        self.push(Node::Bytes(bytes));
        Ok(())
    }

    fn text(&mut self, width: usize) -> Result<(), Problem> {
        let text =
            std::str::from_utf8(self.announced(width)?).map_err(|_| "text that is not UTF-8")?;
        self.push(Node::Text(text));
        Ok(())
    }

    fn push(&mut self, node: Node<'a>) {
        self.stack.push(self.nodes.len());
        self.nodes.push(node);
    }

    /// The height below which the stack belongs to an open mark.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn top(&self) -> Result<Id, Problem> {
        let top = self.stack[self.floor()..].last();
        top.copied().ok_or_else(|| self.short())
    }

    fn pop(&mut self) -> Result<Id, Problem> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    /// All that was pushed since the last mark.
    fn marked(&mut self) -> Result<Vec<Id>, Problem> {
        let start = self.marks.pop().ok_or_else(|| self.short())?;
        Ok(self.stack.split_off(start))
    }

    fn append(&mut self, new: &[Id]) -> Result<(), Problem> {
        let top = self.top()?;
        match &mut self.nodes[top] {
            Node::Sequence(items) => items.extend(new),
            _ => return Err("items for a value that is not a list".to_owned()),
        }
        Ok(())
    }

    fn set(&mut self, new: Vec<(Id, Id)>) -> Result<(), Problem> {
        let top = self.top()?;
        match &mut self.nodes[top] {
            Node::Dict(items) | Node::Object { items, .. } => items.extend(new),
            _ => return Err("keys for a value that is not a dictionary".to_owned()),
        }
        Ok(())
    }

    fn remember(&mut self, index: u64) -> Result<(), Problem> {
        let top = self.top()?;
        self.memo.insert(index, top);
        Ok(())
    }

    fn recall(&mut self, index: u64) -> Result<(), Problem> {
        let id = self.memo.get(&index).ok_or_else(|| format!("memo {index} was never written"))?;
        self.stack.push(*id);
        Ok(())
    }

    fn global(&mut self, module: &str, name: &str) -> Result<(), Problem> {
        // Python 2's names for them are not needed: such files are older than the formats read here.
        let known = KNOWN.iter().position(|&known| known == (module, name)).ok_or_else(|| {
            let shown: String = format!("{module}.{name}").chars().take(120).collect();
            format!(
                "it names {shown:?}, which is not a known tensor, array or record; nothing in it was executed"
            )
        })?;
        self.push(Node::Global(known));
        Ok(())
    }

    fn call(&mut self, callee: Id, arguments: Id) -> Result<(), Problem> {
        match self.nodes[callee] {
            Node::Global(global) => {
                self.push(Node::Object { global, arguments, items: Vec::new(), state: None });
                Ok(())
            }
            _ => Err("a call of a value that is not a name".to_owned()),
        }
    }
}

fn pairs(items: &[Id]) -> Result<Vec<(Id, Id)>, Problem> {
    match items.len() % 2 {
        0 => Ok(items.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()),
        _ => Err("a key without a value".to_owned()),
    }
}
