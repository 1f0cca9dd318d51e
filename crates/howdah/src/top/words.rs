//! Numbers in few letters.

/// Seconds, to three digits: `0`, `85us`, `1.25ms`, `12.5s`, `3m05s`, `2h07m`, `4d11h`.
pub(super) fn time(seconds: f64) -> String {
    let whole = seconds as u64;
    match seconds {
        s if s <= 0.0 || s.is_nan() => "0".to_owned(),
        s if s < 0.000_999_5 => format!("{:.0}us", s * 1e6),
        s if s < 0.999_5 => format!("{}ms", digits(s * 1e3)),
        s if s < 60.0 => format!("{}s", digits(s)),
        s if s < 3600.0 => format!("{}m{:02}s", whole / 60, whole % 60),
        s if s < 86400.0 => format!("{}h{:02}m", whole / 3600, whole / 60 % 60),
        _ => format!("{}d{:02}h", whole / 86400, whole / 3600 % 24),
    }
}

/// Bytes: `512`, `1.50K`, `20.0M`.
pub(super) fn size(bytes: f64) -> String {
    let mut rest = bytes;
    for unit in ["", "K", "M", "G", "T"] {
        if rest < 999.5 {
            return if unit.is_empty() { format!("{rest:.0}") } else { format!("{}{unit}", digits(rest)) };
        }
        rest /= 1024.0;
    }
    format!("{rest:.0}P")
}

/// How many a second: `0`, `0.25`, `12.5`, `12345`.
pub(super) fn rate(number: f64) -> String {
    if number <= 0.0 { "0".to_owned() } else { digits(number) }
}

/// At least three digits.
fn digits(number: f64) -> String {
    match number {
        n if n < 9.995 => format!("{n:.2}"),
        n if n < 99.95 => format!("{n:.1}"),
        n => format!("{n:.0}"),
    }
}

/// Seconds since 1970 as time of day.
pub(super) fn clock(seconds: f64) -> String {
    let time = jiff::Timestamp::from_second(seconds as i64).unwrap_or_default();
    time.to_zoned(howdah_accesslog::local_zone()).strftime("%H:%M:%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (seconds, text) in [
            (0.0, "0"),
            (0.000_085, "85us"),
            (0.001_25, "1.25ms"),
            (0.0125, "12.5ms"),
            (0.999, "999ms"),
            (0.9999, "1.00s"),
            (12.54, "12.5s"),
            (185.0, "3m05s"),
            (7630.0, "2h07m"),
            (385_200.0, "4d11h"),
        ] {
            assert_eq!(time(seconds), text, "{seconds}");
        }
        for (bytes, text) in [(0.0, "0"), (512.0, "512"), (1536.0, "1.50K"), (20.0 * 1048576.0, "20.0M")] {
            assert_eq!(size(bytes), text, "{bytes}");
        }
        for (number, text) in [(0.0, "0"), (0.25, "0.25"), (12.46, "12.5"), (12345.2, "12345")] {
            assert_eq!(rate(number), text, "{number}");
        }
    }
}
