//! A digest of all bytes of a safetensors file, in its own header.

use super::{Digest, sha256_of};

/// The value of `sha256` in the header of a file that is to be sealed.
pub const NO_SEAL: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// What comes before the digest in the header, which is JSON without spaces.
const KEY: &[u8] = b"\"sha256\":\"";

/// Whether a file is as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seal {
    /// Every bit is as it was written.
    Intact,
    /// Something is not.
    Broken,
    /// Whoever wrote it did not seal it.
    Missing,
}

/// Seals a safetensors file whose header has `sha256` = [`NO_SEAL`]: the digest of the file as it is takes its place. A
/// file without it stays as it is.
pub fn seal(mut file: Vec<u8>) -> Vec<u8> {
    let digest = sha256_of(&file);
    if let Some(place) = place(&file)
        && file[place..].starts_with(NO_SEAL.as_bytes())
    {
        file[place..][..NO_SEAL.len()].copy_from_slice(digest.as_bytes());
    }
    file
}

impl Seal {
    /// Compares a safetensors file with the digest in its header.
    pub fn of(file: &[u8]) -> Seal {
        let Some(place) = place(file) else { return Seal::Missing };
        let (before, rest) = file.split_at(place);
        let (sealed, after) = rest.split_at(NO_SEAL.len());
        let mut digest = Digest::default();
        [before, NO_SEAL.as_bytes(), after].into_iter().for_each(|part| digest.add_bytes(part));
        match digest.finish().as_bytes() == sealed {
            true => Seal::Intact,
            false => Seal::Broken,
        }
    }
}

/// Where the digest begins.
fn place(file: &[u8]) -> Option<usize> {
    let length = usize::try_from(u64::from_le_bytes(*file.first_chunk()?)).ok()?;
    let header = file.get(8..)?.get(..length)?;
    let found = header.windows(KEY.len()).position(|bytes| bytes == KEY)? + KEY.len();
    header.get(found..)?.get(..NO_SEAL.len()).map(|_| 8 + found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Vec<u8> {
        let header = format!("{{\"__metadata__\":{{\"a\":\"b\",\"sha256\":\"{NO_SEAL}\"}}}}");
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[1, 2, 3]].concat()
    }

    #[test]
    fn a_seal_tells_every_flipped_bit() {
        let sealed = seal(file());
        assert_eq!(Seal::of(&sealed), Seal::Intact);
        assert_eq!(Seal::of(&file()), Seal::Broken, "zeros are the digest of nothing");
        for byte in 0..sealed.len() {
            for bit in 0..8 {
                let mut flipped = sealed.clone();
                flipped[byte] ^= 1 << bit;
                assert_ne!(Seal::of(&flipped), Seal::Intact, "bit {bit} of byte {byte}");
            }
        }
    }

    #[test]
    fn what_was_never_sealed_is_left_alone() {
        for bytes in [&b""[..], b"1234567", &[255; 100], &7u64.to_le_bytes()] {
            assert_eq!((Seal::of(bytes), seal(bytes.to_vec())), (Seal::Missing, bytes.to_vec()));
        }
    }
}
