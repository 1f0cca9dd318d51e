//! When the authority would like a certificate to be replaced (RFC 9773): most often to spread what it has to do, sometimes because it
//! has to revoke that. And by which name it knows a certificate.

use std::sync::Arc;
use std::time::Duration;

use instant_acme::{CertificateIdentifier, Error as Refusal};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::account::known;
use crate::authority::Talk;
use crate::error::Error;
use crate::place::Place;
use crate::schedule::Window;
use crate::wish::Wish;

/// What an authority says of a certificate.
#[derive(Clone, Debug)]
pub struct Advice {
    /// When it is to be replaced.
    pub window: Window,
    /// Where it tells people why.
    pub why: Option<String>,
    /// After how long it may be asked again.
    pub again: Duration,
}

/// What it says of the one that is kept; none where it does not say such things.
///
/// # Errors
/// When it does not answer.
pub async fn advice(wish: &Wish, place: &Place, talk: &Arc<Talk>) -> Result<Option<Advice>, Error> {
    let (Some(identity), Some(account)) = (identity(place), known(wish, place, talk).await?) else {
        return Ok(None);
    };
    match account.renewal_info(&identity).await {
        Ok((info, again)) => {
            let window = info.suggested_window;
            let (start, end) = (window.start.unix_timestamp(), window.end.unix_timestamp());
            Ok(Some(Advice { window: Window { start, end }, why: info.explanation_url, again }))
        }
        Err(Refusal::Unsupported(_)) => Ok(None),
        Err(error) => Err(Error::at("the authority does not say when to renew")(error)),
    }
}

/// Of the certificate that is kept; none of one that nobody has issued.
pub(crate) fn identity(place: &Place) -> Option<CertificateIdentifier<'static>> {
    let certificate = CertificateDer::from_pem_file(place.certificate()).ok()?;
    CertificateIdentifier::try_from(&certificate).ok().map(CertificateIdentifier::into_owned)
}
