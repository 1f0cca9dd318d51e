//! The certificate that is used until there is one that anybody believes: browsers warn of it, but the server runs, and the
//! authority can be shown what it wants to see.

use std::time::{Duration, SystemTime};

use rcgen::{CertificateParams, KeyPair};

use crate::error::Error;

/// Stands among its names, so that nobody takes it for another.
const NAME: &str = "stand-in.invalid";

/// So few days that whoever watches those that are left hears that there is no better one.
const LIFE: Duration = Duration::from_secs(7 * 24 * 3600);

/// A certificate for these names with its key, in PEM. Beyond its time it is served still, as any that is the only one.
///
/// # Errors
/// When the system has no random bytes.
pub fn stand_in(names: &[String]) -> Result<String, Error> {
    let made = |error: rcgen::Error| Error::Made(error.to_string());
    let key = KeyPair::generate().map_err(made)?;
    let names: Vec<String> = names.iter().cloned().chain([NAME.to_owned()]).collect();
    let mut wish = CertificateParams::new(names).map_err(made)?;
    wish.not_after = (SystemTime::now() + LIFE).into();
    let certificate = wish.self_signed(&key).map_err(made)?;
    Ok(certificate.pem() + &key.serialize_pem())
}

/// Whether these are its names.
#[must_use]
pub fn is_stand_in(names: &[String]) -> bool {
    names.iter().any(|name| name == NAME)
}
