//! What a line costs, in nanoseconds: `cargo bench -p howdah-accesslog`.
//!
//! Prints the median and the spread of 41 rounds. The clock moves on by a second every 20,000 lines, as on a busy
//! server.

#![expect(clippy::print_stdout, reason = "the report of a benchmark")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use howdah_accesslog::{
    Compat, ConnectionState, Format, Kept, Options, Record, Sink, Source, Target, compile,
};

const FIELDS: [(&[u8], &[u8]); 10] = [
    (b"Host", b"www.example.org"),
    (b"User-Agent", b"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"),
    (b"Accept", b"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
    (b"Accept-Language", b"en-GB,en;q=0.7,de;q=0.3"),
    (b"Accept-Encoding", b"gzip, deflate, br, zstd"),
    (b"Referer", b"https://www.example.org/articles/2026"),
    (b"Connection", b"keep-alive"),
    (b"Cookie", b"session=0123456789abcdef0123456789abcdef; theme=dark"),
    (b"Upgrade-Insecure-Requests", b"1"),
    (b"Cache-Control", b"max-age=0"),
];

fn main() {
    for preset in ["common", "combined", "ltsv", "json"] {
        measure(preset, line(preset));
    }
    measure("combined, Referer of hostile bytes", hostile());
    measure(
        "combined + %D %{queue}n %X %{sid}C",
        line(r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-agent}i" %D %{queue}n %X %{session}C"#),
    );
    measure("keep 2 of 10 fields", keep());
    measure("a line through a writer (/dev/null)", through_writer());
}

fn measure(name: &str, mut run: impl FnMut()) {
    let mut rounds: Vec<f64> = (0..41).map(|_| round(&mut run)).collect();
    rounds.sort_by(f64::total_cmp);
    println!("{name:38} {:8.1} ns  ({:.1} to {:.1})", rounds[20], rounds[0], rounds[40]);
}

fn round(run: &mut impl FnMut()) -> f64 {
    const CALLS: u32 = 20_000;
    let start = Instant::now();
    for _ in 0..CALLS {
        run();
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
}

fn kept(format: &Format) -> Kept {
    let mut kept = Kept::new();
    for (name, value) in FIELDS {
        kept.offer(format.needs(), Source::RequestHeader, name, value);
    }
    kept
}

fn record(kept: &Kept) -> Record<'_> {
    Record {
        method: b"GET",
        target: b"/articles/2026/howdah?page=2&sort=date",
        path: b"/articles/2026/howdah",
        path_info: b"/articles/2026/howdah",
        query: b"page=2&sort=date",
        protocol: b"HTTP/1.1",
        status: 200,
        body_bytes: 12_345,
        bytes_in: 512,
        bytes_out: 12_600,
        begin: 1_792_800_005_012_345_678,
        duration: 1_234_567,
        first_byte: Some(1_200_000),
        queue: Some(10_000),
        client: b"203.0.113.77",
        client_port: 54_321,
        server_name: b"www.example.org",
        server_port: 80,
        host: b"www.example.org",
        connection: ConnectionState::KeepAlive,
        pid: 4321,
        request_id: b"0123456789abcdef",
        values: kept,
        ..Record::default()
    }
}

fn line(format: &str) -> impl FnMut() + use<> {
    let format = compile(format, Compat::Apache).expect("valid");
    let (kept, mut out, mut count) = (kept(&format), Vec::with_capacity(1024), 0_u64);
    move || {
        out.clear();
        count += 1;
        let mut record = record(&kept);
        record.begin += count * 50_000;
        format.render(black_box(&record), &mut out);
        black_box(&out);
    }
}

fn hostile() -> impl FnMut() {
    let format = compile("combined", Compat::Apache).expect("valid");
    let mut kept = Kept::new();
    kept.offer(format.needs(), Source::RequestHeader, b"Referer", &[0xff; 100]);
    let mut out = Vec::with_capacity(1024);
    move || {
        out.clear();
        format.render(black_box(&record(&kept)), &mut out);
        black_box(&out);
    }
}

fn keep() -> impl FnMut() {
    let format = compile("combined", Compat::Apache).expect("valid");
    move || {
        let mut kept = Kept::new();
        for (name, value) in black_box(FIELDS) {
            kept.offer(format.needs(), Source::RequestHeader, name, value);
        }
        black_box(&kept);
    }
}

fn through_writer() -> impl FnMut() {
    let format = compile("combined", Compat::Apache).expect("valid");
    let options = Options { delay: Duration::from_millis(100), ..Options::default() };
    let sink = Sink::open(&Target::File("/dev/null".into()), options).expect("/dev/null");
    let (kept, writer) = (kept(&format), sink.writer());
    move || {
        let _keep_open = &sink;
        writer.line(|out| format.render(black_box(&record(&kept)), out));
    }
}
