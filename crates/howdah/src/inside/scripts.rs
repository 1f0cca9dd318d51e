//! Workers that run CGI scripts, each in a process of its own: there is no perl of ours to look into, but it is known which script
//! it is, and for whom.

use std::fs;

use serde::Serialize;

use super::workers::Known;

/// Bytes of a command line.
const MOST: usize = 4096;

/// Why a worker of scripts cannot be looked into, and the way out.
pub(super) const NO_PERL: &str = "there is nothing to look into: it runs CGI scripts, each in a process that ends with its request. \
    howdah where tells which run now, howdah trace exec counts them, and in mode keep they can be profiled";

/// What a worker runs.
#[derive(Debug, Serialize)]
pub(super) struct Script {
    pool: String,
    worker: u32,
    generation: u32,
    /// Its process; none while it runs nothing.
    pid: Option<u32>,
    /// Method and target.
    request: Option<String>,
    seconds: f64,
    /// Its command line.
    command: Vec<String>,
}

impl Script {
    /// As the server and /proc tell it.
    pub(super) fn of(known: &Known) -> Self {
        let pid = Some(known.pid).filter(|&pid| known.host != Some(pid));
        let request = known.request.as_ref().filter(|_| pid.is_some());
        Self {
            pool: known.pool.clone(),
            worker: known.index,
            generation: known.generation,
            pid,
            request: request.map(|request| format!("{} {}", request.method, request.target)),
            seconds: request.map_or(0.0, |request| request.seconds),
            command: pid.map(command).unwrap_or_default(),
        }
    }

    /// For people.
    pub(super) fn lines(&self) -> String {
        let Self { pool, worker, generation, seconds, .. } = self;
        let Some(pid) = self.pid else {
            return format!("worker {worker} of {pool}, generation {generation}: no script\n");
        };
        let request = self.request.as_deref().unwrap_or("no request");
        format!(
            "worker {worker} of {pool}, process {pid}, generation {generation}: {request}, for {seconds:.3} s\n  runs {}\n",
            self.command.join(" ")
        )
    }
}

fn command(pid: u32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let bytes = &bytes[..bytes.len().min(MOST)];
    let words = bytes.split(|&byte| byte == 0).filter(|word| !word.is_empty());
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use howdah_metrics::RequestSeen;

    use super::*;

    #[test]
    fn a_worker_runs_a_script_or_none() {
        let own = std::process::id();
        let request =
            RequestSeen { method: "GET".into(), target: "/a".into(), seconds: 2.0, ..Default::default() };
        let known = |pid, request| Known {
            pool: "/cgi".into(),
            index: 1,
            pid,
            generation: 3,
            host: Some(7),
            request,
            behind_response: false,
        };
        let idle = Script::of(&known(7, None)).lines();
        assert_eq!(idle, "worker 1 of /cgi, generation 3: no script\n");
        let busy = Script::of(&known(own, Some(request))).lines();
        let wanted = format!("worker 1 of /cgi, process {own}, generation 3: GET /a, for 2.000 s\n  runs /");
        assert!(busy.starts_with(&wanted), "{busy}");
    }
}
