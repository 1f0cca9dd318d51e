//! The perl that becomes a script's zygote: its switches as the `#!` line has them, and an environment without the
//! variables of any one request.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use std::os::unix::process::CommandExt;

use crate::place::{Perl, Script};

/// Whether a perl with these switches can be stopped behind the script: no other program stands in them, and none takes the
/// next argument for its own. The kernel makes one argument of several switches; perl takes it apart.
pub(super) fn can_be_stopped(perl: &Perl) -> bool {
    let mut words = perl.switches.iter().flat_map(|switch| switch.as_bytes().split(u8::is_ascii_whitespace));
    while let Some(word) = words.next() {
        let known = match word {
            b"-I" => words.next().is_some(),
            [b'-', b'I' | b'C', ..] => true,
            [b'-', letters @ ..] => {
                !letters.is_empty() && letters.iter().all(|letter| b"TtUWXw".contains(letter))
            }
            _ => false,
        };
        if !known {
            return false;
        }
    }
    true
}

/// Variables that are one request's: those of RFC 3875 and of Apache. A script that looks for them while it is compiled
/// finds none.
const OF_A_REQUEST: [&[u8]; 13] = [
    b"AUTH_TYPE",
    b"CONTENT_LENGTH",
    b"CONTENT_TYPE",
    b"HTTPS",
    b"PATH_INFO",
    b"PATH_TRANSLATED",
    b"QUERY_STRING",
    b"REQUEST_METHOD",
    b"REQUEST_SCHEME",
    b"REQUEST_URI",
    b"SCRIPT_NAME",
    b"SCRIPT_URI",
    b"UNIQUE_ID",
];
const BEGIN_OF_A_REQUEST: [&[u8]; 6] = [b"HTTP_", b"REMOTE_", b"SERVER_", b"REDIRECT_", b"SSL_", b"HOWDAH_"];

fn is_of_a_request(name: &[u8]) -> bool {
    if name == b"SERVER_SOFTWARE" {
        return false;
    }
    OF_A_REQUEST.contains(&name) || BEGIN_OF_A_REQUEST.iter().any(|begin| name.starts_with(begin))
}

/// Name and value of what is every request's.
fn lasting(environment: &[CString]) -> impl Iterator<Item = (&OsStr, &OsStr)> {
    environment.iter().filter_map(|variable| {
        let bytes = variable.as_bytes();
        let sign = bytes.iter().position(|&byte| byte == b'=').filter(|&at| at > 0)?;
        let (name, value) = (&bytes[..sign], &bytes[sign + 1..]);
        (!is_of_a_request(name)).then(|| (OsStr::from_bytes(name), OsStr::from_bytes(value)))
    })
}

/// `perl SWITCHES PREAMBLE SCRIPT`, in the script's directory and a process group of its own.
pub(super) fn command(script: &Script, perl: &Perl, preamble: &OsStr, environment: &[CString]) -> Command {
    let mut command = Command::new(&perl.program);
    command
        .args(perl.switches.iter().map(|word| OsStr::from_bytes(word.as_bytes())))
        .arg(preamble)
        .arg(&script.filename)
        .env_clear()
        .envs(lasting(environment))
        .current_dir(&script.directory)
        .process_group(0);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(words: &[&str]) -> Vec<CString> {
        words.iter().map(|&word| CString::new(word).unwrap()).collect()
    }

    #[test]
    fn switches_that_perl_would_take_for_something_else_are_known() {
        let cases: [(&[&str], bool); 16] = [
            (&[], true),
            (&["-w"], true),
            (&["-T"], true),
            (&["-wT", "-t"], true),
            (&["-w -T"], true),
            (&["-w -e"], false),
            (&["-CSD"], true),
            (&["-I/lib"], true),
            (&["-I", "lib"], true),
            (&["-I"], false),
            (&["-n"], false),
            (&["-e", "1"], false),
            (&["-d"], false),
            (&["-x"], false),
            (&["-"], false),
            (&["lib"], false),
        ];
        for (words, wanted) in cases {
            let perl = Perl { program: "perl".into(), switches: strings(words) };
            assert_eq!(can_be_stopped(&perl), wanted, "{words:?}");
        }
    }

    #[test]
    fn only_what_is_every_requests_is_there_while_a_script_is_compiled() {
        let all = strings(&[
            "PATH=/bin",
            "DOCUMENT_ROOT=/srv",
            "GATEWAY_INTERFACE=CGI/1.1",
            "SERVER_SOFTWARE=Howdah",
            "DB=a=b",
            "QUERY_STRING=q",
            "HTTP_HOST=h",
            "REMOTE_ADDR=::1",
            "SERVER_NAME=n",
            "HTTPS=on",
            "=x",
            "none",
        ]);
        let names: Vec<_> = lasting(&all).map(|(name, _)| name.to_str().unwrap()).collect();
        assert_eq!(names, ["PATH", "DOCUMENT_ROOT", "GATEWAY_INTERFACE", "SERVER_SOFTWARE", "DB"]);
    }
}
