//! One request and its response, while they are under way.
//!
//! A connection may carry many exchanges at once, though HTTP/1 has one at a time. What the exchange comes to is counted in
//! its [`Account`]. While an application has the request, the exchange has a *desk*: its number is what dispatch knows, and
//! there everybody leaves what they have for it, so that nobody has to know which connection it came by.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, Waker};

use slab::Slab;

use crate::capacity::Permit;
use crate::fault::Fault;
use crate::record::Account;

/// Things that may wait at a desk. A worker in its right mind waits for the answer to each.
const MOST_MAIL: usize = 64;

/// Something that a worker has sent, or what has become of it.
#[derive(Debug)]
pub(crate) enum Mail {
    /// The worker wants the client's connection.
    Takeover,
    /// Send this interim response.
    Interim { status: u16, lines: Vec<u8> },
    /// This file is the body of the response. None when there is no descriptor for it.
    File { file: Option<(OwnedFd, Permit)>, length: u64 },
    /// There will be no response.
    Lost(Fault),
}

/// What a desk has for its exchange.
#[derive(Debug)]
pub(crate) enum Note {
    Mail(Mail),
    /// The slot has news.
    News,
    /// It is time to see whether the client and the worker are still there.
    Look,
}

/// What there is during a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum More {
    /// There may be more of it.
    News,
    Look,
    /// There will be no more.
    Lost,
}

#[derive(Debug, Default)]
struct Desk {
    waker: Option<Waker>,
    news: bool,
    look: bool,
    /// Whoever does not wait need not look.
    waits: bool,
    /// The response has begun: it is too late for anything but its end.
    answered: bool,
    mail: VecDeque<Mail>,
}

impl Desk {
    fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }

    /// Why there will be no more of the response.
    fn loss(&self) -> Option<Fault> {
        self.mail.iter().find_map(|mail| match mail {
            Mail::Lost(fault) => Some(*fault),
            _ => None,
        })
    }

    fn register(&mut self, context: &Context<'_>) {
        match &mut self.waker {
            Some(waker) => waker.clone_from(context.waker()),
            None => self.waker = Some(context.waker().clone()),
        }
    }
}

/// The desks of a front thread.
#[derive(Debug, Default)]
pub(crate) struct Desks {
    all: RefCell<Slab<Desk>>,
}

impl Desks {
    /// The slot of an exchange has news.
    pub(crate) fn tell(&self, key: usize) {
        if let Some(desk) = self.all.borrow_mut().get_mut(key) {
            desk.news = true;
            desk.wake();
        }
    }

    /// Leaves mail. False when it is too late or too much.
    pub(crate) fn post(&self, key: usize, mail: Mail) -> bool {
        let mut all = self.all.borrow_mut();
        let Some(desk) = all.get_mut(key) else { return false };
        let last = matches!(mail, Mail::Lost(_));
        let takes = last || !desk.answered && desk.mail.len() < MOST_MAIL;
        if takes {
            desk.mail.push_back(mail);
            desk.wake();
        }
        takes
    }

    /// Has every exchange look at what has changed.
    pub(crate) fn wake_all(&self) {
        self.all.borrow().iter().for_each(|(_, desk)| desk.wake());
    }

    /// Whether somebody has not heard yet that no response will come.
    pub(crate) fn has_last_words(&self) -> bool {
        self.all.borrow().iter().any(|(_, desk)| !desk.answered && desk.loss().is_some())
    }

