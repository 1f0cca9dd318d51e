//! mod_status's `?auto`: the keys of httpd 2.4 in its order, for the collectors that know them.

use crate::label::ConnectionState;
use crate::number::{apache_time, local_time, put, short};
use crate::pool::{Pool, Workers};
use crate::snapshot::Snapshot;

const TIME: &str = "%A, %d-%b-%Y %H:%M:%S %Z";
/// Open slots beyond this many would only make the line long.
const MOST_SLOTS: usize = 1024;
/// No server has a worker beyond it. What another process says of itself may be anything.
const MOST_WORKERS: usize = 1 << 16;

/// Renders the page. Every key is there, also those that httpd leaves out while nothing has happened.
pub(crate) fn render(snapshot: &Snapshot) -> String {
    let mut out = String::with_capacity(2048);
    let all = snapshot.together();
    head(&mut out, snapshot, &all);
    traffic(&mut out, snapshot);
    connections(&mut out, snapshot, &all);
    put(&mut out, format_args!("Scoreboard: {}\n", scoreboard(snapshot)));
    // Keys of ours stand behind httpd's, as those of its modules do.
    key(&mut out, "CompiledTemplates", &all.templates.to_string());
    key(&mut out, "UpgradedConns", &all.upgrades.open.to_string());
    key(&mut out, "UpgradedConnsLimit", &all.upgrades.limit.to_string());
    key(&mut out, "UpgradedConnsTotal", &all.upgrades.total.to_string());
    out
}

fn head(out: &mut String, snapshot: &Snapshot, all: &Pool) {
    let (server, times) = (&snapshot.server, &snapshot.times);
    line(out, &server.host);
    key(out, "ServerVersion", &server.version);
    key(out, "ServerMPM", "howdah");
    key(out, "Server Built", &server.built);
    key(out, "CurrentTime", &local_time(times.now, TIME));
    key(out, "RestartTime", &local_time(times.started, TIME));
    key(out, "ParentServerConfigGeneration", &all.generation.to_string());
    key(out, "ParentServerMPMGeneration", &all.generation.saturating_sub(1).to_string());
    key(out, "ServerUptimeSeconds", &whole(times.uptime()));
    key(out, "ServerUptime", &apache_time(times.uptime(), " "));
    for (name, load) in ["Load1", "Load5", "Load15"].into_iter().zip(snapshot.load) {
        key(out, name, &format!("{load:.2}"));
    }
}

fn traffic(out: &mut String, snapshot: &Snapshot) {
    let (cpu, uptime) = (&snapshot.cpu_seconds, snapshot.times.uptime());
    let (requests, bytes) = (snapshot.requests.total, snapshot.requests.bytes_out);
    let millis = (snapshot.requests.duration.sum * 1000.0) as u64;
    let busy = cpu.front_user + cpu.front_system + cpu.workers_user + cpu.workers_system;
    key(out, "Total Accesses", &requests.to_string());
    key(out, "Total kBytes", &(bytes / 1024).to_string());
    key(out, "Total Duration", &millis.to_string());
    key(out, "CPUUser", &short(cpu.front_user));
    key(out, "CPUSystem", &short(cpu.front_system));
    key(out, "CPUChildrenUser", &short(cpu.workers_user));
    key(out, "CPUChildrenSystem", &short(cpu.workers_system));
    key(out, "CPULoad", &short(busy / uptime * 100.0));
    key(out, "Uptime", &whole(uptime));
    key(out, "ReqPerSec", &short(requests as f64 / uptime));
    key(out, "BytesPerSec", &short(bytes as f64 / uptime));
    key(out, "BytesPerReq", &short(bytes as f64 / requests as f64));
    key(out, "DurationPerReq", &short(millis as f64 / requests as f64));
}

fn connections(out: &mut String, snapshot: &Snapshot, all: &Pool) {
    use ConnectionState::{Closing, Idle, Reading, Writing};
    let busy = all.workers.busy();
    let conns = &snapshot.connections;
    let pairs = [
        ("BusyWorkers", busy.running()),
        ("GracefulWorkers", busy.going()),
        ("IdleWorkers", busy.idle()),
        ("Processes", all.workers.list.len() as u64),
        ("Stopping", busy.going()),
        ("ConnsTotal", conns.open),
        ("ConnsAsyncWaitIO", conns.of(&[Reading])),
        ("ConnsAsyncWriting", conns.of(&[Writing])),
        ("ConnsAsyncKeepAlive", conns.of(&[Idle])),
        ("ConnsAsyncClosing", conns.of(&[Closing])),
    ];
    for (name, value) in pairs {
        key(out, name, &value.to_string());
    }
}

/// A letter for each worker at its index, `.` where there is none; pool by pool.
pub(crate) fn scoreboard(snapshot: &Snapshot) -> String {
    snapshot.pools.iter().flat_map(|pool| letters(&pool.workers)).collect()
}

fn letters(workers: &Workers) -> Vec<char> {
    let least = workers.list.iter().map(|worker| worker.index as usize + 1).max().unwrap_or(0);
    let slots = least.max((workers.capacity as usize).min(MOST_SLOTS));
    let mut letters = vec!['.'; slots.min(MOST_WORKERS)];
    for worker in &workers.list {
        if let Some(letter) = letters.get_mut(worker.index as usize) {
            *letter = worker.state.letter();
        }
    }
    letters
}

fn key(out: &mut String, name: &str, value: &str) {
    put(out, format_args!("{name}: "));
    line(out, value);
}

/// A value is one line, whatever a configuration put into a name.
fn line(out: &mut String, value: &str) {
    out.extend(value.chars().map(|character| if character.is_control() { ' ' } else { character }));
    out.push('\n');
}

fn whole(seconds: f64) -> String {
    (seconds as u64).to_string()
}
