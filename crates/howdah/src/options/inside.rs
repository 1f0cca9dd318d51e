//! How `howdah where` and `howdah profile` look into the workers of a server.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use clap::Args;

use super::instance::Instance;
use super::values::{Time, whole};

/// Which workers.
#[derive(Debug, Clone, Args)]
pub(crate) struct Whose {
    #[command(flatten)]
    pub(crate) instance: Instance,

    /// Those of the application that is mounted at this path [default: all]
    #[arg(long, value_name = "PATH")]
    pub(crate) pool: Option<String>,

    /// The one that has this number in `howdah status` [default: all]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(0..=1023))]
    pub(crate) worker: Option<u32>,
}

/// What to print.
#[derive(Debug, Clone, Args)]
pub(crate) struct Where {
    #[command(flatten)]
    pub(crate) whose: Whose,

    /// As one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// How to look for where time goes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Profile {
    #[command(flatten)]
    pub(crate) whose: Whose,

    /// For how long; 0 for until Ctrl-C, which also ends it before
    #[arg(long, value_name = "TIME", default_value = "10")]
    pub(crate) seconds: Time,

    /// Looks at each worker in a second
    #[arg(long, value_name = "N", default_value_t = 99, value_parser = whole::<u32>(1..=2000))]
    pub(crate) hz: u32,

    /// Only requests for this path, and below it
    #[arg(long, value_name = "PATH", value_parser = route)]
    pub(crate) route: Option<String>,

    /// All time that requests take, also that in which a worker waits [default]
    #[arg(long, conflicts_with = "cpu")]
    pub(crate) wall: bool,

    /// Only time in which a worker uses a processor, or would if one were free
    #[arg(long)]
    pub(crate) cpu: bool,

    /// Instead, have one more worker run under Devel::NYTProf, and write what that finds
    ///
    /// It takes its share of the requests, slower than the others, and leaves when the time is over.
    #[arg(long, conflicts_with_all = ["hz", "route", "wall", "cpu", "worker"])]
    pub(crate) nytprof: bool,

    /// Begin of the names of the files (flame graph, folded stacks, speedscope), or the name of one
    #[arg(long, value_name = "PREFIX", default_value = "howdah-profile")]
    pub(crate) output: PathBuf,

    /// Print the table as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The files that there may be.
const ENDINGS: [&str; 4] = [".svg", ".folded", ".speedscope.json", ".nytprof"];

impl Profile {
    /// The file with this ending. Whoever has named one of them whole means its beginning.
    pub(crate) fn file(&self, ending: &str) -> PathBuf {
        let named = self.output.as_os_str().as_bytes();
        let begin = ENDINGS.iter().find_map(|ending| named.strip_suffix(ending.as_bytes()));
        let begin = begin.filter(|begin| !begin.is_empty() && !begin.ends_with(b"/")).unwrap_or(named);
        PathBuf::from(OsString::from_vec([begin, ending.as_bytes()].concat()))
    }

    /// In words.
    pub(crate) fn what(&self) -> String {
        let time = if self.cpu { "processor time" } else { "time" };
        let pool = self.whose.pool.as_deref().map(|pool| format!(" of {pool}")).unwrap_or_default();
        let route = self.route.as_deref().map(|route| format!(" at {route}")).unwrap_or_default();
        format!("{time} of requests{pool}{route}, {} looks a second", self.hz)
    }
}

fn route(text: &str) -> Result<String, String> {
    if text.starts_with('/') { Ok(text.to_owned()) } else { Err("a path begins with /".to_owned()) }
}

#[cfg(test)]
mod tests {
    use crate::options::{Action, parse};

    #[test]
    fn files_are_named_by_their_beginning_or_by_one_of_them() {
        for (output, file) in [
            ("p", "p.svg"),
            ("/tmp/p.svg", "/tmp/p.svg"),
            ("p.speedscope.json", "p.svg"),
            ("p.nytprof", "p.svg"),
            ("p.json", "p.json.svg"),
            ("dir/.svg", "dir/.svg.svg"),
            (".svg", ".svg.svg"),
        ] {
            let line = ["howdah", "profile", "--output", output].map(Into::into);
            let Action::Profile(options) = parse(line).unwrap().action else { panic!("{output}") };
            assert_eq!(options.file(".svg"), std::path::Path::new(file), "{output}");
        }
    }
}
