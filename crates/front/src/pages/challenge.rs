//! The page by which an authority for certificates finds out that a name is ours (RFC 8555 8.3), while one is ordered.

use howdah_tls::Challenges;

use crate::request::Request;
use crate::response::Response;

const PLACE: &[u8] = b"/.well-known/acme-challenge/";

/// What there is at the path of a request; none when it is nothing of ours.
pub(crate) fn challenge(request: &Request<'_>, challenges: &Challenges) -> Option<String> {
    let token = request.path.strip_prefix(PLACE)?;
    challenges.words(str::from_utf8(token).ok()?)
}

/// The page. The order may have ended meanwhile.
pub(crate) fn answer(words: Option<String>) -> Response {
    match words {
        Some(words) => Response::plain(200, &["Content-Type: application/octet-stream"], words),
        None => Response::plain(404, &["Content-Type: text/plain"], "404 Not Found\n".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{client, with};

    #[test]
    fn a_token_that_is_known_has_a_page() {
        let challenges = Challenges::default();
        challenges.page("a-token_1", "a-token_1.words");
        for (path, found) in [
            ("/.well-known/acme-challenge/a-token_1", Some("a-token_1.words")),
            ("/.well-known/acme-challenge/other", None),
            ("/.well-known/acme-challenge/", None),
            ("/a-token_1", None),
        ] {
            let head = format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
            let words = with(&head, &client("10.0.0.1"), |request| challenge(request, &challenges));
            assert_eq!(words.as_deref(), found, "{path}");
            assert_eq!(answer(words).head.status, if found.is_some() { 200 } else { 404 });
        }
    }
}
