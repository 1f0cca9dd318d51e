//! `howdah profile --nytprof`: has one more worker run under Devel::NYTProf for a while, and writes what that has found into a file.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use howdah_accesslog::open_to_write;
use rustix::fs::OFlags;
use serde::Serialize;

use super::fetch::{copy, fetch_file};
use crate::options::inside::Profile;
use crate::output;
use crate::protocol::{ControlAnswer, ControlRequest, NytprofWish, Profiled};

/// Bytes of a file.
const MOST: u64 = 16 << 30;

/// For programs.
#[derive(Debug, Serialize)]
struct Written {
    file: PathBuf,
    bytes: u64,
    worker: String,
    requests: u64,
}

/// Asks, waits, and writes the file.
pub(crate) fn run(options: &Profile) -> anyhow::Result<ExitCode> {
    let Some(time) = options.seconds.limit() else {
        bail!("--nytprof needs an end: say by --seconds for how long")
    };
    let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let request = ControlRequest::Nytprof(NytprofWish { pool: options.whose.pool.clone(), milliseconds });
    let path = options.file(".nytprof");
    output::check_file(&path)?;
    match fetch_file(&options.whose.instance, &request)? {
        (ControlAnswer::Profiled(about), sent) => {
            let bytes = keep(&path, &sent)?;
            report(options, path, bytes, about)
        }
        _ => bail!("the server has sent another file"),
    }
}

/// For nobody else: the sources of the application are in it. What cannot be written whole is not left behind.
fn keep(path: &Path, sent: &File) -> anyhow::Result<u64> {
    let opened = || {
        let file = open_to_write(path, OFlags::CREATE, 0o600)?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        Ok::<_, io::Error>(file)
    };
    let mut file = opened().with_context(|| output::cannot_write(path))?;
    copy(sent, (path, &mut file), MOST).inspect_err(|_| drop(fs::remove_file(path)))
}

fn report(options: &Profile, file: PathBuf, bytes: u64, about: Profiled) -> anyhow::Result<ExitCode> {
    let written = Written { file, bytes, worker: about.worker, requests: about.requests };
    let text = if options.json {
        serde_json::to_string(&written)? + "\n"
    } else {
        let Written { file, bytes, worker, requests } = &written;
        let shown = file.display();
        let text = format!(
            "{worker} has served {requests} requests under Devel::NYTProf, and is gone\n\
             written: {shown}, {bytes} bytes: look at it by nytprofhtml --file {shown}\n"
        );
        output::for_people(&text)
    };
    output::write(text)?;
    Ok(ExitCode::SUCCESS)
}
