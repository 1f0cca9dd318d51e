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
mod tests {
    use std::task::Waker;

    use howdah_accesslog::{Compat, Options, Sink, Target, compile};
    use howdah_wire::REQUEST_AREA;

    use super::*;
    use crate::capacity::Kind;
    use crate::config::Config;
    use crate::record::AccessLog;
    use crate::reports::Loss;
    use crate::sample::worker::Claimed;
    use crate::sample::world::{Terms, World, run};
    use crate::slots::Spool;

    /// What a job has for its connection, in words.
    fn event(job: &mut Job, exchange: &Exchange) -> String {
        match job.poll(exchange, &Context::from_waker(Waker::noop())) {
            Poll::Pending => "nothing".to_owned(),
            Poll::Ready(Event::Fault(fault)) => format!("{fault:?}"),
            Poll::Ready(Event::Response(Response { head, body })) => {
                let body = match body {
                    Body::Ring(_, length) => format!("ring {length:?}"),
                    Body::File(file) => format!("file {}", file.length),
                    Body::Bytes(_) => "bytes".to_owned(),
                };
                format!("{} {:?} {body}", head.status, head.content_length)
            }
            Poll::Ready(Event::Interim { status, .. }) => format!("interim {status}"),
            Poll::Ready(other) => format!("{other:?}"),
        }
    }

    /// A file as a worker sends it.
    fn file(world: &World, length: u64) -> Mail {
        let permit = world.capacity.enter(Kind::File).unwrap();
        Mail::File { file: Some((howdah_sys::eventfd().unwrap(), permit)), length }
    }

    fn post(world: &World, job: &Job, mail: Mail) -> bool {
        let desk = world.pool().dispatch.borrow().desk_of(job.slot.unwrap());
        world.thread.desks.post(desk.unwrap(), mail)
    }

    #[test]
    fn what_a_worker_says_and_whether_it_is_through_decides_what_there_is() {
        // Flags, status, length of the lines, and what there is before and after its end.
        const READY: u32 = RESPONSE_HEAD_READY;
        for (flags, status, lines, before, after) in [
            (READY, 200, 4, "200 Some(7) ring None", "200 Some(7) ring Some(3)"),
            (READY, 200, 7, "200 Some(7) ring None", "200 Some(7) ring Some(0)"),
            (READY, 999, 0, "999 Some(7) ring None", "999 Some(7) ring Some(7)"),
            (READY | RESPONSE_BROKEN, 200, 4, "200 Some(7) ring None", "200 Some(7) ring None"),
            (READY, 200, 8, "BadResponse", "BadResponse"),
            (READY, 199, 4, "BadResponse", "BadResponse"),
            (READY, 1000, 4, "BadResponse", "BadResponse"),
            (READY | RESPONSE_FAILED, 200, 4, "200 Some(7) ring None", "Failed"),
            (0, 200, 4, "nothing", "NoResponse"),
            (RESPONSE_FAILED, 0, 0, "nothing", "Failed"),
            (RESPONSE_FAILED, 502, 0, "nothing", "WorkerLost"),
            (RESPONSE_FAILED, 503, 0, "nothing", "TooManyUpgrades"),
            (RESPONSE_DETACHED, 0, 0, "nothing", "Detached"),
            (READY | RESPONSE_FILE, 200, 4, "nothing", "nothing"),
        ] {
            run(async {
                let world = World::new(Config::default());
                let (mut job, exchange) = world.ask("/a");
                let mut claimed = world.worker.claim().unwrap();
                world.worker.write(&mut claimed, b"A:b\nxyz");
                let answer =
                    Answer { flags, status, head_length: lines, content_length: 7, ..Answer::default() };
                world.worker.say(&mut claimed, answer);
                let case = format!("flags {flags}, status {status}, {lines} bytes of lines");
                assert_eq!(event(&mut job, &exchange), "nothing", "{case}: without news");
                world.worker.tell(&claimed);
                world.pool().turn();
                assert_eq!(event(&mut job, &exchange), before, "{case}");
                world.worker.finish(claimed);
                world.pool().turn();
                assert_eq!(event(&mut job, &exchange), after, "{case}, and it is through");
                assert_eq!(event(&mut job, &exchange), "nothing", "{case}: it is said once");
            });
        }
    }

