//! The workers as `collect` shows them: what the supervisor knows of each, and the request that it runs.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{SystemTime, UNIX_EPOCH};

use howdah_metrics::{RequestSeen, Worker, WorkerState, printable};
use howdah_supervisor::WorkerInfo;
use howdah_wire::{RequestReader, Segment, WorkerPhase};

/// Bytes of a target or host that are shown.
const SHOWN: usize = 2048;

/// One worker. `now` is CLOCK_MONOTONIC in nanoseconds.
pub(super) fn worker(segment: Segment, info: &WorkerInfo, memory: Option<u64>, now: u64) -> Worker {
    Worker {
        index: u32::from(info.index),
        pid: info.process.or(info.pid).map_or(0, |pid| pid.as_raw_pid().unsigned_abs()),
        generation: info.generation,
        state: state(info),
        state_seconds: seconds(now, info.since),
        age_seconds: info.started.elapsed().as_secs_f64(),
        requests: info.requests,
        quota: info.quota,
        memory: memory.or(info.memory),
        request: request_of(segment, info, now),
    }
}

fn state(info: &WorkerInfo) -> WorkerState {
    match info.phase {
        WorkerPhase::Absent | WorkerPhase::Starting => WorkerState::Starting,
        WorkerPhase::Leaving => WorkerState::Leaving,
        _ if info.draining => WorkerState::Draining,
        WorkerPhase::Idle => WorkerState::Idle,
        WorkerPhase::Busy => WorkerState::Busy,
    }
}

/// What it runs, unless that ended just now.
fn request_of(segment: Segment, info: &WorkerInfo, now: u64) -> Option<RequestSeen> {
    let slot = info.slot?;
    let queued = segment.controls().get(slot as usize)?.queued_at.load(Relaxed);
    let copy = segment.peek_request(slot, info.index)?;
    let reader = RequestReader::new(&copy);
    Some(RequestSeen {
        slot,
        client: printable(reader.remote_addr()),
        host: shown(reader.field(b"HTTP_HOST").unwrap_or_default()),
        method: shown(reader.method()),
        target: shown(reader.uri()),
        protocol: shown(reader.protocol()),
        seconds: seconds(now, queued),
    })
}

fn shown(bytes: &[u8]) -> String {
    match bytes.get(..SHOWN) {
        Some(start) if bytes.len() > SHOWN => format!("{}…", printable(start)),
        _ => printable(bytes),
    }
}

fn seconds(now: u64, then: u64) -> f64 {
    now.saturating_sub(then) as f64 / 1e9
}

pub(super) fn since_1970(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_targets_are_cut() {
        assert_eq!(shown(b"/short"), "/short");
        assert_eq!(shown(&[b'x'; SHOWN]).len(), SHOWN);
        let cut = shown(&[b'x'; SHOWN * 4]);
        assert!(cut.ends_with("x…") && cut.chars().count() == SHOWN + 1);
    }
}
