//! What is wanted, and from whom.

use std::path::PathBuf;

use crate::binding::Binding;

/// How a name is proven to be ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// tls-alpn-01 (RFC 8737): a certificate at port 443.
    Tls,
    /// http-01: a page at port 80.
    Http,
}

/// What is wanted.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The names of the certificate.
    pub names: Vec<String>,
    /// Whom the authority may write to.
    pub email: Option<String>,
    /// Whose account it is to be, where the authority wants to know that.
    pub binding: Option<Binding>,
    /// Of those that the authority offers, the kind of certificate; its own choice without.
    pub profile: Option<String>,
    /// The authority.
    pub directory: String,
    /// File with the root of its own certificate; the system's without.
    pub root: Option<PathBuf>,
    /// How names are proven.
    pub proof: Proof,
}
