//! One request from claim to finish: find the script, start it, answer with what it prints. `worker` calls this.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use howdah_sys::{monotonic_ns, signal_eventfd};
use howdah_wire::{Post, REQUEST_HTTPS, REQUEST_IS_HEAD, RequestReader, Work};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::environment::{Environment, arguments};
use crate::input::stdin;
use crate::place::{Mount, Refusal, Script};
use crate::pump::{Outcome, Process, Pump, Ready};
use crate::reply::{Reply, fail, refuse};
use crate::request::Request;
use crate::say::{Errors, Level, Lines, Who};
use crate::seat::Seat;
use crate::start::{Fault, Launch, Mode, Running, Starter};

/// What all workers of a host have in common.
pub(crate) struct House {
    pub(crate) mount: Mount,
    pub(crate) environment: Environment,
    pub(crate) starter: Starter,
    pub(crate) errors: Errors,
    /// Of each front thread.
    pub(crate) eventfds: Vec<OwnedFd>,
    /// /dev/null.
    pub(crate) null: OwnedFd,
}

/// One worker, for one request after the other.
pub(crate) struct Bench<'b> {
    pub(crate) house: &'b House,
    pub(crate) post: &'b Post,
    pub(crate) seat: &'b Seat,
    /// To each front thread.
    pub(crate) channels: &'b [OwnedFd],
    /// The host's process.
    pub(crate) pid: u32,
}

/// What is read of a script, as descriptors of ours.
struct Pipes {
    stdout: OwnedFd,
    stderr: OwnedFd,
}

/// What is asked for: the request as the front has written it, and by itself.
struct Asked<'a> {
    reader: RequestReader<'a>,
    request: Request,
}

impl Asked<'_> {
    fn is_bodyless(&self) -> bool {
        self.reader.flags() & REQUEST_IS_HEAD != 0
    }
}

impl Bench<'_> {
    /// Serves what has been claimed.
    pub(crate) fn serve(&self, mut work: Work) -> Outcome {
        work.enter(self.post, monotonic_ns());
        let Some(copy) = work.request() else {
            let said = "its request was overwritten in shared memory\n";
            self.house.errors.say(Level::Error, &Who::host(), said.as_bytes());
            fail(&mut work, 500);
            self.finish(&mut work);
            return Outcome::Answered;
        };
        let reader = RequestReader::new(&copy);
        let asked = Asked { reader, request: owned(&reader) };
        let who = Who::at_work(self.pid, self.post.worker(), &asked.request);
        match self.house.mount.find(&asked.request.path) {
            Ok(script) => self.run(&mut work, &asked, script, who),
            Err(Refusal { status, reason }) => {
                work.begin();
                self.refuse(
                    &mut work,
                    &asked,
                    status,
                    (Level::Info, &who, &[reason.as_bytes(), b"\n"].concat()),
                );
                Outcome::Answered
            }
        }
    }

    /// Answers without a script; `said` is for the log.
    fn refuse(&self, work: &mut Work, asked: &Asked<'_>, status: u16, said: (Level, &Who, &[u8])) {
        let (level, who, text) = said;
        self.house.errors.say(level, who, text);
        match status {
            500 | 502 => fail(work, status.into()),
            _ => refuse(work, status, asked.is_bodyless()),
        }
        self.finish(work);
    }

    /// Runs the script.
    fn run(&self, work: &mut Work, asked: &Asked<'_>, script: Script, mut who: Who) -> Outcome {
        let (name, nph) = (script.filename.as_os_str().as_bytes().to_vec(), script.nph);
        let (running, pipes) = match self.start(work, asked, script) {
            Ok(started) => started,
            Err(fault) => {
                let said = Lines::of(&name).take(format!("{fault}{}\n", hint(&fault)).as_bytes());
                let said = said.unwrap_or_default();
                // A body goes with the client that has sent it, be it while its worker asks for it.
                let level = if work.is_abandoned() { Level::Info } else { Level::Error };
                self.refuse(work, asked, fault.status(), (level, &who, &said));
                return Outcome::Answered;
            }
        };
        who.pid = running.pid.as_raw_pid().unsigned_abs();
        self.post.show_process(who.pid);
        let mut pump = Pump {
            seat: self.seat,
            errors: &self.house.errors,
            who: &who,
            script: &name,
            process: Process::new(running),
            stdout: Some(pipes.stdout),
            stderr: Some(pipes.stderr),
            lines: Lines::of(&name),
            ready: Ready::default(),
        };
        let outcome = self.pump(&mut pump, work, nph, asked.is_bodyless());
        self.post.show_process(self.pid);
        outcome
    }

    /// Starts it.
    fn start(&self, work: &Work, asked: &Asked<'_>, script: Script) -> Result<(Running, Pipes), Fault> {
        let environment = self.house.environment.variables(&asked.request, &script);
        report(work, &environment, self.house.starter.mode(&script));
        work.begin();
        let channel = self.channels.get(work.front()).ok_or(io::Error::from(io::ErrorKind::NotFound))?;
        let stdin = stdin(work, &asked.reader, channel, &self.house.null)?;
        let (launch, pipes) = launch(script, arguments(&asked.request), environment, stdin)?;
        let given_up = || self.seat.is_killed() || self.seat.is_asked();
        Ok((self.house.starter.start(launch, &given_up)?, pipes))
    }

    /// Moves what it prints, and waits for its end.
    fn pump(&self, pump: &mut Pump<'_>, work: &mut Work, nph: bool, bodyless: bool) -> Outcome {
        let tell = |reply: &Reply<'_>| self.tell(reply.work.tell(), reply.work);
        if pump.respond(&mut Reply::new(work, nph, bodyless), tell) == Outcome::Killed {
            return Outcome::Killed;
        }
        self.finish(work);
        pump.wait_for_end()
    }

    fn finish(&self, work: &mut Work) {
        let wakes = work.finish(self.post, monotonic_ns());
        self.tell(wakes, work);
    }

    /// Wakes the front thread that has the request, if it sleeps.
    fn tell(&self, wakes: bool, work: &Work) {
        if let Some(eventfd) = self.house.eventfds.get(work.front()).filter(|_| wakes) {
            let _ = signal_eventfd(eventfd);
        }
    }
}

