//! `howdah profile --nytprof`: has one more worker run under Devel::NYTProf for a while, and writes what that has found into a file.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use serde::Serialize;

use super::fetch::fetch_file;
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
    let mut name = options.output.clone().into_os_string();
    name.push(".nytprof");
    let path = PathBuf::from(name);
    let (mut file, before) = open(&path)?;
    match fetch_file(&options.whose.instance, &request, (&path, &mut file), MOST) {
        Ok((ControlAnswer::Profiled(about), bytes)) => report(options, path, bytes, about),
        outcome => {
            // An earlier profile stays as it was where there is no new one.
            if before == 0 || file.metadata().is_ok_and(|about| about.len() != before) {
                let _ = std::fs::remove_file(&path);
            }
            outcome.and_then(|_| bail!("the server has sent another file"))
        }
    }
}

/// For nobody else: the sources of the application are in it. Says how long it was before.
fn open(path: &Path) -> anyhow::Result<(File, u64)> {
    let opened = || {
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        let before = file.metadata()?.len();
        Ok::<_, io::Error>((file, before))
    };
    opened().with_context(|| format!("cannot write {}: name another by --output", path.display()))
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