    #[test]
    fn a_file_may_come_before_the_head_that_speaks_of_it_and_after() {
        for file_first in [true, false] {
            run(async {
                let world = World::new(Config::default());
                let (mut job, exchange) = world.ask("/a");
                let mut claimed = world.worker.claim().unwrap();
                if file_first {
                    assert!(post(&world, &job, file(&world, 70)));
                    assert_eq!(event(&mut job, &exchange), "nothing");
                }
                world.worker.head(&mut claimed, 200, 70, RESPONSE_FILE);
                world.worker.tell(&claimed);
                world.pool().turn();
                if !file_first {
                    assert_eq!(event(&mut job, &exchange), "nothing", "it is due");
                    assert!(post(&world, &job, file(&world, 70)));
                }
                assert_eq!(event(&mut job, &exchange), "200 Some(70) file 70");
            });
        }
    }

    #[test]
    fn a_file_that_does_not_come_is_not_waited_for_once_its_worker_is_through() {
        run(async {
            let world = World::new(Config::default());
            let (mut job, exchange) = world.ask("/a");
            let mut claimed = world.worker.claim().unwrap();
            world.worker.head(&mut claimed, 200, 70, RESPONSE_FILE);
            world.worker.tell(&claimed);
            let looks = |job: &mut Job, count: u8| {
                let look = |_| {
                    world.wait(Duration::from_millis(100));
                    event(job, &exchange)
                };
                (0..count).map(look).filter(|event| event != "Look").collect::<Vec<_>>()
            };
            world.pool().turn();
            assert_eq!(event(&mut job, &exchange), "nothing");
            assert!(looks(&mut job, 3 * FILE_LOOKS).is_empty(), "it may take its time over that");
            world.worker.finish(claimed);
            world.pool().turn();
            assert_eq!(event(&mut job, &exchange), "nothing");
            assert!(
                looks(&mut job, FILE_LOOKS - 1).is_empty(),
                "what it has sent may not have been heard yet"
            );
            assert_eq!(looks(&mut job, 1), ["BadResponse"]);
        });
    }

    #[test]
    fn a_file_for_which_there_was_no_descriptor_is_no_response() {
        run(async {
            let world = World::new(Config::default());
            let (mut job, exchange) = world.ask("/a");
            let _claimed = world.worker.claim();
            assert!(post(&world, &job, Mail::File { file: None, length: 3 }));
            assert_eq!(event(&mut job, &exchange), "NoDescriptor");
        });
    }

    #[test]
    fn who_gives_up_without_the_connection_is_answered_by_why_it_was_refused_last() {
        type Refuse = fn(&mut Job);
        let lacks = |job: &mut Job| job.lack_descriptor();
        let exceeds = |job: &mut Job| assert!(!job.upgrade(MessageKind::Socket));
        let cases: [(Refuse, Refuse, _); 2] =
            [(lacks, exceeds, "TooManyUpgrades"), (exceeds, lacks, "NoDescriptor")];
        for (first, second, fault) in cases {
            run(async {
                let terms = Terms { max_upgrades: 0, ..Terms::default() };
                let world = World::with(Config::default(), terms, |_| ());
                let (mut job, exchange) = world.ask("/a");
                let mut claimed = world.worker.claim().unwrap();
                first(&mut job);
                second(&mut job);
                let flags = RESPONSE_FAILED;
                world.worker.say(&mut claimed, Answer { status: 503, flags, ..Answer::default() });
                world.worker.finish(claimed);
                world.pool().turn();
                assert_eq!(event(&mut job, &exchange), fault);
            });
        }
    }

