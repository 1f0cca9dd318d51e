//! What the commands take that look into running workers.

use clap::{Args, ValueEnum};

use super::instance::Instance;
use super::values::Time;
use crate::protocol::LeaksWish;

/// How an answer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// For people
    Text,
    /// As one line of JSON
    Json,
    /// As Devel::Leak::Object prints it
    DevelLeakObject,
}

impl Form {
    /// JSON or text.
    pub(super) fn json_if(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }
}

/// How to look for leaks.
#[derive(Debug, Clone, Args)]
pub(crate) struct Leaks {
    #[command(flatten)]
    pub(crate) instance: Instance,

    /// For how long, at most
    #[arg(long, value_name = "TIME", default_value = "30")]
    seconds: Time,

    /// End when the workers have run so many requests, all together
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,

    /// Look into so many workers only [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    workers: Option<u16>,

    /// The application that is mounted at this path
    #[arg(long, value_name = "PATH")]
    pool: Option<String>,

    /// Leave out what an earlier look has found in these workers
    #[arg(long)]
    since_last: bool,

    /// How to print it
    #[arg(
        long,
        value_enum,
        default_value = "text",
        hide_possible_values = true,
        value_name = "text|json|devel-leak-object"
    )]
    format: Form,

    /// The same as --format json
    #[arg(long)]
    json: bool,
}

impl Leaks {
    /// For the server.
    pub(super) fn wish(self) -> LeaksWish {
        LeaksWish {
            pool: self.pool,
            milliseconds: u64::try_from(self.seconds.0.as_millis()).unwrap_or(u64::MAX),
            requests: self.requests,
            workers: self.workers.map(usize::from),
            since_last: self.since_last,
        }
    }

    pub(super) fn form(&self) -> Form {
        if self.json { Form::Json } else { self.format }
    }
}
