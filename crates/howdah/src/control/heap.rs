//! `howdah heap`: asks for the heap of a worker, gets it as a file without a name, and writes it where it is wanted. What is in
//! the file comes from the worker: it is copied within bounds, into a file of one's own that was not there before.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};

use super::client;
use super::find::reach;
use crate::options::find::{Form, Heap};
use crate::protocol::{ControlAnswer, ControlRequest};

/// Bytes of an answer.
const LONGEST: usize = 16 * 1024;

/// Asks, and writes the file or prints the answer.
pub(crate) fn run(heap: &Heap) -> anyhow::Result<ExitCode> {
    let request = ControlRequest::Heap(heap.wish());
    if heap.why.is_some() {
        return client::run(&heap.instance, &request, Form::json_if(heap.json));
    }
    let path = heap.output.clone().unwrap_or_else(default_path);
    let mut file = create(&path)?;
    let outcome = fetch(heap, &request, &mut file);
    let Ok((worker, bytes)) = outcome else {
        let _ = std::fs::remove_file(&path);
        return outcome.map(|_| ExitCode::FAILURE);
    };
    let shown = path.display();
    client::print(&format!(
        "the heap of {worker} is in {shown}, {bytes} bytes: look at it by pmat {shown}\n"
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// In the working directory.
fn default_path() -> PathBuf {
    format!("howdah-{}.pmat", jiff::Zoned::now().strftime("%Y%m%d-%H%M%S")).into()
}

fn create(path: &Path) -> anyhow::Result<File> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    made.with_context(|| format!("cannot make {}: name another file by --output", path.display()))
}

/// Whose heap it is, and how many bytes.
fn fetch(heap: &Heap, request: &ControlRequest, file: &mut File) -> anyhow::Result<(String, u64)> {
    let (path, mut server) = reach(&heap.instance)?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    let _ = server.get_mut().write_all(&line);
    let (answer, sent) =
        hear(&server).with_context(|| format!("the server at {} does not answer", path.display()))?;
    match (answer, sent) {
        (ControlAnswer::Heap(worker), Some(sent)) => Ok((worker, copy(&sent, file, heap.max_size.0)?)),
        (ControlAnswer::Failed(reason), _) => bail!("{reason}"),
        _ => bail!("the server has sent no file"),
    }
}

/// An answer, and what came with it.
fn hear(server: &BufReader<UnixStream>) -> anyhow::Result<(ControlAnswer, Option<File>)> {
    let mut bytes = vec![0; LONGEST];
    let (length, fds) = howdah_sys::recv_with_fds(server.get_ref(), &mut bytes)?;
    let answer = serde_json::from_slice(&bytes[..length]).context("it is no answer")?;
    Ok((answer, fds.into_iter().next().map(File::from)))
}

/// From its start, wherever the worker has left off.
fn copy(from: &File, to: &mut File, most: u64) -> anyhow::Result<u64> {
    let about = from.metadata()?;
    if !about.is_file() {
        bail!("the worker has sent something that is no file");
    }
    io::Seek::rewind(&mut &*from)?;
    let bytes = io::copy(&mut from.take(most), to).context("cannot write it")?;
    if bytes < about.len() {
        bail!("it is {} bytes long: see --max-size", about.len());
    }
    Ok(bytes)
}
