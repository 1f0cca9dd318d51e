//! What a script prints becomes the head of a response (RFC 3875 section 6), as it comes.

use thiserror::Error;

/// What the script wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A response, whose body follows.
    Response(Head),
    /// The resource at this path and query is to answer instead: a local redirect.
    Redirect(Vec<u8>),
}

/// The head of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// 200 to 599.
    pub status: u16,
    /// Name and value of each, in order, checked; without those that are the connection's, Status and Content-Length.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
    /// What Content-Length says: whoever moves the body sees that it is true.
    pub length: Option<u64>,
}

/// The head is no head: 500, and this for the log.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct Fault(String);

/// Takes the head from a script's output, piece by piece.
#[derive(Debug)]
pub struct Reader {
    nph: bool,
}

impl Reader {
    /// For a script that writes the whole response itself (`nph`), or for one whose output the server completes.
    #[must_use]
    pub fn new(nph: bool) -> Self {
        Self { nph }
    }

    /// Takes further bytes; once the head is complete, gives it and how many of these bytes belonged to it.
    ///
    /// # Errors
    /// [`Fault`] says which line is wrong and how.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Option<(Answer, usize)>, Fault> {
        let _ = (self.nph, bytes);
        Ok(None)
    }

    /// The output has ended before its head was complete.
    #[must_use]
    pub fn ended(&self) -> Fault {
        Fault("the script ended without a word".into())
    }
}
