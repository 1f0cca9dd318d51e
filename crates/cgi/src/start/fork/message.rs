//! What host and zygote say to each other: launches are written here, and reports read. One is a packet; its bytes are
//! declared in `howdah_wire::script`, and docs/cgi-zygote.md tells when each is sent.
//!
//! A zygote is Perl with a script inside, so a report is input: what is no report is refused as a whole.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use howdah_sys::Pid;
use howdah_wire::{LaunchRecord, SCRIPT_LAUNCH, SCRIPT_PACKET, ScriptRecord, ScriptReport};

/// What a zygote says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// It is about to compile the script.
    Loaded,
    /// It has, and has loaded these files.
    Ready(Vec<PathBuf>),
    /// It cannot, and has loaded these.
    Failed(Vec<PathBuf>),
    /// The script cannot be forked, for this reason.
    Unfit(String),
    /// A process was forked.
    Forked(Pid),
    /// None was forked: an errno.
    Refused(i32),
}

/// The packet for a launch; none where it is too long for one.
pub(super) fn launch(arguments: &[CString], variables: &[CString]) -> Option<Vec<u8>> {
    let strings = || arguments.iter().chain(variables).map(|string| string.as_bytes_with_nul());
    let length: usize = strings().map(<[u8]>::len).sum();
    if size_of::<LaunchRecord>() + length > SCRIPT_PACKET {
        return None;
    }
    let words = [SCRIPT_LAUNCH, arguments.len() as u32, variables.len() as u32, length as u32];
    let mut packet = words.map(u32::to_ne_bytes).as_flattened().to_vec();
    strings().for_each(|string| packet.extend_from_slice(string));
    Some(packet)
}

/// The report in a packet, if it is one.
pub(super) fn report(packet: &[u8]) -> Option<Report> {
    const HEAD: usize = size_of::<ScriptRecord>();
    let (head, text) = packet.split_at_checked(HEAD)?;
    let kind = u32::from_ne_bytes(head[..4].try_into().ok()?);
    let value = i32::from_ne_bytes(head[4..].try_into().ok()?);
    let is = |known: ScriptReport| kind == known as u32;
    match value {
        0 if is(ScriptReport::Loaded) && text.is_empty() => Some(Report::Loaded),
        0 if is(ScriptReport::Ready) => Some(Report::Ready(paths(text)?)),
        0 if is(ScriptReport::Failed) => Some(Report::Failed(paths(text)?)),
        0 if is(ScriptReport::Unfit) => Some(Report::Unfit(String::from_utf8_lossy(text).into_owned())),
        1.. if is(ScriptReport::Forked) && text.is_empty() => Pid::from_raw(value).map(Report::Forked),
        1.. if is(ScriptReport::Refused) && text.is_empty() => Some(Report::Refused(value)),
        _ => None,
    }
}

/// Each with a NUL behind it. Those that did not find room are cut off.
fn paths(text: &[u8]) -> Option<Vec<PathBuf>> {
    let whole = text.iter().rposition(|&byte| byte == 0).map_or(0, |at| at + 1);
    let paths = text[..whole].split_inclusive(|&byte| byte == 0);
    paths.map(|path| Some(OsString::from_vec(path.strip_suffix(b"\0")?.to_vec()).into())).collect()
}
