//! A request and a script become meta-variables (RFC 3875 4.1, and those that scripts of Apache rely on) and arguments.

use std::ffi::CString;

use crate::place::Script;
use crate::request::Request;
use crate::spec::Spec;

/// What is the same for every request of a mount.
#[derive(Debug)]
pub struct Environment {
    fixed: Vec<CString>,
}

impl Environment {
    /// Takes from the specification, and from the environment of this process what is to be passed on.
    #[must_use]
    pub fn new(spec: &Spec) -> Self {
        let _ = spec;
        Self { fixed: Vec::new() }
    }

    /// `NAME=VALUE` for one request: the whole environment of its process.
    #[must_use]
    pub fn variables(&self, request: &Request, script: &Script) -> Vec<CString> {
        let _ = (request, script);
        self.fixed.clone()
    }
}

/// The words of an indexed query (RFC 3875 4.4), decoded; none if it has a `=`.
#[must_use]
pub fn arguments(query: &[u8]) -> Vec<CString> {
    let _ = query;
    Vec::new()
}
