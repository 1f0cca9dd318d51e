//! A whole, checked request head, as the front hands it on.

use crate::bytes::Part;
use crate::target::{Form, RequestLine};
use crate::terms::{Framing, Version};

/// One header field as the application may see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field<'b> {
    /// Name as sent; a token without `_`.
    pub name: &'b [u8],
    /// Value without the whitespace around it.
    pub value: &'b [u8],
}

/// Room for the field positions of one head, kept by a connection (or a thread) from request to
/// request so that a head costs no allocation.
#[derive(Debug, Default)]
pub struct FieldStore {
    pub(crate) parts: Vec<FieldParts>,
    /// A path and query that do not stand together in the input.
    scratch: Vec<u8>,
}

impl FieldStore {
    /// An empty store; it grows to the largest head it sees.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldParts {
    pub(crate) name: Part,
    pub(crate) value: Part,
}

/// A whole, checked request head, borrowed from the input.
#[derive(Clone, Debug)]
pub struct Head<'b> {
    /// Method, a token of at most 32 bytes; never CONNECT.
    pub method: &'b [u8],
    /// The request-target as sent.
    pub target: &'b [u8],
    /// Host and port: of an absolute-form target, else of Host; empty when an HTTP/1.0 request
    /// names none.
    pub authority: &'b [u8],
    /// Path, still percent-encoded; begins with `/`, or is empty for asterisk-form.
    pub path: &'b [u8],
    /// What follows the first `?`, without it; empty when there is none.
    pub query: &'b [u8],
    /// Path and query in origin-form, for REQUEST_URI; `*` for asterisk-form.
    pub path_and_query: &'b [u8],
    /// Version of the request; the response repeats it.
    pub version: Version,
    /// How the body is delimited; a length is within [`crate::Limits::body`].
    pub framing: Framing,
    /// Whether the client lets the connection persist after the response (RFC 9112 9.3).
    pub keep_alive: bool,
    /// The client would go on in a protocol other than HTTP (RFC 9110 7.8): what follows may be no request.
    pub upgrade: bool,
    /// The client waits for 100 before it sends its body; false when there is no body to wait for.
    pub expect_continue: bool,
    /// Bytes of the head, with leading empty lines and the final CRLF.
    pub len: usize,
    input: &'b [u8],
    parts: &'b [FieldParts],
    host: Option<&'b [u8]>,
}

impl<'b> Head<'b> {
    /// The request line's part of a head; the caller adds what the fields say.
    pub(crate) fn new(
        input: &'b [u8],
        line: &RequestLine,
        authority: &'b [u8],
        host: Option<&'b [u8]>,
        store: &'b mut FieldStore,
    ) -> Self {
        let (path, path_and_query) = paths(input, line, &mut store.scratch);
        Self {
            method: line.method.of(input),
            target: line.target.of(input),
            authority,
            path,
            query: line.query.of(input),
            path_and_query,
            version: line.version,
            framing: Framing::None,
            keep_alive: false,
            upgrade: false,
            expect_continue: false,
            len: input.len(),
            input,
            parts: &store.parts,
            host,
        }
    }

    /// The fields that may reach the application, in the order sent: without Transfer-Encoding,
    /// which the front has undone, without names that contain `_`, which in CGI form would
    /// pose as others, and without Proxy, which would pose as the environment's HTTP_PROXY. Host has the value of [`Head::authority`] when the target is in
    /// absolute-form (RFC 9112 3.2.2).
    pub fn fields(&self) -> Fields<'b> {
        Fields { input: self.input, parts: self.parts.iter(), host: self.host }
    }
}

/// The path and the path with query of a request line in origin-form.
fn paths<'b>(input: &'b [u8], line: &RequestLine, scratch: &'b mut Vec<u8>) -> (&'b [u8], &'b [u8]) {
    match line.form {
        Form::Origin => (line.path.of(input), line.target.of(input)),
        Form::Asterisk => (b"", b"*"),
        Form::Absolute if !line.path.is_empty() => {
            (line.path.of(input), &input[line.path.start..line.target.end])
        }
        // A proxy's way to say * (RFC 9112 3.2.4).
        Form::Absolute if line.query.start == line.path.end && line.method.of(input) == b"OPTIONS" => {
            (b"", b"*")
        }
        // An empty path means "/" (RFC 9112 3.2.1).
        Form::Absolute => {
            scratch.clear();
            scratch.push(b'/');
            scratch.extend_from_slice(&input[line.path.end..line.target.end]);
            (b"/", scratch)
        }
    }
}

/// Iterator of [`Head::fields`].
#[derive(Clone, Debug)]
pub struct Fields<'b> {
    input: &'b [u8],
    parts: std::slice::Iter<'b, FieldParts>,
    host: Option<&'b [u8]>,
}

impl<'b> Iterator for Fields<'b> {
    type Item = Field<'b>;

    fn next(&mut self) -> Option<Field<'b>> {
        let Some(part) = self.parts.next() else {
            return self.host.take().map(|value| Field { name: b"Host", value });
        };
        Some(Field { name: part.name.of(self.input), value: part.value.of(self.input) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = self.parts.len() + usize::from(self.host.is_some());
        (len, Some(len))
    }
}

impl ExactSizeIterator for Fields<'_> {}
