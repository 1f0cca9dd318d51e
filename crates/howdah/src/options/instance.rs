//! Which server is meant: by its name, or by the path of its control socket. The server itself takes these options,
//! and so do the commands that talk to one.

use std::path::PathBuf;

use clap::Args;

/// Name where none is given.
const NAME: &str = "howdah";

/// One server among others on the machine.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Process")]
pub(crate) struct Instance {
    /// Name that tells servers apart [default: howdah]
    ///
    /// It stands in the titles of the processes and in the path of the control socket.
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<String>,

    /// Control socket [default: by name]
    ///
    /// The default is NAME.sock in /run/howdah for root, else in $XDG_RUNTIME_DIR/howdah or /tmp/howdah-UID.
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,
}

impl Instance {
    /// The name.
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(NAME)
    }

    /// The name, if one was given.
    pub(crate) fn given_name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Somebody relies on this very control socket.
    pub(crate) fn is_explicit(&self) -> bool {
        self.name.is_some() || self.control.is_some()
    }
}

/// A name becomes part of a file name.
fn name(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    if text.is_empty() || text.starts_with('.') || !text.chars().all(allowed) || text.len() > 64 {
        return Err("a name has up to 64 letters, digits and - _ . @".to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_fit_for_file_names() {
        for text in ["shop", "shop-2", "a.b_c@d"] {
            assert_eq!(super::name(text), Ok(text.to_owned()));
        }
        for text in ["", "..", ".x", "a/b", "a b", &"x".repeat(65)] {
            assert!(super::name(text).is_err(), "{text}");
        }
    }
}
