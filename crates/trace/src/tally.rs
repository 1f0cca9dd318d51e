//! Who has run what, how often: the table.

use std::collections::HashMap;
use std::fmt;

use serde::Serialize;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Programs that are run.
    Exec,
    /// Processes that are made.
    Fork,
}

/// Different rows at most; what is beyond is counted together.
const MOST: usize = 10_000;
/// Stands for what is beyond.
const OTHERS: &str = "(others)";

/// Counts.
#[derive(Debug)]
pub struct Tally {
    kind: Kind,
    counts: HashMap<(String, String), u64>,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// What the process was called before.
    pub who: String,
    /// The program, or the script; empty where processes are counted.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub what: String,
    /// How often.
    pub count: u64,
}

impl Tally {
    /// An empty one.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        Self { kind, counts: HashMap::new() }
    }

    /// Once more.
    pub fn add(&mut self, who: &str, what: &str) {
        // A name ends no row.
        let name = |name: &str| name.replace('\n', "\\x0a");
        let key = (name(who), name(what));
        let is_full = self.counts.len() >= MOST && !self.counts.contains_key(&key);
        let key = if is_full { (OTHERS.to_owned(), OTHERS.to_owned()) } else { key };
        *self.counts.entry(key).or_default() += 1;
    }

    /// All rows, the greatest count last.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        let row = |((who, what), &count): (&(String, String), &u64)| Row {
            who: who.clone(),
            what: what.clone(),
            count,
        };
        let mut rows: Vec<_> = self.counts.iter().map(row).collect();
        rows.sort_by(|one, other| {
            (one.count, &one.who, &one.what).cmp(&(other.count, &other.who, &other.what))
        });
        rows
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |f: &mut fmt::Formatter<'_>, who: &str, what: &str, count: &str| match self.kind {
            Kind::Exec => writeln!(f, "{who:<20} {what:<20} {count}"),
            Kind::Fork => writeln!(f, "{who:<20} {count}"),
        };
        line(f, "WHO", "WHAT", "COUNT")?;
        self.rows().iter().try_for_each(|row| line(f, &row.who, &row.what, &row.count.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_that_of_exec_d() {
        let mut tally = Tally::new(Kind::Exec);
        (0..2045).for_each(|_| tally.add("httpd", "index.cgi"));
        tally.add("zsh", "ab");
        assert_eq!(
            tally.to_string(),
            "WHO                  WHAT                 COUNT\n\
             zsh                  ab                   1\n\
             httpd                index.cgi            2045\n"
        );
    }

    #[test]
    fn processes_are_counted_by_who_makes_them() {
        let mut tally = Tally::new(Kind::Fork);
        ["sh", "howdah", "sh"].iter().for_each(|who| tally.add(who, ""));
        let shown = "WHO                  COUNT\nhowdah               1\nsh                   2\n";
        assert_eq!(tally.to_string(), shown);
    }

    #[test]
    fn a_name_ends_no_row() {
        let mut tally = Tally::new(Kind::Exec);
        tally.add("sh", "od\nd");
        assert!(tally.to_string().ends_with("\nsh                   od\\x0ad              1\n"), "{tally}");
    }

    #[test]
    fn whoever_runs_ever_other_programs_fills_no_memory() {
        let mut tally = Tally::new(Kind::Exec);
        (0..MOST + 50).for_each(|number| tally.add("sh", &number.to_string()));
        assert_eq!(tally.rows().len(), MOST + 1);
        assert_eq!(tally.rows().last().map(|row| (row.who.as_str(), row.count)), Some((OTHERS, 50)));
    }
}
