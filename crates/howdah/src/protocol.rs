//! What is said on the control socket: one line of JSON each way. The client sends a [`ControlRequest`], the server an
//! [`ControlAnswer`]; after `stop` the connection stays open until the server is gone.
//!
//!     {"command":"workers","change":{"by":1}}
//!     {"done":"5 workers from now on"}

use std::num::IntErrorKind;
use std::str::FromStr;

use howdah_find::heap::Holders;
use howdah_find::leaks::Report;
use howdah_metrics::{Snapshot, document};
use serde::{Deserialize, Serialize};

/// What a client may ask for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "lowercase")]
pub(crate) enum ControlRequest {
    /// The state of the server.
    Status,
    /// The same for somebody who asks again and again: memory that was measured a while ago will do.
    Snapshot,
    /// Load an application anew.
    Reload {
        /// The path that it is mounted at; none for all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pool: Option<String>,
    },
    /// Start the program anew and hand everything over to it.
    Upgrade,
    /// Open the log files anew.
    Reopen,
    /// Leave.
    Stop {
        /// Cut running requests off.
        #[serde(default)]
        now: bool,
    },
    /// Another number of workers.
    Workers {
        /// The path of the application; none for the only one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pool: Option<String>,
        /// How many.
        change: Change,
    },
    /// Look for leaks.
    Leaks(LeaksWish),
    /// Look at the heap of a worker.
    Heap(HeapWish),
    /// Have one more worker run under Devel::NYTProf.
    Nytprof(NytprofWish),
}

/// Which heap to look at, and for what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeapWish {
    /// The path of the application; none for the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pool: Option<String>,
    /// That of this worker; none for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) worker: Option<u16>,
    /// For what holds the objects of this class; none for all of it, as a file beside the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
    /// The file's most.
    #[serde(default)]
    pub(crate) megabytes: u32,
}

/// Where to have a worker run under Devel::NYTProf, and for how long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NytprofWish {
    /// The path of the application; none for the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pool: Option<String>,
    /// From when it is ready.
    pub(crate) milliseconds: u64,
}

/// Where to look for leaks, and for how long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeaksWish {
    /// The path of the application; none for the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pool: Option<String>,
    /// At most for so long.
    pub(crate) milliseconds: u64,
    /// Only for so many requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) requests: Option<u64>,
    /// In so many workers; none for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) workers: Option<usize>,
    /// Leave out what an earlier look has found.
    #[serde(default)]
    pub(crate) since_last: bool,
}

/// More, fewer, or this many workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Change {
    /// Relative to the present number.
    By(i32),
    /// The number.
    To(usize),
}

impl FromStr for Change {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let relative = text.starts_with(['+', '-']);
        let parsed = if relative { text.parse().map(Self::By) } else { text.parse().map(Self::To) };
        match parsed {
            Ok(Self::To(0)) => Err("at least 1 worker is kept; howdah stop ends the server".to_owned()),
            Err(error) if matches!(error.kind(), IntErrorKind::PosOverflow | IntErrorKind::NegOverflow) => {
                Err("too large: no server has so many workers".to_owned())
            }
            Err(_) | Ok(Self::By(0)) => {
                Err("write a number such as 4, or a change such as +1 or -1".to_owned())
            }
            Ok(change) => Ok(change),
        }
    }
}

/// A worker that Devel::NYTProf has looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Profiled {
    /// What the worker is called.
    pub(crate) worker: String,
    /// Requests that it has served.
    pub(crate) requests: u64,
}

/// What the server says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ControlAnswer {
    /// It is done: a sentence.
    Done(String),
    /// It could not be done: why, and the way out.
    Failed(String),
    /// The answer to `status`: what the status page gives under `?json`.
    Status(#[serde(serialize_with = "document")] Box<Snapshot>),
    /// The answer to `snapshot`.
    Snapshot(#[serde(serialize_with = "document")] Box<Snapshot>),
    /// The answer to `leaks`.
    Leaks(Box<Report>),
    /// The answer to `heap` with a class.
    Why(Box<Holders>),
    /// The answer to `heap` without: whose it is. The file is beside the first byte of this (`SCM_RIGHTS`).
    Heap(String),
    /// The answer to `nytprof`, with its file in the same way: what has been looked at.
    Profiled(Profiled),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{busy, several};

    #[test]
    fn requests_are_lines_that_people_can_write() {
        for (line, request) in [
            (r#"{"command":"status"}"#, ControlRequest::Status),
            (r#"{"command":"stop"}"#, ControlRequest::Stop { now: false }),
            (r#"{"command":"stop","now":true}"#, ControlRequest::Stop { now: true }),
            (r#"{"command":"reload"}"#, ControlRequest::Reload { pool: None }),
            (
                r#"{"command":"reload","pool":"/admin"}"#,
                ControlRequest::Reload { pool: Some("/admin".to_owned()) },
            ),
            (
                r#"{"command":"workers","change":{"by":-1}}"#,
                ControlRequest::Workers { pool: None, change: Change::By(-1) },
            ),
            (
                r#"{"command":"workers","change":{"to":4}}"#,
                ControlRequest::Workers { pool: None, change: Change::To(4) },
            ),
        ] {
            assert_eq!(serde_json::from_str::<ControlRequest>(line).unwrap(), request, "{line}");
        }
        assert!(serde_json::from_str::<ControlRequest>(r#"{"command":"dance"}"#).is_err());
    }

    #[test]
    fn the_state_comes_under_the_commands_name_and_can_be_read() {
        for (answer, start) in [
            (ControlAnswer::Status(Box::new(busy())), r#"{"status":{"state":"ready","ready":true,"#),
            (ControlAnswer::Snapshot(Box::new(several())), r#"{"snapshot":{"state":"ready","ready":true,"#),
        ] {
            let line = serde_json::to_string(&answer).unwrap();
            assert!(line.starts_with(start), "{}", &line[..60]);
            let (ControlAnswer::Status(read) | ControlAnswer::Snapshot(read)) =
                serde_json::from_str(&line).unwrap()
            else {
                panic!("another answer")
            };
            assert_eq!(read.pools[0].workers.list.len(), 12);
        }
    }

    #[test]
    fn a_sign_makes_a_number_of_workers_relative() {
        assert_eq!("4".parse(), Ok(Change::To(4)));
        assert_eq!("+2".parse(), Ok(Change::By(2)));
        assert_eq!("-1".parse(), Ok(Change::By(-1)));
        for text in ["", "0", "+0", "many", "1.5", "--1"] {
            assert!(text.parse::<Change>().is_err(), "{text}");
        }
    }
}
