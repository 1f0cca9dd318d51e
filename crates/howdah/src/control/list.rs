//! All servers of the machine, one a line: `howdah status` without a name.

use std::path::Path;

use howdah_metrics::Snapshot;

use super::find::{Found, Server};
use super::table::{align, applications, span};

const TITLES: [&str; 9] =
    ["name", "user", "pid", "up", "workers", "queue", "application", "listening", "control"];
/// Columns of numbers.
const TO_THE_RIGHT: [&str; 4] = ["pid", "up", "workers", "queue"];

/// A table.
pub(super) fn render(servers: &[Found]) -> String {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let rows: Vec<[String; 9]> = std::iter::once(TITLES.map(str::to_owned))
        .chain(servers.iter().map(|found| cells(found, &users)))
        .collect();
    let text = align(&rows, |column| !TO_THE_RIGHT.contains(&TITLES[column]));
    format!("{text}\nhowdah status --name NAME shows one, --control PATH one that shares its name.\n")
}

fn cells(found: &Found, users: &str) -> [String; 9] {
    let user = found.owner.map_or_else(|| "?".to_owned(), |owner| user_name(owner, users));
    let [pid, up, workers, queue, application, listening] = match &found.server {
        Server::Known(snapshot) => state(snapshot),
        Server::Forbidden if found.owner.is_none_or(|owner| owner == 0) => unknown("not yours: ask as root"),
        Server::Forbidden => unknown(&format!("not yours: ask as root or {user}")),
        Server::Silent => unknown("does not answer"),
    };
    let name = found.name().unwrap_or("?").to_owned();
    [name, user, pid, up, workers, queue, application, listening, shown(&found.path)]
}

fn state(snapshot: &Snapshot) -> [String; 6] {
    let all = snapshot.together();
    [
        snapshot.server.pid.to_string(),
        span(snapshot.times.uptime()),
        all.workers.list.len().to_string(),
        all.queue.depth.to_string(),
        applications(snapshot),
        snapshot.server.listeners.join(" "),
    ]
}

fn unknown(why: &str) -> [String; 6] {
    let [pid, up, workers, queue, listening] = ["-"; 5].map(str::to_owned);
    [pid, up, workers, queue, format!("({why})"), listening]
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// As /etc/passwd has it; users from elsewhere are numbers.
fn user_name(user: u32, users: &str) -> String {
    let number = user.to_string();
    let mut lines = users.lines().map(|line| line.split(':'));
    let named = lines.find_map(|mut fields| {
        let name = fields.next()?;
        (fields.nth(1)? == number).then(|| name.to_owned())
    });
    named.unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{busy, several};

    #[test]
    fn each_server_has_a_line_whether_it_answers_or_not() {
        let found = |path: &str, owner, server| Found { path: path.into(), owner, server };
        let servers = [
            found("/run/howdah/bookshop.sock", Some(0), Server::Known(Box::new(busy()))),
            found("/run/howdah/several.sock", Some(0), Server::Known(Box::new(several()))),
            found("/tmp/howdah-7/wiki.sock", None, Server::Forbidden),
            found("/run/howdah/blog.sock", Some(0), Server::Forbidden),
            found("/srv/4.sock", Some(4_000_000_000), Server::Forbidden),
            found("/srv/control", Some(4_000_000_000), Server::Silent),
        ];
        let text = render(&servers);
        let words: Vec<String> =
            text.lines().take(7).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            words,
            [
                "name user pid up workers queue application listening control",
                "bookshop root 4100 3d04h 12 3 shop.psgi http://192.0.2.1:80 unix:/run/bookshop /run/howdah/bookshop.sock",
                "bookshop root 4100 3d04h 15 7 / shop.psgi, /wiki wiki.psgi http://192.0.2.1:80 unix:/run/bookshop \
                 /run/howdah/several.sock",
                "wiki ? - - - - (not yours: ask as root) - /tmp/howdah-7/wiki.sock",
                "blog root - - - - (not yours: ask as root) - /run/howdah/blog.sock",
                "4 4000000000 - - - - (not yours: ask as root or 4000000000) - /srv/4.sock",
                "? 4000000000 - - - - (does not answer) - /srv/control",
            ]
        );
    }

    #[test]
    fn users_have_names_where_the_machine_knows_them() {
        let users = "root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/var/www:/bin/false\nbroken\n";
        assert_eq!([0, 33, 34].map(|user| user_name(user, users)), ["root", "www-data", "34"]);
    }
}
