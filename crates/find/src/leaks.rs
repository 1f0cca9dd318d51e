//! `howdah leaks`: which objects outlive the requests that have made them, by class, line and route.
//!
//! Each worker answers with the records of `xs/leak_report.c`; [`Report::add`] sums them up. What was made in the first half
//! of the requests as well as in the second, and is still there, becomes more and more: it *grows*. What was made in one of
//! them only is a cache that has filled, or an object that is made once.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::records::records;

/// Fields of the longest record.
const FIELDS: usize = 11;
/// Records that are read of a worker.
const MOST_RECORDS: usize = 100_000;
/// A kind that has grown by fewer in half of the requests may do so by chance.
const FEWEST: u64 = 2;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The application, by its path.
    pub pool: String,
    /// Workers that have told.
    pub workers: usize,
    /// Requests that they have run meanwhile.
    pub requests: u64,
    /// How long that was.
    pub seconds: f64,
    /// Objects that Perl code has blessed in them.
    pub blessed: u64,
    /// What is missing, and why: sentences.
    pub notes: Vec<String>,
    /// Objects that Perl code has blessed and that are left, those that grow first.
    pub objects: Vec<Objects>,
    /// What else has become more, counted over all memory: objects that C code has blessed, and closures.
    pub kinds: Vec<Kind>,
    /// What each route leaves behind, the worst first.
    pub routes: Vec<Route>,
}

/// Objects that were blessed at one place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Objects {
    /// What they are.
    pub class: String,
    /// Where `bless` stands.
    pub place: Place,
    /// The nearest caller in the application's own code, when that is a library.
    pub caller: Option<Place>,
    /// The requests that have made them.
    pub route: String,
    /// How many are left.
    pub objects: u64,
    /// Requests that have made them.
    pub requests: u64,
    /// Of those in the first half of all requests.
    pub early: u64,
    /// And in the second.
    pub late: u64,
    /// They become more.
    pub grows: bool,
}

/// A line of code.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// As Perl has it.
    pub file: String,
    /// From 1; 0 when it is not known.
    pub line: u64,
}

/// What is counted without a look at each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kind {
    /// A class, or `CODE` for closures.
    pub class: String,
    /// Where the closures' code begins.
    pub place: Option<Place>,
    /// How many there were at the start.
    pub start: u64,
    /// About halfway.
    pub middle: u64,
    /// At the end.
    pub end: u64,
}

/// What the requests of a route leave behind, in the newer half of what these workers have run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Route {
    /// Its name.
    pub route: String,
    /// So many requests.
    pub requests: u64,
    /// Perl values after one that were not there before.
    pub values: f64,
    /// Bytes of private memory, as far as requests were measured.
    pub bytes: Option<f64>,
}

type Key = (String, Place, Option<Place>, String);

impl Report {
    /// Adds what a worker has answered. False when that is no report.
    pub fn add(&mut self, worker: &str, answer: &[u8]) -> bool {
        let mut read = records(answer, FIELDS).take(MOST_RECORDS);
        let Some(head) = read.next().filter(|head| head[0] == "leaks") else { return false };
        self.workers += 1;
        self.requests += number(&head, 1);
        self.blessed += number(&head, 2);
        if number(&head, 3) > 0 {
            self.notes.push(format!(
                "{worker} had more objects alive than its table holds: those that came later are not noted"
            ));
        }
        for record in read {
            match &*record[0] {
                "object" => self.objects.push(object(&record)),
                "kind" => self.kinds.push(kind(&record)),
                _ => {}
            }
        }
        true
    }

    /// To be called when all have been added.
    pub fn conclude(&mut self) {
        let mut objects: BTreeMap<Key, Objects> = BTreeMap::new();
        for one in std::mem::take(&mut self.objects) {
            let key = (one.class.clone(), one.place.clone(), one.caller.clone(), one.route.clone());
            let sum = objects.entry(key).or_insert_with(|| Objects {
                objects: 0,
                requests: 0,
                early: 0,
                late: 0,
                ..one.clone()
            });
            sum.objects += one.objects;
            sum.requests += one.requests;
            sum.early += one.early;
            sum.late += one.late;
        }
        self.objects = objects
            .into_values()
            .map(|one| Objects { grows: one.early > 0 && one.late > 0, ..one })
            .collect();
        self.objects.sort_by_key(|one| (!one.grows, u64::MAX - one.objects));
        self.conclude_kinds();
    }

