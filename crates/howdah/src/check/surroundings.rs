//! What a start needs beside an application that compiles: users and groups, certificates with their keys, levels and places of logs,
//! places for certificates and large bodies. Nothing is written, nothing is bound for longer than a look takes, and nothing is left that
//! was made.

use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use howdah_accesslog::{Target, misleads};
use howdah_front::{Address, ListenError, ListenOptions, Listener};
use rustix::fs::{Access, access};

use crate::control::socket;
use crate::options::Serve;
use crate::{acme, descriptors, directory, log, pidfile, spool, tls, watch};

/// A sentence for each thing that would end a start. The limit of open files is as a start raises it.
pub(super) fn faults(options: &Serve) -> Vec<String> {
    let levels = log::fault(&options.logs);
    let identity = options.process.identity().err().map(|error| format!("{error:#}"));
    let certificates = tls::try_files(options).err().map(|error| format!("{error:#}"));
    let authority = options.tls.acme.is_on().then(|| acme::try_files(options).err()).flatten();
    let authority = authority.map(|error| format!("{error:#}"));
    let kept = options.tls.acme.place().and_then(|place| closed(&place.certificate()));
    let unwritable =
        files(options).into_iter().filter_map(|(option, path)| unwritable(option, Path::new(&path)));
    let pid = options.process.pid.as_deref().and_then(pidfile::fault);
    let spool = spool::doubt(options.limits.spool_dir.as_deref()).err().map(|error| format!("{error:#}"));
    let limit = descriptors::suffice(options).err().map(|error| format!("{error:#}"));
    levels
        .into_iter()
        .chain(limit)
        .chain(identity)
        .chain(certificates)
        .chain(authority)
        .chain(kept)
        .chain(unwritable)
        .chain(closed_listeners(options))
        .chain(socket::fault(&options.instance))
        .chain(pid)
        .chain(spool)
        .collect()
}

/// A sentence for what a start does not fail for, or perhaps not: each command of a log that seems to be missing, since it has perhaps another
/// PATH, a named pipe whose reader may not be there, a directory that takes no large bodies, and one that cannot be watched.
pub(super) fn doubts(options: &Serve) -> Vec<String> {
    let commands = targets(options).into_iter().filter_map(|(option, target)| match target {
        Target::Command(command) => not_there(option, &command),
        Target::File(_) | Target::Stdout => None,
    });
    let spool = spool::doubt(options.limits.spool_dir.as_deref()).ok().flatten();
    let pipes = files(options).into_iter().filter_map(|(option, path)| pipe(option, &path));
    commands.chain(pipes).chain(spool).chain(watch::doubts(options).into_iter().flatten()).collect()
}

/// Where logs of requests go, and the options that say so.
fn targets(options: &Serve) -> Vec<(&'static str, Target)> {
    let logs = &options.logs;
    let slow = logs.slow_log_file.as_deref().filter(|_| logs.slow_log.limit().is_some());
    let targets = [("--access-log", logs.access_log.as_deref()), ("--slow-log-file", slow)];
    targets.into_iter().filter_map(|(option, target)| Some((option, Target::parse(target?)))).collect()
}

/// That the shell does not know the program of a log's command. Only a first word that needs no shell to be read is looked for.
fn not_there(option: &str, command: &str) -> Option<String> {
    let mut words = command.split_ascii_whitespace().skip_while(|word| *word == "exec");
    let program = words.next()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._+".contains(&byte);
    if !program.bytes().all(is_plain) {
        return None;
    }
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "command -v \"$0\"", program]).stdout(Stdio::null()).stderr(Stdio::null());
    let is_known = shell.status().is_ok_and(|status| status.success());
    (!is_known).then(|| format!("{option} |{command}: the shell finds no program {program}"))
}

/// That a log is a named pipe. Whether somebody reads it is known to who opens it, and its reader would take the close for the end.
fn pipe(option: &str, path: &Path) -> Option<String> {
    let is_pipe = path.metadata().is_ok_and(|there| there.file_type().is_fifo());
    let what = "it is a named pipe, without whose reader no server starts: start that first";
    is_pipe.then(|| format!("{option} {}: {what}", path.display()))
}

/// Files that a server opens to write, and the options that name them.
fn files(options: &Serve) -> Vec<(&'static str, PathBuf)> {
    let targets = targets(options).into_iter().filter_map(|(option, target)| match target {
        Target::File(path) => Some((option, path)),
        Target::Stdout | Target::Command(_) => None,
    });
    targets.chain(options.logs.error_log.clone().map(|path| ("--error-log", path))).collect()
}

/// Unix sockets that nobody could listen on, and hosts that are not this machine. Whether a port of TCP can be had is known to who tries,
/// and a server that is to be replaced may have it.
fn closed_listeners(options: &Serve) -> impl Iterator<Item = String> {
    let all = options.listeners().into_iter().chain(options.redirects(0)).chain(options.pages());
    all.filter_map(|(address, _)| match &address {
        Address::Unix(path) => closed_socket(path),
        Address::Host(host, _) => not_here(&address, host),
        Address::Any(_) | Address::Abstract(_) => None,
    })
}

