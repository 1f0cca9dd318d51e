//! A profile for people: the hottest subs, lines and routes.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write;

use serde::Serialize;

use crate::sampler::Looks;
use crate::tally::{Spent, Tally};

/// Rows of each part.
const ROWS: usize = 15;

/// What is shown, in seconds and as a share of all that was counted.
#[derive(Debug, Serialize)]
pub struct Table {
    /// Seconds of all workers that were counted.
    pub seconds: f64,
    /// Looks at workers.
    pub looks: u64,
    /// Looks that saw a worker without a request.
    pub idle: u64,
    /// Looks that counted.
    pub counted: u64,
    /// Looks that counted, during which the stack changed.
    pub inexact: u64,
    /// Looks that saw nothing.
    pub blind: u64,
    /// Different workers that were looked at.
    pub workers: usize,
    /// Subs, by the time that they took themselves.
    pub subs: Vec<Sub>,
    /// Lines.
    pub lines: Vec<LineRow>,
    /// Routes.
    pub routes: Vec<Route>,
}

/// A sub.
#[derive(Debug, Serialize)]
pub struct Sub {
    /// Its name.
    pub sub: String,
    /// Share of the time spent in it, and in what is not Perl.
    pub own: f64,
    /// The same with what it called.
    pub whole: f64,
}

/// A line.
#[derive(Debug, Serialize)]
pub struct LineRow {
    /// Share of the time.
    pub share: f64,
    /// `[regex]`, `[syscall read]`; empty for Perl.
    pub kind: String,
    /// Its sub.
    pub sub: String,
    /// Its file.
    pub file: String,
    /// Its number.
    pub line: u32,
}

/// A route.
#[derive(Debug, Serialize)]
pub struct Route {
    /// Share of the time.
    pub share: f64,
    /// Its name.
    pub route: String,
}

impl Table {
    /// The hottest.
    #[must_use]
    pub fn new(tally: &Tally, looks: Looks, workers: usize) -> Self {
        let share = |time: u64| time as f64 / tally.total.max(1) as f64;
        let subs = top(&tally.subs, |spent: &Spent| (spent.own, spent.whole));
        let lines = top(&tally.lines, |time| *time).into_iter().map(|(line, time)| LineRow {
            share: share(*time),
            kind: line.kind.to_string(),
            sub: line.frame.sub.to_string(),
            file: line.frame.file.to_string(),
            line: line.frame.line,
        });
        let routes = top(&tally.routes, |time| *time).into_iter();
        Self {
            seconds: tally.total as f64 / 1e9,
            looks: looks.all,
            idle: looks.idle,
            counted: looks.counted,
            inexact: looks.inexact,
            blind: looks.blind,
            workers,
            subs: subs
                .into_iter()
                .map(|(sub, spent)| Sub {
                    sub: sub.to_string(),
                    own: share(spent.own),
                    whole: share(spent.whole),
                })
                .collect(),
            lines: lines.collect(),
            routes: routes.map(|(route, time)| Route { share: share(*time), route: route.clone() }).collect(),
        }
    }

    /// As text.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = format!(
            "{} looks at {} workers: {} in requests, which make {:.2} s; {} idle\n",
            self.looks, self.workers, self.counted, self.seconds, self.idle
        );
        if self.inexact + self.blind > 0 {
            let Self { inexact, blind, .. } = self;
            let _ = writeln!(text, "{inexact} saw a stack that changed, {blind} saw none");
        }
        text.push_str("\n    self    with called  sub\n");
        for Sub { sub, own, whole } in &self.subs {
            let _ = writeln!(text, "{:>6.1} %  {:>10.1} %  {sub}", own * 100.0, whole * 100.0);
        }
        text.push_str("\n    time  line\n");
        for LineRow { share, kind, sub, file, line } in &self.lines {
            let kind = if kind.is_empty() { String::new() } else { format!("  {kind}") };
            let place = if file.is_empty() { String::new() } else { format!("{file} line {line}, ") };
            let _ = writeln!(text, "{:>6.1} %  {place}{sub}{kind}", share * 100.0);
        }
        text.push_str("\n    time  route\n");
        for Route { share, route } in &self.routes {
            let _ = writeln!(text, "{:>6.1} %  {route}", share * 100.0);
        }
        text
    }
}

/// The greatest first; of equals, in the order of their names.
fn top<K: Ord, V, W: Ord>(sums: &HashMap<K, V>, weight: impl Fn(&V) -> W) -> Vec<(&K, &V)> {
    let mut all: Vec<(&K, &V)> = sums.iter().collect();
    all.sort_by(|one, other| (Reverse(weight(one.1)), one.0).cmp(&(Reverse(weight(other.1)), other.0)));
    all.truncate(ROWS);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{Frame, Operation};
    use crate::worker::Doing;

    #[test]
    fn the_hottest_stand_first() {
        let frame = |sub: &str, line| Frame { sub: sub.into(), file: "/srv/app.psgi".into(), line };
        let regex = Doing::Runs(Operation { name: "match".into(), xsub: None });
        let mut tally = Tally::default();
        tally.add("/slow", &[frame("My::regex", 7), frame("main", 9)], &regex, 3_000_000_000);
        tally.add("/other", &[frame("main", 9)], &Doing::Stands, 1_000_000_000);
        let looks = Looks { all: 10, idle: 6, counted: 4, ..Looks::default() };
        assert_eq!(
            Table::new(&tally, looks, 2).render(),
            "10 looks at 2 workers: 4 in requests, which make 4.00 s; 6 idle\n\n    \
             self    with called  sub\n  75.0 %        75.0 %  My::regex\n  25.0 %       100.0 %  main\n\n    \
             time  line\n  75.0 %  /srv/app.psgi line 7, My::regex  [regex]\n  \
             25.0 %  /srv/app.psgi line 9, main  [kernel]\n\n    \
             time  route\n  75.0 %  /slow\n  25.0 %  /other\n"
        );
    }
}
