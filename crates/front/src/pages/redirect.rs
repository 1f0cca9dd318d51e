//! The answer of a listener that only sends clients to the same place by TLS (RFC 9110 15.4).

use crate::request::Request;
use crate::response::Response;

/// Where a client is sent that asks for this; none when it names no host that could stand in a URL.
fn location(request: &Request<'_>, port: u16) -> Option<String> {
    let authority = str::from_utf8(request.authority).ok()?;
    let host = without_port(authority).filter(|host| is_host(host))?;
    let target = str::from_utf8(request.target).ok().filter(|target| target.starts_with('/'))?;
    let is_mapped = is_at_80(&authority[host.len()..]) && request.client.origin.port != "80";
    let port = if is_mapped || port == 443 { String::new() } else { format!(":{port}") };
    Some(format!("https://{host}{port}{target}"))
}

/// Whether a client with this behind the host in its URL has asked at port 80. Where that is not our port, something before us maps
/// ports (a container's network, a load balancer, a firewall): the client does not know ours, and TLS is at the port for it.
fn is_at_80(port: &str) -> bool {
    matches!(port, "" | ":" | ":80")
}

/// The answer: a browser may change the method of what is neither GET nor HEAD unless it is told not to.
pub(crate) fn redirect(request: &Request<'_>, port: u16) -> Response {
    let Some(location) = location(request, port) else {
        let words = "400 Bad Request: no Host to be sent to\n".to_owned();
        return Response::plain(400, &["Content-Type: text/plain"], words);
    };
    let is_safe = request.is_head() || request.method == b"GET";
    let status = if is_safe { 301 } else { 308 };
    let words = format!("{status} {location}\n");
    Response::plain(status, &[&format!("Location: {location}"), "Content-Type: text/plain"], words)
}

fn without_port(authority: &str) -> Option<&str> {
    if authority.starts_with('[') {
        return authority.find(']').map(|end| &authority[..=end]);
    }
    authority.split(':').next()
}

/// A name or an address, and nothing that would be something else in a URL.
fn is_host(host: &str) -> bool {
    let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match inner {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
            !host.is_empty() && host.len() < 256 && host.bytes().all(fits)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::listen::Origin;
    use crate::sample::{client, with};

    #[test]
    fn clients_are_sent_to_the_same_place_by_tls_if_they_say_which() {
        for (head, port, wanted) in [
            ("GET /a?b=c HTTP/1.1\r\nHost: example.org\r\n", 443, Some("https://example.org/a?b=c")),
            ("GET /a HTTP/1.1\r\nHost: example.org:5000\r\n", 8443, Some("https://example.org:8443/a")),
            ("GET / HTTP/1.1\r\nHost: [::1]:80\r\n", 443, Some("https://[::1]/")),
            (
                "GET http://other.example/x HTTP/1.1\r\nHost: other.example\r\n",
                443,
                Some("https://other.example/x"),
            ),
            ("GET / HTTP/1.0\r\n", 443, None),
            ("OPTIONS * HTTP/1.1\r\nHost: example.org\r\n", 443, None),
        ] {
            let found = with(&format!("{head}\r\n"), &client("10.0.0.1"), |request| location(request, port));
            assert_eq!(found.as_deref(), wanted, "{head}");
        }
        for (host, good) in
            [("a.b-c_1", true), ("a@b", false), ("a/b", false), ("[::1]", true), ("[x]", false), ("", false)]
        {
            assert_eq!(is_host(host), good, "{host}");
        }
    }

    #[test]
    fn who_asks_at_80_where_we_are_elsewhere_finds_tls_at_443() {
        for (ours, host, wanted) in [
            ("80", "example.org", "https://example.org:8443/"),
            ("80", "example.org:80", "https://example.org:8443/"),
            ("8080", "example.org", "https://example.org/"),
            ("8080", "example.org:80", "https://example.org/"),
            ("8080", "[::1]", "https://[::1]/"),
            ("8080", "example.org:8080", "https://example.org:8443/"),
            ("8080", "[::1]:8080", "https://[::1]:8443/"),
            ("", "example.org", "https://example.org/"),
        ] {
            let mut asks = client("10.0.0.1");
            asks.origin = Arc::new(Origin::of("example.org".to_owned(), ours.to_owned()));
            let head = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
            let found = with(&head, &asks, |request| location(request, 8443));
            assert_eq!(found.as_deref(), Some(wanted), "{ours} {host}");
        }
    }

    #[test]
    fn only_what_is_safe_may_change_its_method() {
        for (method, status) in [("GET", 301), ("HEAD", 301), ("POST", 308), ("DELETE", 308)] {
            let head = format!("{method} / HTTP/1.1\r\nHost: h\r\n\r\n");
            let answer = with(&head, &client("10.0.0.1"), |request| redirect(request, 443));
            assert_eq!(answer.head.status, status, "{method}");
            assert!(answer.head.lines.starts_with(b"Location: https://h/\r\n"));
        }
    }
}
