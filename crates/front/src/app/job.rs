//! A request that a pool has, and what its worker makes of it.

use std::borrow::Cow;
use std::cell::Cell;
use std::future::poll_fn;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use howdah_wire::{
    ANSWER_NO_DESCRIPTOR, ANSWER_TOO_MANY, Answer, LENGTH_UNKNOWN, MessageKind, RESPONSE_BROKEN,
    RESPONSE_CLOSE, RESPONSE_DETACHED, RESPONSE_FAILED, RESPONSE_FILE, RESPONSE_HAS_DATE,
    RESPONSE_HAS_REQUEST_ID, RESPONSE_HAS_SERVER, RESPONSE_HEAD_READY, RESPONSE_REDIRECT, RequestReader,
};

use crate::app::pool::Pool;
use crate::app::upgrades::Upgraded;
use crate::capacity::Permit;
use crate::exchange::{Exchange, Mail, More, Note};
use crate::fault::Fault;
use crate::record::{Account, Identity};
use crate::repeated::Repeated;
use crate::reports::Overdue;
use crate::response::{Body, BodyFile, Event, Has, Head, Response};
use crate::slots::{Look, Ring};

/// How long the next request of a connection may have to wait for a report.
const REPORT: Duration = Duration::from_secs(1);
/// Looks, of which there are ten in a second, that a worker's file may be on its way to us for when that is through.
const FILE_LOOKS: u8 = 20;
/// Requests of an application that take less than so many nanoseconds on average are quick.
const QUICK_NS: u64 = 250_000;

/// Why an application does not have the connection that it has asked for.
#[derive(Clone, Copy, Debug)]
enum Refusal {
    TooMany,
    NoDescriptor,
}

impl Refusal {
    /// What its worker is told.
    fn answer(self) -> u64 {
        match self {
            Self::TooMany => ANSWER_TOO_MANY,
            Self::NoDescriptor => ANSWER_NO_DESCRIPTOR,
        }
    }

