//! Request ids: one name for a request in every log, ours, the application's and those of the servers before us.
//!
//! A client's X-Request-Id is taken over when it is [sane](is_sane), else one is made. `request_record` puts it among the
//! request's fields, so the application finds it as HTTP_X_REQUEST_ID; the response's head bears it, too.

use std::cell::Cell;
use std::io;

use howdah_http1::{Fields, encode};

/// The field, in requests and responses.
pub(crate) const NAME: &[u8] = b"X-Request-Id";
/// Its name in the env.
pub(crate) const VARIABLE: &[u8] = b"HTTP_X_REQUEST_ID";
/// Longest id that is taken from a client.
const LONGEST: usize = 128;
/// Longest id that is kept without memory of its own.
const SHORT: usize = 38;
/// Hexadecimal digits of an id of ours.
const DIGITS: usize = 32;

/// An id of ours: 64 random bits of the thread, then a number that rises.
pub(crate) type Made = [u8; DIGITS];

/// Room for one.
pub(crate) const ROOM: Made = [0; DIGITS];

/// The id of a request, kept by its exchange: what stands in the slot any worker may write over, and it goes into the
/// head of the response.
#[derive(Debug)]
pub(crate) enum Id {
    /// One of ours or a usual one, such as a UUID: so many bytes of these.
    Short([u8; SHORT], u8),
    /// A longer one.
    Long(Box<[u8]>),
}

impl Default for Id {
    fn default() -> Self {
        Self::Short([0; SHORT], 0)
    }
}

impl Id {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let mut short = [0; SHORT];
        match short.get_mut(..bytes.len()) {
            Some(start) => {
                start.copy_from_slice(bytes);
                Self::Short(short, bytes.len() as u8)
            }
            None => Self::Long(bytes.into()),
        }
    }

    /// Empty for none.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Short(bytes, length) => bytes.get(..usize::from(*length)).unwrap_or_default(),
            Self::Long(bytes) => bytes,
        }
    }
}

/// The ids of a front thread. The number rises in its text, so an id costs no division.
#[derive(Debug)]
pub(crate) struct Ids {
    /// Whether there are any.
    wanted: bool,
    last: Cell<Made>,
}

impl Ids {
    /// # Errors
    /// When the system gives no random bytes.
    pub(crate) fn new(wanted: bool) -> io::Result<Self> {
        Ok(Self { wanted, ..Self::after(howdah_sys::random()?, 0) })
    }

    fn after(prefix: u64, number: u64) -> Self {
        let mut last = [0; DIGITS];
        last.copy_from_slice(format!("{prefix:016x}{number:016x}").as_bytes());
        Self { wanted: true, last: Cell::new(last) }
    }

    /// The id of a request with these fields: the client's, or one made in `room`; empty when there are to be none.
    pub(crate) fn choose<'a>(&self, fields: Fields<'a>, room: &'a mut Made) -> &'a [u8] {
        match given(fields) {
            _ if !self.wanted => b"",
            Some(id) => id,
            None => {
                *room = self.make();
                room
            }
        }
    }

    /// An id for a request whose fields are not known; none when there are to be none.
    pub(crate) fn invent(&self) -> Id {
        if self.wanted { Id::new(&self.make()) } else { Id::default() }
    }

    /// An id that this thread has not made before.
    fn make(&self) -> Made {
        let mut id = self.last.get();
        for digit in id.iter_mut().rev() {
            *digit = match *digit {
                b'f' => b'0',
                b'9' => b'a',
                other => other + 1,
            };
            if *digit != b'0' {
                break;
            }
        }
        self.last.set(id);
        id
    }
}

/// The id that the client has given, when it is one and [sane](is_sane).
fn given(fields: Fields<'_>) -> Option<&[u8]> {
    let mut fields = fields.filter(|field| is_name(field.name));
    let id = fields.next()?.value;
    (is_sane(id) && fields.next().is_none()).then_some(id)
}

pub(crate) fn is_name(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(NAME)
}

/// 1 to 128 bytes that mean nothing special to shells, logs, HTML and URLs' paths.
fn is_sane(id: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._~:+/=@-".contains(byte);
    (1..=LONGEST).contains(&id.len()) && id.iter().all(plain)
}

/// Appends the field to a response's head, when there is an id.
pub(crate) fn put(out: &mut Vec<u8>, id: &[u8]) {
    if !id.is_empty() {
        encode::field(out, NAME, id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_rise_in_hexadecimal() {
        for (number, next) in [(0, "01"), (0x09, "0a"), (0x0f, "10"), (0x9f, "a0"), (0xff, "00")] {
            let id = String::from_utf8(Ids::after(0xfeed, number).make().to_vec()).unwrap();
            assert!(id.starts_with("000000000000feed") && id.ends_with(next), "{id}");
            assert_eq!(u64::from_str_radix(&id[16..], 16).unwrap(), number + 1);
        }
    }

    #[test]
    fn a_threads_ids_differ_from_anothers_and_from_each_other() {
        let (one, other) = (Ids::new(true).unwrap(), Ids::new(true).unwrap());
        let ids: std::collections::HashSet<Made> =
            (0..1000).flat_map(|_| [one.make(), other.make()]).collect();
        assert_eq!(ids.len(), 2000);
    }

    #[test]
    fn a_clients_id_is_taken_over_when_it_is_the_only_one_and_sane() {
        use crate::sample;
        for (fields, wanted, given) in [
            ("X-Request-Id: mine\r\n", true, Some("mine")),
            ("x-request-id: mine\r\n", false, Some("")),
            ("X-Request-Id: two words\r\n", true, None),
            ("X-Request-Id: one\r\nX-Request-Id: one\r\n", true, None),
            ("", true, None),
            ("", false, Some("")),
        ] {
            let ids = Ids { wanted, ..Ids::after(7, 0) };
            let head = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
            sample::with(&head, &sample::client(""), |request| {
                let mut room = ROOM;
                let id = ids.choose(request.fields.clone(), &mut room);
                let made = "00000000000000070000000000000001";
                assert_eq!(id, given.unwrap_or(made).as_bytes(), "{fields}");
            });
        }
    }

    #[test]
    fn an_id_is_kept_whatever_its_length() {
        for length in [0, 1, DIGITS, 36, SHORT, SHORT + 1, LONGEST] {
            let bytes = vec![b'x'; length];
            assert_eq!(Id::new(&bytes).bytes(), bytes, "{length}");
        }
    }

    #[test]
    fn what_could_do_harm_in_a_log_is_no_id() {
        let long = "x".repeat(LONGEST);
        for id in ["a", "5e2b-4f.a_b~1:2+3/4=@", &long] {
            assert!(is_sane(id.as_bytes()), "{id}");
        }
        for id in ["", "a b", "a\"", "a,b", "a<b>", "a\\b", "a;b", "a%0a", "é", &format!("{long}x")] {
            assert!(!is_sane(id.as_bytes()), "{id}");
        }
    }
}
