//! Tensors by name from files of `torch.save`: zip archives, and the plain files of versions before 1.6.

use crate::policy::readers::Problem;
use crate::policy::readers::archive::Archive;
use crate::policy::readers::pickle::{Pickle, View};
use std::collections::{BTreeMap, HashMap};

/// A tensor's numbers, row-major.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    pub shape: Vec<usize>,
    pub values: Vec<f32>,
}

/// Dictionaries within dictionaries, and values looked at, at the most.
const DEEPEST: usize = 4;
const MOST_VALUES: usize = 1 << 16;
/// The number at the start of a plain file.
const LEGACY_MAGIC: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];

/// The tensors of a state dictionary; those whose names `wanted` does not accept are not read.
pub(super) fn read(
    bytes: &[u8],
    wanted: impl Fn(&str) -> bool,
) -> Result<BTreeMap<String, Option<Tensor>>, Problem> {
    open(bytes, |pickle, storage| tensors(pickle, &wanted, storage))
}

/// All tensors of a file in their order, in dictionaries within dictionaries, too, by the keys to each of them; of a tuple of
/// dictionaries those of the first, which is the actor's where people save so.
pub(super) fn read_all(bytes: &[u8]) -> Result<Vec<(String, Tensor)>, Problem> {
    open(bytes, |pickle, storage| {
        let first = pickle.root().elements().and_then(|elements| elements.into_iter().next());
        let all = leaves(first.unwrap_or_else(|| pickle.root()))?;
        let read = |(name, value): (String, View<'_, '_>)| {
            let tensor = tensor(value, storage).map_err(|e| format!("`{name}`: {e}"))?;
            Ok((name, tensor))
        };
        all.into_iter().map(read).collect()
    })
}

/// Whether a pickle is a plain file of torch.save.
pub(super) fn is_legacy(bytes: &[u8]) -> bool {
    Pickle::read(bytes).is_ok_and(|(magic, _)| magic.root().bytes() == Some(&LEGACY_MAGIC))
}

/// The tensors in a dictionary and those within it, but for what an optimizer keeps.
fn leaves<'p, 'a>(root: View<'p, 'a>) -> Result<Vec<(String, View<'p, 'a>)>, Problem> {
    let (mut found, mut visited) = (Vec::new(), 0);
    let mut open = vec![(String::new(), root, 0)];
    while let Some((path, value, depth)) = open.pop() {
        visited += 1;
        if visited > MOST_VALUES {
            return Err("it has far more in it than a policy".to_owned());
        }
        if tensor_arguments(value).is_some() {
            found.push((path, value));
            continue;
        }
        let items = value.items().filter(|_| depth < DEEPEST).unwrap_or_default();
        // The last one opened is the next one looked at.
        for (key, value) in items.into_iter().rev() {
            match key.text() {
                Some(key) if normalizes_observations(key) => {
                    return Err(format!(
                        "it has an observation normalizer (`{key}`), without which it acts as another policy"
                    ));
                }
                Some(key) if key.contains("optim") => {}
                Some(key) if path.is_empty() => open.push((key.to_owned(), value, depth + 1)),
                Some(key) => open.push((format!("{path}.{key}"), value, depth + 1)),
                None => {}
            }
        }
    }
    Ok(found)
}

/// Whether that is where people keep the mean and deviation of observations: rsl_rl, rl_games, and those who save it beside
/// the weights. The critic's and the rewards' are not the policy's.
fn normalizes_observations(key: &str) -> bool {
    const WORDS: [&str; 6] =
        ["obs_norm", "obs_rms", "ob_rms", "normalizer", "normaliser", "running_mean_std"];
    let key = key.to_lowercase();
    let is_other = ["critic", "value", "ret", "reward"].iter().any(|other| key.starts_with(other));
    !is_other && WORDS.iter().any(|word| key.contains(word))
}

type Storages<'s> = dyn FnMut(&str) -> Result<Vec<u8>, Problem> + 's;

