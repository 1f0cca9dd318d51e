//! Compiles every Perl script of a mount, as its `#!` line wants it: what is wrong with one is told before somebody asks for it.
//!
//! Scripts are those that a request could reach, by the same rules; directories behind symbolic links are left out, since what is
//! there is there twice, or is a circle.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use howdah_cgi::environment::Environment;
use howdah_cgi::place::{Mount, Perl, Script};
use howdah_cgi::spec::Spec;
use howdah_sys::process::without_terminal;

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    /// Perl scripts that compile.
    pub(super) good: usize,
    /// Scripts of other languages, which nobody can look at.
    pub(super) others: usize,
    /// A message for each that does not compile.
    pub(super) bad: Vec<String>,
    /// What is no script, but was meant for one.
    pub(super) doubts: Vec<String>,
}

impl Findings {
    /// In the order of their names. Those that are kept have been compiled otherwise, and are only counted (`compiles`).
    pub(super) fn of(spec: &Spec, compiles: bool) -> std::io::Result<Self> {
        let mount = Mount::open(spec)?;
        let compiler = compiles.then(|| Compiler::new(spec));
        let mut paths = vec![Vec::new()];
        if spec.root.is_dir() {
            paths.clear();
            collect(&spec.root, b"", &mut paths);
        }
        let mut findings = Self::default();
        for path in paths {
            findings.add(&mount, spec, &path, compiler.as_ref());
        }
        Ok(findings)
    }

    /// For a sentence.
    pub(super) fn counted(&self) -> String {
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        let good = format!("{} Perl script{}", self.good, plural(self.good));
        match self.others {
            0 => good,
            others => format!("{good}, and {others} other program{}", plural(others)),
        }
    }

    fn add(&mut self, mount: &Mount, spec: &Spec, path: &[u8], compiler: Option<&Compiler>) {
        match mount.find(&[spec.mount.trim_end_matches('/').as_bytes(), path].concat()) {
            Ok(Script { perl: None, .. }) => self.others += 1,
            Ok(script) => match compiler.map_or(Ok(()), |compiler| compiler.compile(&script)) {
                Ok(()) => self.good += 1,
                Err(why) => self.bad.push(format!("{}: {why}", script.filename.display())),
            },
            // The mount is this one.
            Err(refusal) if path.is_empty() => self.bad.push(refusal.reason),
            Err(refusal) => {
                let below = OsString::from_vec(path.strip_prefix(b"/").unwrap_or(path).to_vec());
                let file = spec.root.join(below);
                if is_somebodys_program(&file) || is_text_of_a_script(&file) {
                    self.doubts.push(refusal.reason);
                }
            }
        }
    }
}

/// Paths of all files below a directory, as requests have them.
fn collect(directory: &Path, above: &[u8], paths: &mut Vec<Vec<u8>>) {
    let mut entries: Vec<_> = fs::read_dir(directory).into_iter().flatten().flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().into_vec();
        let path = [above, b"/", &name].concat();
        match entry.file_type() {
            _ if name.starts_with(b".") => {}
            Ok(kind) if kind.is_dir() => collect(&entry.path(), &path, paths),
            Ok(_) => paths.push(path),
            Err(_) => {}
        }
    }
}

/// Whether a file may be executed, if perhaps not by whoever is to run it.
fn is_somebodys_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Whether a file begins with a `#!` line.
fn is_text_of_a_script(file: &Path) -> bool {
    let mut first = [0; 2];
    // Whoever opens a pipe waits for its other end.
    file.is_file()
        && File::open(file).and_then(|mut file| file.read_exact(&mut first)).is_ok()
        && first == *b"#!"
}

/// Compiles as a zygote of the mount's would, with the variables that all requests have.
struct Compiler {
    environment: Environment,
    preload: String,
}

impl Compiler {
    fn new(spec: &Spec) -> Self {
        Self { environment: Environment::new(spec), preload: format!("-M5;{}", spec.preload_code()) }
    }

    /// Perl's message, if it has one.
    fn compile(&self, script: &Script) -> Result<(), String> {
        let Some(Perl { program, switches }) = &script.perl else { return Ok(()) };
        let switches = switches.iter().map(|switch| OsStr::from_bytes(switch.as_bytes()));
        let mut command = Command::new(program);
        command
            .args(switches)
            .args([&self.preload, "-c"])
            .arg(&script.filename)
            .current_dir(&script.directory);
        command.env_clear().envs(self.environment.lasting()).env("SCRIPT_FILENAME", &script.filename);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        // Code that is run while it is compiled finds none, as where it is served.
        without_terminal(&mut command);
        let output = command
            .output()
            .map_err(|error| format!("{}, which its #! line names: {error}", program.display()))?;
        let said = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
        if output.status.success() { Ok(()) } else { Err(said) }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn each_perl_script_that_a_request_could_reach_is_compiled() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str, mode: u32| {
            let file = root.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        };
        write("good.pl", "#!/usr/bin/env perl\nuse strict; print 1;\n", 0o755);
        write("taint.pl", "#!/usr/bin/perl -T\nBEGIN { die 'no taint' if !${^TAINT} }\n", 0o755);
        write("sub/near.pl", "#!/usr/bin/perl\nBEGIN { die 'elsewhere' if !-e 'near.pl' }\n", 0o755);
        write("bad.pl", "#!/usr/bin/perl -w\nuse strict;\n$x = 1;\n", 0o755);
        write("lost.pl", "#!/no/such/perl5.8\n", 0o755);
        write("shell.cgi", "#!/bin/sh\n", 0o755);
        write("forgotten.pl", "#!/usr/bin/perl\n", 0o644);
        write(".hidden.pl", "#!/usr/bin/perl\ndie(\n", 0o755);
        write("image.png", "\x7fPNG", 0o644);
        let pipe = Command::new("mkfifo").arg(root.path().join("pipe")).status();
        assert!(pipe.unwrap().success());
        symlink("..", root.path().join("sub/circle")).unwrap();
        let spec = Spec { mount: "/c".into(), root: root.path().to_owned(), ..Spec::default() };
        let findings = Findings::of(&spec, true).unwrap();
        assert_eq!(findings.counted(), "3 Perl scripts, and 1 other program");
        let bad = findings.bad.join("|").replace(&root.path().display().to_string(), "");
        assert!(bad.starts_with("/bad.pl: Global symbol \"$x\" requires explicit package name"), "{bad}");
        assert!(bad.contains(" at /bad.pl line 3.\n"), "{bad}");
        assert!(bad.contains("|/lost.pl: /no/such/perl5.8, which its #! line names: No such file"), "{bad}");
        let shown = root.path().join("forgotten.pl");
        assert_eq!(findings.doubts, [format!("{} is not executable: see chmod +x", shown.display())]);

        let one = Spec { root: root.path().join("good.pl"), ..spec };
        assert_eq!(Findings::of(&one, true).unwrap(), Findings { good: 1, ..Findings::default() });
        let one = Spec { root: shown, ..one };
        assert!(
            Findings::of(&one, true).unwrap().bad[0]
                .ends_with("forgotten.pl is not executable: see chmod +x")
        );
    }
}
