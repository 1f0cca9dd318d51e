//! `howdah heap --why CLASS`: what holds the objects of a class. The worker tells the way to each from the nearest variable that
//! has a name (`xs/why.c`); ways that differ in keys and numbers only are one here.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::records::{one_line, records};

/// Steps of a way.
const STEPS: usize = 200;
/// Ways that are shown.
const SHOWN: usize = 20;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holders {
    /// Of this class.
    pub class: String,
    /// Who was asked, and has them.
    #[serde(default)]
    pub worker: String,
    /// So many objects there are.
    pub objects: u64,
    /// Of these no variable with a name leads to so many: they hold themselves.
    pub lost: u64,
    /// How the others are held, most objects first.
    pub chains: Vec<Chain>,
    /// How those hold themselves.
    pub loops: Vec<Chain>,
}

/// A way to objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chain {
    /// How many it leads to, of those that were looked at.
    pub objects: u64,
    /// From the variable to the object, for one of them.
    pub steps: Vec<String>,
}

impl Holders {
    /// What that worker has answered of this class. None when that is no answer.
    #[must_use]
    pub fn read(class: &str, worker: &str, answer: &[u8]) -> Option<Self> {
        let mut found = Self { class: class.to_owned(), worker: worker.to_owned(), ..Self::default() };
        let (mut chains, mut loops, mut whole) = (BTreeMap::new(), BTreeMap::new(), false);
        for mut record in records(answer, STEPS) {
            let number = |at: usize| record.get(at).and_then(|field| field.parse().ok()).unwrap_or_default();
            match &*record[0] {
                "why" => (found.objects, found.lost, whole) = (number(1), number(2), true),
                "chain" => add(&mut chains, record.split_off(1)),
                "loop" => add(&mut loops, record.split_off(1)),
                _ => {}
            }
        }
        (found.chains, found.loops) = (ranked(chains), ranked(loops));
        whole.then_some(found)
    }

    /// For people.
    #[must_use]
    pub fn render(&self) -> String {
        let Self { class, worker, objects, lost, .. } = self;
        let others = if *objects == 0 { ": another may have some, see --worker" } else { "" };
        let mut text = one_line(&format!("{objects} objects of {class} in {worker}{others}")) + "\n";
        let held = self.chains.iter().map(|chain| (chain, "held by"));
        let alone = self.loops.iter().map(|chain| (chain, "held by themselves:"));
        for (Chain { objects, steps }, how) in held.chain(alone) {
            // Writing to a String cannot fail.
            let _ = write!(text, "\n{objects:>8}  {how} {}\n", one_line(&steps.join(" -> ")));
        }
        if *lost > 0 {
            let _ = write!(
                text,
                "\n{lost} of them are reached from no variable that has a name: a circle of references.\n"
            );
        }
        text
    }
}

/// The ways of one shape: how many, and the first.
type Shapes = BTreeMap<Vec<String>, Chain>;

fn add(shapes: &mut Shapes, mut steps: Vec<String>) {
    steps.retain(|step| !step.is_empty());
    let shape = steps.iter().map(|step| shape(step)).collect();
    shapes.entry(shape).or_insert_with(|| Chain { objects: 0, steps }).objects += 1;
}

fn shape(step: &str) -> String {
    match step.chars().next() {
        Some('{') => "{}".to_owned(),
        Some('[') => "[]".to_owned(),
        _ => step.to_owned(),
    }
}

fn ranked(shapes: Shapes) -> Vec<Chain> {
    let mut chains: Vec<Chain> = shapes.into_values().collect();
    chains.sort_by_key(|chain| u64::MAX - chain.objects);
    chains.truncate(SHOWN);
    chains
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_of_one_shape_are_one() {
        let answer = b"chain\tmy %sessions in app.psgi\t{17}\t(Session)\t\n\
            chain\t@Main::all\t[0]\t(Session)\t\nchain\tmy %sessions in app.psgi\t{18}\t(Session)\t\n\
            loop\tan object\t{%0A}\t\nwhy\t5\t2\n";
        let found = Holders::read("Session", "worker 2 (pid 7)", answer).unwrap();
        assert_eq!((found.objects, found.lost, found.chains.len()), (5, 2, 2));
        let expected = "5 objects of Session in worker 2 (pid 7)\n\
            \n       2  held by my %sessions in app.psgi -> {17} -> (Session)\n\
            \n       1  held by @Main::all -> [0] -> (Session)\n\
            \n       1  held by themselves: an object -> {\\x0a}\n\
            \n2 of them are reached from no variable that has a name: a circle of references.\n";
        assert_eq!(found.render(), expected);
    }

    #[test]
    fn a_worker_may_say_anything() {
        for bad in [&b""[..], b"chain", b"chain\t\t\n", b"\xff\tx"] {
            assert_eq!(Holders::read("X", "worker 2", bad), None, "{bad:?}");
        }
        let found = Holders::read("X", "worker 2", b"why\t-1\tmany\nloop\n").unwrap();
        let expected = "0 objects of X in worker 2: another may have some, see --worker\n\n       1  held by themselves: \n";
        assert_eq!(found.render(), expected);
    }
}
