//! Where a control socket is, and making one.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf, absolute};
use std::{fmt, fs};

use anyhow::{Context, bail};
use howdah_sys::{is_listened_on, set_socket_mode};
use rustix::net::listen;

use crate::directory::closed;
use crate::options::instance::Instance;

/// Path of the control socket of `instance`.
///
/// # Errors
/// When the working directory is gone and the path relative, or it is longer than the system has room for.
pub(crate) fn path_of(instance: &Instance) -> io::Result<PathBuf> {
    let path = match &instance.control {
        Some(path) => absolute(path)?,
        None => directory().join(format!("{}.sock", instance.name())),
    };
    match path.as_os_str().len() {
        0..=LONGEST => Ok(path),
        long => Err(io::Error::new(
            ErrorKind::InvalidInput,
            format!(
                "{} has {long} bytes, a socket's path {LONGEST} at most: choose a shorter one",
                path.display()
            ),
        )),
    }
}

/// Where this user's servers put their control sockets by themselves.
pub(super) fn directory() -> PathBuf {
    let user = rustix::process::geteuid();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty());
    match runtime {
        _ if user.is_root() => "/run/howdah".into(),
        Some(dir) => Path::new(&dir).join("howdah"),
        None => format!("/tmp/howdah-{}", user.as_raw()).into(),
    }
}

/// What is added to the path, with the process id behind it, while the socket is made. The kernel's list of sockets keeps
/// it for as long as the socket lives, so that `find` knows a control socket wherever it is.
const MARK: &str = ".howdah-";
/// Bytes of a Unix socket's path (unix(7)).
pub(crate) const LONGEST: usize = 107;

/// Beside the path, and of this process alone. A path that is too long for the mark is not to be found in the list.
fn marked(path: &Path) -> PathBuf {
    let id = std::process::id();
    let mut name = path.as_os_str().to_owned();
    name.push(format!("{MARK}{id}"));
    if name.len() > LONGEST { path.with_extension(id.to_string()) } else { name.into() }
}

/// The path that was marked; none of other paths.
pub(super) fn unmarked(path: &str) -> Option<PathBuf> {
    let (path, id) = path.rsplit_once(MARK)?;
    (path.starts_with('/') && id.parse::<u32>().is_ok()).then(|| path.into())
}

/// As the standard library has it.
const BACKLOG: i32 = 128;

/// A listening control socket. Its file goes when this is dropped, if it is this process's then.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
    inode: u64,
    owned: bool,
}

impl ControlSocket {
    /// Makes the control socket of `instance`. None, with a warning, when another server has the default name: one
    /// that nobody named is not meant to be talked to. With `relieves` the other server is about to leave, and its
    /// place is taken.
    ///
    /// # Errors
    /// When a name or path was asked for that cannot be had.
    pub(crate) fn open(instance: &Instance, relieves: bool) -> anyhow::Result<Option<Self>> {
        let path = path_of(instance).context("no control socket can be made");
        match path.and_then(|path| Self::bind(&path, relieves)) {
            Ok(socket) => Ok(Some(socket)),
            Err(error) if instance.control.is_some() => Err(error.context("--control")),
            Err(error) if instance.is_explicit() => Err(error),
            Err(error) => {
                tracing::warn!("no control socket: {error:#}");
                Ok(None)
            }
        }
    }

    /// Takes over the one that an older process of this server has made, whose file it is as yet. One whose file somebody has
    /// removed is of no use any more: another is made.
    pub(crate) fn adopt(listener: OwnedFd, instance: &Instance) -> anyhow::Result<Self> {
        let path = path_of(instance)?;
        match inode(&path) {
            Ok(inode) => Ok(Self { listener: listener.into(), path, inode, owned: false }),
            Err(error) if error.kind() == ErrorKind::NotFound => Self::bind(&path, true),
            Err(error) => Err(error).with_context(|| format!("the control socket {}", path.display())),
        }
    }

    fn bind(path: &Path, relieves: bool) -> anyhow::Result<Self> {
        let shown = path.display();
        make_directory(path)?;
        if !relieves && is_listened_on(path).is_ok_and(|answers| answers) {
            bail!(
                "another server answers at {shown}: stop that (howdah stop --control {shown}), or tell this one apart \
                 by --name"
            );
        }
        if fs::symlink_metadata(path).is_ok_and(|file| !file.file_type().is_socket()) {
            bail!("{shown} is there and is no socket: remove it, or choose another --control");
        }
        // Nobody can reach it before its mode is right, and a stale one is replaced in one step.
        let fresh = marked(path);
        let _ = fs::remove_file(&fresh);
        // What cannot be given its name is not left behind: each start that is tried again would leave another one.
        let made = Self::bind_at(&fresh, path).inspect_err(|_| drop(fs::remove_file(&fresh)));
        made.with_context(|| format!("cannot make the control socket {shown}"))
    }

