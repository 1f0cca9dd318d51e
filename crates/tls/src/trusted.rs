//! Whose client certificates are believed, and what becomes of a client that has none.

use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use crate::error::Error;
use crate::pair::certificates;

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
        Ok(Self { verifier, context: digest.finish().as_ref().to_vec() })
    }
}
