//! Events, and what is known of each process: whose it is, who made it, what it was called before.

use std::collections::{HashMap, HashSet};
use std::io;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::event::{Event, InOrder};
use crate::proc;
use crate::source::Source;
use crate::tally::{Kind, Tally};

/// Whose name could not be asked for in time.
const GONE: &str = "(gone)";
/// How far up the makers of a process are looked at for a worker.
const MAKERS: usize = 8;

/// Time for what has come and was not read by the end.
const DRAIN: Duration = Duration::from_secs(2);

/// With what was seen of a process, which may be gone soon.
type Held = InOrder<(Event, Sight)>;

/// See the module.
#[derive(Debug)]
pub struct Tracer {
    source: Source,
    kind: Kind,
    tally: Tally,
    known: Known,
    held: Held,
    requests: bool,
    lost: u64,
}

/// Something that was counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// The process that runs a program, or was made.
    pub pid: u32,
    /// The one that has made it.
    pub parent: u32,
    /// What the process was called before; where processes are counted, what their maker is called.
    pub who: String,
    /// The program or the script; empty where processes are counted.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub what: String,
    /// Its arguments, as far as it was still there to be asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// The request that it is for, where that is known and wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}

/// The processes.
#[derive(Debug, Default)]
struct Known {
    /// Those that count; none for all.
    family: Option<HashSet<u32>>,
    names: HashMap<u32, String>,
    makers: HashMap<u32, u32>,
}

/// What /proc says as an event comes.
#[derive(Debug, Default)]
struct Sight {
    /// What the process is called; of a fork, its maker.
    name: Option<String>,
    arguments: Vec<String>,
    request: Option<String>,
}

impl Tracer {
    /// Counts what `root` and all that descend from it do; or everybody. The requests that it is for cost a look at each
    /// process.
    #[must_use]
    pub fn new(source: Source, kind: Kind, root: Option<u32>, requests: bool) -> Self {
        let (tally, known, held) = (Tally::new(kind), Known::look(root), InOrder::new());
        Self { source, kind, tally, known, held, requests, lost: 0 }
    }

    /// What has been seen within that time, if that is something to count.
    ///
    /// # Errors
    /// When there is nothing more to come.
    pub fn next(&mut self, patience: Duration) -> io::Result<Option<Seen>> {
        let patience = self.held.patience(Instant::now()).map_or(patience, |held| held.min(patience));
        self.take_in(patience)?;
        let now = Instant::now();
        Ok(self.count(|held| held.take(now)))
    }

    fn take_in(&mut self, patience: Duration) -> io::Result<()> {
        match self.source.read(patience)? {
            Some((_, Event::Lost)) => self.lost += 1,
            Some((at, event)) => {
                let sight = Sight::of(&event, self.requests);
                self.held.put(at, Instant::now(), (event, sight));
            }
            None => {}
        }
        Ok(())
    }

    /// Takes what has come until now and was not read: for the end, before [`Tracer::rest`]. What comes meanwhile without end
    /// is not waited for.
    pub fn drain(&mut self) {
        let end = Instant::now() + DRAIN;
        self.source.end();
        while self.source.has_more() {
            let left = end.saturating_duration_since(Instant::now());
            // A source that has ended has no more.
            if left.is_zero() || self.take_in(left).is_err() {
                return;
            }
        }
    }

    /// The next of what has come and was not shown yet: for the end.
    pub fn rest(&mut self) -> Option<Seen> {
        self.count(InOrder::take_now)
    }

    fn count(&mut self, take: impl Fn(&mut Held) -> Option<(Event, Sight)>) -> Option<Seen> {
        while let Some((event, sight)) = take(&mut self.held) {
            if let Some(mut seen) = self.known.learn(event, sight, self.kind) {
                // The kernel cuts a name after 15 bytes, which may be behind a blank.
                for name in [&mut seen.who, &mut seen.what] {
                    name.truncate(name.trim_end().len());
                }
                self.tally.add(&seen.who, &seen.what);
                return Some(seen);
            }
        }
        None
    }

    /// Whether what this process does counts.
    #[must_use]
    pub fn counts(&self, pid: u32) -> bool {
        self.known.counts(pid)
    }

    /// What was counted.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// How often the kernel has told that it lost events.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// What keeps it from that.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        self.source.remedy()
    }
}

