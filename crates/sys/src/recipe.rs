//! What a process is to be, written down before it is needed: program, arguments, changes to the environment, user and group.
//!
//! A confined front starts nothing itself. It gives all its recipes to the [`launcher`](crate::launcher) before it is
//! confined, and later names one: so whoever took it over could start these programs and no other.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::activation;
use crate::notify;
use crate::oom::Score;
use crate::privileges::Identity;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recipe {
    program: OsString,
    arguments: Vec<OsString>,
    /// Name and value; none to take the variable away.
    environment: Vec<(OsString, Option<OsString>)>,
    variable: Option<OsString>,
    own_group: bool,
    /// The kernel kills it when the process is gone whose child it is, until it wants that no more.
    tied: bool,
    /// What it is called, if not by its program.
    called: Option<OsString>,
    /// Whose the process is from its program's first instruction on, by name or number, if not ours.
    user: Option<String>,
    group: Option<String>,
    /// Bytes that the process counts for beyond what it has, where the kernel ends one for lack of memory.
    surplus: u64,
}

impl Recipe {
    /// For a program by its path, or by a name that is looked for in `PATH`.
    #[must_use]
    pub fn new(program: impl Into<OsString>) -> Self {
        Self { program: program.into(), ..Self::default() }
    }

    /// With these arguments.
    #[must_use]
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// With a variable in its environment, which otherwise is ours.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), Some(value.into())));
        self
    }

    /// Without a variable of ours.
    #[must_use]
    pub fn without(mut self, name: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), None));
        self
    }

    /// Without the variables that are for the server alone: who manages it, its sockets, and what it takes over.
    #[must_use]
    pub fn without_ours(self) -> Self {
        activation::VARIABLES.into_iter().chain([notify::VARIABLE]).fold(self, Self::without)
    }

    /// With a variable whose value is told at the start; the only thing that is.
    #[must_use]
    pub fn told_by(mut self, variable: impl Into<OsString>) -> Self {
        self.variable = Some(variable.into());
        self
    }

    /// In a process group of its own, so that Ctrl-C in our terminal does not reach it.
    #[must_use]
    pub fn in_own_group(mut self) -> Self {
        self.own_group = true;
        self
    }

    /// Killed by the kernel when this process ends, until it says by PR_SET_PDEATHSIG that it sees that for itself. A launcher's
    /// doing alone: the kernel means the very thread that has started a process, and a launcher's parent is the first.
    #[must_use]
    pub fn tied_to_us(mut self) -> Self {
        self.tied = true;
        self
    }

    /// Whether it is to be.
    pub(crate) fn is_tied(&self) -> bool {
        self.tied
    }

    /// Called by that name, which `ps` shows.
    #[must_use]
    pub fn called(mut self, name: impl Into<OsString>) -> Self {
        self.called = Some(name.into());
        self
    }

    /// By that user and group, if they are named.
    #[must_use]
    pub fn run_by(self, user: Option<String>, group: Option<String>) -> Self {
        Self { user, group, ..self }
    }

    /// Counting for so many bytes more than it has where the kernel looks for a process to end for lack of memory: it can be replaced, and
    /// others cannot. Its children do, too.
    #[must_use]
    pub fn expendable(self, surplus: u64) -> Self {
        Self { surplus, ..self }
    }

    /// What that makes of it; see [`Score::of`].
    pub(crate) fn score(&self) -> Option<Score> {
        (self.surplus > 0).then(|| Score::of(self.surplus)).flatten()
    }

    /// Whose it is, as the system's lists have it now. They may be far away, so it takes its time.
    ///
    /// # Errors
    /// A sentence that says what is not there.
    pub(crate) fn identity(&self) -> io::Result<Option<Identity>> {
        Identity::find(self.user.as_deref(), self.group.as_deref()).map_err(io::Error::other)
    }

    /// Changes this process to that, which is about to execute the program.
    ///
    /// # Errors
    /// A sentence that says what is not there or may not be done.
    pub(crate) fn change_user(&self) -> io::Result<()> {
        let change = |identity: Identity| identity.take().map_err(io::Error::other);
        self.identity()?.map_or(Ok(()), change)
    }

    /// As a command, with the value of the variable of [`Recipe::told_by`].
    ///
    /// # Errors
    /// InvalidInput when there is a value and no such variable.
    pub(crate) fn command(&self, value: Option<&OsStr>) -> io::Result<Command> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        for (name, value) in &self.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        match (&self.variable, value) {
            (Some(variable), Some(value)) => {
                command.env(variable, value);
            }
            (None, Some(_)) => return Err(io::ErrorKind::InvalidInput.into()),
            (_, None) => {}
        }
        if self.own_group {
            command.process_group(0);
        }
        if let Some(name) = &self.called {
            command.arg0(name);
        }
        Ok(command)
    }
}

