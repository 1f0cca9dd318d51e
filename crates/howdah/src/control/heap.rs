//! `howdah heap`: asks for the heap of a worker, gets it as a file without a name, and writes it where it is wanted. What is in
//! the file comes from the worker: it is copied within bounds, into a file of one's own that was not there before.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};

use super::client;
use super::fetch::fetch_file;
use crate::options::find::{Form, Heap};
use crate::protocol::{ControlAnswer, ControlRequest};

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
    match fetch_file(&heap.instance, request, file, heap.max_size.0)? {
        (ControlAnswer::Heap(worker), bytes) => Ok((worker, bytes)),
        _ => bail!("the server has sent another file"),
    }
}
