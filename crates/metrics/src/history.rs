//! The last minutes: what the counters did, second by second, so that a page has its charts at once.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::histogram::Distribution;
use crate::label::Class;
use crate::recorder::Counters;
use crate::totals::Totals;

/// Points of a chart, one a second.
const POINTS: usize = 300;
const SECOND: u64 = 1_000_000_000;
/// Time between two marks from which the recent minute is measured.
const MARK: u64 = 10 * SECOND;
const MINUTE: u64 = 60 * SECOND;

/// What is sampled once a second beside the counters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gauges {
    /// Most requests that have waited for a worker at once since the last tick: where there are several pools, the sum of these.
    pub queue_depth: u64,
    /// Workers that run a request.
    pub busy: u64,
}

/// Watches the counters of all front threads; owned by whoever has a timer.
#[derive(Debug)]
pub struct Monitor {
    threads: Vec<Arc<Counters>>,
    last: (u64, Totals),
    marks: VecDeque<(u64, Totals)>,
    points: VecDeque<Point>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Point {
    /// Its end.
    at: u64,
    /// The longest times that ended in it.
    peaks: Peaks,
    requests: f64,
    errors: f64,
    bytes_out: f64,
    p50: f64,
    p99: f64,
    queue: u64,
    busy: u64,
    connections: u64,
}

/// The longest of each of the four times, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Peaks {
    duration: u64,
    queue: u64,
    first_byte: u64,
    send: u64,
}

impl Peaks {
    /// Since the last call, over all front threads.
    fn take(threads: &[Arc<Counters>]) -> Self {
        let of = |counters: &Arc<Counters>| Self {
            duration: counters.duration.take_peak(),
            queue: counters.queue.take_peak(),
            first_byte: counters.first_byte.take_peak(),
            send: counters.send.take_peak(),
        };
        threads.iter().map(of).fold(Self::default(), Self::most)
    }

    fn most(self, other: Self) -> Self {
        Self {
            duration: self.duration.max(other.duration),
            queue: self.queue.max(other.queue),
            first_byte: self.first_byte.max(other.first_byte),
            send: self.send.max(other.send),
        }
    }
}

/// Some percentiles of a distribution, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Quantiles {
    /// How many durations there were.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Half are below.
    pub p50: f64,
    /// 90 % are below.
    pub p90: f64,
    /// 99 % are below.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

impl From<&Distribution> for Quantiles {
    fn from(distribution: &Distribution) -> Self {
        Self {
            count: distribution.count(),
            mean: distribution.mean(),
            p50: distribution.quantile(0.5),
            p90: distribution.quantile(0.9),
            p99: distribution.quantile(0.99),
            max: distribution.max(),
        }
    }
}

/// The last minute, or the time since the start while that is shorter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recent {
    /// Seconds that it covers.
    pub seconds: f64,
    /// Requests per second.
    pub requests: f64,
    /// Of those, answered with 5xx.
    pub errors: f64,
    /// Bytes received per second.
    pub bytes_in: f64,
    /// Bytes sent per second.
    pub bytes_out: f64,
    /// From a request's first byte to its response's last.
    pub duration: Quantiles,
    /// Wait for a worker.
    pub queue: Quantiles,
    /// From a request's first byte to its response's first.
    pub first_byte: Quantiles,
    /// From a response's first byte to its last.
    pub send: Quantiles,
    /// Most requests that waited at once.
    pub queue_peak: u64,
}

/// Columns of equal length, one row about every second, the oldest first; at most five minutes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct History {
    /// Requests per second.
    pub requests: Vec<f64>,
    /// Responses with 5xx per second.
    pub errors: Vec<f64>,
    /// Bytes sent per second.
    pub bytes_out: Vec<f64>,
    /// Median of the duration in milliseconds.
    pub p50_ms: Vec<f64>,
    /// 99th percentile of the duration in milliseconds.
    pub p99_ms: Vec<f64>,
    /// Most requests that waited at once.
    pub queue: Vec<u64>,
    /// Workers that ran a request.
    pub busy: Vec<u64>,
    /// Open connections.
    pub connections: Vec<u64>,
}

