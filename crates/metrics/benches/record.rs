//! What counting a request costs, and what a page costs: `cargo bench -p howdah-metrics`.
//!
//! Prints the median and the spread of 41 rounds.

#![expect(clippy::print_stdout, reason = "the report of a benchmark")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::black_box;
use std::time::Instant;

use common::Dice;
use howdah_metrics::{
    ConnectionState, Finished, Gauges, Method, Monitor, Recorder, metrics_page, status_page,
};

fn main() {
    let recorder = Recorder::new();
    let mut dice = Dice::new();
    let durations: Vec<u64> = (0..4096).map(|_| 30_000 + dice.below(40_000_000)).collect();
    let mut next = 0;
    measure("a request, all its times", 20_000, || {
        next = (next + 1) % durations.len();
        recorder.request(black_box(&finished(durations[next])));
    });
    measure("a connection from state to state", 20_000, || {
        recorder.moved(black_box(ConnectionState::Idle), black_box(Some(ConnectionState::Reading)));
    });
    measure("Method::of", 20_000, || {
        black_box(Method::of(black_box(b"GET")));
    });
    pages(&recorder);
}

fn finished(duration: u64) -> Finished {
    Finished {
        method: Method::Get,
        status: 200,
        duration,
        queue: Some(duration / 100),
        first_byte: Some(duration / 2),
        send: Some(duration / 2),
        bytes_in: 400,
        bytes_out: 1400,
    }
}

fn pages(recorder: &Recorder) {
    let mut monitor = Monitor::new(vec![recorder.counters(), recorder.counters()], 0);
    let mut now = 0;
    measure("a tick of the monitor, 2 threads", 1000, || {
        now += 1_000_000_000;
        monitor.tick(now, Gauges::default());
    });
    let snapshot = common::busy();
    for query in ["", "json", "auto"] {
        let name = format!("status page ?{query}");
        measure(&name, 100, || {
            black_box(status_page(query.as_bytes(), &snapshot));
        });
    }
    measure("metrics page", 100, || {
        black_box(metrics_page(b"", &snapshot));
    });
}

fn measure(name: &str, calls: u32, mut run: impl FnMut()) {
    let mut rounds: Vec<f64> = (0..41).map(|_| round(calls, &mut run)).collect();
    rounds.sort_by(f64::total_cmp);
    println!("{name:38} {:10.1} ns  ({:.1} to {:.1})", rounds[20], rounds[0], rounds[40]);
}

fn round(calls: u32, run: &mut impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..calls {
        run();
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(calls)
}
