//! From options to what runs CGI scripts: a host and its specification, or the application that mode keep is.
//!
//! `processes` and `configure` call it, and `check`.

use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

use howdah_cgi::spec::{Choice, Spec};
use howdah_sys::launcher::{FIRST_FD, HELPER};
use howdah_sys::recipe::Recipe;

use crate::options::Serve;
use crate::options::cgi::{Mode, directory};
use crate::options::pools::{Cgi, Pool};
use crate::perl::Perl;

/// The module that mode keep is.
pub(crate) const KEEP: &str = "Howdah::CGI::Keep";

impl Serve {
    /// What the host of a pool's scripts is told; none for a pool that has none.
    pub(crate) fn host(&self, pool: &Pool, perl: &Perl) -> Option<Spec> {
        let is_kept = pool.cgi.as_ref().is_some_and(|cgi| cgi.mode == Mode::Keep);
        self.scripts_of(pool, perl).filter(|_| !is_kept)
    }

    /// What a pool of scripts is, however they are run.
    pub(crate) fn scripts_of(&self, pool: &Pool, perl: &Perl) -> Option<Spec> {
        let cgi = pool.cgi.as_ref()?;
        Some(Spec {
            control: Some(FIRST_FD),
            mount: pool.mount.clone().unwrap_or_default(),
            root: cgi.root.clone(),
            mode: match cgi.mode {
                Mode::Exec => Choice::Exec,
                Mode::Fork => Choice::Fork,
                Mode::Auto | Mode::Keep => Choice::Auto,
            },
            index: cgi.index.clone(),
            document_root: self.document_root(cgi),
            env: self.cgi.cgi_env.iter().map(|it| (it.name.clone(), it.value.clone().into_bytes())).collect(),
            pass: self.cgi.cgi_pass.iter().map(|name| name.0.clone()).collect(),
            preload: cgi.preload.clone(),
            perl: perl.program.clone(),
            inc: perl.library.clone(),
            name: self.instance.given_name().unwrap_or_default().to_owned(),
            user: self.process.user.clone(),
            group: self.process.group.clone(),
        })
    }

    /// The application of mode keep, in Perl.
    pub(crate) fn keep(&self, pool: &Pool, cgi: &Cgi) -> String {
        let list = |items: Vec<String>| items.join(", ");
        let index = list(cgi.index.iter().map(|name| quoted(name.as_bytes())).collect());
        let preload = list(cgi.preload.iter().map(|what| quoted(what.as_bytes())).collect());
        let pass = list(self.cgi.cgi_pass.iter().map(|name| quoted(name.0.as_bytes())).collect());
        let env = self.cgi.cgi_env.iter();
        let env = list(
            env.map(|it| format!("{} => {}", quoted(it.name.as_bytes()), quoted(it.value.as_bytes())))
                .collect(),
        );
        format!(
            "{KEEP}->new(root => {}, mount => {}, index => [{index}], document_root => {}, env => {{{env}}}, \
             pass => [{pass}], preload => [{preload}])->to_app",
            quoted(cgi.root.as_os_str().as_bytes()),
            quoted(pool.mount.as_deref().unwrap_or_default().as_bytes()),
            quoted(self.document_root(cgi).as_os_str().as_bytes()),
        )
    }

    fn document_root(&self, cgi: &Cgi) -> std::path::PathBuf {
        let asked = self.cgi.document_root.as_deref().map(|root| self.absolute(root));
        asked.unwrap_or_else(|| directory(&cgi.root).to_owned())
    }
}

/// What `ps` shows first of a host.
pub(crate) const CALLED: [&str; 2] = [HELPER, "cgi-host"];

/// Whether this process was started by the recipe of one.
pub(crate) fn is_host() -> bool {
    std::env::args_os().nth(1).is_some_and(|word| word == CALLED[1])
        && std::env::var_os(howdah_cgi::VARIABLE).is_some()
}

/// What `ps` shows behind that.
fn title(spec: &Spec) -> OsString {
    let name = if spec.name.is_empty() { String::new() } else { format!("[{}] ", spec.name) };
    let mut title = OsString::from(format!("{name}{}/ ", spec.mount));
    title.push(&spec.root);
    title
}

/// How a host is started: this program once more. Its control socket is its first descriptor.
pub(crate) fn recipe(spec: &Spec) -> Recipe {
    // Of this very version, whatever stands at its path by now.
    Recipe::new("/proc/self/exe")
        .called(CALLED[0])
        .args([CALLED[1].into(), title(spec)])
        .env(howdah_cgi::VARIABLE, spec.encode())
        // Ctrl-C is the front's to handle.
        .in_own_group()
        .without_ours()
}

