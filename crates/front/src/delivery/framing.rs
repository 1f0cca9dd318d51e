//! How the end of a response's body is told (RFC 9112 6.3, RFC 9113 8.1).

use howdah_http1::body_allowed;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// There is no body; a length is told all the same when known.
    Empty(Option<u64>),
    /// By Content-Length.
    Length(u64),
    /// By chunks.
    Chunked,
    /// By the end of what carries it: of the connection for HTTP/1.0, of the stream for HTTP/2.
    Close,
}

impl Framing {
    /// `given` is the application's Content-Length, `known` the length of the body when all of it is there, `otherwise` how
    /// the protocol tells an end without either.
    pub(crate) fn choose(
        is_head: bool,
        status: u16,
        given: Option<u64>,
        known: Option<u64>,
        otherwise: Self,
    ) -> Self {
        let method: &[u8] = if is_head { b"HEAD" } else { b"GET" };
        if !body_allowed(method, status) {
            // 1xx and 204 must not have the field (RFC 9110 8.6).
            // A client that knows nothing of 205 takes it for one with a body, and has to hear that there is none (RFC 9110 15.3.6).
            if status == 205 {
                return Self::Empty(Some(0));
            }
            let tells = status == 304 || is_head && status != 204 && status >= 200;
            return Self::Empty(given.filter(|_| tells));
        }
        given.or(known).map_or(otherwise, Self::Length)
    }

    /// Body bytes that may be sent.
    pub(crate) fn most(self) -> u64 {
        match self {
            Self::Length(length) => length,
            Self::Empty(_) => 0,
            Self::Chunked | Self::Close => u64::MAX,
        }
    }

    /// What may be sent of a body that lies in two pieces.
    pub(crate) fn cut<'a>(self, (first, second): (&'a [u8], &'a [u8])) -> (&'a [u8], &'a [u8]) {
        let most = usize::try_from(self.most()).unwrap_or(usize::MAX);
        let first = &first[..first.len().min(most)];
        (first, &second[..second.len().min(most - first.len())])
    }

    /// Whether a body of so many bytes is shorter than the client has been, or will be, told.
    pub(crate) fn is_short(self, body: u64) -> bool {
        matches!(self, Self::Length(length) if length > body)
    }

    /// Whether a body of so many bytes is as long as the client has been, or will be, told.
    pub(crate) fn fits(self, body: u64) -> bool {
        !matches!(self, Self::Length(length) if length != body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_the_end_of_a_body_is_told_follows_from_method_status_protocol_and_length() {
        use Framing::{Chunked, Close, Length};
        for (otherwise, is_head, status, given, known, framing) in [
            (Chunked, false, 200, None, None, Chunked),
            (Close, false, 200, None, None, Close),
            (Chunked, false, 200, Some(5), None, Length(5)),
            (Chunked, false, 200, None, Some(7), Length(7)),
            (Close, false, 200, None, Some(7), Length(7)),
            // What the application says goes before what is seen.
            (Chunked, false, 200, Some(5), Some(7), Length(5)),
            (Chunked, true, 200, Some(5), Some(0), Framing::Empty(Some(5))),
            (Chunked, true, 200, None, Some(0), Framing::Empty(None)),
            (Chunked, true, 204, Some(5), None, Framing::Empty(None)),
            (Chunked, false, 204, Some(5), None, Framing::Empty(None)),
            (Chunked, false, 205, Some(5), Some(5), Framing::Empty(Some(0))),
            (Close, true, 205, None, None, Framing::Empty(Some(0))),
            (Chunked, false, 304, Some(5), None, Framing::Empty(Some(5))),
            (Chunked, false, 304, None, Some(9), Framing::Empty(None)),
        ] {
            assert_eq!(
                Framing::choose(is_head, status, given, known, otherwise),
                framing,
                "{otherwise:?} {is_head} {status} {given:?} {known:?}"
            );
        }
        assert_eq!([Length(3).most(), Framing::Empty(Some(3)).most()], [3, 0]);
        assert_eq!(Chunked.most(), u64::MAX);
    }

    #[test]
    fn no_more_is_sent_of_a_body_than_its_head_has_said() {
        use Framing::{Chunked, Close, Empty, Length};
        for (framing, first, second, fits) in [
            (Length(0), "", "", false),
            (Length(2), "ab", "", false),
            (Length(3), "abc", "", false),
            (Length(4), "abc", "d", false),
            (Length(5), "abc", "de", true),
            (Length(6), "abc", "de", false),
            (Empty(Some(5)), "", "", true),
            (Chunked, "abc", "de", true),
            (Close, "abc", "de", true),
        ] {
            assert_eq!(framing.cut((b"abc", b"de")), (first.as_bytes(), second.as_bytes()), "{framing:?}");
            assert_eq!(framing.fits(5), fits, "{framing:?}");
        }
    }
}
