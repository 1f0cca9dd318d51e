//! Debian's Apache httpd as judge: the same raw requests, the same format string, whole lines compared.
//!
//! httpd's own clock readings (begin, duration, first byte) and process id come first in each line and are fed to
//! our record; all else of a record is what the test sent and received. Skipped when httpd is not installed
//! (`apt-get install apache2-bin`).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's panic is its report")]

mod httpd;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use howdah_accesslog::{Compat, ConnectionState, Format, Kept, Record, Source, compile};
use httpd::Httpd;

/// What httpd alone can know: begin and duration in µs, process id, thread id, µs to the first byte.
const CLOCKS: &str = "%{usec}t %D %P %{tid}P %^FB|";

const FORMAT: &str = concat!(
    r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-agent}i" "#,
    r#"a=%a ca=%{c}a A=%A m=%m U=%U q=%q H=%H s=%s/%<s/%>s b=%b B=%B I=%I O=%O S=%S D=%D T=%T/%{s}T/%{ms}T/%{us}T "#,
    r#"v=%v V=%V p=%p/%{canonical}p/%{local}p/%{remote}p P=%P/%{pid}P/%{hextid}P k=%k X=%X FB=%^FB f=%{nope}n "#,
    r#"i=%{X-Test}i/%{x-twice}i/%{None}i o=%{Content-Type}o/%{X-Hostile}o/%{x-many}o/%{Content-Length}o/%{None}o "#,
    r#"e=%{JUDGE}e/%{NONE}e C=%{sid}C/%{SID}C/%{other}C/%{none}C ti=%{X-Trail}^ti/%{None}^ti to=%{None}^to "#,
    r#"t=%{%Y-%m-%dT%H:%M:%S%z}t/%{begin:%s}t/%{end:%s}t/%{sec}t/%{msec}t/%{end:msec}t/%{msec_frac}t/%{usec_frac}t/%{end}t "#,
    r#"%{%a %A %b %B %d %e %j %y %U %W %u %w %p %I %c %x %X %D %R %r %h %C %G %V %g %Z %%}t "#,
    r#"if=%200s/%!200s/%404,405{User-agent}i/%!200,304{Referer}i/%{X-Test}!404i %% \t\\\x end"#,
);

struct Case {
    method: &'static str,
    target: &'static [u8],
    path: &'static [u8],
    query: &'static [u8],
    protocol: &'static str,
    fields: &'static [(&'static str, &'static [u8])],
    /// The body as sent, and its trailer X-Trail.
    body: &'static [u8],
    trailer: &'static [u8],
}

const PLAIN: Case = Case {
    method: "GET",
    target: b"/hello.html",
    path: b"/hello.html",
    query: b"",
    protocol: "HTTP/1.1",
    fields: &[("Host", b"judge.example")],
    body: b"",
    trailer: b"",
};

const CASES: &[Case] = &[
    PLAIN,
    Case { target: b"/hello.html?a=1&b=%22\"x\\", query: b"a=1&b=%22\"x\\", ..PLAIN },
    Case { target: b"/hello.html?", ..PLAIN },
    Case { method: "HEAD", ..PLAIN },
    Case { target: b"/empty.txt", path: b"/empty.txt", ..PLAIN },
    Case { target: b"/caf%C3%A9%20x.txt", path: "/café x.txt".as_bytes(), ..PLAIN },
    Case { target: b"/none%22%5C%01?%0d%0a", path: b"/none\"\\\x01", query: b"%0d%0a", ..PLAIN },
    Case { method: "OPTIONS", target: b"*", path: b"*", ..PLAIN },
    Case { protocol: "HTTP/1.0", fields: &[], ..PLAIN },
    Case {
        fields: &[
            ("Host", b"Other.Example:81"),
            ("Referer", b"http://x/\"quoted\"\\back\\"),
            ("User-Agent", b"tab\there \xff\xfe \xc3\xa9 \"200 5\""),
            ("X-Test", b""),
            ("X-Twice", b"one"),
            ("x-twice", b"two\\"),
        ],
        ..PLAIN
    },
    Case { fields: &[("Host", b"[::1]:80"), ("Cookie", b"a=1; sid = x=y\"z ;other=; none")], ..PLAIN },
    Case {
        method: "POST",
        fields: &[("Host", b"h"), ("Content-Length", b"5"), ("Connection", b"close")],
        body: b"12345",
        ..PLAIN
    },
    Case {
        method: "POST",
        fields: &[("Host", b"h"), ("Transfer-Encoding", b"chunked"), ("Trailer", b"X-Trail")],
        body: b"5\r\n12345\r\n0\r\nX-Trail: end \"\\\r\n\r\n",
        trailer: b"end \"\\",
        ..PLAIN
    },
    Case { method: "BREW", fields: &[("Host", b"h"), ("Connection", b"close")], ..PLAIN },
];

