//! Character classes of the grammars, as tables made at compile time.

const TOKEN: u8 = 1;
const REG_NAME: u8 = 2;
const HEX: u8 = 4;

static CLASS: [u8; 256] = {
    let mut table = [0; 256];
    let mut b = 0;
    while b < 256 {
        let c = b as u8;
        if c.is_ascii_alphanumeric() || in_set(c, b"!#$%&'*+-.^_`|~") {
            table[b] |= TOKEN;
        }
        if c.is_ascii_alphanumeric() || in_set(c, b"-._~!$&'()*+,;=") {
            table[b] |= REG_NAME;
        }
        if c.is_ascii_hexdigit() {
            table[b] |= HEX;
        }
        b += 1;
    }
    table
};

const fn in_set(c: u8, set: &[u8]) -> bool {
    let mut i = 0;
    while i < set.len() {
        if set[i] == c {
            return true;
        }
        i += 1;
    }
    false
}

/// tchar (RFC 9110 5.6.2).
pub(crate) fn is_tchar(b: u8) -> bool {
    CLASS[usize::from(b)] & TOKEN != 0
}

/// unreserved / sub-delims: a byte of reg-name outside percent-encoding (RFC 3986 3.2.2).
pub(crate) fn is_reg_name(b: u8) -> bool {
    CLASS[usize::from(b)] & REG_NAME != 0
}

/// HEXDIG of either case.
pub(crate) fn is_hex(b: u8) -> bool {
    CLASS[usize::from(b)] & HEX != 0
}

/// A byte of field-value, with the whitespace inside: HTAB, SP, VCHAR, obs-text (RFC 9110 5.5).
pub(crate) fn is_value(b: u8) -> bool {
    b == b'\t' || (b >= b' ' && b != 0x7f)
}

/// SP / HTAB.
pub(crate) fn is_ows(b: u8) -> bool {
    b == b' ' || b == b'\t'
}

/// The number of a hexadecimal digit.
pub(crate) fn hex_value(b: u8) -> Option<u8> {
    match b {
        b'0'..=b'9' => Some(b - b'0'),
        b'a'..=b'f' => Some(b - b'a' + 10),
        b'A'..=b'F' => Some(b - b'A' + 10),
        _ => None,
    }
}

/// `value` without the whitespace around it.
pub(crate) fn trim_ows(mut value: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = value
        && is_ows(*first)
    {
        value = rest;
    }
    while let [rest @ .., last] = value
        && is_ows(*last)
    {
        value = rest;
    }
    value
}

/// A stretch of the input, remembered by position so that it outlives a move of the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Part {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Part {
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    pub(crate) fn of(self, input: &[u8]) -> &[u8] {
        &input[self.start..self.end]
    }

    pub(crate) fn is_empty(self) -> bool {
        self.start == self.end
    }
}
