//! The local time zone, for all that show a time. Its rules are looked up once between two changes of the clocks, not once a line.

use std::cell::Cell;

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned};

/// When summer time begins and ends in a zone of TZ that has one and does not say when, which POSIX leaves to the system: the C library,
/// and thus the application, takes the days of the USA.
const USUAL_RULES: &str = ",M3.2.0,M11.1.0";

/// The system's: `TZ`, else /etc/localtime, else UTC.
#[must_use]
pub fn local_zone() -> TimeZone {
    let named = std::env::var("TZ").ok();
    named.as_deref().and_then(by_usual_rules).unwrap_or_else(TimeZone::system)
}

/// The zone and the offset found last.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    zone: TimeZone,
    known: Cell<Known>,
}

/// An offset and the Unix seconds between which it holds.
#[derive(Clone, Copy, Debug)]
struct Known {
    from: i64,
    until: i64,
    offset: Offset,
}

impl Zone {
    /// The system's.
    pub(crate) fn system() -> Self {
        Self::new(local_zone())
    }

    pub(crate) fn new(zone: TimeZone) -> Self {
        Self { zone, known: Cell::new(Known { from: 0, until: 0, offset: Offset::UTC }) }
    }

    /// Local date and time, and its distance from UTC in seconds.
    pub(crate) fn local(&self, unix: i64) -> (DateTime, i32) {
        let offset = self.offset(unix);
        (offset.to_datetime(timestamp(unix)), offset.seconds())
    }

    pub(crate) fn zoned(&self, unix: i64) -> Zoned {
        timestamp(unix).to_zoned(self.zone.clone())
    }

    fn offset(&self, unix: i64) -> Offset {
        let known = self.known.get();
        if (known.from..known.until).contains(&unix) {
            return known.offset;
        }
        let known = self.look_up(unix);
        self.known.set(known);
        known.offset
    }

    fn look_up(&self, unix: i64) -> Known {
        let now = timestamp(unix);
        let next = self.zone.following(now).next();
        Known {
            from: unix,
            until: next.map_or(i64::MAX, |change| change.timestamp().as_second()),
            offset: self.zone.to_offset(now),
        }
    }
}

/// Seconds as jiff's type, which ends with the year 9999.
fn timestamp(unix: i64) -> Timestamp {
    Timestamp::from_second(unix).unwrap_or(Timestamp::MAX)
}

/// The zone of a TZ such as `CET-1CEST`; none of one that says all, or is the name of a zone.
fn by_usual_rules(tz: &str) -> Option<TimeZone> {
    let tz = tz.strip_prefix(':').unwrap_or(tz);
    let is_known = TimeZone::posix(tz).is_ok() || TimeZone::get(tz).is_ok();
    if is_known { None } else { TimeZone::posix(&format!("{tz}{USUAL_RULES}")).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summer_time_without_days_has_those_that_the_c_library_takes() {
        // In January, in July, and on 20 March, when the USA have summer time and Europe has not.
        let moments = [1_767_225_600, 1_782_900_000, 1_774_000_000];
        for (tz, offsets) in [
            ("CET-1CEST", Some([3600, 7200, 7200])),
            (":CET-1CEST", Some([3600, 7200, 7200])),
            ("AAA5BBB4:30", Some([-18_000, -16_200, -16_200])),
            ("CET-1CEST,M3.5.0,M10.5.0/3", None),
            ("JST-9", None),
            ("UTC", None),
            ("Foo/Bar", None),
            ("xxx", None),
            ("", None),
        ] {
            let zone = by_usual_rules(tz).map(Zone::new);
            let found = zone.map(|zone| moments.map(|unix| zone.local(unix).1));
            assert_eq!(found, offsets, "{tz}");
        }
    }
}
