//! Named arrays of numbers in a safetensors file.

use hambo_engine::files::{NO_SEAL, Seal, seal, with_sorted_header};
use safetensors::tensor::{Dtype, SafeTensorError, SafeTensors, TensorView};
use std::collections::{BTreeMap, HashMap};

/// Named arrays of numbers, as they lie in a safetensors file.
#[derive(Debug, Default, PartialEq)]
pub struct Arrays(BTreeMap<String, (Dtype, Vec<u8>)>);

/// Numbers that an array may hold.
pub trait Element: Copy {
    /// What the file calls them.
    const DTYPE: Dtype;
    /// Little-endian bytes, as many as the number has.
    fn write(self, bytes: &mut Vec<u8>);
    /// The same back.
    fn read(bytes: &[u8]) -> Self;
}

macro_rules! element {
    ($number:ty, $dtype:ident) => {
        impl Element for $number {
            const DTYPE: Dtype = Dtype::$dtype;

            fn write(self, bytes: &mut Vec<u8>) {
                bytes.extend(self.to_le_bytes());
            }

            fn read(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<$number>()];
                own.copy_from_slice(bytes);
                <$number>::from_le_bytes(own)
            }
        }
    };
}

element!(f32, F32);
element!(f64, F64);
element!(u32, U32);

/// What is wrong with arrays that were read.
pub(super) type Problem = String;

impl Arrays {
    /// Adds an array.
    pub fn put<T: Element>(&mut self, name: &str, values: &[T]) {
        let mut bytes = Vec::with_capacity(size_of_val(values));
        values.iter().for_each(|value| value.write(&mut bytes));
        self.0.insert(name.to_owned(), (T::DTYPE, bytes));
    }

    /// Adds the arrays of a part of the work, whose names then begin with `part`.
    pub fn put_part(&mut self, part: &str, arrays: Arrays) {
        self.0.extend(arrays.0.into_iter().map(|(name, array)| (format!("{part}.{name}"), array)));
    }

    /// The arrays of a part, by their own names.
    pub fn part(&self, part: &str) -> Arrays {
        let own = |name: &String| Some(name.strip_prefix(part)?.strip_prefix('.')?.to_owned());
        Arrays(self.0.iter().filter_map(|(name, a)| Some((own(name)?, a.clone()))).collect())
    }

    /// Whether there is an array of this name.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// An array of any length.
    pub fn get<T: Element>(&self, name: &str) -> std::result::Result<Vec<T>, Problem> {
        let Some((dtype, bytes)) = self.0.get(name) else {
            return Err(format!("`{name}` is missing"));
        };
        if *dtype != T::DTYPE {
            return Err(format!("`{name}` is {dtype:?}: expected {:?}", T::DTYPE));
        }
        Ok(bytes.chunks_exact(size_of::<T>()).map(T::read).collect())
    }

    /// An array of this length.
    pub fn get_exactly<T: Element>(
        &self,
        name: &str,
        len: usize,
    ) -> std::result::Result<Vec<T>, Problem> {
        let values = self.get(name)?;
        match values.len() == len {
            true => Ok(values),
            false => Err(format!("`{name}` has {} numbers: expected {len}", values.len())),
        }
    }

    /// The bytes of a safetensors file with this header, and in it a digest of them.
    pub fn to_file(&self, header: &[(&str, &str)]) -> std::result::Result<Vec<u8>, Problem> {
        let header: HashMap<String, String> = header
            .iter()
            .chain(&[("sha256", NO_SEAL)])
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let views = self.0.iter().map(|(name, (dtype, bytes))| {
            let len = 8 * bytes.len() / dtype.bitsize();
            Ok((name, TensorView::new(*dtype, vec![len], bytes)?))
        });
        let views: std::result::Result<Vec<_>, SafeTensorError> = views.collect();
        let file = views.and_then(|views| safetensors::serialize(views, Some(header)));
        file.map(with_sorted_header).map(seal).map_err(|e| e.to_string())
    }

    /// Arrays and header of a safetensors file that [`Arrays::to_file`] made, which is not trusted.
    pub fn from_file(
        bytes: &[u8],
    ) -> std::result::Result<(Self, HashMap<String, String>), Problem> {
        let damaged = |e: SafeTensorError| format!("not a safetensors file, or a damaged one: {e}");
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(damaged)?;
        let header = metadata.metadata().clone().unwrap_or_default();
        let tensors = SafeTensors::deserialize(bytes).map_err(damaged)?;
        match Seal::of(bytes) {
            Seal::Intact => {}
            Seal::Broken => {
                return Err("damaged: its bytes do not have the SHA-256 in its header".to_owned());
            }
            Seal::Missing => {
                return Err("damaged, or of an older version: no SHA-256 in its header".to_owned());
            }
        }
        let arrays =
            tensors.iter().map(|(name, t)| (name.to_owned(), (t.dtype(), t.data().to_vec())));
        Ok((Arrays(arrays.collect()), header))
    }
}
