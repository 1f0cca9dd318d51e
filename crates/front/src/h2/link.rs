//! What a connection and its streams know of each other.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::{Context, Waker};

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;

use crate::h2::wire::Wire;
use crate::request::Client;
use crate::server::Server;
use crate::transport::{Share, Tally};

/// Bytes that a client may send for each request, beside its body: as large a head as there may be.
const REQUEST_EARNS: u64 = 64 << 10;
/// Bytes of heads that the streams of a connection may have at a time. A client can send them a thousand times as short, since its
/// compression refers to what it has said before.
const HEADS: usize = 1 << 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) server: &'static Server,
    pub(crate) client: Client,
    pub(crate) wire: Rc<Wire>,
    /// Streams that have begun.
    pub(crate) served: Cell<u64>,
    /// Streams whose client has broken them off.
    pub(crate) abandoned: Cell<u64>,
    /// The client is cut off, since it takes too little.
    pub(crate) late: Cell<bool>,
    /// Those that are under way, and the bytes of their heads.
    open: Cell<usize>,
    heads: Cell<usize>,
    /// Those that an application has.
    taken: Cell<u32>,
    /// Those whose body waits for the disk, and since when there has been one, in monotonic nanoseconds.
    storing: Cell<(u32, u64)>,
    /// Bodies that are on their way, and what each would have of all that came of them.
    bodies: Cell<u64>,
    share: Share,
    pub(crate) tally: Rc<Tally>,
    /// The connection's task.
    waker: RefCell<Option<Waker>>,
    /// The tasks of streams that wait for something of their client: more of a body, or of a window.
    waiting: RefCell<BTreeMap<u64, Waker>>,
}

impl Link {
    pub(crate) fn new(server: &'static Server, client: Client, wire: Wire) -> Self {
        Self {
            server,
            client,
            wire: Rc::new(wire),
            served: Cell::new(0),
            abandoned: Cell::new(0),
            late: Cell::new(false),
            open: Cell::new(0),
            heads: Cell::new(0),
            taken: Cell::new(0),
            storing: Cell::default(),
            bodies: Cell::default(),
            share: Share::default(),
            tally: Rc::default(),
            waker: RefCell::default(),
            waiting: RefCell::default(),
        }
    }

    /// Streams under way.
    pub(crate) fn open(&self) -> usize {
        self.open.get()
    }

    /// Room for a head of so many bytes, as long as its stream is under way; none when others have it.
    pub(crate) fn admit(self: &Rc<Self>, bytes: usize) -> Option<Admitted> {
        let all = self.heads.get() + bytes;
        (all <= HEADS).then(|| {
            self.heads.set(all);
            Admitted { link: Rc::clone(self), bytes }
        })
    }

    /// Streams that an application has.
    pub(crate) fn taken(&self) -> u32 {
        self.taken.get()
    }

    /// An application takes another one.
    pub(crate) fn take(self: &Rc<Self>) -> Taken {
        self.taken.set(self.taken.get() + 1);
        Taken { link: Rc::clone(self) }
    }

    /// The body of another one waits for the disk.
    pub(crate) fn store(&self) -> Storing<'_> {
        let (count, since) = self.storing.get();
        self.storing.set((count + 1, if count == 0 { self.server.clock.now() } else { since }));
        Storing(self)
    }

    /// For how long bodies have waited for the disk without a pause, in nanoseconds. What has come of them meanwhile takes from the window of
    /// the connection, so that clients may be unable to go on with any other.
    pub(crate) fn stored(&self) -> u64 {
        let (count, since) = self.storing.get();
        if count == 0 { 0 } else { self.server.clock.now().saturating_sub(since) }
    }

    /// Another body is on its way as long as the value lives.
    pub(crate) fn expect_body(&self) -> Coming<'_> {
        self.bodies.set(self.bodies.get() + 1);
        Coming { link: self, since: self.share.now() }
    }

    /// Has the task of this context woken when a stream is over.
    pub(crate) fn listen(&self, context: &Context<'_>) {
        match &mut *self.waker.borrow_mut() {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
    }

    /// The stream before which there were so many waits for its client. Gives false when that says nothing more.
    pub(crate) fn await_client(&self, stream: u64, context: &Context<'_>) -> bool {
        self.waiting.borrow_mut().insert(stream, context.waker().clone());
        !self.wire.ended.get()
    }

    /// The connection has ended: nothing comes of what its streams wait for.
    pub(crate) fn end(&self) {
        self.tally.end();
        self.end_waits();
    }

    /// Wakes those that wait for what will not come.
    pub(crate) fn end_waits(&self) {
        std::mem::take(&mut *self.waiting.borrow_mut()).into_values().for_each(Waker::wake);
    }
}