    fn bind_at(fresh: &Path, path: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind(fresh)?;
        set_socket_mode(fresh, 0o600)?;
        listener.set_nonblocking(true)?;
        fs::rename(fresh, path)?;
        Ok(Self { listener, inode: inode(path)?, path: path.to_owned(), owned: true })
    }

    /// Another handle to the listening socket.
    pub(crate) fn listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }

    /// Its file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The descriptor, for a process that is to take over.
    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.listener.as_fd().try_clone_to_owned()
    }

    /// Whether the file is this process's. Who connects is told by the kernel which process has last said that it listens
    /// (SO_PEERCRED), which from now on is the one that answers.
    pub(crate) fn own(&mut self, owned: bool) {
        self.owned = owned;
        if owned && let Err(error) = listen(&self.listener, BACKLOG) {
            tracing::debug!("whoever connects to the control socket is told of the process before: {error}");
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        if self.owned && inode(&self.path).is_ok_and(|inode| inode == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn inode(path: &Path) -> io::Result<u64> {
    Ok(fs::symlink_metadata(path)?.ino())
}

/// Why a start could not make one that was asked for, as far as that can be known without trying. That another server has it, which
/// is to be replaced perhaps, is no fault.
pub(crate) fn fault(instance: &Instance) -> Option<String> {
    let cannot = |why: &dyn fmt::Display| Some(format!("the control socket cannot be made: {why}"));
    let path = match path_of(instance) {
        _ if !instance.is_explicit() => return None,
        Err(error) => return cannot(&error),
        Ok(path) => path,
    };
    if fs::symlink_metadata(&path).is_ok_and(|file| !file.file_type().is_socket()) {
        return cannot(&format!("{} is there and is no socket", path.display()));
    }
    // The usual one is made.
    let made = |dir: &&Path| dir.exists() || !path.starts_with(directory());
    let dir = path.ancestors().skip(1).take(2).find(made)?;
    closed(dir).and_then(|why| cannot(&format!("{}: {why}", path.display())))
}

/// Makes the directory that the default path needs. In /tmp somebody else may have been first: that is refused.
fn make_directory(path: &Path) -> anyhow::Result<()> {
    let Some(dir) = path.parent().filter(|_| path.starts_with(directory())) else { return Ok(()) };
    let shown = dir.display();
    match fs::DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(error).with_context(|| format!("cannot make the directory {shown}; see --control"));
        }
        _ => {}
    }
    let found = fs::symlink_metadata(dir)?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o022 != 0 {
        bail!("{shown} belongs to somebody else or others may write to it: name another place by --control");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_respected() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control");
        drop(UnixListener::bind(&path).unwrap());
        let socket = ControlSocket::bind(&path, false).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let refused = ControlSocket::bind(&path, false).unwrap_err().to_string();
        assert!(refused.contains("another server answers") && refused.contains("--name"), "{refused}");
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_is_bound_beside_its_path_so_that_the_path_can_be_told() {
        let path = Path::new("/run/howdah/shop.sock");
        assert_eq!(unmarked(marked(path).to_str().unwrap()).as_deref(), Some(path));
        for other in
            ["/run/shop.sock", "/run/shop.sock.howdah-", "/run/shop.sock.howdah-x", "@x.howdah-1", ""]
        {
            assert_eq!(unmarked(other), None, "{other}");
        }
        let long = format!("/{}.sock", "x".repeat(LONGEST - 12));
        assert!(marked(long.as_ref()).as_os_str().len() <= LONGEST);
    }

    #[test]
    fn a_file_that_is_no_socket_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control");
        fs::write(&path, "precious").unwrap();
        assert!(ControlSocket::bind(&path, false).unwrap_err().to_string().contains("no socket"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn what_was_handed_over_is_not_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control");
        let mut socket = ControlSocket::bind(&path, false).unwrap();
        socket.own(false);
        drop(socket);
        assert!(path.exists());
    }
}
