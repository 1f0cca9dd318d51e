//! Dates of responses (RFC 9110 5.6.7).

const DAYS: [&[u8; 3]; 7] = [b"Sun", b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat"];
const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
/// The last second of the year 9999: the format has room for four digits.
const LATEST: u64 = 253_402_300_799;

/// Formats seconds since 1970 for Date and the like: `Sun, 06 Nov 1994 08:49:37 GMT`.
/// Times after the year 9999 give its last second.
#[must_use]
pub fn imf_fixdate(unix_secs: u64) -> [u8; 29] {
    let secs = unix_secs.min(LATEST);
    let (days, time) = (secs / 86_400, secs % 86_400);
    let (year, month, day) = civil(days);
    let mut out = *b"Day, 00 Mon 0000 00:00:00 GMT";
    // 1970 began on a Thursday.
    out[..3].copy_from_slice(DAYS[((days + 4) % 7) as usize]);
    two_digits(&mut out[5..7], day);
    out[8..11].copy_from_slice(MONTHS[month]);
    two_digits(&mut out[12..14], year / 100);
    two_digits(&mut out[14..16], year);
    two_digits(&mut out[17..19], time / 3600);
    two_digits(&mut out[20..22], time / 60 % 60);
    two_digits(&mut out[23..25], time % 60);
    out
}

/// The last two digits of `n`.
fn two_digits(out: &mut [u8], n: u64) {
    out[0] = b'0' + (n / 10 % 10) as u8;
    out[1] = b'0' + (n % 10) as u8;
}

/// Year, month from 0, and day of the month of a day since 1970, in the Gregorian calendar.
/// Years are taken to begin in March, which puts the leap day last.
fn civil(days: u64) -> (u64, usize, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = (shifted + 2) % 12;
    let year = era * 400 + year_of_era + u64::from(month < 2);
    (year, month as usize, day)
}
