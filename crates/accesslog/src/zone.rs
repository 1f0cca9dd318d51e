//! The local time zone. Its rules are looked up once between two changes of the clocks, not once a line.

use std::cell::Cell;

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned};

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
    /// The system's: `TZ`, else /etc/localtime, else UTC.
    pub(crate) fn system() -> Self {
        Self::new(TimeZone::system())
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
