//! What the front and a host say to each other on the control socket: orders are read here, and reports written. Their bytes
//! are declared in `howdah_wire::zygote`; docs/zygote-protocol.md tells when each is sent.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use howdah_sys::{recv_with_fds_left, send_until_passed};
use howdah_wire::{
    MAX_FRONTS, MAX_WORKERS, OrderRecord, ReportRecord, ZYGOTE_ERRORS, ZYGOTE_PACKET, ZYGOTE_SECRET,
    ZYGOTE_SIGNALS, ZYGOTE_TITLES, ZygoteOrder, ZygoteReport,
};

/// What marks what the host itself writes to standard error.
pub(crate) type Secret = [u8; ZYGOTE_SECRET];

/// What the front orders.
#[derive(Debug)]
pub(crate) enum Order {
    /// Use this segment, know these front threads, and be ready.
    Attach(Attach),
    /// Workers that start from now on use this segment.
    Segment(OwnedFd),
    /// Start this worker, with a channel to each front thread.
    Spawn { worker: u16, channels: Vec<OwnedFd> },
    /// Start no more, and leave when the last worker has.
    Stop,
    /// Do with a worker as the signal of this number would.
    Signal { worker: u16, signal: i32 },
}

/// See [`Order::Attach`].
#[derive(Debug)]
pub(crate) struct Attach {
    pub(crate) segment: OwnedFd,
    pub(crate) eventfds: Vec<OwnedFd>,
    /// Becomes standard error.
    pub(crate) errors: Option<(OwnedFd, Secret)>,
}

/// What has come.
#[derive(Debug)]
pub(crate) enum Received {
    Order(Order),
    /// A spawn of this worker, of whose descriptors some are lost: there are no numbers for them here.
    Short(u16),
    /// Something that is no order, with so many descriptors.
    Nonsense(usize),
    /// The front is gone.
    Gone,
}

