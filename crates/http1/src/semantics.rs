//! What the fields of a head mean together: authority, body framing, persistence, expectations.
//!
//! Called by the decoder when the head is whole; makes the [`Head`] for the front.

use crate::authority::is_authority;
use crate::bytes::{Part, is_tchar, trim_ows};
use crate::fields::for_each_field;
use crate::head::{FieldParts, FieldStore, Head};
use crate::reject::{
    BODY_SIZE, CHUNKED_NOT_FINAL, CHUNKED_PARAMETER, CHUNKED_TWICE, CODING_IN_10, CODING_SYNTAX, EMPTY_HOST,
    EXPECT, HOST, LENGTH, LENGTH_AND_CODING, LENGTH_OVERFLOW, NO_HOST, REPEATED_HOST, REPEATED_LENGTH,
    REPEATED_TYPE, Reject, UNKNOWN_CODING,
};
use crate::target::{Form, RequestLine};
use crate::terms::{Framing, Limits, Version};

/// What has been learnt from the fields so far.
#[derive(Default)]
struct Facts<'b> {
    host: Option<&'b [u8]>,
    /// Place of Host among the parts.
    host_at: usize,
    length: Option<u64>,
    codings: Option<Codings>,
    close: bool,
    keep_alive: bool,
    upgrade: bool,
    has_type: bool,
    expect_continue: bool,
    expect_other: bool,
}

/// What Transfer-Encoding lists, over all its lines.
#[derive(Clone, Copy, Default)]
struct Codings {
    chunked: bool,
    other: bool,
}

/// Judges the whole head in `input`, whose field lines number `count`.
pub(crate) fn build_head<'b>(
    input: &'b [u8],
    line: &RequestLine,
    count: usize,
    limits: &Limits,
    store: &'b mut FieldStore,
) -> Result<Head<'b>, Reject> {
    store.parts.clear();
    let mut facts = Facts::default();
    for_each_field(&input[line.end..], count, |name, value| facts.add(input, name, value, &mut store.parts))?;
    let authority = facts.authority(input, line)?;
    let framing = facts.framing(line.version, limits)?;
    let expect_continue = facts.expects_continue(line.version, framing)?;
    let is_11 = line.version == Version::Http11;
    let host = if line.form == Form::Absolute { facts.replace_host(line, authority, store) } else { None };
    let keep_alive = !facts.close && (is_11 || facts.keep_alive);
    let mut head = Head::new(input, line, authority, host, store);
    head.framing = framing;
    head.keep_alive = keep_alive;
    head.upgrade = facts.upgrade;
    head.expect_continue = expect_continue;
    Ok(head)
}

impl<'b> Facts<'b> {
    /// Learns from one field and, when the application may see it, remembers its place.
    #[inline]
    fn add(
        &mut self,
        input: &[u8],
        name: &[u8],
        value: &'b [u8],
        parts: &mut Vec<FieldParts>,
    ) -> Result<(), Reject> {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        // The length rules out nearly all other names before any comparison.
        match name.len() {
            4 if is("host") => self.add_host(value, parts.len())?,
            // Its CGI name would be HTTP_PROXY, by which libraries choose a proxy for requests of their own.
            5 if is("proxy") => return Ok(()),
            6 if is("expect") => self.add_expect(value),
            7 if is("upgrade") => self.add_upgrade(value),
            10 if is("connection") => self.add_connection(value),
            12 if is("content-type") => self.add_type()?,
            14 if is("content-length") => self.add_length(value)?,
            17 if is("transfer-encoding") => return self.add_codings(value),
            _ => {}
        }
        // CGI names know no difference between `_` and `-`: X_User would pose as X-User.
        if !name.contains(&b'_') {
            parts.push(FieldParts { name: place(input, name), value: place(input, value) });
        }
        Ok(())
    }

    fn add_host(&mut self, value: &'b [u8], at: usize) -> Result<(), Reject> {
        self.host_at = at;
        self.host.replace(value).map_or(Ok(()), |_| Err(REPEATED_HOST))
    }

    fn add_expect(&mut self, value: &[u8]) {
        for member in members(value) {
            let known = member.eq_ignore_ascii_case(b"100-continue");
            self.expect_continue |= known;
            self.expect_other |= !known;
        }
    }

