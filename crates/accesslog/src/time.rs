//! `%t` and `%{format}t`: points in time as text, made once a second.

use std::cell::RefCell;

use jiff::fmt::strtime::{BrokenDownTime, Config, PosixCustom};

use crate::style::Style;
use crate::zone::Zone;

const SECOND: u64 = 1_000_000_000;
const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// What a time looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `[10/Oct/2000:13:55:36 -0700]`.
    Common,
    /// `2000-10-10T13:55:36.123456-07:00` (RFC 3339).
    Rfc3339,
    /// strftime(3) in the C locale.
    Strftime { format: Box<[u8]>, brackets: bool },
    /// Unix time in units of so many nanoseconds.
    Count { unit: u64 },
    /// The part below a second in units of so many nanoseconds, with all its digits.
    Fraction { unit: u64, digits: usize },
}

/// A time of a request in one place of a format.
#[derive(Clone, Debug)]
pub(crate) struct Stamp {
    /// When the response had ended, rather than when the request began.
    pub(crate) end: bool,
    shape: Shape,
    /// The second of the text, and the text.
    made: RefCell<(Option<u64>, Vec<u8>)>,
}

impl Stamp {
    pub(crate) fn new(end: bool, shape: Shape) -> Self {
        Self { end, shape, made: RefCell::default() }
    }

    /// Appends the time `at`, Unix nanoseconds.
    pub(crate) fn render(&self, out: &mut Vec<u8>, style: Style, zone: &Zone, at: u64) {
        match &self.shape {
            Shape::Count { unit } => style.number(out, Some(at / unit)),
            Shape::Fraction { unit, digits } => {
                style.own(out, |out| padded(out, at % SECOND / unit, *digits));
            }
            Shape::Rfc3339 => style.own(out, |out| self.with_micros(out, zone, at)),
            Shape::Common | Shape::Strftime { .. } => {
                style.own(out, |out| self.text(zone, at / SECOND, |text| out.extend_from_slice(text)));
            }
        }
    }

    /// The cached text ends with the offset, which the fraction precedes.
    fn with_micros(&self, out: &mut Vec<u8>, zone: &Zone, at: u64) {
        self.text(zone, at / SECOND, |text| {
            let (seconds, offset) = text.split_at(19.min(text.len()));
            out.extend_from_slice(seconds);
            out.push(b'.');
            padded(out, at % SECOND / 1000, 6);
            out.extend_from_slice(offset);
        });
    }

    /// Gives `take` the text of a second.
    fn text(&self, zone: &Zone, second: u64, take: impl FnOnce(&[u8])) {
        let (made, text) = &mut *self.made.borrow_mut();
        if *made != Some(second) {
            text.clear();
            self.make(text, zone, i64::try_from(second).unwrap_or(i64::MAX));
            *made = Some(second);
        }
        take(text);
    }

    fn make(&self, text: &mut Vec<u8>, zone: &Zone, unix: i64) {
        match &self.shape {
            Shape::Common => common(text, zone, unix),
            Shape::Rfc3339 => rfc3339(text, zone, unix),
            Shape::Strftime { format, brackets: false } => strftime(text, format, zone, unix),
            Shape::Strftime { format, brackets: true } => {
                text.push(b'[');
                strftime(text, format, zone, unix);
                text.push(b']');
            }
            Shape::Count { .. } | Shape::Fraction { .. } => {}
        }
    }
}

/// Whether [`strftime`] can render this format; if not, what is wrong with it.
pub(crate) fn check_strftime(format: &[u8]) -> Result<(), String> {
    let epoch = Zone::new(jiff::tz::TimeZone::UTC).zoned(0);
    let config = Config::new().custom(PosixCustom::new());
    let mut text = Vec::new();
    BrokenDownTime::from(&epoch)
        .format_with_config(&config, format, &mut text)
        .map_err(|error| error.to_string())
}

fn strftime(text: &mut Vec<u8>, format: &[u8], zone: &Zone, unix: i64) {
    let config = Config::new().custom(PosixCustom::new());
    // The format was checked when it was compiled, and no local time fails where another does not.
    let _ = BrokenDownTime::from(&zone.zoned(unix)).format_with_config(&config, format, text);
}

fn common(text: &mut Vec<u8>, zone: &Zone, unix: i64) {
    let (local, offset) = zone.local(unix);
    text.push(b'[');
    padded(text, positive(local.day()), 2);
    text.push(b'/');
    text.extend_from_slice(MONTHS[local.month().unsigned_abs() as usize - 1]);
    text.push(b'/');
    padded(text, positive(local.year()), 4);
    text.push(b':');
    clock(text, [local.hour(), local.minute(), local.second()]);
    text.push(b' ');
    distance(text, offset, b"");
    text.push(b']');
}

