//! What a server says to whoever has started it. `serve` calls it when requests are welcome.

use std::io::{self, IsTerminal};

use crate::endpoints::Endpoints;
use crate::log;
use crate::options::Serve;
use crate::options::pools::Pool;

/// Says that requests are welcome, where, and what to try next.
pub(crate) fn announce(options: &Serve, endpoints: &Endpoints) {
    let pools = options.pools();
    let name = options.application();
    // Without an application that has all that is mounted nowhere, there are only others.
    let (first, others) = if options.has_first() { pools.split_at(1) } else { (&pools[..], &pools[..]) };
    for listener in endpoints.listeners() {
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
    for listener in endpoints.pages() {
        log::announce(&format!("{} on {}", pages.join(" "), listener.shown()));
    }
    // An application is named after its place, which bears a slash at the end only as the root.
    let path = format!("{}/{}", pools[0].name.trim_end_matches('/'), script(&pools[0]));
    if let Some(first) = endpoints.listeners().find(|listener| !listener.redirects()) {
        let id = std::process::id();
        let stop = match options.process.daemonize || !has_terminal() {
            true => format!("kill {id}"),
            false => "Ctrl-C".to_owned(),
        };
        let reload = match options.loaded_by_plackup() {
            true => String::new(),
            false => format!(", reload with kill -HUP {id}"),
        };
        log::announce(&format!("try  curl {}   stop with {stop}{reload}", request(&first.url, &path)));
    }
}

/// What is to be asked for below the place: a directory of scripts is refused, so one of them, whatever it is called.
fn script(pool: &Pool) -> &'static str {
    match &pool.cgi {
        Some(scripts) if scripts.index.is_empty() && scripts.root.is_dir() => "SCRIPT",
        _ => "",
    }
}

/// Whether somebody can press Ctrl-C: a service manager has nobody there.
fn has_terminal() -> bool {
    io::stdin().is_terminal() || io::stderr().is_terminal()
}

/// What curl is to be called with, as a shell reads it.
fn request(listener: &str, path: &str) -> String {
    let path = encoded(path);
    match listener.strip_prefix("unix:") {
        Some(socket) => match socket.strip_prefix('@') {
            Some(name) => format!("--abstract-unix-socket {} http://localhost{path}", quoted(name)),
            None => format!("--unix-socket {} http://localhost{path}", quoted(socket)),
        },
        None => {
            let insecure = if listener.starts_with("https:") { "-k " } else { "" };
            format!("{insecure}{}", quoted(&format!("{listener}{path}")))
        }
    }
}

/// As it stands in a URL. What is left means nothing to a shell.
fn encoded(path: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(byte);
    path.bytes()
        .map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._:@%+=,".contains(&byte);
    match word.bytes().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

fn crew(pools: &[Pool]) -> String {
    let workers: u32 = pools.iter().map(|pool| pool.workers.count()).sum();
    format!("{workers} worker{}", if workers == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_tried_works_in_a_shell() {
        for (listener, path, line) in [
            ("http://127.0.0.1:5000", "/", "http://127.0.0.1:5000/"),
            ("https://[::1]:443", "/a/", "-k 'https://[::1]:443/a/'"),
            ("http://127.0.0.1:80", "/a b/\u{e9}&'/", "http://127.0.0.1:80/a%20b/%C3%A9%26%27/"),
            ("unix:/run/app.sock", "/", "--unix-socket /run/app.sock http://localhost/"),
            ("unix:/run/it's here", "/", r"--unix-socket '/run/it'\''s here' http://localhost/"),
            ("unix:@a$b", "/", "--abstract-unix-socket 'a$b' http://localhost/"),
        ] {
            assert_eq!(request(listener, path), line);
        }
    }
}
