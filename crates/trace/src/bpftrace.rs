//! The kernel's tracepoints, by bpftrace: names as they were at the very moment, so that nothing is too quick for it. It
//! takes root, and a kernel that has tracepoints and describes itself (BTF).

use std::io::{self, PipeReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use crate::event::Event;

/// Its program, with one of [`EXECS`]. What a process is called is noted as it asks for another program, since at the tracepoint it bears the new
/// name already; a failed exec comes to no tracepoint. A child that still bears the name of the thread which made it is called
/// as that thread's process. Each event bears its time, for bpftrace hands over what it has of one processor after the other.
const PROGRAM: &str = r#"
BEGIN { printf("ready\n"); }
tracepoint:syscalls:sys_enter_execve, tracepoint:syscalls:sys_enter_execveat /comm != @thread[tid]/ { @who[tid] = comm; }
EXECS
tracepoint:syscalls:sys_exit_execve, tracepoint:syscalls:sys_exit_execveat { delete(@who[tid]); }
tracepoint:task:task_newtask /(args->clone_flags & 0x10000) == 0/ {
    @thread[args->pid] = comm;
    printf("fork %llu %d %d %s\n", nsecs, pid, args->pid, curtask->group_leader->comm);
}
tracepoint:sched:sched_process_exit { delete(@thread[tid]); }
tracepoint:sched:sched_process_exit /pid == tid/ { printf("exit %llu %d\n", nsecs, pid); }
END { clear(@who); clear(@thread); }
"#;

/// Where programs are told of, in the first of these ways that bpftrace takes. 0.23 has an empty path in the field of the
/// tracepoint (on Linux 6.12); 0.17 has it there, and aborts at the other way.
const EXECS: [&str; 2] = [
    r#"
rawtracepoint:sched_process_exec {
    $binary = (struct linux_binprm *)arg2;
    printf("exec %llu %d %s\t%s\n", nsecs, pid, @who[arg1], str($binary->filename));
    delete(@who[arg1]);
}
"#,
    r#"
tracepoint:sched:sched_process_exec {
    printf("exec %llu %d %s\t%s\n", nsecs, args->pid, @who[args->old_pid], str(args->filename));
    delete(@who[args->old_pid]);
}
"#,
];

/// Bytes of a string, with its end: bpftrace's most. A path that fills it has been cut.
const STRING: usize = 200;
/// Most that is kept of a complaint.
const LONGEST_COMPLAINT: usize = 500;

/// A running one, ended when dropped.
#[derive(Debug)]
pub(crate) struct Bpftrace {
    child: Child,
    /// What it prints and what it complains of: newer ones say among the latter that events were lost.
    output: PipeReader,
    /// Read, and not taken yet.
    input: Vec<u8>,
    /// The first of its complaints that says what is wrong.
    complaint: Option<String>,
}

/// What it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// From now on nothing is missed.
    Ready,
    /// And when that was, in the kernel's nanoseconds.
    Event(u64, Event),
    /// Something else.
    Remark(String),
}

impl Bpftrace {
    /// Each way to start it, the best first.
    pub(crate) fn ways() -> impl Iterator<Item = io::Result<Self>> {
        let version = Command::new("bpftrace").arg("--version").output().map(|said| said.stdout);
        let is_old = version.is_ok_and(|version| is_old(&String::from_utf8_lossy(&version)));
        EXECS.into_iter().skip(usize::from(is_old)).map(Self::start)
    }

    /// That it traces is told by [`Line::Ready`].
    fn start(execs: &str) -> io::Result<Self> {
        let mut command = Command::new("bpftrace");
        command.args(["-q", "-B", "line", "-e", &PROGRAM.replace("EXECS", execs.trim())]);
        command.env("BPFTRACE_STRLEN", STRING.to_string());
        // Ctrl-C is for us, who end it.
        command.process_group(0);
        let (output, said) = io::pipe()?;
        command.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said);
        let child = command.spawn()?;
        Ok(Self { child, output, input: Vec::new(), complaint: None })
    }

    /// Has it print what it has of each processor, and end: as by Ctrl-C, which does not come to it.
    pub(crate) fn end(&self) {
        // It may have ended by itself.
        let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
    }

    /// Its next line within that time.
    pub(crate) fn read(&mut self, patience: Duration) -> io::Result<Option<Line>> {
        if let Some(line) = self.take_line() {
            return Ok(Some(line));
        }
        let mut ready = [PollFd::new(&self.output, PollFlags::IN)];
        let patience = Timespec::try_from(patience).map_err(io::Error::other)?;
        match poll(&mut ready, Some(&patience)) {
            Ok(0) | Err(Errno::INTR) => return Ok(None),
            other => other?,
        };
        let mut piece = [0; 16 * 1024];
        match self.output.read(&mut piece)? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("bpftrace: {}", self.complaint()))),
            length => {
                self.input.extend_from_slice(&piece[..length]);
                Ok(self.take_line())
            }
        }
    }

    /// What it has complained of, once it has ended.
    pub(crate) fn complaint(&self) -> &str {
        self.complaint.as_deref().unwrap_or("it ended")
    }

    fn take_line(&mut self) -> Option<Line> {
        let end = self.input.iter().position(|&byte| byte == b'\n')?;
        let line: Vec<u8> = self.input.drain(..=end).collect();
        let line = parse(&String::from_utf8_lossy(&line[..end]));
        if let Line::Remark(remark) = &line
            && remark.contains("ERROR")
        {
            self.complaint.get_or_insert_with(|| remark.chars().take(LONGEST_COMPLAINT).collect());
        }
        Some(line)
    }
}

