//! What this program may start: zygotes, the process that replaces it at an upgrade, and the command of a piped log. All
//! of it is written down before the front is confined, because a confined front starts them through a launcher that
//! knows nothing else (`howdah_sys::launcher`).
//!
//! `serve` prepares them first; the supervisor, `upgrade` and `access` have one each.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use howdah_accesslog::Target;
use howdah_front::Stock;
use howdah_supervisor::{self as supervisor, Source};
use howdah_sys::launcher::{self, Job};
use howdah_sys::oom::Score;
use howdah_sys::privileges::Identity;
use howdah_sys::process::{Pid, is_child};
use howdah_sys::recipe::Recipe;

use crate::access::Commands;
use crate::log;
use crate::options::Serve;
use crate::options::process::Process;
use crate::perl::{Perl, refuse_layers};
use crate::scripts;
use crate::upgrade::Program;

/// Bytes that a front may hold beyond what it has for slow clients and what a worker has: its program, its connections, and the pages of
/// shared memory that it has touched for all workers.
const FRONT: u64 = 64 << 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct Processes {
    /// Where the zygotes of each application come from, in the order of the options.
    pub(crate) sources: Vec<Source>,
    /// The program that replaces this one.
    pub(crate) successor: Job,
    /// The commands of piped logs.
    pub(crate) logs: Commands,
    /// By a launcher, so that this process may lose the right to do it.
    pub(crate) launched: bool,
}

impl Processes {
    /// Call it while there is one thread. `identity` is that of the application.
    ///
    /// # Errors
    /// When there is no perl, Howdah's modules do not load with it, or the descriptor that plackup names is none.
    pub(crate) fn prepare(
        options: &Serve,
        program: &Program,
        identity: Option<&Identity>,
    ) -> anyhow::Result<Self> {
        let zygote = Zygotes::of(options, identity)?;
        let commands = log_commands(options);
        let logs = commands.iter().map(|command| log_recipe(command));
        let recipes = [program.recipe()].into_iter().chain(logs).chain(zygote.recipes()).collect();
        let (jobs, launched) = jobs(options, recipes);
        let mut jobs = jobs.into_iter();
        let mut next = || jobs.next().context("a recipe has no job");
        let successor = next()?;
        let logs =
            commands.into_iter().map(|command| Ok((command, next()?))).collect::<anyhow::Result<_>>()?;
        let sources = match zygote {
            Zygotes::Started(recipes) => {
                let start = |recipe: Start| {
                    let job = next()?;
                    Ok(match recipe {
                        Start::Perl { perl, .. } => Source::Start { perl, job, guest: next()? },
                        Start::Host(_) => Source::Host { job },
                    })
                };
                recipes.into_iter().map(start).collect::<anyhow::Result<_>>()?
            }
            Zygotes::Adopted(source) => vec![source],
        };
        Ok(Self { sources, successor, logs, launched })
    }
}

/// A job for each recipe, and whether a launcher does them.
fn jobs(options: &Serve, recipes: Vec<Recipe>) -> (Vec<Job>, bool) {
    if !options.process.no_confine {
        match launcher::start(recipes.clone()) {
            Ok(jobs) => return (jobs, true),
            Err(error) => {
                tracing::warn!("the front is not confined, because it cannot start a launcher: {error}");
            }
        }
    }
    (recipes.into_iter().map(Job::here).collect(), false)
}

/// The launcher's whole program, when this process was started to be one.
pub(crate) fn be_launcher() -> Option<ExitCode> {
    launcher::is_this().then(|| match launcher::serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => log::failed(&anyhow::Error::from(error).context("cannot be a launcher")),
    })
}

/// A host's whole program, when this process was started to be one.
pub(crate) fn be_host() -> Option<ExitCode> {
    scripts::is_host().then(howdah_cgi::run)
}

enum Zygotes {
    Started(Vec<Start>),
    Adopted(Source),
}

/// How the zygotes of an application are started.
enum Start {
    /// By this perl; the second recipe is that of one whose worker Devel::NYTProf looks at.
    Perl { perl: PathBuf, recipes: Box<[Recipe; 2]> },
    /// As a host of scripts.
    Host(Recipe),
}

impl Start {
    /// A perl of root's would run what others may have put into its directories of modules.
    fn perl(perl: &Perl, spec: &supervisor::ZygoteSpec, whose: &Process, surplus: u64) -> Self {
        let recipe = |spec| {
            let recipe = supervisor::recipe(&perl.program, perl.include(), spec);
            recipe.run_by(whose.user.clone(), whose.group.clone()).expendable(surplus)
        };
        let watched = supervisor::ZygoteSpec { nytprof: true, ..spec.clone() };
        Self::Perl { perl: perl.program.clone(), recipes: Box::new([recipe(spec), recipe(&watched)]) }
    }

    fn recipes(&self) -> Vec<Recipe> {
        match self {
            Self::Perl { recipes, .. } => recipes.to_vec(),
            Self::Host(recipe) => vec![recipe.clone()],
        }
    }
}

impl Zygotes {
    fn of(options: &Serve, identity: Option<&Identity>) -> anyhow::Result<Self> {
        let surplus = surplus(options)?;
        let score = told(surplus);
        if let Some(number) = options.process.zygote_fd {
            // plackup has forked it before it became this process.
            let zygote = options.process.zygote_pid.and_then(Pid::from_raw).filter(|pid| is_child(*pid));
            zygote.zip(score).into_iter().for_each(|(zygote, score)| score.set(zygote));
            refuse_layers(std::env::var_os("PERLIO"))?;
            let control = howdah_sys::process::adopt_fd(number).with_context(|| {
                format!("--zygote-fd {number} is no open descriptor; the option is for plackup")
            })?;
            return Ok(Self::Adopted(Source::Adopted { control }));
        }
        let perl = Perl::find(options.app.perl.as_deref())?;
        perl.probe(identity)?;
        let recipe = |pool| match options.host(pool, &perl) {
            Some(spec) => Start::Host(scripts::recipe(&spec).expendable(surplus)),
            None => Start::perl(&perl, &options.zygote(pool), &options.process, surplus),
        };
        Ok(Self::Started(options.pools().iter().map(recipe).collect()))
    }

    fn recipes(&self) -> Vec<Recipe> {
        match self {
            Self::Started(recipes) => recipes.iter().flat_map(Start::recipes).collect(),
            Self::Adopted(_) => Vec::new(),
        }
    }
}

/// By how much a process counts for more than it has, if it is none of those with which the server ends: then the kernel ends one of
/// these, for lack of memory, and not the front.
fn surplus(options: &Serve) -> anyhow::Result<u64> {
    Ok(Stock::new(&options.front()?).memory_limit().saturating_add(FRONT))
}

/// What that makes of them.
fn told(surplus: u64) -> Option<Score> {
    let score = Score::of(surplus);
    match score {
        Some(score) => tracing::debug!(
            "where memory is short workers go before the front: the oom_score_adj of zygotes is {score}"
        ),
        None => tracing::debug!(
            "where memory is short the front may go before workers: their oom_score_adj is not to be raised"
        ),
    }
    score
}

fn log_commands(options: &Serve) -> Vec<String> {
    let command = |target| match target {
        Target::Command(command) => Some(command),
        Target::File(_) | Target::Stdout => None,
    };
    options.logs.targets().into_iter().filter_map(command).collect()
}

/// Ctrl-C is for the server, whose last lines the command is to read.
fn log_recipe(command: &str) -> Recipe {
    Recipe::new("/bin/sh").args(["-c", command]).in_own_group().without_ours()
}
