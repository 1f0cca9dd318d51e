//! Closed sets of names: every dimension by which something is counted. What clients send never becomes a label.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

use serde::de::{Deserialize, Deserializer, Error};
use serde::{Serialize, Serializer};

/// A closed set of names.
pub trait Label: Copy + Sized + 'static {
    /// Every member, in the order in which tables show them.
    const ALL: &'static [Self];
    /// What it is called in JSON and in metrics.
    fn name(self) -> &'static str;
    /// Its position in [`Label::ALL`].
    fn index(self) -> usize;
}

macro_rules! labels {
    ($(#[$about:meta])* $type:ident { $($(#[$what:meta])* $member:ident = $name:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type { $($(#[$what])* $member,)+ }

        impl Label for $type {
            const ALL: &'static [Self] = &[$(Self::$member,)+];

            fn name(self) -> &'static str {
                match self { $(Self::$member => $name,)+ }
            }

            fn index(self) -> usize {
                self as usize
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                named(deserializer)
            }
        }
    };
}

/// The member that bears the name.
fn named<'de, L: Label, D: Deserializer<'de>>(deserializer: D) -> Result<L, D::Error> {
    let name = String::deserialize(deserializer)?;
    let member = L::ALL.iter().copied().find(|member| member.name() == name);
    member.ok_or_else(|| D::Error::custom(format!("{name} is a word that this program does not know")))
}

labels! {
    /// First digit of a response's status.
    Class {
        /// 101 Switching Protocols; other 1xx precede a response and are none.
        Informational = "1xx",
        /// 2xx.
        Success = "2xx",
        /// 3xx.
        Redirection = "3xx",
        /// 4xx.
        ClientError = "4xx",
        /// 5xx.
        ServerError = "5xx",
        /// The client was gone before there was a status.
        Unanswered = "none",
    }
}

labels! {
    /// Methods counted by name (RFC 9110 9.3, RFC 5789); clients can invent others.
    Method {
        /// GET.
        Get = "GET",
        /// HEAD.
        Head = "HEAD",
        /// POST.
        Post = "POST",
        /// PUT.
        Put = "PUT",
        /// PATCH.
        Patch = "PATCH",
        /// DELETE.
        Delete = "DELETE",
        /// OPTIONS.
        Options = "OPTIONS",
        /// Any other, and what is no request.
        Other = "OTHER",
    }
}

labels! {
    /// How a TLS handshake has ended.
    Handshake {
        /// With signature and key exchange.
        Full = "full",
        /// By a ticket of an earlier session.
        Resumed = "resumed",
        /// Not: the client did not go on, or shares no protocol, or has no certificate that is believed.
        Failed = "failed",
    }
}

labels! {
    /// What a client's connection is doing.
    ConnectionState {
        /// Open between two requests, or before the first.
        Idle = "idle",
        /// A request is being received.
        Reading = "reading",
        /// A request waits for a worker.
        Queued = "queued",
        /// A worker runs the request and nothing of the response is there yet.
        Running = "running",
        /// A response is being sent.
        Writing = "writing",
        /// The last response is out; the client's end is awaited.
        Closing = "closing",
        /// The application has taken the socket over (psgix.io).
        Detached = "detached",
    }
}

labels! {
    /// Why a request did not go its usual way.
    Failure {
        /// Not valid HTTP: 400 and the like.
        BadRequest = "bad_request",
        /// Request line, head or body beyond its limit: 413, 414, 431.
        TooLarge = "too_large",
        /// The client took too long to send: 408, or closed without a word.
        ReadTimeout = "read_timeout",
        /// The client took too long to receive.
        WriteTimeout = "write_timeout",
        /// The client closed before it had the whole response.
        ClientGone = "client_gone",
        /// Too many requests were waiting: 503.
        QueueFull = "queue_full",
        /// Neither room nor a descriptor was left for its body, or its response's: 503.
        Resources = "out_of_resources",
        /// The application wanted the connection, and had no more to get: 503.
        UpgradeLimit = "upgrade_limit",
        /// No worker took it in time, or the application did not answer in time: 503, 504.
        Deadline = "deadline",
        /// Its worker died: 502.
        WorkerLost = "worker_lost",
        /// The application died or answered what is no response: 500.
        Application = "application",
    }
}

labels! {
    /// What a worker is doing.
    #[derive(Default)]
    WorkerState {
        /// Forked, not ready yet.
        #[default]
        Starting = "starting",
        /// Waits for a request.
        Idle = "idle",
        /// Runs a request.
        Busy = "busy",
        /// Has been asked to leave, and finishes its last request.
        Draining = "draining",
        /// Runs its `worker_exit` hooks, and ends.
        Leaving = "leaving",
    }
}

impl WorkerState {
    /// Its letter on Apache's scoreboard and in the titles of processes (`xs/title.c`).
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Self::Starting => 'S',
            Self::Idle => '_',
            Self::Busy => 'W',
            Self::Draining | Self::Leaving => 'G',
        }
    }
}

labels! {
    /// How a pool is, and how the server is.
    #[derive(Default)]
    State {
        /// No worker is ready yet.
        #[default]
        Starting = "starting",
        /// It serves.
        Ready = "ready",
        /// It serves, and a new generation is loading.
        Reloading = "reloading",
        /// It finishes what it has and ends.
        Draining = "draining",
        /// It accepts requests, but no worker can be started.
        Failing = "failing",
    }
}

