//! The host: a process that stands in the zygote's place and has workers that are threads. Its main thread obeys the front,
//! by the protocol of zygotes (docs/zygote-protocol.md), and reports how workers end.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use howdah_sys::shortage::{TOO_FEW_FILES, with_way_out};
use howdah_sys::{Signal, drain_eventfd, eventfd, monotonic_ns, privileges, process, signal_eventfd};
use howdah_wire::{Post, Segment};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::environment::Environment;
use crate::exchange::House;
use crate::message::{Attach, Control, Order, Received, Report, Secret};
use crate::place::Mount;
use crate::say::{Errors, Level, Who};
use crate::seat::Seat;
use crate::spec::Spec;
use crate::start::{Log, Starter};
use crate::worker;

/// The variable with the specification.
pub const VARIABLE: &str = "HOWDAH_CGI_HOST";
/// The wait status of a worker that could not be started.
const NOT_STARTED: i32 = 256;
/// Scripts of a front that is gone have this time after TERM.
const ORPHAN: Duration = Duration::from_secs(1);
/// A worker needs little stack.
const STACK: usize = 512 * 1024;

/// The whole program of a process that was started to be a host.
#[must_use]
pub fn run() -> ExitCode {
    // It was executed as /proc/self/exe, and who counts executed programs would read that it was `exe` which did.
    let _ = rustix::thread::set_name(c"howdah");
    // A script that asks there would be stopped for ever.
    process::leave_terminal();
    // Its threads use shared memory.
    let _ = howdah_sys::tell_missing_page();
    match begin() {
        Ok(Some(host)) => {
            host.obey_all();
            ExitCode::SUCCESS
        }
        // The front is gone already.
        Ok(None) => ExitCode::SUCCESS,
        Err(why) => {
            Errors::default()
                .say_plainly(&format!("howdah: the host of CGI scripts does not start: {why}\n"));
            ExitCode::FAILURE
        }
    }
}

struct Host {
    control: Control,
    house: Arc<House>,
    /// That workers use which start now.
    segment: Segment,
    seats: HashMap<u16, Arc<Seat>>,
    ended: Receiver<(u16, i32)>,
    ends: Ends,
    stopping: bool,
}

/// Where a worker says that it has ended.
#[derive(Clone)]
struct Ends {
    sender: Sender<(u16, i32)>,
    bell: Arc<OwnedFd>,
}

impl Ends {
    fn tell(&self, worker: u16, status: i32) {
        let _ = self.sender.send((worker, status));
        let _ = signal_eventfd(&self.bell);
    }
}

/// Up to the report that it is ready, or why it is not.
fn begin() -> Result<Option<Host>, String> {
    let text = std::env::var_os(VARIABLE)
        .ok_or_else(|| format!("{VARIABLE} is not set; it is for the howdah command"))?;
    let spec = Spec::decode(text.as_encoded_bytes()).map_err(|error| error.to_string())?;
    let number = spec.control.ok_or("its specification names no control socket")?;
    let control = process::adopt_fd(number).map_err(|error| format!("descriptor {number}: {error}"))?;
    let control = Control::new(control);
    let attach = match control.receive() {
        Received::Order(Order::Attach(attach)) => attach,
        Received::Gone => return Ok(None),
        _ => return Err("the front's first order is none that this host knows".into()),
    };
    match prepare(&spec, attach) {
        Ok((house, segment)) => {
            control.report(&Report::Ready(""));
            Host::new(control, house, segment).map(Some).map_err(|error| error.to_string())
        }
        Err(why) => {
            control.report(&Report::Failed(&why));
            Err(why)
        }
    }
}

fn prepare(spec: &Spec, attach: Attach) -> Result<(House, Segment), String> {
    let Attach { segment, eventfds, errors } = attach;
    let secret = errors.as_ref().map(|(_, secret)| *secret);
    if let Some((pipe, _)) = errors {
        rustix::stdio::dup2_stderr(&pipe).map_err(|error| format!("standard error: {error}"))?;
    }
    let segment =
        howdah_sys::attach_segment(&segment).map_err(|error| format!("the shared segment: {error}"))?;
    privileges::become_user(spec.user.as_deref(), spec.group.as_deref())?;
    privileges::be_open();
    let null = open_null().map_err(|error| format!("/dev/null: {error}"))?;
    let mount = Mount::open(spec).map_err(|error| format!("{}: {error}", spec.root.display()))?;
    let house = House {
        mount,
        environment: Environment::new(spec),
        starter: Starter::new(spec, log_of(secret)),
        errors: Errors::new(secret),
        eventfds,
        null,
    };
    Ok((house, segment))
}

/// For what is to be said of a script and of no request.
fn log_of(secret: Option<Secret>) -> Log {
    let errors = Errors::new(secret);
    Arc::new(move |script, line| {
        let line = format!("{}: {line}\n", script.display());
        errors.say(Level::Warn, &Who::host(), line.as_bytes());
    })
}

fn open_null() -> io::Result<OwnedFd> {
    Ok(std::fs::File::open(Path::new("/dev/null"))?.into())
}

