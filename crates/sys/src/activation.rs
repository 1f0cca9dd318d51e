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

/// A listening socket from outside.
#[derive(Debug)]
pub struct Inherited {
    /// What the giver calls it: the name of the systemd socket unit's descriptor, or Server::Starter's address.
    pub name: String,
    /// The socket, close-on-exec.
    pub socket: OwnedFd,
}

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
/// (`SERVER_STARTER_PORT`) hands over; empty when neither did. Call it once: the descriptors are taken over.
///
/// # Errors
/// When a variable is malformed or names a descriptor that is no listening socket.
pub fn inherited_listeners() -> Result<Vec<Inherited>, ActivationError> {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let (own, names) = (std::process::id(), variable("LISTEN_FDNAMES"));
    let systemd = parse_systemd(&variable("LISTEN_FDS"), &variable("LISTEN_PID"), &names, own);
    let starter = parse_starter(&variable("SERVER_STARTER_PORT"));
    let mut found = take("LISTEN_FDS", systemd)?;
    found.extend(take("SERVER_STARTER_PORT", starter)?);
    Ok(found)
}

/// One after the other, since the first that is not there ends it: there may be said to be any number.
fn take(
    variable: &'static str,
    parsed: Result<impl IntoIterator<Item = (String, RawFd)>, String>,
) -> Result<Vec<Inherited>, ActivationError> {
    let refuse = |reason| ActivationError { variable, reason };
    let mut taken = Vec::new();
    for (name, number) in parsed.map_err(refuse)? {
        let socket =
            adopt_listener(number).map_err(|error| refuse(format!("descriptor {number}: {error}")))?;
        taken.push(Inherited { name, socket });
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

fn parse_systemd<'a>(
    fds: &str,
    pid: &str,
    names: &'a str,
    own: u32,
) -> Result<impl Iterator<Item = (String, RawFd)> + use<'a>, String> {
    // Variables that were meant for another process, such as our launcher, are not ours to use.
    let are_ours = !fds.is_empty() && pid.parse() == Ok(own);
    let number = || fds.parse::<u32>().map_err(|_| format!("'{fds}' is not a number"));
    let count = if are_ours { number()? } else { 0 };
    let mut names = names.split(':');
    let mut name = move || names.next().filter(|name| !name.is_empty()).unwrap_or("unknown").to_owned();
    Ok((FIRST..RawFd::MAX).take(count as usize).map(move |number| (name(), number)))
}

/// `[HOST:]PORT=FD` or `PATH=FD`, separated by semicolons.
fn parse_starter(value: &str) -> Result<Vec<(String, RawFd)>, String> {
    value.split(';').filter(|part| !part.is_empty()).map(parse_starter_part).collect()
}

fn parse_starter_part(part: &str) -> Result<(String, RawFd), String> {
    let parsed = part.rsplit_once('=').and_then(|(name, fd)| Some((name.to_owned(), fd.parse().ok()?)));
    parsed.filter(|(name, _)| !name.is_empty()).ok_or_else(|| format!("'{part}' is not ADDRESS=DESCRIPTOR"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(list: &[(&str, RawFd)]) -> Vec<(String, RawFd)> {
        list.iter().map(|&(name, fd)| (name.to_owned(), fd)).collect()
    }

    #[test]
    fn systemd_descriptors_start_at_three_and_bear_their_names() {
        let cases = [
            (["", "", ""], named(&[])),
            (["1", "42", ""], named(&[("unknown", 3)])),
            (["2", "42", "http:admin"], named(&[("http", 3), ("admin", 4)])),
            (["2", "42", "http"], named(&[("http", 3), ("unknown", 4)])),
            (["2", "41", "http:admin"], named(&[])),
            (["2", "", ""], named(&[])),
        ];
        for ([fds, pid, names], expected) in cases {
            let parsed = parse_systemd(fds, pid, names, 42).map(Vec::from_iter);
            assert_eq!(parsed, Ok(expected), "{fds} {pid} {names}");
        }
        for fds in ["two", "-1", "4294967296"] {
            assert!(parse_systemd(fds, "42", "", 42).is_err(), "{fds}");
        }
    }

    #[test]
    fn of_more_descriptors_than_there_can_be_the_first_that_is_missing_is_told() {
        let refused = take("LISTEN_FDS", parse_systemd("4294967295", "42", "", 42)).unwrap_err();
        assert!(refused.to_string().contains("LISTEN_FDS promises: descriptor "), "{refused}");
    }

    #[test]
    fn server_starter_addresses_are_split_at_the_last_equals_sign() {
        let cases: [(&str, &[(&str, RawFd)]); 5] = [
            ("", &[]),
            ("80=3", &[("80", 3)]),
            ("127.0.0.1:80=3;[::1]:81=4", &[("127.0.0.1:80", 3), ("[::1]:81", 4)]),
            ("/run/a=b.sock=5", &[("/run/a=b.sock", 5)]),
            ("80=3;", &[("80", 3)]),
        ];
        for (value, expected) in cases {
            assert_eq!(parse_starter(value), Ok(named(expected)), "{value}");
        }
        for value in ["80", "80=", "=3", "80=x"] {
            assert!(parse_starter(value).is_err(), "{value}");
        }
    }
}
