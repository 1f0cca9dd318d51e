//! The body of a request: counts a known length down or takes chunks apart (RFC 9112 6 and 7).
//!
//! The front feeds it what follows the head and stores the data it gives back. Framing is read
//! byte by byte by one small automaton, so a split anywhere makes no difference and nothing is
//! held back; data passes in slices of the input.

use crate::bytes::{hex_value, is_ows, is_value};
use crate::reject::{
    BARE_CR, BARE_LF, BODY_SIZE, CHUNK_END, CHUNK_EXTENSION, CHUNK_OVERFLOW, CHUNK_SIZE, EXTENSION_SIZE,
    Reject,
};
use crate::terms::{Framing, Limits};
use crate::trailer::Trailers;

/// What [`BodyDecoder::decode`] has found. `consumed` bytes of the input are done with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyEvent<'b> {
    /// The input held framing only, or nothing; feed what comes next.
    NeedMore {
        /// Always the whole input.
        consumed: usize,
    },
    /// A piece of content, never empty.
    Data {
        /// The content.
        data: &'b [u8],
        /// Bytes of the content and of the framing before it.
        consumed: usize,
    },
    /// The body has ended; what follows is the next request.
    End {
        /// Bytes of the framing that ended it.
        consumed: usize,
    },
}

/// Strips the framing of one request body.
#[derive(Debug)]
pub struct BodyDecoder {
    state: State,
    chunked: bool,
    /// Bytes of content still to come in this chunk, or in the body of known length.
    remaining: u64,
    /// Bytes of content that further chunks may bring.
    allowance: u64,
    /// Bytes that further chunk extensions may take.
    extension_allowance: usize,
    trailers: Trailers,
}

/// What the next byte belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Size {
        digits: u8,
    },
    /// Bad whitespace between size and extension.
    SizeSpace,
    Extension,
    /// A quoted string in an extension.
    Quoted,
    /// The byte behind its backslash.
    QuotedPair,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    Trailers,
    Done,
}

/// 64 bits.
const SIZE_DIGITS: u8 = 16;

impl BodyDecoder {
    /// A decoder for the body that follows a head with this framing.
    #[must_use]
    pub fn new(framing: &Framing, limits: &Limits) -> Self {
        let (state, remaining) = match *framing {
            Framing::None | Framing::Length(0) => (State::Done, 0),
            Framing::Length(length) => (State::Data, length),
            Framing::Chunked => (State::Size { digits: 0 }, 0),
        };
        Self {
            state,
            chunked: *framing == Framing::Chunked,
            remaining,
            allowance: limits.body,
            extension_allowance: limits.head,
            trailers: Trailers::new(limits),
        }
    }

    /// From now on the trailer section is kept, see [`BodyDecoder::trailers`].
    pub fn keep_trailers(&mut self) {
        self.trailers.kept = Some(Vec::new());
    }

    /// The trailer section, checked, with its empty line; empty when it was not to be kept.
    /// At most [`Limits::head`] bytes.
    #[must_use]
    pub fn trailers(&self) -> &[u8] {
        self.trailers.kept.as_deref().unwrap_or_default()
    }