    /// Keeps the kinds that grow, without the objects that are known by their lines.
    fn conclude_kinds(&mut self) {
        let mut kinds: BTreeMap<(String, Option<Place>), Kind> = BTreeMap::new();
        for one in std::mem::take(&mut self.kinds) {
            let key = (one.class.clone(), one.place.clone());
            let sum = kinds.entry(key).or_insert_with(|| Kind { start: 0, middle: 0, end: 0, ..one.clone() });
            sum.start += one.start;
            sum.middle += one.middle;
            sum.end += one.end;
        }
        let known = |class: &str| -> u64 {
            self.objects.iter().filter(|it| it.class == class).map(|it| it.objects).sum()
        };
        let grows = |kind: &Kind| {
            let more = kind.end.saturating_sub(kind.start);
            kind.middle >= kind.start + FEWEST
                && kind.end >= kind.middle + FEWEST
                && (kind.place.is_some() || more > known(&kind.class))
        };
        self.kinds = kinds.into_values().filter(grows).collect();
        self.kinds.sort_by_key(|kind| u64::MAX - (kind.end - kind.start));
    }

    /// Whether anything becomes more and more.
    #[must_use]
    pub fn leaks(&self) -> bool {
        self.objects.iter().any(|one| one.grows) || !self.kinds.is_empty() || !self.routes.is_empty()
    }
}

fn number(record: &[String], at: usize) -> u64 {
    record.get(at).and_then(|field| field.parse().ok()).unwrap_or_default()
}

fn text(record: &[String], at: usize) -> String {
    record.get(at).cloned().unwrap_or_default()
}

fn place(record: &[String], at: usize) -> Option<Place> {
    let place = Place { file: text(record, at), line: number(record, at + 1) };
    (!place.file.is_empty()).then_some(place)
}

fn object(record: &[String]) -> Objects {
    Objects {
        class: text(record, 1),
        place: place(record, 2).unwrap_or_default(),
        caller: place(record, 4),
        route: text(record, 6),
        objects: number(record, 7),
        requests: number(record, 8),
        early: number(record, 9),
        late: number(record, 10),
        grows: false,
    }
}

fn kind(record: &[String]) -> Kind {
    Kind {
        class: text(record, 1),
        place: place(record, 2),
        start: number(record, 4),
        middle: number(record, 5),
        end: number(record, 6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &[u8] = b"leaks\t100\t300\t0\n\
        object\tXXX\t/app.psgi\t3\t\t0\t/\t100\t100\t50\t50\n\
        object\tOnce\t/lib/Once.pm\t7\t/app.psgi\t9\t/\t1\t1\t1\t0\n\
        kind\tXXX\t\t0\t0\t50\t100\t64\n\
        kind\tDBI::st\t\t0\t2\t60\t110\t64\n\
        kind\tCODE\t/app.psgi\t5\t1\t1\t2\t64\n\
        kind\tCODE\t/app.psgi\t8\t0\t10\t20\t64\n\
        strange\n";

    fn report(answers: &[&[u8]]) -> Report {
        let mut report = Report::default();
        for answer in answers {
            assert!(report.add("worker 1", answer));
        }
        report.conclude();
        report
    }

    #[test]
    fn what_grows_is_told_from_what_is_made_once() {
        let report = report(&[ANSWER]);
        let objects: Vec<_> = report.objects.iter().map(|it| (&*it.class, it.objects, it.grows)).collect();
        assert_eq!(objects, [("XXX", 100, true), ("Once", 1, false)]);
        assert_eq!(report.objects[1].caller, Some(Place { file: "/app.psgi".to_owned(), line: 9 }));
        let kinds: Vec<_> = report.kinds.iter().map(|it| (&*it.class, it.end - it.start)).collect();
        assert_eq!(kinds, [("DBI::st", 108), ("CODE", 20)], "XXX is known by its line");
        assert!(report.leaks());
    }

    #[test]
    fn workers_are_summed_up() {
        let report = report(&[ANSWER, ANSWER]);
        assert_eq!((report.workers, report.requests, report.blessed), (2, 200, 600));
        assert_eq!(
            (report.objects.len(), report.objects[0].objects, report.objects[0].requests),
            (2, 200, 200)
        );
        assert_eq!(report.kinds.len(), 2);
    }

    #[test]
    fn a_worker_may_say_anything() {
        for bad in [&b""[..], b"\n", b"nonsense", b"object\tX\t/a\t1", b"\xff\xfe\0"] {
            assert!(!Report::default().add("worker 1", bad), "{bad:?}");
        }
        let odd = report(&[
            b"leaks\t-1\tmany\t2\nobject\nkind\tA\t\t0\t9\t8\t7\nobject\tX\t/a\t99999999999999999999\n",
        ]);
        assert_eq!((odd.requests, odd.notes.len(), odd.objects.len(), odd.kinds.len()), (0, 1, 2, 0));
        assert!(!odd.leaks());
    }
}
