//! Numbers for people and for parsers.

use std::fmt::Write;

/// As C's `%g`: six significant digits at most, no needless zeros, no exponent for what a server counts.
pub(crate) fn short(value: f64) -> String {
    if !value.is_finite() || value == 0.0 {
        return "0".into();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let decimals = usize::try_from(5 - magnitude).unwrap_or(0).min(12);
    let text = format!("{value:.decimals$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A duration in seconds with a fitting unit: `250 µs`, `1.20 ms`, `3.5 s`.
pub(crate) fn seconds(value: f64) -> String {
    match value {
        v if v < 0.000_000_5 => "0".into(),
        v if v < 0.001 => format!("{:.0} µs", v * 1e6),
        v if v < 0.01 => format!("{:.2} ms", v * 1e3),
        v if v < 0.1 => format!("{:.1} ms", v * 1e3),
        v if v < 1.0 => format!("{:.0} ms", v * 1e3),
        v if v < 60.0 => format!("{v:.1} s"),
        v => long(v),
    }
}

/// A long time in its two largest units: `3 d 4 h`.
pub(crate) fn long(seconds: f64) -> String {
    let total = seconds.max(0.0) as u64;
    let parts =
        [(total / 86_400, "d"), (total / 3600 % 24, "h"), (total / 60 % 60, "min"), (total % 60, "s")];
    let first = parts.iter().position(|(count, _)| *count > 0).unwrap_or(3);
    let shown = parts[first..].iter().take(2).filter(|(count, _)| *count > 0);
    let text: Vec<_> = shown.map(|(count, unit)| format!("{count} {unit}")).collect();
    if text.is_empty() { "0 s".into() } else { text.join(" ") }
}

/// A time as Apache writes it: `1 day 2 hours 3 minutes 4 seconds`; units that are zero are left out.
pub(crate) fn apache_time(seconds: f64, separator: &str) -> String {
    let total = seconds.max(0.0) as u64;
    let parts = [
        (total / 86_400, "day"),
        (total / 3600 % 24, "hour"),
        (total / 60 % 60, "minute"),
        (total % 60, "second"),
    ];
    let shown = parts.iter().filter(|(count, _)| *count > 0);
    let text: Vec<_> =
        shown.map(|(count, unit)| format!("{count} {unit}{}", if *count == 1 { "" } else { "s" })).collect();
    if text.is_empty() { "0 seconds".into() } else { text.join(separator) }
}

/// Bytes with a binary unit: `512 B`, `1.5 KiB`, `20 MiB`.
pub(crate) fn bytes(value: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (value.max(0.0), 0);
    while value >= 1024.0 && unit < UNITS.len() - 1 {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && value < 100.0);
    format!("{value:.digits$} {}", UNITS[unit])
}

/// A count with a thin space between groups of three digits.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// A rate per second.
pub(crate) fn rate(value: f64) -> String {
    if value < 100.0 { format!("{value:.1}") } else { count(value.round() as u64) }
}

/// A local time with strftime's format in the C locale.
pub(crate) fn local_time(unix: f64, format: &str) -> String {
    use jiff::fmt::strtime::{BrokenDownTime, Config, PosixCustom};
    let mut out = String::new();
    let config = Config::new().custom(PosixCustom::new());
    if let Ok(time) = jiff::Timestamp::from_second(unix as i64) {
        let zoned = time.to_zoned(howdah_accesslog::local_zone());
        let _ = BrokenDownTime::from(&zoned).format_with_config(&config, format, &mut out);
    }
    out
}

/// Appends with `format!`'s syntax; writing to a string cannot fail.
pub(crate) fn put(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(arguments);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_numbers_are_those_of_printf() {
        let cases = [
            (0.0, "0"),
            (1.0, "1"),
            (0.090_909_1, "0.0909091"),
            (1234.5678, "1234.57"),
            (1_234_567.0, "1234567"),
            (0.1 + 0.2, "0.3"),
            (1e-7, "0.0000001"),
            (f64::NAN, "0"),
            (f64::INFINITY, "0"),
        ];
        for (value, expected) in cases {
            assert_eq!(short(value), expected);
        }
    }

    #[test]
    fn people_read_units() {
        let times = [
            (0.0, "0"),
            (0.000_25, "250 µs"),
            (0.0012, "1.20 ms"),
            (0.25, "250 ms"),
            (3.45, "3.5 s"),
            (90.0, "1 min 30 s"),
        ];
        for (value, expected) in times {
            assert_eq!(seconds(value), expected);
        }
        for (value, expected) in [(0.0, "0 s"), (59.0, "59 s"), (3600.0, "1 h"), (273_600.0, "3 d 4 h")] {
            assert_eq!(long(value), expected);
        }
        for (value, expected) in
            [(0.0, "0 B"), (1023.0, "1023 B"), (1536.0, "1.5 KiB"), (2.1e8, "200 MiB"), (5e15, "4547 TiB")]
        {
            assert_eq!(bytes(value), expected);
        }
        assert_eq!(
            (count(7), count(1234), count(1_234_567)),
            ("7".into(), "1\u{202f}234".into(), "1\u{202f}234\u{202f}567".into())
        );
        assert_eq!((rate(0.25), rate(1234.4)), ("0.2".into(), "1\u{202f}234".into()));
    }

    #[test]
    fn apaches_uptime_has_words() {
        for (value, expected) in [
            (0.0, "0 seconds"),
            (1.0, "1 second"),
            (93_784.0, "1 day 2 hours 3 minutes 4 seconds"),
            (7200.0, "2 hours"),
        ] {
            assert_eq!(apache_time(value, " "), expected);
        }
    }
}