    /// Takes the next bytes of the body; call again with what follows `consumed` until
    /// [`BodyEvent::NeedMore`] or [`BodyEvent::End`].
    ///
    /// # Errors
    /// The first rule the bytes break; the decoder must not be used after that.
    pub fn decode<'b>(&mut self, input: &'b [u8]) -> Result<BodyEvent<'b>, Reject> {
        let mut at = 0;
        loop {
            match self.state {
                State::Done => return Ok(BodyEvent::End { consumed: at }),
                State::Data if at < input.len() => return Ok(self.take_data(input, at)),
                _ => {}
            }
            let Some(&b) = input.get(at) else { return Ok(BodyEvent::NeedMore { consumed: at }) };
            self.state = self.step(b)?;
            at += 1;
        }
    }

    /// Whether all of the body has been taken; true from the start when there is none.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Bytes of content that come next, without framing between them.
    #[must_use]
    pub fn content_ahead(&self) -> u64 {
        if self.state == State::Data { self.remaining } else { 0 }
    }

    /// So many bytes of content have been taken without [`BodyDecoder::decode`].
    ///
    /// # Panics
    /// When that is more than [`BodyDecoder::content_ahead`].
    pub fn skip(&mut self, content: usize) {
        assert!(content as u64 <= self.content_ahead(), "only what is ahead can be taken");
        if content > 0 {
            self.count_off(content);
        }
    }

    fn count_off(&mut self, content: usize) {
        self.remaining -= content as u64;
        if self.remaining == 0 {
            self.state = if self.chunked { State::DataCr } else { State::Done };
        }
    }

    fn take_data<'b>(&mut self, input: &'b [u8], at: usize) -> BodyEvent<'b> {
        let available = &input[at..];
        let len = usize::try_from(self.remaining).map_or(available.len(), |n| n.min(available.len()));
        self.count_off(len);
        BodyEvent::Data { data: &available[..len], consumed: at + len }
    }

    /// Takes one byte of chunk framing and says what the next one belongs to.
    fn step(&mut self, b: u8) -> Result<State, Reject> {
        match self.state {
            State::Size { digits } => self.size(b, digits),
            State::SizeSpace => self.size_space(b),
            State::Extension | State::Quoted | State::QuotedPair => self.extension(b),
            State::SizeLf if b == b'\n' => Ok(self.after_size()),
            State::SizeLf => Err(BARE_CR),
            State::DataCr if b == b'\r' => Ok(State::DataLf),
            State::DataLf if b == b'\n' => Ok(State::Size { digits: 0 }),
            State::DataCr | State::DataLf => Err(CHUNK_END),
            State::Trailers => Ok(if self.trailers.step(b)? { State::Done } else { State::Trailers }),
            State::Data | State::Done => Ok(self.state),
        }
    }

    fn size(&mut self, b: u8, digits: u8) -> Result<State, Reject> {
        if let Some(value) = hex_value(b) {
            if digits == SIZE_DIGITS {
                return Err(CHUNK_OVERFLOW);
            }
            self.remaining = self.remaining << 4 | u64::from(value);
            return Ok(State::Size { digits: digits + 1 });
        }
        if digits == 0 {
            return Err(if b == b'\n' { BARE_LF } else { CHUNK_SIZE });
        }
        self.allowance = self.allowance.checked_sub(self.remaining).ok_or(BODY_SIZE)?;
        match b {
            b'\r' => Ok(State::SizeLf),
            b'\n' => Err(BARE_LF),
            _ => self.size_space(b),
        }
    }

    /// The grammar has bad whitespace only before an extension (RFC 9112 7.1.1), so CR may not follow.
    fn size_space(&mut self, b: u8) -> Result<State, Reject> {
        self.count_extension_byte()?;
        match b {
            b';' => Ok(State::Extension),
            _ if is_ows(b) => Ok(State::SizeSpace),
            _ => Err(CHUNK_SIZE),
        }
    }

    /// No extension is known, so none is looked at; only its line end must be beyond doubt, and within quotes there
    /// is none: somebody else might look for the closing one in the lines that follow.
    fn extension(&mut self, b: u8) -> Result<State, Reject> {
        let next = match (self.state, b) {
            (State::Extension, b'\r') => return Ok(State::SizeLf),
            (_, b'\n') => return Err(BARE_LF),
            _ if !is_value(b) => return Err(CHUNK_EXTENSION),
            (State::Extension, b'"') | (State::QuotedPair, _) => State::Quoted,
            (State::Quoted, b'\\') => State::QuotedPair,
            (State::Quoted, b) if b != b'"' => State::Quoted,
            _ => State::Extension,
        };
        self.count_extension_byte().map(|()| next)
    }

    fn count_extension_byte(&mut self) -> Result<(), Reject> {
        self.extension_allowance = self.extension_allowance.checked_sub(1).ok_or(EXTENSION_SIZE)?;
        Ok(())
    }

    fn after_size(&self) -> State {
        if self.remaining == 0 { State::Trailers } else { State::Data }
    }
}