    /// Has those that wait look after their client and their worker.
    pub(crate) fn sweep(&self) {
        for (_, desk) in self.all.borrow_mut().iter_mut().filter(|(_, desk)| desk.waits) {
            desk.look = true;
            desk.wake();
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    pub(crate) account: Account,
    desk: Option<(&'static Desks, usize)>,
}

impl Exchange {
    /// The number of its desk, where it waits for an application from now on.
    pub(crate) fn open(&mut self, desks: &'static Desks) -> usize {
        let desk = Desk { waits: true, ..Desk::default() };
        let key = desks.all.borrow_mut().insert(desk);
        self.close();
        self.desk = Some((desks, key));
        key
    }

    /// Nobody has anything for it any more.
    pub(crate) fn close(&mut self) {
        if let Some((desks, key)) = self.desk.take() {
            desks.all.borrow_mut().remove(key);
        }
    }

    /// The response begins.
    pub(crate) fn answer(&self) {
        self.at_desk((), |desk| (desk.waits, desk.answered) = (false, true));
    }

    /// It waits for more of a response that has begun, and has an eye on client and worker meanwhile.
    pub(crate) fn watch(&self) {
        self.at_desk((), |desk| desk.waits = true);
    }

    /// What there is, one by one.
    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<Note> {
        self.at_desk(Poll::Pending, |desk| {
            desk.register(context);
            if let Some(mail) = desk.mail.pop_front() {
                return Poll::Ready(Note::Mail(mail));
            }
            if std::mem::take(&mut desk.news) {
                return Poll::Ready(Note::News);
            }
            if std::mem::take(&mut desk.look) { Poll::Ready(Note::Look) } else { Poll::Pending }
        })
    }

    /// What there is for a response that has begun.
    pub(crate) fn poll_more(&self, context: &Context<'_>) -> Poll<More> {
        self.at_desk(Poll::Pending, |desk| {
            desk.register(context);
            if desk.loss().is_some() {
                return Poll::Ready(More::Lost);
            }
            if std::mem::take(&mut desk.look) {
                return Poll::Ready(More::Look);
            }
            if std::mem::take(&mut desk.news) { Poll::Ready(More::News) } else { Poll::Pending }
        })
    }

    /// Why there will be no more of a response that has begun.
    pub(crate) fn loss(&self) -> Option<Fault> {
        self.at_desk(None, |desk| desk.loss())
    }

    fn at_desk<T>(&self, otherwise: T, act: impl FnOnce(&mut Desk) -> T) -> T {
        match self.desk {
            Some((desks, key)) => act(&mut desks.all.borrow_mut()[key]),
            None => otherwise,
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desks() -> &'static Desks {
        Box::leak(Box::default())
    }

    fn context() -> Context<'static> {
        Context::from_waker(Waker::noop())
    }

    /// The next note, as one word.
    fn note(exchange: &Exchange) -> &'static str {
        match exchange.poll(&context()) {
            Poll::Pending => "nothing",
            Poll::Ready(Note::News) => "news",
            Poll::Ready(Note::Look) => "look",
            Poll::Ready(Note::Mail(Mail::Lost(_))) => "lost",
            Poll::Ready(Note::Mail(_)) => "mail",
        }
    }

    #[test]
    fn mail_comes_before_news_and_news_before_a_look_each_once() {
        let desks = desks();
        let mut exchange = Exchange::default();
        let key = exchange.open(desks);
        desks.sweep();
        desks.tell(key);
        desks.tell(key);
        assert!(desks.post(key, Mail::Takeover));
        assert!(desks.post(key, Mail::Lost(Fault::WorkerLost)));
        let notes: Vec<_> = (0..5).map(|_| note(&exchange)).collect();
        assert_eq!(notes, ["mail", "lost", "news", "look", "nothing"]);
    }

    #[test]
    fn once_a_response_has_begun_only_its_end_gets_through() {
        let desks = desks();
        let mut exchange = Exchange::default();
        let key = exchange.open(desks);
        exchange.answer();
        assert!(!desks.post(key, Mail::Takeover));
        desks.sweep();
        assert_eq!(
            exchange.poll_more(&context()),
            Poll::Pending,
            "who does not wait has nothing to look after"
        );
        exchange.watch();
        desks.sweep();
        desks.tell(key);
        assert_eq!(exchange.loss(), None);
        let more = || exchange.poll_more(&context());
        assert_eq!(
            [more(), more(), more()],
            [Poll::Ready(More::Look), Poll::Ready(More::News), Poll::Pending]
        );
        assert!(desks.post(key, Mail::Lost(Fault::WorkerLost)));
        assert_eq!([more(), more()], [Poll::Ready(More::Lost); 2], "which does not pass");
        assert_eq!(exchange.loss(), Some(Fault::WorkerLost));
    }

    #[test]
    fn a_worker_that_floods_a_desk_is_refused() {
        let desks = desks();
        let mut exchange = Exchange::default();
        let key = exchange.open(desks);
        let taken = (0..100).filter(|_| desks.post(key, Mail::Takeover)).count();
        assert_eq!(taken, MOST_MAIL);
        assert!(desks.post(key, Mail::Lost(Fault::WorkerLost)), "but the end gets through");
    }

    #[test]
    fn a_desk_is_gone_with_its_exchange() {
        let desks = desks();
        let mut exchange = Exchange::default();
        let first = exchange.open(desks);
        let second = exchange.open(desks);
        assert!(!desks.post(first, Mail::Takeover) && desks.post(second, Mail::Takeover));
        desks.tell(first);
        drop(exchange);
        assert!(!desks.post(second, Mail::Takeover) && desks.all.borrow().is_empty());
    }
}