    fn add_connection(&mut self, value: &[u8]) {
        for option in members(value) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// Clients ask for h2c beside any request; what they send behind it is HTTP.
    fn add_upgrade(&mut self, value: &[u8]) {
        self.upgrade |= members(value).any(|protocol| !protocol.eq_ignore_ascii_case(b"h2c"));
    }

    /// Of two, one party might go by the first and another by the last.
    fn add_type(&mut self) -> Result<(), Reject> {
        if std::mem::replace(&mut self.has_type, true) { Err(REPEATED_TYPE) } else { Ok(()) }
    }

    /// RFC 9110 8.6 lets a server take equal repetitions; none but attackers send them.
    fn add_length(&mut self, value: &[u8]) -> Result<(), Reject> {
        let length = parse_length(value)?;
        self.length.replace(length).map_or(Ok(()), |_| Err(REPEATED_LENGTH))
    }

    fn add_codings(&mut self, value: &[u8]) -> Result<(), Reject> {
        let codings = self.codings.get_or_insert_default();
        members(value).try_for_each(|coding| codings.add(coding))
    }

    /// The authority the request is for: of the target if it has one, else of Host.
    fn authority(&self, input: &'b [u8], line: &RequestLine) -> Result<&'b [u8], Reject> {
        let absolute = (line.form == Form::Absolute).then(|| line.authority.of(input));
        match self.host {
            Some([]) if line.version == Version::Http11 && absolute.is_none() => return Err(EMPTY_HOST),
            Some([]) => {}
            Some(host) if !is_authority(host) => return Err(HOST),
            None if line.version == Version::Http11 => return Err(NO_HOST),
            _ => {}
        }
        Ok(absolute.or(self.host).unwrap_or_default())
    }

    /// The authority of the target takes the place of Host (RFC 9112 3.2.2); returns it when there
    /// is no Host whose place it could take.
    fn replace_host(
        &self,
        line: &RequestLine,
        authority: &'b [u8],
        store: &mut FieldStore,
    ) -> Option<&'b [u8]> {
        match self.host {
            Some(_) => {
                store.parts[self.host_at].value = line.authority;
                None
            }
            None => Some(authority),
        }
    }

    fn framing(&self, version: Version, limits: &Limits) -> Result<Framing, Reject> {
        match (self.codings, self.length) {
            (None, None) => Ok(Framing::None),
            (None, Some(length)) if length > limits.body => Err(BODY_SIZE),
            (None, Some(length)) => Ok(Framing::Length(length)),
            (Some(_), _) if version == Version::Http10 => Err(CODING_IN_10),
            (Some(_), Some(_)) => Err(LENGTH_AND_CODING),
            (Some(codings), None) => codings.framing(),
        }
    }

    /// HTTP/1.0 knows no Expect; and without a body there is nothing to wait for (RFC 9110 10.1.1).
    fn expects_continue(&self, version: Version, framing: Framing) -> Result<bool, Reject> {
        if version == Version::Http10 {
            return Ok(false);
        }
        if self.expect_other {
            return Err(EXPECT);
        }
        Ok(self.expect_continue && !matches!(framing, Framing::None | Framing::Length(0)))
    }
}

impl Codings {
    /// Adds a transfer-coding in the order applied.
    fn add(&mut self, coding: &[u8]) -> Result<(), Reject> {
        let mut parts = coding.splitn(2, |&b| b == b';');
        let name = parts.next().map(trim_ows).unwrap_or_default();
        let parameters = parts.next();
        if name.is_empty() || !name.iter().all(|&b| is_tchar(b)) {
            return Err(CODING_SYNTAX);
        }
        match (name.eq_ignore_ascii_case(b"chunked"), parameters) {
            (true, _) if self.chunked => Err(CHUNKED_TWICE),
            (_, _) if self.chunked => Err(CHUNKED_NOT_FINAL),
            (true, Some(_)) => Err(CHUNKED_PARAMETER),
            (is_chunked, _) => {
                self.chunked = is_chunked;
                self.other |= !is_chunked;
                Ok(())
            }
        }
    }

    fn framing(self) -> Result<Framing, Reject> {
        match self {
            Self { other: true, .. } => Err(UNKNOWN_CODING),
            Self { chunked: true, .. } => Ok(Framing::Chunked),
            Self { .. } => Err(CHUNKED_NOT_FINAL),
        }
    }
}

/// The members of a comma-separated list, without the empty ones (RFC 9110 5.6.1.2).
fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&b| b == b',').map(trim_ows).filter(|member| !member.is_empty())
}

fn parse_length(value: &[u8]) -> Result<u64, Reject> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(LENGTH);
    }
    value
        .iter()
        .try_fold(0u64, |n, b| n.checked_mul(10)?.checked_add(u64::from(b - b'0')))
        .ok_or(LENGTH_OVERFLOW)
}

/// Where `slice`, which httparse has cut out of `input`, lies in it.
fn place(input: &[u8], slice: &[u8]) -> Part {
    let start = slice.as_ptr().addr() - input.as_ptr().addr();
    Part::new(start, start + slice.len())
}
