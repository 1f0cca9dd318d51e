//! The access log: any format that is taken renders any request as one line of printable ASCII.

use howdah_accesslog::{Compat, Format, Kept, Record, compile};

/// A format, and behind a zero what stands in the request: what the front counted, sixteen bytes, and words.
///
/// # Panics
/// When a line has no end, or what the client says adds to it a byte that is no printable ASCII or cannot be read back from it,
/// or, where the format is one of JSON, when it is no object.
pub fn accesslog(data: &[u8]) {
    let Some(end) = data.iter().position(|&byte| byte == 0) else { return };
    let (Ok(text), rest) = (std::str::from_utf8(&data[..end]), &data[end + 1..]) else { return };
    let Some((numbers, words)) = rest.split_first_chunk::<16>() else { return };
    if !words.is_empty() {
        let format = |text| compile(text, Compat::Apache).expect("a format");
        assert_eq!(unescape(&render(&format("%U"), numbers, words)), words, "another path");
        let line = render(&format("json"), numbers, words);
        let object: serde_json::Value = serde_json::from_slice(&line).expect("an object");
        assert_eq!(object["target"].as_str(), Some(&*String::from_utf8_lossy(words)), "another target");
    }
    for compat in [Compat::Apache, Compat::Plack] {
        match compile(text, compat) {
            Ok(format) => {
                let line = render(&format, numbers, words);
                // What the operator has written between the directives stands there as it is.
                assert_eq!(unprintable(&line), unprintable(&render(&format, numbers, b"x")), "{line:?}");
                assert!(line.ends_with(if text == "json" { &b"}\n"[..] } else { &b"\n"[..] }));
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

fn render(format: &Format, numbers: &[u8; 16], words: &[u8]) -> Vec<u8> {
    let mut kept = Kept::new();
    for (number, _, _) in format.needs().iter() {
        kept.set(number, words);
    }
    let mut line = Vec::new();
    format.render(&record(numbers, words, &kept), &mut line);
    line
}

/// What Apache's escapes stand for, less the end of the line.
fn unescape(line: &[u8]) -> Vec<u8> {
    let (mut text, mut bytes) = (Vec::new(), line[..line.len() - 1].iter().copied());
    while let Some(byte) = bytes.next() {
        let mut next = || bytes.next().expect("a byte behind a backslash");
        text.push(match byte {
            b'\\' => match next() {
                b'b' => 8,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'v' => 11,
                b'x' => [next(), next()].iter().fold(0, |number, &digit| {
                    number << 4 | char::from(digit).to_digit(16).expect("a digit") as u8
                }),
                quoted => quoted,
            },
            plain => plain,
        });
    }
    text
}

fn unprintable(line: &[u8]) -> usize {
    line.iter().filter(|byte| !(b' '..=b'~').contains(byte)).count()
}

/// All words are what the client says, all numbers as odd as they can be; two of them have a sum.
fn record<'a>(numbers: &[u8; 16], words: &'a [u8], kept: &'a Kept) -> Record<'a> {
    let (low, high) = numbers.split_at(8);
    let number = |half: &[u8]| half.iter().fold(0_u64, |number, &byte| number << 8 | u64::from(byte));
    let (one, other) = (number(low) >> 1, number(high) >> 1);
    Record {
        line: words,
        method: words,
        target: words,
        path: words,
        path_info: words,
        query: words,
        protocol: words,
        status: one as u16,
        body_bytes: one,
        bytes_in: other,
        bytes_out: one,
        begin: other,
        duration: one,
        first_byte: (one & 1 == 0).then_some(other),
        queue: Some(one),
        run: (other & 1 == 0).then_some(one),
        send: Some(other),
        client: words,
        peer: words,
        local: words,
        server_name: words,
        host: words,
        request_id: words,
        keepalive: other,
        values: kept,
        ..Record::default()
    }
}
