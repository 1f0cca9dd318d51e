//! An order that the authority may fulfil while nobody waits for it: where it is asked for, the key that its certificate
//! is for, and what the authority wants to see. They are kept until the certificate is, so that a process that ends, a full disk, a lost
//! answer or an authority that takes its time costs no certificate, and nobody orders a second one. The process that replaces one in the
//! midst of it shows what the authority comes for.

use std::path::PathBuf;

use base64::prelude::{BASE64_STANDARD, Engine};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use serde_json::{Value, json};

use crate::error::Error;
use crate::place::{Place, write};
use crate::schedule::now;

/// See the module.
#[derive(Debug)]
pub(crate) struct Begun {
    file: PathBuf,
    /// The order's own.
    pub(crate) url: String,
    key: KeyPair,
    /// When, in seconds since 1970.
    at: i64,
    pub(crate) proofs: Vec<Wanted>,
}

/// What the authority wants to see of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) name: String,
    /// By which it asks for a page, and what stands there.
    pub(crate) token: String,
    pub(crate) words: String,
    /// Of these words, for a certificate.
    pub(crate) digest: Vec<u8>,
}

/// An order that cannot be asked for is not waited for any longer than this many seconds.
const PATIENCE: u64 = 24 * 3600;

impl Begun {
    /// With a new key.
    pub(crate) fn new(place: &Place, url: &str) -> Result<Self, Error> {
        let key = KeyPair::generate().map_err(|error| made(&error))?;
        let (file, proofs) = (place.order(), Vec::new());
        let begun = Self { file, url: url.to_owned(), key, at: now(), proofs };
        begun.keep()?;
        Ok(begun)
    }

    fn keep(&self) -> Result<(), Error> {
        let proofs: Vec<Value> = self.proofs.iter().map(Wanted::pack).collect();
        let kept = json!({"order": self.url, "key": self.key(), "at": self.at, "proofs": proofs});
        write(&self.file, kept.to_string().as_bytes())
    }

    /// Notes what the authority wants to see, before it is told that it may look.
    pub(crate) fn note(&mut self, wanted: Wanted) -> Result<(), Error> {
        if self.proofs.contains(&wanted) {
            return Ok(());
        }
        self.proofs.push(wanted);
        self.keep()
    }

    /// The one that is kept, if any.
    pub(crate) fn kept(place: &Place) -> Option<Self> {
        let kept: Value = serde_json::from_slice(&std::fs::read(place.order()).ok()?).ok()?;
        let key = KeyPair::from_pem(kept["key"].as_str()?).ok()?;
        let (url, at) = (kept["order"].as_str()?.to_owned(), kept["at"].as_i64()?);
        let proofs = kept["proofs"].as_array().into_iter().flatten().filter_map(Wanted::unpack).collect();
        Some(Self { file: place.order(), url, key, at, proofs })
    }

    /// In PEM.
    pub(crate) fn key(&self) -> String {
        self.key.serialize_pem()
    }

    /// What the authority is to sign, in DER.
    pub(crate) fn request(&self, names: &[String]) -> Result<Vec<u8>, Error> {
        let mut wish = CertificateParams::new(names.to_vec()).map_err(|error| made(&error))?;
        wish.distinguished_name = DistinguishedName::new();
        let request = wish.serialize_request(&self.key).map_err(|error| made(&error))?;
        Ok(request.der().to_vec())
    }

    pub(crate) fn is_young(&self) -> bool {
        now().abs_diff(self.at) < PATIENCE
    }

    /// There is a certificate, or there will be none.
    pub(crate) fn forget(self) {
        let _ = std::fs::remove_file(self.file);
    }
}

impl Wanted {
    fn pack(&self) -> Value {
        let digest = BASE64_STANDARD.encode(&self.digest);
        json!({"name": self.name, "token": self.token, "words": self.words, "digest": digest})
    }

    fn unpack(packed: &Value) -> Option<Self> {
        let text = |key: &str| packed[key].as_str().map(str::to_owned);
        let (name, token, words) = (text("name")?, text("token")?, text("words")?);
        Some(Self { name, token, words, digest: BASE64_STANDARD.decode(text("digest")?).ok()? })
    }
}

fn made(error: &rcgen::Error) -> Error {
    Error::Made(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_is_begun_is_known_until_it_is_forgotten() {
        let all = tempfile::tempdir().unwrap();
        let names = ["a.example".to_owned()];
        let place = Place::of(all.path(), "https://x", &names);
        place.make().unwrap();
        assert!(Begun::kept(&place).is_none());
        let mut begun = Begun::new(&place, "https://x/order/1").unwrap();
        let wanted = |token: &str| Wanted {
            name: "a.example".to_owned(),
            token: token.to_owned(),
            words: format!("{token}.of-our-account"),
            digest: vec![0xff, 1, 2],
        };
        for token in ["one", "two", "one"] {
            begun.note(wanted(token)).unwrap();
        }
        let kept = Begun::kept(&place).unwrap();
        assert_eq!((kept.url.as_str(), kept.key()), ("https://x/order/1", begun.key()));
        assert_eq!(kept.proofs, [wanted("one"), wanted("two")]);
        assert!(!kept.request(&names).unwrap().is_empty() && place.others().is_empty());
        assert!(
            kept.is_young() && !Begun { at: kept.at - 100_000, ..Begun::kept(&place).unwrap() }.is_young()
        );
        kept.forget();
        assert!(Begun::kept(&place).is_none());
        for nonsense in ["", "{}", r#"{"order": "https://x", "key": "none", "at": 1}"#] {
            std::fs::write(place.order(), nonsense).unwrap();
            assert!(Begun::kept(&place).is_none(), "{nonsense}");
        }
    }
}
