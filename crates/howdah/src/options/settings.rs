//! The effective configuration: each option, its value, and who set it. `howdah check` prints it.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::serve::Serve;
use super::{environment, workers};

/// One option as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Long name without dashes.
    pub(crate) name: String,
    /// The value as it would be written on the command line.
    pub(crate) value: String,
    /// `default`, `command line`, or the name of the variable.
    pub(crate) origin: String,
}

/// Every visible option, in the order of `--help`.
pub(crate) fn effective(serve: &Serve, command: &Command, given: &ArgMatches) -> Vec<Setting> {
    let visible =
        command.get_arguments().filter_map(|arg| environment::variable(arg).map(|variable| (arg, variable)));
    let rows = visible.map(|(arg, variable)| {
        let id = arg.get_id().as_str();
        let source = given.value_source(id);
        Setting {
            name: arg.get_long().unwrap_or(id).to_owned(),
            value: serve.computed(id).unwrap_or_else(|| raw(given, arg)),
            origin: origin(source, variable),
        }
    });
    let mut rows: Vec<Setting> = rows.collect();
    serve.name_origins(given, &mut rows);
    rows
}

fn origin(source: Option<ValueSource>, variable: String) -> String {
    match source {
        Some(ValueSource::CommandLine) => "command line".to_owned(),
        Some(ValueSource::EnvVariable) => variable,
        _ => "default".to_owned(),
    }
}

/// The value as it was written or declared; `-` when there is none.
fn raw(given: &ArgMatches, arg: &Arg) -> String {
    let id = arg.get_id().as_str();
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        return given.get_flag(id).to_string();
    }
    let values: Vec<String> =
        given.get_raw(id).into_iter().flatten().map(|value| value.to_string_lossy().into_owned()).collect();
    if values.is_empty() { "-".to_owned() } else { values.join(" ") }
}

impl Serve {
    /// Values that are worked out instead of read.
    fn computed(&self, id: &str) -> Option<String> {
        match id {
            "app" => Some(self.app().unwrap_or("-").to_owned()),
            "listen" => {
                Some(self.listen.listeners().iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
            }
            "hsts" => Some(self.tls.hsts.map_or_else(|| "-".to_owned(), |time| time.to_string())),
            "workers" => Some(self.workers.count().to_string()),
            "host" => Some(self.listen.host.clone().unwrap_or_else(|| "-".to_owned())),
            "port" => Some(self.listen.port.map_or_else(|| "-".to_owned(), |port| port.to_string())),
            _ => None,
        }
    }

    /// Corrects the origin of those.
    fn name_origins(&self, given: &ArgMatches, rows: &mut [Setting]) {
        let argument = given.value_source("app_file") == Some(ValueSource::CommandLine);
        let plack_env = std::env::var("PLACK_ENV").is_ok_and(|name| name == self.app.env);
        for row in rows {
            match (row.name.as_str(), row.origin.as_str()) {
                ("app", _) if argument => row.origin = "command line".to_owned(),
                ("env", "default") if plack_env => row.origin = "PLACK_ENV".to_owned(),
                ("workers", "default") => row.origin = format!("default, CPUs granted: {}", workers::cpus()),
                _ => {}
            }
        }
    }
}
