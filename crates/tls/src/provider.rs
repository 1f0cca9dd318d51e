//! What does the arithmetic of TLS: aws-lc, but for AES-GCM on those processors for which ring has the quicker code.

use rustls::crypto::{CryptoProvider, aws_lc_rs};

/// For servers.
pub(crate) fn provider() -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    #[cfg(target_arch = "x86_64")]
    if seals_quicker_by_ring() {
        take_ciphers_of_ring(&mut provider);
    }
    provider
}

/// With VAES but without AVX-512, as AMD's Zen 3 and Intel's processors for desktops are, ring seals twice as quickly: aws-lc has code
/// for both together alone, which is the quickest.
#[cfg(target_arch = "x86_64")]
fn seals_quicker_by_ring() -> bool {
    is_x86_feature_detected!("vaes")
        && is_x86_feature_detected!("vpclmulqdq")
        && is_x86_feature_detected!("avx2")
        && !is_x86_feature_detected!("avx512f")
}

/// Those with AES, each in its place: with ChaCha20 aws-lc is the quicker one.
#[cfg(target_arch = "x86_64")]
fn take_ciphers_of_ring(provider: &mut CryptoProvider) {
    use rustls::crypto::ring::ALL_CIPHER_SUITES;

    for suite in &mut provider.cipher_suites {
        let is_aes = suite.suite().as_str().is_some_and(|name| name.contains("AES"));
        if let Some(same) = ALL_CIPHER_SUITES.iter().find(|other| is_aes && other.suite() == suite.suite()) {
            *suite = *same;
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use std::io::{Read, Write};
    use std::ptr;
    use std::sync::Arc;

    use rustls::crypto::ring::ALL_CIPHER_SUITES;
    use rustls::pki_types::PrivateKeyDer;
    use rustls::{
        ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection,
        SupportedCipherSuite,
    };

    use super::*;

    /// Those of one name are equal, whose code they may be.
    fn is_one(one: SupportedCipherSuite, other: SupportedCipherSuite) -> bool {
        match (one, other) {
            (SupportedCipherSuite::Tls13(one), SupportedCipherSuite::Tls13(other)) => ptr::eq(one, other),
            (SupportedCipherSuite::Tls12(one), SupportedCipherSuite::Tls12(other)) => ptr::eq(one, other),
            _ => false,
        }
    }

    #[test]
    fn the_ciphers_of_ring_are_the_same_ciphers_in_the_same_order() {
        let (theirs, mut ours) = (aws_lc_rs::default_provider(), aws_lc_rs::default_provider());
        take_ciphers_of_ring(&mut ours);
        let key = rcgen::KeyPair::generate().unwrap();
        let wish = rcgen::CertificateParams::new(["example.org".to_owned()]).unwrap();
        let certificate = wish.self_signed(&key).unwrap().der().clone();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let server = ServerConfig::builder_with_provider(Arc::new(ours.clone()));
        let server = server.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let secret = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let server = Arc::new(server.with_single_cert(vec![certificate], secret).unwrap());

        let mut of_ring = 0;
        for (suite, ours) in theirs.cipher_suites.iter().zip(&ours.cipher_suites) {
            let name = suite.suite();
            assert_eq!(ours.suite(), name);
            of_ring += usize::from(ALL_CIPHER_SUITES.iter().any(|other| is_one(*ours, *other)));
            if name.as_str().unwrap().contains("_RSA_") {
                continue; // the certificate is not for those, which differ in nothing else
            }
            let client = CryptoProvider { cipher_suites: vec![*suite], ..theirs.clone() };
            let client = ClientConfig::builder_with_provider(Arc::new(client));
            let client = client.with_safe_default_protocol_versions().unwrap();
            let client = client.with_root_certificates(roots.clone()).with_no_client_auth();
            let client = ClientConnection::new(Arc::new(client), "example.org".try_into().unwrap()).unwrap();
            let mut ends: [Connection; 2] =
                [client.into(), ServerConnection::new(Arc::clone(&server)).unwrap().into()];
            let words: Vec<u8> = (0..40_000_u32).map(|number| (number % 251) as u8).collect();
            ends.iter_mut().for_each(|end| end.writer().write_all(&words).unwrap());
            let mut heard = [Vec::new(), Vec::new()];
            for turn in 0..20 {
                let mut wire = Vec::new();
                while ends[turn % 2].wants_write() {
                    ends[turn % 2].write_tls(&mut wire).unwrap();
                }
                let (other, mut wire) = (&mut ends[1 - turn % 2], &wire[..]);
                while !wire.is_empty() {
                    other.read_tls(&mut wire).unwrap();
                    other.process_new_packets().unwrap();
                    let _ = other.reader().read_to_end(&mut heard[turn % 2]);
                }
            }
            assert_eq!(ends[1].negotiated_cipher_suite().map(|suite| suite.suite()), Some(name));
            assert!(heard.iter().all(|heard| *heard == words), "{name:?}");
        }
        assert_eq!(of_ring, 6, "all that have AES");
    }
}
