//! Whose client certificates are believed, and what becomes of a client that has none.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error as Refusal, RootCertStore, SignatureScheme};

use crate::error::Error;
use crate::pair::certificates;
use crate::tickets::ENDS;
use crate::x509::Content;

/// The authorities in a file.
#[derive(Debug)]
pub(crate) struct Trusted {
    /// Who looks at the certificates of clients.
    pub(crate) verifier: Arc<dyn ClientCertVerifier>,
    /// What tickets are bound to: a digest of all this.
    pub(crate) context: Vec<u8>,
}

impl Trusted {
    pub(crate) fn read(file: &Path, required: bool) -> Result<Self, Error> {
        let wrong = |error: String| Error::Certificate(file.to_owned(), error);
        let mut digest = ::aws_lc_rs::digest::Context::new(&::aws_lc_rs::digest::SHA256);
        digest.update(&[u8::from(required)]);
        let mut roots = RootCertStore::empty();
        for authority in certificates(file)? {
            digest.update(&authority);
            roots.add(authority).map_err(|error| wrong(error.to_string()))?;
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let builder = if required { builder } else { builder.allow_unauthenticated() };
        let verifier = builder.build().map_err(|error| wrong(error.to_string()))?;
        Ok(Self { verifier: Arc::new(Noting(verifier)), context: digest.finish().as_ref().to_vec() })
    }
}

/// Notes until when a certificate is good that is believed.
#[derive(Debug)]
struct Noting(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Noting {
    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Refusal> {
        let verified = self.0.verify_client_cert(own, between, now)?;
        ENDS.set(Content::of(own).map_or(i64::MIN, |content| content.not_after));
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Refusal> {
        self.0.verify_tls12_signature(message, own, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Refusal> {
        self.0.verify_tls13_signature(message, own, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
