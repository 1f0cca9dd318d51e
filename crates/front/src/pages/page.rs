//! Pages that the front answers by itself: status, metrics, health. They need no worker, so they answer while every
//! worker is busy.
//!
//! The front decides who may see them and sends them; the binary, which knows front and supervisor, makes them: a
//! [`Question`] goes to it and an [`Answer`] comes back.

use std::fmt::Write;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use howdah_http1::encode::reason;
use howdah_metrics::CONTENT_SECURITY_POLICY;
use howdah_proxied::Trust;
use tokio::sync::{mpsc, oneshot};

use crate::address::Serves;
use crate::pages::audience::{Outsider, admit};
use crate::request::{Content, Request};
use crate::response::Response;

/// A page that the front answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnPage {
    /// The server's status.
    Status,
    /// The metrics.
    Metrics,
    /// Is the server alive?
    Health,
    /// Does it serve?
    Ready,
}

/// Which pages there are, and for whom.
#[derive(Clone, Debug)]
pub struct OwnPages {
    /// Where they are.
    pub places: Vec<PagePath>,
    /// Who may see status and metrics. The others are for everybody.
    pub allow: Trust,
    /// Who makes them.
    pub questions: mpsc::UnboundedSender<Question>,
}

/// Where a page is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagePath {
    /// Compared byte for byte with that of a request.
    pub path: String,
    /// What is there.
    pub page: OwnPage,
    /// On the listeners that have nothing but such pages, and not on the application's.
    pub only_apart: bool,
}

/// A page is wanted.
#[derive(Debug)]
pub struct Question {
    /// Which.
    pub page: OwnPage,
    /// Its query, without the `?`.
    pub query: Vec<u8>,
    /// Value of Accept; empty for none.
    pub accept: Vec<u8>,
    /// Where the answer goes. Dropped unanswered, the client gets 503.
    pub reply: oneshot::Sender<Answer>,
}

/// A page.
#[derive(Clone, Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Value of Content-Type.
    pub content_type: &'static str,
    /// Value of Refresh in seconds.
    pub refresh: Option<u32>,
    /// Content.
    pub body: String,
}

impl OwnPages {
    /// The page that a request is for, if it is for one: GET or HEAD of one of the paths, or anything on a listener that
    /// has nothing else.
    pub(crate) fn find(&self, request: &Request<'_>) -> Option<Found> {
        let fits = (request.is_head() || request.method == b"GET") && request.content != Content::Comes;
        let apart = request.client.origin.serves == Serves::Pages;
        let is_here =
            |place: &&PagePath| place.path.as_bytes() == request.path && fits && (apart || !place.only_apart);
        let Some(place) = self.places.iter().find(is_here) else {
            return apart.then_some(Found::Nothing);
        };
        let address = request.client.address.parse().ok();
        let outsider =
            if place.page.is_private() && !apart { admit(request, address, &self.allow).err() } else { None };
        Some(outsider.map_or(Found::Page(place.page), Found::NotForYou))
    }

    /// Asks for it.
    pub(crate) fn ask(&self, found: Found, request: &Request<'_>) -> PageJob {
        let page = match found {
            Found::Nothing => return PageJob::Ready(Some(plain(404, None))),
            Found::NotForYou(outsider) => return PageJob::Ready(Some(plain(403, Some(outsider)))),
            Found::Page(page) => page,
        };
        let accept = request.field(b"accept").unwrap_or_default().to_vec();
        let (reply, answer) = oneshot::channel();
        let _ = self.questions.send(Question { page, query: request.query.to_vec(), accept, reply });
        PageJob::Asked(answer)
    }
}

/// What there is for a request on its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Page(OwnPage),
    NotForYou(Outsider),
    Nothing,
}

impl OwnPage {
    /// What it says is not for everybody.
    fn is_private(self) -> bool {
        matches!(self, Self::Status | Self::Metrics)
    }
}

/// A page on its way.
#[derive(Debug)]
pub(crate) enum PageJob {
    Asked(oneshot::Receiver<Answer>),
    /// None once it was taken.
    Ready(Option<Answer>),
}

impl PageJob {
    /// The page as a response.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Response> {
        let answer = match self {
            Self::Asked(answer) => match Pin::new(answer).poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(answer) => answer.ok(),
            },
            Self::Ready(answer) => answer.take(),
        };
        *self = Self::Ready(None);
        Poll::Ready(respond(answer.unwrap_or_else(|| plain(503, None))))
    }
}

fn plain(status: u16, outsider: Option<Outsider>) -> Answer {
    let mut body = format!("{status} {}", reason(status));
    if let Some(outsider) = outsider {
        let _ = write!(body, ": {outsider}");
    }
    body.push('\n');
    Answer { status, content_type: "text/plain; charset=utf-8", refresh: None, body }
}

