//! A reader of Python pickles that executes nothing.
//!
//! A pickle is a program for a small stack machine. This one knows the opcodes that tensors, arrays and the
//! records around them are written with, and the names in [`KNOWN`]; a name is never more than a label, and a
//! call of it is kept as a record of its arguments. Every other opcode or name is refused.
//!
//! All values lie in one list and refer to each other by their place in it, so that neither depth nor cycles
//! can exhaust the stack, and each opcode adds at most one: memory is bounded by the length of the pickle.

use std::collections::HashMap;

/// The names a pickle may mention.
const KNOWN: &[(&str, &str)] = &[
    ("collections", "OrderedDict"),
    ("_codecs", "encode"),
    ("torch._utils", "_rebuild_tensor_v2"),
    ("torch._utils", "_rebuild_parameter"),
    ("torch", "FloatStorage"),
    ("torch", "DoubleStorage"),
    ("torch", "HalfStorage"),
    ("torch", "BFloat16Storage"),
    ("torch", "LongStorage"),
    ("torch", "IntStorage"),
    ("torch", "ShortStorage"),
    ("torch", "CharStorage"),
    ("torch", "ByteStorage"),
    ("torch", "BoolStorage"),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy.core.multiarray", "scalar"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy.core.numeric", "_frombuffer"),
    ("numpy._core.numeric", "_frombuffer"),
    // The random generators that observation and action spaces carry.
    ("numpy.random._pickle", "__randomstate_ctor"),
    ("numpy.random._pickle", "__generator_ctor"),
    ("numpy.random._pickle", "__bit_generator_ctor"),
    ("numpy.random._mt19937", "MT19937"),
    ("numpy.random._pcg64", "PCG64"),
    ("numpy.random.bit_generator", "SeedSequence"),
    ("numpy.random.bit_generator", "__pyx_unpickle_SeedSequence"),
    ("stable_baselines3.common.vec_env.vec_normalize", "VecNormalize"),
    ("stable_baselines3.common.running_mean_std", "RunningMeanStd"),
    ("gym.spaces.box", "Box"),
    ("gym.spaces.dict", "Dict"),
    ("gym.spaces.discrete", "Discrete"),
    ("gymnasium.spaces.box", "Box"),
    ("gymnasium.spaces.dict", "Dict"),
    ("gymnasium.spaces.discrete", "Discrete"),
];

/// A value's place in the list.
type Id = usize;

/// Why a pickle was refused.
pub(super) type Problem = String;

#[derive(Debug)]
enum Node<'a> {
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

/// What a pickle says.
#[derive(Debug)]
pub(super) struct Pickle<'a> {
    nodes: Vec<Node<'a>>,
    root: Id,
}

/// The state of the stack machine.
struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    nodes: Vec<Node<'a>>,
    stack: Vec<Id>,
    /// Heights of the stack at which marks were set.
    marks: Vec<usize>,
    memo: HashMap<u64, Id>,
}

impl<'a> Pickle<'a> {
    /// Reads the pickle that begins `bytes`; also gives its length.
    pub fn read(bytes: &'a [u8]) -> Result<(Self, usize), Problem> {
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
        Ok((Pickle { nodes: machine.nodes, root }, machine.at))
    }

    /// The outermost value.
    pub fn root(&self) -> View<'_, 'a> {
        View { pickle: self, id: self.root }
    }
}