impl Monitor {
    /// Watches `threads` from now on; `now` is CLOCK_MONOTONIC in nanoseconds.
    #[must_use]
    pub fn new(threads: Vec<Arc<Counters>>, now: u64) -> Self {
        let start = (now, Totals::of(&threads));
        Self { threads, marks: VecDeque::from([start.clone()]), last: start, points: VecDeque::new() }
    }

    /// To be called about once a second. A longer pause only makes the rates of that time a mean.
    pub fn tick(&mut self, now: u64, gauges: Gauges) {
        if now <= self.last.0 {
            return;
        }
        let totals = self.totals();
        let peaks = Peaks::take(&self.threads);
        self.points.push_back(point(&self.last, (now, &totals), peaks, gauges));
        self.points.drain(..self.points.len().saturating_sub(POINTS));
        self.mark(now, &totals);
        self.last = (now, totals);
    }

    /// Keeps what is needed to look back a minute.
    fn mark(&mut self, now: u64, totals: &Totals) {
        if self.marks.back().is_none_or(|(at, _)| now - at >= MARK) {
            self.marks.push_back((now, totals.clone()));
        }
        while self.marks.get(1).is_some_and(|(at, _)| now - at >= MINUTE) {
            self.marks.pop_front();
        }
    }

    /// The counters now.
    #[must_use]
    pub fn totals(&self) -> Totals {
        Totals::of(&self.threads)
    }

    /// The last minute, as of the last tick.
    #[must_use]
    pub fn recent(&self) -> Recent {
        let (now, totals) = &self.last;
        let Some((then, before)) = self.marks.front().filter(|(at, _)| at < now) else {
            return Recent::default();
        };
        let seconds = (now - then) as f64 / SECOND as f64;
        let per_second = |late: u64, early: u64| late.saturating_sub(early) as f64 / seconds;
        let quantiles = |late: &Distribution, early, most| Quantiles::from(&late.since(early, most));
        let points = || self.points.iter().rev().take_while(|point| point.at > *then);
        let peaks = points().fold(Peaks::default(), |peaks, point| peaks.most(point.peaks));
        Recent {
            seconds,
            requests: per_second(totals.all_requests(), before.all_requests()),
            errors: per_second(errors(totals), errors(before)),
            bytes_in: per_second(totals.bytes_in, before.bytes_in),
            bytes_out: per_second(totals.bytes_out, before.bytes_out),
            duration: quantiles(&totals.duration, &before.duration, peaks.duration),
            queue: quantiles(&totals.queue, &before.queue, peaks.queue),
            first_byte: quantiles(&totals.first_byte, &before.first_byte, peaks.first_byte),
            send: quantiles(&totals.send, &before.send, peaks.send),
            queue_peak: points().map(|point| point.queue).max().unwrap_or(0),
        }
    }

    /// The last five minutes, second by second.
    #[must_use]
    pub fn history(&self) -> History {
        let column = |value: fn(&Point) -> f64| self.points.iter().map(value).collect();
        let count = |value: fn(&Point) -> u64| self.points.iter().map(value).collect();
        History {
            requests: column(|point| point.requests),
            errors: column(|point| point.errors),
            bytes_out: column(|point| point.bytes_out),
            p50_ms: column(|point| point.p50),
            p99_ms: column(|point| point.p99),
            queue: count(|point| point.queue),
            busy: count(|point| point.busy),
            connections: count(|point| point.connections),
        }
    }
}

/// The point between two readings, of which the later is later.
fn point(
    (then, before): &(u64, Totals),
    (now, totals): (u64, &Totals),
    peaks: Peaks,
    gauges: Gauges,
) -> Point {
    let seconds = (now - then) as f64 / SECOND as f64;
    let per_second = |late: u64, early: u64| rounded(late.saturating_sub(early) as f64 / seconds, 10.0);
    let duration = totals.duration.since(&before.duration, peaks.duration);
    let millis = |q| rounded(duration.quantile(q) * 1000.0, 1000.0);
    Point {
        at: now,
        peaks,
        requests: per_second(totals.all_requests(), before.all_requests()),
        errors: per_second(errors(totals), errors(before)),
        bytes_out: per_second(totals.bytes_out, before.bytes_out),
        p50: millis(0.5),
        p99: millis(0.99),
        queue: gauges.queue_depth,
        busy: gauges.busy,
        connections: totals.open(),
    }
}