    /// What it is to the client when the application gives up.
    fn fault(self) -> Fault {
        match self {
            Self::TooMany => Fault::TooManyUpgrades,
            Self::NoDescriptor => Fault::NoDescriptor,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Job {
    pool: &'static Pool,
    /// None once it was given back.
    slot: Option<u32>,
    /// How long a worker may be at it, with those before it; zero for any time.
    limit: Duration,
    /// How long those before it were at what goes on here.
    before: Duration,
    /// The body of the response, which the worker has sent before its head.
    file: Option<(OwnedFd, Permit, u64)>,
    /// Looks in which it had not come though the worker was through.
    file_looks: u8,
    /// The application has the connection.
    upgraded: Option<Upgraded>,
    /// Why it was refused the connection last.
    refusal: Refusal,
    /// Its worker is being replaced.
    overdue: Cell<bool>,
}

impl Job {
    /// Of a request that is queued in `slot`.
    pub(crate) fn new(pool: &'static Pool, slot: u32) -> Self {
        Self {
            pool,
            slot: Some(slot),
            limit: pool.setup.request_timeout,
            before: Duration::ZERO,
            file: None,
            file_looks: 0,
            upgraded: None,
            refusal: Refusal::TooMany,
            overdue: Cell::new(false),
        }
    }

    /// What there is of the response.
    pub(crate) fn poll(&mut self, exchange: &Exchange, context: &Context<'_>) -> Poll<Event> {
        loop {
            match ready!(exchange.poll(context)) {
                Note::Look if self.lacks_file() => return Poll::Ready(Event::Fault(no_file())),
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
            Mail::Takeover => Some(Event::Takeover),
            Mail::Interim { status, lines } => Some(Event::Interim { status, lines }),
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
            return Some(Event::Fault(match look.answer.status {
                502 => Fault::WorkerLost,
                503 => self.refusal.fault(),
                _ => Fault::Failed,
            }));
        }
        if flags & RESPONSE_HEAD_READY == 0 {
            return done.then(|| Event::Fault(no_response()));
        }
        if flags & RESPONSE_REDIRECT != 0 {
            return done.then(|| redirect(ring, &look.answer));
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
            Some((file, permit, length)) => Body::File(BodyFile { file, length, ring, permit }),
            None => {
                // What there is of a broken body must not look like all of it.
                let whole = done && answer.flags & RESPONSE_BROKEN == 0;
                Body::Ring(ring, whole.then(|| (available - lines) as u64))
            }
        };
        Event::Response(Response { head, body })
    }

    /// Whether a file is due that would have come by now. A worker sends it before its head, but any may say that there is one.
    fn lacks_file(&mut self) -> bool {
        let Some(Look { answer, done: true }) = self.ring().map(Ring::look) else { return false };
        let due = RESPONSE_HEAD_READY | RESPONSE_FILE;
        if answer.flags & due == due && self.file.is_none() {
            self.file_looks = self.file_looks.saturating_add(1);
        }
        self.file_looks >= FILE_LOOKS
    }

    fn ring(&self) -> Option<Ring> {
        self.slot.map(|slot| Ring::new(&self.pool.dispatch, slot))
    }

    /// Whether the application may have the connection, for which it has `asked`. If it may, it counts as one that has; if
    /// not, it is told.
    pub(crate) fn upgrade(&mut self, asked: MessageKind) -> bool {
        let upgrades = &self.pool.setup.upgrades;
        self.upgraded = self.upgraded.take().or_else(|| upgrades.enter());
        if self.upgraded.is_none() {
            static TOLD: Repeated = Repeated::new();
            if let Some(again) = TOLD.pass() {
                let most = upgrades.most();
                tracing::warn!(
                    "applications have {most} connections, as many as --max-upgrades allows; no more{again}"
                );
            }
            self.refuse(asked, Refusal::TooMany);
        }
        self.upgraded.is_some()
    }

    /// Answers that the application cannot have the connection, for there is no descriptor for it.
    pub(crate) fn lack_descriptor(&mut self) {
        self.upgraded = None;
        self.refuse(MessageKind::Socket, Refusal::NoDescriptor);
    }

    fn refuse(&mut self, asked: MessageKind, refusal: Refusal) {
        self.refusal = refusal;
        if let Some((slot, worker)) = self.asker() {
            self.pool.refuse_takeover(worker, slot, asked, refusal.answer());
        }
    }

    /// Lets the application have the client's connection: its descriptor and what was read from it. False when it cannot be
    /// passed on, as the application hears then.
    pub(crate) fn lend(&mut self, fd: BorrowedFd<'_>, input: &[u8]) -> bool {
        let lent = self
            .asker()
            .is_some_and(|(slot, worker)| self.pool.answer_takeover(worker, slot, Some((fd, input))));
        if !lent {
            self.lack_descriptor();
        }
        lent
    }

    /// The application does not get the connection.
    pub(crate) fn keep_connection(&self) {
        if let Some((slot, worker)) = self.asker() {
            self.pool.answer_takeover(worker, slot, None);
        }
    }

    /// Lends the worker the client's connection, for the body of its response, or says no. True when it has it. Workers of
    /// one of several applications are told not to ask; who does all the same does not get it.
    pub(crate) fn lend_for_body(&self, lent: Option<BorrowedFd<'_>>) -> bool {
        let Some((slot, worker)) = self.asker() else { return false };
        let lent = lent.filter(|_| self.pool.services.alone);
        let ticket = self.pool.dispatch.borrow().slots.get(slot).map(|own| own.ticket);
        ticket.is_some_and(|ticket| self.pool.answer_loan(worker, slot, ticket, lent))
    }

    /// Who waits for an answer to what it has asked, and of which slot: only its worker may.
    fn asker(&self) -> Option<(u32, u16)> {
        self.slot.zip(self.worker())
    }

    /// The interim response was sent, or could not be.
    pub(crate) fn interim_sent(&self, sent: bool) {
        if let Some((slot, worker)) = self.asker() {
            self.pool.answer_interim(worker, slot, sent);
        }
    }

    /// Has the worker replaced when it has been at the request for longer than it may. Its client is waiting for nothing.
    pub(crate) fn report_overdue(&self) -> Option<u16> {
        if self.limit.is_zero() {
            return None;
        }
        let (slot, served) = (self.slot?, self.pool.services.clock.served());
        let worker = self.pool.dispatch.borrow().stuck_worker(slot, self.left().as_nanos() as u64, served)?;
        let _ = self.pool.setup.overdue.send(Overdue { worker, slot });
        self.overdue.set(true);
        Some(worker)
    }

    /// How long a worker may be at it; zero for any time.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// What its worker has of that.
    fn left(&self) -> Duration {
        if self.limit.is_zero() {
            return Duration::ZERO;
        }
        self.limit.saturating_sub(self.before).max(Duration::from_millis(1))
    }

    /// How long workers have been at it, as they say, but the last one no longer than we know of the request.
    pub(crate) fn spent(&self) -> Duration {
        let mut account = Account::default();
        self.visit(&mut account);
        let known = self.slot.and_then(|slot| Some(self.pool.dispatch.borrow().slots.get(slot)?.queued_at));
        let since = known.map_or(0, |queued| self.pool.services.clock.now().saturating_sub(queued));
        self.before + Duration::from_nanos(account.run.unwrap_or(0).min(since))
    }

    /// What other jobs have begun goes on here: one time holds for all, the longest one that any may take.
    pub(crate) fn go_on_with(&mut self, limit: Duration, spent: Duration) {
        if !self.limit.is_zero() && !limit.is_zero() {
            (self.limit, self.before) = (self.limit.max(limit), spent);
        }
    }

    /// The worker that runs the request, if one does.
    pub(crate) fn runner(&self) -> Option<u16> {
        self.slot.and_then(|slot| self.pool.dispatch.borrow().runner(slot))
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

    /// Whether requests of its application are answered soon, as a rule.
    pub(crate) fn is_quick(&self) -> bool {
        self.pool.dispatch.borrow().run_ns < QUICK_NS
    }

    /// The worker that has or had the request.
    pub(crate) fn worker(&self) -> Option<u16> {
        let (slot, dispatch) = (self.slot?, self.pool.dispatch.borrow());
        dispatch.owner(slot).or_else(|| dispatch.slots.get(slot)?.lost_with)
    }

    /// The request, without its body, as it stands in the slot.
    pub(crate) fn request(&self) -> RequestReader<'static> {
        RequestReader::new(self.slot.map_or(&[], |slot| self.pool.dispatch.borrow().request(slot)))
    }

    /// It will be looked at soon.
    pub(crate) fn prefetch_request(&self) {
        if let Some(slot) = self.slot {
            self.pool.dispatch.borrow().prefetch_request(slot);
        }
    }

    /// What the worker has reported of its env; empty before it has, and when nothing was asked for. Of a CGI script whose client does not
    /// wait for its end that is all the same there.
    pub(crate) fn report(&self) -> Cow<'static, [u8]> {
        match self.slot {
            Some(slot) if self.pool.services.wants_report => {
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

    /// Lets go of the slot. A worker that has the request goes on, for as long as it may; one that has the connection, for as
    /// long as it likes.
    pub(crate) fn give_back(&mut self) {
        if let Some(slot) = self.slot.take() {
            let mut dispatch = self.pool.dispatch.borrow_mut();
            dispatch.give_back(slot);
            if self.upgraded.is_none() && !self.overdue.get() {
                dispatch.limit(slot, self.left().as_nanos() as u64);
            }
            drop(dispatch);
            self.pool.refuse_asked(slot);
            self.upgraded = None;
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
        if !self.pool.services.wants_report || self.slot.is_none() {
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

/// The path that stands where the lines would.
fn redirect(ring: Ring, answer: &Answer) -> Event {
    let path = ring.lines(answer.head_length as usize);
    if path.len() < answer.head_length as usize {
        Event::Fault(Fault::BadResponse)
    } else {
        Event::Redirect(path.to_vec())
    }
}

fn no_file() -> Fault {
    static TOLD: Repeated = Repeated::new();
    if let Some(again) = TOLD.pass() {
        tracing::error!("a worker finished a request with a file that has not come; answered 502{again}");
    }
    Fault::BadResponse
}

fn no_response() -> Fault {
    static TOLD: Repeated = Repeated::new();
    if let Some(again) = TOLD.pass() {
        tracing::error!("a worker finished a request without a response; answered 500{again}");
    }
    Fault::NoResponse
}

#[cfg(test)]
mod tests;
