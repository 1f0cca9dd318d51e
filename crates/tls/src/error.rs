//! What is wrong with a file or a setting. Each message names the file, the trouble and the way out.

use std::io;
use std::path::{Path, PathBuf};

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system does not let us.
    #[error("cannot read {0}: {1}{2}")]
    Unreadable(PathBuf, io::Error, &'static str),
    /// A pipe, a device, a directory.
    #[error(
        "{0} is no regular file, so it cannot be read anew: write the certificate or key to a file there"
    )]
    NoFile(PathBuf),
    /// There is nothing in it.
    #[error("{0} is empty: write the {1} there, in PEM")]
    Empty(PathBuf, &'static str),
    /// PEM, but not what is wanted.
    #[error("{0} has {1} and no {2}: {3}")]
    WrongKind(PathBuf, String, &'static str, &'static str),
    /// No PEM.
    #[error("{0} is no PEM file: a {1} begins with -----BEGIN; convert it with openssl")]
    NotPem(PathBuf, &'static str),
    /// A key behind a pass phrase.
    #[error(
        "the key in {0} is encrypted: decrypt it, as by openssl pkey -in {0} -out PLAIN.key, and protect that by its mode"
    )]
    Encrypted(PathBuf),
    /// Not of a kind that we can use.
    #[error(
        "cannot use the key in {0}: {1}; RSA of 2048 bits or more, ECDSA (P-256, P-384, P-521) and Ed25519 are known"
    )]
    Key(PathBuf, String),
    /// A certificate that cannot be read.
    #[error("cannot understand the certificate in {0}: {1}")]
    Certificate(PathBuf, String),
    /// Of two different pairs.
    #[error(
        "the key in {key} does not belong to the certificate in {certificate}: give each --tls-cert its own --tls-key"
    )]
    Mismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// The right pair, but others stand before its certificate.
    #[error(
        "the certificate that the key in {key} is for stands behind another one in {certificate}: put it first, with those between it and the root behind it"
    )]
    Order {
        /// The certificates' file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// Nobody would accept it.
    #[error("the certificate in {0} has expired on {1}: renew it")]
    Expired(PathBuf, String),
    /// What remains.
    #[error("TLS cannot be set up: {0}")]
    Setup(String),
}

impl Error {
    /// The file that something is wrong with.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Unreadable(file, ..)
            | Self::NoFile(file)
            | Self::Empty(file, _)
            | Self::WrongKind(file, ..)
            | Self::NotPem(file, _)
            | Self::Encrypted(file)
            | Self::Key(file, _)
            | Self::Certificate(file, _)
            | Self::Expired(file, _) => Some(file),
            Self::Order { .. } | Self::Mismatch { .. } | Self::Setup(_) => None,
        }
    }

    /// The file is there, perhaps, but could not be read: what is in it, and may be good, nobody knows.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unreadable(_, why, _) if why.kind() != io::ErrorKind::NotFound)
    }

    /// There is no such file.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Unreadable(_, why, _) if why.kind() == io::ErrorKind::NotFound)
    }

    pub(crate) fn unreadable(path: &Path, error: io::Error) -> Self {
        let hint = match error.kind() {
            io::ErrorKind::PermissionDenied => {
                "; the server reads it as the user that started it: let that user read it, or start the server as root"
            }
            io::ErrorKind::NotFound => "; is the path right?",
            _ => "",
        };
        Self::Unreadable(path.to_owned(), error, hint)
    }
}
