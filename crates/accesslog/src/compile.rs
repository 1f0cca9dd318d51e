//! From a format's text to what renders lines: a preset by its name, else a format string.

use crate::compat::Compat;
use crate::error::FormatError;
use crate::format::Format;
use crate::needs::Needs;
use crate::parse::parse;
use crate::preset;
use crate::style::Style;
use crate::zone::Zone;

/// Compiles `format`: the name of a preset ([`crate::PRESETS`]) or an Apache format string.
///
/// Times are in the system's time zone, read once, here.
///
/// # Errors
/// [`FormatError`] names the column and the way out.
pub fn compile(format: &str, compat: Compat) -> Result<Format, FormatError> {
    compile_in(format, compat, Zone::system())
}

pub(crate) fn compile_in(format: &str, compat: Compat, zone: Zone) -> Result<Format, FormatError> {
    let mut needs = Needs::new(compat == Compat::Plack);
    let (ops, style) = preset::ops(format, compat, &mut needs)
        .map_or_else(|| parse(format, compat, &mut needs).map(|ops| (ops, Style::Apache)), Ok)?;
    Ok(Format { ops, needs, style, zone })
}
