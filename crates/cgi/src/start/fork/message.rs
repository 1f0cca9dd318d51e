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
    match (ScriptReport::read(kind)?, value) {
        (ScriptReport::Loaded, 0) if text.is_empty() => Some(Report::Loaded),
        (ScriptReport::Ready, 0) => Some(Report::Ready(paths(text)?)),
        (ScriptReport::Failed, 0) => Some(Report::Failed(paths(text)?)),
        (ScriptReport::Unfit, 0) => Some(Report::Unfit(String::from_utf8_lossy(text).into_owned())),
        (ScriptReport::Forked, 1..) if text.is_empty() => Pid::from_raw(value).map(Report::Forked),
        (ScriptReport::Refused, 1..) if text.is_empty() => Some(Report::Refused(value)),
        _ => None,
    }
}

/// Each with a NUL behind it. Those that did not find room are cut off.
fn paths(text: &[u8]) -> Option<Vec<PathBuf>> {
    let whole = text.iter().rposition(|&byte| byte == 0).map_or(0, |at| at + 1);
    let paths = text[..whole].split_inclusive(|&byte| byte == 0);
    paths.map(|path| Some(OsString::from_vec(path.strip_suffix(b"\0")?.to_vec()).into())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// A list of the project's vectors. Packets are in the byte order of nearly all machines; elsewhere there is nothing
    /// to compare.
    fn cases(list: &str) -> Vec<Value> {
        if cfg!(target_endian = "big") {
            return Vec::new();
        }
        let all: Value = serde_json::from_str(include_str!("../../../../../t/vectors/script.json")).unwrap();
        all[list].as_array().unwrap().clone()
    }

    fn packet(case: &Value) -> Vec<u8> {
        let digits: String = case["packet"].as_str().unwrap().split(' ').collect();
        (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
    }

    fn bytes(text: &Value) -> Vec<u8> {
        text.as_str().unwrap().chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect()
    }

    fn strings(list: &Value) -> Vec<CString> {
        list.as_array().unwrap().iter().map(|text| CString::new(bytes(text)).unwrap()).collect()
    }

    #[test]
    fn a_launch_is_written_as_the_vectors_have_it() {
        for case in cases("launches") {
            let means = &case["means"];
            let written = launch(&strings(&means["arguments"]), &strings(&means["variables"]));
            assert_eq!(written, Some(packet(&case)), "{means}");
        }
    }

    #[test]
    fn a_launch_that_is_too_long_is_none() {
        let long = |length| vec![CString::new(vec![b'x'; length]).unwrap()];
        let most = SCRIPT_PACKET - size_of::<LaunchRecord>() - 1;
        assert_eq!(launch(&[], &long(most)).map(|packet| packet.len()), Some(SCRIPT_PACKET));
        assert_eq!(launch(&[], &long(most + 1)), None);
    }

    #[test]
    fn a_report_is_read_as_the_vectors_have_it() {
        for case in cases("reports") {
            let means = &case["means"];
            let texts = means["text"].as_array().unwrap().iter().map(bytes);
            let paths = || texts.clone().map(|text| OsString::from_vec(text).into()).collect();
            let value = i32::try_from(means["value"].as_i64().unwrap()).unwrap();
            let expected = match means["kind"].as_str().unwrap() {
                "loaded" => Report::Loaded,
                "ready" => Report::Ready(paths()),
                "failed" => Report::Failed(paths()),
                "unfit" => Report::Unfit(texts.map(|text| String::from_utf8(text).unwrap()).collect()),
                "forked" => Report::Forked(Pid::from_raw(value).unwrap()),
                _ => Report::Refused(value),
            };
            assert_eq!(report(&packet(&case)), Some(expected));
        }
    }

    #[test]
    fn what_is_no_report_is_refused() {
        for case in cases("no reports") {
            assert_eq!(report(&packet(&case)), None, "{}", case["why"]);
        }
    }
}
