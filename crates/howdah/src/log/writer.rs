//! The thread that writes the error log to standard error. It alone may hang there: behind the pipe to a pager that is
//! stopped, or a disk that does not answer.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use howdah_accesslog::{Pending, append_to, write_lines};

use super::look::rendered;
use super::queue::{Batch, Queue};
use crate::options::logs::Level;

/// Before there is a thread, whoever says something waits so long for standard error.
const PATIENCE: Duration = Duration::from_secs(1);

/// The thread, and what it has in its hands.
pub(super) struct Writer {
    queue: &'static Queue,
    /// When the log goes to one.
    file: Option<&'static Path>,
    pending: Pending,
    /// Why it could not be written, when the last attempt failed.
    trouble: Option<io::Error>,
}

impl Writer {
    /// Starts the thread, which lives as long as the process.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn start(queue: &'static Queue, file: Option<&'static Path>) -> io::Result<()> {
        let writer = Self { queue, file, pending: Pending::default(), trouble: None };
        std::thread::Builder::new().name("log-writer".into()).spawn(|| writer.run())?;
        queue.serve();
        Ok(())
    }

    fn run(mut self) {
        loop {
            if self.pending.is_done() {
                self.begin(self.queue.take());
            }
            self.reopen_if_asked();
            if !self.pending.is_done() {
                self.write_some();
            }
        }
    }

    /// Lines that are lost come behind the text: that is where they would stand.
    fn begin(&mut self, Batch { mut text, lost }: Batch) {
        let trouble = self.trouble.take();
        if lost > 0 {
            let lines = if lost == 1 { "line" } else { "lines" };
            let why = trouble.map_or("they were not taken in time".to_owned(), |error| error.to_string());
            let gap = format!("{lost} {lines} of this log are lost: {why}");
            text.extend_from_slice(&rendered(Level::Error, gap.as_bytes()));
        }
        self.pending = Pending::new(text);
    }

    fn write_some(&mut self) {
        match write_lines(io::stderr().as_fd(), self.pending.rest()) {
            Ok(length) => {
                self.pending.advance(length);
                self.queue.tell_written(None);
            }
            Err(error) if is_passing(&error) => {}
            Err(error) => {
                self.queue.tell_written(Some(error.to_string()));
                self.trouble = Some(error);
                self.queue.pause();
            }
        }
    }

    /// What the old file has not taken goes to the new one, from the beginning of its line.
    fn reopen_if_asked(&mut self) {
        let reopeners = self.queue.reopeners();
        let (Some(file), false) = (self.file, reopeners.is_empty()) else { return };
        let outcome = open(file).map_err(|error| error.to_string());
        match &outcome {
            Ok(()) => self.pending.rewind(),
            Err(error) => {
                let file = file.display();
                let text = format!("cannot open the error log {file} anew: {error}; the old one goes on");
                self.queue.offer(&rendered(Level::Error, text.as_bytes()));
            }
        }
        self.queue.tell_reopened(outcome.clone().err());
        for reopener in reopeners {
            // Most do not wait for it.
            let _ = reopener.try_send(outcome.clone());
        }
    }
}

/// Makes the file standard error.
pub(super) fn open(path: &Path) -> io::Result<()> {
    let log: File = append_to(path)?;
    Ok(rustix::stdio::dup2_stderr(&log)?)
}

/// Writes lines without a thread, as far as they are taken in time.
pub(super) fn write_directly(out: impl AsFd, lines: &[u8]) {
    let end = Instant::now() + PATIENCE;
    let mut pending = Pending::new(lines.to_vec());
    while !pending.is_done() && Instant::now() < end {
        match write_lines(out.as_fd(), pending.rest()) {
            Ok(length) => {
                pending.advance(length);
            }
            Err(error) if is_passing(&error) => {}
            // Nobody is left to be told.
            Err(_) => return,
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock)
}
