//! What the commands take that look into running workers.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::instance::Instance;
use super::values::{Size, Time, whole};
use crate::protocol::{HeapWish, LeaksWish};

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
    pub(crate) fn json_if(json: bool) -> Self {
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
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..=u64::MAX))]
    requests: Option<u64>,

    /// Look into so many workers only [default: all]
    #[arg(long, value_name = "N", value_parser = whole::<u16>(1..=512))]
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

/// Which heap, and for what.
#[derive(Debug, Clone, Args)]
pub(crate) struct Heap {
    #[command(flatten)]
    pub(crate) instance: Instance,

    /// Print what holds the objects of this class, and write no file
    #[arg(long, value_name = "CLASS")]
    pub(crate) why: Option<String>,

    /// The heap of this worker, by its number in howdah status [default: any]
    #[arg(long, value_name = "N", value_parser = whole::<u16>(0..=1023))]
    worker: Option<u16>,

    /// The application that is mounted at this path
    #[arg(long, value_name = "PATH")]
    pool: Option<String>,

    /// The file, which must not be there yet [default: howdah-DATE-TIME.pmat here]
    ///
    /// Nobody else may read it (mode 0600): a heap holds whatever requests have brought.
    #[arg(long, short = 'o', value_name = "FILE", conflicts_with = "why")]
    pub(crate) output: Option<PathBuf>,

    /// A heap that makes a longer file is not written
    #[arg(long, value_name = "SIZE", default_value = "2g")]
    pub(crate) max_size: Size,

    /// Print what holds a class as one line of JSON
    #[arg(long, requires = "why")]
    pub(crate) json: bool,
}

impl Heap {
    /// For the server.
    pub(crate) fn wish(&self) -> HeapWish {
        let megabytes = u32::try_from(self.max_size.0.div_ceil(1 << 20)).unwrap_or(u32::MAX);
        HeapWish { pool: self.pool.clone(), worker: self.worker, why: self.why.clone(), megabytes }
    }
}
