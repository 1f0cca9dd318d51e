//! Readiness and status for systemd (`sd_notify(3)`), without its library.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The variable with the socket's address, which a child must not see.
pub const VARIABLE: &str = "NOTIFY_SOCKET";

/// Sends `state`, lines such as `READY=1`, `STOPPING=1`, `STATUS=...`, `WATCHDOG=1`. False when no service manager
/// listens.
///
/// # Errors
/// When the socket that `NOTIFY_SOCKET` names cannot be reached.
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
}
