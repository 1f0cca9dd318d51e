//! Where time has gone, summed up over looks at workers: by stack, by sub, by line and by route.
//!
//! Each look stands for the time since the one before it. However long it goes on and whatever the workers run, the sums
//! keep within bounds: what is new beyond those is counted together, under a name that says so.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use crate::names::{Frame, base};
use crate::worker::Doing;

/// Different stacks that are told apart.
const MOST_STACKS: usize = 20_000;
/// Different subs, lines and labels.
const MOST_NAMES: usize = 50_000;
/// Different routes.
const MOST_ROUTES: usize = 500;
/// Innermost frames of a stack that are told apart.
const DEEPEST: usize = 256;
/// What is beyond.
const OTHER: &str = "(other)";
/// Time in a request in which no Perl code runs: Howdah's own.
const OURS: &str = "(howdah)";

/// What a stack is made of: a sub, or what it spends its time in.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label {
    /// `My::App::show`, or `[regex] app.psgi:7`.
    pub name: Arc<str>,
    /// The file of a sub.
    pub file: Arc<str>,
}

/// A line that was run, and in what.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Line {
    /// Its sub and place.
    pub frame: Frame,
    /// `[regex]`, `[syscall read]`, or nothing for Perl itself.
    pub kind: Arc<str>,
}

/// Nanoseconds of a sub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// In itself and in what is not Perl.
    pub own: u64,
    /// And in the subs that it called.
    pub whole: u64,
}

/// The sums, in nanoseconds.
#[derive(Debug, Default)]
pub struct Tally {
    /// Labels, by their numbers in `stacks`.
    pub labels: Vec<Label>,
    /// By stack, the outermost label first.
    pub stacks: HashMap<Vec<u32>, u64>,
    /// By sub.
    pub subs: HashMap<Arc<str>, Spent>,
    /// By line.
    pub lines: HashMap<Line, u64>,
    /// By route.
    pub routes: HashMap<String, u64>,
    /// All of it.
    pub total: u64,
    numbers: HashMap<Label, u32>,
}

impl Tally {
    /// Adds a look: its frames, the innermost first, stood for so many nanoseconds.
    pub fn add(&mut self, route: &str, frames: &[Frame], doing: &Doing, time: u64) {
        self.total += time;
        let kind = kind(doing);
        add(&mut self.routes, MOST_ROUTES, route.to_owned(), OTHER.to_owned(), time);
        self.add_subs(frames, time);
        self.add_line(frames, &kind, time);
        let stack = self.stack(frames, &kind);
        if self.stacks.len() < MOST_STACKS || self.stacks.contains_key(&stack) {
            *self.stacks.entry(stack).or_default() += time;
        } else {
            let other = self.number(plain(OTHER));
            *self.stacks.entry(vec![other]).or_default() += time;
        }
    }

    fn add_subs(&mut self, frames: &[Frame], time: u64) {
        let mut seen = HashSet::new();
        for (depth, frame) in frames.iter().enumerate() {
            let known = self.subs.len() < MOST_NAMES || self.subs.contains_key(&frame.sub);
            let name = if known { frame.sub.clone() } else { OTHER.into() };
            let spent = self.subs.entry(name.clone()).or_default();
            spent.own += if depth == 0 { time } else { 0 };
            // One that calls itself is there once.
            spent.whole += if seen.insert(name) { time } else { 0 };
        }
    }

    fn add_line(&mut self, frames: &[Frame], kind: &Arc<str>, time: u64) {
        let nowhere = |sub: &str| Frame { sub: sub.into(), file: "".into(), line: 0 };
        let frame = frames.first().cloned().unwrap_or_else(|| nowhere(OURS));
        let (line, other) =
            (Line { frame, kind: kind.clone() }, Line { frame: nowhere(OTHER), kind: "".into() });
        add(&mut self.lines, MOST_NAMES, line, other, time);
    }

    fn stack(&mut self, frames: &[Frame], kind: &str) -> Vec<u32> {
        let mut labels = Vec::with_capacity(frames.len() + 1);
        if frames.len() > DEEPEST {
            labels.push(plain("(outer frames)"));
        }
        let shown = frames.iter().take(DEEPEST).rev();
        labels.extend(shown.map(|frame| Label { name: frame.sub.clone(), file: frame.file.clone() }));
        match frames.first() {
            Some(frame) if !kind.is_empty() => {
                labels.push(plain(&format!("{kind} {}:{}", base(&frame.file), frame.line)));
            }
            Some(_) => {}
            None => labels.push(plain(&format!("{OURS} {kind}"))),
        }
        labels.into_iter().map(|label| self.number(label)).collect()
    }

