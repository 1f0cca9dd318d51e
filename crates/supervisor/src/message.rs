//! What front and zygote say on the control socket: orders are written here, and reports read. One is a packet; its bytes
//! are declared in `howdah_wire::zygote`, and docs/zygote-protocol.md tells when each is sent and what follows.
//!
//! A zygote is Perl with an application inside, so a report is input: what is no report is refused as a whole.

use howdah_sys::{ExitKind, Pid, Signal};
use howdah_wire::{
    MAX_WORKERS, OrderRecord, ReportRecord, ZYGOTE_ERRORS, ZYGOTE_SECRET, ZYGOTE_TITLES, ZygoteOrder,
    ZygoteReport,
};

/// What marks the lines that Perl itself writes to standard error.
pub type Secret = [u8; ZYGOTE_SECRET];

/// What the front orders.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Use what is shared, and load the application. Descriptors: segment, eventfd of each front thread, and with a
    /// secret the pipe that becomes standard error.
    Attach { generation: u32, titles: bool, secret: Option<Secret> },
    /// Workers forked from now on use the segment beside this.
    Segment,
    /// Fork this worker; beside it a channel to each front thread.
    Spawn { worker: u16 },
    /// Fork no more, exit when the last worker has left.
    Stop,
    /// Do with a worker that is a thread as this signal would.
    Signal { worker: u16, signal: Signal },
}

impl Order {
    /// The packet, which goes with so many descriptors.
    pub(crate) fn encode(&self, descriptors: usize) -> [u8; size_of::<OrderRecord>()] {
        let (kind, worker, generation, flags, secret) = match *self {
            Self::Attach { generation, titles, secret } => {
                let flags = flag(titles, ZYGOTE_TITLES) | flag(secret.is_some(), ZYGOTE_ERRORS);
                (ZygoteOrder::Attach, 0, generation, flags, secret)
            }
            Self::Segment => (ZygoteOrder::Segment, 0, 0, 0, None),
            Self::Spawn { worker } => (ZygoteOrder::Spawn, worker, 0, 0, None),
            Self::Stop => (ZygoteOrder::Stop, 0, 0, 0, None),
            Self::Signal { worker, signal } => {
                (ZygoteOrder::Signal, worker, 0, signal.as_raw().unsigned_abs(), None)
            }
        };
        let words = [kind as u32, descriptors as u32, worker.into(), generation, flags];
        let mut packet = [0; size_of::<OrderRecord>()];
        let (start, end) = packet.split_at_mut(size_of_val(&words));
        start.copy_from_slice(words.map(u32::to_ne_bytes).as_flattened());
        end.copy_from_slice(&secret.unwrap_or_default());
        packet
    }
}

fn flag(set: bool, bit: u32) -> u32 {
    if set { bit } else { 0 }
}

/// What a zygote says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The application is loaded, with so many templates compiled, by this version of perl if it says so.
    Ready { perl: String, templates: u32 },
    /// It does not load; the zygote exits.
    Failed(String),
    /// A worker was forked.
    Spawned { worker: u16, pid: Pid },
    /// A worker has ended. Without a pid the fork itself failed.
    Exited { worker: u16, pid: Option<Pid>, status: ExitKind },
    /// Something for the log.
    Log(String),
}

impl Report {
    /// None when the packet is none of these.
    pub(crate) fn decode(packet: &[u8]) -> Option<Self> {
        let (record, text) = record(packet)?;
        let ReportRecord { kind, worker, pid, status } = record;
        let speaks = (worker, pid, status) == (0, 0, 0);
        match ZygoteReport::read(kind)? {
            ZygoteReport::Ready if (worker, pid) == (0, 0) => {
                Some(Self::Ready { perl: line(text), templates: u32::try_from(status).ok()? })
            }
            ZygoteReport::Failed if speaks => Some(Self::Failed(line(text))),
            ZygoteReport::Log if speaks => Some(Self::Log(line(text))),
            ZygoteReport::Spawned if text.is_empty() && status == 0 && pid > 0 => {
                Some(Self::Spawned { worker: cell(worker)?, pid: Pid::from_raw(pid)? })
            }
            ZygoteReport::Exited if text.is_empty() && pid >= 0 => {
                let (pid, status) = (Pid::from_raw(pid), ExitKind::from_raw(status));
                Some(Self::Exited { worker: cell(worker)?, pid, status })
            }
            _ => None,
        }
    }
}

