//! What an exchange counts and keeps on its way, until `records` tells what it has come to.
//!
//! The request's own words are read from its slot, or from a copy in the same form: of a request whose slot went back
//! before the response was out, or that never had a slot because it was refused or is for a page of the front's own.

use std::cell::Cell;

use howdah_accesslog::{Kept, Needs, Source};
use howdah_metrics::{Failure, Method};

use crate::request_id::Id;

/// Times are CLOCK_MONOTONIC nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// The first byte of the request; 0 before it.
    pub(crate) begin: u64,
    /// Bytes received for it.
    pub(crate) received: u64,
    pub(crate) status: u16,
    /// Why the response breaks off, where that is not its client's doing.
    pub(crate) breaks: Cell<Option<Failure>>,
    /// None for a request of which not so much has come.
    pub(crate) method: Option<Method>,
    /// Waited for a worker.
    pub(crate) queue: Option<u64>,
    /// Ran in a worker.
    pub(crate) run: Option<u64>,
    /// The worker that ran it.
    pub(crate) worker: Option<u16>,
    /// What the client speaks, where the application's words of that are others.
    pub(crate) protocol: Option<&'static [u8]>,
    /// The first line of a request that could not be read.
    pub(crate) line: Box<[u8]>,
    /// The request's target as sent, where that is more than the application sees of it, and a log may want it.
    pub(crate) target: Option<Box<[u8]>>,
    /// X-Request-Id.
    pub(crate) id: Id,
    /// The request, when it never had a slot or its slot went back before the end.
    pub(crate) request: Option<Box<[u8]>>,
    /// What the worker has reported, when the slot went back before the end.
    pub(crate) report: Option<Box<[u8]>>,
    /// Fields that the log wants.
    pub(crate) kept: Option<Box<Kept>>,
}

impl Account {
    /// The times of an exchange that ends now; when the first byte of its response went out, if one did.
    pub(crate) fn times(&self, end: u64, first_byte: Option<u64>) -> Times {
        // Where nothing of a request has come it has taken no time.
        let begin = if self.begin == 0 { end } else { self.begin };
        let duration = end.saturating_sub(begin);
        // What workers say of times cannot be more than all the time that there was.
        let bounded = |time: Option<u64>| time.map(|time| time.min(duration));
        let first_byte = first_byte.map(|time| time.saturating_sub(begin));
        let send = first_byte.map(|time| duration.saturating_sub(time));
        Times { begin, duration, queue: bounded(self.queue), run: bounded(self.run), first_byte, send }
    }

    /// Keeps the first line of what could not be read as a request, where the log wants it, and counts it under its method.
    pub(crate) fn unreadable(&mut self, input: &[u8], wanted: Wanted<'_>) {
        let line = input.split(|&byte| byte == b'\n').next().unwrap_or_default();
        if wanted.0.is_some() {
            self.line = line.strip_suffix(b"\r").unwrap_or(line).into();
        }
        let word = line.split(|&byte| byte == b' ').next().unwrap_or_default();
        self.method = Some(Method::of(word));
        self.received = input.len() as u64;
    }

    /// Keeps the target as it was sent, where a log may want it and the application sees a part of it alone: in absolute-form.
    pub(crate) fn keep_target(&mut self, sent: &[u8], seen: &[u8], wanted: bool) {
        if sent.len() != seen.len() && wanted && self.target.is_none() {
            self.target = Some(sent.into());
        }
    }

    /// Keeps those fields of a head or trailer section that the log wants.
    pub(crate) fn keep_fields(&mut self, source: Source, lines: &[u8], wanted: Wanted<'_>) {
        let Some(needs) = wanted.0.filter(|needs| needs.any(source)) else { return };
        let kept = self.kept.get_or_insert_default();
        for line in lines.split(|&byte| byte == b'\n') {
            let mut parts = line.splitn(2, |&byte| byte == b':');
            if let (Some(name), Some(value)) = (parts.next(), parts.next()) {
                kept.offer(needs, source, name, value.trim_ascii());
            }
        }
    }

    /// Forgets what was kept of a head that was not sent.
    pub(crate) fn forget_fields(&mut self, source: Source, wanted: Wanted<'_>) {
        if let (Some(kept), Some(needs)) = (&mut self.kept, wanted.0) {
            kept.forget(needs, source);
        }
    }
}

