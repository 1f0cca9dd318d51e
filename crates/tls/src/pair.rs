//! A certificate with its chain, and the key that belongs to it: read from two files, or from one that has both, and
//! checked before anybody uses them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::SignatureAlgorithm;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::{self, PemObject, SectionKind};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::error::Error;
use crate::file::read_file;
use crate::x509::Content;

/// Files of this size are no certificates and keys.
const MOST: u64 = 1 << 20;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) key: Arc<CertifiedKey>,
    pub(crate) content: Content,
    pub(crate) file: PathBuf,
}

impl Pair {
    /// Reads and checks a pair, which must not end before `wanted`, in seconds since 1970.
    pub(crate) fn read(certificate: &Path, key: &Path, wanted: i64) -> Result<Self, Error> {
        let chain = certificates(certificate)?;
        let content =
            Content::of(&chain[0]).map_err(|error| Error::Certificate(certificate.to_owned(), error))?;
        let secret = private_key(key)?;
        let signing =
            any_supported_type(&secret).map_err(|error| Error::Key(key.to_owned(), error.to_string()))?;
        // Of rustls' own comparison one cannot tell a wrong key from a certificate that it would not trust, as of version 1.
        let is_for =
            |content: &Content| signing.public_key().is_some_and(|public| *public == *content.public_key);
        if !is_for(&content) {
            if chain.iter().any(|one| Content::of(one).is_ok_and(|content| is_for(&content))) {
                return Err(Error::Order { certificate: certificate.to_owned(), key: key.to_owned() });
            }
            return Err(Error::Mismatch { certificate: certificate.to_owned(), key: key.to_owned() });
        }
        if content.not_after < wanted {
            return Err(Error::Expired(certificate.to_owned(), content.valid_to));
        }
        let key = Arc::new(CertifiedKey::new(chain, signing));
        Ok(Self { key, content, file: certificate.to_owned() })
    }

    /// Signatures by this one are cheaper than RSA's.
    pub(crate) fn is_cheap(&self) -> bool {
        self.key.key.algorithm() != SignatureAlgorithm::RSA
    }
}

/// All certificates of a file, of which there is at least one.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let sections = sections(path, "certificate")?;
    let found: Vec<_> = sections
        .iter()
        .filter(|(kind, _)| *kind == SectionKind::Certificate)
        .map(|(_, der)| CertificateDer::from(der.clone()))
        .collect();
    if found.is_empty() {
        let way = "name the file of the certificate, with those between it and the root behind it";
        return Err(Error::WrongKind(path.to_owned(), kinds(&sections), "certificate", way));
    }
    Ok(found)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, Error> {
    let sections = sections(path, "private key")?;
    let mut keys = sections.iter().filter_map(|(kind, der)| PrivateKeyDer::from_pem(*kind, der.clone()));
    match keys.next_back() {
        Some(key) => Ok(key),
        None => Err(Error::WrongKind(
            path.to_owned(),
            kinds(&sections),
            "private key",
            "name the file of the key that the certificate was made for",
        )),
    }
}

fn sections(path: &Path, wanted: &'static str) -> Result<Vec<(SectionKind, Vec<u8>)>, Error> {
    let unreadable = |error| Error::unreadable(path, error);
    // Of a device nobody knows the size before.
    let bytes = read_file(path, MOST).map_err(unreadable)?;
    if bytes.len() as u64 > MOST {
        return Err(Error::NotPem(path.to_owned(), wanted));
    }
    // As some editors put it there.
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&bytes);
    if bytes.trim_ascii().is_empty() {
        return Err(Error::Empty(path.to_owned(), wanted));
    }
    if bytes.windows(17).any(|text| text == b"BEGIN ENCRYPTED P") || is_legacy(bytes) {
        return Err(Error::Encrypted(path.to_owned()));
    }
    let all: Result<Vec<(SectionKind, Vec<u8>)>, pem::Error> =
        <(SectionKind, Vec<u8>)>::pem_slice_iter(bytes).collect();
    all.ok().filter(|all| !all.is_empty()).ok_or_else(|| Error::NotPem(path.to_owned(), wanted))
}

