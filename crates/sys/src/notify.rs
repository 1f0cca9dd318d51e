//! Readiness and status for systemd (`sd_notify(3)`), without its library.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The variable with the socket's address, which a child must not see.
pub const VARIABLE: &str = "NOTIFY_SOCKET";

/// Sends `state`, lines such as `READY=1`, `STOPPING=1`, `STATUS=...`, `WATCHDOG=1`. False when no service manager
/// listens. Does not wait.
///
/// # Errors
/// When the socket that `NOTIFY_SOCKET` names cannot be reached, and [`io::ErrorKind::WouldBlock`] while it is full.
pub fn notify(state: &str) -> io::Result<bool> {
    let Some(name) = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()) else { return Ok(false) };
    notify_at(name.as_bytes(), state)?;
    Ok(true)
}

fn notify_at(name: &[u8], state: &str) -> io::Result<()> {
    let address = match name.strip_prefix(b"@") {
        Some(hidden) => SocketAddr::from_abstract_name(hidden)?,
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name))?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_arrives_at_a_path_and_at_a_hidden_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let hidden = format!("howdah-notify-test-{}", std::process::id());
        let listeners = [
            (UnixDatagram::bind(&path).unwrap(), path.as_os_str().as_bytes().to_vec()),
            (
                UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&hidden).unwrap()).unwrap(),
                format!("@{hidden}").into_bytes(),
            ),
        ];
        for (listener, name) in listeners {
            notify_at(&name, "READY=1").unwrap();
            let mut buffer = [0; 32];
            let length = listener.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], b"READY=1");
        }
    }

    #[test]
    fn a_manager_that_does_not_read_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let listener = UnixDatagram::bind(&path).unwrap();
        let name = path.as_os_str().as_bytes();
        let refused = (0..10_000).find_map(|_| notify_at(name, "WATCHDOG=1").err()).unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        listener.recv(&mut [0; 32]).unwrap();
        notify_at(name, "WATCHDOG=1").unwrap();
    }
}