/// How long an exchange has taken, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    /// CLOCK_MONOTONIC.
    pub(crate) begin: u64,
    pub(crate) duration: u64,
    /// Waited for a worker.
    pub(crate) queue: Option<u64>,
    /// Ran in a worker.
    pub(crate) run: Option<u64>,
    /// From the request's first byte to the response's.
    pub(crate) first_byte: Option<u64>,
    /// From the response's first byte to the end.
    pub(crate) send: Option<u64>,
}

/// What the access log wants of a request; nothing without one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a>(pub(crate) Option<&'a Needs>);

#[cfg(test)]
mod tests {
    use howdah_accesslog::{Compat, Values, compile};

    use super::*;

    #[test]
    fn times_that_a_worker_has_made_up_are_no_longer_than_the_request() {
        let account = Account { begin: 100, queue: Some(7), run: Some(u64::MAX), ..Account::default() };
        let (queue, run) = (Some(7), Some(50));
        for (first_byte, before, send) in [
            (None, None, None),
            (Some(120), Some(20), Some(30)),
            (Some(90), Some(0), Some(50)),
            (Some(170), Some(70), Some(0)),
        ] {
            let times = Times { begin: 100, duration: 50, queue, run, first_byte: before, send };
            assert_eq!(account.times(150, first_byte), times);
        }
    }

    #[test]
    fn a_request_of_which_nothing_has_come_has_taken_no_time() {
        let times = Times { begin: 150, duration: 0, queue: None, run: None, first_byte: None, send: None };
        assert_eq!(Account::default().times(150, None), times);
    }

    #[test]
    fn what_could_not_be_read_is_kept_up_to_its_first_line() {
        let format = compile("%r", Compat::Apache).unwrap();
        for (input, line, method) in [
            (&b"GET /\r\nHost"[..], &b"GET /"[..], Method::Get),
            (b"POST / HTTP/1.1\nHost : h", b"POST / HTTP/1.1", Method::Post),
            (b"\x16\x03\x01\x00", b"\x16\x03\x01\x00", Method::Other),
            (b"\nGET", b"", Method::Other),
            (b"", b"", Method::Other),
        ] {
            let mut account = Account::default();
            account.unreadable(input, Wanted(Some(format.needs())));
            let kept = (&*account.line, account.method, account.received);
            assert_eq!(kept, (line, Some(method), input.len() as u64));
            let mut account = Account::default();
            account.unreadable(input, Wanted(None));
            assert!(account.line.is_empty() && account.method == Some(method), "nobody wants the line");
        }
    }

    #[test]
    fn a_target_is_kept_of_which_the_application_sees_a_part_alone() {
        for (sent, seen, wanted, kept) in [
            ("/a?b", "/a?b", true, None),
            ("*", "*", true, None),
            ("http://h/a?b", "/a?b", true, Some("http://h/a?b")),
            ("http://h", "/", true, Some("http://h")),
            ("http://h", "*", true, Some("http://h")),
            ("http://h/a?b", "/a?b", false, None),
        ] {
            let mut account = Account::default();
            account.keep_target(sent.as_bytes(), seen.as_bytes(), wanted);
            assert_eq!(account.target.as_deref(), kept.map(str::as_bytes), "{sent}");
        }
    }

    #[test]
    fn fields_are_kept_that_the_log_wants_from_there() {
        let format = compile("%{X-One}o %{X-Two}i", Compat::Apache).unwrap();
        let mut account = Account::default();
        account.keep_fields(Source::RequestTrailer, b"X-One: 0\r\n", Wanted(Some(format.needs())));
        assert!(account.kept.is_none());
        let head = b"HTTP/1.1 200 OK\r\nx-one:  1 \r\nX-Two: 2\r\n\r\n";
        account.keep_fields(Source::ResponseHeader, head, Wanted(Some(format.needs())));
        account.keep_fields(Source::RequestHeader, b"X-Two: 3\r\n", Wanted(Some(format.needs())));
        let values = |account: &Account| {
            let kept = account.kept.as_ref().expect("something was wanted");
            [0, 1].map(|need| kept.value(need).map(<[u8]>::to_vec))
        };
        assert_eq!(values(&account), [Some(b"1".to_vec()), Some(b"3".to_vec())]);
        account.forget_fields(Source::ResponseHeader, Wanted(Some(format.needs())));
        assert_eq!(values(&account), [None, Some(b"3".to_vec())], "of a head that was not sent");
    }
}
