//! The response side.

use howdah_http1::encode::{chunk_head, field, imf_fixdate, reason, status_line};
use howdah_http1::{Version, body_allowed};

fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).expect("ASCII")
}

#[test]
fn a_status_line_repeats_the_version() {
    // RFC 9112 4
    for (version, status, line) in [
        (Version::Http11, 200, "HTTP/1.1 200 OK\r\n"),
        (Version::Http10, 200, "HTTP/1.0 200 OK\r\n"),
        (Version::Http11, 431, "HTTP/1.1 431 Request Header Fields Too Large\r\n"),
        (Version::Http11, 299, "HTTP/1.1 299 \r\n"),
        (Version::Http11, 999, "HTTP/1.1 999 \r\n"),
    ] {
        assert_eq!(written(|out| status_line(out, version, status)), line);
    }
}

/// The registry of status codes (RFC 9110 16.2.1).
const REGISTRY: &str = "\
100 Continue
101 Switching Protocols
102 Processing
103 Early Hints
200 OK
201 Created
202 Accepted
203 Non-Authoritative Information
204 No Content
205 Reset Content
206 Partial Content
207 Multi-Status
208 Already Reported
226 IM Used
300 Multiple Choices
301 Moved Permanently
302 Found
303 See Other
304 Not Modified
305 Use Proxy
307 Temporary Redirect
308 Permanent Redirect
400 Bad Request
401 Unauthorized
402 Payment Required
403 Forbidden
404 Not Found
405 Method Not Allowed
406 Not Acceptable
407 Proxy Authentication Required
408 Request Timeout
409 Conflict
410 Gone
411 Length Required
412 Precondition Failed
413 Content Too Large
414 URI Too Long
415 Unsupported Media Type
416 Range Not Satisfiable
417 Expectation Failed
418 I'm a teapot
421 Misdirected Request
422 Unprocessable Content
423 Locked
424 Failed Dependency
425 Too Early
426 Upgrade Required
428 Precondition Required
429 Too Many Requests
431 Request Header Fields Too Large
451 Unavailable For Legal Reasons
500 Internal Server Error
501 Not Implemented
502 Bad Gateway
503 Service Unavailable
504 Gateway Timeout
505 HTTP Version Not Supported
506 Variant Also Negotiates
507 Insufficient Storage
508 Loop Detected
510 Not Extended
511 Network Authentication Required";

#[test]
fn reasons_are_those_of_the_registry() {
    let mut registered = REGISTRY.lines().map(|line| line.split_once(' ').unwrap()).peekable();
    for status in 0..1000_u16 {
        let phrase = registered.next_if(|(number, _)| *number == status.to_string());
        assert_eq!(reason(status), phrase.map_or("", |(_, phrase)| phrase), "{status}");
    }
    assert_eq!(registered.next(), None, "the registry rises");
}

#[test]
fn a_field_is_name_colon_value() {
    assert_eq!(written(|out| field(out, b"Server", b"Howdah")), "Server: Howdah\r\n");
}

#[test]
fn chunk_sizes_are_hexadecimal_and_zero_writes_nothing() {
    // RFC 9112 7.1
    for (len, head) in [
        (0, ""),
        (1, "1\r\n"),
        (15, "f\r\n"),
        (16, "10\r\n"),
        (255, "ff\r\n"),
        (4096, "1000\r\n"),
        (usize::MAX, "ffffffffffffffff\r\n"),
    ] {
        assert_eq!(written(|out| chunk_head(out, len)), head);
    }
}

#[test]
fn dates_are_imf_fixdate() {
    // RFC 9110 5.6.7; numbers by date(1).
    for (secs, date) in [
        (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
        (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
        (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
        (951_868_799, "Tue, 29 Feb 2000 23:59:59 GMT"),
        (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT"),
        (1_704_067_199, "Sun, 31 Dec 2023 23:59:59 GMT"),
        (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT"),
        (u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
    ] {
        assert_eq!(std::str::from_utf8(&imf_fixdate(secs)).unwrap(), date);
    }
}

/// The days of `month`, by the rule that every calendar has on its wall.
fn days_of(year: u64, month: usize) -> u64 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    [31, 28 + u64::from(leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month]
}

#[test]
fn every_day_of_four_centuries_follows_the_one_before() {
    const WEEK: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const YEAR: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (mut year, mut month, mut day) = (1970, 0, 1);
    for days in 0..160_000 {
        let expected = format!("{}, {day:02} {} {year} 23:58:57 GMT", WEEK[days % 7], YEAR[month]);
        assert_eq!(imf_fixdate(days as u64 * 86_400 + 86_337), *expected.as_bytes());
        (month, day) = if day == days_of(year, month) { (month + 1, 1) } else { (month, day + 1) };
        (year, month) = (year + month as u64 / 12, month % 12);
    }
    assert!(year > 2400);
}

#[test]
fn some_responses_have_no_body() {
    // RFC 9112 6.3
    for (method, status, allowed) in [
        ("GET", 200, true),
        ("HEAD", 200, false),
        ("GET", 100, false),
        ("GET", 103, false),
        ("GET", 204, false),
        ("GET", 205, false),
        ("GET", 304, false),
        ("POST", 500, true),
    ] {
        assert_eq!(body_allowed(method.as_bytes(), status), allowed, "{method} {status}");
    }
}
