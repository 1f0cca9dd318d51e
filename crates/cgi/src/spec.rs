//! What the host is told, in the environment variable `HOWDAH_CGI`: text in the format of a zygote's specification
//! (docs/zygote-protocol.md has the fields).

use std::os::fd::RawFd;
use std::path::PathBuf;

use thiserror::Error;

/// How the scripts of a mount are run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// Forked when the `#!` line names a perl, else executed.
    #[default]
    Auto,
    /// Executed, all.
    Exec,
    /// Forked, all.
    Fork,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// The descriptor that is the control socket.
    pub control: Option<RawFd>,
    /// The path below which the scripts lie, without a slash at its end: empty for `/`.
    pub mount: String,
    /// Their directory, or the one script.
    pub root: PathBuf,
    /// How they are run.
    pub mode: Choice,
    /// Scripts that answer for a directory, the first that is there.
    pub index: Vec<String>,
    /// DOCUMENT_ROOT, and what PATH_TRANSLATED lies below.
    pub document_root: PathBuf,
    /// Variables of every script: name, value.
    pub env: Vec<(String, Vec<u8>)>,
    /// Names of variables that are passed on from the server's environment, or HTTP_AUTHORIZATION.
    pub pass: Vec<String>,
    /// The perl whose modules Howdah has; it compiles scripts that are forked.
    pub perl: PathBuf,
    /// Directories in which that perl finds Howdah's modules.
    pub inc: Vec<PathBuf>,
    /// Name of the instance, for titles.
    pub name: String,
    /// User to become before anything else.
    pub user: Option<String>,
    /// Group to become.
    pub group: Option<String>,
}

/// The text is no specification.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("HOWDAH_CGI: {0}")]
pub struct Malformed(String);

impl Spec {
    /// Reads the text.
    ///
    /// # Errors
    /// [`Malformed`] says what is wrong with it.
    pub fn decode(text: &[u8]) -> Result<Self, Malformed> {
        let _ = text;
        Err(Malformed("not read yet".into()))
    }
}
