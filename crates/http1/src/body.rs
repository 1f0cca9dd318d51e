use crate::{Framing, Limits, Reject};

/// What [`BodyDecoder::decode`] has found. `consumed` bytes of the input are done with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyEvent<'b> {
    /// All of the input was framing or there was none; feed more.
    NeedMore { consumed: usize },
    /// A piece of content; `consumed` covers it and the framing before it.
    Data { data: &'b [u8], consumed: usize },
    /// The body has ended; what follows `consumed` is the next request.
    End { consumed: usize },
}

/// Strips the framing of one request body.
#[derive(Debug)]
pub struct BodyDecoder {
    framing: Framing,
}

impl BodyDecoder {
    #[must_use]
    pub fn new(framing: &Framing, _limits: &Limits) -> Self {
        Self { framing: *framing }
    }

    /// Takes the next bytes of the body.
    pub fn decode<'b>(&mut self, input: &'b [u8]) -> Result<BodyEvent<'b>, Reject> {
        let _ = input;
        todo!()
    }

    /// Whether all of the body has been taken; true at once when there is none.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.framing == Framing::None
    }
}
