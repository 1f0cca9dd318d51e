//! From a format's text to what renders lines: a preset by its name, else a format string.

use crate::compat::Compat;
use crate::error::FormatError;
use crate::format::Format;
use crate::needs::Needs;
use crate::parse::parse;
use crate::preset::{self, PRESETS};
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
    if !format.contains('%') && !PRESETS.contains(&format) {
        return Err(says_nothing(format));
    }
    let mut needs = Needs::new(compat == Compat::Plack);
    let (ops, style) = preset::ops(format, compat, &mut needs)
        .map_or_else(|| parse(format, compat, &mut needs).map(|ops| (ops, Style::Apache)), Ok)?;
    Ok(Format { ops, needs, style, zone })
}

/// Most often the name of a preset that was not written as it is.
fn says_nothing(format: &str) -> FormatError {
    let presets = PRESETS.join(", ");
    let what = format!(
        "'{format}' has no directive, so each line would be the same: name one of {presets}, or write a format such as \
         '%h \"%r\" %>s'"
    );
    FormatError { column: 1, what }
}