fn errors(totals: &Totals) -> u64 {
    totals.requests[Class::ServerError].sum()
}

/// Few digits make short JSON.
fn rounded(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label::{ConnectionState, Method};
    use crate::recorder::{Finished, Recorder};

    const REQUEST: Finished = Finished {
        method: Method::Get,
        status: 200,
        duration: 2_000_000,
        queue: Some(1000),
        first_byte: Some(1_000_000),
        send: Some(1_000_000),
        bytes_in: 100,
        bytes_out: 1000,
    };

    fn run(recorder: &Recorder, monitor: &mut Monitor, seconds: std::ops::Range<u64>, per_second: u64) {
        for second in seconds {
            (0..per_second).for_each(|_| recorder.request(&REQUEST));
            monitor.tick((second + 1) * SECOND, Gauges { queue_depth: second % 3, busy: 2 });
        }
    }

    #[test]
    fn rates_and_percentiles_are_those_of_the_last_minute() {
        let recorder = Recorder::new();
        recorder.accepted(ConnectionState::Idle);
        let mut monitor = Monitor::new(vec![recorder.counters()], 0);
        run(&recorder, &mut monitor, 0..100, 50);
        run(&recorder, &mut monitor, 100..200, 10);
        let recent = monitor.recent();
        assert!((60.0..70.0).contains(&recent.seconds), "{recent:?}");
        assert!((recent.requests - 10.0).abs() < 1e-9, "{recent:?}");
        assert!((recent.bytes_out - 10_000.0).abs() < 1e-6);
        assert!((recent.duration.p50 - 0.002).abs() < 0.0003, "{recent:?}");
        assert_eq!((recent.queue_peak, recent.errors), (2, 0.0));
        let history = monitor.history();
        assert_eq!((history.requests.len(), history.requests[0], history.requests[199]), (200, 50.0, 10.0));
        assert_eq!((history.busy[7], history.connections[7]), (2, 1));
    }

    #[test]
    fn five_minutes_are_kept() {
        let recorder = Recorder::new();
        let mut monitor = Monitor::new(vec![recorder.counters()], 0);
        run(&recorder, &mut monitor, 0..1000, 1);
        assert_eq!(monitor.history().queue.len(), POINTS);
        assert!(monitor.marks.len() <= 8);
    }

    #[test]
    fn the_longest_of_a_minute_is_exact_and_forgotten_after_it() {
        let (recorder, other) = (Recorder::new(), Recorder::new());
        let mut monitor = Monitor::new(vec![recorder.counters(), other.counters()], 0);
        other.request(&Finished { duration: 5_800_000_001, queue: Some(5_790_000_007), ..REQUEST });
        run(&recorder, &mut monitor, 0..30, 5);
        let recent = monitor.recent();
        assert!((recent.duration.max - 5.800_000_001).abs() < 1e-12, "{recent:?}");
        assert!((recent.queue.max - 5.790_000_007).abs() < 1e-12, "{recent:?}");
        run(&recorder, &mut monitor, 30..100, 5);
        assert!((monitor.recent().duration.max - 0.002).abs() < 1e-12, "{:?}", monitor.recent());
        assert!((monitor.totals().duration.max() - 5.800_000_001).abs() < 1e-12, "ever");
    }

    #[test]
    fn before_the_first_tick_and_without_time_there_is_nothing() {
        let mut monitor = Monitor::new(vec![Recorder::new().counters()], SECOND);
        assert_eq!(monitor.recent(), Recent::default());
        monitor.tick(SECOND, Gauges::default());
        monitor.tick(0, Gauges::default());
        assert_eq!(monitor.history(), History::default());
    }
}
