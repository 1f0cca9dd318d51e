//! Bodies: known lengths and chunks (RFC 9112 6.2 and 7.1).

#![allow(clippy::panic, reason = "the panic of a test is its report")]

mod common;
use common::transcript::Event;
use common::{assert_refused, chunked, events, with_fields};
use howdah_http1::{BodyDecoder, BodyEvent, Framing, Limits};

fn content(input: &[u8]) -> Vec<u8> {
    match events(input, &Limits::default()).as_slice() {
        [Event::Head(_), Event::Body(data), Event::NeedMore] => data.clone(),
        other => panic!("not one whole request: {other:?}"),
    }
}

#[test]
fn chunks_are_joined_and_the_rest_is_dropped() {
    for (body, expected) in [
        ("0\r\n\r\n", ""),
        ("5\r\nhello\r\n0\r\n\r\n", "hello"),
        ("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", "hello world"),
        ("a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789"),
        ("0000000000000005\r\nhello\r\n0000\r\n\r\n", "hello"),
        ("11\r\n0123456789abcdefg\r\n0\r\n\r\n", "0123456789abcdefg"),
        ("4\r\n\r\n\r\n\r\n0\r\n\r\n", "\r\n\r\n"),
        // RFC 9112 7.1.1
        ("5;a=b;c=\"d\\\"e\"\r\nhello\r\n0;end\r\n\r\n", "hello"),
        ("5 \t ; a = b\r\nhello\r\n0\r\n\r\n", "hello"),
        ("5;caf\u{e9}\t\r\nhello\r\n0\r\n\r\n", "hello"),
        ("5;a=\"\\\\\";b=\";\"\r\nhello\r\n0\r\n\r\n", "hello"),
        // RFC 9112 7.1.2
        ("5\r\nhello\r\n0\r\nA: 1\r\nContent-Length: 9\r\nB:\r\n\r\n", "hello"),
    ] {
        assert_eq!(content(&chunked(body)), expected.as_bytes(), "{body:?}");
    }
}

#[test]
fn bad_chunk_framing_is_refused() {
    for (clause, what, body) in [
        ("RFC 9112 7.1", "no size", "\r\n"),
        ("RFC 9112 7.1", "extension without a size", ";a\r\n"),
        ("RFC 9112 7.1", "space before the size", " 5\r\nhello\r\n"),
        ("RFC 9112 7.1", "tab before the size", "\t5\r\nhello\r\n"),
        ("RFC 9112 7.1", "space after the size", "5 \r\nhello\r\n"),
        ("RFC 9112 7.1", "sign", "+5\r\nhello\r\n"),
        ("RFC 9112 7.1", "minus", "-1\r\n"),
        ("RFC 9112 7.1", "0x", "0x5\r\nhello\r\n"),
        ("RFC 9112 7.1", "underscore", "1_0\r\n"),
        ("RFC 9112 7.1", "no digit", "g\r\n"),
        ("RFC 9112 7.1", "2^64", "10000000000000000\r\n"),
        ("RFC 9112 7.1", "17 digits", "00000000000000005\r\nhello\r\n"),
        ("RFC 9112 7.1", "data too long", "5\r\nhellox\r\n0\r\n\r\n"),
        ("RFC 9112 7.1", "data too short", "5\r\nhell\r\n0\r\n\r\n"),
        ("RFC 9112 7.1", "another byte instead of the CR", "5\r\nhelloX\n0\r\n\r\n"),
        ("RFC 9112 7.1", "LF after the data", "5\r\nhello\n0\r\n\r\n"),
        ("RFC 9112 7.1", "CR after the data", "5\r\nhello\r0\r\n\r\n"),
        ("RFC 9112 7.1", "CR and another byte after the data", "5\r\nhello\rX0\r\n\r\n"),
        ("RFC 9112 2.2", "LF first", "\n5\r\nhello\r\n"),
        ("RFC 9112 2.2", "LF after the size", "5\nhello\r\n0\r\n\r\n"),
        ("RFC 9112 2.2", "CR after the size", "5\rhello\r\n"),
        ("RFC 9112 2.2", "LF after an extension", "5;a\nhello\r\n0\r\n\r\n"),
        ("RFC 9112 2.2", "CR in an extension", "5;a\rb\r\nhello\r\n"),
        ("RFC 9112 7.1.1", "NUL in an extension", "5;a\0\r\nhello\r\n"),
        ("RFC 9112 7.1.1", "quotes that do not end", "2;a=\"\r\nhi\r\n0\r\n\r\n"),
        ("RFC 9112 7.1.1", "quotes that end behind the chunk", "2;a=\"\r\nhi\"\r\n0\r\n\r\n"),
        ("RFC 9112 7.1.1", "quotes whose end is quoted", "2;a=\"b\\\"\r\nhi\r\n0\r\n\r\n"),
        ("RFC 9112 7.1.1", "quoted CR", "2;a=\"\\\r\nhi\r\n0\r\n\r\n"),
        ("RFC 9112 7.1.1", "quotes that do not end in the last chunk", "0;a=\"\r\n\r\n"),
        ("RFC 9112 2.2", "LF in quotes", "2;a=\"\n\"\r\nhi\r\n0\r\n\r\n"),
        ("RFC 9112 2.2", "LF after the last chunk", "0\n\r\n"),
        ("RFC 9112 2.2", "LF ends the trailers", "0\r\n\n"),
        ("RFC 9112 2.2", "LF ends a trailer", "0\r\nA: 1\n\r\n"),
        ("RFC 9112 2.2", "CR in a trailer", "0\r\nA: 1\r2\r\n\r\n"),
        ("RFC 9112 2.2", "CR at the end", "0\r\n\rX"),
        ("RFC 9112 7.1.2", "trailer without a colon", "0\r\nA\r\n\r\n"),
        ("RFC 9112 7.1.2", "trailer without a name", "0\r\n: 1\r\n\r\n"),
        ("RFC 9112 7.1.2", "space before the colon", "0\r\nA : 1\r\n\r\n"),
        ("RFC 9112 7.1.2", "obs-fold in a trailer", "0\r\nA: 1\r\n 2\r\n\r\n"),
        ("RFC 9112 7.1.2", "obs-fold that looks like a trailer", "0\r\nA: 1\r\n B: 2\r\n\r\n"),
        ("RFC 9112 7.1.2", "control byte in a trailer", "0\r\nA: \x01\r\n\r\n"),
        ("RFC 9112 7.1.2", "8-bit byte in a trailer's name", "0\r\n\u{e9}: 1\r\n\r\n"),
        ("RFC 9112 7.1.2", "the next request instead of the end", "0\r\nGET / HTTP/1.1\r\n"),
    ] {
        assert_refused(&Limits::default(), &[(clause, what, &chunked(body), 400)]);
    }
}

