//! A request that a pool has, and what its worker makes of it.

use std::borrow::Cow;
use std::future::poll_fn;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use howdah_wire::{
    Answer, LENGTH_UNKNOWN, RESPONSE_BROKEN, RESPONSE_CLOSE, RESPONSE_DETACHED, RESPONSE_FAILED,
    RESPONSE_FILE, RESPONSE_HAS_DATE, RESPONSE_HAS_REQUEST_ID, RESPONSE_HAS_SERVER, RESPONSE_HEAD_READY,
    RequestReader,
};

use crate::app::pool::Pool;
use crate::capacity::Permit;
use crate::exchange::{Exchange, Mail, More, Note};
use crate::fault::Fault;
use crate::record::{Account, Identity};
use crate::repeated::Repeated;
use crate::reports::Overdue;
use crate::response::{Body, BodyFile, Event, Has, Head, Response};
use crate::slots::{Ring, Spool};

/// How long the next request of a connection may have to wait for a report.
const REPORT: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(crate) struct Job {
    pool: &'static Pool,
    /// None once it was given back.
    slot: Option<u32>,
    /// Who waits for an answer to what it has asked.
    asker: u16,
    /// The body of the response, which the worker has sent before its head.
    file: Option<(OwnedFd, Permit, u64)>,
}

impl Job {
    /// Of a request that is queued in `slot`.
    pub(crate) fn new(pool: &'static Pool, slot: u32) -> Self {
        Self { pool, slot: Some(slot), asker: 0, file: None }
    }

    /// Keeps the body of the request until its slot is free again.
    pub(crate) fn keep(&self, body: Spool) {
        if let Some(slot) = self.slot {
            self.pool.dispatch.borrow_mut().keep(slot, body);
        }
    }

    /// What there is of the response.
    pub(crate) fn poll(&mut self, exchange: &Exchange, context: &Context<'_>) -> Poll<Event> {
        loop {
            match ready!(exchange.poll(context)) {
                Note::Look => return Poll::Ready(Event::Look),
                Note::News => {}
                Note::Mail(mail) => {
                    if let Some(event) = self.open(mail) {
                        return Poll::Ready(event);
                    }
                }
            }
            if let Some(event) = self.look() {
                return Poll::Ready(event);
            }
        }
    }

    fn open(&mut self, mail: Mail) -> Option<Event> {
        match mail {
            Mail::Lost(fault) => Some(Event::Fault(fault)),
            Mail::Takeover { worker } => {
                self.asker = worker;
                Some(Event::Takeover)
            }
            Mail::Interim { worker, status, lines } => {
                self.asker = worker;
                Some(Event::Interim { status, lines })
            }
            Mail::File { file: None, .. } => Some(Event::Fault(Fault::NoDescriptor)),
            Mail::File { file: Some((file, permit)), length } => {
                self.file = Some((file, permit, length));
                None
            }
        }
    }

    /// What the worker says of the response.
    fn look(&mut self) -> Option<Event> {
        let ring = self.ring()?;
        let look = ring.look();
        let (flags, done) = (look.answer.flags, look.done);
        if done && flags & RESPONSE_DETACHED != 0 {
            return Some(Event::Detached);
        }
        if done && flags & RESPONSE_FAILED != 0 {
            return Some(Event::Fault(Fault::Failed));
        }
        if flags & RESPONSE_HEAD_READY == 0 {
            return done.then(|| Event::Fault(no_response()));
        }
        let file_is_due = flags & RESPONSE_FILE != 0 && self.file.is_none();
        (!file_is_due).then(|| self.respond(ring, &look.answer, done))
    }

    fn respond(&mut self, ring: Ring, answer: &Answer, done: bool) -> Event {
        let (lines, available) = (answer.head_length as usize, answer.produced as usize);
        if lines > available || !(200..1000).contains(&answer.status) {
            return Event::Fault(Fault::BadResponse);
        }
        let head = head(answer, ring.lines(lines));
        let body = match self.file.take() {
            Some((file, permit, length)) => Body::File(BodyFile { file, length, ring, _permit: permit }),
            None => {
                // What there is of a broken body must not look like all of it.
                let whole = done && answer.flags & RESPONSE_BROKEN == 0;
                Body::Ring(ring, whole.then(|| (available - lines) as u64))
            }
        };
        Event::Response(Response { head, body })
    }

    fn ring(&self) -> Option<Ring> {
        self.slot.map(|slot| Ring::new(&self.pool.dispatch, slot))
    }

