//! Confines the front once everything that needs rights has been done: sockets bound, pid file written, launcher
//! started. `serve` calls it before the first thread, so that all of them are confined; docs/decisions/09-confinement.md
//! says against whom.
//!
//! Each measure stands for itself: where the kernel or a container does not have one, the others are taken.

use std::io;
use std::path::{Path, PathBuf, absolute};

use howdah_accesslog::Target;
use howdah_sys::confine::{
    Files, Kept, Restricted, is_filtered, keep_capabilities, no_new_privileges, refuse_calls, restrict_files,
    survived,
};
use rustix::io::Errno;

use crate::endpoints::Endpoints;
use crate::options::Serve;
use crate::tls;

/// Where the C library finds out who has a name, and where it is found out whom to believe.
const NETWORK: [&str; 11] = [
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/run/systemd/resolve",
    "/etc/ssl",
    "/etc/pki",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
];

/// Gives up what a front does not need. Never fails: the log tells what could not be had.
pub(crate) fn confine(options: &Serve, endpoints: &Endpoints) {
    match std::fs::read_dir("/proc/self/task").map(Iterator::count) {
        Ok(1) => {}
        _ => return tracing::warn!("the front is not confined, because it has threads already"),
    }
    let root = rustix::process::geteuid().is_root();
    let kept = if root { Kept::SignalsAndFiles } else { Kept::Nothing };
    let files = files(options, endpoints);
    let mut taken = Vec::new();
    note(&mut taken, "capabilities dropped", "capset", tried(|| keep_capabilities(kept)));
    note(&mut taken, "no_new_privs", "prctl", tried(no_new_privileges));
    match tried(|| Ok(restrict_files(&files))).unwrap_or_else(|error| Ok(Restricted::Not(error))) {
        Ok(Restricted::By(abi)) => taken.push(format!("Landlock {abi}")),
        Ok(Restricted::Not(error)) => {
            tracing::info!("the front's access to files is not restricted: {}", without_landlock(&error));
        }
        Err(error) => tracing::info!("the front's access to files is not restricted: {error}"),
    }
    note(&mut taken, "seccomp", "seccomp", tried(|| refuse_calls(options.tls.acme.is_on())));
    tracing::debug!("the front is confined: {}", taken.join(", "));
}

/// Takes a measure, unless a filter that somebody else has set would end the server for it.
fn tried<T>(measure: impl Fn() -> io::Result<T>) -> io::Result<T> {
    if is_filtered() && !survived(|| drop(measure())) {
        return Err(Errno::PERM.into());
    }
    measure()
}

fn note(taken: &mut Vec<String>, what: &str, calls: &str, outcome: io::Result<()>) {
    match outcome {
        Ok(()) => taken.push(what.to_owned()),
        Err(error) => {
            let filter = filter(&error, calls);
            tracing::info!("the front goes without one measure of confinement, {what}: {error}{filter}");
        }
    }
}

/// Who refuses calls of which each process has a right, and the way out.
fn filter(error: &io::Error, calls: &str) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::PERM | Errno::ACCESS) => {
            format!("; a filter of system calls refuses it: add {calls} there (systemd's SystemCallFilter=)")
        }
        _ => String::new(),
    }
}

const LANDLOCK: &str = "landlock_create_ruleset, landlock_add_rule and landlock_restrict_self";

fn without_landlock(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::NOSYS) => "this kernel has no Landlock (Linux 5.13 and later have it)".to_owned(),
        Some(Errno::OPNOTSUPP) => "Landlock is switched off in this kernel (by its lsm=)".to_owned(),
        _ => format!("Landlock: {error}{}", filter(error, LANDLOCK)),
    }
}