fn respond(answer: Answer) -> Response {
    let content_type = format!("Content-Type: {}", answer.content_type);
    // HTML pages bring their own style and script, and speak with this server alone.
    let policy = format!("Content-Security-Policy: {CONTENT_SECURITY_POLICY}");
    let refresh = answer.refresh.map(|seconds| format!("Refresh: {seconds}"));
    let mut lines = vec![content_type.as_str()];
    lines.extend(refresh.as_deref());
    lines.extend(["Cache-Control: no-store", "X-Content-Type-Options: nosniff", &policy]);
    Response::plain(answer.status, &lines, answer.body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::Body;
    use crate::sample;

    fn pages() -> (OwnPages, mpsc::UnboundedReceiver<Question>) {
        let (questions, asked) = mpsc::unbounded_channel();
        let place = |path: &str, page, only_apart| PagePath { path: path.to_owned(), page, only_apart };
        let places = vec![
            place("/server-status", OwnPage::Status, false),
            place("/health", OwnPage::Health, false),
            place("/metrics", OwnPage::Metrics, true),
        ];
        let allow = Trust::new(vec!["127.0.0.0/8".parse().unwrap()]);
        (OwnPages { places, allow, questions }, asked)
    }

    #[test]
    fn pages_are_found_by_path_method_and_listener_and_shown_to_whom_they_are_for() {
        use Serves::{Pages, Requests};
        let (local, _asked) = pages();
        // Who asks, what the listener serves, for what, and what there is.
        for (address, serves, line, found) in [
            ("127.0.0.1", Requests, "GET /server-status", "Some(Page(Status))"),
            ("127.0.0.1", Requests, "HEAD /server-status?auto", "Some(Page(Status))"),
            ("127.0.0.1", Requests, "POST /server-status", "None"),
            ("127.0.0.1", Requests, "GET /server-status/", "None"),
            ("127.0.0.1", Requests, "GET /metrics", "None"),
            ("10.0.0.1", Requests, "GET /health with 0", "Some(Page(Health))"),
            ("10.0.0.1", Requests, "GET /health with 1", "None"),
            ("10.0.0.1", Requests, "GET /server-status", "Some(NotForYou(Address))"),
            ("", Requests, "GET /server-status", "Some(NotForYou(Unix))"),
            ("10.0.0.1", Requests, "GET /health", "Some(Page(Health))"),
            ("10.0.0.1", Pages, "GET /metrics", "Some(Page(Metrics))"),
            ("10.0.0.1", Pages, "GET /other", "Some(Nothing)"),
            ("10.0.0.1", Pages, "POST /health", "Some(Nothing)"),
        ] {
            let (line, length) = match line.split_once(" with ") {
                Some((line, length)) => (line, format!("Content-Length: {length}\r\n")),
                None => (line, String::new()),
            };
            let head = format!("{line} HTTP/1.1\r\nHost: localhost\r\n{length}\r\n");
            sample::with(&head, &sample::client_of(serves, address), |request| {
                assert_eq!(format!("{:?}", local.find(request)), found, "{line} from {address:?} {serves:?}");
            });
        }
    }

    /// Status, lines and body of what a client gets.
    fn answered(found: Found, reply: Option<Answer>) -> (u16, String, String) {
        let (local, mut asked) = pages();
        let head = "GET /server-status?auto HTTP/1.1\r\nHost: localhost\r\nAccept: a/b\r\n\r\n";
        let mut job =
            sample::with(head, &sample::client_of(Serves::Pages, ""), |request| local.ask(found, request));
        if let Ok(question) = asked.try_recv() {
            assert_eq!((&*question.query, &*question.accept), (&b"auto"[..], &b"a/b"[..]));
            if let Some(reply) = reply {
                let _ = question.reply.send(reply);
            }
        }
        let Poll::Ready(response) = job.poll(&mut Context::from_waker(std::task::Waker::noop())) else {
            panic!("there is no answer");
        };
        let Body::Bytes(body) = response.body else { panic!("it has no bytes") };
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (response.head.status, text(&response.head.lines), text(&body))
    }

    #[test]
    fn a_page_is_answered_by_who_makes_it_or_with_the_reason_why_not() {
        let html =
            Answer { status: 200, content_type: "text/html", refresh: Some(5), body: "<p>".to_owned() };
        let (status, lines, body) = answered(Found::Page(OwnPage::Status), Some(html));
        assert_eq!((status, body.as_str()), (200, "<p>"));
        for line in ["Content-Type: text/html\r\n", "Refresh: 5\r\n", "Cache-Control: no-store\r\n"] {
            assert!(lines.contains(line), "{lines}");
        }
        for (found, status, words) in [
            (Found::Nothing, 404, "404 Not Found\n"),
            (
                Found::NotForYou(Outsider::Unix),
                403,
                "403 Forbidden: this page is not shown over a Unix socket",
            ),
            (Found::Page(OwnPage::Health), 503, "503 Service Unavailable\n"),
        ] {
            let (answered, lines, body) = answered(found, None);
            assert_eq!(answered, status);
            assert!(body.starts_with(words) && !lines.contains("Refresh"), "{body} {lines}");
        }
    }
}