impl Sight {
    fn of(event: &Event, requests: bool) -> Self {
        match event {
            Event::Fork { parent, child, who } => Self {
                name: if who.is_none() { proc::name(*parent) } else { None },
                arguments: Vec::new(),
                request: requests.then(|| request(*child, Some(*parent))).flatten(),
            },
            Event::Exec { pid, path, .. } => Self {
                // First of all, since it may be gone in a moment.
                name: if path.is_none() { proc::name(*pid) } else { None },
                arguments: proc::arguments(*pid),
                request: requests.then(|| request(*pid, proc::parent(*pid))).flatten(),
            },
            Event::Exit { .. } | Event::Lost => Self::default(),
        }
    }
}

/// The one that a process is for.
fn request(pid: u32, parent: Option<u32>) -> Option<String> {
    proc::request(pid).or_else(|| worker_request(parent?))
}

/// By the title of the worker that is among the makers.
fn worker_request(mut pid: u32) -> Option<String> {
    for _ in 0..MAKERS {
        let title = proc::arguments(pid).join(" ");
        if title.starts_with("howdah: worker") {
            return title.split_once(") W ").map(|(_, request)| request.trim_end().to_owned());
        }
        pid = proc::parent(pid).filter(|&parent| parent > 1)?;
    }
    None
}

impl Known {
    /// Those who are there already.
    fn look(root: Option<u32>) -> Self {
        let pids = proc::all();
        let names = pids.iter().filter_map(|&pid| Some((pid, proc::name(pid)?))).collect();
        let makers: HashMap<_, _> = pids.iter().filter_map(|&pid| Some((pid, proc::parent(pid)?))).collect();
        let family = root.map(|root| descendants(root, &makers));
        Self { family, names, makers }
    }

    fn counts(&self, pid: u32) -> bool {
        self.family.as_ref().is_none_or(|family| family.contains(&pid))
    }

    fn learn(&mut self, event: Event, sight: Sight, kind: Kind) -> Option<Seen> {
        match event {
            Event::Fork { parent, child, who } => {
                self.forked(parent, child, who, sight).filter(|_| kind == Kind::Fork)
            }
            Event::Exec { pid, who, path } => self.ran(pid, who, path, sight).filter(|_| kind == Kind::Exec),
            Event::Exit { pid } => {
                self.forget(pid);
                None
            }
            Event::Lost => None,
        }
    }

    fn forked(&mut self, parent: u32, child: u32, who: Option<String>, sight: Sight) -> Option<Seen> {
        // A process may call itself otherwise at any time; but the kernel cuts names.
        let known = self.names.get(&parent);
        let now = who.or(sight.name);
        let whole = known.filter(|known| now.as_ref().is_none_or(|now| known.starts_with(now)));
        let who = whole.cloned().or(now).unwrap_or_else(|| GONE.to_owned());
        self.names.insert(child, who.clone());
        self.makers.insert(child, parent);
        if !self.counts(parent) {
            return None;
        }
        self.family.iter_mut().for_each(|family| family.extend([child]));
        let request = sight.request;
        Some(Seen { pid: child, parent, who, what: String::new(), arguments: Vec::new(), request })
    }

    fn ran(&mut self, pid: u32, who: Option<String>, path: Option<String>, sight: Sight) -> Option<Seen> {
        let Sight { name, arguments, request } = sight;
        let base = |path: String| path.rsplit('/').next().unwrap_or_default().to_owned();
        let asked = || name.map(|name| proc::whole_name(&name, &arguments));
        let what = path.map(base).or_else(asked).unwrap_or_else(|| GONE.to_owned());
        let before = self.names.insert(pid, what.clone());
        let who = who.or(before).unwrap_or_else(|| GONE.to_owned());
        let parent = self.makers.get(&pid).copied().unwrap_or_default();
        self.counts(pid).then_some(Seen { pid, parent, who, what, arguments, request })
    }

    fn forget(&mut self, pid: u32) {
        self.names.remove(&pid);
        self.makers.remove(&pid);
        if let Some(family) = &mut self.family {
            family.remove(&pid);
        }
    }
}

