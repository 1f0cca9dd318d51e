//! Pages that the front answers by itself: status, metrics, health. They need no worker, so they answer while every
//! worker is busy.
//!
//! The front decides who may see them and sends them; the binary, which knows front and supervisor, makes them: a
//! [`Question`] goes to it and an [`Answer`] comes back.

use howdah_accesslog::Source;
use howdah_http1::{Framing, Head, Version, encode};
use tokio::sync::{mpsc, oneshot};

use crate::audience::{Outsider, Visitor, admit};
use crate::conn::{Client, Conn, Next};
use crate::refusal::put_connection;
use crate::request_id;
use crate::thread::here;

/// What the HTML pages may do: they bring their own style and script, and speak with this server alone.
use howdah_metrics::CONTENT_SECURITY_POLICY;

/// A page that the front answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalPage {
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
pub struct Local {
    /// Where they are.
    pub places: Vec<LocalPlace>,
    /// Who may see status and metrics. The others are for everybody.
    pub allow: Vec<Visitor>,
    /// Who makes them.
    pub questions: mpsc::UnboundedSender<Question>,
}

/// Where a page is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalPlace {
    /// Compared byte for byte with that of a request.
    pub path: String,
    /// What is there.
    pub page: LocalPage,
    /// On the listeners that have nothing but such pages, and not on the application's.
    pub only_apart: bool,
}

/// A page is wanted.
#[derive(Debug)]
pub struct Question {
    /// Which.
    pub page: LocalPage,
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

/// A request for a page, and how to answer it.
#[derive(Debug)]
pub(crate) struct LocalRequest {
    /// None when there is no such page for this client, which then gets `status`.
    question: Option<(LocalPage, Vec<u8>, Vec<u8>)>,
    status: u16,
    /// Why it is not for this client.
    outsider: Option<Outsider>,
    version: Version,
    is_head: bool,
    keep_alive: bool,
}

impl LocalRequest {
    /// Recognizes a request that the front answers: GET or HEAD of one of the paths, or anything on a listener that has
    /// nothing else.
    pub(crate) fn recognize(head: &Head<'_>, client: &Client) -> Option<Self> {
        let thread = here();
        let local = thread.outlets.local.as_ref()?;
        let is_head = head.method == b"HEAD";
        let fits = (is_head || head.method == b"GET") && head.framing == Framing::None;
        let apart = client.origin.only_local;
        let is_here =
            |place: &&LocalPlace| place.path.as_bytes() == head.path && fits && (apart || !place.only_apart);
        let page = local.places.iter().find(is_here).map(|place| place.page);
        if page.is_none() && !apart {
            return None;
        }
        let outsider = page.filter(|page| page.is_private() && !apart);
        let outsider = outsider.and_then(|_| admit(head, client.address.parse().ok(), &local.allow).err());
        let status = match (page, outsider) {
            (None, _) => 404,
            (Some(_), Some(_)) => 403,
            (Some(_), None) => 200,
        };
        let question = page.filter(|_| status == 200);
        let accept = || head.fields().find(|field| field.name.eq_ignore_ascii_case(b"accept"));
        Some(Self {
            question: question
                .map(|page| (page, head.query.to_vec(), accept().map_or(Vec::new(), |f| f.value.to_vec()))),
            status,
            outsider,
            version: head.version,
            is_head,
            keep_alive: head.keep_alive && thread.config.keepalive && head.framing == Framing::None,
        })
    }

    async fn ask(&mut self) -> Answer {
        let plain = |status: u16| Answer {
            status,
            content_type: "text/plain; charset=utf-8",
            refresh: None,
            body: format!("{status} {}\n", encode::reason(status)),
        };
        if let Some(outsider) = self.outsider {
            let body = format!("403 {}: {outsider}\n", encode::reason(403));
            return Answer { body, ..plain(403) };
        }
        let (Some((page, query, accept)), Some(local)) = (self.question.take(), &here().outlets.local) else {
            return plain(self.status);
        };
        let (reply, answer) = oneshot::channel();
        let _ = local.questions.send(Question { page, query, accept, reply });
        answer.await.unwrap_or_else(|_| plain(503))
    }
}

impl LocalPage {
    /// What it says is not for everybody.
    fn is_private(self) -> bool {
        matches!(self, Self::Status | Self::Metrics)
    }
}

impl Conn {
    /// Sends a page of the front's own.
    pub(crate) async fn answer_local(&mut self, mut request: LocalRequest) -> Next {
        let answer = request.ask().await;
        let keep_alive = request.keep_alive && here().keeps_connections();
        self.put_page(&answer, &request, keep_alive);
        match self.flush().await {
            false => Next::Cut,
            true if keep_alive => Next::Continue,
            true => self.last_word(),
        }
    }

    fn put_page(&mut self, answer: &Answer, request: &LocalRequest, keep_alive: bool) {
        let mut output = std::mem::take(&mut self.output);
        let out = &mut output;
        encode::status_line(out, request.version, answer.status);
        out.extend_from_slice(b"Date: ");
        here().clock.put_date(out);
        out.extend_from_slice(b"\r\n");
        encode::field(out, b"Content-Type", answer.content_type.as_bytes());
        encode::field(out, b"Content-Length", itoa::Buffer::new().format(answer.body.len()).as_bytes());
        if let Some(seconds) = answer.refresh {
            encode::field(out, b"Refresh", itoa::Buffer::new().format(seconds).as_bytes());
        }
        encode::field(out, b"Cache-Control", b"no-store");
        encode::field(out, b"X-Content-Type-Options", b"nosniff");
        encode::field(out, b"Content-Security-Policy", CONTENT_SECURITY_POLICY.as_bytes());
        request_id::put(out, self.request_id());
        put_connection(out, request.version, keep_alive);
        out.extend_from_slice(b"\r\n");
        self.tally.status = answer.status;
        self.tally.keep_fields(Source::ResponseHeader, out);
        if !request.is_head {
            out.extend_from_slice(answer.body.as_bytes());
            self.tally.body = answer.body.len() as u64;
        }
        self.output = output;
    }
}