/// The room that a head has.
#[derive(Debug)]
pub(crate) struct Admitted {
    link: Rc<Link>,
    bytes: usize,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.link.heads.set(self.link.heads.get() - self.bytes);
    }
}

/// An application has a stream as long as the value lives.
#[derive(Debug)]
pub(crate) struct Taken {
    link: Rc<Link>,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.link.taken.set(self.link.taken.get() - 1);
    }
}

/// A body waits for the disk as long as the value lives.
#[derive(Debug)]
pub(crate) struct Storing<'a>(&'a Link);

impl Drop for Storing<'_> {
    fn drop(&mut self) {
        let (count, since) = self.0.storing.get();
        self.0.storing.set((count - 1, since));
    }
}

/// See [`Link::expect_body`].
#[derive(Debug)]
pub(crate) struct Coming<'a> {
    link: &'a Link,
    since: u64,
}

impl Coming<'_> {
    /// So many bytes of it have come.
    pub(crate) fn came(&self, bytes: usize) {
        self.link.share.add(bytes as u64, self.link.bodies.get());
    }

    /// Bytes that it would have since it is expected, if all that came of bodies had been shared.
    pub(crate) fn share(&self) -> u64 {
        self.link.share.since(self.since)
    }
}

impl Drop for Coming<'_> {
    fn drop(&mut self) {
        self.link.bodies.set(self.link.bodies.get() - 1);
    }
}

/// A stream is under way as long as the value lives.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) link: Rc<Link>,
    /// Streams before it.
    pub(crate) served: u64,
}

/// A stream that has begun.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) open: Open,
    pub(crate) request: http::Request<RecvStream>,
    pub(crate) respond: SendResponse<Bytes>,
}

impl Open {
    pub(crate) fn new(link: &Rc<Link>) -> Self {
        let served = link.served.get();
        link.served.set(served + 1);
        link.open.set(link.open.get() + 1);
        link.tally.earn(REQUEST_EARNS);
        link.server.records.http2_stream();
        Self { link: Rc::clone(link), served }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.link.open.set(self.link.open.get() - 1);
        self.link.waiting.borrow_mut().remove(&self.served);
        self.link.waker.borrow().iter().for_each(Waker::wake_by_ref);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::Wake;
    use std::time::Duration;

    use super::*;
    use crate::config::Config;
    use crate::sample::client;
    use crate::sample::world::{World, run};
    use crate::transport::Transport;
    use crate::transport::scripted::Scripted;

    fn link(world: &World) -> Rc<Link> {
        let server = world.thread.entrance.server;
        let wire = Wire::new(server, Transport::Scripted(Scripted::new([])), Vec::new());
        Rc::new(Link::new(server, client("127.0.0.1"), wire))
    }

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn what_a_stream_has_of_its_connection_is_there_for_the_next() {
        run(async {
            let world = World::new(Config::default());
            let (link, count) = (link(&world), Arc::new(Count::default()));
            link.listen(&Context::from_waker(&Waker::from(Arc::clone(&count))));
            for before in 0..3 {
                let open = Open::new(&link);
                let (all, taken) = (link.admit(HEADS), link.take());
                assert!(all.is_some() && link.admit(1).is_none());
                assert_eq!((open.served, link.open(), link.taken()), (before, 1, 1));
                drop((open, all, taken));
                assert_eq!((link.open(), link.taken()), (0, 0));
                assert_eq!(count.0.load(Relaxed) as u64, before + 1, "the connection hears of its end");
            }
        });
    }

    #[test]
    fn what_comes_is_shared_by_the_bodies_that_are_on_their_way() {
        run(async {
            let world = World::new(Config::default());
            let link = link(&world);
            let first = link.expect_body();
            first.came(100);
            let (second, third) = (link.expect_body(), link.expect_body());
            assert_eq!([&first, &second, &third].map(Coming::share), [100, 0, 0]);
            (0..300).for_each(|_| second.came(1));
            assert_eq!([&first, &second, &third].map(Coming::share), [199, 99, 99], "rounded down");
            drop(first);
            third.came(101);
            drop(second);
            third.came(50);
            assert_eq!(third.share(), 200);
        });
    }

    #[test]
    fn the_disk_is_waited_for_from_the_first_body_to_the_last() {
        run(async {
            let world = World::new(Config::default());
            let link = link(&world);
            for _ in 0..2 {
                let pass = |seconds| world.thread.clock.advance(Duration::from_secs(seconds));
                assert_eq!(link.stored(), 0);
                let first = link.store();
                pass(1);
                let second = link.store();
                drop(first);
                pass(2);
                assert_eq!(link.stored(), 3_000_000_000);
                drop(second);
                pass(4);
            }
            assert_eq!(link.stored(), 0);
        });
    }
}
