//! By what an authority knows to which of its customers an account belongs (RFC 8555 7.3.4): an identifier and a secret, which it
//! has given to that customer.

use std::fmt;
use std::path::Path;

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use instant_acme::ExternalAccountKey;

use crate::error::Error;

/// Bytes of a file with a key.
const MOST: u64 = 4096;
/// As authorities print it, and as people copy it.
const TEXT: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// See the module.
#[derive(Clone)]
pub struct Binding {
    id: String,
    key: Vec<u8>,
}

impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Binding").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Binding {
    /// With the key in a file.
    ///
    /// # Errors
    /// When there is none.
    pub fn read(id: &str, file: &Path) -> Result<Self, Error> {
        let read = howdah_tls::read_file(file, MOST);
        let bytes = read.map_err(|error| Error::File("read", file.to_owned(), error))?;
        let text = String::from_utf8_lossy(&bytes);
        // Some print it in the other alphabet of base64.
        let plain = text.trim().replace('+', "-").replace('/', "_");
        match TEXT.decode(plain) {
            Ok(key) if !key.is_empty() => Ok(Self { id: id.to_owned(), key }),
            _ => Err(Error::NoKey(file.to_owned())),
        }
    }

    pub(crate) fn key(&self) -> ExternalAccountKey {
        ExternalAccountKey::new(self.id.clone(), &self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_however_its_bytes_are_written_and_never_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (text, bytes) in [
            ("-_8A", Some(&[0xfb, 0xff, 0][..])),
            ("  +/8A\n", Some(&[0xfb, 0xff, 0])),
            ("-_8", Some(&[0xfb, 0xff])),
            ("-_8=\n", Some(&[0xfb, 0xff])),
            ("", None),
            ("\n", None),
            ("a key", None),
        ] {
            std::fs::write(file.path(), text).unwrap();
            let read = Binding::read("me", file.path());
            assert_eq!(read.as_ref().ok().map(|binding| &*binding.key), bytes, "{text}");
            let told = format!("{read:?}");
            assert!(!told.contains("251") && (bytes.is_some() || told.contains("NoKey")), "{told}");
        }
        let missing = Binding::read("me", "/nonexistent".as_ref()).unwrap_err();
        assert_eq!(missing.to_string(), "cannot read /nonexistent: No such file or directory (os error 2)");
    }
}
