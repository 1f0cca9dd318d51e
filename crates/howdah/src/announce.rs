//! What a server says to whoever has started it. `serve` calls it when requests are welcome.

use crate::endpoints::Endpoints;
use crate::log;
use crate::options::Serve;
use crate::options::pools::Pool;

/// Says that requests are welcome, where, and what to try next.
pub(crate) fn announce(options: &Serve, endpoints: &Endpoints) {
    let listeners = &endpoints.listeners;
    let pools = options.pools();
    let name = options.application();
    // Without an application that has all that is mounted nowhere, there are only others.
    let (first, others) = if options.has_first() { pools.split_at(1) } else { (&pools[..], &pools[..]) };
    for listener in listeners {
        let pid = std::process::id();
        if listener.redirects() {
            log::announce(&format!("sending clients of {} to https", listener.shown()));
            continue;
        }
        log::announce(&format!("serving {name} on {} with {} (pid {pid})", listener.shown(), crew(first)));
    }
    for pool in others {
        let crew = crew(std::slice::from_ref(pool));
        log::announce(&format!("serving {} at {} with {crew}", pool.application, pool.name));
    }
    let pages: Vec<String> = options.status.pages().into_iter().map(|place| place.path).collect();
    for listener in &endpoints.pages {
        log::announce(&format!("{} on {}", pages.join(" "), listener.shown()));
    }
    // An application is named after its place, which bears a slash at the end only as the root.
    let path = format!("{}/", pools[0].name.trim_end_matches('/'));
    if let Some(first) = listeners.iter().find(|listener| !listener.redirects()) {
        let insecure = if first.url.starts_with("https:") { "-k " } else { "" };
        let request = match first.url.strip_prefix("unix:") {
            Some(socket) => match socket.strip_prefix('@') {
                Some(name) => format!("--abstract-unix-socket {name} http://localhost{path}"),
                None => format!("--unix-socket {socket} http://localhost{path}"),
            },
            None => format!("{insecure}{}{path}", first.url),
        };
        let reload = match options.loaded_by_plackup() {
            true => String::new(),
            false => format!(", reload with kill -HUP {}", std::process::id()),
        };
        log::announce(&format!("try  curl {request}   stop with Ctrl-C{reload}"));
    }
}

fn crew(pools: &[Pool]) -> String {
    let workers: u32 = pools.iter().map(|pool| pool.workers.count()).sum();
    format!("{workers} worker{}", if workers == 1 { "" } else { "s" })
}
