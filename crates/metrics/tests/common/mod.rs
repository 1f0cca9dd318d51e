//! Snapshots to render: one of a busy server, one of hostile clients.

#![allow(dead_code, reason = "each test binary uses its part")]

use howdah_metrics::{
    Class, ConnectionState, Connections, Cpu, Distribution, ErrorLog, ExitCause, Failure, Front, Growth,
    History, Label, Lifecycle, Lines, Method, Per, Pool, Quantiles, Queue, Recent, RequestSeen, Requests,
    Server, Snapshot, Spool, State, Times, Totals, Upgrades, Worker, WorkerState, Workers,
};

/// Numbers that look random and are always the same.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new() -> Self {
        Self(88_172_645_463_325_252)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Seconds since 1970.
const NOW: f64 = 1_792_783_205.25;

/// A server with 12 workers and some traffic.
pub(crate) fn busy() -> Snapshot {
    let totals = totals();
    Snapshot {
        server: Server {
            version: "Howdah/0.1.0".into(),
            built: "2026-11-21T10:00:00".into(),
            perl: "v5.36.0".into(),
            name: "bookshop".into(),
            instance: "bookshop".into(),
            host: "web1.example.org".into(),
            pid: 4100,
            listeners: vec!["http://192.0.2.1:80".into(), "unix:/run/bookshop".into()],
        },
        times: Times { now: NOW, started: NOW - 273_785.0, loaded: NOW - 5400.0 },
        load: [1.32, 0.98, 0.77],
        cpu_seconds: Cpu {
            front_user: 812.4,
            front_system: 640.2,
            workers_user: 9100.7,
            workers_system: 402.1,
        },
        requests: Requests::from(&totals),
        recent: recent(&totals),
        spool: Spool { bytes: 12_345_678, limit: 1 << 30 },
        connections: Connections::from(&totals),
        tls: None,
        pools: vec![shop()],
        history: history(),
        fronts: vec![
            Front { index: 0, requests: 48_100_200, accepted: 902_311, cpu_seconds: Some(731.2) },
            Front { index: 1, requests: 47_988_001, accepted: 901_777, cpu_seconds: Some(721.4) },
        ],
        access_log: Some(Lines { written: 96_088_201, dropped: 0, trouble: None }),
        slow_log: None,
        error_log: ErrorLog::default(),
    }
}

fn shop() -> Pool {
    Pool {
        name: "/".into(),
        application: "shop.psgi".into(),
        state: State::Ready,
        trouble: None,
        generation: 7,
        reforks: 0,
        loaded: NOW - 5400.0,
        reloading: false,
        templates: 200,
        zygote: Some(4110),
        queue: Queue {
            depth: 3,
            limit: 1024,
            peak: 188,
            oldest_seconds: 0.25,
            saturated: false,
            saturated_seconds: 42.0,
        },
        upgrades: Upgrades { open: 5, limit: 11, total: 808, refused: 2 },
        workers: Workers { target: 12, capacity: 24, list: (0..12).map(worker).collect() },
        lifecycle: lifecycle(),
        growth: vec![Growth { route: "/cart/*".into(), requests: 5120, values: 3.5, bytes: Some(412.0) }],
    }
}

/// A server with the same pool at its root, and one that is in trouble.
pub(crate) fn several() -> Snapshot {
    let mut snapshot = busy();
    snapshot.pools.push(wiki());
    snapshot
}

fn wiki() -> Pool {
    let states = [WorkerState::Draining, WorkerState::Leaving, WorkerState::Idle];
    let of = |(index, state)| Worker { index, state, pid: 4200 + index, generation: 2, ..Worker::default() };
    Pool {
        name: "/wiki".into(),
        application: "wiki.psgi".into(),
        state: State::Failing,
        trouble: Some("the zygote is dead".into()),
        generation: 2,
        reforks: 1,
        loaded: NOW - 60.0,
        reloading: true,
        templates: 3,
        zygote: None,
        queue: Queue {
            depth: 4,
            limit: 100,
            peak: 9,
            oldest_seconds: 2.5,
            saturated: true,
            saturated_seconds: 7.0,
        },
        upgrades: Upgrades { open: 1, limit: 1, total: 4, refused: 0 },
        workers: Workers { target: 2, capacity: 4, list: (0..).zip(states).map(of).collect() },
        lifecycle: Lifecycle { spawns: 5, reloads: 1, ..Lifecycle::default() },
        growth: Vec::new(),
    }
}

fn worker(index: u32) -> Worker {
    let states =
        [WorkerState::Busy, WorkerState::Idle, WorkerState::Busy, WorkerState::Busy, WorkerState::Idle];
    let state = match index {
        7 => WorkerState::Leaving,
        9 => WorkerState::Starting,
        10 => WorkerState::Draining,
        _ => states[index as usize % states.len()],
    };
    let serves = !matches!(state, WorkerState::Idle | WorkerState::Starting);
    Worker {
        index,
        pid: if state == WorkerState::Starting { 0 } else { 4120 + index * 3 },
        generation: if index == 7 { 6 } else { 7 },
        state,
        state_seconds: 0.8 + f64::from(index),
        age_seconds: 5400.0 - f64::from(index) * 311.0,
        requests: 5000 - u64::from(index) * 391,
        quota: 10_000,
        memory: (state != WorkerState::Starting).then_some(38_000_000 + u64::from(index) * 2_345_678),
        request: serves.then(|| request(index)),
    }
}

