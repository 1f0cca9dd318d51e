//! What a handshake has settled, under the names that Apache's mod_ssl gives to it: for the env of applications and for
//! `%{...}x` in the access log.

use rustls::pki_types::CertificateDer;
use rustls::{CipherSuite, ProtocolVersion};

use crate::x509::Content;

/// See the module. None of the names occurs twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    variables: Vec<(&'static str, Box<str>)>,
    /// The protocol that the client has chosen by ALPN; empty for none.
    pub alpn: Vec<u8>,
}

impl Facts {
    pub(crate) fn new(
        protocol: Option<ProtocolVersion>,
        cipher: Option<CipherSuite>,
        name: Option<&str>,
        alpn: Option<&[u8]>,
    ) -> Self {
        let mut facts = Self { variables: Vec::new(), alpn: alpn.unwrap_or_default().to_vec() };
        facts.add("SSL_PROTOCOL", protocol.map_or("", protocol_name));
        facts.add("SSL_CIPHER", cipher.map_or("", cipher_name));
        facts.add("SSL_TLS_SNI", name.unwrap_or_default());
        facts
    }

    fn add(&mut self, name: &'static str, value: &str) {
        if !value.is_empty() {
            self.variables.push((name, value.into()));
        }
    }

    /// The client was asked for a certificate, which has been verified if there is one.
    pub(crate) fn of_client(&mut self, chain: Option<&[CertificateDer<'_>]>) {
        let content = chain.and_then(|chain| chain.first()).and_then(|first| Content::of(first).ok());
        let Some(content) = content else { return self.add("SSL_CLIENT_VERIFY", "NONE") };
        self.add("SSL_CLIENT_VERIFY", "SUCCESS");
        self.add("SSL_CLIENT_S_DN", &content.subject);
        self.add("SSL_CLIENT_S_DN_CN", &content.common_name);
        self.add("SSL_CLIENT_S_DN_Email", &content.email);
        self.add("SSL_CLIENT_I_DN", &content.issuer);
        self.add("SSL_CLIENT_M_SERIAL", &content.serial);
        self.add("SSL_CLIENT_V_START", &content.valid_from);
        self.add("SSL_CLIENT_V_END", &content.valid_to);
    }

    /// Names and values.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.variables.iter().map(|(name, value)| (*name, &**value))
    }

    /// The value of one of them.
    #[must_use]
    pub fn variable(&self, name: &[u8]) -> Option<&str> {
        self.variables().find(|(known, _)| known.as_bytes() == name).map(|(_, value)| value)
    }
}

fn protocol_name(protocol: ProtocolVersion) -> &'static str {
    match protocol {
        ProtocolVersion::TLSv1_2 => "TLSv1.2",
        ProtocolVersion::TLSv1_3 => "TLSv1.3",
        _ => "",
    }
}

/// As OpenSSL, and by that Apache, calls it.
fn cipher_name(cipher: CipherSuite) -> &'static str {
    match cipher {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => "ECDHE-ECDSA-AES128-GCM-SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => "ECDHE-ECDSA-AES256-GCM-SHA384",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-ECDSA-CHACHA20-POLY1305",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => "ECDHE-RSA-AES128-GCM-SHA256",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => "ECDHE-RSA-AES256-GCM-SHA384",
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-RSA-CHACHA20-POLY1305",
        _ => "",
    }
}
