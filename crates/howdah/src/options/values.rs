//! Types of option values: how they are written, checked and printed.
//!
//! clap calls `from_str` for each; the message of a refused value completes clap's sentence
//! "invalid value 'X' for '--option <Y>': ...", so it says what would be accepted.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// A number of bytes: `65536`, `64k`, `1m`, `1g` (powers of 1024; `64K`, `64kb` and `64KiB` are the same).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Size(pub(crate) u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || {
            "not a size: write a number of bytes, or a number with k, m or g such as 64k, 1m or 2g".to_owned()
        };
        let (digits, unit) = split_number(text);
        let shift = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            _ => return Err(wrong()),
        };
        if digits.is_empty() {
            return Err(wrong());
        }
        let bytes = digits.parse().ok().and_then(|number: u64| number.checked_mul(1 << shift));
        bytes.map(Self).ok_or_else(|| "too large: sizes end below 16 EiB".to_owned())
    }
}

impl fmt::Display for Size {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, unit) = match self.0 {
            0 => (0, ""),
            n if n % (1 << 30) == 0 => (n >> 30, "g"),
            n if n % (1 << 20) == 0 => (n >> 20, "m"),
            n if n % (1 << 10) == 0 => (n >> 10, "k"),
            n => (n, ""),
        };
        write!(out, "{number}{unit}")
    }
}

/// Numbers of requests, one for each refork: `500`, or `50,500,5000`, with plus signs where a comma has another meaning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reforks(pub(crate) Vec<u64>);

impl FromStr for Reforks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || {
            "not a list of numbers: write one such as 500, or several such as 50,500,5000 (in a --mount 50+500+5000)"
                .to_owned()
        };
        if matches!(text, "" | "0" | "none") {
            return Ok(Self::default());
        }
        let numbers: Option<Vec<u64>> = text.split([',', '+']).map(number).collect();
        let numbers = numbers.filter(|numbers| numbers.iter().all(|number| *number > 0)).ok_or_else(wrong)?;
        if numbers.len() > MOST_REFORKS {
            return Err(format!("too many numbers: a list has {MOST_REFORKS} at most"));
        }
        if numbers.contains(&u64::MAX) {
            return Err(TOO_MUCH.to_owned());
        }
        Ok(Self(numbers))
    }
}

impl fmt::Display for Reforks {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(u64::to_string).collect();
        out.write_str(&numbers.join(","))
    }
}

/// Each is one more generation of what has leaked.
const MOST_REFORKS: usize = 16;

/// A length of time: `10` and `10s` are ten seconds, also `500ms`, `2m`, `1h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time(pub(crate) Duration);

impl Time {
    /// The same time where 0 says "no limit".
    pub(crate) fn limit(self) -> Option<Duration> {
        (!self.0.is_zero()).then_some(self.0)
    }
}

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || {
            "not a time: write seconds, or a number with ms, s, m or h such as 500ms, 10s or 2m".to_owned()
        };
        let (digits, unit) = split_number(text);
        let scale: u64 = match unit {
            "ms" => 1,
            "" | "s" => 1000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            _ => return Err(wrong()),
        };
        if digits.is_empty() {
            return Err(wrong());
        }
        let millis = digits.parse().ok().and_then(|number: u64| number.checked_mul(scale));
        let millis = millis.filter(|ms| *ms <= LONGEST.as_millis() as u64);
        millis.map(|ms| Self(Duration::from_millis(ms))).ok_or_else(|| TOO_LONG.to_owned())
    }
}

/// A length of time whose bare number is milliseconds.
pub(crate) fn millis(text: &str) -> Result<Time, String> {
    let written = if is_number(text) { format!("{text}ms") } else { text.to_owned() };
    written.parse().map_err(|why: String| match why.as_str() {
        TOO_LONG => why,
        _ => "not a time: write milliseconds, or a number with ms, s, m or h such as 2s".to_owned(),
    })
}

/// Timers add times to the clock; a year is beyond every sane timeout and far from overflow.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
const TOO_LONG: &str = "too long: times end at 8760h (a year)";

impl fmt::Display for Time {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_millis() {
            0 => write!(out, "0"),
            ms if ms % 3_600_000 == 0 => write!(out, "{}h", ms / 3_600_000),
            ms if ms % 60_000 == 0 => write!(out, "{}m", ms / 60_000),
            ms if ms % 1000 == 0 => write!(out, "{}s", ms / 1000),
            ms => write!(out, "{ms}ms"),
        }
    }
}

/// Permission bits of a Unix socket in octal, as chmod(1) takes them: `660` or `0660`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mode(pub(crate) u32);

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.strip_prefix("0o").unwrap_or(text);
        match u32::from_str_radix(digits, 8) {
            Ok(mode) if mode <= 0o777 && !digits.starts_with('+') => Ok(Self(mode)),
            _ => {
                Err("not a file mode: write octal permission bits as for chmod, such as 660 or 0666"
                    .to_owned())
            }
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:04o}", self.0)
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A number in digits; the greatest that there is stands for all that are beyond it.
fn number(text: &str) -> Option<u64> {
    is_number(text).then(|| text.parse().unwrap_or(u64::MAX))
}

