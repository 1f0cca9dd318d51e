//! What the person has chosen by keys.

use std::cmp::Ordering;
use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::picture::Worker;

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
            Self::Time => b.time().total_cmp(&a.time()),
            Self::State => (rank(&a.state), &a.state).cmp(&(rank(&b.state), &b.state)),
            Self::Requests => b.requests.cmp(&a.requests),
            Self::Memory => b.memory.cmp(&a.memory),
            Self::Pid => a.pid.cmp(&b.pid),
        }
    }
}

fn rank(state: &str) -> usize {
    ["busy", "reading", "leaving", "starting", "idle"].iter().position(|known| *known == state).unwrap_or(9)
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

    /// The workers in the chosen order; equal ones by their place.
    pub(super) fn sorted<'w>(&self, workers: &'w [Worker]) -> Vec<&'w Worker> {
        let mut sorted: Vec<&Worker> = workers.iter().collect();
        sorted.sort_by(|a, b| {
            let order = self.sort.compare(a, b);
            (if self.reverse { order.reverse() } else { order }).then(a.index.cmp(&b.index))
        });
        sorted
    }
}

#[cfg(test)]
mod tests {
    use super::super::picture::Request;
    use super::*;

    fn press(view: &mut View, keys: &str) -> Deed {
        keys.chars().fold(Deed::Go, |_, key| view.key(KeyEvent::from(KeyCode::Char(key))))
    }

    fn workers() -> Vec<Worker> {
        let worker = |index, pid, state: &str, requests, memory, seconds: Option<f64>| Worker {
            index,
            pid,
            state: state.to_owned(),
            requests,
            memory,
            request: seconds.map(|seconds| Request { seconds, ..Request::default() }),
            ..Worker::default()
        };
        vec![
            worker(0, 30, "idle", 5, Some(100), None),
            worker(1, 20, "busy", 9, None, Some(0.5)),
            worker(2, 10, "busy", 7, Some(300), Some(2.5)),
        ]
    }

    #[test]
    fn workers_are_sorted_by_what_wants_attention() {
        let workers = workers();
        let mut view = View::new(Duration::from_secs(1));
        for (sort, order) in [
            ("time", [2, 1, 0]),
            ("state", [1, 2, 0]),
            ("requests", [1, 2, 0]),
            ("memory", [2, 0, 1]),
            ("pid", [2, 1, 0]),
        ] {
            assert_eq!(view.sort.name(), sort);
            let sorted: Vec<u32> = view.sorted(&workers).iter().map(|worker| worker.index).collect();
            assert_eq!(sorted, order, "{sort}");
            press(&mut view, "s");
        }
        assert_eq!(view.sort, Sort::Time, "and from the beginning");
        press(&mut view, "r");
        assert_eq!(view.sorted(&workers)[0].index, 0);
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