/// Bytes as a string of Perl's, whatever the source is taken for.
fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for &byte in bytes {
        match byte {
            b'a'..=b'z'
            | b'A'..=b'Z'
            | b'0'..=b'9'
            | b' '
            | b'-'
            | b'.'
            | b'_'
            | b'/'
            | b':'
            | b'='
            | b',' => text.push(byte.into()),
            // A String takes everything.
            _ => drop(write!(text, "\\x{byte:02X}")),
        }
    }
    text + "\""
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::path::Path;

    use super::*;
    use crate::options::{Action, parse};

    fn serve(line: &[&str]) -> Serve {
        let arguments = ["howdah"].iter().chain(line).map(OsString::from);
        match parse(arguments).unwrap().action {
            Action::Serve(serve) => *serve,
            other => panic!("{other:?}"),
        }
    }

    fn perl() -> Perl {
        Perl { program: "/usr/bin/perl".into(), library: vec!["/opt/lib".into()] }
    }

    #[test]
    fn a_host_is_told_what_the_options_say() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_str().unwrap();
        let mount = format!("/c={root},mode=exec,index=i.cgi");
        let options = serve(&[
            "--cgi",
            &mount,
            "--cgi-env",
            "A=b c",
            "--cgi-pass",
            "TZ,LANG",
            "--cgi-preload",
            "CGI,/a.pl",
            "--document-root",
            "/srv",
            "--name",
            "shop",
        ]);
        let pools = options.pools();
        let spec = options.host(&pools[0], &perl()).unwrap();
        let expected = Spec {
            control: Some(FIRST_FD),
            mount: "/c".into(),
            root: root.into(),
            mode: Choice::Exec,
            index: vec!["i.cgi".into()],
            document_root: "/srv".into(),
            env: vec![("A".into(), b"b c".to_vec())],
            pass: vec!["TZ".into(), "LANG".into()],
            preload: vec!["CGI".into(), "/a.pl".into()],
            perl: "/usr/bin/perl".into(),
            inc: vec!["/opt/lib".into()],
            name: "shop".into(),
            user: None,
            group: None,
        };
        assert_eq!(spec, expected);
    }

    #[test]
    fn the_document_root_is_where_the_scripts_are_unless_it_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_str().unwrap();
        std::fs::write(dir.path().join("a.cgi"), "").unwrap();
        for (mount, option, expected) in [
            (format!("/c={root}"), None, root.to_owned()),
            (format!("/c={root}/a.cgi"), None, root.to_owned()),
            (format!("/={root}"), Some("/usr"), "/usr".to_owned()),
            (
                format!("/={root}"),
                Some("src"),
                std::env::current_dir().unwrap().join("src").display().to_string(),
            ),
        ] {
            let more = option.map(|root| ["--document-root", root]).into_iter().flatten();
            let line: Vec<&str> = ["--cgi", &mount].into_iter().chain(more).collect();
            let options = serve(&line);
            let spec = options.host(&options.pools()[0], &perl()).unwrap();
            assert_eq!(spec.document_root, Path::new(&expected), "{mount} {option:?}");
        }
    }

    #[test]
    fn mode_keep_is_an_application_in_perl() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("caf\u{e9}'$x");
        std::fs::create_dir(&root).unwrap();
        let mount = format!("/c={},mode=keep,preload=CGI", root.display());
        let options = serve(&[
            "--cgi",
            &mount,
            "--cgi-index",
            "a.pl,b.pl",
            "--cgi-env",
            "A=\"@b\\",
            "--cgi-pass",
            "TZ",
        ]);
        let pools = options.pools();
        assert!(options.host(&pools[0], &perl()).is_none());
        let (top, name) = (dir.path().display(), "caf\\xC3\\xA9\\x27\\x24x");
        let expected = format!(
            "Howdah::CGI::Keep->new(root => \"{top}/{name}\", mount => \"/c\", index => [\"a.pl\", \"b.pl\"], \
             document_root => \"{top}/{name}\", env => {{\"A\" => \"\\x22\\x40b\\x5C\"}}, pass => [\"TZ\"], preload => [\"CGI\"])->to_app"
        );
        let code = options.keep(&pools[0], pools[0].cgi.as_ref().unwrap());
        assert_eq!(code, expected);
        let zygote = options.zygote(&pools[0]);
        assert_eq!(
            (zygote.eval, zygote.path, zygote.modules),
            (Some(code), Some("/c".into()), vec![KEEP.to_owned()])
        );
    }
}
