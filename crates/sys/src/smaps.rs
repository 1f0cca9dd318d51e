//! What the kernel says of a process's memory, read by whoever may: the front itself, or its launcher.

use std::io;

use crate::privileges::with_rights_of;
use crate::process::Pid;

/// What `/proc/PID/smaps_rollup` says, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Pages that nobody else maps (USS): what the system gets back when the process ends.
    pub private: u64,
    /// Private pages and this process's share of the others (PSS).
    pub proportional: u64,
    /// All pages in memory, shared ones in full (RSS).
    pub resident: u64,
}

/// The memory of `pid`.
///
/// Where root may not look at another user's processes, as in a container without CAP_SYS_PTRACE, it looks as that user.
///
/// # Errors
/// NotFound when the process is gone or hidden, or the kernel is older than 4.14, PermissionDenied when it belongs to another user
/// or this process is confined.
pub(crate) fn measure(pid: Pid) -> io::Result<Memory> {
    let process = format!("/proc/{}", pid.as_raw_nonzero());
    let read = || std::fs::read_to_string(format!("{process}/smaps_rollup"));
    let text = match read() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            with_rights_of(&std::fs::metadata(&process)?, read)?
        }
        read => read?,
    };
    Ok(parse_rollup(&text))
}

fn parse_rollup(text: &str) -> Memory {
    let mut memory = Memory::default();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(name), Some(kilobytes)) = (words.next(), words.next()) else { continue };
        let bytes = kilobytes.parse::<u64>().unwrap_or(0) * 1024;
        match name {
            "Private_Clean:" | "Private_Dirty:" | "Private_Hugetlb:" => memory.private += bytes,
            "Pss:" => memory.proportional = bytes,
            "Rss:" => memory.resident = bytes,
            _ => {}
        }
    }
    memory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_pages_are_added_up_and_shared_ones_are_not() {
        let text = "55d0c0000000-7ffd00000000 ---p 00000000 00:00 0    [rollup]\n\
                    Rss:    5000 kB\nPss:    1500 kB\nPss_Anon:  900 kB\nShared_Clean: 3000 kB\n\
                    Private_Clean:  100 kB\nPrivate_Dirty:  900 kB\nSwapPss: 0 kB\n";
        let expected = Memory { private: 1000 * 1024, proportional: 1500 * 1024, resident: 5000 * 1024 };
        assert_eq!(parse_rollup(text), expected);
    }
}
