//! Request target and Host: the forms of RFC 9112 3.2 and who names the authority.

mod common;
use common::{assert_refused, request, with_target};
use howdah_http1::Limits;

#[test]
fn a_bad_target_is_refused() {
    let rows = [
        ("RFC 9110 7.1", "fragment", with_target("GET", "/a#b"), 400),
        ("RFC 9110 7.1", "two fragments", with_target("GET", "/a#b#c"), 400),
        ("RFC 9112 3.2", "control byte", with_target("GET", "/a\x01"), 400),
        ("RFC 9112 3.2", "NUL", with_target("GET", "/a\0"), 400),
        ("RFC 9112 3.2", "DEL", with_target("GET", "/a\x7f"), 400),
        ("RFC 9112 3.2", "tab", with_target("GET", "/a\tb"), 400),
        ("RFC 9112 3.2", "bare CR", with_target("GET", "/a\rb"), 400),
        ("RFC 9112 3.2", "8-bit byte", with_target("GET", "/caf\u{e9}"), 400),
        ("RFC 9112 3.2", "relative path", with_target("GET", "a/b"), 400),
        ("RFC 9112 3.2", "query alone", with_target("GET", "?a"), 400),
        ("RFC 9112 3.2", "authority-form", with_target("GET", "a:80"), 400),
        ("RFC 9112 3.2", "other scheme", with_target("GET", "ftp://a/"), 400),
        ("RFC 9112 3.2", "scheme alone", with_target("GET", "http:"), 400),
        ("RFC 9112 3.2", "asterisk and more", with_target("OPTIONS", "*a"), 400),
        ("RFC 9112 3.2.4", "asterisk without OPTIONS", with_target("GET", "*"), 400),
        ("RFC 9110 4.2.1", "no authority", with_target("GET", "http:///a"), 400),
        ("RFC 9110 4.2.1", "port alone", with_target("GET", "http://:80/"), 400),
        ("RFC 9110 4.2.1", "userinfo", with_target("GET", "http://me@a/"), 400),
        ("RFC 9110 4.2.1", "bad port", with_target("GET", "http://a:8x/"), 400),
    ];
    for (clause, what, input, status) in &rows {
        assert_refused(&Limits::default(), &[(clause, what, input, *status)]);
    }
}

/// Method, target, then the authority, path, query and REQUEST_URI expected; Host is `a`.
const FORMS: &[[&str; 6]] = &[
    // RFC 9112 3.2.1
    ["GET", "/", "a", "/", "", "/"],
    ["GET", "/p/q?x=1?y&z", "a", "/p/q", "x=1?y&z", "/p/q?x=1?y&z"],
    ["GET", "/?", "a", "/", "", "/?"],
    ["GET", "//x/y", "a", "//x/y", "", "//x/y"],
    ["GET", "/http://b/", "a", "/http://b/", "", "/http://b/"],
    ["GET", "/%7Euser/a|b\"{}[]", "a", "/%7Euser/a|b\"{}[]", "", "/%7Euser/a|b\"{}[]"],
    // RFC 9112 3.2.2
    ["GET", "http://b:81/p?q", "b:81", "/p", "q", "/p?q"],
    ["POST", "HTTPS://[::1]:81/p", "[::1]:81", "/p", "", "/p"],
    ["GET", "http://b", "b", "/", "", "/"],
    ["GET", "http://b?q=1", "b", "/", "q=1", "/?q=1"],
    ["GET", "http://b?", "b", "/", "", "/?"],
    // RFC 9112 3.2.4
    ["OPTIONS", "*", "a", "", "", "*"],
    ["OPTIONS", "http://b:81", "b:81", "", "", "*"],
    ["OPTIONS", "http://b/", "b", "/", "", "/"],
    ["OPTIONS", "http://b?q", "b", "/", "q", "/?q"],
    ["OPTIONS", "/", "a", "/", "", "/"],
];

#[test]
fn each_form_is_split_into_its_parts() {
    for [method, target, expected @ ..] in FORMS {
        let request = request(&with_target(method, target));
        let got = [&request.authority, &request.path, &request.query, &request.path_and_query];
        assert_eq!(got, *expected, "{method} {target}");
        assert_eq!(request.target, *target);
    }
}

#[test]
fn the_authority_of_the_target_replaces_host() {
    // RFC 9112 3.2.2
    let input = b"GET http://b/ HTTP/1.1\r\nA: 1\r\nHost: a\r\nB: 2\r\n\r\n";
    let fields = request(input).fields;
    assert_eq!(fields[1], ("Host".to_owned(), "b".to_owned()));
    assert_eq!(fields.len(), 3);
    let input = b"GET http://b/ HTTP/1.0\r\nA: 1\r\n\r\n";
    assert_eq!(request(input).fields.last(), Some(&("Host".to_owned(), "b".to_owned())));
}

#[test]
fn a_path_put_together_does_not_outlive_its_request() {
    // RFC 9112 3.2.1
    let mut decoder = howdah_http1::RequestDecoder::new(&Limits::default());
    let mut store = howdah_http1::FieldStore::new();
    for query in ["?a=1", "?b"] {
        let input = with_target("GET", &format!("http://h{query}"));
        let head = decoder.decode(&input, &mut store).unwrap().unwrap();
        assert_eq!(head.path_and_query, format!("/{query}").as_bytes());
    }
}
