//! Why there is no certificate, for people.

use std::io;
use std::path::{Path, PathBuf};

use instant_acme::Problem;

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of ours.
    #[error("cannot {0} {1}: {2}")]
    File(&'static str, PathBuf, io::Error),
    /// The authority refuses, or cannot be reached.
    #[error("{0}: {1}")]
    Authority(&'static str, String),
    /// The authority takes no order of this account.
    #[error(
        "the authority takes no order of the account in {0}: {1}; where it refuses the account, remove the file for another"
    )]
    Refused(PathBuf, String),
    /// What it would issue is for a key that nobody here has.
    #[error(
        "the authority has an order for these names that is fulfilled already, with a key that is not here: remove {0} for another account"
    )]
    Another(PathBuf),
    /// There is no key in the file that is to have it.
    #[error(
        "{0} has no key in base64: write what the authority has given beside the identifier there, and nothing else"
    )]
    NoKey(PathBuf),
    /// Not everybody may have an account.
    #[error(
        "cannot open an account: {0}; this authority has customers: name what it has given you by --acme-eab-kid and --acme-eab-key-file"
    )]
    Customers(String),
    /// It takes no letters for that address.
    #[error("the authority does not take {0} as --acme-email: {1}; name another")]
    Contact(String, String),
    /// It has no such kind of certificate.
    #[error("the authority does not offer the profile {0}: choose another --acme-profile, of {1}")]
    NoProfile(String, String),
    /// What is to tell it from others tells nothing.
    #[error("cannot tell the authority by {0}: {1}: --acme-ca names a file with its root certificate in PEM")]
    Root(PathBuf, String),
    /// It has looked and found no proof.
    #[error("{0} is not proven to be ours: {1}")]
    Unproven(String, String),
    /// It offers no way to prove a name that we know.
    #[error("the authority does not offer {1} for {0}: choose another --acme-challenge")]
    NoProof(String, &'static str),
    /// It has issued something.
    #[error("the authority has issued what cannot be used, and the certificate that there is stays: {0}")]
    Useless(String),
    /// It takes too long.
    #[error("the authority has not answered in ten minutes")]
    Late,
    /// What remains.
    #[error("cannot make a key or a certificate: {0}")]
    Made(String),
}

impl Error {
    /// What a step has met.
    pub(crate) fn at(step: &'static str) -> impl FnOnce(instant_acme::Error) -> Self {
        move |error| Self::Authority(step, words(&error))
    }

    /// What opening an account has met.
    pub(crate) fn closed(error: &instant_acme::Error) -> Self {
        let words = words(error);
        if words.contains("externalAccountRequired") {
            return Self::Customers(words);
        }
        Self::Authority("cannot open an account", words)
    }

    /// What is said to an order of the account that is kept in that file. Where the same may go well later, that is not the
    /// account's fault, and another one would be no better.
    pub(crate) fn refused(account: PathBuf) -> impl FnOnce(instant_acme::Error) -> Self {
        move |error| match passes(&error) {
            true => Self::Authority("the authority takes no order now", words(&error)),
            false => Self::Refused(account, words(&error)),
        }
    }

    /// What is wrong with a file.
    pub(crate) fn root(file: &Path) -> impl FnOnce(instant_acme::Error) -> Self {
        move |error| Self::Root(file.to_owned(), words(&error))
    }
}

/// Whether the same may go well later.
pub(crate) fn passes(error: &instant_acme::Error) -> bool {
    !matches!(error, instant_acme::Error::Api(problem) if !is_passing(problem))
}

/// The authority says so (RFC 8555 6.7).
pub(crate) fn is_passing(problem: &Problem) -> bool {
    let kind = problem.r#type.as_deref().unwrap_or_default();
    problem.status.is_some_and(|status| status == 429 || status >= 500)
        || ["badNonce", "rateLimited", "serverInternal"].iter().any(|passing| kind.ends_with(passing))
}

/// All that is behind it: the words of a library alone seldom say what to do.
fn words(error: &instant_acme::Error) -> String {
    let mut words = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    words
}
