//! Which certificate a client gets: by the name that it asks for, an exact one before a wildcard, else the first of all;
//! of several for a name the cheapest to sign by that the client understands. One that understands none is offered the first
//! all the same: it then hears that nothing is in common (RFC 8446 4.1.1), and not that it has no access.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::challenges::{ACME_TLS, Challenges};
use crate::pair::Pair;

/// See the module.
#[derive(Debug)]
pub(crate) struct Store {
    pairs: Vec<Arc<Pair>>,
    /// By name, in the order in which they are to be tried; a wildcard stands under what follows its `*`.
    by_name: HashMap<String, Vec<usize>>,
    /// For whoever asks for no name, or one that is unknown.
    default: Vec<usize>,
    /// For an authority that looks whether a name is ours.
    challenges: Option<Arc<Challenges>>,
}

impl Store {
    pub(crate) fn new(pairs: Vec<Arc<Pair>>, challenges: Option<Arc<Challenges>>) -> Self {
        let mut order: Vec<usize> = (0..pairs.len()).collect();
        order.sort_by_key(|&at| !pairs[at].is_cheap());
        let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
        for &at in &order {
            for name in &pairs[at].content.names {
                let key = name.strip_prefix('*').unwrap_or(name);
                by_name.entry(key.to_owned()).or_default().push(at);
            }
        }
        // Of RSA and ECDSA for the same names each client gets what it understands, without a name too.
        let names = |at: usize| pairs.get(at).map(|pair| pair.content.names.iter().collect::<BTreeSet<_>>());
        let first = names(0);
        let like_first = |at: &&usize| names(**at) == first;
        let default = order.iter().filter(like_first).copied().collect();
        Self { pairs, by_name, default, challenges }
    }

    fn choose(&self, name: Option<&str>, schemes: &[SignatureScheme]) -> Option<&Pair> {
        let fits = |at: &&usize| self.pairs[**at].key.key.choose_scheme(schemes).is_some();
        let named = name.and_then(|name| self.named(&name.to_ascii_lowercase()).find(fits));
        let chosen = named.or_else(|| self.default.iter().find(fits));
        let chosen = chosen.or_else(|| self.default.first());
        chosen.map(|&at| &*self.pairs[at])
    }

    /// Those that have it written out, and then wildcards, each of which is for one label (RFC 6125 6.4.3).
    fn named(&self, name: &str) -> impl Iterator<Item = &usize> {
        let name = name.strip_suffix('.').unwrap_or(name);
        // With a dot before them wildcards are kept.
        let exact = if name.starts_with('.') { None } else { self.by_name.get(name) };
        let parent = name.find('.').filter(|&dot| dot > 0).and_then(|dot| self.by_name.get(&name[dot..]));
        exact.into_iter().chain(parent).flatten()
    }
}

thread_local! {
    /// The name in the greeting that this thread has read last. A session without buffers does not tell its name; but
    /// it asks for a certificate while it reads, so whoever has it read finds the name here.
    static ASKED: RefCell<Option<Box<str>>> = const { RefCell::new(None) };
}

/// The name in a greeting that this thread has read since the last call.
pub(crate) fn asked() -> Option<Box<str>> {
    ASKED.take()
}

impl ResolvesServerCert for Store {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        ASKED.set(hello.server_name().map(Into::into));
        if let Some(challenges) = self.challenges.as_ref().filter(|_| is_authority(&hello)) {
            return challenges.key(hello.server_name()?);
        }
        self.choose(hello.server_name(), hello.signature_schemes()).map(|pair| Arc::clone(&pair.key))
    }
}

/// It speaks nothing else (RFC 8737 3).
fn is_authority(hello: &ClientHello<'_>) -> bool {
    hello.alpn().is_some_and(|mut offered| offered.next() == Some(ACME_TLS) && offered.next().is_none())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256};

    use super::*;

    fn store(wishes: &[(&[&str], bool)]) -> Store {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pair");
        let pair = |(names, rsa): &(&[&str], bool)| {
            let kind = if *rsa { &PKCS_RSA_SHA256 } else { &PKCS_ECDSA_P256_SHA256 };
            let key = KeyPair::generate_for(kind).unwrap();
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let made = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
            std::fs::write(&file, made.pem() + &key.serialize_pem()).unwrap();
            Arc::new(Pair::read(&file, &file, 1_750_000_000).unwrap())
        };
        Store::new(wishes.iter().map(pair).collect(), None)
    }

    #[test]
    fn of_two_kinds_for_a_name_a_client_gets_what_it_understands_however_they_name_it() {
        let store = store(&[
            (&["default.example", "www.default.example"], false),
            (&["www.default.example", "default.example"], true),
            (&["a.wild.example"], false),
            (&["*.wild.example"], true),
        ]);
        let both = [SignatureScheme::ECDSA_NISTP256_SHA256, SignatureScheme::RSA_PSS_SHA256];
        for (name, schemes, chosen) in [
            (None, &both[..1], 0),
            (None, &both[1..], 1),
            (None, &both, 0),
            (Some("a.wild.example"), &both[..1], 2),
            (Some("a.wild.example"), &both[1..], 3),
            (Some("a.wild.example"), &both, 2),
            (Some("b.wild.example"), &both[1..], 3),
            (Some("b.wild.example"), &both[..1], 0),
        ] {
            let found = store.choose(name, schemes).unwrap();
            assert!(std::ptr::eq(found, &raw const *store.pairs[chosen]), "{name:?} {schemes:?}");
        }
    }

    #[test]
    fn a_client_gets_the_certificate_of_the_name_that_it_asks_for() {
        let store = store(&[
            (&["first.example"], true),
            (&["*.wild.example", "wild.example"], false),
            (&["exact.wild.example"], false),
            (&["first.example"], false),
        ]);
        let both = [SignatureScheme::ECDSA_NISTP256_SHA256, SignatureScheme::RSA_PSS_SHA256];
        let (ecdsa, rsa) = (&both[..1], &both[1..]);
        for (name, schemes, chosen) in [
            (Some("first.example"), &both[..], Some(3)),
            (Some("Exact.WILD.example."), &both, Some(2)),
            (Some("first.example"), rsa, Some(0)),
            (Some("a.wild.example"), ecdsa, Some(1)),
            (Some("wild.example"), ecdsa, Some(1)),
            (Some("exact.wild.example"), &both, Some(2)),
            (Some("a.b.wild.example"), &both, Some(3)),
            (Some(".wild.example"), &both, Some(3)),
            (Some("unknown.example"), &both, Some(3)),
            (Some("a.wild.example"), rsa, Some(0)),
            (None, &both, Some(3)),
            (None, rsa, Some(0)),
            (None, &[SignatureScheme::ED25519], Some(3)),
        ] {
            let found = store.choose(name, schemes);
            let at = found
                .and_then(|found| store.pairs.iter().position(|pair| std::ptr::eq(&raw const **pair, found)));
            assert_eq!(at, chosen, "{name:?} {schemes:?}");
        }
    }
}