/// Bytes that [`decode`] understands: fields that end with a zero, which none of them can contain.
pub(crate) fn encode(recipes: &[Recipe]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut field = |tag: u8, parts: &[&OsStr]| {
        bytes.push(tag);
        parts.iter().for_each(|part| bytes.extend_from_slice(part.as_bytes()));
        bytes.push(0);
    };
    for recipe in recipes {
        field(b'p', &[&recipe.program]);
        recipe.arguments.iter().for_each(|argument| field(b'a', &[argument]));
        for (name, value) in &recipe.environment {
            match value {
                Some(value) => field(b'e', &[name, "=".as_ref(), value]),
                None => field(b'w', &[name]),
            }
        }
        recipe.variable.iter().for_each(|variable| field(b'v', &[variable]));
        if recipe.own_group {
            field(b'g', &[]);
        }
        if recipe.tied {
            field(b't', &[]);
        }
        recipe.called.iter().for_each(|name| field(b'n', &[name]));
        recipe.user.iter().for_each(|user| field(b'u', &[user.as_ref()]));
        recipe.group.iter().for_each(|group| field(b'h', &[group.as_ref()]));
        field(b'x', &[recipe.surplus.to_string().as_ref()]);
    }
    bytes
}

/// What [`encode`] wrote; none for anything else.
pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<Recipe>> {
    let mut recipes: Vec<Recipe> = Vec::new();
    for field in bytes.strip_suffix(b"\0")?.split(|&byte| byte == 0) {
        let (tag, rest) = field.split_first()?;
        if *tag == b'p' {
            recipes.push(Recipe::new(os(rest)));
        } else {
            recipes.last_mut()?.read(*tag, rest)?;
        }
    }
    Some(recipes)
}

impl Recipe {
    fn read(&mut self, tag: u8, rest: &[u8]) -> Option<()> {
        match tag {
            b'a' => self.arguments.push(os(rest)),
            b'e' => {
                let at = rest.iter().position(|&byte| byte == b'=')?;
                self.environment.push((os(&rest[..at]), Some(os(&rest[at + 1..]))));
            }
            b'w' => self.environment.push((os(rest), None)),
            b'v' => self.variable = Some(os(rest)),
            b'g' => self.own_group = true,
            b't' => self.tied = true,
            b'n' => self.called = Some(os(rest)),
            b'u' => self.user = Some(String::from_utf8(rest.to_vec()).ok()?),
            b'x' => self.surplus = std::str::from_utf8(rest).ok()?.parse().ok()?,
            b'h' => self.group = Some(String::from_utf8(rest.to_vec()).ok()?),
            _ => return None,
        }
        Some(())
    }
}

fn os(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipes_survive_the_journey() {
        let recipes = [
            Recipe::new("/bin/sh").args(["-c", "echo =", ""]).in_own_group(),
            Recipe::new("perl").env("A", "b=c\n").without("D").told_by("E").tied_to_us(),
            Recipe::new(os(b"\xff")).called("another").run_by(Some("www".into()), None),
            Recipe::new("perl").run_by(None, Some("7".into())).expendable(1 << 40),
        ];
        assert_eq!(decode(&encode(&recipes)).unwrap(), recipes);
        for nonsense in [&b""[..], b"p/bin/sh", b"aargument\0", b"p/bin/sh\0y\0", b"p/bin/sh\0x-\0"] {
            assert_eq!(decode(nonsense), None);
        }
    }

    #[test]
    fn only_the_named_variable_can_be_told() {
        assert!(Recipe::new("true").command(Some("x".as_ref())).is_err());
        let command = Recipe::new("true").told_by("E").command(Some("x".as_ref())).unwrap();
        assert_eq!(command.get_envs().collect::<Vec<_>>(), [("E".as_ref(), Some("x".as_ref()))]);
    }
}
