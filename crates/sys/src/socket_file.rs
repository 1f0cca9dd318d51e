//! The file of a Unix socket. One may be there already, of a server that is gone, or that lives and accepts nobody. The kernel makes
//! it with the mode of the umask: another is given to it afterwards, when somebody who may write in its directory may have put
//! something else in its place.
//!
//! Listeners and the control socket use it.

use std::fs::{Permissions, set_permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// Gives the file of a socket of ours a mode.
///
/// # Errors
/// Of the system; InvalidInput when something else has its name, which stays as it is.
pub fn set_socket_mode(path: &Path, mode: u32) -> io::Result<()> {
    let file = openat(CWD, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let found = fstat(&file)?;
    let is_socket = FileType::from_raw_mode(found.st_mode) == FileType::Socket;
    if !is_socket || found.st_uid != rustix::process::geteuid().as_raw() {
        let reason =
            "somebody has put something else in its place: choose a directory in which nobody else may write";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    // Such a descriptor has no fchmod(2) of its own.
    set_permissions(format!("/proc/self/fd/{}", file.as_raw_fd()), Permissions::from_mode(mode))
}

/// Whether somebody listens there. Does not wait for whoever has as many connections as his queue holds, and accepts none.
///
/// # Errors
/// Of the system: NotFound, PermissionDenied, or that the path is too long.
pub fn is_listened_on(path: &Path) -> io::Result<bool> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match connect(&socket, &SocketAddrUnix::new(path)?) {
        Ok(()) | Err(Errno::AGAIN) => Ok(true),
        Err(Errno::CONNREFUSED) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::metadata;
    use std::os::unix::fs::{chown, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn nobody_waits_for_one_that_accepts_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        assert_eq!(is_listened_on(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        let listener = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        for _ in 0..5 {
            assert!(is_listened_on(&path).unwrap());
        }
        // One of them waits to be accepted, so there is no room for more.
        let address = SocketAddrUnix::new(&path).unwrap();
        let flags = SocketFlags::NONBLOCK;
        let full: Vec<_> = (0..3)
            .map(|_| {
                let client = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
                (connect(&client, &address), client)
            })
            .collect();
        assert!(full.iter().any(|(connected, _)| *connected == Err(Errno::AGAIN)), "its queue is full");
        assert!(is_listened_on(&path).unwrap());
        drop(listener);
        assert!(!is_listened_on(&path).unwrap());
    }

    #[test]
    fn a_socket_has_the_mode_and_nothing_else_gets_it() {
        let dir = tempfile::tempdir().unwrap();
        let [socket, secret, link] = ["socket", "secret", "link"].map(|name| dir.path().join(name));
        let _listener = UnixListener::bind(&socket).unwrap();
        for mode in [0o666, 0o600] {
            set_socket_mode(&socket, mode).unwrap();
            assert_eq!(metadata(&socket).unwrap().permissions().mode() & 0o777, mode);
        }
        std::fs::write(&secret, "").unwrap();
        set_permissions(&secret, Permissions::from_mode(0o400)).unwrap();
        symlink("secret", &link).unwrap();
        for path in [&secret, &link] {
            let refused = set_socket_mode(path, 0o666).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{refused}");
        }
        assert_eq!(metadata(&secret).unwrap().permissions().mode() & 0o777, 0o400);
        if rustix::process::geteuid().is_root() {
            chown(&socket, Some(54_321), None).unwrap();
            assert!(set_socket_mode(&socket, 0o666).is_err(), "somebody else's");
        }
    }
}
