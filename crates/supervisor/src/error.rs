//! Failures that the operator or the binary must hear of.

use std::io;
use std::path::{Path, PathBuf};

use howdah_sys::ExitKind;
use howdah_sys::shortage::{what_to_raise, with_way_out};

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The application does not load: Perl's message.
    #[error("the application does not load: {0}")]
    Application(String),
    /// perl cannot be run.
    #[error("cannot run {}: {error}; name another perl with --perl", perl.display())]
    Perl {
        /// The program.
        perl: PathBuf,
        /// The kernel's reason.
        error: io::Error,
    },
    /// The zygote ended before the application was loaded, without a word.
    #[error("perl ended while it loaded the application ({}); its last words, if any, are above{}", .0, .0.hint())]
    Zygote(ExitKind),
    /// It ended when it had loaded the application, and before it had forked the first workers.
    #[error("perl ended before it had forked the first workers ({}); its last words, if any, are above{}; a before_fork hook must not exit", .0, .0.hint())]
    Forks(ExitKind),
    /// The first workers ended before they could serve.
    #[error("workers end before they are ready ({}); their last words, if any, are above{}", .0, .0.hint())]
    Workers(ExitKind),
    /// More workers than the segment has cells for.
    #[error("{asked} workers are too many, at most {most} are possible")]
    TooManyWorkers {
        /// Asked for.
        asked: usize,
        /// Possible.
        most: usize,
    },
    /// The system refuses something basic.
    #[error("cannot {what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The kernel's reason.
        error: io::Error,
    },
    /// Stopped before the workers were ready.
    #[error("stopped before the workers were ready")]
    Stopped,
}

impl StartError {
    /// Why, and what to raise where the kernel names no limit.
    pub(crate) fn with_way_out(&self) -> String {
        match self {
            Self::System { what, error } => format!("cannot {what}: {}", with_way_out(error)),
            _ => self.to_string(),
        }
    }

    /// `perl`, none for a host, cannot be run, or there is nobody to run it.
    pub(crate) fn of_perl(perl: Option<&Path>, error: io::Error) -> Self {
        match perl {
            None => Self::System { what: "start the host of CGI scripts", error },
            Some(_) if is_none_of_perls(&error) => Self::System { what: "start a zygote", error },
            Some(perl) => Self::Perl { perl: perl.to_owned(), error },
        }
    }
}

/// Whether nobody is there to run a program, or something is short that any would need.
fn is_none_of_perls(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, InvalidData, Other, OutOfMemory, TimedOut, WouldBlock};
    // Invalid are descriptors that were sent and did not find room; others are told in words, as that its user is not to be had.
    matches!(error.kind(), BrokenPipe | TimedOut | WouldBlock | OutOfMemory | InvalidData | Other)
        || what_to_raise(error).is_some()
}

/// Why a reload did not happen; the old generation goes on.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReloadError {
    /// The new code does not load: Perl's message.
    #[error("the new code does not load, the old goes on: {0}")]
    Application(String),
    /// The new zygote could not be started or ended without a word.
    #[error("the new zygote failed, the old one goes on: {0}")]
    Zygote(String),
    /// The new workers ended before they could serve.
    #[error(
        "the new workers end before they are ready ({0}), the old ones go on; see the log for their last words"
    )]
    Workers(ExitKind),
    /// The server is stopping.
    #[error("the server is stopping")]
    Stopping,
}

impl ReloadError {
    /// The new zygote could not be started.
    pub(crate) fn of_start(error: &StartError) -> Self {
        Self::Zygote(error.with_way_out())
    }

    /// The same of a zygote that a worker has left behind.
    pub(crate) fn of_heir(&self) -> String {
        match self {
            Self::Application(why) | Self::Zygote(why) => format!("the new zygote failed: {why}"),
            Self::Workers(status) => {
                format!(
                    "the new workers end before they are ready ({status}); see the log for their last words"
                )
            }
            Self::Stopping => self.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_killed_may_have_had_too_little_memory() {
        let (killed, crashed) = (ExitKind::Signaled(9), ExitKind::Signaled(11));
        for error in [StartError::Zygote(killed), StartError::Workers(killed)] {
            let said = error.to_string();
            assert!(said.contains("signal KILL") && said.contains("lack of memory (see dmesg)"), "{said}");
        }
        for error in [StartError::Zygote(crashed), StartError::Workers(crashed)] {
            assert!(!error.to_string().contains("memory"));
        }
    }

    #[test]
    fn who_died_of_a_timer_had_left_it_running() {
        let said = StartError::Zygote(ExitKind::Signaled(14)).to_string();
        assert!(said.contains("signal ALRM") && said.contains("left running (alarm)"), "{said}");
    }

    #[test]
    fn a_reload_that_fails_for_a_limit_says_which_to_raise() {
        // EAGAIN, EMFILE, ENFILE, ENOMEM, ENOBUFS and ETOOMANYREFS.
        for errno in [11, 24, 23, 12, 105, 109] {
            let error = io::Error::from_raw_os_error(errno);
            let way_out = what_to_raise(&error).unwrap();
            let error = StartError::of_perl(Some(Path::new("/usr/bin/perl")), error);
            let said = ReloadError::of_start(&error).to_string();
            assert!(said.contains("cannot start a zygote: ") && said.ends_with(way_out), "{said}");
        }
    }
}