    #[test]
    fn a_head_says_what_it_has_and_whether_to_close() {
        // Flags, and whether the head has a date, a server and an id, and closes.
        for (flags, date, server, request_id, close) in [
            (0, false, false, false, false),
            (RESPONSE_HAS_DATE, true, false, false, false),
            (RESPONSE_HAS_SERVER, false, true, false, false),
            (RESPONSE_HAS_REQUEST_ID, false, false, true, false),
            (RESPONSE_CLOSE, false, false, false, true),
        ] {
            let answer = Answer { flags, status: 404, ..Answer::default() };
            let Head { status, has, content_length, close: closes, .. } = head(&answer, b"");
            let said = (status, has.date, has.server, has.request_id, closes, content_length);
            assert_eq!(said, (404, date, server, request_id, close, None), "{flags}");
        }
    }

    #[test]
    fn what_is_no_response_goes_to_the_connection_as_it_comes() {
        run(async {
            let world = World::new(Config::default());
            let (mut job, exchange) = world.ask("/a");
            let _claimed = world.worker.claim();
            world.thread.desks.sweep();
            assert!(post(&world, &job, Mail::Interim { status: 103, lines: vec![] }));
            assert!(post(&world, &job, Mail::Takeover));
            let events: Vec<_> = (0..4).map(|_| event(&mut job, &exchange)).collect();
            assert_eq!(events, ["interim 103", "Takeover", "Look", "nothing"]);
        });
    }

    #[test]
    fn a_worker_that_runs_a_request_for_too_long_is_reported() {
        let terms = |seconds| Terms { request_timeout: Duration::from_secs(seconds), ..Terms::default() };
        // The limit, whether a worker has it, whether it is through, how many seconds pass, and whether it is too long.
        for (limit, claims, ends, passed, overdue) in [
            (60, true, false, 30, false),
            (60, true, false, 120, true),
            (60, true, true, 120, false),
            (60, false, false, 120, false),
            (0, true, false, 120, false),
        ] {
            run(async {
                let mut world = World::with(Config::default(), terms(limit), |_| ());
                let (job, _exchange) = world.ask("/a");
                let claimed = claims.then(|| world.worker.claim().unwrap());
                if ends {
                    claimed.into_iter().for_each(|claimed| world.worker.finish(claimed));
                }
                world.wait(Duration::from_secs(passed));
                let case = format!("limit {limit}, claimed {claims}, ended {ends}, {passed} seconds");
                assert_eq!(job.report_overdue(), overdue.then_some(0), "{case}");
                let report = overdue.then_some(Overdue { worker: 0, slot: job.slot.unwrap() });
                assert_eq!(world.overdue.try_recv().ok(), report, "{case}");
                assert_eq!(job.runner(), (claims && !ends).then_some(0), "{case}");
                assert_eq!(job.worker(), claims.then_some(0), "{case}");
            });
        }
    }

    #[test]
    fn a_worker_has_its_time_also_where_the_thread_is_held_up() {
        run(async {
            let terms = Terms { request_timeout: Duration::from_secs(60), ..Terms::default() };
            let world = World::with(Config::default(), terms, |_| ());
            let (job, _exchange) = world.ask("/a");
            let _claimed = world.worker.claim().unwrap();
            world.wait(Duration::from_secs(30));
            world.thread.clock.hold_up(Duration::from_secs(3600));
            world.wait(Duration::from_secs(29));
            assert_eq!(job.report_overdue(), None);
            world.wait(Duration::from_secs(2));
            assert_eq!(job.report_overdue(), Some(0));
        });
    }