fn rfc3339(text: &mut Vec<u8>, zone: &Zone, unix: i64) {
    let (local, offset) = zone.local(unix);
    padded(text, positive(local.year()), 4);
    text.push(b'-');
    padded(text, positive(local.month()), 2);
    text.push(b'-');
    padded(text, positive(local.day()), 2);
    text.push(b'T');
    clock(text, [local.hour(), local.minute(), local.second()]);
    distance(text, offset, b":");
}

fn clock(text: &mut Vec<u8>, parts: [i8; 3]) {
    for (at, part) in parts.into_iter().enumerate() {
        if at > 0 {
            text.push(b':');
        }
        padded(text, positive(part), 2);
    }
}

fn distance(text: &mut Vec<u8>, offset: i32, between: &[u8]) {
    text.push(if offset < 0 { b'-' } else { b'+' });
    let minutes = u64::from(offset.unsigned_abs()) / 60;
    padded(text, minutes / 60, 2);
    text.extend_from_slice(between);
    padded(text, minutes % 60, 2);
}

fn positive(value: impl Into<i64>) -> u64 {
    value.into().unsigned_abs()
}

/// A decimal number with leading zeros.
pub(crate) fn padded(out: &mut Vec<u8>, value: u64, digits: usize) {
    let mut buffer = itoa::Buffer::new();
    let text = buffer.format(value);
    out.resize(out.len() + digits.saturating_sub(text.len()), b'0');
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    fn berlin() -> Zone {
        Zone::new(TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap())
    }

    fn show(shape: Shape, zone: &Zone, at: u64) -> String {
        let mut out = Vec::new();
        Stamp::new(false, shape).render(&mut out, Style::Apache, zone, at);
        String::from_utf8(out).unwrap()
    }

    fn format(format: &str) -> Shape {
        Shape::Strftime { format: format.as_bytes().into(), brackets: false }
    }

    #[test]
    fn each_shape() {
        let at = 1_792_783_205_012_345_678;
        let cases = [
            (Shape::Common, "[23/Oct/2026:21:20:05 +0200]"),
            (Shape::Rfc3339, "2026-10-23T21:20:05.012345+02:00"),
            (Shape::Count { unit: SECOND }, "1792783205"),
            (Shape::Count { unit: 1_000_000 }, "1792783205012"),
            (Shape::Count { unit: 1000 }, "1792783205012345"),
            (Shape::Fraction { unit: 1_000_000, digits: 3 }, "012"),
            (Shape::Fraction { unit: 1000, digits: 6 }, "012345"),
            (format("%Y-%m-%d %H:%M:%S %z %Z"), "2026-10-23 21:20:05 +0200 CEST"),
            (format("%a %b %e %j %U %s %p %c"), "Fri Oct 23 296 42 1792783205 PM Fri Oct 23 21:20:05 2026"),
            (Shape::Strftime { format: (*b"%T").into(), brackets: true }, "[21:20:05]"),
        ];
        for (shape, expected) in cases {
            assert_eq!(show(shape.clone(), &berlin(), at), expected, "{shape:?}");
        }
    }

    #[test]
    fn the_offset_follows_the_clocks_forth_and_back() {
        let zone = berlin();
        let stamp = Stamp::new(false, Shape::Common);
        // 2026-10-25 01:00 UTC ends summer time.
        for (unix, expected) in [
            (1_792_889_999, "[25/Oct/2026:02:59:59 +0200]"),
            (1_792_890_000, "[25/Oct/2026:02:00:00 +0100]"),
            (1_792_889_999, "[25/Oct/2026:02:59:59 +0200]"),
            (1_792_890_001, "[25/Oct/2026:02:00:01 +0100]"),
            (1_774_746_000, "[29/Mar/2026:03:00:00 +0200]"),
        ] {
            let mut out = Vec::new();
            stamp.render(&mut out, Style::Apache, &zone, unix * SECOND);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn odd_zones_and_far_times_do_not_break_the_line() {
        let nepal = Zone::new(TimeZone::posix("<+0545>-5:45").unwrap());
        assert_eq!(show(Shape::Common, &nepal, 0), "[01/Jan/1970:05:45:00 +0545]");
        let newfoundland = Zone::new(TimeZone::posix("NST3:30").unwrap());
        assert_eq!(show(Shape::Common, &newfoundland, 86_400 * SECOND), "[01/Jan/1970:20:30:00 -0330]");
        assert_eq!(show(Shape::Common, &berlin(), u64::MAX).len(), 28);
    }

    #[test]
    fn a_format_that_strftime_lacks_is_told() {
        assert!(check_strftime(b"%d/%b/%Y").is_ok());
        assert!(check_strftime(b"%d %").is_err());
        assert!(check_strftime(b"%J").is_err());
    }
}