impl Host {
    fn new(control: Control, house: House, segment: Segment) -> io::Result<Self> {
        let (sender, ended) = channel();
        let ends = Ends { sender, bell: Arc::new(eventfd()?) };
        let house = Arc::new(house);
        Ok(Self { control, house, segment, seats: HashMap::new(), ended, ends, stopping: false })
    }

    /// Obeys the front until that is gone, or wants nothing more.
    fn obey_all(mut self) {
        while !self.stopping || !self.seats.is_empty() {
            let [order, end] = self.wait(None);
            if end {
                self.report_ends();
            }
            if !order {
                continue;
            }
            match self.control.receive() {
                Received::Order(order) => self.obey(order),
                Received::Short(worker) => self.give_up(worker, &Errno::MFILE.into()),
                Received::Nonsense(count) => self.refuse(count),
                Received::Gone => return self.end_orphans(),
            }
        }
    }

    /// Whether there is an order, and whether a worker has ended.
    fn wait(&self, time: Option<Duration>) -> [bool; 2] {
        let time = time.and_then(|time| Timespec::try_from(time).ok());
        let mut fds = [
            PollFd::from_borrowed_fd(self.control.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.ends.bell.as_fd(), PollFlags::IN),
        ];
        match poll(&mut fds, time.as_ref()) {
            Ok(_) => [0, 1].map(|at: usize| !fds[at].revents().is_empty()),
            Err(_) => [false; 2],
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Spawn { worker, channels } if channels.len() == self.house.eventfds.len() => {
                self.spawn(worker, channels);
            }
            Order::Signal { worker, signal } => {
                let signal = Signal::from_named_raw(signal);
                if let Some((seat, signal)) = self.seats.get(&worker).zip(signal) {
                    seat.signal(signal);
                }
            }
            Order::Segment(segment) => match howdah_sys::attach_segment(&segment) {
                Ok(segment) => self.segment = segment,
                Err(error) => self.control.report(&Report::Log(&format!("the new shared segment: {error}"))),
            },
            Order::Stop => self.stopping = true,
            Order::Attach(Attach { eventfds, .. }) => self.refuse(eventfds.len()),
            Order::Spawn { channels, .. } => self.refuse(channels.len()),
        }
    }

    fn refuse(&self, count: usize) {
        let text = format!("the host does not understand an order that came with {count} descriptors");
        self.control.report(&Report::Log(&text));
    }

    fn spawn(&mut self, worker: u16, channels: Vec<OwnedFd>) {
        if let Err(error) = self.start(worker, channels) {
            self.give_up(worker, &error);
        }
    }

    fn give_up(&self, worker: u16, error: &io::Error) {
        let told = if Errno::from_io_error(error) == Some(Errno::MFILE) {
            format!("{error}; the host of scripts has no descriptor left: {TOO_FEW_FILES}")
        } else {
            with_way_out(error).to_string()
        };
        self.control.report(&Report::Log(&format!("cannot start worker {worker}: {told}")));
        self.control.report(&Report::Exited { worker, pid: None, status: NOT_STARTED });
    }

    fn start(&mut self, worker: u16, channels: Vec<OwnedFd>) -> io::Result<()> {
        let pid = std::process::id();
        let seat = Arc::new(Seat::new(self.segment, worker)?);
        let (house, own, ends, segment) =
            (Arc::clone(&self.house), Arc::clone(&seat), self.ends.clone(), self.segment);
        let body = move || {
            let post = Post::start(segment, worker, pid, monotonic_ns());
            let status = post.map_or(NOT_STARTED, |post| worker::work(&house, &post, &own, &channels));
            ends.tell(worker, status);
        };
        // The report comes before anything that the worker does.
        self.control.report(&Report::Spawned { worker, pid });
        std::thread::Builder::new().name(format!("worker {worker}")).stack_size(STACK).spawn(body)?;
        self.seats.insert(worker, seat);
        Ok(())
    }

    fn report_ends(&mut self) {
        let _ = drain_eventfd(&self.ends.bell);
        while let Ok((worker, status)) = self.ended.try_recv() {
            self.seats.remove(&worker);
            self.control.report(&Report::Exited { worker, pid: Some(std::process::id()), status });
        }
    }

    /// The front is gone: nobody is served any more.
    fn end_orphans(mut self) {
        let end = Instant::now() + ORPHAN;
        for (signals, until) in [([Signal::USR2, Signal::TERM], end), ([Signal::KILL; 2], end + ORPHAN)] {
            for seat in self.seats.values() {
                signals.iter().for_each(|&signal| seat.signal(signal));
            }
            while !self.seats.is_empty() && Instant::now() < until {
                let left = until.saturating_duration_since(Instant::now());
                let _ = self.wait_for_end(left);
                self.report_ends();
            }
        }
    }

    fn wait_for_end(&self, time: Duration) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.ends.bell.as_fd(), PollFlags::IN)];
        poll(&mut fds, Timespec::try_from(time).ok().as_ref()) == Ok(1)
    }
}
