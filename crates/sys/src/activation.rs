//! Listeners that this process was started with: systemd socket activation and Server::Starter.
//!
//! The binary asks once at start, before it binds anything itself, and passes what it finds to the front. The
//! supervisor keeps the variables from the zygote, so that the application does not take the sockets for its own.

use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};

use crate::process::adopt_fd;

/// The variables, which a child must not see.
pub const VARIABLES: [&str; 8] = [
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
    "SERVER_STARTER_PORT",
    "SERVER_STARTER_GENERATION",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    UPGRADE,
];

/// Where a process finds what it is to take over from the older one that it replaces.
pub const UPGRADE: &str = "HOWDAH_UPGRADE";

/// First descriptor of systemd's protocol.
const FIRST: RawFd = 3;

/// Why inherited sockets cannot be used.
#[derive(Debug)]
pub struct ActivationError {
    variable: &'static str,
    reason: String,
}

impl std::fmt::Display for ActivationError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot use the sockets that {} promises: {}", self.variable, self.reason)
    }
}

impl std::error::Error for ActivationError {}

/// Listening sockets that systemd (`LISTEN_FDS`, when `LISTEN_PID` is this process) or Server::Starter
/// (`SERVER_STARTER_PORT`) hands over, close-on-exec; empty when neither did. Call it once: the descriptors are taken over.
///
/// # Errors
/// When a variable is malformed or names a descriptor that is no listening socket.
pub fn inherited_listeners() -> Result<Vec<OwnedFd>, ActivationError> {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let systemd = parse_systemd(&variable("LISTEN_FDS"), &variable("LISTEN_PID"), std::process::id());
    let starter = parse_starter(&variable("SERVER_STARTER_PORT"));
    let mut found = take("LISTEN_FDS", systemd)?;
    found.extend(take("SERVER_STARTER_PORT", starter)?);
    Ok(found)
}

/// One after the other, since the first that is not there ends it: there may be said to be any number.
fn take(
    variable: &'static str,
    parsed: Result<impl IntoIterator<Item = RawFd>, String>,
) -> Result<Vec<OwnedFd>, ActivationError> {
    let refuse = |reason| ActivationError { variable, reason };
    let mut taken = Vec::new();
    for number in parsed.map_err(refuse)? {
        taken.push(adopt_listener(number).map_err(|error| refuse(format!("descriptor {number}: {error}")))?);
    }
    Ok(taken)
}

fn adopt_listener(number: RawFd) -> io::Result<OwnedFd> {
    let socket = adopt_fd(number)?;
    if rustix::net::sockopt::socket_acceptconn(socket.as_fd())? {
        Ok(socket)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "not a listening socket"))
    }
}

fn parse_systemd(fds: &str, pid: &str, own: u32) -> Result<impl Iterator<Item = RawFd> + use<>, String> {
    // Variables that were meant for another process, such as our launcher, are not ours to use.
    let are_ours = !fds.is_empty() && pid.parse() == Ok(own);
    let number = || fds.parse::<u32>().map_err(|_| format!("'{fds}' is not a number"));
    let count = if are_ours { number()? } else { 0 };
    Ok((FIRST..RawFd::MAX).take(count as usize))
}

/// `[HOST:]PORT=FD` or `PATH=FD`, separated by semicolons.
fn parse_starter(value: &str) -> Result<Vec<RawFd>, String> {
    value.split(';').filter(|part| !part.is_empty()).map(parse_starter_part).collect()
}

fn parse_starter_part(part: &str) -> Result<RawFd, String> {
    let number = part.rsplit_once('=').filter(|(address, _)| !address.is_empty());
    let parsed = number.and_then(|(_, number)| number.parse().ok());
    parsed.ok_or_else(|| format!("'{part}' is not ADDRESS=DESCRIPTOR"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemd_descriptors_start_at_three_and_are_for_the_process_that_is_named() {
        for (fds, pid, expected) in [
            ("", "", vec![]),
            ("1", "42", vec![3]),
            ("2", "42", vec![3, 4]),
            ("2", "41", vec![]),
            ("2", "", vec![]),
        ] {
            assert_eq!(parse_systemd(fds, pid, 42).map(Vec::from_iter), Ok(expected), "{fds} {pid}");
        }
        for fds in ["two", "-1", "4294967296"] {
            assert!(parse_systemd(fds, "42", 42).is_err(), "{fds}");
        }
    }

    #[test]
    fn of_more_descriptors_than_there_can_be_the_first_that_is_missing_is_told() {
        let refused = take("LISTEN_FDS", parse_systemd("4294967295", "42", 42)).unwrap_err();
        assert!(refused.to_string().contains("LISTEN_FDS promises: descriptor "), "{refused}");
    }

    #[test]
    fn server_starter_addresses_are_split_at_the_last_equals_sign() {
        for (value, expected) in [
            ("", vec![]),
            ("80=3", vec![3]),
            ("127.0.0.1:80=3;[::1]:81=4", vec![3, 4]),
            ("/run/a=b.sock=5", vec![5]),
            ("80=3;", vec![3]),
        ] {
            assert_eq!(parse_starter(value), Ok(expected), "{value}");
        }
        for value in ["80", "80=", "=3", "80=x"] {
            assert!(parse_starter(value).is_err(), "{value}");
        }
    }
}
