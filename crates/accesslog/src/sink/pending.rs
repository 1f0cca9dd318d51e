//! Lines on their way to the outlet.

/// A batch, and how much of it is out.
#[derive(Debug, Default)]
pub struct Pending {
    pub(super) text: Vec<u8>,
    at: usize,
}

impl Pending {
    /// All of `text`, which is whole lines.
    #[must_use]
    pub fn new(text: Vec<u8>) -> Self {
        Self { text, at: 0 }
    }

    /// What is not out yet.
    #[must_use]
    pub fn rest(&self) -> &[u8] {
        &self.text[self.at..]
    }

    /// Everything is out.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.at == self.text.len()
    }

    /// So many more bytes are out. Returns how many lines that completes.
    pub fn advance(&mut self, bytes: usize) -> u64 {
        let out = &self.text[self.at..self.at + bytes];
        let lines = lines(out);
        self.at += bytes;
        lines
    }

    /// Bytes of the current line that are out already.
    #[must_use]
    pub fn torn(&self) -> usize {
        let line = self.text[..self.at].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.at - line
    }

    /// Goes back to the beginning of the current line.
    pub fn rewind(&mut self) {
        self.at -= self.torn();
    }

    /// More text, behind the rest.
    pub(super) fn push(&mut self, text: &[u8]) {
        self.text.extend_from_slice(text);
    }

    /// Text that comes before the rest.
    pub(super) fn put_back(&mut self, mut text: Vec<u8>) {
        text.extend_from_slice(self.rest());
        *self = Self::new(text);
    }

    /// Lets go of the lines that are out.
    pub(super) fn forget(&mut self) {
        let torn = self.torn();
        self.text.drain(..self.at - torn);
        self.at = torn;
    }

    /// Lines not yet out, a torn one included.
    #[must_use]
    pub fn lines_left(&self) -> u64 {
        lines(self.rest())
    }
}

/// How many lines end in `text`.
pub(super) fn lines(text: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', text).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_line_is_known_and_taken_back() {
        let mut pending = Pending::new(b"one\ntwo\nthree\n".to_vec());
        assert_eq!((pending.torn(), pending.lines_left()), (0, 3));
        assert_eq!(pending.advance(6), 1);
        assert_eq!((pending.torn(), pending.lines_left()), (2, 2));
        pending.rewind();
        assert_eq!(pending.rest(), b"two\nthree\n");
        assert_eq!(pending.advance(10), 2);
        assert!(pending.is_done());
        assert_eq!(pending.torn(), 0);
    }

    #[test]
    fn what_comes_back_stands_before_the_rest() {
        let mut pending = Pending::default();
        pending.push(b"one\ntwo\n");
        pending.push(b"three\n");
        pending.advance(6);
        pending.forget();
        assert_eq!((&pending.text[..], pending.rest()), (&b"two\nthree\n"[..], &b"o\nthree\n"[..]));
        pending.put_back(b"zero\ntw".to_vec());
        assert_eq!((&pending.text[..], pending.torn()), (&b"zero\ntwo\nthree\n"[..], 0));
    }
}