    /// Lets the application have the client's connection, or not: `lent` has its descriptor and what was read from it.
    pub(crate) fn lend(&self, lent: Option<(BorrowedFd<'_>, &[u8])>) {
        if let Some(slot) = self.slot {
            self.pool.answer_takeover(self.asker, slot, lent);
        }
    }

    /// The interim response was sent, or could not be.
    pub(crate) fn interim_sent(&self, sent: bool) {
        if let Some(slot) = self.slot {
            self.pool.answer_interim(self.asker, slot, sent);
        }
    }

    /// Has the worker replaced when it has been at the request for longer than it may. Its client is waiting for nothing.
    pub(crate) fn is_overdue(&self) -> Option<u16> {
        let timeout = self.pool.setup.request_timeout;
        if timeout.is_zero() {
            return None;
        }
        let time = self.pool.services.clock.now().saturating_sub(timeout.as_nanos() as u64);
        let slot = self.slot?;
        let worker = self.pool.dispatch.borrow().stuck_worker(slot, time)?;
        let _ = self.pool.setup.overdue.send(Overdue { worker, slot });
        Some(worker)
    }

    /// The worker that runs the request, if one does.
    pub(crate) fn runner(&self) -> Option<u16> {
        // At work on it since any time.
        self.slot.and_then(|slot| self.pool.dispatch.borrow().stuck_worker(slot, u64::MAX))
    }

    /// Has a worker interrupted whose client has left. It must hear of it after the slot is given back: by that it sees
    /// that nobody wants its response.
    pub(crate) fn interrupt(&self, worker: u16) {
        let _ = self.pool.setup.departed.send(worker);
    }

    /// Where the application is mounted.
    pub(crate) fn mount(&self) -> Option<&str> {
        self.pool.setup.mount.as_deref()
    }

    /// Who that worker is.
    pub(crate) fn identity(&self, worker: Option<u16>) -> Identity {
        let Some(worker) = worker else { return Identity::default() };
        let roster = &self.pool.setup.roster;
        Identity { pid: roster.pid(worker), generation: roster.generation(worker) }
    }

    /// The worker that has or had the request.
    pub(crate) fn worker(&self) -> Option<u16> {
        self.slot.and_then(|slot| self.pool.dispatch.borrow().owner(slot))
    }

    /// The request, without its body, as it stands in the slot.
    pub(crate) fn request(&self) -> RequestReader<'static> {
        RequestReader::new(self.slot.map_or(&[], |slot| self.pool.dispatch.borrow().request(slot)))
    }

    /// What the worker has reported of its env; empty before it has finished, and when nothing was asked for.
    pub(crate) fn report(&self) -> Cow<'static, [u8]> {
        match self.slot {
            Some(slot) if self.pool.services.wants_report && self.is_done() => {
                Cow::Owned(self.pool.dispatch.borrow().segment.report(slot))
            }
            _ => Cow::Borrowed(&[]),
        }
    }

    /// True once the worker is through with the request.
    pub(crate) fn is_done(&self) -> bool {
        self.slot.is_some_and(|slot| self.pool.dispatch.borrow_mut().is_done(slot))
    }

    /// Notes what the slot knows of the request's way through a worker.
    pub(crate) fn visit(&self, account: &mut Account) {
        let dispatch = self.pool.dispatch.borrow();
        let Some(slot) = self.slot else { return };
        let Some(own) = dispatch.slots.get(slot) else { return };
        let control = dispatch.control(slot);
        let claimed = control.claimed_at.load(Relaxed);
        if claimed != 0 {
            let finished = control.finished_at.load(Relaxed);
            let end = if finished == 0 { self.pool.services.clock.now() } else { finished };
            account.queue = Some(claimed.saturating_sub(own.queued_at));
            account.run = Some(end.saturating_sub(claimed));
        }
    }

    /// Lets go of the slot.
    pub(crate) fn give_back(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.pool.dispatch.borrow_mut().give_back(slot);
        }
    }

    /// Gives the slot back before the response is out, with a copy of what the log will want of the request.
    pub(crate) fn part(&mut self, account: &mut Account) {
        if self.slot.is_none() {
            return;
        }
        self.visit(account);
        account.request = Some(self.request().used().into());
        account.report = Some(self.report().into());
        self.give_back();
    }

    /// A file may be out before its worker has finished the request, and only then the log has the env's variables.
    pub(crate) async fn await_report(&self, exchange: &Exchange) {
        if !self.pool.services.wants_report {
            return;
        }
        let finished = async {
            while !self.is_done() {
                if let More::Lost = poll_fn(|context| exchange.poll_more(context)).await {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(REPORT, finished).await;
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.give_back();
    }
}

fn head(answer: &Answer, lines: &'static [u8]) -> Head {
    let said = |flag: u32| answer.flags & flag != 0;
    Head {
        status: answer.status as u16,
        lines: Cow::Borrowed(lines),
        content_length: Some(answer.content_length).filter(|&length| length != LENGTH_UNKNOWN),
        has: Has {
            date: said(RESPONSE_HAS_DATE),
            server: said(RESPONSE_HAS_SERVER),
            request_id: said(RESPONSE_HAS_REQUEST_ID),
        },
        close: said(RESPONSE_CLOSE),
    }
}

fn no_response() -> Fault {
    static TOLD: Repeated = Repeated::new();
    if let Some(again) = TOLD.pass() {
        tracing::error!("a worker finished a request without a response; answered 500{again}");
    }
    Fault::NoResponse
}
