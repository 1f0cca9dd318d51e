use crate::{FieldStore, Head, Limits, Reject};

/// Finds and checks one request head; remembers how far it has looked, so that a head that comes
/// byte by byte costs linear time.
#[derive(Debug)]
pub struct RequestDecoder {
    limits: Limits,
}

impl RequestDecoder {
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self { limits: *limits }
    }

    /// Decodes the head at the start of `input`, which must be all bytes not yet consumed.
    /// `Ok(None)` asks for more bytes. After a head the decoder is ready for the next one.
    pub fn decode<'b>(
        &mut self,
        input: &'b [u8],
        fields: &'b mut FieldStore,
    ) -> Result<Option<Head<'b>>, Reject> {
        let _ = (self.limits, input, fields);
        todo!()
    }

    /// Forgets a half-read head.
    pub fn reset(&mut self) {
        *self = Self { limits: self.limits }
    }
}
