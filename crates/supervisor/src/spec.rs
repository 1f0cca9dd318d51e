//! What a zygote is to load and how: the *specification*, which it finds in its environment. It is part of the recipe by
//! which zygotes are started, so that nobody who takes over the confined front can have another program loaded.
//!
//! It is written as fields of a form are: `NAME=VALUE` joined by `&`, bytes that could be taken for something else as `%`
//! and two hexadecimal digits. `lib/Howdah/ZygoteSpec.pm` reads it; docs/zygote-protocol.md has the fields.

use std::fmt::Write;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct ZygoteSpec {
    /// The .psgi file or module; none with `eval` alone.
    pub app: Option<String>,
    /// Code that evaluates to the application, or wraps it.
    pub eval: Option<String>,
    /// Modules to load first: `Module` or `Module=import,list`.
    pub modules: Vec<String>,
    /// Directories for the front of @INC.
    pub inc: Vec<PathBuf>,
    /// PLACK_ENV.
    pub env: String,
    /// Load the application once, before the fork.
    pub preload: bool,
    /// Name of the instance, for process titles.
    pub name: String,
    /// Workers run global destruction when they leave.
    pub full_destruct: bool,
    /// Add plackup's middleware of the development environment.
    pub default_middleware: bool,
    /// Mount the application below this path.
    pub path: Option<String>,
    /// Change to this directory first.
    pub chdir: Option<PathBuf>,
    /// Have Devel::NYTProf look at the workers.
    pub nytprof: bool,
}

impl ZygoteSpec {
    /// The value of the environment variable, for a zygote whose control socket has this number; without one, for somebody
    /// who only loads the application.
    #[must_use]
    pub fn encode(&self, control: Option<RawFd>) -> String {
        let mut text = String::new();
        let mut put = |name: &str, value: &[u8]| {
            let separator = if text.is_empty() { "" } else { "&" };
            // A String takes everything.
            let _ = write!(text, "{separator}{name}=");
            value.iter().for_each(|&byte| escape(&mut text, byte));
        };
        let flag = |set: bool| if set { b"1" } else { b"0" };
        control.iter().for_each(|fd| put("control", fd.to_string().as_bytes()));
        self.app.iter().for_each(|app| put("app", app.as_bytes()));
        self.eval.iter().for_each(|code| put("eval", code.as_bytes()));
        self.modules.iter().for_each(|module| put("modules", module.as_bytes()));
        self.inc.iter().for_each(|dir| put("inc", dir.as_os_str().as_bytes()));
        put("env", self.env.as_bytes());
        put("preload", flag(self.preload));
        put("name", self.name.as_bytes());
        put("full_destruct", flag(self.full_destruct));
        put("default_middleware", flag(self.default_middleware));
        self.path.iter().for_each(|path| put("path", path.as_bytes()));
        self.chdir.iter().for_each(|dir| put("chdir", dir.as_os_str().as_bytes()));
        self.nytprof.then(|| put("nytprof", b"1"));
        text
    }
}

fn escape(text: &mut String, byte: u8) {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'/' | b':' => text.push(byte.into()),
        _ => drop(write!(text, "%{byte:02X}")),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    use serde_json::Value;

    use super::*;
    use crate::vectors;

    fn text(value: &Value) -> Option<String> {
        (!value.is_null()).then(|| String::from_utf8(vectors::bytes(value)).unwrap())
    }

    fn path(value: &Value) -> Option<PathBuf> {
        (!value.is_null()).then(|| OsString::from_vec(vectors::bytes(value)).into())
    }

    fn spec(means: &Value) -> ZygoteSpec {
        let list = |value: &Value| value.as_array().unwrap().clone();
        let is_set = |value: &Value| value.as_str() == Some("1");
        ZygoteSpec {
            app: text(&means["app"]),
            eval: text(&means["eval"]),
            modules: list(&means["modules"]).iter().filter_map(text).collect(),
            inc: list(&means["inc"]).iter().filter_map(path).collect(),
            env: text(&means["env"]).unwrap(),
            preload: is_set(&means["preload"]),
            name: text(&means["name"]).unwrap(),
            full_destruct: is_set(&means["full_destruct"]),
            default_middleware: is_set(&means["default_middleware"]),
            path: text(&means["path"]),
            chdir: path(&means["chdir"]),
            nytprof: is_set(&means["nytprof"]),
        }
    }

    #[test]
    fn a_specification_is_written_as_the_vectors_have_it() {
        for case in vectors::cases("specifications") {
            let control = text(&case["means"]["control"]).map(|fd| fd.parse().unwrap());
            assert_eq!(spec(&case["means"]).encode(control), case["text"].as_str().unwrap());
        }
    }
}
