//! Which shape a request for the status asks for.

use crate::prometheus::{self, Format};
use crate::snapshot::Snapshot;
use crate::{apache, html, json, lite};

/// A page to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Value of Content-Type.
    pub content_type: &'static str,
    /// Value of a Refresh field, in seconds, if the client asked for one.
    pub refresh: Option<u32>,
    /// The content, UTF-8.
    pub body: String,
}

/// To be sent as Content-Security-Policy with every page: the HTML holds its own style and script, loads nothing and
/// may speak with its own server only. Send `Cache-Control: no-store` and `X-Content-Type-Options: nosniff`, too.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; \
     script-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'self'";

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json; charset=utf-8";
/// Seconds between two refreshes when `refresh` says none.
const REFRESH: u32 = 10;

/// The status in the shape that `query` (without its `?`) names: `auto` for Apache's text, `json`, `json=lite` and
/// `lite` for ServerStatus::Lite's, anything else for HTML. `refresh=N` has it loaded anew every N seconds, `notable`
/// leaves the table of workers out of the HTML.
#[must_use]
pub fn status_page(query: &[u8], snapshot: &Snapshot) -> Page {
    let options = Options::parse(query);
    let (content_type, body) = match options.shape {
        Shape::Auto => (TEXT, apache::render(snapshot)),
        Shape::Json => (JSON, json::render(snapshot)),
        Shape::LiteJson => (JSON, lite::json(snapshot)),
        Shape::LiteText => (TEXT, lite::text(snapshot)),
        Shape::Html => {
            let body = html::render(snapshot, options.refresh, options.table);
            // The page refreshes itself, and only what has changed.
            return Page { content_type: "text/html; charset=utf-8", refresh: None, body };
        }
    };
    Page { content_type, refresh: options.refresh, body }
}

/// The metrics, in OpenMetrics if the request's Accept field (empty for none) asks for it.
#[must_use]
pub fn metrics_page(accept: &[u8], snapshot: &Snapshot) -> Page {
    let format = Format::wanted(std::str::from_utf8(accept).unwrap_or_default());
    Page { content_type: format.content_type(), refresh: None, body: prometheus::render(snapshot, format) }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Html,
    Auto,
    Json,
    LiteJson,
    LiteText,
}

#[derive(Debug)]
struct Options {
    shape: Shape,
    refresh: Option<u32>,
    /// With the table of workers.
    table: bool,
}

impl Options {
    fn parse(query: &[u8]) -> Self {
        let mut options = Self { shape: Shape::Html, refresh: None, table: true };
        for pair in query.split(|byte| matches!(byte, b'&' | b';')) {
            let mut parts = pair.splitn(2, |byte| *byte == b'=');
            match (parts.next().unwrap_or_default(), parts.next()) {
                (b"auto", _) => options.shape = Shape::Auto,
                (b"json", Some(b"lite")) => options.shape = Shape::LiteJson,
                (b"json", _) => options.shape = Shape::Json,
                (b"lite", _) => options.shape = Shape::LiteText,
                (b"notable", _) => options.table = false,
                (b"refresh", seconds) => options.refresh = Some(refresh(seconds)),
                _ => {}
            }
        }
        options
    }
}

/// At least a second, at most a day.
fn refresh(seconds: Option<&[u8]>) -> u32 {
    let number = seconds.and_then(|text| std::str::from_utf8(text).ok()).and_then(|text| text.parse().ok());
    number.unwrap_or(REFRESH).clamp(1, 86_400)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_names_the_shape() {
        let cases: [(&[u8], Shape, Option<u32>, bool); 9] = [
            (b"", Shape::Html, None, true),
            (b"auto", Shape::Auto, None, true),
            (b"auto&refresh=5", Shape::Auto, Some(5), true),
            (b"refresh", Shape::Html, Some(REFRESH), true),
            (b"refresh=0&notable", Shape::Html, Some(1), false),
            (b"refresh=-1;json", Shape::Json, Some(REFRESH), true),
            (b"json=lite", Shape::LiteJson, None, true),
            (b"lite=1", Shape::LiteText, None, true),
            (b"\xff&=&autos&<script>", Shape::Html, None, true),
        ];
        for (query, shape, refresh, table) in cases {
            let options = Options::parse(query);
            assert_eq!((options.shape, options.refresh, options.table), (shape, refresh, table), "{query:?}");
        }
    }
}
