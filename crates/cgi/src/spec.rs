//! What the host is told, in the environment variable `HOWDAH_CGI_HOST`: text in the format of a zygote's specification
//! (docs/zygote-protocol.md has the fields). The program writes it into the recipe by which hosts are started, and the host
//! reads it.

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use thiserror::Error;

/// How the scripts of a mount are run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// Forked when the `#!` line names a perl, else executed.
    #[default]
    Auto,
    /// Executed, all.
    Exec,
    /// Forked, all.
    Fork,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// The descriptor that is the control socket.
    pub control: Option<RawFd>,
    /// The path below which the scripts lie, without a slash at its end: empty for `/`.
    pub mount: String,
    /// Their directory, or the one script.
    pub root: PathBuf,
    /// How they are run.
    pub mode: Choice,
    /// Scripts that answer for a directory, the first that is there.
    pub index: Vec<String>,
    /// DOCUMENT_ROOT, and what PATH_TRANSLATED lies below.
    pub document_root: PathBuf,
    /// Variables of every script: name, value.
    pub env: Vec<(String, Vec<u8>)>,
    /// Names of variables that are passed on from the server's environment, or HTTP_AUTHORIZATION.
    pub pass: Vec<String>,
    /// What is loaded before scripts that are forked are compiled: names of modules, and files, which have a slash.
    pub preload: Vec<String>,
    /// The perl whose modules Howdah has; it compiles scripts that are forked.
    pub perl: PathBuf,
    /// Directories in which that perl finds Howdah's modules.
    pub inc: Vec<PathBuf>,
    /// Name of the instance, for titles.
    pub name: String,
    /// User to become before anything else.
    pub user: Option<String>,
    /// Group to become.
    pub group: Option<String>,
}

/// The text is no specification.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("HOWDAH_CGI_HOST {0}")]
pub struct Malformed(String);

/// Fields that may come any number of times.
const LISTS: [&str; 5] = ["index", "env", "pass", "preload", "inc"];
/// Fields without which there is nothing to do.
const NEEDED: [&str; 5] = ["root", "mode", "document_root", "perl", "name"];

impl Choice {
    fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Exec => "exec",
            Self::Fork => "fork",
        }
    }
}

impl Spec {
    /// The text.
    #[must_use]
    pub fn encode(&self) -> String {
        let path = |path: &PathBuf| path.as_os_str().as_bytes().to_vec();
        let mut fields = vec![
            ("mount", self.mount.clone().into_bytes()),
            ("root", path(&self.root)),
            ("mode", self.mode.word().into()),
            ("document_root", path(&self.document_root)),
            ("perl", path(&self.perl)),
            ("name", self.name.clone().into_bytes()),
        ];
        fields.extend(self.control.map(|fd| ("control", fd.to_string().into_bytes())));
        fields.extend(self.index.iter().map(|index| ("index", index.clone().into_bytes())));
        fields.extend(self.env.iter().map(|(name, value)| ("env", [name.as_bytes(), b"=", value].concat())));
        fields.extend(self.pass.iter().map(|name| ("pass", name.clone().into_bytes())));
        fields.extend(self.preload.iter().map(|what| ("preload", what.clone().into_bytes())));
        fields.extend(self.inc.iter().map(|dir| ("inc", path(dir))));
        fields.extend(self.user.iter().map(|user| ("user", user.clone().into_bytes())));
        fields.extend(self.group.iter().map(|group| ("group", group.clone().into_bytes())));
        fields.iter().map(|(name, value)| format!("{name}={}", escape(value))).collect::<Vec<_>>().join("&")
    }

    /// Reads the text.
    ///
    /// # Errors
    /// [`Malformed`] says what is wrong with it.
    pub fn decode(text: &[u8]) -> Result<Self, Malformed> {
        let (mut spec, mut seen) = (Self::default(), Vec::new());
        for field in text.split(|&byte| byte == b'&') {
            let odd = || Malformed(format!("has \"{}\", which is no NAME=VALUE", field.escape_ascii()));
            let (name, value) = split(field).ok_or_else(odd)?;
            if !LISTS.contains(&name) && seen.contains(&name) {
                return Err(Malformed(format!("has {name} twice")));
            }
            seen.push(name);
            spec.set(name, unescape(value).ok_or_else(odd)?)?;
        }
        match NEEDED.iter().find(|name| !seen.contains(name)) {
            Some(name) => Err(Malformed(format!("has no {name}"))),
            None => Ok(spec),
        }
    }