/// What the host reports.
#[derive(Debug)]
pub(crate) enum Report<'r> {
    Ready(&'r str),
    Failed(&'r str),
    Spawned {
        worker: u16,
        pid: u32,
    },
    /// By this process, none when it could not be started; status as from waitpid(2).
    Exited {
        worker: u16,
        pid: Option<u32>,
        status: i32,
    },
    Log(&'r str),
}

/// The host's end of the socket.
#[derive(Debug)]
pub(crate) struct Control(OwnedFd);

impl Control {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self(socket)
    }

    /// To wait for what comes.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// The next packet. Waits for it.
    pub(crate) fn receive(&self) -> Received {
        // So that a longer packet shows.
        let mut packet = [0; size_of::<OrderRecord>() + 1];
        match recv_with_fds_left(&self.0, &mut packet) {
            Ok((0, _)) => Received::Gone,
            Ok((length, fds)) => Received::decode(&packet[..length], fds),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Received::Nonsense(0),
            Err(_) => Received::Gone,
        }
    }

    /// Sends a report. A front that is gone is noticed by who receives.
    pub(crate) fn report(&self, report: &Report<'_>) {
        let _ = send_until_passed(&self.0, &report.encode());
    }
}

impl Received {
    fn decode(packet: &[u8], fds: Vec<OwnedFd>) -> Self {
        let count = fds.len();
        match Order::decode(packet, fds) {
            Some(order) => Self::Order(order),
            None => short_spawn(packet, count).map_or(Self::Nonsense(count), Self::Short),
        }
    }
}

/// The worker of a spawn with which fewer descriptors have arrived than were sent.
fn short_spawn(packet: &[u8], count: usize) -> Option<u16> {
    let record = record(packet).filter(|record| count < record.descriptors as usize)?;
    let is_spawn = ZygoteOrder::read(record.kind) == Some(ZygoteOrder::Spawn);
    if is_spawn { cell(record.worker) } else { None }
}

/// The number of a worker's cell, if there can be one.
fn cell(worker: u32) -> Option<u16> {
    u16::try_from(worker).ok().filter(|&worker| usize::from(worker) < MAX_WORKERS)
}

impl Order {
    /// None when the packet, which came with these descriptors, is no order.
    fn decode(packet: &[u8], mut fds: Vec<OwnedFd>) -> Option<Self> {
        let record = record(packet).filter(|record| record.descriptors as usize == fds.len())?;
        let OrderRecord { kind, worker, generation, flags, secret, .. } = record;
        let kind = ZygoteOrder::read(kind)?;
        if kind == ZygoteOrder::Attach {
            return (worker == 0).then(|| Attach::decode(flags, secret, fds))?.map(Self::Attach);
        }
        if generation != 0 || secret != [0; ZYGOTE_SECRET] || (flags != 0 && kind != ZygoteOrder::Signal) {
            return None;
        }
        let cell = cell(worker)?;
        match (kind, fds.len()) {
            (ZygoteOrder::Segment, 1) if cell == 0 => fds.pop().map(Self::Segment),
            (ZygoteOrder::Spawn, 1..=MAX_FRONTS) => Some(Self::Spawn { worker: cell, channels: fds }),
            (ZygoteOrder::Stop, 0) if cell == 0 => Some(Self::Stop),
            (ZygoteOrder::Signal, 0) if (1..=ZYGOTE_SIGNALS).contains(&flags) => {
                Some(Self::Signal { worker: cell, signal: i32::try_from(flags).ok()? })
            }
            _ => None,
        }
    }
}

impl Attach {
    fn decode(flags: u32, secret: Secret, fds: Vec<OwnedFd>) -> Option<Self> {
        let says = flags & ZYGOTE_ERRORS != 0;
        if flags & !(ZYGOTE_TITLES | ZYGOTE_ERRORS) != 0 || (says && !secret.iter().all(u8::is_ascii_graphic))
        {
            return None;
        }
        let mut fds = fds.into_iter();
        let segment = fds.next()?;
        let mut eventfds: Vec<OwnedFd> = fds.collect();
        let pipe = if says { Some(eventfds.pop()?) } else { None };
        let errors = pipe.map(|pipe| (pipe, secret));
        (1..=MAX_FRONTS).contains(&eventfds.len()).then_some(Self { segment, eventfds, errors })
    }
}

fn record(packet: &[u8]) -> Option<OrderRecord> {
    let (words, secret) = packet.split_at_checked(5 * size_of::<u32>())?;
    let mut words = words.as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word));
    let mut next = || words.next();
    Some(OrderRecord {
        kind: next()?,
        descriptors: next()?,
        worker: next()?,
        generation: next()?,
        flags: next()?,
        secret: secret.try_into().ok()?,
    })
}

