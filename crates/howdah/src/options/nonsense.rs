//! Whatever stands on the command line, it is read or refused in words: nothing of it ends in a panic.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::{Action, command, parse};

/// What a hand, a script or an empty variable puts in the place of a value.
const VALUES: &[&[u8]] = &[
    b"",
    b"0",
    b"-1",
    b"3",
    b"1.5",
    b"65536",
    b"4294967296",
    b"18446744073709551615",
    b"18446744073709551616",
    b"99999999999999999999999999",
    b"17179869183g",
    b"8761h",
    b"18446744073709551615h",
    b"k",
    b"=",
    b",",
    b":",
    b"::",
    b"[]",
    b"[]:1",
    b"[::1",
    b"@",
    b"unix:",
    b"unix:@",
    b"http://",
    b"http://:",
    b"http+unix://%",
    b"%{",
    b"%{}t",
    b"%{%",
    b"/",
    b"?",
    b"0.0.0.0/99",
    b"::/129",
    b"-",
    b"--",
    b"-e",
    b"\xff\xfe",
    b"@\xff",
    "\u{e4}\u{1f42b}".as_bytes(),
    "k\u{e4}".as_bytes(),
    b"\x1b[31m",
];

fn os(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

/// Every option that takes a value, as it is written. An alias is read by what it stands for.
fn options() -> Vec<String> {
    let command = command();
    let name = |arg: &clap::Arg| match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => Some(format!("--{long}")),
        (None, short) => short.map(|short| format!("-{short}")),
    };
    let all = [&command].into_iter().chain(command.get_subcommands());
    let taking = all.flat_map(clap::Command::get_arguments).filter(|arg| takes_value(arg));
    let mut names: Vec<String> = taking.filter_map(name).collect();
    names.sort();
    names.dedup();
    names
}

fn takes_value(arg: &clap::Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_positional()
}

/// Reads the line, and does with the outcome what the program does before it binds anything.
fn read(line: &[OsString]) {
    match parse([OsString::from("howdah")].into_iter().chain(line.iter().cloned())) {
        Ok(parsed) => {
            if let Action::Serve(serve) | Action::Check(serve, _) = parsed.action {
                let _ = (serve.front(), serve.application().len());
                for pool in serve.pools() {
                    let _ = (serve.supervisor(&pool), serve.zygote(&pool), pool.cgi.map(|cgi| cgi.mode));
                }
            }
        }
        Err(error) => assert!(!error.render().to_string().trim().is_empty(), "{line:?}"),
    }
}

#[test]
fn any_value_of_any_option_is_read_or_refused_in_words() {
    let (begin, options) = (["-e", "sub{}"].map(OsString::from), options());
    let all_values = |option: &String| {
        for value in VALUES {
            read(&[&begin[..], &[os(&[option.as_bytes(), b"=", value].concat())]].concat());
        }
    };
    // It takes longer than all other tests of the program.
    std::thread::scope(|scope| {
        for some in options.chunks(32) {
            scope.spawn(|| some.iter().for_each(all_values));
        }
    });
}

#[test]
fn words_in_any_order_are_read_or_refused_in_words() {
    let mut words: Vec<OsString> = options().into_iter().map(OsString::from).collect();
    words.extend(VALUES.iter().map(|value| os(value)));
    words.extend(
        [
            "serve", "check", "status", "workers", "stats", "start", "a.psgi", "app", "--json", "-D", "-h",
            "-V",
        ]
        .map(OsString::from),
    );
    // A row of numbers that is the same in each run (xorshift).
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut draw = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap_or(0)
    };
    for _ in 0..400 {
        let length = draw(6);
        let line: Vec<OsString> = (0..length).map(|_| words[draw(words.len())].clone()).collect();
        read(&line);
    }
}
