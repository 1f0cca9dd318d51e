//! Man page and shell completions, made from the declarations in `options`. `make install` and
//! `make man` call these through `howdah man` and `howdah completions SHELL`.

use std::process::ExitCode;

use clap::{Arg, Command};
use clap_complete::Shell;
use roff::{Inline, Roff, bold, italic, roman};

use crate::options;
use crate::options::guide::{SECTIONS, Section};
use crate::output;

/// Prints howdah(1).
pub(crate) fn man() -> anyhow::Result<ExitCode> {
    // The page has room for each option's variable, and for those that the short help leaves out.
    let shown = |arg: Arg| arg.hide_env(false).hide_env_values(true).hide_short_help(false);
    let page = clap_mangen::Man::new(options::command().mut_args(shown)).section("1").manual("Howdah");
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    commands().to_writer(&mut text)?;
    for section in SECTIONS {
        render(section).to_writer(&mut text)?;
    }
    output::write(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn render((title, paragraphs): &Section) -> Roff {
    let mut section = Roff::new();
    section.control("SH", [title.to_uppercase().as_str()]);
    for paragraph in *paragraphs {
        match paragraph.split_once('\t') {
            Some((term, text)) => section.control("TP", []).text(line(bold(term))).text(line(roman(text))),
            None => section.control("PP", []).text(line(roman(*paragraph))),
        };
    }
    section
}

/// Each command with what it takes beside the options of a server.
fn commands() -> Roff {
    let command = options::command();
    let mut section = Roff::new();
    section.control("SH", ["COMMANDS"]);
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        section.control("SS", [format!("howdah {}", command.get_name()).as_str()]);
        let about = command.get_long_about().or_else(|| command.get_about());
        section.text(line(roman(about.map(ToString::to_string).unwrap_or_default())));
        // These have the options above, all of them.
        if !matches!(command.get_name(), "serve" | "check") {
            own_options(command, &mut section);
        }
    }
    section
}

/// Of --name and --control the section on commands for a running server tells.
fn own_options(command: &Command, section: &mut Roff) {
    let tells_which = |arg: &&Arg| matches!(arg.get_id().as_str(), "name" | "control");
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set() && !tells_which(arg)) {
        let help =
            arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
        section.control("TP", []).text(header(arg)).text(line(roman(help + &bounds(arg))));
    }
}

/// `-o, --output <FILE>`.
fn header(arg: &Arg) -> Vec<Inline> {
    let short = arg.get_short().map(|short| format!("-{short}"));
    let names: Vec<String> =
        short.into_iter().chain(arg.get_long().map(|long| format!("--{long}"))).collect();
    let values = arg.get_value_names().filter(|_| arg.get_action().takes_values()).unwrap_or_default();
    let value = values.iter().map(|name| format!("<{name}>")).collect::<Vec<_>>().join(" ");
    match (names.is_empty(), value.is_empty()) {
        (true, _) => vec![italic(value)],
        (false, true) => vec![bold(names.join(", "))],
        (false, false) => vec![bold(names.join(", ")), roman(" "), italic(value)],
    }
}

/// Which values there are, and which one it is by itself.
fn bounds(arg: &Arg) -> String {
    let shown = |what: &str, values: Vec<String>| match values.is_empty() || !arg.get_action().takes_values()
    {
        true => String::new(),
        false => format!(" [{what}: {}]", values.join(", ")),
    };
    let possible = arg.get_possible_values().into_iter().filter(|_| !arg.is_hide_possible_values_set());
    let default = arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned());
    let possible = shown("possible values", possible.map(|value| value.get_name().to_owned()).collect());
    possible + &shown("default", default.collect())
}

fn line(text: Inline) -> [Inline; 1] {
    [text]
}

/// Prints a completion script for one shell.
pub(crate) fn completions(shell: Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut options::command(), "howdah", &mut script);
    let script = String::from_utf8(script)?;
    let script = match shell {
        Shell::Fish => fish(&script),
        Shell::Zsh => zsh(&script),
        _ => script,
    };
    output::write(script.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// What `clap_complete` makes for fish takes a line for none of howdah's while an option lacks its value, which is when
/// that is to be completed, and any first word for a command. Nor does it know that --hsts needs no value, nor of words that
/// are no options.
fn fish(script: &str) -> String {
    let parse = "argparse -s (__fish_howdah_global_optspecs) -- $cmd 2>/dev/null\n";
    let without_last = format!("{parse}    or begin\n        set -e cmd[-1]\n        {parse}    end\n");
    let word = "    if set -q argv[1]\n";
    let command = "    if set -q argv[1]; and not string match -qr '[^a-z]' -- $argv[1]\n";
    let script = script.replace(parse, &without_last).replace(word, command).replace(" hsts= ", " 'hsts=?' ");
    let commands = options::command();
    let words = commands.get_subcommands().filter_map(|command| {
        let values = command.get_positionals().next()?.get_possible_values();
        let names = values.iter().map(clap::builder::PossibleValue::get_name).collect::<Vec<_>>().join(" ");
        let name = command.get_name();
        (!names.is_empty()).then(|| {
            format!("complete -c howdah -n \"__fish_howdah_using_subcommand {name}\" -f -a \"{names}\"\n")
        })
    });
    script + &words.collect::<String>()
}

/// What `clap_complete` makes for zsh looks for a command behind the application, as if there were both: the first word
/// is the one or the other. Names of commands have lower-case letters only; behind any other word stand options to serve.
fn zsh(script: &str) -> String {
    let (before, after) = script.split_once("\":: :_howdah_commands\"").unwrap_or((script, ""));
    let before: Vec<&str> = before.lines().filter(|line| !line.starts_with("'::app_file ")).collect();
    let after = after.replace("$line[2]", "$line[1]").replace("(serve)\n", "(serve|*[^a-z]*)\n");
    format!("{}\n\":: :{{_howdah_commands; _files}}\"{after}", before.join("\n"))
}
