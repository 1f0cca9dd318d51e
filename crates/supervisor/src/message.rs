//! What front and zygote say on the control socket: ASCII, one message per packet, descriptors beside it.
//!
//! ```text
//! to the zygote:    attach <front threads>          + segment, eventfd of each front thread
//!                   spawn <index> <generation>      + channel to each front thread
//!                   stop                            fork no more, exit when the last worker has left
//! from the zygote:  ready [<perl's version>] | failed <perl message> | spawned <index> <pid> | exited <index> <pid> <wait status> | log <text>
//! ```

use howdah_sys::{ExitKind, Pid};

/// Longest packet that a zygote sends; Perl's messages are cut to fit.
pub(crate) const LONGEST: usize = 64 * 1024;

/// What a zygote says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The application is loaded, by this version of perl if it says so.
    Ready { perl: String },
    /// It does not load; the zygote exits.
    Failed(String),
    /// A worker was forked.
    Spawned { index: u16, pid: Pid },
    /// A worker has ended. Without a pid the fork itself failed.
    Exited { index: u16, pid: Option<Pid>, status: ExitKind },
    /// Something for the log.
    Log(String),
}

impl Report {
    /// None when the packet is none of these.
    pub(crate) fn parse(packet: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(packet);
        let (word, rest) = text.split_once(' ').unwrap_or((&text, ""));
        match word.trim_end() {
            "ready" => Some(Self::Ready { perl: rest.trim_end().to_owned() }),
            "failed" => Some(Self::Failed(rest.trim_end().to_owned())),
            "spawned" => parse_spawned(rest),
            "exited" => parse_exited(rest),
            "log" => Some(Self::Log(rest.trim_end().to_owned())),
            _ => None,
        }
    }
}

fn parse_spawned(rest: &str) -> Option<Report> {
    let mut words = rest.split_ascii_whitespace();
    let index = words.next()?.parse().ok()?;
    Some(Report::Spawned { index, pid: parse_pid(words.next()?)?? })
}

fn parse_exited(rest: &str) -> Option<Report> {
    let mut words = rest.split_ascii_whitespace();
    let index = words.next()?.parse().ok()?;
    let pid = parse_pid(words.next()?)?;
    let status = ExitKind::from_raw(words.next()?.parse().ok()?);
    Some(Report::Exited { index, pid, status })
}

/// None for no number, Some(None) for 0.
fn parse_pid(word: &str) -> Option<Option<Pid>> {
    Some(Pid::from_raw(word.parse().ok().filter(|number| *number >= 0)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pid(number: i32) -> Pid {
        Pid::from_raw(number).unwrap()
    }

    #[test]
    fn reports_are_understood() {
        let cases = [
            ("ready v5.36.0", Some(Report::Ready { perl: "v5.36.0".into() })),
            ("ready\n", Some(Report::Ready { perl: String::new() })),
            (
                "failed Can't locate Foo.pm in @INC\n",
                Some(Report::Failed("Can't locate Foo.pm in @INC".into())),
            ),
            ("spawned 3 77", Some(Report::Spawned { index: 3, pid: pid(77) })),
            (
                "exited 3 77 256",
                Some(Report::Exited { index: 3, pid: Some(pid(77)), status: ExitKind::Exited(1) }),
            ),
            (
                "exited 3 77 9",
                Some(Report::Exited { index: 3, pid: Some(pid(77)), status: ExitKind::Signaled(9) }),
            ),
            ("exited 3 0 256", Some(Report::Exited { index: 3, pid: None, status: ExitKind::Exited(1) })),
            ("log hello there", Some(Report::Log("hello there".into()))),
        ];
        for (text, report) in cases {
            assert_eq!(Report::parse(text.as_bytes()), report, "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "spawned",
            "spawned x 7",
            "spawned 3 0",
            "spawned 70000 7",
            "exited 3 7",
            "exited 3 -7 0",
            "ready7",
        ] {
            assert_eq!(Report::parse(text.as_bytes()), None, "{text}");
        }
    }
}