/// The record at the start of a packet, and the text behind it.
fn record(packet: &[u8]) -> Option<(ReportRecord, &[u8])> {
    let (kind, rest) = packet.split_first_chunk()?;
    let (worker, rest) = rest.split_first_chunk()?;
    let (pid, rest) = rest.split_first_chunk()?;
    let (status, text) = rest.split_first_chunk()?;
    let record = ReportRecord {
        kind: u32::from_ne_bytes(*kind),
        worker: u32::from_ne_bytes(*worker),
        pid: i32::from_ne_bytes(*pid),
        status: i32::from_ne_bytes(*status),
    };
    Some((record, text))
}

/// The number of a worker's cell, if there can be one.
fn cell(worker: u32) -> Option<u16> {
    u16::try_from(worker).ok().filter(|&worker| usize::from(worker) < MAX_WORKERS)
}

/// Perl's messages end in a line's end. What is not UTF-8 shows where it was not.
fn line(text: &[u8]) -> String {
    String::from_utf8_lossy(text).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::vectors;

    fn order(means: &Value) -> Order {
        match means["kind"].as_str().unwrap() {
            "attach" => Order::Attach {
                generation: vectors::number(&means["generation"]),
                titles: means["titles"].as_bool().unwrap(),
                secret: means["secret"].as_str().map(|secret| secret.as_bytes().try_into().unwrap()),
            },
            "segment" => Order::Segment,
            "spawn" => Order::Spawn { worker: vectors::number(&means["worker"]) },
            "stop" => Order::Stop,
            "signal" => {
                let signal = Signal::from_named_raw(vectors::number(&means["signal"])).unwrap();
                Order::Signal { worker: vectors::number(&means["worker"]), signal }
            }
            other => panic!("{other}"),
        }
    }

    fn report(means: &Value) -> Report {
        let text = || String::from_utf8(vectors::bytes(&means["text"])).unwrap().trim_end().to_owned();
        let worker = || vectors::number(&means["worker"]);
        let pid = Pid::from_raw(means["pid"].as_i64().map_or(0, |pid| pid.try_into().unwrap()));
        match means["kind"].as_str().unwrap() {
            "ready" => {
                let templates = means.get("status").map_or(0, vectors::number);
                Report::Ready { perl: text(), templates }
            }
            "failed" => Report::Failed(text()),
            "log" => Report::Log(text()),
            "spawned" => Report::Spawned { worker: worker(), pid: pid.unwrap() },
            "exited" => {
                let status = ExitKind::from_raw(vectors::number(&means["status"]));
                Report::Exited { worker: worker(), pid, status }
            }
            other => panic!("{other}"),
        }
    }

    #[test]
    fn orders_are_written_as_the_vectors_have_them() {
        for case in vectors::cases("orders") {
            let packet = order(&case["means"]).encode(vectors::number(&case["descriptors"]));
            assert_eq!(vectors::hex(&packet), case["packet"].as_str().unwrap(), "{case}");
        }
    }

    #[test]
    fn reports_are_read_as_the_vectors_have_them() {
        for case in vectors::cases("reports") {
            let read = Report::decode(&vectors::packet(&case["packet"]));
            assert_eq!(read, Some(report(&case["means"])), "{case}");
        }
    }

    #[test]
    fn what_is_no_report_is_refused() {
        for case in vectors::cases("no reports") {
            assert_eq!(Report::decode(&vectors::packet(&case["packet"])), None, "{case}");
        }
    }

    #[test]
    fn a_message_that_is_not_utf_8_is_shown_as_far_as_it_is() {
        let mut packet = [ZygoteReport::Log as u32, 0, 0, 0].map(u32::to_ne_bytes).as_flattened().to_vec();
        packet.extend_from_slice(b"caf\xe9\n");
        assert_eq!(Report::decode(&packet), Some(Report::Log("caf\u{fffd}".into())));
    }
}
