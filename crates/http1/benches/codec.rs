//! What the codec costs per request, in nanoseconds: `cargo bench -p howdah-http1`.
//!
//! Prints the median and the spread of 41 rounds; the decoder, its store and the input stay warm,
//! as they do in a busy front.

#![expect(clippy::print_stdout, reason = "the report of a benchmark")]

use std::hint::black_box;
use std::time::Instant;

use howdah_http1::{
    BodyDecoder, BodyEvent, FieldStore, Framing, Limits, RequestDecoder, Version, decode_path, encode,
};

const WRK: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1:5000\r\n\r\n";
const BROWSER: &[u8] = b"GET /articles/2026/howdah?page=2&sort=date HTTP/1.1\r\n\
Host: www.example.org\r\n\
User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
Accept-Language: en-GB,en;q=0.7,de;q=0.3\r\n\
Accept-Encoding: gzip, deflate, br, zstd\r\n\
Referer: https://www.example.org/articles/2026\r\n\
Connection: keep-alive\r\n\
Cookie: session=0123456789abcdef0123456789abcdef; theme=dark\r\n\
Upgrade-Insecure-Requests: 1\r\n\
Cache-Control: max-age=0\r\n\r\n";

fn main() {
    measure("head: wrk, 1 field", decode_head(WRK));
    measure("head: browser, 10 fields", decode_head(BROWSER));
    measure("head and fields(): wrk", walk_fields(WRK));
    measure("head and fields(): browser", walk_fields(BROWSER));
    measure("path without %, 40 bytes", path(b"/articles/2026/a-title-without-escapes/x"));
    measure("path with 4 %XX, 40 bytes", path(b"/caf%C3%A9/2026/a%20title%20escapes/xyzz"));
    measure("chunked body, 4 chunks of 1 KiB", chunks());
    measure("response head, 4 fields", response_head());
    measure("imf_fixdate", || {
        black_box(encode::imf_fixdate(black_box(784_111_777)));
    });
}

fn measure(name: &str, mut run: impl FnMut()) {
    let mut rounds: Vec<f64> = (0..41).map(|_| round(&mut run)).collect();
    rounds.sort_by(f64::total_cmp);
    println!("{name:34} {:8.1} ns  ({:.1} to {:.1})", rounds[20], rounds[0], rounds[40]);
}

fn round(run: &mut impl FnMut()) -> f64 {
    const CALLS: u32 = 20_000;
    let start = Instant::now();
    for _ in 0..CALLS {
        run();
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
}

fn decode_head(input: &'static [u8]) -> impl FnMut() {
    let mut decoder = RequestDecoder::new(&Limits::default());
    let mut store = FieldStore::new();
    move || {
        let head = decoder.decode(black_box(input), &mut store);
        assert!(matches!(black_box(&head), Ok(Some(_))));
    }
}

fn walk_fields(input: &'static [u8]) -> impl FnMut() {
    let mut decoder = RequestDecoder::new(&Limits::default());
    let mut store = FieldStore::new();
    move || {
        let head = decoder.decode(black_box(input), &mut store).expect("valid").expect("whole");
        for field in head.fields() {
            black_box((field.name, field.value));
        }
    }
}

fn path(raw: &'static [u8]) -> impl FnMut() {
    let mut out = Vec::with_capacity(64);
    move || {
        out.clear();
        decode_path(black_box(raw), &mut out).expect("valid");
        black_box(&out);
    }
}

fn chunks() -> impl FnMut() {
    let mut body = Vec::new();
    for _ in 0..4 {
        encode::chunk_head(&mut body, 1024);
        body.extend_from_slice(&[b'x'; 1024]);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(encode::LAST_CHUNK);
    move || {
        let mut decoder = BodyDecoder::new(&Framing::Chunked, &Limits::default());
        let mut rest = black_box(body.as_slice());
        while let BodyEvent::Data { data, consumed } = decoder.decode(rest).expect("valid") {
            black_box(data);
            rest = &rest[consumed..];
        }
        assert!(decoder.is_done());
    }
}

fn response_head() -> impl FnMut() {
    let mut out = Vec::with_capacity(256);
    move || {
        out.clear();
        encode::status_line(&mut out, Version::Http11, black_box(200));
        encode::field(&mut out, b"Date", b"Sun, 06 Nov 1994 08:49:37 GMT");
        encode::field(&mut out, b"Server", b"Howdah");
        encode::field(&mut out, b"Content-Type", b"text/plain");
        encode::field(&mut out, b"Content-Length", b"11");
        out.extend_from_slice(b"\r\n");
        black_box(&out);
    }
}
