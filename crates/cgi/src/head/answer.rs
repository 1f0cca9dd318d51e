//! What comes of a script's header.

/// What the script wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A response, whose body follows.
    Response(Head),
    /// The resource at this path and query is to answer instead: a local redirect. Whatever follows is for nobody.
    Redirect(Vec<u8>),
}

/// The head of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// 200 to 999.
    pub status: u16,
    /// Name and value of each, in order, checked; without Status, Content-Length, and those that are the connection's.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
    /// What Content-Length says: whoever moves the body sees that it is true.
    pub length: Option<u64>,
    /// The script asks for the connection to be closed.
    pub close: bool,
    /// The body that follows is written in chunks (RFC 9112 7.1), by the script itself.
    pub chunked: bool,
}

impl Head {
    /// Whether it has a field of that name, in whatever case.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()))
    }

    /// Its fields as lines, each ended by CRLF: at most [`howdah_wire::RESPONSE_HEAD`] bytes.
    #[must_use]
    pub fn lines(&self) -> Vec<u8> {
        self.fields
            .iter()
            .flat_map(|(name, value)| [name, b": ".as_slice(), value, b"\r\n"])
            .flatten()
            .copied()
            .collect()
    }
}
