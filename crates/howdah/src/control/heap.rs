//! `howdah heap`: asks for the heap of a worker, gets it as a file without a name, and writes it where it is wanted. What is in
//! the file comes from the worker: it is copied within bounds, into a file of one's own that was not there before, and that has
//! its name once it is whole, however the command ends.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::bail;
use rustix::fs::{AtFlags, CWD, OFlags, linkat};

use super::client;
use super::fetch::{copy, fetch_file};
use crate::directory;
use crate::log;
use crate::options::find::{Form, Heap};
use crate::protocol::{ControlAnswer, ControlRequest};
use crate::shortage::start_thread;

/// Time after which it is told why there is no answer yet.
const LONG: Duration = Duration::from_secs(3);

/// Asks, and writes the file or prints the answer.
pub(crate) fn run(heap: &Heap) -> anyhow::Result<ExitCode> {
    let request = ControlRequest::Heap(heap.wish());
    // Where there can be no thread, nobody is told.
    let _ = start_thread(tell_what_takes_long);
    if heap.why.is_some() {
        return client::run(&heap.instance, &request, Form::json_if(heap.json));
    }
    let path = heap.output.clone().unwrap_or_else(default_path);
    let mut file = Nameless::create(&path)?;
    let (worker, bytes) = fetch(heap, &request, (&path, &mut file.file))?;
    file.keep()?;
    let shown = path.display();
    client::print(&format!(
        "the heap of {worker} is in {shown}, {bytes} bytes: look at it by pmat {shown}\n"
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// A worker may be at a request for minutes, and whoever asks sees nothing of that. It ends with the command.
fn tell_what_takes_long() {
    thread::sleep(LONG);
    log::say(
        "this takes a while: a worker comes to it between two requests (howdah where tells what it does), and a large heap \
         takes its time; Ctrl-C gives up",
    );
}

/// In the working directory.
fn default_path() -> PathBuf {
    format!(
        "howdah-{}.pmat",
        jiff::Timestamp::now().to_zoned(howdah_accesslog::local_zone()).strftime("%Y%m%d-%H%M%S")
    )
    .into()
}

/// A file that is to have a name. Dropped before, it is gone.
struct Nameless<'a> {
    file: File,
    path: &'a Path,
    /// Where the file system knows no files without names.
    named: bool,
}

impl<'a> Nameless<'a> {
    fn create(path: &'a Path) -> anyhow::Result<Self> {
        let tmpfile = OFlags::TMPFILE.bits().cast_signed();
        let mut options = OpenOptions::new();
        options.write(true).mode(0o600);
        let made = match path.symlink_metadata() {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) => {
                options.clone().custom_flags(tmpfile).open(directory::of(path)).map(|file| (file, false))
            }
        };
        let made = made.or_else(|_| Ok((options.create_new(true).open(path)?, true)));
        let (file, named) = made.map_err(|error| refused(path, error))?;
        Ok(Self { file, path, named })
    }

    fn keep(mut self) -> anyhow::Result<()> {
        if !self.named {
            let shown = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            linkat(CWD, shown, CWD, self.path, AtFlags::SYMLINK_FOLLOW)
                .map_err(|error| refused(self.path, error.into()))?;
        }
        self.named = false;
        Ok(())
    }
}

impl Drop for Nameless<'_> {
    fn drop(&mut self) {
        if self.named {
            let _ = std::fs::remove_file(self.path);
        }
    }
}

fn refused(path: &Path, error: io::Error) -> anyhow::Error {
    anyhow::Error::from(error)
        .context(format!("cannot make {}: name another file by --output", path.display()))
}

/// Whose heap it is, and how many bytes.
fn fetch(heap: &Heap, request: &ControlRequest, file: (&Path, &mut File)) -> anyhow::Result<(String, u64)> {
    match fetch_file(&heap.instance, request)? {
        (ControlAnswer::Heap(worker), sent) => Ok((worker, copy(&sent, file, heap.max_size.0)?)),
        _ => bail!("the server has sent another file"),
    }
}