    /// What has perl load all that `preload` names, in one line.
    #[must_use]
    pub fn preload_code(&self) -> String {
        let quoted = |file: &str| format!("'{}'", file.replace('\\', "\\\\").replace('\'', "\\'"));
        let name = |what: &String| if what.contains('/') { quoted(what) } else { format!(" {what}") };
        self.preload.iter().map(|what| format!("BEGIN{{require{}}}", name(what))).collect()
    }

    fn set(&mut self, name: &str, value: Vec<u8>) -> Result<(), Malformed> {
        let path = |value: Vec<u8>| PathBuf::from(OsString::from_vec(value));
        let text = |value: Vec<u8>| {
            String::from_utf8(value).map_err(|_| Malformed(format!("has a {name} that is not UTF-8")))
        };
        match name {
            "control" => self.control = Some(number(&text(value)?)?),
            "mount" => self.mount = text(value)?,
            "root" => self.root = path(value),
            "mode" => self.mode = mode(&text(value)?)?,
            "index" => self.index.push(text(value)?),
            "document_root" => self.document_root = path(value),
            "env" => self.env.push(variable(&value)?),
            "pass" => self.pass.push(text(value)?),
            "preload" => self.preload.push(preloaded(text(value)?)?),
            "perl" => self.perl = path(value),
            "inc" => self.inc.push(path(value)),
            "name" => self.name = text(value)?,
            "user" => self.user = Some(text(value)?),
            "group" => self.group = Some(text(value)?),
            _ => return Err(Malformed(format!("has {name}, which no specification has"))),
        }
        Ok(())
    }
}

fn number(text: &str) -> Result<RawFd, Malformed> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| digits);
    number.ok_or_else(|| Malformed(format!("has control={text}, which is no descriptor")))
}

fn mode(text: &str) -> Result<Choice, Malformed> {
    let known = [Choice::Auto, Choice::Exec, Choice::Fork].into_iter().find(|mode| mode.word() == text);
    known.ok_or_else(|| Malformed(format!("has mode={text}, which is none of auto, exec and fork")))
}

fn variable(text: &[u8]) -> Result<(String, Vec<u8>), Malformed> {
    let odd = || Malformed(format!("has env={}, which is no variable", text.escape_ascii()));
    let equals = text.iter().position(|&byte| byte == b'=').filter(|&at| at > 0).ok_or_else(odd)?;
    let name = String::from_utf8(text[..equals].to_vec()).map_err(|_| odd())?;
    if text.contains(&0) { Err(odd()) } else { Ok((name, text[equals + 1..].to_vec())) }
}

/// Perl is to load a file, or a module, whose name is no other code.
fn preloaded(text: String) -> Result<String, Malformed> {
    let odd = text.contains(['\0', '\n']) || !text.contains('/') && !is_module(&text);
    if odd { Err(Malformed(format!("has preload={text}, which is no module and no file"))) } else { Ok(text) }
}