/// A process to start, and our ends of its pipes, which do not block.
fn launch(
    script: Script,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    stdin: OwnedFd,
) -> io::Result<(Launch, Pipes)> {
    let (ours_out, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
    let (ours_err, stderr) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&ours_out, true)?;
    rustix::io::ioctl_fionbio(&ours_err, true)?;
    let launch = Launch { script, arguments, environment, stdin, stdout, stderr };
    Ok((launch, Pipes { stdout: ours_out, stderr: ours_err }))
}

/// Where an error of the kernel's says little.
fn hint(fault: &Fault) -> &'static str {
    let Fault::System(error) = fault else { return "" };
    match error.raw_os_error() {
        Some(libc_number::ENOENT) => {
            "; is the program there that its #! line names, and has that line no CR at its end?"
        }
        Some(libc_number::ENOEXEC) => "; it has no #! line, and is no program for this machine",
        Some(libc_number::E2BIG) => "; its environment or arguments are too long",
        _ => "",
    }
}

/// Numbers of errors that have no name in the standard library.
mod libc_number {
    use rustix::io::Errno;

    pub(super) const ENOENT: i32 = Errno::NOENT.raw_os_error();
    pub(super) const ENOEXEC: i32 = Errno::NOEXEC.raw_os_error();
    pub(super) const E2BIG: i32 = Errno::TOOBIG.raw_os_error();
}

/// For the access log: the variables that it wants of the script's.
fn report(work: &Work, environment: &[CString], mode: Mode) {
    let mode = mode.to_string();
    work.report(|name| {
        if name == b"HOWDAH_CGI_MODE" {
            return Some(mode.as_bytes());
        }
        environment.iter().find_map(|variable| {
            let rest = variable.as_bytes().strip_prefix(name)?;
            rest.strip_prefix(b"=")
        })
    });
}

fn owned(reader: &RequestReader<'_>) -> Request {
    Request {
        method: reader.method().to_vec(),
        uri: reader.uri().to_vec(),
        path: reader.path().to_vec(),
        query: reader.query().to_vec(),
        protocol: reader.protocol().to_vec(),
        server_name: reader.server_name().to_vec(),
        server_port: reader.server_port().to_vec(),
        remote_addr: reader.remote_addr().to_vec(),
        remote_port: reader.remote_port().to_vec(),
        https: reader.flags() & REQUEST_HTTPS != 0,
        fields: reader.variables().map(|(name, value)| (name.to_vec(), value.to_vec())).collect(),
        body_length: reader.body_length(),
    }
}
