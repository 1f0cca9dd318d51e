//! `howdah profile`: where the time of a server's workers goes.
//!
//! It looks at the workers so many times a second, from here; a thread beside it asks the server every now and then who
//! its workers are, since they come and go. When the time is over, at Ctrl-C, or when the server is gone, it tells what it has.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use howdah_accesslog::open_to_write;
use howdah_peek::{Filter, Sampler, Table, flame_graph, folded, speedscope};
use rustix::fs::OFlags;

use super::refusal::{explain, is_gone};
use super::scripts::NO_PERL;
use super::workers::{Known, NO_WORKER, choose};
use crate::control::look::{find_server, look_from_here};
use crate::options::inside::{Profile, Whose};
use crate::output;
use crate::over::over_after;
use crate::shortage::start_thread;

/// Between two questions who the workers are.
const REFRESH: Duration = Duration::from_millis(500);

/// Looks, writes and prints.
pub(crate) fn run(options: &Profile) -> anyhow::Result<ExitCode> {
    let path = find_server(&options.whose.instance)?;
    let snapshot = look_from_here(&path)?;
    let title = format!("{}: {}", snapshot.server.instance, options.what());
    let filter = Filter { route: options.route.clone(), cpu: options.cpu };
    let mut sampler = Sampler::new(filter);
    let known = choose(&snapshot, &options.whose)?;
    if known.is_empty() {
        bail!("{NO_WORKER}");
    }
    if known.iter().all(Known::is_of_host) {
        bail!("{NO_PERL}");
    }
    let refused = attend(&mut sampler, &known);
    if let (0, Some(reason)) = (sampler.workers, refused.first()) {
        bail!("{reason}");
    }
    let roster = follow(path, options.whose.clone())?;
    let files: Vec<PathBuf> =
        [".svg", ".folded", ".speedscope.json"].map(|ending| options.file(ending)).into();
    files.iter().try_for_each(|file| output::check_file(file))?;
    sample(&mut sampler, &roster, options)?;
    let written = write(&sampler, files, &title);
    report(&sampler, written.as_deref().unwrap_or_default(), options.json)?;
    // What was seen is told in any case.
    written.map(|_| ExitCode::SUCCESS)
}

/// The workers as they are now; returns why some cannot be looked at.
fn attend(sampler: &mut Sampler, known: &[Known]) -> Vec<String> {
    let pids: Vec<u32> = known.iter().filter(|known| !known.is_of_host()).map(|known| known.pid).collect();
    let refused = sampler.attend(&pids);
    refused.iter().filter(|(_, error)| !is_gone(error)).map(|(pid, error)| explain(*pid, error)).collect()
}

/// Tells the workers every now and then, until nobody listens or the server is gone.
fn follow(path: PathBuf, whose: Whose) -> anyhow::Result<Receiver<Vec<Known>>> {
    let (roster, news) = sync_channel(1);
    start_thread(move || tell_workers(&path, &whose, &roster))?;
    Ok(news)
}

fn tell_workers(path: &Path, whose: &Whose, roster: &SyncSender<Vec<Known>>) {
    loop {
        thread::sleep(REFRESH);
        let Ok(snapshot) = look_from_here(path) else { return };
        // One that is meant may be away for a moment.
        let known = choose(&snapshot, whose).unwrap_or_default();
        if roster.send(known).is_err() {
            return;
        }
    }
}

fn sample(sampler: &mut Sampler, roster: &Receiver<Vec<Known>>, options: &Profile) -> anyhow::Result<()> {
    let step = Duration::from_secs(1) / options.hz;
    let over = over_after(options.seconds.limit())?;
    let mut due = Instant::now();
    while !over.load(Relaxed) {
        match roster.try_recv() {
            Ok(known) => drop(attend(sampler, &known)),
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => break,
        }
        sampler.look();
        // What was missed is not made up for: a look stands for the time since the last one.
        due = (due + step).max(Instant::now());
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

/// What earlier ones have left stays until there is a new one.
fn write(sampler: &Sampler, files: Vec<PathBuf>, title: &str) -> anyhow::Result<Vec<PathBuf>> {
    let tally = &sampler.tally;
    let texts = [flame_graph(tally, title), folded(tally), speedscope(tally, title)?];
    for (file, text) in files.iter().zip(texts) {
        put(file, &text).with_context(|| output::cannot_write(file))?;
    }
    Ok(files)
}

/// What cannot be written whole is not left behind.
fn put(path: &Path, text: &str) -> io::Result<()> {
    let written = open_to_write(path, OFlags::CREATE | OFlags::TRUNC, 0o666)?.write_all(text.as_bytes());
    written.inspect_err(|_| drop(fs::remove_file(path)))
}

fn report(sampler: &Sampler, files: &[PathBuf], json: bool) -> anyhow::Result<()> {
    let table = Table::new(&sampler.tally, sampler.looks, sampler.workers);
    let text = if json {
        serde_json::to_string(&table)? + "\n"
    } else {
        let mut text = table.render();
        if !files.is_empty() {
            let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
            text += &format!("\nwritten: {}\n", names.join(" "));
        }
        // What subs are called is the application's: nothing of it goes to the terminal but text.
        output::for_people(&text)
    };
    output::write(text)?;
    Ok(())
}
