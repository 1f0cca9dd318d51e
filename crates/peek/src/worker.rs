//! One worker, looked at: what it does at this moment, in the application's own words.

use std::io;
use std::sync::Arc;

use howdah_sys::monotonic_ns;
use howdah_wire::{RequestReader, SlotControl};
use serde::Serialize;

use crate::calls;
use crate::kernel::{State, Watch};
use crate::names::{Frame, Names, Operation};
use crate::process::{Process, word32, word64};
use crate::stack::{Aim, Camera, Picture};

/// Bytes of a request that are looked at: method and target stand in front.
const REQUEST: u64 = 8 * 1024;
/// Pictures before one will do in which a sub has no name.
const PICTURES: usize = 3;
/// The sub within which requests are served; around it is whoever has loaded the application.
const LOOP: &str = "Howdah::Worker::run";
/// Howdah's own subs, with which a stack begins before and after that.
const OWN: [&str; 3] = ["Howdah::Worker::", "Howdah::Zygote::", "Plack::Handler::Howdah::"];

/// The request that a worker serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Request {
    /// REQUEST_METHOD.
    pub method: String,
    /// REQUEST_URI.
    pub target: String,
    /// PATH_INFO.
    pub path: String,
}

/// What a worker does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It has no request, and waits for one.
    Idle,
    /// It runs; the operation says what.
    Runs(Operation),
    /// It waits in a system call, with these arguments.
    Waits(String, [u64; 6]),
    /// It waits for memory, or for what the kernel does not tell.
    Stands,
}

/// A worker at one moment.
#[derive(Clone, Debug)]
pub struct Glimpse {
    /// What it does.
    pub doing: Doing,
    /// What for.
    pub request: Option<Arc<Request>>,
    /// For how many nanoseconds.
    pub since: u64,
    /// The application's stack, the innermost frame first.
    pub frames: Vec<Frame>,
    /// There are more around them.
    pub cut: bool,
    /// The stack did not change while it was read.
    pub exact: bool,
}

/// A worker that is looked at.
#[derive(Debug)]
pub struct Worker {
    camera: Camera,
    names: Names,
    watch: Watch,
    /// The last request, by its number.
    request: Option<(u64, Arc<Request>)>,
}

impl Worker {
    /// The worker with this process id.
    ///
    /// # Errors
    /// As [`Process::open`].
    pub fn open(pid: u32) -> io::Result<Self> {
        let watch = Watch::open(pid)?;
        let process = Process::open(pid)?;
        watch.look()?;
        let names = Names::new(process.clone());
        Ok(Self { camera: Camera::new(process), names, watch, request: None })
    }

    /// Looks once; none when it changed too quickly to see anything.
    ///
    /// # Errors
    /// The kernel's: it is gone, or not ours to look at.
    pub(crate) fn look(&mut self, aim: Aim) -> io::Result<Option<Glimpse>> {
        let state = self.watch.look()?;
        let Some((picture, mut frames)) = self.picture(aim)? else { return Ok(None) };
        if let Some(at) = frames.iter().rposition(|frame| *frame.sub == *LOOP) {
            frames.truncate(at);
        }
        while frames.last().is_some_and(|frame| OWN.iter().any(|own| frame.sub.starts_with(own))) {
            frames.pop();
        }
        let layout = &self.camera.process().layout;
        let busy = word32(&picture.exchange, layout.exchange_progress) != 0;
        let (request, since) = if busy { self.request(&picture) } else { (None, 0) };
        let doing = self.doing(state, &picture, busy || !frames.is_empty());
        Ok(Some(Glimpse { doing, request, since, frames, cut: picture.cut, exact: picture.exact }))
    }

    /// A picture and its frames. A closure may be gone before its name is read; then the next picture has another.
    fn picture(&mut self, aim: Aim) -> io::Result<Option<(Picture, Vec<Frame>)>> {
        let mut best = None;
        for _ in 0..PICTURES {
            let Some(picture) = self.camera.take(aim)? else { continue };
            let Some(frames) = self.names.frames(&picture) else { continue };
            let known = frames.iter().all(Frame::is_known);
            best = Some((picture, frames));
            if known {
                break;
            }
        }
        Ok(best)
    }

    /// A signal or a debugger has stopped it.
    pub fn is_stopped(&self) -> bool {
        self.watch.is_stopped()
    }

    /// What a descriptor of the worker's is.
    pub fn descriptor(&self, number: u64) -> Option<String> {
        self.watch.descriptor(number)
    }

    /// The descriptor that a call waits for: its argument, or the first of those that poll and select name.
    pub fn awaited(&self, call: &str, arguments: [u64; 6]) -> Option<u64> {
        if let Some(at) = calls::descriptor(call) {
            return arguments.get(at).copied();
        }
        let process = self.camera.process();
        match call {
            "poll" | "ppoll" if arguments[1] > 0 => process.number(arguments[0]).map(u64::from),
            "select" | "pselect6" => arguments[1..3].iter().find_map(|&set| {
                let words = process.bytes(set, (arguments[0].min(1024) as usize).div_ceil(64) * 8)?;
                let mut words = words.chunks_exact(8).map(|word| word64(word, 0)).zip(0..);
                words.find_map(|(word, at)| (word != 0).then(|| at * 64 + u64::from(word.trailing_zeros())))
            }),
            _ => None,
        }
    }

    fn doing(&mut self, state: State, picture: &Picture, busy: bool) -> Doing {
        match state {
            _ if !busy => Doing::Idle,
            State::Runs => Doing::Runs(self.names.operation(picture)),
            State::Waits { call, arguments } => Doing::Waits(call, arguments),
            State::Stands => Doing::Stands,
        }
    }

    /// The request, and for how long it has been served.
    fn request(&mut self, picture: &Picture) -> (Option<Arc<Request>>, u64) {
        let layout = self.camera.process().layout.clone();
        let serial = word64(&picture.exchange, layout.exchange_serial);
        if self.request.as_ref().is_none_or(|(known, _)| *known != serial) {
            let read = self.read_request(picture);
            self.request = read.map(|request| (serial, Arc::new(request)));
        }
        let control = word64(&picture.exchange, layout.exchange_control);
        let at = control.wrapping_add(std::mem::offset_of!(SlotControl, claimed_at) as u64);
        let began = self.camera.process().bytes(at, 8).map_or(u64::MAX, |bytes| word64(&bytes, 0));
        let request = self.request.as_ref().map(|(_, request)| request.clone());
        (request, monotonic_ns().saturating_sub(began))
    }

    fn read_request(&self, picture: &Picture) -> Option<Request> {
        let layout = &self.camera.process().layout;
        let used = word64(&picture.exchange, layout.exchange_used).min(REQUEST);
        let at = word64(&picture.exchange, layout.exchange_request);
        let copy = self.camera.process().bytes(at, used as usize)?;
        let reader = RequestReader::new(&copy);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Some(Request { method: text(reader.method()), target: text(reader.uri()), path: text(reader.path()) })
    }
}
