//! Finds servers by their control sockets: one by its name, whoever runs it, or all that there are.
//!
//! Control sockets are looked for where servers put them by themselves, where the systemd units of deploy/ have them, and
//! in the kernel's list of sockets, which knows those of `--control`, too. Whoever answers is asked for its name. That
//! anybody may put a socket there is no harm: what such a one says is read within bounds, and printed without control
//! characters.

use std::collections::HashSet;
use std::fs;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::bail;
use howdah_metrics::Snapshot;

use super::connection::{Silent, connect, hear, open};
use super::socket::{directory, path_of, unmarked};
use crate::options::instance::Instance;
use crate::protocol::{ControlAnswer, ControlRequest};

/// Time for all to answer: a snapshot needs nobody but a front that runs.
const PATIENCE: Duration = Duration::from_secs(3);
/// Most that is read of an answer.
const LONGEST: u64 = 16 << 20;
/// Most sockets that are asked.
const MOST: usize = 1000;

/// A control socket, and what is known of its server.
#[derive(Debug)]
pub(super) struct Found {
    /// Its path.
    pub(super) path: PathBuf,
    /// Whose it is; none where we may not look.
    pub(super) owner: Option<u32>,
    /// What the server says.
    pub(super) server: Server,
}

/// What became of a question.
#[derive(Debug)]
pub(super) enum Server {
    /// Its state.
    Known(Box<Snapshot>),
    /// We may not ask.
    Forbidden,
    /// No answer came in time.
    Silent,
}

impl Found {
    /// The server's name; where it does not answer, what the path says.
    pub(super) fn name(&self) -> Option<&str> {
        match &self.server {
            Server::Known(snapshot) => Some(&snapshot.server.instance),
            Server::Forbidden | Server::Silent => name_in(&self.path),
        }
    }
}

/// The control socket of `instance`, connected: the one at its own path, else that of the server that has its name.
///
/// # Errors
/// When there is none, or more than one.
pub(crate) fn reach(instance: &Instance) -> anyhow::Result<(PathBuf, BufReader<UnixStream>)> {
    let path = path_of(instance)?;
    let own = connect(&path);
    let name = instance.given_name().filter(|_| instance.control.is_none());
    let (Err(_), Some(name)) = (&own, name) else { return Ok((path, own?)) };
    let mut others = servers();
    others.retain(|found| found.name() == Some(name));
    let Some(best) = choose(&others) else { return Ok((path, own?)) };
    let [found] = &best[..] else {
        let places: Vec<String> = best.iter().map(|found| found.path.display().to_string()).collect();
        bail!("several servers are called {name}: name one by --control {}", places.join(" or --control "))
    };
    Ok((found.path.clone(), connect(&found.path)?))
}

/// Of several with one name root's comes first, which nobody else can have made, then our own user's.
fn choose(all: &[Found]) -> Option<Vec<&Found>> {
    let own = rustix::process::geteuid().as_raw();
    let of = |owner: u32| all.iter().filter(|found| found.owner == Some(owner)).collect::<Vec<_>>();
    [of(0), of(own), all.iter().collect()].into_iter().find(|some| !some.is_empty())
}

/// All servers on this machine whose sockets can be found, in the order of their names.
pub(super) fn servers() -> Vec<Found> {
    let (answers, inbox) = mpsc::channel();
    let mut open: Vec<(PathBuf, Option<u32>)> = sockets();
    for (path, _) in &open {
        let (answers, path) = (answers.clone(), path.clone());
        let asked = std::thread::Builder::new().spawn(move || {
            let _ = answers.send((path.clone(), ask(&path, PATIENCE)));
        });
        if asked.is_err() {
            break;
        }
    }
    drop(answers);
    let end = Instant::now() + PATIENCE;
    let mut found = Vec::new();
    while let Ok((path, server)) = inbox.recv_timeout(end.saturating_duration_since(Instant::now())) {
        let Some(at) = open.iter().position(|(other, _)| *other == path) else { continue };
        let (path, owner) = open.swap_remove(at);
        found.extend(server.map(|server| Found { path, owner, server }));
    }
    found.extend(open.into_iter().map(|(path, owner)| Found { path, owner, server: Server::Silent }));
    found.sort_by(|a, b| (a.name(), &a.path).cmp(&(b.name(), &b.path)));
    found
}

/// None when nobody listens there, or somebody who is no Howdah.
fn ask(path: &Path, patience: Duration) -> Option<Server> {
    let stream = match open(path, patience) {
        Ok(stream) => stream,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Some(Server::Silent),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Some(Server::Forbidden),
        Err(_) => return None,
    };
    let mut line = serde_json::to_vec(&ControlRequest::Status).ok()?;
    line.push(b'\n');
    stream.set_read_timeout(Some(patience)).ok()?;
    (&stream).write_all(&line).ok()?;
    match hear(&mut BufReader::new(stream.take(LONGEST)), path) {
        Ok(ControlAnswer::Status(snapshot)) => Some(Server::Known(snapshot)),
        Ok(ControlAnswer::Failed(_)) => Some(Server::Forbidden),
        // Where many are asked, the first of them has been waited for before the time of all is over.
        Err(error) if error.is::<Silent>() => Some(Server::Silent),
        _ => None,
    }
}