    #[test]
    fn a_worker_that_nobody_waits_for_has_no_more_time_than_any_other() {
        // The limit, seconds that pass; whether the response has begun, the application has the connection, the worker was
        // reported before its client left, or is through; and whether it is reported then.
        for (limit, passed, begun, taken, told, ends, overdue) in [
            (60, 120, false, false, false, false, true),
            (60, 30, false, false, false, false, false),
            (0, 120, false, false, false, false, false),
            (60, 120, true, false, false, false, false),
            (60, 120, false, true, false, false, false),
            (60, 120, false, false, true, false, false),
            (60, 120, false, false, false, true, false),
        ] {
            run(async {
                let terms = Terms { request_timeout: Duration::from_secs(limit), ..Terms::default() };
                let mut world = World::with(Config::default(), terms, |_| ());
                let (mut job, _exchange) = world.ask("/a");
                let slot = job.slot.unwrap();
                let claimed = world.worker.claim().unwrap();
                world.worker.begin(&claimed);
                let control = world.pool().dispatch.borrow().control(slot);
                control.flags.store(if begun { RESPONSE_HEAD_READY } else { 0 }, Relaxed);
                assert!(!taken || job.upgrade(MessageKind::Socket));
                if told {
                    world.wait(Duration::from_secs(passed));
                    assert!(job.report_overdue().is_some() && world.overdue.try_recv().is_ok());
                }
                job.give_back();
                if ends {
                    world.worker.finish(claimed);
                }
                world.wait(Duration::from_secs(passed));
                world.pool().sweep();
                world.pool().sweep();
                let reports: Vec<_> = std::iter::from_fn(|| world.overdue.try_recv().ok()).collect();
                let expected = overdue.then_some(Overdue { worker: 0, slot });
                let case = format!("{limit} {passed} {begun} {taken} {told} {ends}");
                assert_eq!(reports, Vec::from_iter(expected), "{case}");
            });
        }
    }

    #[test]
    fn a_job_without_its_slot_knows_nothing_any_more() {
        run(async {
            let mut world = World::new(Config::default());
            let (mut job, exchange) = world.ask("/a");
            world.worker.begin(&world.worker.claim().unwrap());
            let mut account = Account::default();
            job.part(&mut account);
            assert_eq!(RequestReader::new(&account.request.clone().unwrap()).uri(), b"/a");
            assert_eq!((account.report.as_deref(), account.run.is_some()), (Some(&b""[..]), true));
            account.request = None;
            job.part(&mut account);
            assert!(account.request.is_none(), "there is nothing to be copied any more");
            assert!(job.runner().is_none() && job.worker().is_none() && !job.is_done());
            assert!(job.request().uri().is_empty() && event(&mut job, &exchange) == "nothing");
            job.interrupt(0);
            assert_eq!(world.departed.try_recv(), Ok(0));
        });
    }

    #[test]
    fn who_has_run_it_is_known_from_the_roster() {
        run(async {
            let world = World::with(Config::default(), Terms::default(), |setup| {
                setup.pools[0].roster.expect(0, 7);
                setup.pools[0].roster.forked(0, 4711);
                setup.pools[0].mount = Some("/app".to_owned());
            });
            let (job, _exchange) = world.ask("/a");
            let known = |worker| {
                let Identity { pid, generation } = job.identity(worker);
                (pid, generation)
            };
            assert_eq!((known(Some(0)), known(None), job.mount()), ((4711, 7), (0, 0), Some("/app")));
        });
    }

    #[test]
    fn who_died_at_a_request_is_known() {
        for (begins, who) in [(true, Some(0)), (false, None)] {
            run(async {
                let world = World::new(Config::default());
                let (job, _exchange) = world.ask("/a");
                let claimed = world.worker.claim().unwrap();
                if begins {
                    world.worker.begin(&claimed);
                }
                world.pool().worker_gone(0, Loss::Killed);
                assert_eq!(job.worker(), who, "begun: {begins}");
            });
        }
    }

