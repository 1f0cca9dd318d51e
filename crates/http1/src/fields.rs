//! Field lines: httparse does the work, and this module closes what it leaves open.
//!
//! httparse would take LF for CRLF, which the decoder has excluded before. In debug builds
//! and under the fuzzer each block that it passes is checked again by the plain rules of
//! [`first_fault`], which otherwise only put a name to what httparse has refused.

use httparse::{EMPTY_HEADER, Header, Status};

use crate::bytes::{is_ows, is_tchar, is_value};
use crate::reject::{
    BARE_CR, BARE_LF, EMPTY_NAME, FIELD_NAME, FIELD_VALUE, FOLD, NAME_SPACE, NO_COLON, Reject,
};

/// Most requests of browsers fit; setting up all 128 places would cost more than parsing.
const FEW: usize = 16;
const MANY: usize = 128;

/// Parses `block`, `count` field lines and the empty line after them, and gives them to `each`.
pub(crate) fn for_each_field<'b>(
    block: &'b [u8],
    count: usize,
    mut each: impl FnMut(&'b [u8], &'b [u8]) -> Result<(), Reject>,
) -> Result<(), Reject> {
    let mut run = |room: &mut [Header<'b>]| {
        parse(block, room)?.iter().try_for_each(|field| each(field.name.as_bytes(), field.value))
    };
    if count <= FEW {
        run(&mut [EMPTY_HEADER; FEW])
    } else if count <= MANY {
        run(&mut [EMPTY_HEADER; MANY])
    } else {
        // Only with a limit raised above its default.
        run(&mut vec![EMPTY_HEADER; count])
    }
}

fn parse<'h, 'b>(block: &'b [u8], room: &'h mut [Header<'b>]) -> Result<&'h [Header<'b>], Reject> {
    match httparse::parse_headers(block, room) {
        Ok(Status::Complete((len, fields))) if len == block.len() => {
            debug_assert_eq!(first_fault(block), None, "httparse passed a bad field");
            Ok(fields)
        }
        _ => Err(first_fault(block).unwrap_or(FIELD_NAME)),
    }
}

/// The first rule that a line of `block` breaks.
#[cold]
fn first_fault(block: &[u8]) -> Option<Reject> {
    let mut lines = block.strip_suffix(b"\r\n")?.split_inclusive(|&b| b == b'\n');
    lines.find_map(|line| line.strip_suffix(b"\r\n").map_or(Some(BARE_LF), line_fault))
}

fn line_fault(line: &[u8]) -> Option<Reject> {
    if line.first().is_some_and(|&b| is_ows(b)) {
        return Some(FOLD);
    }
    let Some(colon) = memchr::memchr(b':', line) else { return Some(NO_COLON) };
    // The value brings its colon along, which is no worse than any of its own.
    let (name, value) = line.split_at(colon);
    name_fault(name).or_else(|| value_fault(value))
}

fn name_fault(name: &[u8]) -> Option<Reject> {
    match name {
        [] => Some(EMPTY_NAME),
        [.., last] if is_ows(*last) => Some(NAME_SPACE),
        _ => name.iter().any(|&b| !is_tchar(b)).then_some(FIELD_NAME),
    }
}

fn value_fault(value: &[u8]) -> Option<Reject> {
    let bad = value.iter().find(|&&b| !is_value(b))?;
    Some(if *bad == b'\r' { BARE_CR } else { FIELD_VALUE })
}