impl State {
    /// Whether a load balancer should send requests here.
    #[must_use]
    pub fn is_ready(self) -> bool {
        matches!(self, Self::Ready | Self::Reloading)
    }

    /// How a server with such pools is: as long as one of them serves, requests are welcome.
    #[must_use]
    pub fn together(states: impl Iterator<Item = Self>) -> Self {
        let rank = |state: &Self| match state {
            Self::Starting => 0,
            Self::Failing => 1,
            Self::Ready => 2,
            Self::Reloading => 3,
            Self::Draining => 4,
        };
        states.max_by_key(rank).unwrap_or_default()
    }
}

labels! {
    /// Why a worker ended.
    ExitCause {
        /// It died: a signal of its own making, or an exit without a word.
        Crash = "crash",
        /// The application called exit.
        AppExit = "app_exit",
        /// `--max-requests`.
        MaxRequests = "max_requests",
        /// `--max-lifetime`.
        MaxLifetime = "max_lifetime",
        /// `--max-memory`.
        MaxMemory = "max_memory",
        /// psgix.harakiri.
        Harakiri = "harakiri",
        /// Killed because a request took too long.
        Deadline = "deadline",
        /// A newer generation took over.
        Reload = "reload",
        /// Fewer workers are wanted.
        Resize = "resize",
        /// Somebody outside sent it a signal.
        Signal = "signal",
        /// The server ends.
        Stop = "stop",
    }
}

impl Class {
    /// The class of a status; 0 stands for none.
    #[must_use]
    pub fn of(status: u16) -> Self {
        match status / 100 {
            1 => Self::Informational,
            2 => Self::Success,
            3 => Self::Redirection,
            4 => Self::ClientError,
            5 => Self::ServerError,
            _ => Self::Unanswered,
        }
    }
}

impl Method {
    /// The method with this name; names are case-sensitive (RFC 9110 9.1).
    #[must_use]
    pub fn of(name: &[u8]) -> Self {
        match name {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"PATCH" => Self::Patch,
            b"DELETE" => Self::Delete,
            b"OPTIONS" => Self::Options,
            _ => Self::Other,
        }
    }
}

/// A value for each member of a set.
#[derive(Clone, PartialEq, Eq)]
pub struct Per<L, V = u64> {
    values: Vec<V>,
    labels: PhantomData<L>,
}

impl<L: Label, V> Per<L, V> {
    /// Asks `value` for each member's.
    pub fn new(value: impl FnMut(L) -> V) -> Self {
        Self { values: L::ALL.iter().copied().map(value).collect(), labels: PhantomData }
    }

    /// Every member with its value.
    pub fn iter(&self) -> impl Iterator<Item = (L, &V)> {
        L::ALL.iter().copied().zip(&self.values)
    }
}

impl<L: Label> Per<L> {
    /// All values together.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.values.iter().fold(0, |sum, value| sum.saturating_add(*value))
    }

    /// Adds those of another.
    pub(crate) fn add(&mut self, other: &Self) {
        for (value, more) in self.values.iter_mut().zip(&other.values) {
            *value = value.saturating_add(*more);
        }
    }
}

impl<L: Label, V: Default> Default for Per<L, V> {
    fn default() -> Self {
        Self::new(|_| V::default())
    }
}

impl<L: Label, V> Index<L> for Per<L, V> {
    type Output = V;

    fn index(&self, label: L) -> &V {
        &self.values[label.index()]
    }
}

impl<L: Label, V> IndexMut<L> for Per<L, V> {
    fn index_mut(&mut self, label: L) -> &mut V {
        &mut self.values[label.index()]
    }
}

impl<L: Label, V: Serialize> Serialize for Per<L, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(label, value)| (label.name(), value)))
    }
}

/// Names that are not known are passed over, members that are not named have nothing.
impl<'de, L: Label, V: Default + Deserialize<'de>> Deserialize<'de> for Per<L, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut values = BTreeMap::<String, V>::deserialize(deserializer)?;
        Ok(Self::new(|label: L| values.remove(label.name()).unwrap_or_default()))
    }
}

impl<L: Label, V: fmt::Debug> fmt::Debug for Per<L, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let map: BTreeMap<_, _> = self.iter().map(|(label, value)| (label.name(), value)).collect();
        map.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_and_methods_fall_into_closed_sets() {
        let classes = [
            (0, "none"),
            (101, "1xx"),
            (200, "2xx"),
            (304, "3xx"),
            (499, "4xx"),
            (599, "5xx"),
            (999, "none"),
        ];
        for (status, name) in classes {
            assert_eq!(Class::of(status).name(), name);
        }
        let methods: [(&[u8], &str); 4] =
            [(b"GET", "GET"), (b"get", "OTHER"), (b"PROPFIND", "OTHER"), (b"", "OTHER")];
        for (name, label) in methods {
            assert_eq!(Method::of(name).name(), label);
        }
    }

    #[test]
    fn indexes_are_positions() {
        for (at, label) in ExitCause::ALL.iter().enumerate() {
            assert_eq!(label.index(), at);
        }
        let mut tally: Per<Class> = Per::default();
        tally[Class::ServerError] += 2;
        assert_eq!((tally.sum(), tally[Class::Success]), (2, 0));
        assert_eq!(
            serde_json::to_string(&tally).unwrap(),
            r#"{"1xx":0,"2xx":0,"3xx":0,"4xx":0,"5xx":2,"none":0}"#
        );
    }
}