impl Drop for Bpftrace {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether it takes the second way of [`EXECS`] alone.
fn is_old(version: &str) -> bool {
    let minor = version.trim().strip_prefix("bpftrace v0.").and_then(|rest| rest.split('.').next());
    minor.and_then(|minor| minor.parse::<u32>().ok()).is_some_and(|minor| minor < 20)
}

fn parse(line: &str) -> Line {
    if line == "ready" {
        return Line::Ready;
    }
    if line.starts_with("Lost ") {
        return Line::Event(0, Event::Lost);
    }
    event(line).map_or_else(|| Line::Remark(line.to_owned()), |(at, event)| Line::Event(at, event))
}

fn event(line: &str) -> Option<(u64, Event)> {
    let (kind, rest) = line.split_once(' ')?;
    let (at, rest) = rest.split_once(' ')?;
    let event = match kind {
        "exit" => Event::Exit { pid: rest.parse().ok()? },
        "fork" => {
            let (parent, rest) = rest.split_once(' ')?;
            let (child, who) = rest.split_once(' ')?;
            let who = Some(who.to_owned());
            Event::Fork { parent: parent.parse().ok()?, child: child.parse().ok()?, who }
        }
        "exec" => {
            let (pid, rest) = rest.split_once(' ')?;
            let (who, path) = rest.split_once('\t')?;
            // None for who has made it, and for a path that is too long to be known, or was not to be had.
            let who = (!who.is_empty()).then(|| who.to_owned());
            let path = (!path.is_empty() && path.len() < STRING - 1).then(|| path.to_owned());
            Event::Exec { pid: pid.parse().ok()?, who, path }
        }
        _ => return None,
    };
    Some((at.parse().ok()?, event))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_one_is_known_by_its_version() {
        for (version, old) in [
            ("bpftrace v0.17.0\n", true),
            ("bpftrace v0.23.2\n", false),
            ("bpftrace v1.0.1\n", false),
            ("", false),
        ] {
            assert_eq!(is_old(version), old, "{version}");
        }
    }

    #[test]
    fn its_lines_are_taken_apart() {
        let text = |text: &str| Some(text.to_owned());
        let (event, remark) = (Line::Event, |text: &str| Line::Remark(text.to_owned()));
        let cut = format!("exec 5 7 sh\t/{}", "a".repeat(STRING - 2));
        for (line, meaning) in [
            ("ready", Line::Ready),
            (
                "exec 5 7 howdah\t/srv/cgi-bin/a b.cgi",
                event(5, Event::Exec { pid: 7, who: text("howdah"), path: text("/srv/cgi-bin/a b.cgi") }),
            ),
            ("exec 5 7 \t/bin/true", event(5, Event::Exec { pid: 7, who: None, path: text("/bin/true") })),
            (&cut, event(5, Event::Exec { pid: 7, who: text("sh"), path: None })),
            ("exec 5 7 sh\t", event(5, Event::Exec { pid: 7, who: text("sh"), path: None })),
            ("exec 5 7 a b", remark("exec 5 7 a b")),
            ("fork 5 7 9 my name", event(5, Event::Fork { parent: 7, child: 9, who: text("my name") })),
            ("fork 5 7 x y", remark("fork 5 7 x y")),
            ("exit 5 9", event(5, Event::Exit { pid: 9 })),
            ("exit x 9", remark("exit x 9")),
            ("exit 9", remark("exit 9")),
            ("Lost 12 events", event(0, Event::Lost)),
            ("Attaching 5 probes...", remark("Attaching 5 probes...")),
            ("", remark("")),
        ] {
            assert_eq!(parse(line), meaning, "{line}");
        }
    }
}
