//! What an authority for certificates is shown while it looks whether a name is ours (RFC 8555 8.3, RFC 8737): pages, and
//! certificates with a proof in them. Empty unless an order is under way, or to be gone on with.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;

use crate::error::Error;

/// The protocol (ALPN) by which an authority asks for such a certificate; it asks for nothing else with it.
pub const ACME_TLS: &[u8] = b"acme-tls/1";

/// See the module. All threads share it.
#[derive(Debug, Default)]
pub struct Challenges(RwLock<Shown>);

#[derive(Debug, Default)]
struct Shown {
    /// By token.
    pages: HashMap<Box<str>, Box<str>>,
    /// By name.
    certificates: HashMap<Box<str>, Arc<CertifiedKey>>,
}

impl Challenges {
    /// Shows `words` as the page of that token.
    pub fn page(&self, token: &str, words: &str) {
        self.change(|shown| shown.pages.insert(token.into(), words.into()));
    }

    /// Shows a certificate to who asks for that name; both are in DER.
    ///
    /// # Errors
    /// When the key cannot be used.
    pub fn certificate(&self, name: &str, certificate: Vec<u8>, key: Vec<u8>) -> Result<(), Error> {
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key));
        let key = any_supported_type(&key).map_err(|error| Error::Setup(error.to_string()))?;
        let pair = CertifiedKey::new(vec![CertificateDer::from(certificate)], key);
        self.change(|shown| shown.certificates.insert(name.to_ascii_lowercase().into(), Arc::new(pair)));
        Ok(())
    }

    /// Shows nothing any more.
    pub fn clear(&self) {
        self.change(std::mem::take);
    }

    /// The page of a token.
    #[must_use]
    pub fn words(&self, token: &str) -> Option<String> {
        let shown = self.0.read().unwrap_or_else(PoisonError::into_inner);
        shown.pages.get(token).map(|words| words.to_string())
    }

    /// The certificate of a name.
    pub(crate) fn key(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let shown = self.0.read().unwrap_or_else(PoisonError::into_inner);
        shown.certificates.get(&*name.to_ascii_lowercase()).map(Arc::clone)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Shown) -> T) -> T {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    #[test]
    fn what_is_shown_is_there_until_it_is_taken_back() {
        let challenges = Challenges::default();
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(["a.example".to_owned()]).unwrap().self_signed(&key).unwrap();
        challenges.certificate("A.example", certificate.der().to_vec(), key.serialize_der()).unwrap();
        challenges.page("token", "token.words");
        assert_eq!(challenges.words("token").as_deref(), Some("token.words"));
        assert!(challenges.key("a.EXAMPLE").is_some() && challenges.key("b.example").is_none());
        assert!(challenges.words("other").is_none());
        challenges.clear();
        assert!(challenges.words("token").is_none() && challenges.key("a.example").is_none());
        assert!(challenges.certificate("a.example", vec![], b"no key".to_vec()).is_err());
    }
}