/// Sockets that may be control sockets, and whose they are; each once.
fn sockets() -> Vec<(PathBuf, Option<u32>)> {
    let mut seen = HashSet::new();
    let mut all = places();
    // Anybody may call a socket anything.
    all.extend(bound(&String::from_utf8_lossy(&fs::read("/proc/net/unix").unwrap_or_default())));
    let looked = all.into_iter().filter_map(|path| {
        let owner = match fs::symlink_metadata(&path) {
            Ok(file) if file.file_type().is_socket() => Some(file.uid()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
            _ => return None,
        };
        seen.insert(path.clone()).then_some((path, owner))
    });
    looked.take(MOST).collect()
}

/// Where servers put control sockets by themselves, for each user, and where the systemd units have them.
fn places() -> Vec<PathBuf> {
    let below = |dir: PathBuf| dir.join("howdah");
    let users = entries("/run/user".as_ref(), |_| true).into_iter().map(below);
    let temporary = entries("/tmp".as_ref(), |name| {
        name.strip_prefix("howdah-").is_some_and(|user| user.bytes().all(|byte| byte.is_ascii_digit()))
    });
    let unit = |dir: PathBuf| dir.join("control.sock");
    let units = entries("/run".as_ref(), |name| name.starts_with("howdah-")).into_iter().map(unit);
    let homes = [directory(), "/run/howdah".into()].into_iter().chain(users).chain(temporary);
    homes.flat_map(|dir| entries(&dir, |name| name.ends_with(".sock"))).chain(units).collect()
}

/// What a directory has of such names; nothing when it is not there or not ours to read.
fn entries(dir: &Path, fits: fn(&str) -> bool) -> Vec<PathBuf> {
    let found = fs::read_dir(dir).into_iter().flatten().flatten().take(MOST);
    found.filter(|entry| entry.file_name().to_str().is_some_and(fits)).map(|entry| entry.path()).collect()
}

/// Control sockets in the kernel's list: those that listen and were bound as `socket` binds them.
fn bound(list: &str) -> Vec<PathBuf> {
    // Num RefCount Protocol Flags Type St Inode Path
    let path = |line: &str| {
        let mut rest = line;
        let mut fields = [""; 7];
        for field in &mut fields {
            (*field, rest) = rest.trim_start().split_once(' ')?;
        }
        (fields[3] == "00010000").then(|| unmarked(rest.trim_start()))?
    };
    list.lines().filter_map(path).collect()
}

/// `shop` of /run/howdah/shop.sock, and of /run/howdah-shop/control.sock.
fn name_in(path: &Path) -> Option<&str> {
    let file = path.file_name()?.to_str()?.strip_suffix(".sock")?;
    let dir = path.parent()?.file_name()?.to_str()?;
    match dir.strip_prefix("howdah-") {
        Some(unit) if file == "control" => Some(unit),
        _ => Some(file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_lists_control_sockets_by_the_name_that_they_were_bound_to() {
        let list = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                    0000: 00000002 00000000 00010000 0001 01 17 /run/a b/shop.sock.howdah-12\n\
                    0000: 00000002 00000000 00010000 0001 01 18 /run/other.sock\n\
                    0000: 00000003 00000000 00000000 0001 03 19 /run/shop.sock.howdah-12\n\
                    0000: 00000002 00000000 00010000 0001 01 20 /x/control.howdah-4194304\n\
                    0000: 00000002 00000000 00010000 0001 01 21 @/x/control.howdah-1\n\
                    0000: 00000002 00000000 00010000 0001 01 22\n\
                    short\n";
        assert_eq!(bound(list), [PathBuf::from("/run/a b/shop.sock"), "/x/control".into()]);
    }

    #[test]
    fn who_says_nothing_is_known_to_be_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("silent.sock");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let asked = ask(&path, Duration::from_millis(10));
        drop(listener);
        let gone = ask(&path, Duration::from_millis(10));
        assert!(matches!(asked, Some(Server::Silent)), "{asked:?}");
        assert!(gone.is_none(), "{gone:?}");
    }

    #[test]
    fn a_path_tells_the_name_of_a_server_that_does_not_answer() {
        for (path, name) in [
            ("/run/howdah/shop.sock", Some("shop")),
            ("/tmp/howdah-1000/shop.sock", Some("shop")),
            ("/run/howdah-shop/control.sock", Some("shop")),
            ("/run/howdah-shop-2/control.sock", Some("shop-2")),
            ("/srv/control", None),
        ] {
            assert_eq!(name_in(path.as_ref()), name, "{path}");
        }
    }

    #[test]
    fn roots_server_is_preferred_and_then_ones_own() {
        let own = rustix::process::geteuid().as_raw();
        let found = |owners: &[u32]| -> Vec<Found> {
            let one = |owner: &u32| Found {
                path: format!("/{owner}").into(),
                owner: Some(*owner),
                server: Server::Silent,
            };
            owners.iter().map(one).collect()
        };
        for (owners, chosen) in [
            (vec![], None),
            (vec![7, 0, own], Some(if own == 0 { 2 } else { 1 })),
            (vec![7, 8], Some(2)),
            (vec![7], Some(1)),
        ] {
            assert_eq!(choose(&found(&owners)).map(|some| some.len()), chosen, "{owners:?}");
        }
    }
}
