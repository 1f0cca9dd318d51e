//! What the person has chosen by keys.

use std::cmp::Ordering;
use std::time::Duration;

use howdah_metrics::{Pool, Snapshot, Worker, WorkerState};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Paces to choose from.
const PACES: [Duration; 7] = [
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
];

/// What follows from a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    Go,
    Quit,
}

/// Order of the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    #[default]
    Time,
    State,
    Requests,
    Memory,
    Pid,
}

impl Sort {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::State => "state",
            Self::Requests => "requests",
            Self::Memory => "memory",
            Self::Pid => "pid",
        }
    }

    fn next(self) -> Self {
        match self {
            Self::Time => Self::State,
            Self::State => Self::Requests,
            Self::Requests => Self::Memory,
            Self::Memory => Self::Pid,
            Self::Pid => Self::Time,
        }
    }

    /// What wants attention comes first: the longest request, the busy worker, the largest number.
    fn compare(self, a: &Worker, b: &Worker) -> Ordering {
        match self {
            Self::Time => b.request_seconds().total_cmp(&a.request_seconds()),
            Self::State => rank(a.state).cmp(&rank(b.state)),
            Self::Requests => b.requests.cmp(&a.requests),
            Self::Memory => b.memory.cmp(&a.memory),
            Self::Pid => a.pid.cmp(&b.pid),
        }
    }
}

fn rank(state: WorkerState) -> u8 {
    match state {
        WorkerState::Busy => 0,
        WorkerState::Draining => 1,
        WorkerState::Leaving => 2,
        WorkerState::Starting => 3,
        WorkerState::Idle => 4,
    }
}

/// Those of all pools, by their places.
pub(super) fn workers(snapshot: &Snapshot) -> impl Iterator<Item = (&Pool, &Worker)> {
    snapshot.pools.iter().flat_map(|pool| pool.workers.list.iter().map(move |worker| (pool, worker)))
}

/// See the module.
#[derive(Debug)]
pub(super) struct View {
    pub(super) sort: Sort,
    pub(super) reverse: bool,
    pub(super) paused: bool,
    pub(super) interval: Duration,
    /// Workers above the first one shown.
    pub(super) scroll: usize,
    /// Keys are of no use on paper.
    pub(super) shows_keys: bool,
}

impl View {
    pub(super) fn new(interval: Duration) -> Self {
        let interval = interval.clamp(PACES[0], PACES[PACES.len() - 1]);
        Self { sort: Sort::default(), reverse: false, paused: false, interval, scroll: 0, shows_keys: true }
    }

    /// For a frame that nobody can act upon; its workers stand in the order of their places.
    pub(super) fn plain() -> Self {
        Self { shows_keys: false, ..Self::new(PACES[0]) }
    }

    pub(super) fn key(&mut self, key: KeyEvent) -> Deed {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return Deed::Quit,
            KeyCode::Char('q') | KeyCode::Esc => return Deed::Quit,
            KeyCode::Char('s') => (self.sort, self.scroll) = (self.sort.next(), 0),
            KeyCode::Char('r') => self.reverse = !self.reverse,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('+' | '=') => self.interval = self.slower(),
            KeyCode::Char('-') => self.interval = self.faster(),
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.scroll += 1,
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(10),
            KeyCode::PageDown => self.scroll += 10,
            KeyCode::Home => self.scroll = 0,
            _ => {}
        }
        Deed::Go
    }

    fn slower(&self) -> Duration {
        PACES.into_iter().find(|pace| *pace > self.interval).unwrap_or(self.interval)
    }

    fn faster(&self) -> Duration {
        PACES.into_iter().rev().find(|pace| *pace < self.interval).unwrap_or(self.interval)
    }

    /// The workers of all pools in the chosen order; equal ones by their place.
    pub(super) fn sorted<'s>(&self, snapshot: &'s Snapshot) -> Vec<(&'s Pool, &'s Worker)> {
        let mut sorted: Vec<_> = workers(snapshot).collect();
        sorted.sort_by(|(_, a), (_, b)| {
            let order = self.sort.compare(a, b);
            if self.reverse { order.reverse() } else { order }
        });
        sorted
    }
}

#[cfg(test)]
mod tests {
    use howdah_metrics::{RequestSeen, Workers};

    use super::*;

    fn press(view: &mut View, keys: &str) -> Deed {
        keys.chars().fold(Deed::Go, |_, key| view.key(KeyEvent::from(KeyCode::Char(key))))
    }

    /// Two pools, of two workers and one.
    fn snapshot() -> Snapshot {
        let worker = |index, pid, state, requests, memory, seconds: Option<f64>| Worker {
            index,
            pid,
            state,
            requests,
            memory,
            request: seconds.map(|seconds| RequestSeen { seconds, ..RequestSeen::default() }),
            ..Worker::default()
        };
        let pool = |list| Pool { workers: Workers { list, ..Workers::default() }, ..Pool::default() };
        let first = vec![
            worker(0, 30, WorkerState::Idle, 5, Some(100), None),
            worker(1, 20, WorkerState::Busy, 9, None, Some(0.5)),
        ];
        let second = vec![worker(0, 10, WorkerState::Busy, 7, Some(300), Some(2.5))];
        Snapshot { pools: vec![pool(first), pool(second)], ..Snapshot::default() }
    }

    #[test]
    fn workers_are_sorted_by_what_wants_attention() {
        let snapshot = snapshot();
        let mut view = View::new(Duration::from_secs(1));
        for (sort, order) in [
            ("time", [10, 20, 30]),
            ("state", [20, 10, 30]),
            ("requests", [20, 10, 30]),
            ("memory", [10, 30, 20]),
            ("pid", [10, 20, 30]),
        ] {
            assert_eq!(view.sort.name(), sort);
            let sorted: Vec<u32> = view.sorted(&snapshot).iter().map(|(_, worker)| worker.pid).collect();
            assert_eq!(sorted, order, "{sort}");
            press(&mut view, "s");
        }
        assert_eq!(view.sort, Sort::Time, "and from the beginning");
        press(&mut view, "r");
        assert_eq!(view.sorted(&snapshot)[0].1.pid, 30);
    }

    #[test]
    fn keys_do_what_the_last_line_says() {
        let mut view = View::new(Duration::from_secs(1));
        press(&mut view, "p");
        assert!(view.paused);
        press(&mut view, "p+");
        assert!(!view.paused);
        assert_eq!(view.interval, Duration::from_secs(2));
        press(&mut view, "------------");
        assert_eq!(view.interval, Duration::from_millis(200));
        press(&mut view, "++++++++++++");
        assert_eq!(view.interval, Duration::from_secs(30));
        assert_eq!(press(&mut view, "x"), Deed::Go);
        assert_eq!(press(&mut view, "q"), Deed::Quit);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(view.key(interrupt), Deed::Quit);
        assert_eq!(view.key(KeyEvent::from(KeyCode::Esc)), Deed::Quit);
    }
}
