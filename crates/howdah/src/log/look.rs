//! How the log of this process looks: as lines, as lines whose level systemd's journal understands, or as a person at a
//! terminal reads them. It is decided once, when the log starts.

use std::io;
use std::os::fd::AsFd;
use std::sync::OnceLock;

use jiff::Timestamp;

use super::line::{Message, Source};
use super::terminal::Terminal;
use crate::options::logs::{Format, Level};

/// Unset until the log is started.
static LOOK: OnceLock<Look> = OnceLock::new();

/// How the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Lines(Format),
    Journal(Format),
    Terminal(Terminal),
}

impl Look {
    /// In that format; text is for people when standard error, as it is now, is a terminal.
    fn here(format: Format) -> Self {
        if std::env::var("JOURNAL_STREAM").is_ok_and(|named| is_named(&named, io::stderr())) {
            return Self::Journal(format);
        }
        let terminal = if format == Format::Json { None } else { Terminal::here() };
        terminal.map_or(Self::Lines(format), Self::Terminal)
    }

    /// Appends a message to `out`.
    pub(super) fn render(self, message: &Message<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Lines(format) => format.render("", message, out),
            Self::Journal(format) => format.render(priority(message.level), message, out),
            Self::Terminal(terminal) => out.extend_from_slice(terminal.show(message).as_bytes()),
        }
    }
}

/// Whether that is the file, by device and inode (systemd.exec(5)). The variable alone tells nothing: children inherit it.
fn is_named(named: &str, file: impl AsFd) -> bool {
    rustix::fs::fstat(file).is_ok_and(|file| named == format!("{}:{}", file.st_dev, file.st_ino))
}

/// What the journal takes away from the start of a line, and files the line by (sd-daemon(3)).
fn priority(level: Level) -> &'static str {
    match level {
        Level::Error => "<3>",
        Level::Warn => "<4>",
        Level::Info => "<6>",
        Level::Debug => "<7>",
    }
}

/// Decides it.
pub(super) fn decide(format: Format) -> Look {
    *LOOK.get_or_init(|| Look::here(format))
}

pub(super) fn look() -> Look {
    LOOK.get().copied().unwrap_or(Look::Lines(Format::Text))
}

/// What the front itself says.
pub(super) fn rendered(level: Level, text: &[u8]) -> Vec<u8> {
    let mut lines = Vec::new();
    let time = Timestamp::now();
    look().render(&Message { time, level, source: &Source::Front, text, fields: &[] }, &mut lines);
    lines
}
