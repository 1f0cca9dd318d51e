//! What the kernel knows of a process: whether it runs, in which system call it waits, and for what.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

use howdah_sys::process::{says_stopped, state_in};

use crate::calls;

/// Bytes of an answer of /proc.
const ROOM: usize = 256;

/// What a process does, as the kernel sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It runs, or would if a processor were free.
    Runs,
    /// It waits in a system call, with these arguments.
    Waits {
        /// The kernel's name.
        call: String,
        /// Its arguments.
        arguments: [u64; 6],
    },
    /// It waits for a page of memory, or in a call that the kernel does not tell.
    Stands,
}

/// The kernel's view of one process.
#[derive(Debug)]
pub(crate) struct Watch {
    pid: u32,
    call: Option<File>,
    status: File,
}

impl Watch {
    /// Opens it.
    ///
    /// # Errors
    /// PermissionDenied, or NotFound when the process is gone.
    pub(crate) fn open(pid: u32) -> io::Result<Self> {
        let open = |name: &str| File::open(format!("/proc/{pid}/{name}"));
        // A kernel may lack it.
        let call = match open("syscall") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            other => Some(other?),
        };
        Ok(Self { pid, call, status: open("stat")? })
    }

    /// Looks now.
    ///
    /// # Errors
    /// PermissionDenied, or that the process is gone.
    pub(crate) fn look(&self) -> io::Result<State> {
        match &self.call {
            Some(call) => Ok(parse(&read(call)?)),
            None => Ok(if state_in(&read(&self.status)?) == Some('R') { State::Runs } else { State::Stands }),
        }
    }

    /// Whether a signal or a debugger has stopped it, wherever that was.
    pub(crate) fn is_stopped(&self) -> bool {
        read(&self.status).is_ok_and(|status| says_stopped(&status))
    }

    /// What a descriptor is: a path, `socket to 127.0.0.1:5432`, `pipe`.
    pub(crate) fn descriptor(&self, number: u64) -> Option<String> {
        let link = fs::read_link(format!("/proc/{}/fd/{number}", self.pid)).ok()?;
        let link = link.to_string_lossy().into_owned();
        let inode = link.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
        Some(match inode {
            Some(inode) => self.socket(inode).unwrap_or_else(|| "socket".to_owned()),
            None if link.starts_with("pipe:") => "pipe".to_owned(),
            None => link,
        })
    }

    fn socket(&self, inode: &str) -> Option<String> {
        let table = |name: &str| {
            let table = fs::read(format!("/proc/{}/net/{name}", self.pid)).unwrap_or_default();
            String::from_utf8_lossy(&table).into_owned()
        };
        let internet = ["tcp", "tcp6", "udp", "udp6"].into_iter();
        internet.map(|name| peer(&table(name), inode)).find(Option::is_some).flatten().or_else(|| {
            let unix = table("unix");
            unix_path(&unix, inode).map(|path| format!("Unix socket {path}").trim_end().to_owned())
        })
    }
}

/// The process id stays another's only as long as it lives, so a closed one is told.
fn read(file: &File) -> io::Result<String> {
    let mut room = [0; ROOM];
    let read = file.read_at(&mut room, 0)?;
    Ok(String::from_utf8_lossy(&room[..read]).into_owned())
}

/// `running`, `-1 SP PC`, or `NUMBER ARGUMENT{6} SP PC`.
fn parse(text: &str) -> State {
    let mut words = text.split_ascii_whitespace();
    let first = words.next().unwrap_or_default();
    let Ok(number) = first.parse::<std::ffi::c_long>() else {
        return if first == "running" { State::Runs } else { State::Stands };
    };
    let mut arguments = [0; 6];
    for (argument, word) in arguments.iter_mut().zip(words) {
        *argument = u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap_or_default();
    }
    if number < 0 { State::Stands } else { State::Waits { call: calls::name(number), arguments } }
}

/// The other end of a socket in /proc/net/tcp or its like.
fn peer(table: &str, inode: &str) -> Option<String> {
    let line = table.lines().skip(1).find(|line| line.split_ascii_whitespace().nth(9) == Some(inode))?;
    let mut words = line.split_ascii_whitespace().skip(1);
    let (own, other) = (address(words.next()?)?, address(words.next()?)?);
    Some(if other.ends_with(":0") { format!("socket at {own}") } else { format!("socket to {other}") })
}

/// `0100007F:1538`: words in this machine's byte order.
fn address(text: &str) -> Option<String> {
    let (host, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let words = host.as_bytes().chunks(8).map(|word| {
        let word = std::str::from_utf8(word).ok()?;
        u32::from_str_radix(word, 16).ok().map(u32::to_ne_bytes)
    });
    let bytes = words.collect::<Option<Vec<_>>>()?.concat();
    if let Ok(four) = <[u8; 4]>::try_from(bytes.as_slice()) {
        return Some(format!("{}:{port}", std::net::Ipv4Addr::from(four)));
    }
    let sixteen = <[u8; 16]>::try_from(bytes.as_slice()).ok()?;
    Some(format!("[{}]:{port}", std::net::Ipv6Addr::from(sixteen)))
}

/// Num RefCount Protocol Flags Type St Inode Path
fn unix_path<'a>(table: &'a str, inode: &str) -> Option<&'a str> {
    let line = table.lines().find(|line| line.split_ascii_whitespace().nth(6) == Some(inode))?;
    Some(line.split_ascii_whitespace().nth(7).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_runs_or_waits() {
        assert_eq!(parse("running\n"), State::Runs);
        assert_eq!(parse("-1 0x7ffe 0x55d0\n"), State::Stands);
        assert_eq!(parse(""), State::Stands);
        let read = format!("{} 0x7 0x55 0x2000 0x0 0x0 0x0 0x7ffe 0x7f00\n", calls::number("read").unwrap());
        assert_eq!(parse(&read), State::Waits { call: "read".into(), arguments: [7, 0x55, 0x2000, 0, 0, 0] });
    }

    #[test]
    fn sockets_are_told_by_their_other_end() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:A1B2 0100007F:1538 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0\n   \
            1: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4712 1 0\n";
        if cfg!(target_endian = "little") {
            assert_eq!(peer(table, "4711").as_deref(), Some("socket to 127.0.0.1:5432"));
            assert_eq!(peer(table, "4712").as_deref(), Some("socket at 127.0.0.1:8080"));
        }
        assert_eq!(peer(table, "1"), None);
        assert_eq!(address("00000000000000000000000000000000:0050").as_deref(), Some("[::]:80"));
        let unix = "Num RefCount Protocol Flags Type St Inode Path\n0000: 00000003 00000000 00000000 0001 03 19 /run/db.sock\n";
        assert_eq!(unix_path(unix, "19"), Some("/run/db.sock"));
    }

    #[test]
    fn one_can_look_at_oneself() {
        let watch = Watch::open(std::process::id()).unwrap();
        // The thread that runs the test is not the one that is looked at.
        assert!(matches!(watch.look().unwrap(), State::Waits { .. } | State::Runs));
        let file = File::open("/proc/self/stat").unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&file).unsigned_abs();
        assert!(watch.descriptor(number.into()).unwrap().ends_with("/stat"));
        assert_eq!(watch.descriptor(4_000_000), None);
    }
}