    #[test]
    fn the_way_through_a_worker_is_told_in_times() {
        // When it was claimed and has ended, and how long it has waited and run, beginning with when it was queued.
        for (claimed, ended, queue, run_time) in
            [(0, 0, None, None), (50, 80, Some(50), Some(30)), (50, 0, Some(50), Some(950))]
        {
            run(async {
                let world = World::new(Config::default());
                let (job, _exchange) = world.ask("/a");
                let slot = job.slot.unwrap();
                let begin = world.thread.clock.now();
                let control = world.pool().dispatch.borrow().control(slot);
                let at = |time| if time == 0 { 0 } else { begin + time };
                control.claimed_at.store(at(claimed), Relaxed);
                control.finished_at.store(at(ended), Relaxed);
                world.thread.clock.advance(Duration::from_nanos(1000));
                let mut account = Account::default();
                job.visit(&mut account);
                assert_eq!((account.queue, account.run), (queue, run_time), "{claimed} {ended}");
            });
        }
    }

    /// A world whose access log wants a variable of the env.
    fn with_log() -> World {
        World::with(Config::default(), Terms::default(), |setup| {
            let sink = Sink::open(&Target::File("/dev/null".into()), Options::default()).unwrap();
            let format = compile("%{VAR}e", Compat::Apache).unwrap();
            setup.access_log = Some(AccessLog::new(format, sink.writer()));
        })
    }

    /// Finishes a request with a report.
    fn finish(world: &World, claimed: Claimed, report: &[u8]) {
        let (slot, segment) = (claimed.claim.slot, world.pool().setup.segment);
        segment.slot_area(slot)[REQUEST_AREA..][..report.len()].copy_from_slice(report);
        segment.controls()[slot as usize].report.store(report.len() as u32, Relaxed);
        world.worker.finish(claimed);
    }

    #[test]
    fn a_report_is_read_when_the_worker_is_through_and_the_log_wants_one() {
        for (wanted, world) in [(true, with_log as fn() -> World), (false, || World::new(Config::default()))]
        {
            run(async {
                let world = world();
                let (job, _exchange) = world.ask("/a");
                let claimed = world.worker.claim().unwrap();
                let control = world.pool().dispatch.borrow().control(claimed.claim.slot);
                control.report.store(6, Relaxed);
                assert!(job.report().is_empty(), "it may still be written");
                finish(&world, claimed, b"\x04\0self");
                assert_eq!(&*job.report(), if wanted { &b"\x04\0self"[..] } else { b"" });
            });
        }
    }

    #[test]
    fn a_report_is_waited_for_until_it_comes_or_cannot_come() {
        // Whether the log wants it, and whether the worker is killed, or else answers.
        for (wanted, killed) in [(true, false), (true, true), (false, false)] {
            run(async {
                let world = if wanted { with_log() } else { World::new(Config::default()) };
                let (job, exchange) = world.ask("/a");
                let claimed = world.worker.claim().unwrap();
                world.worker.begin(&claimed);
                exchange.answer();
                let mut waits = Box::pin(job.await_report(&exchange));
                let mut poll = || waits.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                assert_eq!(poll().is_pending(), wanted);
                if !wanted {
                    return;
                }
                world.pool().dispatch.borrow_mut().news(claimed.claim.slot);
                assert!(poll().is_pending(), "there is more of the response");
                if killed {
                    world.pool().worker_gone(0, Loss::Killed);
                } else {
                    finish(&world, claimed, b"");
                    world.pool().turn();
                }
                assert!(poll().is_ready());
            });
        }
    }

    #[test]
    fn a_slot_is_given_back_when_its_job_is_dropped() {
        run(async {
            let world = World::new(Config::default());
            let (job, _exchange) = world.ask("/a");
            let extent = world.pool().extent_for_body(None).unwrap();
            world.pool().dispatch.borrow_mut().keep(0, Spool::Extent(extent));
            assert!(world.pool().dispatch.borrow().kept(0).is_some());
            drop(job);
            assert_eq!(world.pool().dispatch.borrow().in_flight, 0);
            assert!(world.pool().dispatch.borrow().kept(0).is_none() && world.worker.claim().is_none());
        });
    }
}
