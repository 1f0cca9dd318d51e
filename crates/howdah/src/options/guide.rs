//! What there is to know beside the options: the end of `--help`, and sections of howdah(1).

/// A section: its title and its paragraphs. A paragraph `term\ttext` is an item of a list.
pub(crate) type Section = (&'static str, &'static [&'static str]);

/// In the order of both.
pub(crate) const SECTIONS: &[Section] = &[
    (
        "Environment",
        &[
            "Every option can be set by a variable: --max-queue by HOWDAH_MAX_QUEUE, and so on. Lists are separated \
             as on the command line (HOWDAH_LISTEN=:80,/run/app.sock), switches take 1 or 0. The command line wins. One \
             that is no option's is told at the start.",
            "PLACK_ENV\tdefault of --env",
            "PERL5LIB\thonoured, as are local::lib and Carton",
            "HOWDAH_PERL5LIB\tdirectories of Howdah's own Perl modules, which are otherwise found beside the program",
            "HOWDAH_LOG\tas --log-level, where that is not given; also for parts of the server: howdah_front=debug",
        ],
    ),
    (
        "Values",
        &[
            "Sizes are bytes, or have a suffix k, m or g (powers of 1024). Times are seconds, or have a suffix ms, s, m \
             or h.",
        ],
    ),
    (
        "Signals",
        &[
            "TERM, QUIT\tstop when the running requests have ended, within --graceful-timeout",
            "INT\tstop at once",
            "HUP\tload the application anew and replace the workers; when it does not load, the old ones stay",
            "USR1\topen the log files anew, after they were rotated",
            "USR2\treplace howdah itself by the program at its path now; when that does not start, the old one stays",
            "TTIN, TTOU\tone worker more, one less",
        ],
    ),
    (
        "Commands for a running server",
        &[
            "They talk to the server's control socket, which is found by --name or --control, and exit with 1 when it \
             could not be done. By its name root finds the servers of other users, too.",
            "howdah status\tprint processes, workers and queue, with --json for programs; without a name, of all servers",
            "howdah trace exec\twhich processes run which programs: who, what, how often",
            "howdah top\twatch it live: rates, latencies, queue, workers and their requests; --once prints one look",
            "howdah where\ttell what each worker does now: request, Perl stack, system call; of one by --worker or --pool",
            "howdah profile\tfind where the time of requests goes: writes a flame graph, prints the hottest subs, lines and routes",
            "howdah leaks\tfind objects that outlive their requests, by class, line and route",
            "howdah heap\twrite the heap of a worker into a file for Devel::MAT; with --why CLASS print what holds its objects",
            "howdah reload\tas HUP, and wait; Perl's message when the new code does not load; of several applications one, by --pool",
            "howdah reopen\tas USR1, and wait; the reason when a log file cannot be opened",
            "howdah upgrade\tas USR2, and wait; the reason when the new program does not start",
            "howdah stop\tas TERM, and wait until it is gone; with --now as INT",
            "howdah workers N\tthat many workers, up to twice --workers or 32; +1 or -1 for one more or less; of which of several applications, by --pool",
        ],
    ),
    (
        "CGI scripts",
        &[
            "howdah --cgi /cgi-bin=/usr/lib/cgi-bin serves a directory of scripts, alone or beside applications; \
             howdah --cgi /gitweb=/usr/share/gitweb/gitweb.cgi one script. docs/cgi.md has the rules of paths, variables and \
             errors.",
            "exec\ta process for each request, of any language",
            "fork\tperl compiles a script once, and each request runs it in a fork of that: nothing is left from one to the next",
            "keep\ta script is compiled into a sub that a worker calls, as ModPerl::Registry does: fastest, and what a script \
             leaves behind stays",
            "auto\tfork for scripts whose #! line names a perl, exec for all others",
        ],
    ),
    (
        "Options of other servers",
        &[
            "Names of plackup, Starman, Starlet, Gazelle and Feersum are accepted where they mean the same. Accepted \
             with a warning and without effect are --loader, --timeout, --startup-timeout, --spawn-interval, \
             --err-respawn-interval, --min-reqs-per-child, --min-servers, --max-servers, --min-spare-servers and \
             --max-spare-servers. Whatever else is unknown is refused; for words of uWSGI, hypnotoad and Gunicorn with \
             what to write instead.",
        ],
    ),
    (
        "Further reading",
        &[
            "What is called docs/NAME.md here and in messages is in share/doc/howdah/NAME.md below the place where Howdah is \
             installed, as in /usr/local/share/doc/howdah/processes.md.",
        ],
    ),
    (
        "Exit status",
        &[
            "0\tstopped as asked, or nothing wrong found",
            "1\tit could not start or go on: the application does not compile, an address is taken, ...",
            "2\ta mistake in the command line",
        ],
    ),
];

/// The end of the short help.
pub(super) const SHORT: &str = "\
Every option can be set in the environment: --max-queue by HOWDAH_MAX_QUEUE, and so on.
Sizes: 65536, 64k, 1m, 1g. Times: 10 (seconds), 500ms, 2m. More: howdah --help, man howdah.";

/// The sections as text for a terminal.
pub(super) fn long() -> String {
    SECTIONS
        .iter()
        .map(|(title, paragraphs)| format!("{title}:\n{}", body(paragraphs)))
        .collect::<Vec<_>>()
        .join("\n")
}

fn body(paragraphs: &[&str]) -> String {
    let terms = paragraphs.iter().filter_map(|text| text.split_once('\t')).map(|(term, _)| term.len());
    let width = terms.max().unwrap_or(0);
    let shown = paragraphs.iter().map(|text| match text.split_once('\t') {
        Some((term, text)) => fill(&format!("  {term:width$}  "), text),
        None => fill("  ", text),
    });
    shown.collect()
}

/// Wraps a text after a label; further lines begin below the first one's text.
fn fill(label: &str, text: &str) -> String {
    let mut lines = vec![label.to_owned()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().filter(|line| line.len() + word.len() < WIDTH);
        match line {
            Some(line) if line.ends_with(' ') => line.push_str(word),
            Some(line) => *line = format!("{line} {word}"),
            None => lines.push(format!("{:indent$}{word}", "", indent = label.len())),
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Columns of the help.
const WIDTH: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_without_effect_is_listed() {
        let text = long();
        for (name, _) in super::super::compat::IGNORED {
            assert!(text.contains(&format!("--{name}")), "--{name}");
        }
    }

    #[test]
    fn long_texts_are_wrapped_below_themselves() {
        let text = fill("  TERM  ", &"word ".repeat(30));
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines.len() == 2 && lines[0].len() <= WIDTH && lines[1].starts_with("        word"),
            "{text}"
        );
    }
}
