//! What is said on the control socket: one line of JSON each way. The client sends a [`Request`], the server an
//! [`Answer`]; after `stop` the connection stays open until the server is gone.
//!
//!     {"command":"workers","change":{"by":1}}
//!     {"done":"5 workers from now on"}

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a client may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "lowercase")]
pub(crate) enum Request {
    /// The state of the server.
    Status,
    /// All that the status page knows: what it gives under `?json`.
    Snapshot,
    /// Load the application anew.
    Reload,
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
        /// How many.
        change: Change,
    },
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
        let parsed = if relative { text.parse().map(Self::By).ok() } else { text.parse().map(Self::To).ok() };
        let sane = parsed.filter(|change| !matches!(change, Self::To(0) | Self::By(0)));
        sane.ok_or_else(|| "write a number such as 4, or a change such as +1 or -1".to_owned())
    }
}

/// What the server says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
    /// It is done: a sentence.
    Done(String),
    /// It could not be done: why, and the way out.
    Failed(String),
    /// The answer to `status`.
    Status(Box<Status>),
    /// The answer to `snapshot`.
    Snapshot(serde_json::Value),
}

/// The state of a server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Status {
    /// Name of the instance.
    pub(crate) name: String,
    /// Version of the program that runs.
    pub(crate) version: String,
    /// Process id of the front, the one to signal.
    pub(crate) pid: u32,
    /// Seconds since that process began to serve.
    pub(crate) uptime: u64,
    /// What is served.
    pub(crate) application: String,
    /// Addresses.
    pub(crate) listeners: Vec<String>,
    /// Load of the application that serves.
    pub(crate) generation: u32,
    /// Process id of its zygote.
    pub(crate) zygote: Option<i32>,
    /// A new generation is on its way.
    pub(crate) reloading: bool,
    /// Workers wanted.
    pub(crate) target: usize,
    /// Requests that wait for a worker.
    pub(crate) queue: usize,
    /// Milliseconds for which the oldest of them has waited.
    #[serde(default)]
    pub(crate) oldest: u64,
    /// They wait for long, and there may be no more workers.
    #[serde(default)]
    pub(crate) saturated: bool,
    /// Bytes of responses that lie in files, for clients that read slowly.
    #[serde(default)]
    pub(crate) spooled: u64,
    /// Why nothing is forked at the moment.
    pub(crate) trouble: Option<String>,
    /// Workers that are there.
    pub(crate) workers: Vec<Worker>,
}

/// One worker.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Worker {
    /// Its number.
    pub(crate) index: u16,
    /// Process id.
    pub(crate) pid: Option<i32>,
    /// starting, idle, busy or leaving; draining when it has been asked to leave.
    pub(crate) state: String,
    /// Milliseconds in that state.
    pub(crate) since: u64,
    /// Requests served.
    pub(crate) requests: u64,
    /// Private memory in bytes; none when it cannot be read.
    pub(crate) memory: Option<u64>,
    /// Load of the application that it runs.
    pub(crate) generation: u32,
    /// Seconds since it was started.
    pub(crate) age: u64,
    /// What it runs: `127.0.0.1 example.org GET /cart`, as in its title.
    #[serde(default)]
    pub(crate) request: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_lines_that_people_can_write() {
        for (line, request) in [
            (r#"{"command":"status"}"#, Request::Status),
            (r#"{"command":"stop"}"#, Request::Stop { now: false }),
            (r#"{"command":"stop","now":true}"#, Request::Stop { now: true }),
            (r#"{"command":"workers","change":{"by":-1}}"#, Request::Workers { change: Change::By(-1) }),
            (r#"{"command":"workers","change":{"to":4}}"#, Request::Workers { change: Change::To(4) }),
        ] {
            assert_eq!(serde_json::from_str::<Request>(line).unwrap(), request, "{line}");
        }
        assert!(serde_json::from_str::<Request>(r#"{"command":"dance"}"#).is_err());
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
