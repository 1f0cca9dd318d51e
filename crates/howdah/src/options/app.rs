//! Which application is served, and the Perl that runs it.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use howdah_cgi::spec::is_module;

use super::mounts::{Mount, parse_path};

/// What plackup takes, with plackup's meanings.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Application")]
pub(crate) struct App {
    /// A .psgi file, or a module that returns the application [default: app.psgi]
    ///
    /// As with plackup, a bare word such as MyApp is a module name: write ./MyApp for a file without a
    /// suffix, and ./check or ./serve for a file that is named like one of howdah's commands.
    #[arg(value_name = "APP", id = "app_file", value_hint = ValueHint::FilePath, help_heading = None)]
    file: Option<String>,

    /// The application, as plackup's -a
    #[arg(short = 'a', long = "app", value_name = "APP", id = "app", value_hint = ValueHint::FilePath, hide_short_help = true)]
    option: Option<String>,

    /// Perl code that is the application, or wraps it
    ///
    /// It runs inside `builder { }` of Plack::Builder. With APP as well, the code wraps that application, as in
    /// -e 'enable "Static", path => qr{^/static}' app.psgi
    #[arg(short = 'e', long = "eval", value_name = "CODE")]
    pub(crate) eval: Option<String>,

    /// Value of PLACK_ENV
    ///
    /// The variable PLACK_ENV is honoured when the option is absent. As with plackup, "development" adds
    /// the middleware Lint, StackTrace and AccessLog, unless --no-default-middleware is given.
    #[arg(short = 'E', long = "env", value_name = "NAME", default_value = "deployment")]
    pub(crate) env: String,

    /// Directory to put before Perl's @INC (repeatable)
    ///
    /// Several may be joined by colons, as in PERL5LIB.
    #[arg(short = 'I', long = "include", value_name = "DIR", value_delimiter = ':')]
    pub(crate) include: Vec<String>,

    /// Module to load first, as Name or Name=import,list (repeatable)
    #[arg(short = 'M', long = "module", value_name = "MODULE", value_delimiter = ' ', value_parser = module)]
    pub(crate) module: Vec<String>,

    /// Have each worker print at its end which objects are left, and where they were blessed
    ///
    /// To the error log, as Devel::Leak::Object does; the same as -M Howdah::Leaks. `howdah leaks` asks workers that serve.
    #[arg(long, hide_short_help = true)]
    pub(crate) leak_report: bool,

    /// Path below which the application is mounted
    #[arg(long, value_name = "PREFIX", value_parser = prefix)]
    pub(crate) path: Option<String>,

    /// Another application, for requests below PATH (repeatable)
    ///
    /// As PATH=FILE[,OPTION=VALUE]..., as in /admin=admin.psgi,workers=2. FILE may be a module, as APP may. A request
    /// goes to the longest PATH that its path is or lies below; SCRIPT_NAME is PATH then, and PATH_INFO the rest. Each
    /// application has processes and shared memory of its own, so that none feels what becomes of another. OPTION is one
    /// of workers, min-workers, max-requests, max-lifetime, max-memory, refork, max-queue, max-upgrades and
    /// request-timeout; all others, and those that are not given, are the server's. Several mounts may be joined by semicolons.
    #[arg(long, value_name = "PATH=FILE", value_delimiter = ';')]
    pub(crate) mount: Vec<Mount>,

    /// Load the application in each worker, not once before the fork
    ///
    /// Workers then share no memory for the application and start slower. Meant for applications that
    /// cannot live through a fork.
    #[arg(long)]
    pub(crate) no_preload: bool,

    /// Load the application anew when its files change
    ///
    /// For development. Watched are the .psgi file, the directory lib beside it, and the directories of -I.
    #[arg(short = 'r', long)]
    pub(crate) reload: bool,

    /// Directory to watch as well (repeatable)
    ///
    /// As plackup's -R; several may be joined by commas. It implies --reload.
    #[arg(
        short = 'R',
        long,
        value_name = "DIR",
        alias = "Reload",
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub(crate) reload_dir: Vec<PathBuf>,

    /// Leave out the middleware that the development environment adds
    #[arg(long, hide_short_help = true)]
    pub(crate) no_default_middleware: bool,

    /// Directory to change to before the application is loaded
    ///
    /// The application's name, and what is relative in -I and PERL5LIB, count from there.
    #[arg(long, value_name = "DIR")]
    pub(crate) chdir: Option<PathBuf>,

    /// The perl to run [default: perl from PATH]
    #[arg(long, value_name = "PERL")]
    pub(crate) perl: Option<PathBuf>,
}

impl App {
    /// The application named by the argument or by --app.
    pub(super) fn named(&self) -> Option<&str> {
        self.file.as_deref().or(self.option.as_deref())
    }

    pub(super) fn is_by_option(&self) -> bool {
        self.file.is_none() && self.option.is_some()
    }
}

/// Nothing is no prefix, so that HOWDAH_PATH may be empty.
fn prefix(text: &str) -> Result<String, String> {
    if text.is_empty() { Ok(String::new()) } else { parse_path(text, "") }
}

/// A module's name, and what it is to import.
fn module(text: &str) -> Result<String, String> {
    let name = text.split('=').next().unwrap_or_default();
    if is_module(name) {
        return Ok(text.to_owned());
    }
    Err(format!("'{name}' is no name of a module: write Some::Module, or Some::Module=import,list"))
}
