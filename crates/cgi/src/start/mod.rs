//! A script becomes a process: what is needed for that, and what is known of it from then on.

pub mod fork;
mod exec;
mod launch;

use howdah_sys::oom::Score;

use crate::place::Script;
use crate::spec::{Choice, Spec};

pub use fork::{Fault, Log};
use fork::{Forks, Limits, Modules, Outcome};
pub use launch::{Launch, Mode, Running};

/// Starts processes, each as its script wants it.
#[derive(Debug)]
pub struct Starter {
    choice: Choice,
    forks: Forks,
    /// By which the kernel ends a script and not this process, with which all scripts end, where there is no more memory.
    score: Option<Score>,
}

impl Starter {
    /// By the specification. What is to be said of a script, and is not the fault of one request, goes to `log`.
    #[must_use]
    pub fn new(spec: &Spec, log: Log) -> Self {
        let forks = Forks::new(Modules::new(spec), Limits::default(), log);
        Self { choice: spec.mode, forks, score: Score::of_children() }
    }

    /// How a script is run; at its first request it may turn out that it cannot be forked.
    #[must_use]
    pub fn mode(&self, script: &Script) -> Mode {
        if self.choice == Choice::Exec || self.forks.executes(script) { Mode::Exec } else { Mode::Fork }
    }

    /// Starts a process; `given_up` is asked whether anybody still waits for it.
    ///
    /// # Errors
    /// [`Fault`] says why there is none: NotFound also when the program on its `#!` line is not there.
    pub fn start(&self, launch: Launch, given_up: &dyn Fn() -> bool) -> Result<Running, Fault> {
        let running = self.run(launch, given_up)?;
        self.score.iter().for_each(|score| score.set(running.pid));
        Ok(running)
    }

    fn run(&self, launch: Launch, given_up: &dyn Fn() -> bool) -> Result<Running, Fault> {
        if self.mode(&launch.script) == Mode::Exec {
            return Ok(exec::execute(launch)?);
        }
        match self.forks.start(launch, given_up)? {
            Outcome::Forked(running) => Ok(running),
            Outcome::Execute(launch) => Ok(exec::execute(*launch)?),
        }
    }
}
