//! How a value is put into a line: bare in Apache's formats and LTSV, typed and quoted in JSON.

use crate::escape;

/// The kind of line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Apache,
    Ltsv,
    Json,
}

impl Style {
    /// A value that may come from outside.
    pub(crate) fn text(self, out: &mut Vec<u8>, value: Option<&[u8]>) {
        match (value, self) {
            (None, _) => self.nothing(out),
            (Some(value), Self::Apache) => escape::apache(out, value),
            (Some(value), Self::Ltsv) => escape::ltsv(out, value),
            (Some(value), Self::Json) => {
                out.push(b'"');
                escape::json(out, value);
                out.push(b'"');
            }
        }
    }

    pub(crate) fn number(self, out: &mut Vec<u8>, value: Option<u64>) {
        match value {
            Some(value) => out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes()),
            None => self.nothing(out),
        }
    }

    /// Text of our own making, which needs no escape.
    pub(crate) fn own(self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        if self == Self::Json {
            out.push(b'"');
            write(out);
            out.push(b'"');
        } else {
            write(out);
        }
    }

    /// There is no such value.
    pub(crate) fn nothing(self, out: &mut Vec<u8>) {
        out.extend_from_slice(if self == Self::Json { b"null" } else { b"-" });
    }
}
