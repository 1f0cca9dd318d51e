//! What /proc says of a process, as long as there is one.

use std::fs;

/// The machine's own namespaces of process ids and of users, which have these numbers in any kernel (linux/proc_ns.h).
const OF_THE_MACHINE: [(&str, &str); 2] = [("pid", "pid:[4026531836]"), ("user", "user:[4026531837]")];

/// The kernel keeps no more of a name.
const SHORT: usize = 15;
/// What is read of arguments and environment.
const MOST: usize = 64 * 1024;

/// Whether this process is in a namespace in which processes have other numbers than the kernel tells, or which it tells nothing.
pub(crate) fn is_enclosed() -> bool {
    OF_THE_MACHINE.into_iter().any(|(kind, own)| {
        fs::read_link(format!("/proc/self/ns/{kind}")).is_ok_and(|link| link.as_os_str() != own)
    })
}

/// What the process is called.
pub(crate) fn name(pid: u32) -> Option<String> {
    let comm = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(comm.strip_suffix(b"\n").unwrap_or(&comm)).into_owned())
}

/// Its arguments.
pub(crate) fn arguments(pid: u32) -> Vec<String> {
    let Ok(bytes) = fs::read(format!("/proc/{pid}/cmdline")) else { return Vec::new() };
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
    let bytes = &bytes[..bytes.len().min(MOST)];
    if bytes.is_empty() {
        return Vec::new();
    }
    bytes.split(|&byte| byte == 0).map(|one| String::from_utf8_lossy(one).into_owned()).collect()
}

/// Its parent.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in brackets and may hold anything.
    let behind = stat.iter().rposition(|&byte| byte == b')')?;
    let fields = String::from_utf8_lossy(&stat[behind + 1..]).into_owned();
    fields.split_whitespace().nth(1)?.parse().ok()
}

/// All processes there are.
pub(crate) fn all() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// A CGI script's request: method and URI, of the environment that it was started with.
pub(crate) fn request(pid: u32) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let environment = &environment[..environment.len().min(MOST)];
    let of = |name: &str| {
        let mut pairs = environment.split(|&byte| byte == 0);
        let value = pairs.find_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
        Some(String::from_utf8_lossy(value).into_owned())
    };
    of("GATEWAY_INTERFACE")?;
    Some(format!("{} {}", of("REQUEST_METHOD")?, of("REQUEST_URI")?))
}

/// The whole name where `comm` is cut: that of the argument which is the program or its script.
pub(crate) fn whole_name(comm: &str, arguments: &[String]) -> String {
    let cut = comm.len() >= SHORT;
    let base = |argument: &String| argument.rsplit('/').next().unwrap_or_default().to_owned();
    let whole = arguments.iter().take(4).map(base).find(|base| cut && base.starts_with(comm));
    whole.unwrap_or_else(|| comm.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_the_kernel_has_cut_is_found_in_the_arguments() {
        let arguments = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (comm, line, name) in [
            ("index.cgi", "/usr/bin/perl -w /srv/index.cgi", "index.cgi"),
            ("a-very-long-scr", "/usr/bin/perl /srv/a-very-long-script.cgi a", "a-very-long-script.cgi"),
            ("a-very-long-pro", "/bin/a-very-long-program", "a-very-long-program"),
            ("a-very-long-pro", "something else", "a-very-long-pro"),
            ("exactly-fifteen", "", "exactly-fifteen"),
        ] {
            assert_eq!(whole_name(comm, &arguments(line)), name);
        }
    }

    #[test]
    fn this_process_is_found() {
        let own = std::process::id();
        assert!(all().contains(&own) && name(own).is_some() && !arguments(own).is_empty());
        assert!(parent(own).is_some_and(|parent| parent > 0));
        assert_eq!((parent(u32::MAX), name(u32::MAX), request(own)), (None, None, None));
    }
}
