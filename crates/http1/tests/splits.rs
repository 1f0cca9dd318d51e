//! Any split of any stream gives the same events, and nothing panics.

mod common;
use common::SMALL;
use common::transcript::transcript;
use howdah_http1::Limits;
use proptest::prelude::*;

/// Pieces of requests, good and bad, that make the interesting streams when strung together.
const PIECES: &[&[u8]] = &[
    b"GET / HTTP/1.1\r\n",
    b"POST /a?b HTTP/1.1\r\n",
    b"GET http://h:1?q HTTP/1.0\r\n",
    b"OPTIONS * HTTP/1.1\r\n",
    b"Host: a\r\n",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Expect: 100-continue\r\n",
    b"Connection: close, upgrade\r\n",
    b"Upgrade: x\r\n",
    b"X_Y: 1\r\n",
    b"A:\r\n",
    b"\r\n",
    b"\r\n\r\n",
    b"hello",
    b"5\r\nhello\r\n",
    b"0\r\n\r\n",
    b"0\r\nT: 1\r\n\r\n",
    b"3;x=y\r\nabc\r\n",
    b"\r",
    b"\n",
    b" ",
    b"\t",
    b"\0",
    b":",
    b"%",
    b"\xff",
    b"GET ",
    b"HTTP/2.0\r\n",
    b"+",
    b"ffffffffffffffff",
    b",",
    b";",
];

const REQUESTS: &[&[u8]] = &[
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"\r\nGET /a%20b?c HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"POST http://b:80/p HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    b"PUT /p HTTP/1.1\r\nHost: [::1]:80\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\nhello world",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x\r\n world\r\n0\r\nT: 1\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: a\r\nA: 1\r\nB_C: 2\r\n\r\n",
];

fn pieces(of: &'static [&'static [u8]], max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(of), 0..max).prop_map(|pieces| pieces.concat())
}

/// Valid requests with a few bytes replaced, put in or taken out.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let edit = (any::<prop::sample::Index>(), 0..3u8, prop::sample::select(PIECES));
    (pieces(REQUESTS, 4), prop::collection::vec(edit, 0..4)).prop_map(|(mut stream, edits)| {
        for (at, kind, piece) in edits {
            let at = at.index(stream.len() + 1);
            let end = if kind == 0 { at } else { (at + 1).min(stream.len()) };
            let with = if kind == 2 { b"".as_slice() } else { piece };
            stream.splice(at..end, with.iter().copied());
        }
        stream
    })
}

fn assert_same(stream: &[u8], cuts: &[prop::sample::Index], limits: &Limits) {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
    cuts.sort_unstable();
    let whole = transcript(stream, limits, []);
    assert_eq!(whole, transcript(stream, limits, cuts));
    assert_eq!(whole, transcript(stream, limits, 0..stream.len()));
}

fn cuts() -> impl Strategy<Value = Vec<prop::sample::Index>> {
    prop::collection::vec(any::<prop::sample::Index>(), 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn of_valid_requests(stream in pieces(REQUESTS, 5), cuts in cuts()) {
        assert_same(&stream, &cuts, &Limits::default());
        let rejects = transcript(&stream, &Limits::default(), []).iter().any(|event| matches!(event, common::transcript::Event::Reject(_)));
        prop_assert!(!rejects);
    }

    #[test]
    fn of_mutated_requests(stream in mutated(), cuts in cuts()) {
        assert_same(&stream, &cuts, &Limits::default());
        assert_same(&stream, &cuts, &SMALL);
    }

    #[test]
    fn of_pieces(stream in pieces(PIECES, 20), cuts in cuts()) {
        assert_same(&stream, &cuts, &Limits::default());
        assert_same(&stream, &cuts, &SMALL);
    }

    #[test]
    fn of_noise(stream in prop::collection::vec(any::<u8>(), 0..200), cuts in cuts()) {
        assert_same(&stream, &cuts, &SMALL);
    }
}
