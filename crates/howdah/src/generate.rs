//! Man page and shell completions, made from the declarations in `options`. `make install` and
//! `make man` call these through `howdah man` and `howdah completions SHELL`.

use std::process::ExitCode;

use clap_complete::Shell;
use roff::{Inline, Roff, bold, roman};

use crate::options;
use crate::options::guide::{SECTIONS, Section};
use crate::output;

/// Prints howdah(1).
pub(crate) fn man() -> anyhow::Result<ExitCode> {
    // The page has room for each option's variable, and for those that the short help leaves out.
    let shown = |arg: clap::Arg| arg.hide_env(false).hide_env_values(true).hide_short_help(false);
    let page = clap_mangen::Man::new(options::command().mut_args(shown)).section("1").manual("Howdah");
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
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

fn line(text: Inline) -> [Inline; 1] {
    [text]
}

/// Prints a completion script for one shell.
pub(crate) fn completions(shell: Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut options::command(), "howdah", &mut script);
    output::write(&script)?;
    Ok(ExitCode::SUCCESS)
}
