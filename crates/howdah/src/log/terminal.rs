//! How a message looks to a person at a terminal: who says it and when stands before its first line alone, dimmed and
//! short, and its other lines are indented. So a stack trace can be read. Files and pipes get whole lines instead.

use std::fmt::Write;
use std::io::{self, IsTerminal};

use howdah_accesslog::local_zone;
use jiff::Timestamp;
use jiff::tz::Offset;

use super::line::{Message, Source, printable_but_tabs, source_in_words, word};

/// Longest target of a request that is shown whole.
const TARGET: usize = 60;

/// A terminal, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terminal {
    dims: bool,
    /// Of the local time. It is asked for once: whoever watches through a night in spring can bear with that.
    offset: Offset,
}

impl Terminal {
    /// The one that standard error is now, if it is one.
    pub(super) fn here() -> Option<Self> {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let dims = || set("NO_COLOR").is_none() && set("TERM").is_some_and(|term| term != "dumb");
        io::stderr()
            .is_terminal()
            .then(|| Self { dims: dims(), offset: local_zone().to_offset(Timestamp::now()) })
    }

    pub(super) fn show(self, message: &Message<'_>) -> String {
        let (dim, plain) = if self.dims { ("\x1b[2m", "\x1b[22m") } else { ("", "") };
        let mut shown = format!("{dim}{}{plain} ", self.prefix(message));
        let text = message.text.strip_suffix(b"\n").unwrap_or(message.text);
        let lines = text.split(|&byte| byte == b'\n');
        let lines: Vec<_> =
            lines.map(|line| printable_but_tabs(line.strip_suffix(b"\r").unwrap_or(line))).collect();
        shown += &lines.join("\n    ");
        for (name, value) in message.fields {
            // Writing to a String cannot fail.
            let _ = write!(shown, " {dim}{name}={value}{plain}");
        }
        shown + "\n"
    }

    fn prefix(self, message: &Message<'_>) -> String {
        let time = self.offset.to_datetime(message.time).strftime("%H:%M:%S");
        let level = message.level.name().to_ascii_uppercase();
        format!("{time} {level:<5} {}:", who(message.source))
    }
}

/// Without what only a search through files needs.
fn who(source: &Source) -> String {
    let Source::Worker { index, pid, request: Some(request) } = source else {
        return source_in_words(source);
    };
    let mut target = word(&request.target);
    if let Some((end, _)) = target.char_indices().nth(TARGET) {
        target.truncate(end);
        target.push('…');
    }
    format!("worker {index} pid {pid} {} {target}", word(&request.method))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::line::RequestTag;
    use crate::options::logs::Level;

    fn shown(dims: bool, target: &str, text: &[u8], fields: &[(&'static str, String)]) -> String {
        let request = RequestTag {
            id: b"order-66".to_vec(),
            method: b"GET".to_vec(),
            target: target.as_bytes().to_vec(),
        };
        let source = Source::Worker { index: 2, pid: 4711, request: Some(request) };
        let terminal = Terminal { dims, offset: Offset::UTC };
        let time = Timestamp::now();
        terminal.show(&Message { time, level: Level::Error, source: &source, text, fields })
    }

    #[test]
    fn a_stack_trace_has_one_prefix_and_its_lines_are_indented() {
        let text =
            shown(false, "/cart", b"no total at Cart.pm line 12.\n\tmain::total() called\r\nlast\n", &[]);
        let (time, rest) = text.split_at("13:55:41 ".len());
        assert_eq!(time.find(':'), Some(2));
        let expected = "ERROR worker 2 pid 4711 GET /cart: no total at Cart.pm line 12.\n    \tmain::total() called\n    last\n";
        assert_eq!(rest, expected);
    }

    #[test]
    fn the_prefix_is_dimmed_and_nothing_else() {
        let text = shown(true, "/", b"one\x1b[2K\ntwo", &[("workers", "4".to_owned())]);
        assert!(text.starts_with("\x1b[2m"), "{text:?}");
        assert!(
            text.ends_with(" GET /:\x1b[22m one\\x1b[2K\n    two \x1b[2mworkers=4\x1b[22m\n"),
            "{text:?}"
        );
    }

    #[test]
    fn a_long_target_is_cut() {
        let text = shown(false, &"/x".repeat(100), b"hi", &[]);
        assert!(text.ends_with(&format!(" GET {}…: hi\n", "/x".repeat(TARGET / 2))), "{text}");
    }
}
