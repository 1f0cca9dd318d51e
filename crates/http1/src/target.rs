//! The request line after its end is known: method, target and version (RFC 9112 3).
//!
//! Called by the decoder once per request; yields positions, which [`crate::head`] turns into
//! slices when the whole head is there.

use memchr::{memchr, memchr2, memrchr};

use crate::authority::is_authority;
use crate::bytes::Part;
use crate::reject::{
    ASTERISK, AUTHORITY, BAD_VERSION, CONNECT, FRAGMENT, NO_VERSION, Reject, TARGET, TARGET_BYTES, VERSION,
};
use crate::terms::Version;

/// The three forms of a request target that reach an origin server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Origin,
    Absolute,
    Asterisk,
}

/// A checked request line, by position in the input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestLine {
    pub(crate) method: Part,
    pub(crate) target: Part,
    pub(crate) version: Version,
    pub(crate) form: Form,
    pub(crate) authority: Part,
    /// Empty for asterisk-form, and for absolute-form without a path.
    pub(crate) path: Part,
    pub(crate) query: Part,
    /// First byte after the CRLF.
    pub(crate) end: usize,
}

/// Takes apart the request line `line` of `input`, whose method and CRLF the decoder has found.
///
/// The version is judged before the target: another major version may have other targets.
pub(crate) fn parse_request_line(input: &[u8], method: Part, line: Part) -> Result<RequestLine, Reject> {
    let rest = Part::new(method.end + 1, line.end);
    let space = memrchr(b' ', rest.of(input)).ok_or(NO_VERSION)?;
    let version = parse_version(&rest.of(input)[space + 1..])?;
    if method.of(input) == b"CONNECT" {
        return Err(CONNECT);
    }
    let target = Part::new(rest.start, rest.start + space);
    check_bytes(target.of(input))?;
    let split = split_target(input, target, method.of(input) == b"OPTIONS")?;
    let (form, authority, path, query) = split;
    Ok(RequestLine { method, target, version, form, authority, path, query, end: line.end + 2 })
}

fn parse_version(version: &[u8]) -> Result<Version, Reject> {
    match version {
        b"HTTP/1.0" => Ok(Version::Http10),
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'0'..=b'9'] => Ok(Version::Http11),
        [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => Err(VERSION),
        _ => Err(BAD_VERSION),
    }
}

/// Visible ASCII only, and no fragment. The few visible bytes that RFC 3986 leaves out of URIs (such
/// as `|` and `"`) pass, because browsers send them.
fn check_bytes(target: &[u8]) -> Result<(), Reject> {
    // Without early exit, so that the compiler makes it a vector loop.
    let visible = target.iter().fold(true, |ok, &b| ok & (b.wrapping_sub(0x21) < 0x5e));
    if !visible {
        return Err(TARGET_BYTES);
    }
    if target.iter().fold(false, |found, &b| found | (b == b'#')) {
        return Err(FRAGMENT);
    }
    Ok(())
}

type Split = (Form, Part, Part, Part);

fn split_target(input: &[u8], target: Part, is_options: bool) -> Result<Split, Reject> {
    match target.of(input) {
        [b'/', ..] => {
            let (path, query) = split_query(input, target);
            Ok((Form::Origin, Part::default(), path, query))
        }
        b"*" if is_options => Ok((Form::Asterisk, Part::default(), Part::default(), Part::default())),
        b"*" => Err(ASTERISK),
        _ => split_absolute(input, target),
    }
}

fn split_absolute(input: &[u8], target: Part) -> Result<Split, Reject> {
    let start = target.start + scheme_len(target.of(input)).ok_or(TARGET)?;
    let after_scheme = Part::new(start, target.end);
    let len = memchr2(b'/', b'?', after_scheme.of(input)).unwrap_or(target.end - start);
    let authority = Part::new(start, start + len);
    if !is_authority(authority.of(input)) {
        return Err(AUTHORITY);
    }
    let (path, query) = split_query(input, Part::new(authority.end, target.end));
    Ok((Form::Absolute, authority, path, query))
}

/// Length of `http://` or `https://`, in any case, at the start.
fn scheme_len(target: &[u8]) -> Option<usize> {
    [b"http://".as_slice(), b"https://"]
        .iter()
        .find(|scheme| target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)))
        .map(|scheme| scheme.len())
}

fn split_query(input: &[u8], whole: Part) -> (Part, Part) {
    let none = (whole, Part::new(whole.end, whole.end));
    memchr(b'?', whole.of(input)).map_or(none, |at| {
        let mark = whole.start + at;
        (Part::new(whole.start, mark), Part::new(mark + 1, whole.end))
    })
}