    fn number(&mut self, label: Label) -> u32 {
        let label = if self.labels.len() < MOST_NAMES || self.numbers.contains_key(&label) {
            label
        } else {
            plain(OTHER)
        };
        let next = u32::try_from(self.labels.len()).unwrap_or(u32::MAX);
        *self.numbers.entry(label).or_insert_with_key(|label| {
            self.labels.push(label.clone());
            next
        })
    }
}

fn plain(name: &str) -> Label {
    Label { name: name.trim_end().into(), file: "".into() }
}

/// Adds to what is known, or to the other when there is too much.
fn add<K: Eq + Hash>(sums: &mut HashMap<K, u64>, most: usize, key: K, other: K, time: u64) {
    let key = if sums.len() < most || sums.contains_key(&key) { key } else { other };
    *sums.entry(key).or_default() += time;
}

/// What it is that takes the time, if it is not Perl itself.
fn kind(doing: &Doing) -> Arc<str> {
    match doing {
        Doing::Runs(operation) if operation.is_regex() => "[regex]".into(),
        Doing::Runs(operation) => match &operation.xsub {
            Some(name) => format!("[xs {name}]").into(),
            None if *operation.name == *"sort" => "[sort]".into(),
            None => "".into(),
        },
        Doing::Waits(call, _) => format!("[syscall {call}]").into(),
        Doing::Stands => "[kernel]".into(),
        Doing::Idle => "".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Operation;

    fn frame(sub: &str, line: u32) -> Frame {
        Frame { sub: sub.into(), file: "/srv/app.psgi".into(), line }
    }

    fn runs(name: &str) -> Doing {
        Doing::Runs(Operation { name: name.into(), xsub: None })
    }

    #[test]
    fn a_sub_that_calls_itself_is_counted_once_in_whole() {
        let mut tally = Tally::default();
        tally.add("/", &[frame("fib", 3), frame("fib", 3), frame("main", 9)], &runs("add"), 10);
        tally.add("/", &[frame("main", 9)], &runs("match"), 5);
        assert_eq!(tally.subs["fib"], Spent { own: 10, whole: 10 });
        assert_eq!(tally.subs["main"], Spent { own: 5, whole: 15 });
        assert_eq!((tally.total, tally.routes["/"]), (15, 15));
        assert_eq!(tally.lines[&Line { frame: frame("main", 9), kind: "[regex]".into() }], 5);
        let names: Vec<&str> = tally.labels.iter().map(|label| &*label.name).collect();
        assert_eq!(names, ["main", "fib", "[regex] app.psgi:9"]);
        assert_eq!(tally.stacks[&vec![0, 1, 1]], 10);
    }

    #[test]
    fn what_takes_the_time_has_a_kind() {
        let xs =
            Doing::Runs(Operation { name: "entersub".into(), xsub: Some("JSON::XS::encode_json".into()) });
        for (doing, name) in [
            (runs("subst"), "[regex]"),
            (runs("padsv"), ""),
            (runs("sort"), "[sort]"),
            (xs, "[xs JSON::XS::encode_json]"),
            (Doing::Waits("read".into(), [0; 6]), "[syscall read]"),
            (Doing::Stands, "[kernel]"),
        ] {
            assert_eq!(&*kind(&doing), name);
        }
    }

    #[test]
    fn however_much_there_is_it_keeps_within_bounds() {
        let mut tally = Tally::default();
        let deep: Vec<Frame> = (0..5000).map(|line| frame("deep", line)).collect();
        tally.add("/", &deep, &runs("add"), 1);
        assert_eq!(tally.stacks.keys().next().unwrap().len(), DEEPEST + 1);
        for number in 0..MOST_NAMES as u32 + 10 {
            tally.add(&format!("/{number}"), &[frame(&format!("sub{number}"), number)], &runs("add"), 1);
        }
        assert!(tally.labels.len() <= MOST_NAMES + 1 && tally.stacks.len() <= MOST_STACKS + 1);
        assert!(tally.subs.len() <= MOST_NAMES + 1 && tally.lines.len() <= MOST_NAMES + 1);
        assert!(tally.routes.len() <= MOST_ROUTES + 1);
        assert_eq!(tally.stacks.values().sum::<u64>(), tally.total);
    }
}
