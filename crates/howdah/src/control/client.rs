//! `howdah status`, `reload`, `reopen`, `upgrade`, `stop` and `workers`: ask a running server, print what it says, and tell by the
//! exit status whether it could be done.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use howdah_metrics::printable;

use super::find::{self, Found, Server, reach};
use super::protocol::{Answer, Request};
use super::{list, table};
use crate::options::instance::Instance;

/// Time for a snapshot, which needs nobody.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks and prints.
pub(crate) fn run(instance: &Instance, request: Request, json: bool) -> anyhow::Result<ExitCode> {
    if matches!(request, Request::Status) && !instance.is_explicit() {
        return survey(json);
    }
    let (path, mut server) = reach(instance)?;
    let answer = ask(&mut server, &path, request)?;
    if matches!((request, &answer), (Request::Stop { .. }, Answer::Done(_))) {
        return wait_for_the_end(server);
    }
    match answer {
        Answer::Failed(reason) => bail!("{reason}"),
        Answer::Done(message) => print(&format!("{message}\n"))?,
        Answer::Status(status) if json => write(&format!("{}\n", serde_json::to_string(&status)?))?,
        Answer::Snapshot(document) => write(&format!("{document}\n"))?,
        Answer::Status(status) => print(&table::render(&status))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the state of all servers: of a single one all, of several a line each.
fn survey(json: bool) -> anyhow::Result<ExitCode> {
    let servers = find::servers();
    match &servers[..] {
        [] => bail!(
            "no server runs on this machine, or none that can be found: name the control socket of one by --control"
        ),
        all if json => write(&all.iter().filter_map(line_of).collect::<String>())?,
        [Found { server: Server::Known(status), .. }] => print(&table::render(status))?,
        several => print(&list::render(several))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn line_of(found: &Found) -> Option<String> {
    let Server::Known(status) = &found.server else { return None };
    serde_json::to_string(status).ok().map(|line| format!("{line}\n"))
}

/// Where the server of `instance` answers.
///
/// # Errors
/// When none does, with the way out.
pub(crate) fn locate(instance: &Instance) -> anyhow::Result<PathBuf> {
    reach(instance).map(|(path, _)| path)
}

/// All that the server at `path` knows of itself, for those who look often.
pub(crate) fn snapshot(path: &Path) -> anyhow::Result<serde_json::Value> {
    let mut server = connect(path)?;
    server.get_ref().set_read_timeout(Some(PATIENCE))?;
    match ask(&mut server, path, Request::Snapshot)? {
        Answer::Snapshot(document) => Ok(document),
        Answer::Failed(reason) => bail!("{reason}"),
        Answer::Done(_) | Answer::Status(_) => bail!("the server is of another version than this program"),
    }
}

fn ask(server: &mut BufReader<UnixStream>, path: &Path, request: Request) -> anyhow::Result<Answer> {
    let mut line = serde_json::to_vec(&request)?;
    line.push(b'\n');
    // A server that refuses us may have hung up already, but not without a word.
    let _ = server.get_mut().write_all(&line);
    hear(server, path)
}

/// Connects to a control socket.
///
/// # Errors
/// When nobody answers there, or not to us: with the way out.
pub(super) fn connect(path: &Path) -> anyhow::Result<BufReader<UnixStream>> {
    let shown = path.display();
    UnixStream::connect(path).map(BufReader::new).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            anyhow!(
                "no server answers at {shown}: name one by --name, or its control socket by --control; howdah status lists \
                 those that run"
            )
        }
        io::ErrorKind::PermissionDenied => {
            anyhow!(
                "the control socket {shown} is not yours: ask as root or as the user that the server runs as"
            )
        }
        _ => anyhow!("cannot use the control socket {shown}: {error}"),
    })
}

/// Reads an answer.
///
/// # Errors
/// When none comes, or none that we understand.
pub(super) fn hear(server: &mut impl BufRead, path: &Path) -> anyhow::Result<Answer> {
    let mut line = String::new();
    let read = server.read_line(&mut line);
    if matches!(&read, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
        bail!("the server at {} does not answer", path.display());
    }
    if read.is_err() || line.is_empty() {
        bail!("the server at {} ended before it answered; its log may tell why", path.display());
    }
    serde_json::from_str(&line).with_context(|| format!("cannot understand the server: {}", line.trim_end()))
}

/// The server keeps the connection until it is gone.
fn wait_for_the_end(mut server: impl BufRead) -> anyhow::Result<ExitCode> {
    let _ = server.read_line(&mut String::new());
    print("stopped\n")?;
    Ok(ExitCode::SUCCESS)
}

/// Prints for people. What a server says may come from others, so that nothing of it goes to the terminal but text.
fn print(text: &str) -> io::Result<()> {
    write(&text.lines().map(|line| printable(line.as_bytes()) + "\n").collect::<String>())
}

/// A reader that has seen enough (`howdah status | head`) is no failure.
fn write(text: &str) -> io::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}
