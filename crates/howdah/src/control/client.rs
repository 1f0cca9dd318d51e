//! `howdah status`, `reload`, `reopen`, `upgrade`, `stop`, `workers` and `leaks`: ask a running server, print what it says, and tell by the
//! exit status whether it could be done.

use std::io::{self, BufRead, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use howdah_metrics::{Snapshot, printable, status_page};

use super::connection::{ask, ask_within};
use super::find::{self, Found, Server, reach};
use super::look::look;
use super::{list, table};
use crate::options::find::Form;
use crate::options::instance::Instance;
use crate::options::values::Time;
use crate::output::{for_people, write};
use crate::protocol::{ControlAnswer, ControlRequest, LeaksWish};

/// Time for a first answer that needs nobody but the server's main loop.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks and prints.
pub(crate) fn run(instance: &Instance, request: &ControlRequest, form: Form) -> anyhow::Result<ExitCode> {
    if matches!(request, ControlRequest::Status) && !instance.is_explicit() {
        return survey(form == Form::Json);
    }
    let (path, mut server) = reach(instance)?;
    let stops = matches!(request, ControlRequest::Stop { .. });
    let answer = match request {
        ControlRequest::Status | ControlRequest::Stop { .. } => {
            ask_within(PATIENCE, &mut server, &path, request)?
        }
        // As long as what is asked for takes, by a server that answers at all.
        _ => {
            look(&path)?;
            announce(request);
            ask(&mut server, &path, request)?
        }
    };
    if stops && matches!(answer, ControlAnswer::Done(_)) {
        return wait_for_the_end(server);
    }
    show(answer, form)?;
    Ok(ExitCode::SUCCESS)
}

/// Whoever waits at a terminal is told for what: half a minute without a word looks like a server that hangs.
fn announce(request: &ControlRequest) {
    let ControlRequest::Leaks(LeaksWish { milliseconds, requests, .. }) = request else { return };
    if io::stderr().is_terminal() {
        let time = Time(Duration::from_millis(*milliseconds));
        let requests = requests.map_or_else(String::new, |requests| format!(", or {requests} requests"));
        eprintln!("noting what is blessed for {time}{requests}; a worker that is at a request has 10s more");
    }
}

fn show(answer: ControlAnswer, form: Form) -> anyhow::Result<()> {
    let json = form == Form::Json;
    match answer {
        ControlAnswer::Failed(reason) => bail!("{reason}"),
        ControlAnswer::Done(message) => print(&format!("{message}\n"))?,
        ControlAnswer::Status(snapshot) | ControlAnswer::Snapshot(snapshot) if json => {
            write(line(&snapshot))?;
        }
        ControlAnswer::Status(snapshot) | ControlAnswer::Snapshot(snapshot) => {
            print(&table::render(&snapshot))?;
        }
        ControlAnswer::Leaks(report) => match form {
            Form::Json => write(&(serde_json::to_string(&report)? + "\n"))?,
            Form::DevelLeakObject => print_tabs(&howdah_find::devel_leak_object(&report))?,
            Form::Text => print(&howdah_find::render(&report))?,
        },
        ControlAnswer::Why(found) if json => write(&(serde_json::to_string(&found)? + "\n"))?,
        ControlAnswer::Why(found) => print(&found.render())?,
        ControlAnswer::Heap(_) | ControlAnswer::Profiled(_) => bail!("the server has sent no file"),
    }
    Ok(())
}

/// Prints the state of all servers: of a single one all, of several a line each.
fn survey(json: bool) -> anyhow::Result<ExitCode> {
    let servers = find::servers();
    match &servers[..] {
        [] => bail!(
            "no server runs on this machine, or none that can be found: name the control socket of one by --control"
        ),
        all if json => write(all.iter().filter_map(line_of).collect::<String>())?,
        [Found { server: Server::Known(snapshot), .. }] => print(&table::render(snapshot))?,
        several => print(&list::render(several))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn line_of(found: &Found) -> Option<String> {
    let Server::Known(snapshot) = &found.server else { return None };
    Some(line(snapshot))
}

/// As the status page has it.
fn line(snapshot: &Snapshot) -> String {
    status_page(b"json", snapshot).body + "\n"
}

/// The server keeps the connection until it is gone.
fn wait_for_the_end(mut server: impl BufRead) -> anyhow::Result<ExitCode> {
    let _ = server.read_line(&mut String::new());
    print("stopped\n")?;
    Ok(ExitCode::SUCCESS)
}

/// Prints for people. What a server says may come from others, so that nothing of it goes to the terminal but text.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    write(for_people(text))
}

/// The same for a form that has tabs.
fn print_tabs(text: &str) -> anyhow::Result<()> {
    let line = |line: &str| {
        line.split('\t').map(|part| printable(part.as_bytes())).collect::<Vec<_>>().join("\t") + "\n"
    };
    write(text.lines().map(line).collect::<String>())
}
