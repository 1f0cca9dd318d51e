//! Gets a file that a worker has made, beside the server's answer (`SCM_RIGHTS`): it is copied within bounds into a file of one's own.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, bail};

use super::find::reach;
use super::look::look;
use crate::options::instance::Instance;
use crate::output::cannot_write;
use crate::protocol::{ControlAnswer, ControlRequest};

/// Bytes of an answer.
const LONGEST: usize = 16 * 1024;

/// The answer, and what was made.
///
/// # Errors
/// When there is no file.
pub(super) fn fetch_file(
    instance: &Instance,
    request: &ControlRequest,
) -> anyhow::Result<(ControlAnswer, File)> {
    let (path, mut server) = reach(instance)?;
    look(&path)?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    let _ = server.get_mut().write_all(&line);
    let (answer, sent) =
        hear(&server).with_context(|| format!("the server at {} does not answer", path.display()))?;
    match (answer, sent) {
        (ControlAnswer::Failed(reason), _) => bail!("{reason}"),
        (answer, Some(sent)) if sent.metadata()?.is_file() => Ok((answer, sent)),
        (_, Some(_)) => bail!("the worker has sent something that is no file"),
        (_, None) => bail!("the server has sent no file"),
    }
}

/// An answer, and what came with it.
fn hear(server: &BufReader<UnixStream>) -> anyhow::Result<(ControlAnswer, Option<File>)> {
    let mut bytes = vec![0; LONGEST];
    let (length, fds) = howdah_sys::recv_with_fds(server.get_ref(), &mut bytes)?;
    let answer = serde_json::from_slice(&bytes[..length]).context("it is no answer")?;
    Ok((answer, fds.into_iter().next().map(File::from)))
}

/// From its start, wherever the worker has left off, `most` bytes at most, to the file that is called so. How many that were.
///
/// # Errors
/// When it is longer, or cannot be written.
pub(super) fn copy(from: &File, (name, to): (&Path, &mut File), most: u64) -> anyhow::Result<u64> {
    let whole = from.metadata()?.len();
    io::Seek::rewind(&mut &*from)?;
    to.set_len(0)?;
    let bytes = io::copy(&mut from.take(most), to).with_context(|| cannot_write(name))?;
    if bytes < whole {
        bail!("it is {whole} bytes long: see --max-size");
    }
    Ok(bytes)
}
