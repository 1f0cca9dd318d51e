//! `howdah where`: one answer for each worker, in words and as JSON.
//!
//! A look takes some microseconds, and a worker goes on meanwhile. So there are several looks, some milliseconds apart,
//! until two agree; where none do, the last one is told as what it is: one moment.

use std::fmt::Write;
use std::io;
use std::time::Duration;

use serde::Serialize;

use crate::names::{Frame, Operation};
use crate::stack::Aim;
use crate::worker::{Doing, Glimpse, Request, Worker};

/// Looks before it is said that the stack changes.
const LOOKS: usize = 5;
/// Between two of them.
const PAUSE: Duration = Duration::from_millis(3);
/// Frames that are shown to people; JSON has all.
const SHOWN: usize = 100;

/// What a worker does now.
#[derive(Clone, Debug, Serialize)]
pub struct Sighting {
    /// `idle`, `runs`, `waits`, `stopped`, or `unseen` when nothing could be made out.
    pub state: &'static str,
    /// The same for people.
    pub doing: String,
    /// Perl's name for the operation that runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// The kernel's name for the system call in which it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The descriptor for which it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub descriptor: Option<Descriptor>,
    /// The request that it serves.
    pub request: Option<Request>,
    /// For how long.
    pub seconds: f64,
    /// Two looks have seen the same stack.
    pub steady: bool,
    /// The application's stack, the innermost frame first.
    pub stack: Vec<Frame>,
    /// There are more frames around these.
    pub cut: bool,
}

/// An open file of a worker's.
#[derive(Clone, Debug, Serialize)]
pub struct Descriptor {
    /// Its number.
    pub number: u64,
    /// What it is.
    pub what: String,
}

impl Sighting {
    /// Looks at a worker until two looks agree, or enough.
    ///
    /// # Errors
    /// The kernel's: it is gone, or not ours to look at.
    pub fn of(worker: &mut Worker) -> io::Result<Self> {
        let mut last: Option<Glimpse> = None;
        for _ in 0..LOOKS {
            if let Some(now) = worker.look(Aim::Exact)? {
                if last.as_ref().is_some_and(|last| agree(last, &now)) {
                    return Ok(Self::tell(worker, now, true));
                }
                last = Some(now);
            }
            std::thread::sleep(PAUSE);
        }
        Ok(last.map_or_else(Self::unseen, |last| Self::tell(worker, last, false)))
    }

    fn unseen() -> Self {
        Self {
            state: "unseen",
            doing: "changes too quickly to be seen".to_owned(),
            operation: None,
            call: None,
            descriptor: None,
            request: None,
            seconds: 0.0,
            steady: false,
            stack: Vec::new(),
            cut: false,
        }
    }

    fn tell(worker: &Worker, glimpse: Glimpse, steady: bool) -> Self {
        let (state, doing) = match worker.is_stopped() {
            true => ("stopped", "is stopped, by a signal or a debugger".to_owned()),
            false => words(&glimpse.doing),
        };
        let mut told = Self {
            state,
            doing,
            request: glimpse.request.as_deref().cloned(),
            seconds: glimpse.since as f64 / 1e9,
            steady,
            stack: glimpse.frames,
            cut: glimpse.cut,
            ..Self::unseen()
        };
        match glimpse.doing {
            Doing::Runs(operation) => told.operation = Some(operation.name.to_string()),
            Doing::Waits(call, arguments) => {
                told.descriptor = worker
                    .awaited(&call, arguments)
                    .and_then(|number| worker.descriptor(number).map(|what| Descriptor { number, what }));
                told.call = Some(call);
            }
            Doing::Idle | Doing::Stands => {}
        }
        told
    }

    /// For people: what it does, and a line for each frame.
    pub fn lines(&self) -> String {
        let mut text = format!("  {}", self.doing);
        if let Some(Descriptor { number, what }) = &self.descriptor {
            let _ = write!(text, ", descriptor {number}: {what}");
        }
        if !self.steady && self.state == "runs" {
            text.push_str("; the stack changes, this is one moment of it");
        }
        text.push('\n');
        let width = self.stack.iter().take(SHOWN).map(|frame| frame.sub.len()).max().unwrap_or(0).min(60);
        for Frame { sub, file, line } in self.stack.iter().take(SHOWN) {
            let _ = writeln!(text, "    {sub:width$}  {file} line {line}");
        }
        if self.stack.len() > SHOWN {
            let least = if self.cut { "at least " } else { "" };
            let _ = writeln!(text, "    and {least}{} more frames around it", self.stack.len() - SHOWN);
        }
        text
    }
}

/// Both looks saw the same.
fn agree(one: &Glimpse, other: &Glimpse) -> bool {
    one.exact && other.exact && one.frames == other.frames && one.request == other.request
}

fn words(doing: &Doing) -> (&'static str, String) {
    match doing {
        Doing::Idle => ("idle", "waits for a request".to_owned()),
        Doing::Stands => ("waits", "waits in the kernel".to_owned()),
        Doing::Waits(call, _) => ("waits", format!("waits in the system call {call}")),
        Doing::Runs(Operation { xsub: Some(name), .. }) => ("runs", format!("runs the C code of {name}")),
        Doing::Runs(operation) if operation.is_regex() => {
            ("runs", format!("runs a regular expression ({})", operation.name))
        }
        Doing::Runs(_) => ("runs", "runs Perl code".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(sub: &str, line: u32) -> Frame {
        Frame { sub: sub.into(), file: "/srv/app.psgi".into(), line }
    }

    #[test]
    fn a_worker_that_waits_is_told_with_what_it_waits_for() {
        let told = Sighting {
            state: "waits",
            doing: "waits in the system call read".into(),
            descriptor: Some(Descriptor { number: 7, what: "socket to 127.0.0.1:5432".into() }),
            stack: vec![frame("My::DB::query", 12), frame("main::__ANON__(app.psgi:3)", 4)],
            ..Sighting::unseen()
        };
        assert_eq!(
            told.lines(),
            "  waits in the system call read, descriptor 7: socket to 127.0.0.1:5432\n    \
             My::DB::query               /srv/app.psgi line 12\n    \
             main::__ANON__(app.psgi:3)  /srv/app.psgi line 4\n"
        );
    }

    #[test]
    fn of_a_deep_stack_the_innermost_frames_are_shown() {
        let deep = |cut| Sighting { stack: vec![frame("My::deep", 1); 107], cut, ..Sighting::unseen() };
        for (cut, last) in
            [(false, "and 7 more frames around it"), (true, "and at least 7 more frames around it")]
        {
            let lines = deep(cut).lines();
            assert_eq!(lines.lines().count(), 102, "what it does, a hundred frames, and the rest");
            assert_eq!(lines.lines().last().map(str::trim), Some(last));
        }
    }

    #[test]
    fn what_runs_is_told_by_its_operation() {
        let runs = |name: &str, xsub: Option<&str>| {
            words(&Doing::Runs(Operation { name: name.into(), xsub: xsub.map(Into::into) })).1
        };
        assert_eq!(runs("match", None), "runs a regular expression (match)");
        assert_eq!(
            runs("entersub", Some("JSON::XS::encode_json")),
            "runs the C code of JSON::XS::encode_json"
        );
        assert_eq!(runs("add", None), "runs Perl code");
    }
}
