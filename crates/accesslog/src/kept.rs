//! A small store for the values that a format needs, kept from the request until the line is written.

use std::ops::Range;

use crate::needs::{Needs, Source};
use crate::record::Values;

/// One for each request of which something is kept.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    bytes: Vec<u8>,
    spans: Vec<Option<Range<usize>>>,
}

impl Kept {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps a field or variable if `needs` asks for it. Several fields of one name are joined in a request (by `, `,
    /// Cookie by `; `); of a response's the first is kept, but every Set-Cookie: so it is in httpd.
    pub fn offer(&mut self, needs: &Needs, source: Source, name: &[u8], value: &[u8]) {
        for (number, wanted) in needs.of(source) {
            if wanted.len() == name.len() && source.same_name(wanted, name) {
                self.keep(number, separator(source, name, needs.first_only), value);
            }
        }
    }

    /// Keeps a value by the number of its need, in place of what was there.
    pub fn set(&mut self, need: usize, value: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(value);
        *self.slot(need) = Some(start..start + value.len());
    }

    /// Forgets what was kept from there.
    pub fn forget(&mut self, needs: &Needs, source: Source) {
        for (number, _) in needs.of(source) {
            *self.slot(number) = None;
        }
    }

    fn keep(&mut self, number: usize, separator: Option<&[u8]>, value: &[u8]) {
        match (self.slot(number).clone(), separator) {
            (None, _) => self.set(number, value),
            (Some(_), None) => {}
            (Some(old), Some(separator)) => self.join(number, old, separator, value),
        }
    }

    fn join(&mut self, number: usize, old: Range<usize>, separator: &[u8], value: &[u8]) {
        let mut start = old.start;
        if old.end != self.bytes.len() {
            start = self.bytes.len();
            self.bytes.extend_from_within(old);
        }
        self.bytes.extend_from_slice(separator);
        self.bytes.extend_from_slice(value);
        *self.slot(number) = Some(start..self.bytes.len());
    }

    fn slot(&mut self, number: usize) -> &mut Option<Range<usize>> {
        if self.spans.len() <= number {
            self.spans.resize(number + 1, None);
        }
        &mut self.spans[number]
    }
}

/// What stands between fields of one name; none where the first alone counts.
fn separator(source: Source, name: &[u8], first_only: bool) -> Option<&'static [u8]> {
    match source {
        Source::Environment | Source::Tls | Source::ResponseTrailer => None,
        Source::ResponseHeader if first_only || !name.eq_ignore_ascii_case(b"set-cookie") => None,
        Source::RequestHeader if name.eq_ignore_ascii_case(b"cookie") => Some(b"; "),
        _ => Some(b", "),
    }
}

impl Values for Kept {
    fn value(&self, need: usize) -> Option<&[u8]> {
        let span = self.spans.get(need)?.clone()?;
        Some(&self.bytes[span])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_becomes_of_several_of_one_name() {
        // (whence, name, of Apache's formats, of Plack's)
        for (source, name, apache, plack) in [
            (Source::RequestHeader, "Accept", "1, 2", "1, 2"),
            (Source::RequestHeader, "cookie", "1; 2", "1; 2"),
            (Source::RequestTrailer, "Digest", "1, 2", "1, 2"),
            (Source::ResponseHeader, "Set-Cookie", "1, 2", "1"),
            (Source::ResponseHeader, "Vary", "1", "1"),
            (Source::ResponseTrailer, "Server-Timing", "1", "1"),
            (Source::Environment, "REMOTE_USER", "1", "1"),
        ] {
            for (first_only, expected) in [(false, apache), (true, plack)] {
                let mut needs = Needs::new(first_only);
                let need = needs.add(source, name.as_bytes());
                let mut kept = Kept::new();
                for value in [b"1", b"2"] {
                    kept.offer(&needs, source, name.as_bytes(), value);
                }
                assert_eq!(kept.value(need), Some(expected.as_bytes()), "{source:?} {name}");
            }
        }
    }

    #[test]
    fn a_name_that_begins_as_a_wanted_one_is_another() {
        let mut needs = Needs::new(false);
        let need = needs.add(Source::RequestHeader, b"X-One");
        let mut kept = Kept::new();
        for name in ["X-On", "X-One-More", "X-Two"] {
            kept.offer(&needs, Source::RequestHeader, name.as_bytes(), b"1");
        }
        assert_eq!((kept.value(need), kept.value(need + 1)), (None, None));
    }
}
