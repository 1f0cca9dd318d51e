//! Where a log goes, as an operator writes it.

use std::fmt;
use std::path::PathBuf;

/// The value of `--access-log`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `-`: standard output.
    Stdout,
    /// A file, created if it is missing, appended to.
    File(PathBuf),
    /// `|command`: a shell command that reads the lines.
    Command(String),
}

impl Target {
    /// Reads `-`, `|command` (also with Apache's `||` and `|$`) or a path.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text.strip_prefix('|') {
            Some(command) => {
                let command = command.strip_prefix(['|', '$']).unwrap_or(command);
                Self::Command(command.trim().to_owned())
            }
            None if text == "-" => Self::Stdout,
            None => Self::File(text.into()),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdout => f.write_str("standard output"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Command(command) => write!(f, "|{command}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form() {
        let command = |text: &str| Target::Command(text.to_owned());
        let cases = [
            ("-", Target::Stdout),
            ("access.log", Target::File("access.log".into())),
            ("/var/log/-", Target::File("/var/log/-".into())),
            ("|rotatelogs log.%F 86400", command("rotatelogs log.%F 86400")),
            ("| cat", command("cat")),
            ("||cat", command("cat")),
            ("|$cat >x", command("cat >x")),
        ];
        for (text, expected) in cases {
            assert_eq!(Target::parse(text), expected);
        }
    }

    #[test]
    fn a_log_is_called_in_messages_as_it_was_written() {
        for (text, name) in [("-", "standard output"), ("access.log", "access.log"), ("| cat", "|cat")] {
            assert_eq!(Target::parse(text).to_string(), name);
        }
    }
}