impl Report<'_> {
    fn encode(&self) -> Vec<u8> {
        let (kind, worker, pid, status, text) = match *self {
            Self::Ready(text) => (ZygoteReport::Ready, 0, 0, 0, text),
            Self::Failed(text) => (ZygoteReport::Failed, 0, 0, 0, text),
            Self::Log(text) => (ZygoteReport::Log, 0, 0, 0, text),
            Self::Spawned { worker, pid } => (ZygoteReport::Spawned, worker, pid, 0, ""),
            Self::Exited { worker, pid, status } => {
                (ZygoteReport::Exited, worker, pid.unwrap_or(0), status, "")
            }
        };
        let words = [kind as u32, worker.into(), pid, status.cast_unsigned()].map(u32::to_ne_bytes);
        let text = &text.as_bytes()[..text.len().min(ZYGOTE_PACKET - size_of::<ReportRecord>())];
        [words.as_flattened(), text].concat()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// The project's test vectors; each character of a string in there is a byte. Packets are in the byte order of nearly
    /// all machines; elsewhere there is nothing to compare.
    fn cases(list: &str) -> Vec<Value> {
        if cfg!(target_endian = "big") {
            return Vec::new();
        }
        let all: Value = serde_json::from_str(include_str!("../../../t/vectors/zygote.json")).unwrap();
        all[list].as_array().unwrap().clone()
    }

    fn packet(case: &Value) -> Vec<u8> {
        let digits: String = case["packet"].as_str().unwrap().split(' ').collect();
        let pair = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        (0..digits.len()).step_by(2).map(pair).collect()
    }

    fn decode(case: &Value) -> Option<Order> {
        let fds = (0..case["descriptors"].as_u64().unwrap()).map(|_| howdah_sys::eventfd().unwrap());
        Order::decode(&packet(case), fds.collect())
    }

    fn number<N: TryFrom<i64, Error: std::fmt::Debug>>(value: &Value) -> N {
        value.as_i64().unwrap_or_default().try_into().unwrap()
    }

    #[test]
    fn orders_are_read_as_the_vectors_have_them() {
        for case in cases("orders") {
            let means = &case["means"];
            let read = decode(&case).unwrap_or_else(|| panic!("{case}"));
            let (kind, worker) = match read {
                Order::Attach(Attach { errors, eventfds, .. }) => {
                    let secret = errors.map(|(_, secret)| String::from_utf8(secret.to_vec()).unwrap());
                    let others = 1 + usize::from(secret.is_some());
                    assert_eq!(secret.as_deref(), means["secret"].as_str());
                    assert_eq!(eventfds.len() + others, number::<usize>(&case["descriptors"]));
                    ("attach", 0)
                }
                Order::Segment(_) => ("segment", 0),
                Order::Spawn { worker, .. } => ("spawn", worker),
                Order::Stop => ("stop", 0),
                Order::Signal { worker, signal } => {
                    assert_eq!(signal, number::<i32>(&means["signal"]));
                    ("signal", worker)
                }
            };
            assert_eq!((Some(kind), worker), (means["kind"].as_str(), number(&means["worker"])));
        }
        for case in cases("no orders") {
            assert!(decode(&case).is_none(), "{case}");
        }
    }

    #[test]
    fn a_spawn_whose_descriptors_are_lost_names_its_worker() {
        for case in cases("orders").into_iter().filter(|case| case["means"]["kind"] == "spawn") {
            let worker = number::<u16>(&case["means"]["worker"]);
            let read = Received::decode(&packet(&case), Vec::new());
            assert!(matches!(read, Received::Short(short) if short == worker), "{read:?}");
        }
        for case in cases("orders").into_iter().filter(|case| case["means"]["kind"] == "segment") {
            assert!(matches!(Received::decode(&packet(&case), Vec::new()), Received::Nonsense(0)), "{case}");
        }
    }

    #[test]
    fn reports_are_written_as_the_vectors_have_them() {
        // A host loads no templates.
        for case in cases("reports")
            .into_iter()
            .filter(|case| case["means"]["kind"] != "ready" || case["means"]["status"].is_null())
        {
            let means = &case["means"];
            let text: String = means["text"].as_str().unwrap_or_default().into();
            // Characters are bytes there, and these are UTF-8.
            let text = String::from_utf8(text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect())
                .unwrap();
            let (worker, pid) = (number(&means["worker"]), number::<u32>(&means["pid"]));
            let report = match means["kind"].as_str().unwrap() {
                "ready" => Report::Ready(&text),
                "failed" => Report::Failed(&text),
                "log" => Report::Log(&text),
                "spawned" => Report::Spawned { worker, pid },
                _ => Report::Exited {
                    worker,
                    pid: Some(pid).filter(|&pid| pid > 0),
                    status: number(&means["status"]),
                },
            };
            assert_eq!(report.encode(), packet(&case), "{case}");
        }
        assert_eq!(Report::Log(&"x".repeat(70_000)).encode().len(), ZYGOTE_PACKET);
    }
}