impl<'a> Machine<'a> {
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
                    _ => return Err("a name that is no text".to_owned()),
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
                    _ => return Err("a state for something that has none".to_owned()),
                }
            }
            b'Q' => {
                let id = self.pop()?;
                self.push(Node::Persistent(id));
            }
            op => return Err(format!("pickle opcode {op:#04x} at byte {at} is not one that tensors need")),
        }
        Ok(true)
    }

    fn short(&self) -> Problem {
        format!("the pickle takes from an empty stack before byte {}", self.at)
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8], Problem> {
        let rest = &self.bytes[self.at..];
        let taken = rest.get(..n).ok_or_else(|| {
            format!("the pickle ends at byte {}, where {n} more were announced", self.bytes.len())
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
        let text = std::str::from_utf8(self.announced(width)?).map_err(|_| "text that is not UTF-8")?;
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
            _ => return Err("items for something that is no list".to_owned()),
        }
        Ok(())
    }

    fn set(&mut self, new: Vec<(Id, Id)>) -> Result<(), Problem> {
        let top = self.top()?;
        match &mut self.nodes[top] {
            Node::Dict(items) | Node::Object { items, .. } => items.extend(new),
            _ => return Err("keys for something that is no dictionary".to_owned()),
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
        // Python 2's names of the same things are not needed: such files are older than the formats read here.
        let known = KNOWN.iter().position(|&known| known == (module, name)).ok_or_else(|| {
            let shown: String = format!("{module}.{name}").chars().take(120).collect();
            format!(
                "it names {shown:?}, which is neither a tensor nor an array nor a record known here; nothing in it was executed"
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
            _ => Err("a call of something that is no name".to_owned()),
        }
    }
}

fn pairs(items: &[Id]) -> Result<Vec<(Id, Id)>, Problem> {
    match items.len() % 2 {
        0 => Ok(items.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()),
        _ => Err("a key without a value".to_owned()),
    }
}

/// A value in a pickle.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'p, 'a> {
    pickle: &'p Pickle<'a>,
    id: Id,
}

impl<'p, 'a> View<'p, 'a> {
    fn node(self) -> &'p Node<'a> {
        &self.pickle.nodes[self.id]
    }

    fn at(self, id: Id) -> Self {
        View { id, ..self }
    }

    pub fn int(self) -> Option<i64> {
        match *self.node() {
            Node::Int(value) => Some(value),
            _ => None,
        }
    }

    pub fn size(self) -> Option<usize> {
        self.int().and_then(|i| usize::try_from(i).ok())
    }

    pub fn boolean(self) -> Option<bool> {
        match *self.node() {
            Node::Bool(value) => Some(value),
            _ => None,
        }
    }

    pub fn number(self) -> Option<f64> {
        match *self.node() {
            Node::Float(value) => Some(value),
            Node::Int(value) => Some(value as f64),
            _ => None,
        }
    }

    pub fn text(self) -> Option<&'a str> {
        match *self.node() {
            Node::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn bytes(self) -> Option<&'a [u8]> {
        match *self.node() {
            Node::Bytes(bytes) | Node::Long(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The elements of a tuple or list.
    pub fn elements(self) -> Option<Vec<Self>> {
        match self.node() {
            Node::Sequence(items) => Some(items.iter().map(|&id| self.at(id)).collect()),
            _ => None,
        }
    }

    /// The first elements of a tuple or list that has at least so many.
    pub fn first<const N: usize>(self) -> Option<[Self; N]> {
        match self.node() {
            Node::Sequence(items) => items.first_chunk::<N>().map(|ids| ids.map(|id| self.at(id))),
            _ => None,
        }
    }

    /// The elements of a tuple of sizes, of the few dimensions that an array has.
    pub fn sizes(self) -> Option<Vec<usize>> {
        match self.node() {
            Node::Sequence(items) if items.len() <= 8 => items.iter().map(|&id| self.at(id).size()).collect(),
            _ => None,
        }
    }

    /// The module and name of a global.
    pub fn global(self) -> Option<(&'static str, &'static str)> {
        match *self.node() {
            Node::Global(global) => Some(KNOWN[global]),
            _ => None,
        }
    }

    /// A call of a global: its name and arguments.
    pub fn call(self) -> Option<(&'static str, Self)> {
        match self.node() {
            Node::Object { global, arguments, .. } => Some((KNOWN[*global].1, self.at(*arguments))),
            _ => None,
        }
    }

    /// The state given to an object after it was made.
    pub fn state(self) -> Option<Self> {
        match self.node() {
            Node::Object { state, .. } => state.map(|id| self.at(id)),
            _ => None,
        }
    }

    pub fn persistent(self) -> Option<Self> {
        match self.node() {
            Node::Persistent(id) => Some(self.at(*id)),
            _ => None,
        }
    }

    /// The pairs of a dictionary, ordered or not.
    pub fn items(self) -> Option<Vec<(Self, Self)>> {
        match self.node() {
            Node::Dict(items) | Node::Object { items, .. } => {
                Some(items.iter().map(|&(k, v)| (self.at(k), self.at(v))).collect())
            }
            _ => None,
        }
    }

    /// The value of a key of a dictionary, the last one given.
    pub fn get(self, key: &str) -> Option<Self> {
        match self.node() {
            Node::Dict(items) | Node::Object { items, .. } => {
                let found = items.iter().rev().find(|&&(k, _)| self.at(k).text() == Some(key));
                found.map(|&(_, v)| self.at(v))
            }
            _ => None,
        }
    }
}
