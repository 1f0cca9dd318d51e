//! The project's test vectors of the zygote's protocol, t/vectors/zygote.json, which tests in Rust, C and Perl read. Each
//! character of a string in there is a byte.

use serde_json::Value;

/// A list of them. Packets are in the byte order of nearly all machines; elsewhere there is nothing to compare.
pub(crate) fn cases(list: &str) -> Vec<Value> {
    if cfg!(target_endian = "big") {
        return Vec::new();
    }
    let all: Value = serde_json::from_str(include_str!("../../../t/vectors/zygote.json")).unwrap();
    let found = all[list].as_array().unwrap();
    assert!(!found.is_empty());
    found.clone()
}

pub(crate) fn number<N: TryFrom<u64, Error: std::fmt::Debug>>(value: &Value) -> N {
    value.as_u64().unwrap().try_into().unwrap()
}

pub(crate) fn bytes(text: &Value) -> Vec<u8> {
    text.as_str().unwrap().chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect()
}

/// Groups of hexadecimal digits, with spaces between them for the eye.
pub(crate) fn packet(text: &Value) -> Vec<u8> {
    let digits: String = text.as_str().unwrap().split(' ').collect();
    let pair = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(pair).collect()
}

/// In groups of four bytes.
pub(crate) fn hex(packet: &[u8]) -> String {
    let group = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    packet.chunks(4).map(group).collect::<Vec<_>>().join(" ")
}