fn request(index: u32) -> RequestSeen {
    let targets = [
        "/books/search?q=camels%20and%20how%20to%20ride%20them&page=2&sort=price",
        "/",
        "/checkout",
        "/reports/annual/2026.pdf?variant=print&very-long=parameter-that-does-not-fit-into-any-reasonable-column-width",
    ];
    RequestSeen {
        slot: 100 + index,
        client: if index == 2 { "2001:db8::7:1".into() } else { format!("192.0.2.{index}") },
        host: "shop.example.org".into(),
        method: if index == 2 { "POST" } else { "GET" }.into(),
        target: targets[index as usize % targets.len()].into(),
        protocol: "HTTP/1.1".into(),
        seconds: [0.0132, 0.4, 2.7, 14.2][index as usize % 4],
    }
}

fn totals() -> Totals {
    let mut totals = Totals {
        bytes_in: 41_234_567_890,
        bytes_out: 912_345_678_901,
        accepted: 1_804_088,
        connection_limit: 18_876,
        dismissed: 77,
        http2: 9,
        http2_streams: 99,
        ..Totals::default()
    };
    for (class, method, count) in [
        (Class::Success, Method::Get, 88_123_456),
        (Class::Success, Method::Post, 3_210_987),
        (Class::Success, Method::Head, 22_001),
        (Class::Redirection, Method::Get, 4_000_321),
        (Class::ClientError, Method::Get, 702_111),
        (Class::ClientError, Method::Other, 812),
        (Class::ServerError, Method::Get, 28_404),
        (Class::ServerError, Method::Post, 109),
    ] {
        totals.requests[class][method] = count;
    }
    let mut dice = Dice::new();
    for _ in 0..10_000 {
        totals.duration.record(2_000_000 + dice.below(30_000_000) + tail(&mut dice));
        totals.queue.record(5000 + dice.below(300_000));
        totals.first_byte.record(1_500_000 + dice.below(25_000_000));
        totals.send.record(20_000 + dice.below(4_000_000));
    }
    for (state, count) in ConnectionState::ALL.iter().zip([211, 4, 3, 8, 12, 2, 1]) {
        totals.connections[*state] = count;
    }
    totals.failures[Failure::ClientGone] = 3120;
    totals.failures[Failure::QueueFull] = 28;
    totals.failures[Failure::WorkerLost] = 4;
    totals
}

fn tail(dice: &mut Dice) -> u64 {
    if dice.below(60) == 0 { dice.below(900_000_000) } else { 0 }
}

fn recent(all: &Totals) -> Recent {
    Recent {
        seconds: 62.0,
        requests: 1234.6,
        errors: 0.4,
        bytes_in: 612_000.0,
        bytes_out: 14_234_000.0,
        duration: Quantiles::from(&all.duration),
        queue: Quantiles::from(&all.queue),
        first_byte: Quantiles::from(&all.first_byte),
        send: Quantiles::from(&all.send),
        queue_peak: 19,
    }
}

fn history() -> History {
    let mut dice = Dice::new();
    let mut history = History::default();
    for second in 0..300_u32 {
        let wave = (f64::from(second) / 40.0).sin();
        let noise = |dice: &mut Dice, width: u64| dice.below(width) as f64;
        history.requests.push((1200.0 + 300.0 * wave + noise(&mut dice, 160)).round());
        history.errors.push(if (180..190).contains(&second) { 40.0 } else { 0.0 });
        history.bytes_out.push(14e6 + 3e6 * wave + noise(&mut dice, 900_000));
        history.p50_ms.push(14.0 + 2.0 * wave + noise(&mut dice, 3));
        history
            .p99_ms
            .push(31.0 + 4.0 * wave + noise(&mut dice, 9) + if second % 97 == 0 { 40.0 } else { 0.0 });
        history.queue.push(dice.below(5) + if (120..135).contains(&second) { 14 } else { 0 });
        history.busy.push(5 + dice.below(5));
        history.connections.push(230 + dice.below(20));
    }
    history
}

fn lifecycle() -> Lifecycle {
    let mut exits: Per<ExitCause> = Per::default();
    exits[ExitCause::MaxRequests] = 9_588;
    exits[ExitCause::Reload] = 84;
    exits[ExitCause::Crash] = 4;
    Lifecycle {
        spawns: 9_688,
        exits,
        reloads: 6,
        failed_reloads: 1,
        reforks: 3,
        failed_reforks: 1,
        replacements: 2,
    }
}

/// Strings of clients and of a careless configuration, all of them hostile.
pub(crate) fn hostile(text: &str) -> Snapshot {
    let mut snapshot = busy();
    snapshot.server = Server {
        version: text.into(),
        built: text.into(),
        perl: text.into(),
        name: text.into(),
        instance: text.into(),
        host: text.into(),
        pid: 1,
        listeners: vec![text.into()],
    };
    let pool = &mut snapshot.pools[0];
    (pool.application, pool.trouble) = (text.into(), Some(text.into()));
    for worker in &mut pool.workers.list {
        let text = || text.to_owned();
        worker.request = Some(RequestSeen {
            slot: 1,
            client: text(),
            host: text(),
            method: text(),
            target: text(),
            protocol: text(),
            seconds: 1.0,
        });
    }
    snapshot
}

/// A server that has just started.
pub(crate) fn fresh() -> Snapshot {
    Snapshot {
        server: Server { version: "Howdah/0.1.0".into(), host: "localhost".into(), ..Server::default() },
        times: Times { now: 100.0, started: 100.0, loaded: 100.0 },
        pools: vec![Pool { name: "/".into(), ..Pool::default() }],
        ..Snapshot::default()
    }
}

/// The duration of a request that took long, for histograms.
pub(crate) fn one_slow() -> Distribution {
    let mut distribution = Distribution::default();
    distribution.record(200_000_000_000);
    distribution
}