#[test]
fn the_same_requests_give_the_same_lines() {
    let Some(httpd) = Httpd::start(&format!("{CLOCKS}{FORMAT}")) else {
        eprintln!("skipped: Apache httpd is not installed");
        return;
    };
    let format = compile(FORMAT, Compat::Apache).unwrap();
    let exchanges: Vec<Exchange> = CASES.iter().map(|case| exchange(case, httpd.port)).collect();
    let lines = httpd.lines(CASES.len());
    for (case, exchange) in CASES.iter().zip(&exchanges) {
        check(&format, case, exchange, &lines, httpd.port);
    }
}

/// What the client's side saw.
struct Exchange {
    client_port: u16,
    sent: usize,
    head: Vec<u8>,
    body: usize,
    received: usize,
    closed: bool,
}

fn request(case: &Case) -> Vec<u8> {
    let mut out =
        [case.method.as_bytes(), b" ", case.target, b" ", case.protocol.as_bytes(), b"\r\n"].concat();
    for (name, value) in case.fields {
        out.extend_from_slice(&[name.as_bytes(), b": ", value, b"\r\n"].concat());
    }
    [&out[..], b"\r\n", case.body].concat()
}

fn exchange(case: &Case, port: u16) -> Exchange {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let request = request(case);
    stream.write_all(&request).unwrap();
    let (mut response, mut buffer) = (Vec::new(), [0; 4096]);
    let end = loop {
        let bytes = stream.read(&mut buffer).unwrap();
        response.extend_from_slice(&buffer[..bytes]);
        let end = response.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
        if let Some(end) =
            end.filter(|end| bytes == 0 || response.len() >= *end + length(case, &response[..*end]))
        {
            break end;
        }
    };
    Exchange {
        client_port: stream.local_addr().unwrap().port(),
        sent: request.len(),
        head: response[..end].to_vec(),
        body: response.len() - end,
        received: response.len(),
        closed: field(&response[..end], "Connection") == Some("close"),
    }
}

fn field<'h>(head: &'h [u8], name: &str) -> Option<&'h str> {
    let mut lines = std::str::from_utf8(head).unwrap().lines().filter_map(|line| line.split_once(": "));
    lines.find(|line| line.0.eq_ignore_ascii_case(name)).map(|line| line.1)
}

fn length(case: &Case, head: &[u8]) -> usize {
    let length = field(head, "Content-Length").filter(|_| case.method != "HEAD");
    length.map_or(0, |length| length.parse().unwrap())
}

fn check(format: &Format, case: &Case, exchange: &Exchange, lines: &[String], port: u16) {
    let mine = format!("/{} P=", exchange.client_port);
    let line =
        lines.iter().find(|line| line.contains(&mine)).unwrap_or_else(|| panic!("no line with {mine}"));
    let (clocks, theirs) = line.split_once('|').unwrap();
    let clocks: Vec<Option<u64>> = clocks.split(' ').map(|number| number.parse().ok()).collect();
    let kept = keep(format, case, exchange);
    let status = std::str::from_utf8(&exchange.head[9..12]).unwrap().parse().unwrap();
    let host = case.fields.iter().find(|(name, _)| *name == "Host").map_or(&b""[..], |(_, value)| value);
    let record = Record {
        method: case.method.as_bytes(),
        target: case.target,
        path: case.path,
        path_info: case.path,
        query: case.query,
        protocol: case.protocol.as_bytes(),
        status,
        body_bytes: exchange.body as u64,
        bytes_in: exchange.sent as u64,
        bytes_out: exchange.received as u64,
        begin: clocks[0].unwrap() * 1000,
        duration: clocks[1].unwrap() * 1000,
        pid: clocks[2].unwrap() as u32,
        tid: clocks[3].unwrap(),
        first_byte: clocks[4].map(|micros| micros * 1000),
        client: b"127.0.0.1",
        client_port: exchange.client_port,
        peer: b"127.0.0.1",
        local: b"127.0.0.1",
        local_port: port,
        server_name: b"judge.example",
        server_port: port,
        host,
        connection: if exchange.closed { ConnectionState::Close } else { ConnectionState::KeepAlive },
        values: &kept,
        ..Record::default()
    };
    let mut ours = Vec::new();
    format.render(&record, &mut ours);
    let ours = String::from_utf8(ours).unwrap();
    assert_eq!(ours.trim_end(), theirs, "{} {:?}", case.method, String::from_utf8_lossy(case.target));
}

fn keep(format: &Format, case: &Case, exchange: &Exchange) -> Kept {
    let (needs, mut kept) = (format.needs(), Kept::new());
    for (name, value) in case.fields {
        kept.offer(needs, Source::RequestHeader, name.as_bytes(), value);
    }
    let head = exchange.head.split(|byte| *byte == b'\n').skip(1);
    for line in head.filter_map(|line| line.strip_suffix(b"\r")) {
        if let Some(at) = line.iter().position(|byte| *byte == b':') {
            kept.offer(needs, Source::ResponseHeader, &line[..at], line[at + 1..].trim_ascii());
        }
    }
    if !case.trailer.is_empty() {
        kept.offer(needs, Source::RequestTrailer, b"X-Trail", case.trailer);
    }
    // httpd sets variables only for what has a place in its tree.
    if case.path.starts_with(b"/") {
        kept.offer(needs, Source::Environment, b"JUDGE", b"a \"quoted\" value");
    }
    kept
}
