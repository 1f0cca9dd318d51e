//! The trailer section of a chunked body: checked as strictly as a head, then dropped, because
//! PSGI has no place for it (RFC 9110 6.5.1 allows that); kept only for a log that wants it.

use crate::bytes::{is_tchar, is_value};
use crate::reject::{BARE_CR, BARE_LF, Reject, TRAILER, TRAILER_COUNT, TRAILER_SIZE};
use crate::terms::Limits;

/// Reads a trailer section byte by byte.
#[derive(Debug)]
pub(crate) struct Trailers {
    state: State,
    /// Bytes that may still come.
    allowance: usize,
    /// Field lines that may still come.
    fields: usize,
    /// The bytes of the section, when they are wanted.
    pub(crate) kept: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    LineStart,
    Name,
    Value,
    ValueLf,
    LastLf,
}

impl Trailers {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { state: State::LineStart, allowance: limits.head, fields: limits.fields, kept: None }
    }

    /// Takes one byte; true when it ends the section.
    pub(crate) fn step(&mut self, b: u8) -> Result<bool, Reject> {
        self.allowance = self.allowance.checked_sub(1).ok_or(TRAILER_SIZE)?;
        if let Some(kept) = &mut self.kept {
            kept.push(b);
        }
        self.state = match (self.state, b) {
            (State::LastLf, b'\n') => return Ok(true),
            (State::LineStart, b'\r') => State::LastLf,
            (State::Value, b'\r') => State::ValueLf,
            (State::ValueLf, b'\n') => State::LineStart,
            (State::LastLf | State::ValueLf, _) => return Err(BARE_CR),
            (_, b'\n') => return Err(BARE_LF),
            (State::LineStart, _) if is_tchar(b) => self.count_field()?,
            (State::Name, b':') => State::Value,
            (State::Name, _) if is_tchar(b) => State::Name,
            (State::Value, _) if is_value(b) => State::Value,
            _ => return Err(TRAILER),
        };
        Ok(false)
    }

    fn count_field(&mut self) -> Result<State, Reject> {
        self.fields = self.fields.checked_sub(1).ok_or(TRAILER_COUNT)?;
        Ok(State::Name)
    }
}