/// Whether it is the name of a module: words that :: joins.
#[must_use]
pub fn is_module(text: &str) -> bool {
    let is_word = |word: &str| {
        word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    text.split("::").all(is_word)
}

fn split(field: &[u8]) -> Option<(&str, &[u8])> {
    let equals = field.iter().position(|&byte| byte == b'=')?;
    Some((std::str::from_utf8(&field[..equals]).ok()?, &field[equals + 1..]))
}

fn stands_for_itself(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._/:".contains(&byte)
}

fn escape(value: &[u8]) -> String {
    let shown = |&byte: &u8| match stands_for_itself(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    value.iter().map(shown).collect()
}

fn unescape(mut text: &[u8]) -> Option<Vec<u8>> {
    let mut value = Vec::with_capacity(text.len());
    while let Some((&byte, rest)) = text.split_first() {
        text = match byte {
            b'%' => {
                let (digits, rest) = rest.split_at_checked(2)?;
                let capital = |digit: &u8| matches!(digit, b'0'..=b'9' | b'A'..=b'F');
                let digits = std::str::from_utf8(digits).ok().filter(|_| digits.iter().all(capital))?;
                value.push(u8::from_str_radix(digits, 16).ok()?);
                rest
            }
            _ if stands_for_itself(byte) => {
                value.push(byte);
                rest
            }
            _ => return None,
        };
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Spec {
        Spec {
            control: Some(4),
            mount: "/cgi-bin/caf\u{e9}".into(),
            root: "/srv/a b".into(),
            mode: Choice::Fork,
            index: vec!["index.cgi".into(), "index.pl".into()],
            document_root: "/srv/www".into(),
            env: vec![("A".into(), b"x=y&z\n".to_vec()), ("B".into(), Vec::new())],
            pass: vec!["TZ".into(), "HTTP_AUTHORIZATION".into()],
            preload: vec!["Template::Config".into(), "/srv/o'b/x.pl".into()],
            perl: "/usr/bin/perl".into(),
            inc: vec!["/opt/lib".into()],
            name: "shop".into(),
            user: Some("www-data".into()),
            group: Some("adm".into()),
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let least = Spec { name: String::new(), ..Spec::default() };
        for spec in [full(), least] {
            assert_eq!(Spec::decode(spec.encode().as_bytes()), Ok(spec));
        }
    }

    #[test]
    fn a_specification_is_fields_of_a_form() {
        let text = full().encode();
        assert!(text.contains("mount=/cgi-bin/caf%C3%A9&root=/srv/a%20b&mode=fork&"), "{text}");
        assert!(text.contains("&env=A%3Dx%3Dy%26z%0A&"), "{text}");
    }

    #[test]
    fn what_is_loaded_first_is_one_line_of_perl() {
        assert_eq!(Spec::default().preload_code(), "");
        let expected = r"BEGIN{require Template::Config}BEGIN{require'/srv/o\'b/x.pl'}";
        assert_eq!(full().preload_code(), expected);
    }

    #[test]
    fn any_other_text_is_refused_as_a_whole() {
        let good = "root=/a&mode=auto&document_root=/a&perl=/p&name=";
        assert!(Spec::decode(good.as_bytes()).is_ok());
        for (more, words) in [
            ("&root=/b", "root twice"),
            ("&colour=red", "colour, which no specification has"),
            ("&", "\"\", which is no NAME=VALUE"),
            ("&mount", "\"mount\", which is no NAME=VALUE"),
            ("&mount=a b", "\"mount=a b\", which is no"),
            ("&mount=%2f", "which is no NAME=VALUE"),
            ("&mount=%2", "which is no NAME=VALUE"),
            ("&mount=%FF", "mount that is not UTF-8"),
            ("&control=", "control=, which is no descriptor"),
            ("&control=-1", "control=-1, which is no descriptor"),
            ("&control=99999999999", "which is no descriptor"),
            ("&env=A", "env=A, which is no variable"),
            ("&env=%3DA", "which is no variable"),
            ("&env=A%3D%00", "which is no variable"),
            ("&preload=system%20x", "no module and no file"),
            ("&preload=A::", "no module and no file"),
            ("&preload=%2Fa%0A", "no module and no file"),
        ] {
            let error = Spec::decode(format!("{good}{more}").as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("HOWDAH_CGI_HOST has ") && error.contains(words), "{more}: {error}");
        }
        for (text, words) in [
            ("mode=keep", "mode=keep, which is none of auto, exec and fork"),
            ("mode=auto", "no root"),
            ("root=/a&mode=auto&document_root=/a&name=", "no perl"),
        ] {
            assert_eq!(
                Spec::decode(text.as_bytes()).unwrap_err().to_string(),
                format!("HOWDAH_CGI_HOST has {words}")
            );
        }
    }
}