/// Calls `work` with the pickle of a file and what gives the numbers of its storages.
fn open<T>(
    bytes: &[u8],
    work: impl FnOnce(&Pickle<'_>, &mut Storages<'_>) -> Result<T, Problem>,
) -> Result<T, Problem> {
    // Tensors may share a storage, but thousands that share a large one would fill the memory.
    let mut bytes_left = bytes.len().saturating_mul(16);
    let mut limited = |bytes: Vec<u8>| {
        bytes_left =
            bytes_left.checked_sub(bytes.len()).ok_or("its tensors are larger than the file")?;
        Ok(bytes)
    };
    if bytes.starts_with(b"PK") {
        let mut archive = Archive::open(bytes)?;
        let index = archive.name_ending("/data.pkl").ok_or("it does not contain data.pkl")?;
        let folder = index.trim_end_matches("data.pkl").to_owned();
        let order = format!("{folder}byteorder");
        if archive.has(&order) && archive.read(&order)? != b"little" {
            return Err("it was written in big-endian order".to_owned());
        }
        let pickle = archive.read(&index)?;
        let (pickle, _) = Pickle::read(&pickle)?;
        work(&pickle, &mut |key| limited(archive.read(&format!("{folder}data/{key}"))?))
    } else {
        legacy(bytes, |pickle, storage| work(pickle, &mut |key| limited(storage(key)?)))
    }
}

/// Magic number, protocol, system, the dictionary, the keys of its storages, then each storage's length and bytes.
fn legacy<T>(
    bytes: &[u8],
    work: impl FnOnce(&Pickle<'_>, &mut Storages<'_>) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let (magic, mut at) = Pickle::read(bytes)?;
    if magic.root().bytes() != Some(&LEGACY_MAGIC) {
        return Err("not written by torch.save".to_owned());
    }
    for _ in ["protocol", "system"] {
        at += Pickle::read(&bytes[at..])?.1;
    }
    let (pickle, length) = Pickle::read(&bytes[at..])?;
    at += length;
    let (keys, length) = Pickle::read(&bytes[at..])?;
    at += length;

    let widths = storage_widths(&pickle);
    let mut storages = HashMap::new();
    for key in keys.root().elements().ok_or("the list of storages is missing")? {
        let key = key.text().ok_or("the key of a storage is not text")?;
        let width =
            widths.get(key).ok_or_else(|| format!("storage {key:?} belongs to no tensor"))?;
        let cut = || format!("storage {key:?} is cut short");
        let (count, rest) = bytes[at..].split_first_chunk::<8>().ok_or_else(cut)?;
        let size =
            usize::try_from(u64::from_le_bytes(*count)).ok().and_then(|n| n.checked_mul(*width));
        let data = size.and_then(|n| rest.get(..n)).ok_or_else(cut)?;
        at += 8 + data.len();
        storages.insert(key, data);
    }
    work(&pickle, &mut |key| {
        storages.get(key).map(|s| s.to_vec()).ok_or_else(|| format!("storage {key:?} is missing"))
    })
}

/// Bytes per number of every storage that the dictionary's tensors use.
fn storage_widths<'a>(pickle: &Pickle<'a>) -> HashMap<&'a str, usize> {
    let storages = pickle.values().filter_map(|value| {
        let [storage] = tensor_arguments(value)?.first()?;
        Storage::of(storage)
    });
    storages.map(|s| (s.key, s.element.width())).collect()
}

fn tensors(
    pickle: &Pickle<'_>,
    wanted: impl Fn(&str) -> bool,
    storage: &mut Storages<'_>,
) -> Result<BTreeMap<String, Option<Tensor>>, Problem> {
    let mut found = BTreeMap::new();
    for (key, value) in pickle.root().items().ok_or("not a dictionary of tensors")? {
        let name = key.text().ok_or("the name of a tensor is not text")?;
        let tensor = match wanted(name) {
            true => Some(tensor(value, storage).map_err(|e| format!("`{name}`: {e}"))?),
            false => None,
        };
        found.insert(name.to_owned(), tensor);
    }
    Ok(found)
}

