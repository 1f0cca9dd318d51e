//! What `howdah trace` counts, and how long.

use clap::{Args, ValueEnum};
use howdah_trace::{Kind, Wanted};

use super::instance::Instance;
use super::values::Time;

/// See the module.
#[derive(Debug, Clone, Args)]
pub(crate) struct Trace {
    /// Programs that are run, or processes that are made
    #[arg(value_name = "WHAT")]
    what: What,

    #[command(flatten)]
    pub(crate) instance: Instance,

    /// How long to count; 0 until Ctrl-C
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub(crate) seconds: Time,

    /// Those of the whole machine, not of a server alone
    #[arg(long)]
    pub(crate) all: bool,

    /// Print each as it comes: time, process, maker, what it runs, for which request
    #[arg(long)]
    pub(crate) follow: bool,

    /// As JSON: the table in one line, and with --follow each event in one
    #[arg(long)]
    pub(crate) json: bool,

    /// Who tells [default: bpftrace where it works, else the connector]
    #[arg(long, hide_short_help = true, value_name = "SOURCE")]
    by: Option<By>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum What {
    Exec,
    Fork,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum By {
    Bpftrace,
    Connector,
}

impl Trace {
    /// What is counted.
    pub(crate) fn kind(&self) -> Kind {
        match self.what {
            What::Exec => Kind::Exec,
            What::Fork => Kind::Fork,
        }
    }

    /// Who is to tell.
    pub(crate) fn wanted(&self) -> Wanted {
        match self.by {
            None => Wanted::Best,
            Some(By::Bpftrace) => Wanted::Bpftrace,
            Some(By::Connector) => Wanted::Connector,
        }
    }
}