const TOO_MUCH: &str = "too large: numbers end below 18446744073709551615 (2^64 - 1)";

/// A parser for whole numbers within bounds that says so in plain words. Where there is no upper bound, any number of
/// requests that a server can have stands below it.
pub(crate) fn whole<T: TryFrom<u64>>(
    bounds: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = number(text);
        let within = number.filter(|&number| bounds.contains(&number) && number < u64::MAX);
        within.and_then(|number| T::try_from(number).ok()).ok_or_else(|| match (*bounds.end(), number) {
            (u64::MAX, Some(u64::MAX)) => TOO_MUCH.to_owned(),
            (u64::MAX, _) => format!("not a whole number of {} or more", bounds.start()),
            (end, _) => format!("not a whole number from {} to {end}", bounds.start()),
        })
    }
}

/// A parser for a switch that is on without a word. Help and completions know two words; those that switches take in the
/// environment are accepted, too.
pub(crate) fn on_off() -> impl TypedValueParser<Value = bool> {
    const ON: &[&str] = &["on", "true", "yes", "1", "t", "y"];
    const OFF: &[&str] = &["off", "false", "no", "0", "f", "n"];
    let value = |words: &'static [&str]| PossibleValue::new(words[0]).aliases(&words[1..]);
    let is_on = |text: String| ON.iter().any(|word| word.eq_ignore_ascii_case(&text));
    PossibleValuesParser::new([value(ON), value(OFF)]).map(is_on)
}

/// Splits `64k` into `64` and `k`.
fn split_number(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_or_powers_of_1024() {
        for (text, bytes) in [
            ("0", 0),
            ("10", 10),
            ("64k", 65536),
            ("1M", 1 << 20),
            ("2g", 2 << 30),
            ("1 GiB", 1 << 30),
            ("5kb", 5120),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for text in ["", "k", "-1", "1.5m", "1t", "ten", "+5", "99999999999g"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_seconds_unless_a_unit_says_otherwise() {
        for (text, millis) in
            [("0", 0), ("10", 10_000), ("10s", 10_000), ("500ms", 500), ("2m", 120_000), ("1h", 3_600_000)]
        {
            assert_eq!(text.parse(), Ok(Time(Duration::from_millis(millis))), "{text}");
        }
        for text in ["", "s", "-1", "1.5s", "10 years", "99999999999999999999", "9000h"] {
            assert!(text.parse::<Time>().is_err(), "{text}");
        }
    }

    #[test]
    fn whole_numbers_keep_their_bounds() {
        assert_eq!(whole::<u32>(1..=64)("64"), Ok(64));
        assert_eq!(whole::<u64>(0..=u64::MAX)("0"), Ok(0));
        for text in ["0", "65", "-1", "+5", "", "x", "1.5", "18446744073709551616"] {
            assert_eq!(whole::<u32>(1..=64)(text).unwrap_err(), "not a whole number from 1 to 64", "{text}");
        }
        let unbounded = whole::<u64>(1..=u64::MAX);
        assert_eq!(unbounded("18446744073709551614"), Ok(u64::MAX - 1));
        for text in ["18446744073709551615", "18446744073709551616", "999999999999999999999999"] {
            assert_eq!(unbounded(text).unwrap_err(), TOO_MUCH, "{text}");
        }
        for text in ["0", "-1", "", "x"] {
            assert_eq!(unbounded(text).unwrap_err(), "not a whole number of 1 or more", "{text}");
        }
    }

    #[test]
    fn of_a_list_of_numbers_it_is_told_which_bound_it_exceeds() {
        let refused = |text: &str| text.parse::<Reforks>().unwrap_err();
        assert_eq!("50,500".parse(), Ok(Reforks(vec![50, 500])));
        for text in ["x", "500,0", "500,", "1.5", "-1"] {
            assert!(refused(text).starts_with("not a list of numbers"), "{text}");
        }
        assert_eq!(refused("500,18446744073709551616"), TOO_MUCH);
        assert_eq!(refused(&["7"; 17].join(",")), "too many numbers: a list has 16 at most");
    }

    #[test]
    fn modes_are_octal() {
        for (text, mode) in [("660", 0o660), ("0666", 0o666), ("0o600", 0o600), ("0", 0)] {
            assert_eq!(text.parse(), Ok(Mode(mode)), "{text}");
        }
        for text in ["", "888", "1777", "rw", "-1", "+7"] {
            assert!(text.parse::<Mode>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_printed_reads_back_as_the_same_value() {
        for text in ["0", "1k", "3m", "1g", "1025"] {
            assert_eq!(text.parse::<Size>().unwrap().to_string(), text);
        }
        for text in ["0", "10s", "2m", "1h", "1500ms"] {
            assert_eq!(text.parse::<Time>().unwrap().to_string(), text);
        }
        assert_eq!("660".parse::<Mode>().unwrap().to_string(), "0660");
    }
}
