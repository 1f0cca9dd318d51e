//! The `#!` line of a script, as the kernel reads it, and whether it names a perl.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Bytes of a file in which the kernel looks for the line.
pub(super) const LONGEST: usize = 256;

/// A perl as a `#!` line names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Perl {
    /// The program; a bare name is one in PATH, as of `/usr/bin/env perl`.
    pub program: PathBuf,
    /// Arguments before the script's name. The kernel makes one of all that follows the program, as `-w -T`.
    pub switches: Vec<CString>,
}

impl Perl {
    /// Looks for one in the first bytes of a file.
    #[must_use]
    pub fn parse(first: &[u8]) -> Option<Self> {
        let line = first.strip_prefix(b"#!")?;
        let line = line.split(|&byte| byte == b'\n').next()?;
        let (program, argument) = cut(trim(line));
        if base(program) == b"env" {
            return Self::of_env(argument);
        }
        let switches = if argument.is_empty() { Vec::new() } else { vec![argument] };
        Self::new(program, switches)
    }

    /// `env perl`, and `env -S perl -T`, which splits its argument into words.
    fn of_env(argument: &[u8]) -> Option<Self> {
        let Some(words) = argument.strip_prefix(b"-S") else {
            return Self::new(argument, Vec::new());
        };
        let mut words = words.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let program = words.next()?;
        Self::new(program, words.collect())
    }

    fn new(program: &[u8], switches: Vec<&[u8]>) -> Option<Self> {
        let version = base(program).strip_prefix(b"perl")?;
        let is_perl = version.is_empty()
            || version[0].is_ascii_digit()
                && version.iter().all(|&byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
        let switches = switches.into_iter().map(CString::new).collect::<Result<_, _>>().ok()?;
        is_perl.then(|| Self { program: Path::new(OsStr::from_bytes(program)).to_owned(), switches })
    }
}

/// The first word, and the rest of the line.
fn cut(line: &[u8]) -> (&[u8], &[u8]) {
    let end = line.iter().position(is_blank).unwrap_or(line.len());
    (&line[..end], trim(&line[end..]))
}

/// The kernel does not take a CR for a blank, and looks for a program with one in its name.
fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn trim(line: &[u8]) -> &[u8] {
    let start = line.iter().position(|byte| !is_blank(byte)).unwrap_or(line.len());
    let end = line.iter().rposition(|byte| !is_blank(byte)).map_or(start, |last| last + 1);
    &line[start..end]
}

fn base(program: &[u8]) -> &[u8] {
    program.rsplit(|&byte| byte == b'/').next().unwrap_or(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_perl_is_known_by_its_name() {
        for (line, program, switches) in [
            ("#!/usr/bin/perl\nprint", "/usr/bin/perl", &[][..]),
            ("#!/usr/bin/perl", "/usr/bin/perl", &[]),
            ("#! /usr/bin/perl -wT \n", "/usr/bin/perl", &["-wT"]),
            ("#!/usr/bin/perl -w -I lib\n", "/usr/bin/perl", &["-w -I lib"]),
            ("#!/usr/bin/perl\t-T\r\n", "/usr/bin/perl", &["-T\r"]),
            ("#!/opt/perl-5.40/bin/perl5.40.0\n", "/opt/perl-5.40/bin/perl5.40.0", &[]),
            ("#!/usr/bin/perl5.36-x86_64-linux-gnu\n", "/usr/bin/perl5.36-x86_64-linux-gnu", &[]),
            ("#!perl\n", "perl", &[]),
            ("#!/usr/bin/env perl\n", "perl", &[]),
            ("#!/usr/bin/env -S perl -T -w\n", "perl", &["-T", "-w"]),
            ("#!/usr/bin/env -Sperl\n", "perl", &[]),
        ] {
            let perl = Perl::parse(line.as_bytes()).expect(line);
            let given: Vec<_> = perl.switches.iter().map(|switch| switch.to_str().unwrap()).collect();
            assert_eq!((perl.program.to_str().unwrap(), given.as_slice()), (program, switches), "{line:?}");
        }
    }

    #[test]
    fn whatever_else_runs_a_script_is_none() {
        for line in [
            "",
            "#",
            "#!",
            "#!\n/usr/bin/perl",
            "#!/bin/sh\n",
            "#!/usr/bin/python3\n",
            "\x7fELF",
            " #!/usr/bin/perl\n",
            "#!/usr/bin/perldoc\n",
            "#!/usr/bin/perl-wrapper\n",
            "#!/usr/bin/perl/x\n",
            "#!/usr/bin/env perl -w\n",
            "#!/usr/bin/env python3 perl\n",
            "#!/usr/bin/env -S\n",
            "#!/usr/bin/env\n",
            "#!/usr/bin/perl\r\n",
            "#!/usr/bin/env perl\r\n",
            "#!/usr/bin/perl\r\n",
            "#!/usr/bin/speedy\n",
            "#!/usr/bin/perl -\0\n",
        ] {
            assert_eq!(Perl::parse(line.as_bytes()), None, "{line:?}");
        }
    }
}
