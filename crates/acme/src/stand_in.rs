//! The certificate that is used until there is one that anybody believes: browsers warn of it, but the server runs, and the
//! authority can be shown what it wants to see.

use rcgen::{CertificateParams, KeyPair};

use crate::error::Error;

/// Stands among its names, so that nobody takes it for another.
const NAME: &str = "stand-in.invalid";

/// A certificate for these names with its key, in PEM, valid for as long as it takes.
///
/// # Errors
/// When the system has no random bytes.
pub fn stand_in(names: &[String]) -> Result<String, Error> {
    let made = |error: rcgen::Error| Error::Made(error.to_string());
    let key = KeyPair::generate().map_err(made)?;
    let names: Vec<String> = names.iter().cloned().chain([NAME.to_owned()]).collect();
    let certificate = CertificateParams::new(names).and_then(|wish| wish.self_signed(&key)).map_err(made)?;
    Ok(certificate.pem() + &key.serialize_pem())
}

/// Whether these are its names.
#[must_use]
pub fn is_stand_in(names: &[String]) -> bool {
    names.iter().any(|name| name == NAME)
}