fn descendants(root: u32, makers: &HashMap<u32, u32>) -> HashSet<u32> {
    let mut family = HashSet::from([root]);
    loop {
        let before = family.len();
        let children = makers.iter().filter(|(_, maker)| family.contains(maker)).map(|(&pid, _)| pid);
        let children: Vec<_> = children.collect();
        family.extend(children);
        if family.len() == before {
            return family;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that no process has.
    const FRONT: u32 = u32::MAX - 10;
    const WORKER: u32 = u32::MAX - 9;
    const SCRIPT: u32 = u32::MAX - 8;
    const STRANGER: u32 = u32::MAX - 7;

    fn known(all: bool) -> Known {
        let makers = HashMap::from([(WORKER, FRONT), (STRANGER, 1)]);
        let names = [(FRONT, "howdah"), (WORKER, "perl"), (STRANGER, "zsh")]
            .map(|(pid, name)| (pid, name.to_owned()));
        Known { family: (!all).then(|| descendants(FRONT, &makers)), names: names.into(), makers }
    }

    #[test]
    fn what_has_come_by_the_end_is_counted() {
        let (source, kernel) = Source::stand_in();
        let mut tracer = Tracer::new(source, Kind::Exec, None, false);
        for pid in [WORKER, SCRIPT, STRANGER] {
            crate::connector::tell_exec(&kernel, pid);
        }
        tracer.drain();
        assert_eq!(std::iter::from_fn(|| tracer.rest()).count(), 3);
    }

    #[test]
    fn a_name_that_is_cut_behind_a_blank_ends_before_it() {
        let (source, kernel) = Source::stand_in();
        let mut tracer = Tracer::new(source, Kind::Exec, None, false);
        tracer.known.names.insert(WORKER, "howdah: worker ".to_owned());
        crate::connector::tell_exec(&kernel, WORKER);
        tracer.drain();
        assert_eq!(tracer.rest().unwrap().who, "howdah: worker");
    }

    /// Who and what of each that is counted.
    fn shown(mut known: Known, kind: Kind, events: &[Event]) -> Vec<String> {
        let seen =
            events.iter().filter_map(|event| known.learn(event.clone(), Sight::of(event, false), kind));
        seen.map(|seen| format!("{} {} of {}", seen.who, seen.what, FRONT.wrapping_sub(seen.parent)))
            .collect()
    }

    fn fork(parent: u32, child: u32) -> Event {
        Event::Fork { parent, child, who: None }
    }

    fn exec(pid: u32, path: &str) -> Event {
        Event::Exec { pid, who: None, path: Some(path.to_owned()) }
    }

    #[test]
    fn a_process_is_who_it_was_before() {
        let events = [
            fork(WORKER, SCRIPT),
            exec(SCRIPT, "/srv/a.cgi"),
            exec(SCRIPT, "/bin/sh"),
            Event::Exit { pid: SCRIPT },
        ];
        let from_worker = FRONT.wrapping_sub(WORKER);
        let wanted = [format!("perl a.cgi of {from_worker}"), format!("a.cgi sh of {from_worker}")];
        assert_eq!(shown(known(false), Kind::Exec, &events), wanted);
        assert_eq!(shown(known(false), Kind::Fork, &events), [format!("perl  of {from_worker}")]);
    }

    #[test]
    fn a_name_that_comes_with_the_event_is_the_truth() {
        let told =
            Event::Exec { pid: WORKER, who: Some("old".to_owned()), path: Some("/bin/new".to_owned()) };
        assert_eq!(shown(known(false), Kind::Exec, &[told]), ["old new of 0"]);
    }

    #[test]
    fn only_the_family_counts_unless_all_do() {
        let events = [
            exec(STRANGER, "/bin/ls"),
            fork(STRANGER, SCRIPT),
            exec(SCRIPT, "/bin/id"),
            exec(WORKER, "/bin/x"),
        ];
        assert_eq!(shown(known(false), Kind::Exec, &events), ["perl x of 0"]);
        assert_eq!(shown(known(true), Kind::Exec, &events).len(), 3);
        assert_eq!(shown(known(false), Kind::Fork, &events).len(), 0);
    }

    #[test]
    fn a_number_that_is_used_again_is_another_process() {
        let again = [
            fork(WORKER, SCRIPT),
            Event::Exit { pid: SCRIPT },
            fork(STRANGER, SCRIPT),
            exec(SCRIPT, "/bin/id"),
        ];
        assert_eq!(shown(known(false), Kind::Exec, &again).len(), 0);
    }

    #[test]
    fn who_is_unknown_is_counted_all_the_same() {
        let lone = Known::default();
        let gone = Event::Exec { pid: SCRIPT, who: None, path: None };
        let seen = shown(lone, Kind::Exec, &[gone]);
        assert!(seen[0].starts_with("(gone) (gone) of "), "{seen:?}");
    }
}
