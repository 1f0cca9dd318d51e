//! Undoes the chunked coding (RFC 9112 7.1) of a body that a script has written so by itself, as nph- scripts may: the front
//! frames what it sends as its client wants it.

/// Where in the coding it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In the digits of a size, of which there were some.
    Size { size: u64, some: bool },
    /// Behind them, in what is left of the line.
    Line { size: u64 },
    /// In a chunk, with so many bytes left.
    Chunk { left: u64 },
    /// Behind a chunk, in the end of its line.
    End,
    /// In a line of the trailer, which is empty so far or not.
    Trailer { empty: bool },
    /// Behind all of it.
    Done,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Dechunk(Place);

/// No size of a chunk is longer.
const MOST: u64 = 1 << 56;

impl Dechunk {
    pub(crate) fn new() -> Self {
        Self(Place::Size { size: 0, some: false })
    }

    /// Takes bytes, and adds those of the body to `body`. False when they make no sense.
    pub(crate) fn take(&mut self, mut bytes: &[u8], body: &mut Vec<u8>) -> bool {
        while let Some((&byte, rest)) = bytes.split_first() {
            if let Place::Chunk { left } = self.0 {
                let length = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
                body.extend_from_slice(&bytes[..length]);
                bytes = &bytes[length..];
                let left = left - length as u64;
                self.0 = if left == 0 { Place::End } else { Place::Chunk { left } };
                continue;
            }
            let Some(place) = self.after(byte) else { return false };
            self.0 = place;
            bytes = rest;
        }
        true
    }

    /// Where it is after a byte that is none of the body.
    fn after(&self, byte: u8) -> Option<Place> {
        Some(match (self.0, byte) {
            (Place::Size { size, .. }, digit) if digit.is_ascii_hexdigit() && size < MOST => {
                let digit = char::from(digit).to_digit(16)?;
                Place::Size { size: size << 4 | u64::from(digit), some: true }
            }
            (Place::Size { size, some: true } | Place::Line { size }, b'\n') => begin(size),
            (Place::Size { size, some: true }, b'\r' | b';' | b' ' | b'\t') | (Place::Line { size }, _) => {
                Place::Line { size }
            }
            (Place::End, b'\r') => Place::End,
            (Place::End, b'\n') => Place::Size { size: 0, some: false },
            (Place::Trailer { empty: true }, b'\n') => Place::Done,
            (Place::Trailer { .. }, b'\n') => Place::Trailer { empty: true },
            (Place::Trailer { empty }, b'\r') => Place::Trailer { empty },
            (Place::Trailer { .. }, _) => Place::Trailer { empty: false },
            (Place::Done, _) => Place::Done,
            _ => return None,
        })
    }

    /// Whether the last chunk has come.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.0, Place::Done | Place::Trailer { .. })
    }
}

fn begin(size: u64) -> Place {
    if size == 0 { Place::Trailer { empty: true } } else { Place::Chunk { left: size } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_found_in_its_chunks_however_they_come() {
        let coded = b"5\r\nhello\r\n00a;name=value\r\n0123456789\r\n1 \n!\n0\r\nA: b\r\n\r\nmore";
        for size in [1, 2, 3, 7, 100] {
            let (mut dechunk, mut body) = (Dechunk::new(), Vec::new());
            for piece in coded.chunks(size) {
                assert!(dechunk.take(piece, &mut body), "in pieces of {size}");
            }
            assert_eq!((&body[..], dechunk.is_done()), (&b"hello0123456789!"[..], true));
        }
    }

    #[test]
    fn what_is_no_coding_is_refused() {
        for bad in ["x", "\r\n", "5\r\nhellox", "ffffffffffffffffff\r\n", "-1\r\n"] {
            assert!(!Dechunk::new().take(bad.as_bytes(), &mut Vec::new()), "{bad}");
        }
        let mut dechunk = Dechunk::new();
        assert!(dechunk.take(b"5\r\nhel", &mut Vec::new()) && !dechunk.is_done(), "not all of it");
    }
}