/// Why a host cannot be listened on, whatever the port: one that the kernel chooses is tried.
fn not_here(address: &Address, host: &str) -> Option<String> {
    let anywhere = Address::Host(host.to_owned(), 0);
    let shown = address.to_string();
    let error = match Listener::bind(&anywhere, &ListenOptions::default()).err()? {
        ListenError::System(_, error, hint) => ListenError::System(shown, error, hint),
        ListenError::NoAddress(_) => ListenError::NoAddress(shown),
        other @ ListenError::InTheWay(_) => other,
    };
    Some(error.to_string())
}

fn closed_socket(path: &Path) -> Option<String> {
    let cannot = |why: String| Some(format!("cannot listen on {}: {why}", path.display()));
    let long = path.as_os_str().len();
    if long > socket::LONGEST {
        return cannot(format!("it has {long} bytes, a socket's path {} at most", socket::LONGEST));
    }
    if path.symlink_metadata().is_ok_and(|there| !there.file_type().is_socket()) {
        return cannot("it is there and is no socket".to_owned());
    }
    directory::closed(directory::of(path)).and_then(cannot)
}

/// Why a file cannot be written, or made where there is none.
fn unwritable(option: &str, path: &Path) -> Option<String> {
    let cannot = |why: String| Some(format!("{option} {}: cannot be written: {why}", path.display()));
    if let Some(why) = misleads(path) {
        return cannot(why.to_string());
    }
    let why = match path.metadata() {
        Ok(there) if there.is_dir() => Some("it is a directory".to_owned()),
        Ok(there) if there.file_type().is_socket() => Some("it is a socket".to_owned()),
        Ok(_) => access(path, Access::WRITE_OK).err().map(|error| error.to_string()),
        Err(error) if error.kind() == ErrorKind::NotFound => directory::closed(&place(path)),
        Err(error) => directory::closed(directory::of(path)).or(Some(error.to_string())),
    };
    why.and_then(cannot)
}

/// The directory in which a file is made, where a link may lead to what is not there yet.
fn place(path: &Path) -> PathBuf {
    let directory = directory::of(path);
    path.read_link().map_or_else(|_| directory.to_owned(), |next| place(&directory.join(next)))
}

/// Why a certificate that comes from an authority cannot be kept: in the nearest directory above it that is there, nothing can be made.
fn closed(certificate: &Path) -> Option<String> {
    let there = certificate.ancestors().skip(1).find(|directory| directory.exists())?;
    let cannot = |why: &str| {
        format!("--acme-dir: {} cannot be written: {}: {why}", certificate.display(), there.display())
    };
    if !there.is_dir() {
        return Some(cannot("it is no directory"));
    }
    access(there, Access::WRITE_OK | Access::EXEC_OK).err().map(|error| cannot(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_of_a_log_is_looked_for_where_its_name_is_plain() {
        for (command, is_told) in [
            ("cat >log", false),
            ("exec cat", false),
            ("/bin/cat", false),
            ("TZ=UTC nonesuch", false),
            ("{ nonesuch; }", false),
            ("nonesuch log.%F 86400", true),
            ("exec nonesuch", true),
            ("/no/such/cat", true),
            ("", false),
        ] {
            assert_eq!(not_there("--access-log", command).is_some(), is_told, "{command}");
        }
    }

    #[test]
    fn a_file_can_be_written_where_there_is_one_or_room_for_one() {
        let dir = tempfile::tempdir().unwrap();
        let there = dir.path().join("there");
        std::fs::write(&there, "").unwrap();
        let socket = dir.path().join("socket");
        let _socket = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let [turns, leads, lost] = ["loop", "link", "lost"].map(|name| dir.path().join(name));
        std::os::unix::fs::symlink(&turns, &turns).unwrap();
        std::os::unix::fs::symlink("new", &leads).unwrap();
        std::os::unix::fs::symlink("/no/such/log", &lost).unwrap();
        for (path, why) in [
            (there, "-"),
            (dir.path().join("new"), "-"),
            ("new".into(), "-"),
            ("/dev/null".into(), "-"),
            (leads, "-"),
            (dir.path().to_owned(), "it is a directory"),
            ("/bin/sh/log".into(), "Not a directory"),
            (turns, "Too many levels of symbolic links"),
            (lost, "lost: cannot be written: directory /no/such: No such file"),
            (socket, "it is a socket"),
            (
                "/no/such/log".into(),
                "/no/such/log: cannot be written: directory /no/such: No such file or directory",
            ),
        ] {
            let told = unwritable("--access-log", &path).unwrap_or_else(|| "-".to_owned());
            assert!(told.contains(why) && (why == "-") == (told == "-"), "{path:?}: {told}");
        }
    }
}
