//! The digests at the end of `model.json`: of the weights beside it, and of itself.

use crate::{Error, Result};
use hambo_engine::files::sha256_of;
use std::path::Path;

/// What is to be done about a model that is not as it was written.
const REMEDY: &str = "fit the model anew";
/// Letters of a SHA-256.
const LETTERS: usize = 64;

/// The bytes of `model.json`: a description, which is a JSON object, with the digest of these weights and, at its very
/// end, that of all bytes before it.
pub fn seal(description: &[u8], weights: &[u8]) -> Vec<u8> {
    let object = description.trim_ascii_end();
    let object = object.strip_suffix(b"}").unwrap_or(object).trim_ascii_end();
    let mut sealed = [object, &link(&sha256_of(weights))].concat();
    let own = sha256_of(&sealed);
    sealed.extend(own.bytes().chain(END.bytes()));
    sealed
}

/// The description in the bytes of `model.json`, and the digest of its weights.
pub(super) fn unseal(path: &Path, bytes: &[u8]) -> Result<(Vec<u8>, String)> {
    intact(bytes).ok_or_else(|| {
        let problem = "its bytes do not have the SHA-256 at its end: damaged, changed by hand, or of an older version";
        Error::file(path, format!("{problem}; {REMEDY}"))
    })
}

fn intact(bytes: &[u8]) -> Option<(Vec<u8>, String)> {
    let (sealed, own) = bytes.strip_suffix(END.as_bytes())?.split_last_chunk::<LETTERS>()?;
    let object = sealed.get(..sealed.len().checked_sub(link(NONE).len())?)?;
    let digest = sealed[object.len() + WEIGHTS.len()..].get(..LETTERS)?;
    let weights = String::from_utf8(digest.to_vec()).ok()?;
    let same = sha256_of(sealed).as_bytes() == own && sealed.ends_with(&link(&weights));
    same.then(|| ([object, b"\n}"].concat(), weights))
}

/// An error if these are not the weights that the description was written with.
pub(super) fn check_weights(path: &Path, weights: &[u8], digest: &str) -> Result<()> {
    let found = sha256_of(weights);
    if found == digest {
        return Ok(());
    }
    let [found, expected] = [&found, digest].map(|digest| &digest[..digest.len().min(12)]);
    Err(Error::file(
        path,
        format!(
            "not the weights that model.json was written with: SHA-256 {found}…, expected {expected}…; damaged, or the \
             writing was interrupted; {REMEDY}"
        ),
    ))
}

const NONE: &str = "0000000000000000000000000000000000000000000000000000000000000000";
const WEIGHTS: &str = ",\n  \"weights_sha256\": \"";
const END: &str = "\"\n}\n";

/// What lies between the description and its own digest.
fn link(weights: &str) -> Vec<u8> {
    format!("{WEIGHTS}{weights}\",\n  \"sha256\": \"").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_of_a_description_is_seen() {
        let sealed = seal(b"{\n  \"schema\": \"x\"\n}\n", b"weights");
        let path = Path::new("model.json");
        let (description, weights) = unseal(path, &sealed).unwrap();
        assert_eq!(description, b"{\n  \"schema\": \"x\"\n}");
        check_weights(path, b"weights", &weights).unwrap();
        assert!(check_weights(path, b"Weights", &weights).is_err());
        assert!(serde_json::from_slice::<serde_json::Value>(&sealed).is_ok());
        for byte in 0..sealed.len() {
            for bit in 0..8 {
                let mut flipped = sealed.clone();
                flipped[byte] ^= 1 << bit;
                assert!(unseal(path, &flipped).is_err(), "bit {bit} of byte {byte}");
            }
            assert!(unseal(path, &sealed[..byte]).is_err(), "cut to {byte} bytes");
        }
    }
}
