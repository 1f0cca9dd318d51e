//! A script becomes a process: what is needed for that, and what is known of it from then on.

mod exec;
mod launch;

use std::io;

use crate::place::Script;
use crate::spec::{Choice, Spec};

pub use launch::{Launch, Mode, Running};

/// Starts processes, each as its script wants it.
#[derive(Debug)]
pub struct Starter {
    choice: Choice,
}

impl Starter {
    /// By the specification.
    #[must_use]
    pub fn new(spec: &Spec) -> Self {
        Self { choice: spec.mode }
    }

    /// How a script is run.
    #[must_use]
    pub fn mode(&self, script: &Script) -> Mode {
        let _ = (self.choice, script);
        Mode::Exec
    }

    /// Starts a process.
    ///
    /// # Errors
    /// The kernel's: NotFound also when the program on its `#!` line is not there.
    pub fn start(&self, launch: Launch) -> io::Result<Running> {
        exec::execute(launch)
    }
}
