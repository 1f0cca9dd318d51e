//! The tasks of streams. To make one costs a tenth of what a small request does, most of it for memory. So a task that has
//! served its stream waits for another, of whichever connection of the thread.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::h2::link::Work;
use crate::h2::stream;
use crate::server::Server;

/// Tasks that are kept for streams to come, of about 3 KiB each.
const MOST: usize = 512;

/// Where a task waits.
#[derive(Debug, Default)]
struct Seat {
    work: RefCell<Option<Work>>,
    waker: RefCell<Option<Waker>>,
}

/// Those of a thread that wait.
#[derive(Debug, Default)]
struct Crew {
    idle: RefCell<Vec<Rc<Seat>>>,
}

/// Has a stream served.
pub(crate) fn serve(work: Work) {
    let crew = Crew::of(work.open.link.server);
    let seat = crew.and_then(|crew| crew.idle.borrow_mut().pop());
    match seat {
        Some(seat) => seat.give(work),
        None => drop(tokio::task::spawn_local(run(crew, work))),
    }
}

/// Serves one stream after the other.
async fn run(crew: Option<&'static Crew>, first: Work) {
    let (seat, mut work) = (Rc::new(Seat::default()), first);
    loop {
        stream::serve(work).await;
        let Some(crew) = crew.filter(|crew| crew.idle.borrow().len() < MOST) else { return };
        crew.idle.borrow_mut().push(Rc::clone(&seat));
        work = poll_fn(|context| seat.poll(context)).await;
    }
}

impl Crew {
    fn of(server: &'static Server) -> Option<&'static Self> {
        server.kept.get_or_init(|| Box::new(Self::default())).downcast_ref()
    }
}

impl Seat {
    fn give(&self, work: Work) {
        *self.work.borrow_mut() = Some(work);
        self.waker.borrow().iter().for_each(Waker::wake_by_ref);
    }

    fn poll(&self, context: &Context<'_>) -> Poll<Work> {
        if let Some(work) = self.work.borrow_mut().take() {
            return Poll::Ready(work);
        }
        match &mut *self.waker.borrow_mut() {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}