/// The arguments of `_rebuild_tensor_v2`, also inside of a parameter.
fn tensor_arguments<'p, 'a>(value: View<'p, 'a>) -> Option<View<'p, 'a>> {
    match value.call()? {
        ("_rebuild_parameter", arguments) => {
            let [data] = arguments.first()?;
            let (name, arguments) = data.call()?;
            (name == "_rebuild_tensor_v2").then_some(arguments)
        }
        ("_rebuild_tensor_v2", arguments) => Some(arguments),
        _ => None,
    }
}

fn tensor(value: View<'_, '_>, storage: &mut Storages<'_>) -> Result<Tensor, Problem> {
    let parts = || {
        let [view, offset, shape, strides] = tensor_arguments(value)?.first()?;
        Some((Storage::of(view)?, offset.size()?, shape.sizes()?, strides.sizes()?))
    };
    let (from, offset, shape, strides) = parts().ok_or("not a tensor of numbers")?;
    let all = from.element.values(&storage(from.key)?);
    let outside = || format!("shape {shape:?} does not fit the {} numbers stored", all.len());
    let count = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
    let count =
        count.filter(|&n| n <= all.len() && shape.len() == strides.len()).ok_or_else(outside)?;
    let place = |mut i: usize| {
        let mut at = offset;
        for (&extent, &stride) in shape.iter().zip(&strides).rev() {
            at = at.checked_add((i % extent).checked_mul(stride)?)?;
            i /= extent;
        }
        all.get(at).copied()
    };
    let values = (0..count).map(place).collect::<Option<Vec<f32>>>().ok_or_else(outside)?;
    Ok(Tensor { shape, values })
}

/// The storage of a tensor's numbers.
struct Storage<'a> {
    element: Element,
    key: &'a str,
}

#[derive(Clone, Copy)]
enum Element {
    F16,
    Bf16,
    F32,
    F64,
    /// Integers of that many bytes: counters beside the weights, never weights.
    Other(usize),
}

impl<'a> Storage<'a> {
    /// `("storage", torch.FloatStorage, key, location, count, …)`
    fn of(view: View<'_, 'a>) -> Option<Self> {
        let [kind, class, key] = view.persistent()?.first()?;
        let element = match class.global()? {
            ("torch", "FloatStorage") => Element::F32,
            ("torch", "DoubleStorage") => Element::F64,
            ("torch", "HalfStorage") => Element::F16,
            ("torch", "BFloat16Storage") => Element::Bf16,
            ("torch", "LongStorage") => Element::Other(8),
            ("torch", "IntStorage") => Element::Other(4),
            ("torch", "ShortStorage") => Element::Other(2),
            ("torch", _) => Element::Other(1),
            _ => return None,
        };
        (kind.text()? == "storage").then_some(Storage { element, key: key.text()? })
    }
}

impl Element {
    fn width(self) -> usize {
        match self {
            Element::F16 | Element::Bf16 => 2,
            Element::F32 => 4,
            Element::F64 => 8,
            Element::Other(width) => width,
        }
    }

    fn values(self, bytes: &[u8]) -> Vec<f32> {
        let value = |b: &[u8]| match (self, b) {
            (Element::F32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
            (Element::F64, &[a, b, c, d, e, f, g, h]) => {
                f64::from_le_bytes([a, b, c, d, e, f, g, h]) as f32
            }
            (Element::Bf16, &[a, b]) => f32::from_le_bytes([0, 0, a, b]),
            (Element::F16, &[a, b]) => half(u16::from_le_bytes([a, b])),
            _ => f32::NAN,
        };
        bytes.chunks_exact(self.width()).map(value).collect()
    }
}

/// A half-precision number of IEEE 754.
pub(super) fn half(bits: u16) -> f32 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    sign * match exponent {
        0 => fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f32.powi(exponent - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_is_that_of_the_standard() {
        for (bits, value) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0001, 5.960_464_5e-8),
            (0x3555, 0.333_251_95),
        ] {
            assert_eq!(half(bits), value);
        }
        assert!(half(0x7c00).is_infinite() && half(0x7e00).is_nan());
    }
}
