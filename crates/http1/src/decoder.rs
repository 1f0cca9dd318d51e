//! Finds the head of a request in the input, line by line, as the bytes come.
//!
//! Called by the front with all bytes not yet consumed. Whatever can be judged before the head is
//! whole (empty lines, method, line ends, lengths, the request line) is judged here in the order
//! of the stream, so that the verdict is the same however the bytes arrive; the field lines go as
//! one block to [`crate::fields`], and what they mean together is judged in [`crate::semantics`].

use memchr::{memchr, memchr_iter};

use crate::bytes::{Part, is_tchar};
use crate::reject::{
    BARE_CR, BARE_LF, EMPTY_LINES, FIELD_COUNT, HEAD_SIZE, LONG_LINE, LONG_METHOD, METHOD, Reject,
};
use crate::target::{RequestLine, parse_request_line};
use crate::terms::Limits;
use crate::{FieldStore, Head, semantics};

/// Longer than every registered method (UPDATEREDIRECTREF has 17 letters).
const METHOD_MAX: usize = 32;
/// Clients that once ended a body with a surplus CRLF sent one, some two: so many bytes of empty lines may come first.
const EMPTY_LINES_MAX: usize = b"\r\n\r\n".len();

/// Finds and checks one request head; remembers how far it has looked, so that a head that comes
/// byte by byte costs linear time.
#[derive(Debug)]
pub struct RequestDecoder {
    limits: Limits,
    progress: Progress,
}

#[derive(Debug, Default)]
struct Progress {
    /// Where the request line begins, after empty lines.
    start: usize,
    line: Option<RequestLine>,
    /// Every LF before this position has been dealt with.
    scanned: usize,
    /// Where the current field line begins.
    field_start: usize,
    fields: usize,
}

impl RequestDecoder {
    /// A decoder for one connection.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self { limits: *limits, progress: Progress::default() }
    }

    /// Decodes the head at the start of `input`, which must be all bytes not yet consumed, and
    /// each time begin with the same ones. `Ok(None)` asks for more. After a head the decoder is
    /// ready for the next one, at the input that follows [`Head::len`] and the body.
    ///
    /// # Errors
    /// The first rule the bytes break. The connection cannot be used any further.
    pub fn decode<'b>(
        &mut self,
        input: &'b [u8],
        fields: &'b mut FieldStore,
    ) -> Result<Option<Head<'b>>, Reject> {
        let line = match self.progress.line {
            Some(line) => line,
            None => match self.request_line(input)? {
                Some(line) => line,
                None => return Ok(None),
            },
        };
        let Some(len) = self.head_end(input)? else { return Ok(None) };
        let count = self.progress.fields;
        self.reset();
        semantics::build_head(&input[..len], &line, count, &self.limits, fields).map(Some)
    }

    /// Forgets a head of which only a part has come.
    pub fn reset(&mut self) {
        self.progress = Progress::default();
    }

    fn request_line(&mut self, input: &[u8]) -> Result<Option<RequestLine>, Reject> {
        if !self.skip_empty_lines(input)? {
            return Ok(None);
        }
        let start = self.progress.start;
        let Some(method_len) = self.method_len(&input[start..])? else { return Ok(None) };
        let Some(end) = self.line_end(input)? else { return Ok(None) };
        let method = Part::new(start, start + method_len);
        let line = parse_request_line(input, method, Part::new(start, end))?;
        self.progress.line = Some(line);
        self.progress.scanned = line.end;
        self.progress.field_start = line.end;
        Ok(Some(line))
    }

    /// False while what has come may yet be an empty line.
    fn skip_empty_lines(&mut self, input: &[u8]) -> Result<bool, Reject> {
        loop {
            match &input[self.progress.start..] {
                [b'\n', ..] => return Err(BARE_LF),
                [b'\r', ..] if self.progress.start == EMPTY_LINES_MAX => return Err(EMPTY_LINES),
                [b'\r', b'\n', ..] => self.progress.start += 2,
                [b'\r'] => return Ok(false),
                [b'\r', ..] => return Err(BARE_CR),
                _ => return Ok(true),
            }
        }
    }

    /// Judged byte by byte, so that a TLS greeting or other noise is refused at once and not only
    /// after the timeout.
    fn method_len(&self, line: &[u8]) -> Result<Option<usize>, Reject> {
        let max = METHOD_MAX.min(self.limits.request_line);
        match line.iter().take(max + 1).position(|&b| !is_tchar(b)) {
            Some(len @ 1..) if line[len] == b' ' => Ok(Some(len)),
            Some(_) => Err(METHOD),
            None if line.len() > max => Err(LONG_METHOD),
            None => Ok(None),
        }
    }

    /// Position of the CR that ends the request line.
    fn line_end(&mut self, input: &[u8]) -> Result<Option<usize>, Reject> {
        let start = self.progress.start;
        let bound = start.saturating_add(self.limits.request_line).saturating_add(2);
        let window = &input[..input.len().min(bound)];
        let from = self.progress.scanned.max(start);
        let Some(at) = memchr(b'\n', &window[from..]) else {
            self.progress.scanned = window.len();
            return if window.len() == bound { Err(LONG_LINE) } else { Ok(None) };
        };
        let lf = from + at;
        if window[lf - 1] == b'\r' { Ok(Some(lf - 1)) } else { Err(BARE_LF) }
    }

    /// Length of the head once its empty line has come.
    fn head_end(&mut self, input: &[u8]) -> Result<Option<usize>, Reject> {
        let Progress { scanned, field_start, fields, .. } = &mut self.progress;
        let window = &input[..input.len().min(self.limits.head)];
        // The request line alone may have gone over the limit.
        let unseen = window.get(*scanned..).unwrap_or_default();
        for lf in memchr_iter(b'\n', unseen).map(|at| *scanned + at) {
            if window[lf - 1] != b'\r' {
                return Err(BARE_LF);
            }
            if lf == *field_start + 1 {
                return Ok(Some(lf + 1));
            }
            *field_start = lf + 1;
            *fields += 1;
            if *fields > self.limits.fields {
                return Err(FIELD_COUNT);
            }
        }
        *scanned = window.len().max(*scanned);
        if input.len() >= self.limits.head { Err(HEAD_SIZE) } else { Ok(None) }
    }
}
