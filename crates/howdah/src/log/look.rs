//! How the log of this process looks: as lines, or as a person at a terminal reads them. It is decided once, when the log
//! starts.

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
    Terminal(Terminal),
}

impl Look {
    /// In that format; text is for people when standard error, as it is now, is a terminal.
    fn here(format: Format) -> Self {
        let terminal = if format == Format::Json { None } else { Terminal::here() };
        terminal.map_or(Self::Lines(format), Self::Terminal)
    }

    /// Appends a message to `out`.
    pub(super) fn render(self, message: &Message<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Lines(format) => format.render(message, out),
            Self::Terminal(terminal) => out.extend_from_slice(terminal.show(message).as_bytes()),
        }
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