#[test]
fn a_known_length_ends_where_it_says() {
    // RFC 9112 6.2
    let input = [with_fields("Content-Length: 5\r\n"), b"helloGET".to_vec()].concat();
    assert_eq!(content(&input), b"hello");
    assert_eq!(content(&with_fields("Content-Length: 0\r\n")), b"");
    assert_eq!(content(&with_fields("")), b"");
}

#[test]
fn a_body_without_length_is_done_at_once() {
    for framing in [Framing::None, Framing::Length(0)] {
        let mut decoder = BodyDecoder::new(&framing, &Limits::default());
        assert!(decoder.is_done());
        assert_eq!(decoder.decode(b"GET"), Ok(BodyEvent::End { consumed: 0 }));
    }
}

#[test]
fn a_known_length_is_done_with_its_last_byte() {
    let mut decoder = BodyDecoder::new(&Framing::Length(5), &Limits::default());
    assert_eq!(decoder.decode(b""), Ok(BodyEvent::NeedMore { consumed: 0 }));
    assert_eq!(decoder.decode(b"hel"), Ok(BodyEvent::Data { data: b"hel", consumed: 3 }));
    assert!(!decoder.is_done());
    assert_eq!(decoder.decode(b"loGET"), Ok(BodyEvent::Data { data: b"lo", consumed: 2 }));
    assert!(decoder.is_done());
    assert_eq!(decoder.decode(b"GET"), Ok(BodyEvent::End { consumed: 0 }));
}

#[test]
fn consumed_covers_framing_and_data() {
    let mut decoder = BodyDecoder::new(&Framing::Chunked, &Limits::default());
    assert_eq!(decoder.decode(b"5;x\r"), Ok(BodyEvent::NeedMore { consumed: 4 }));
    assert_eq!(decoder.decode(b"\nhello\r\n"), Ok(BodyEvent::Data { data: b"hello", consumed: 6 }));
    assert_eq!(decoder.decode(b"\r\n0\r\n\r\nGET"), Ok(BodyEvent::End { consumed: 7 }));
    assert!(decoder.is_done());
}

#[test]
fn trailers_are_kept_when_asked_for() {
    for (wanted, kept) in [(true, &b"A: 1\r\nB:\r\n\r\n"[..]), (false, b"")] {
        for size in [1, 5, 100] {
            let mut decoder = BodyDecoder::new(&Framing::Chunked, &Limits::default());
            if wanted {
                decoder.keep_trailers();
            }
            for piece in b"1\r\nx\r\n0\r\nA: 1\r\nB:\r\n\r\n".chunks(size) {
                let mut rest = piece;
                while let Ok(BodyEvent::Data { consumed, .. }) = decoder.decode(rest) {
                    rest = &rest[consumed..];
                }
            }
            assert!(decoder.is_done());
            assert_eq!(decoder.trailers(), kept, "in pieces of {size}");
        }
    }
}

#[test]
fn content_can_be_taken_without_being_decoded() {
    let limits = Limits::default();
    let mut known = BodyDecoder::new(&Framing::Length(8), &limits);
    assert_eq!(known.content_ahead(), 8);
    known.skip(0);
    known.skip(5);
    assert_eq!(known.decode(b"abcGET"), Ok(BodyEvent::Data { data: b"abc", consumed: 3 }));
    assert!(known.is_done() && known.content_ahead() == 0);
    let mut all = BodyDecoder::new(&Framing::Length(8), &limits);
    all.skip(8);
    assert!(all.is_done());

    let mut chunks = BodyDecoder::new(&Framing::Chunked, &limits);
    assert_eq!(chunks.content_ahead(), 0, "framing comes first");
    chunks.skip(0);
    assert_eq!(chunks.decode(b"4"), Ok(BodyEvent::NeedMore { consumed: 1 }));
    assert_eq!(chunks.content_ahead(), 0, "its size may go on");
    assert_eq!(chunks.decode(b"\r\na"), Ok(BodyEvent::Data { data: b"a", consumed: 3 }));
    assert_eq!(chunks.content_ahead(), 3);
    chunks.skip(3);
    assert_eq!(chunks.content_ahead(), 0);
    assert_eq!(chunks.decode(b"\r\n0\r\n\r\n"), Ok(BodyEvent::End { consumed: 7 }));
}

#[test]
#[should_panic(expected = "only what is ahead can be taken")]
fn no_more_than_the_content_can_be_taken() {
    BodyDecoder::new(&Framing::Length(8), &Limits::default()).skip(9);
}
