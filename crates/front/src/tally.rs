//! What a connection counts and keeps of its present request, until `account` tells what it has come to.
//!
//! The request's own words are read from its slot, or from a copy in the same form: of a request whose slot went back
//! before the response was out, or that never had a slot because it was refused or is for a page of the front's own.

use std::borrow::Cow;
use std::future::poll_fn;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::Duration;

use howdah_accesslog::{Kept, Source};
use howdah_http1::{FieldStore, Head, RequestDecoder};
use howdah_metrics::Method;
use howdah_wire::RequestReader;

use crate::conn::Conn;
use crate::fill;
use crate::request_id::Id;
use crate::stream::{Woken, poll_mail};
use crate::thread::here;

/// How long the next request of a connection may have to wait for a report.
const REPORT: Duration = Duration::from_secs(1);

/// What a connection counts for its present request. Times are CLOCK_MONOTONIC nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// The first byte of the request.
    pub(crate) begin: u64,
    /// The first byte of the response.
    pub(crate) first_byte: Option<u64>,
    /// Bytes received for it.
    pub(crate) received: u64,
    /// Bytes sent for it.
    pub(crate) sent: u64,
    /// Bytes of the response's body, without framing.
    pub(crate) body: u64,
    pub(crate) status: u16,
    /// The client was cut off because it read too slowly.
    pub(crate) too_slow: bool,
    /// None for a request that was not understood.
    pub(crate) method: Option<Method>,
    /// Waited for a worker.
    pub(crate) queue: Option<u64>,
    /// Ran in a worker.
    pub(crate) run: Option<u64>,
    /// The worker that ran it.
    pub(crate) worker: Option<u16>,
    /// The first line of a request that could not be read.
    pub(crate) line: Box<[u8]>,
    /// X-Request-Id.
    pub(crate) id: Id,
    /// The request, when it never had a slot or its slot went back before the end.
    request: Option<Box<[u8]>>,
    /// What the worker has reported, when the slot went back before the end.
    report: Option<Box<[u8]>>,
    /// Fields that the log wants.
    pub(crate) kept: Option<Box<Kept>>,
}

impl Tally {
    /// Notes what the slot knows of the request's way through a worker.
    pub(crate) fn visit(&mut self, slot: u32) {
        let dispatch = here().dispatch.borrow();
        let Some(own) = dispatch.slots.get(slot) else { return };
        let control = dispatch.control(slot);
        let claimed = control.claimed_at.load(Relaxed);
        if claimed != 0 {
            let finished = control.finished_at.load(Relaxed);
            let end = if finished == 0 { here().clock.now() } else { finished };
            self.queue = Some(claimed.saturating_sub(own.queued_at));
            self.run = Some(end.saturating_sub(claimed));
        }
    }

    /// What workers say of times cannot be more than all the time that there was.
    pub(crate) fn bound(&mut self, end: u64) {
        let most = end.saturating_sub(self.begin);
        self.queue = self.queue.map(|time| time.min(most));
        self.run = self.run.map(|time| time.min(most));
    }

    /// Counts bytes that the client's socket took.
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.sent += bytes as u64;
        if self.first_byte.is_none() {
            self.first_byte = Some(here().clock.now());
        }
    }

    /// Keeps the first line of what could not be read as a request.
    pub(crate) fn unreadable(&mut self, input: &[u8]) {
        if here().outlets.access_log.is_some() {
            let line = input.split(|&byte| byte == b'\n').next().unwrap_or_default();
            self.line = line.strip_suffix(b"\r").unwrap_or(line).into();
        }
        self.received = input.len() as u64;
    }

    /// Keeps those fields of a head or trailer section that the log wants.
    pub(crate) fn keep_fields(&mut self, source: Source, lines: &[u8]) {
        let Some(log) = here().outlets.access_log.as_ref().filter(|log| log.wants(source)) else { return };
        let kept = self.kept.get_or_insert_default();
        for line in lines.split(|&byte| byte == b'\n') {
            let mut parts = line.splitn(2, |&byte| byte == b':');
            if let (Some(name), Some(value)) = (parts.next(), parts.next()) {
                kept.offer(log.needs(), source, name, value.trim_ascii());
            }
        }
    }
}

impl Conn {
    /// Gives the slot back before the response is out, with a copy of what the log will want of the request.
    pub(crate) fn part_with_slot(&mut self) {
        let Some(slot) = self.slot else { return };
        self.tally.visit(slot);
        let request = here().dispatch.borrow().request(slot);
        self.tally.request = Some(RequestReader::new(request).used().into());
        self.tally.report = Some(self.report().into());
        self.give_back();
    }

    /// Keeps a request that goes into no slot, for its answer and the log.
    pub(crate) fn set_aside(&mut self, head: &Head<'_>) {
        self.tally.method = Some(Method::of(head.method));
        if let Some((request, id)) = fill::copy(head, &self.client) {
            self.tally.request = Some(request);
            self.tally.id = id;
        }
    }

    /// Keeps the request that `bytes` begin with, unless one is kept already or there is no whole head.
    pub(crate) fn set_aside_bytes(&mut self, bytes: &[u8]) {
        if self.tally.request.is_some() {
            return;
        }
        let mut decoder = RequestDecoder::new(&here().config.limits);
        if let Ok(Some(head)) = decoder.decode(bytes, &mut FieldStore::new()) {
            self.set_aside(&head);
        }
    }

    /// Keeps the request that is refused before its end, when its head has come.
    pub(crate) fn recognize(&mut self) {
        let input = std::mem::take(&mut self.input);
        self.set_aside_bytes(&input);
        self.input = input;
    }

    /// The present request, without its body; an empty one when there is none.
    pub(crate) fn request(&self) -> RequestReader<'_> {
        RequestReader::new(match (&self.tally.request, self.slot) {
            (Some(copy), _) => copy,
            (None, Some(slot)) => here().dispatch.borrow().request(slot),
            (None, None) => &[],
        })
    }

    /// What the worker has reported of its env; empty before it has finished, and when nothing was asked for.
    pub(crate) fn report(&self) -> Cow<'_, [u8]> {
        let thread = here();
        match (&self.tally.report, self.slot) {
            (Some(copy), _) => Cow::Borrowed(copy),
            (None, Some(slot))
                if thread.outlets.wants(Source::Environment)
                    && thread.dispatch.borrow_mut().is_done(slot) =>
            {
                Cow::Owned(thread.segment().report(slot))
            }
            _ => Cow::Borrowed(&[]),
        }
    }

    /// X-Request-Id of the present request; empty for none.
    pub(crate) fn request_id(&self) -> &[u8] {
        self.tally.id.bytes()
    }

    /// A file may be out before its worker has finished the request, and only then the log has the env's variables.
    pub(crate) async fn await_report(&self, slot: u32) {
        if !here().outlets.wants(Source::Environment) {
            return;
        }
        let finished = async {
            while !here().dispatch.borrow_mut().is_done(slot) {
                if let Woken::Lost = poll_fn(|context| {
                    poll_mail(&self.socket, self.key, context).map_or(Poll::Pending, Poll::Ready)
                })
                .await
                {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(REPORT, finished).await;
    }
}