/// What a front opens, creates and removes while it serves.
fn files(options: &Serve, endpoints: &Endpoints) -> Files {
    let mut files = Files { read: readable(options), ..Files::default() };
    if let Some(place) = options.tls.acme.place() {
        // The certificates are written there, and the authority is asked; nothing else is.
        files.write.extend(directory(&place.certificate()));
        files.connect.push(options.tls.acme.port());
    }
    files.write.push("/dev/null".into());
    files.write.push(options.limits.spool_dir.clone().unwrap_or_else(std::env::temp_dir));
    for file in logs(options).iter().chain(&options.process.pid) {
        // The directory for the next one after a rotation; the file, because it may be /dev/stdout.
        files.write.extend(directory(file));
        files.write.push(file.clone());
        // And where it really is, when its name is a link.
        files.write.extend(file.canonicalize().ok().as_deref().and_then(directory));
    }
    files.remove.extend(endpoints.files().filter_map(|file| directory(&file)));
    files
}

fn logs(options: &Serve) -> Vec<PathBuf> {
    let file = |target| match target {
        Target::File(path) => Some(path),
        Target::Stdout | Target::Command(_) => None,
    };
    let requests = options.logs.targets().into_iter().filter_map(file);
    options.logs.error_log.clone().into_iter().chain(requests).collect()
}

fn readable(options: &Serve) -> Vec<PathBuf> {
    if options.app.reload || !options.app.reload_dir.is_empty() {
        // New directories are looked into, wherever they come from.
        return vec!["/".into()];
    }
    let mut paths: Vec<PathBuf> =
        ["/proc", "/sys/fs/cgroup", "/usr/share/zoneinfo", "/etc/localtime", "/etc/timezone"]
            .map(Into::into)
            .into();
    // An operator's own time zones.
    let named = |name| {
        std::env::var_os(name).map(|value| PathBuf::from(value.to_string_lossy().trim_start_matches(':')))
    };
    paths.extend(["TZDIR", "TZ"].into_iter().filter_map(named).filter(|path| path.is_absolute()));
    paths.extend(own_program());
    paths.extend(tls::directories(options));
    if options.tls.acme.is_on() {
        paths.extend(NETWORK.map(PathBuf::from));
        paths.extend(options.tls.acme.root().cloned());
    }
    paths
}

/// Where a backtrace finds functions and lines: this program, and the debug information that `make install` puts beside it.
fn own_program() -> impl Iterator<Item = PathBuf> {
    let own = std::env::current_exe().ok();
    let apart = own.as_deref().and_then(Path::parent).map(|dir| dir.join(".debug"));
    own.into_iter().chain(apart)
}

/// Never that of devices or of processes: there are no logs beside /dev/stdout. Shared memory has ordinary files.
fn directory(file: &Path) -> Option<PathBuf> {
    let path = absolute(file).ok()?;
    let is_devices = |dir: &Path| dir.starts_with("/dev") && !dir.starts_with("/dev/shm");
    path.parent().filter(|dir| !is_devices(dir) && !dir.starts_with("/proc")).map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_front_may_read_its_own_program_for_backtraces() {
        let paths: Vec<PathBuf> = own_program().collect();
        assert_eq!(paths[0], std::env::current_exe().unwrap());
        assert!(paths[1].ends_with(".debug") && paths[1].parent() == paths[0].parent(), "{paths:?}");
    }

    #[test]
    fn who_has_no_landlock_hears_why() {
        for (errno, why) in [
            (Errno::NOSYS, "this kernel has no Landlock"),
            (Errno::OPNOTSUPP, "Landlock is switched off in this kernel"),
            (Errno::PERM, "a filter of system calls refuses it: add landlock_create_ruleset, "),
        ] {
            let said = without_landlock(&errno.into());
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn a_file_stands_for_its_directory() {
        assert_eq!(directory("/var/log/app/access.log".as_ref()), Some("/var/log/app".into()));
        assert_eq!(directory("log".as_ref()), Some(std::env::current_dir().unwrap()));
        assert_eq!(directory("/".as_ref()), None);
        assert_eq!(directory("/dev/stdout".as_ref()), None);
        assert_eq!(directory("/dev/shm/logs/access.log".as_ref()), Some("/dev/shm/logs".into()));
    }
}
