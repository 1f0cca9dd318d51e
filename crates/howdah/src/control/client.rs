//! `howdah status`, `reload`, `reopen`, `upgrade`, `stop` and `workers`: ask a running server, print what it says, and tell by the
//! exit status whether it could be done.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};

use super::place::path_of;
use super::protocol::{Answer, Request};
use super::table;
use crate::options::instance::Instance;

/// Time for a snapshot, which needs nobody.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks and prints.
pub(crate) fn run(instance: &Instance, request: Request, json: bool) -> anyhow::Result<ExitCode> {
    let path = path_of(instance)?;
    let mut server = connect(&path)?;
    let answer = ask(&mut server, &path, request)?;
    if matches!((request, &answer), (Request::Stop { .. }, Answer::Done(_))) {
        return wait_for_the_end(server);
    }
    match answer {
        Answer::Failed(reason) => bail!("{reason}"),
        Answer::Done(message) => print(&format!("{message}\n"))?,
        Answer::Status(status) if json => print(&format!("{}\n", serde_json::to_string(&status)?))?,
        Answer::Snapshot(document) => print(&format!("{document}\n"))?,
        Answer::Status(status) => print(&table::render(&status))?,
    }
    Ok(ExitCode::SUCCESS)
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

fn connect(path: &Path) -> anyhow::Result<BufReader<UnixStream>> {
    let shown = path.display();
    UnixStream::connect(path).map(BufReader::new).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            anyhow!("no server answers at {shown}: name one by --name, or its control socket by --control")
        }
        io::ErrorKind::PermissionDenied => {
            anyhow!(
                "the control socket {shown} is not yours: ask as root or as the user that the server runs as"
            )
        }
        _ => anyhow!("cannot use the control socket {shown}: {error}"),
    })
}

fn hear(server: &mut impl BufRead, path: &Path) -> anyhow::Result<Answer> {
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

/// A reader that has seen enough (`howdah status | head`) is no failure.
fn print(text: &str) -> io::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}
