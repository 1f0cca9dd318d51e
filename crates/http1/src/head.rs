use crate::{Framing, Version};

/// One header field as the application may see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field<'b> {
    /// Name as sent; a token without `_`.
    pub name: &'b [u8],
    /// Value without the whitespace around it.
    pub value: &'b [u8],
}

/// Room for the field positions of one head, kept by a connection from request to request so that
/// a head costs no allocation.
#[derive(Debug, Default)]
pub struct FieldStore {
    pub(crate) spans: Vec<Span>,
    pub(crate) scratch: Vec<u8>,
}

impl FieldStore {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub name: (u32, u32),
    pub value: (u32, u32),
}

/// A whole, checked request head, borrowed from the input.
#[derive(Clone, Debug)]
pub struct Head<'b> {
    pub method: &'b [u8],
    /// The request-target as sent.
    pub target: &'b [u8],
    /// Host and port: of an absolute-form target, else of Host; empty when HTTP/1.0 sends neither.
    pub authority: &'b [u8],
    /// Path, still percent-encoded; empty for asterisk-form.
    pub path: &'b [u8],
    /// What follows the first `?`, without it; empty when there is none.
    pub query: &'b [u8],
    /// The target in origin-form, for REQUEST_URI; `*` for asterisk-form.
    pub path_and_query: &'b [u8],
    pub version: Version,
    pub framing: Framing,
    /// Whether the client lets the connection persist after the response (RFC 9112 9.3).
    pub keep_alive: bool,
    /// The client waits for 100 before it sends its body; false when there is no body to wait for.
    pub expect_continue: bool,
    /// Upgrade is sent and nominated by Connection (RFC 9110 7.8).
    pub upgrade: bool,
    /// Bytes of the head, with leading empty lines and the final CRLF.
    pub len: usize,
    pub(crate) input: &'b [u8],
    pub(crate) spans: &'b [Span],
    pub(crate) host: Option<&'b [u8]>,
}

impl<'b> Head<'b> {
    /// The fields that may reach the application, in the order sent.
    pub fn fields(&self) -> Fields<'b> {
        Fields { input: self.input, spans: self.spans.iter(), host: self.host }
    }
}

/// Iterator of [`Head::fields`].
#[derive(Clone, Debug)]
pub struct Fields<'b> {
    input: &'b [u8],
    spans: std::slice::Iter<'b, Span>,
    host: Option<&'b [u8]>,
}

impl<'b> Iterator for Fields<'b> {
    type Item = Field<'b>;
    fn next(&mut self) -> Option<Field<'b>> {
        let _ = (self.input, self.host);
        self.spans.next().map(|_| todo!())
    }
}
