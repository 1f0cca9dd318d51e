//! `howdah where`: what each worker of a server does now.

use std::io;
use std::process::ExitCode;

use anyhow::bail;
use howdah_peek::{Sighting, Worker};
use serde::Serialize;

use super::refusal::{explain, is_gone};
use super::scripts::Script;
use super::workers::{Known, NO_WORKER, choose};
use crate::control::look::{find_server, look_from_here};
use crate::options::inside::Where;
use crate::output;

/// A worker, and what it does.
#[derive(Debug, Serialize)]
struct Seen {
    pool: String,
    worker: u32,
    pid: u32,
    generation: u32,
    #[serde(skip)]
    behind_response: bool,
    #[serde(flatten)]
    sighting: Sighting,
}

/// All of them.
#[derive(Debug, Serialize)]
struct Answer {
    workers: Vec<Seen>,
    /// Those that run CGI scripts, and what that is.
    scripts: Vec<Script>,
    /// Those that could not be looked at, and why.
    refused: Vec<String>,
}

/// Looks and prints.
pub(crate) fn run(options: &Where) -> anyhow::Result<ExitCode> {
    let snapshot = look_from_here(&find_server(&options.whose.instance)?)?;
    let mut answer = Answer { workers: Vec::new(), scripts: Vec::new(), refused: Vec::new() };
    for known in choose(&snapshot, &options.whose)? {
        if known.is_of_host() {
            answer.scripts.push(Script::of(&known));
            continue;
        }
        match see(&known) {
            Ok(seen) => answer.workers.push(seen),
            Err(error) if is_gone(&error) => {}
            Err(error) => answer.refused.push(explain(known.pid, &error)),
        }
    }
    match (&answer.workers[..], &answer.refused[..]) {
        ([], [reason, ..]) if answer.scripts.is_empty() => bail!("{reason}"),
        ([], []) if answer.scripts.is_empty() => {
            bail!("{NO_WORKER}")
        }
        _ => {}
    }
    let text = if options.json {
        serde_json::to_string(&answer)? + "\n"
    } else {
        render(&answer, snapshot.has_several_pools())
    };
    output::write(text)?;
    Ok(ExitCode::SUCCESS)
}

fn see(known: &Known) -> io::Result<Seen> {
    let mut worker = Worker::open(known.pid)?;
    Ok(Seen {
        pool: known.pool.clone(),
        worker: known.index,
        pid: known.pid,
        generation: known.generation,
        behind_response: known.behind_response,
        sighting: Sighting::of(&mut worker)?,
    })
}

/// What subs and requests are called comes from others: nothing of it goes to the terminal but text.
fn render(answer: &Answer, pools: bool) -> String {
    let mut text = String::new();
    for seen in &answer.workers {
        let pool = if pools { format!(" of {}", seen.pool) } else { String::new() };
        let request = match &seen.sighting.request {
            Some(request) => {
                format!("{} {}, for {:.3} s", request.method, request.target, seen.sighting.seconds)
            }
            None if seen.behind_response => "after its response".to_owned(),
            None => "no request".to_owned(),
        };
        text += &format!(
            "worker {}{pool}, process {}, generation {}: {request}\n",
            seen.worker, seen.pid, seen.generation
        );
        text += &seen.sighting.lines();
    }
    text += &answer.scripts.iter().map(Script::lines).collect::<String>();
    for reason in &answer.refused {
        text += &format!("{reason}\n");
    }
    output::for_people(&text)
}
