//! What RFC 9112 says of a head, in the plainest words, for comparison with what the codec has made of it.

use howdah_http1::{Framing, Limits, Version};

use crate::transcript::{Event, Request, transcript};

/// # Panics
/// When the head at the start of `stream` is none by the grammar, or its body is told otherwise than the codec takes it.
pub(crate) fn check(stream: &[u8], request: &Request) {
    let head = &stream[..request.len];
    let head = head.strip_prefix(b"\r\n").unwrap_or(head);
    let head =
        head.strip_prefix(b"\r\n").unwrap_or(head).strip_suffix(b"\r\n\r\n").expect("an empty line ends it");
    let mut lines = split(head, b"\r\n").into_iter();
    let words = split(lines.next().expect("a request line"), b" ");
    let [method, target, version] = words[..] else { panic!("{} words in a request line", words.len()) };
    assert!(is_token(method) && !target.is_empty() && version.len() == 8 && version.starts_with(b"HTTP/1."));
    assert_eq!(request.version == Version::Http10, version == b"HTTP/1.0");
    let fields: Vec<_> = lines.map(field).collect();
    let values = |name: &[u8]| -> Vec<&[u8]> {
        fields.iter().filter(|field| field.0.eq_ignore_ascii_case(name)).map(|field| field.1).collect()
    };
    let hosts = values(b"host").len();
    assert!(hosts == 1 || hosts == 0 && request.version == Version::Http10, "{hosts} hosts");
    let codings: Vec<_> = values(b"transfer-encoding")
        .iter()
        .flat_map(|value| split(value, b","))
        .map(<[u8]>::trim_ascii)
        .collect();
    let codings: Vec<_> = codings.into_iter().filter(|coding| !coding.is_empty()).collect();
    match (&values(b"content-length")[..], &codings[..], request.framing) {
        ([], [], Framing::None) => {}
        ([], [coding], Framing::Chunked) => {
            assert!(coding.eq_ignore_ascii_case(b"chunked") && request.version == Version::Http11);
        }
        ([length], [], Framing::Length(taken)) => {
            assert!(!length.is_empty() && length.iter().all(u8::is_ascii_digit));
            assert_eq!(std::str::from_utf8(length).ok().and_then(|text| text.parse().ok()), Some(taken));
        }
        other => panic!("a body that is told so: {other:?}"),
    }
}

/// # Panics
/// When what the application is told, written as a request, is another one.
pub(crate) fn check_anew(request: &Request, limits: &Limits) {
    let version = if request.version == Version::Http10 { "HTTP/1.0" } else { "HTTP/1.1" };
    let mut head = format!("{} {} {version}\r\n", request.method, request.path_and_query);
    request.fields.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
    if head.contains(char::REPLACEMENT_CHARACTER) {
        return;
    }
    head += if request.framing == Framing::Chunked { "Transfer-Encoding: chunked\r\n\r\n" } else { "\r\n" };
    let anew = transcript(head.as_bytes(), &Limits { body: limits.body, ..Limits::default() }, []);
    let Some(Event::Head(anew)) = anew.first() else { panic!("{head:?}: {anew:?}") };
    assert_eq!(anew.len, head.len());
    let target = anew.target.clone();
    assert_eq!(*anew, Request { len: anew.len, target, ..request.clone() });
}

fn field(line: &[u8]) -> (&[u8], &[u8]) {
    let colon = line.iter().position(|&byte| byte == b':').expect("a colon");
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    assert!(is_token(name) && value.iter().all(|&byte| byte == b'\t' || byte >= b' ' && byte != 0x7f));
    (name, value.trim_ascii())
}

fn is_token(word: &[u8]) -> bool {
    !word.is_empty()
        && word.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}

fn split<'a>(text: &'a [u8], by: &[u8]) -> Vec<&'a [u8]> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.windows(by.len()).position(|window| window == by) {
        parts.push(&rest[..at]);
        rest = &rest[at + by.len()..];
    }
    parts.push(rest);
    parts
}
