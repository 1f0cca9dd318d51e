//! Variables of the application's env on their way back to the front, which wants them for the access log.
//!
//! The front names them once, before there is a worker ([`Segment::ask_for`]); when it names none, nobody does
//! anything here. A worker writes their values into the report area of the slot just before it finishes, so values are
//! seen that the application or a middleware sets while it answers. The front reads them once the slot is done
//! ([`Segment::report`]).
//!
//! A report is a sequence of lengths (16 bits, native) and values, in the order of the names. It ends with the last variable that the
//! env has: where it has none, which is what most requests come to, nobody touches the area.

use crate::layout::{REPORT_AREA, REPORT_WORDS, REQUEST_AREA};
use crate::request::Full;
use crate::segment::Segment;
use crate::slot::copy;
use crate::sync::Ordering::{Acquire, Relaxed};

/// Length of a variable that the env has not.
pub const REPORT_NONE: u16 = u16::MAX;

/// Variables that one server may ask for.
pub const REPORT_MOST: usize = 64;

impl Segment {
    /// Names the variables that workers are to report. Call once, before any worker attaches.
    ///
    /// # Errors
    /// As [`report_names`].
    pub fn ask_for<'n>(&self, names: impl Iterator<Item = &'n [u8]>) -> Result<(), Full> {
        let words = report_names(names)?;
        self.name(self.names().get_or_init(|| words));
        Ok(())
    }

    /// Names the same as `other`, in a segment that takes its place.
    pub fn ask_as(&self, other: &Self) {
        if let Some(words) = other.names().get() {
            self.name(self.names().get_or_init(|| words.clone()));
        }
    }

    fn name(&self, words: &[u64]) {
        for (word, value) in self.header().report_names.iter().zip(words) {
            word.store(*value, Relaxed);
        }
    }

    /// A copy of what the worker has reported of the request in `slot`, for [`reported`]: empty before it has, which it does once, at the
    /// end for an application, at the beginning for a CGI script.
    ///
    /// # Panics
    /// When `slot` is out of range.
    #[must_use]
    pub fn report(&self, slot: u32) -> Vec<u8> {
        let length = self.controls()[slot as usize].report.load(Acquire) as usize;
        copy(self.report_address(slot), length.min(REPORT_AREA))
    }

    /// Address of a slot's report area.
    pub(crate) fn report_address(&self, slot: u32) -> *mut u8 {
        self.slot_address(slot).wrapping_add(REQUEST_AREA)
    }
}

/// Names of variables as a segment has them: for who would know, before there is one, whether it takes them.
///
/// # Errors
/// [`Full`] when there are more than 64, one is longer than 255 bytes, or all of them together than about 1000.
pub fn report_names<'n>(names: impl Iterator<Item = &'n [u8]>) -> Result<Box<[u64]>, Full> {
    let mut bytes = Vec::with_capacity(REPORT_WORDS * 8);
    for (index, name) in names.enumerate() {
        let length = u8::try_from(name.len()).map_err(|_| Full)?;
        if index == REPORT_MOST || name.is_empty() {
            return Err(Full);
        }
        bytes.push(length);
        bytes.extend_from_slice(name);
    }
    if bytes.len() >= REPORT_WORDS * 8 {
        return Err(Full);
    }
    bytes.resize(REPORT_WORDS * 8, 0);
    Ok(bytes.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes)).collect())
}

/// The value of the variable that was named as number `index`. Whatever the report holds, this stays within it.
#[must_use]
pub fn reported(report: &[u8], index: usize) -> Option<&[u8]> {
    let mut rest = report;
    for _ in 0..index {
        rest = split(rest)?.1;
    }
    split(rest)?.0
}

/// The first value of a report, and the rest of it.
fn split(report: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let (length, rest) = report.split_first_chunk()?;
    match u16::from_ne_bytes(*length) {
        REPORT_NONE => Some((None, rest)),
        length => rest.split_at_checked(length.into()).map(|(value, rest)| (Some(value), rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(values: &[Option<&[u8]>]) -> Vec<u8> {
        let length = |value: &Option<&[u8]>| value.map_or(REPORT_NONE, |value| value.len() as u16);
        let one = |value: &Option<&[u8]>| [&length(value).to_ne_bytes(), value.unwrap_or_default()].concat();
        values.iter().flat_map(one).collect()
    }

    #[test]
    fn values_are_found_by_their_number() {
        let report = report(&[Some(b"ann"), None, Some(b""), Some(b"\xff\n")]);
        let found = [0, 1, 2, 3, 4].map(|index| reported(&report, index));
        assert_eq!(found, [Some(&b"ann"[..]), None, Some(b""), Some(b"\xff\n"), None]);
    }

    #[test]
    fn a_worker_gone_mad_reports_nothing() {
        for bad in [&b""[..], b"\x05", b"\x05\x00abc", b"\xff\xfe"] {
            assert_eq!((reported(bad, 0), reported(bad, 1)), (None, None), "{bad:?}");
        }
    }
}
