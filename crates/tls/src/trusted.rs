//! Whose client certificates are believed, and what becomes of a client that has none.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use crate::error::Error;
use crate::pair::certificates;

/// The authorities in a file.
#[derive(Debug)]
pub(crate) struct Trusted {
    authorities: Vec<CertificateDer<'static>>,
    file: PathBuf,
    required: bool,
}

impl Trusted {
    pub(crate) fn read(file: &Path, required: bool) -> Result<Self, Error> {
        Ok(Self { authorities: certificates(file)?, file: file.to_owned(), required })
    }

    /// Who looks at the certificates of clients.
    pub(crate) fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ClientCertVerifier>, Error> {
        let wrong = |error: String| Error::Certificate(self.file.clone(), error);
        let mut roots = RootCertStore::empty();
        for authority in &self.authorities {
            roots.add(authority.clone()).map_err(|error| wrong(error.to_string()))?;
        }
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        let builder = if self.required { builder } else { builder.allow_unauthenticated() };
        builder.build().map_err(|error| wrong(error.to_string()))
    }

    /// What tickets are bound to: a digest of all this.
    pub(crate) fn context(&self) -> Vec<u8> {
        let mut digest = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
        digest.update(&[u8::from(self.required)]);
        self.authorities.iter().for_each(|authority| digest.update(authority));
        digest.finish().as_ref().to_vec()
    }
}