/// The way of old programs to encrypt a key.
fn is_legacy(bytes: &[u8]) -> bool {
    bytes.windows(22).any(|text| text == b"Proc-Type: 4,ENCRYPTED")
}

fn kinds(sections: &[(SectionKind, Vec<u8>)]) -> String {
    let name = |kind: SectionKind| match kind {
        SectionKind::Certificate => "a certificate",
        SectionKind::PublicKey => "a public key",
        SectionKind::RsaPrivateKey | SectionKind::PrivateKey | SectionKind::EcPrivateKey => "a private key",
        SectionKind::Crl => "a revocation list",
        SectionKind::Csr => "a signing request",
        _ => "something else",
    };
    sections.first().map_or_else(String::new, |(kind, _)| name(*kind).to_owned())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    const NOW: i64 = 1_750_000_000;

    fn pair(until: i32) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut wish = CertificateParams::new(["example.org".to_owned()]).unwrap();
        (wish.not_before, wish.not_after) = (date_time_ymd(2000, 1, 1), date_time_ymd(until, 2, 3));
        (wish.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    #[test]
    fn whatever_is_wrong_with_a_file_is_told_with_its_name_and_the_way_out() {
        let dir = tempfile::tempdir().unwrap();
        let (certificate, key) = pair(2040);
        let (_, other) = pair(2040);
        let (expired, its_key) = pair(2001);
        let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAA==\n-----END ENCRYPTED PRIVATE KEY-----\n";
        let broken = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
        // The files, and what is said; nothing where all is well.
        for (first, second, said) in [
            (&*certificate, &*key, ""),
            (&format!("{key}{certificate}"), &format!("{certificate}{key}"), ""),
            (&certificate, &other, "k.pem does not belong to the certificate in"),
            (&expired, &its_key, "c.pem has expired on Feb  3 00:00:00 2001 GMT: renew it"),
            (&format!("\u{feff}{certificate}"), &format!("\u{feff}{key}"), ""),
            (&certificate.replace('\n', "\r\n"), &key.replace('\n', "\r\n"), ""),
            (&format!("{expired}{certificate}"), &key, "k.pem is for stands behind another one in"),
            ("", &key, "c.pem is empty: write the certificate there"),
            (&certificate, " \n", "k.pem is empty: write the private key there"),
            ("hello", &key, "c.pem is no PEM file: a certificate begins with -----BEGIN"),
            (&key, &key, "c.pem has a private key and no certificate: name the file"),
            (&certificate, &certificate, "k.pem has a certificate and no private key: name"),
            (&certificate, encrypted, "k.pem is encrypted: decrypt it"),
            (broken, &key, "cannot understand the certificate in"),
        ] {
            let [c, k] = ["c.pem", "k.pem"].map(|name| dir.path().join(name));
            std::fs::write(&c, first).unwrap();
            std::fs::write(&k, second).unwrap();
            let told = Pair::read(&c, &k, NOW).map_or_else(|error| error.to_string(), |_| String::new());
            assert!(told.contains(said) && told.is_empty() == said.is_empty(), "{said}: {told}");
        }
        let missing = Pair::read(&dir.path().join("none"), &dir.path().join("none"), NOW).unwrap_err();
        assert!(missing.to_string().contains("none: No such file"), "{missing}");
        let endless = Pair::read(Path::new("/dev/zero"), Path::new("/dev/zero"), NOW).unwrap_err();
        assert!(endless.to_string().contains("/dev/zero is no PEM file"), "{endless}");
    }

    #[test]
    fn a_pair_knows_its_names_and_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let (certificate, key) = pair(2040);
        let file = dir.path().join("both");
        std::fs::write(&file, certificate + &key).unwrap();
        let pair = Pair::read(&file, &file, NOW).unwrap();
        assert_eq!(pair.content.names, ["example.org"]);
        assert_eq!((pair.content.not_after, pair.is_cheap()), (2_211_840_000, true));
    }
}
