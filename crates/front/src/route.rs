//! Which handler a request goes to: a page of the server's own, or the application that is mounted at its path.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;
use std::task::{Context, Poll};

use howdah_http1::decode_path;
use howdah_tls::Challenges;
use howdah_wire::RequestReader;

use crate::app::{Job, Pool};
use crate::exchange::Exchange;
use crate::fault::Fault;
use crate::pages::{Found, OwnPages, PageJob, answer, challenge, redirect};
use crate::record::{Account, Identity};
use crate::request::Request;
use crate::request_id::Ids;
use crate::request_record::{self, Body};
use crate::response::{Event, Response};

/// The handlers of a front thread.
#[derive(Debug)]
pub(crate) struct Router {
    pages: Option<Arc<OwnPages>>,
    /// What authorities for certificates are shown.
    challenges: Option<Arc<Challenges>>,
    /// For every path that no other takes.
    first: &'static Pool,
    /// With where they are mounted, the longest path first.
    mounted: Vec<(Vec<u8>, &'static Pool)>,
    ids: &'static Ids,
    /// A path, decoded.
    path: RefCell<Vec<u8>>,
}

/// A handler for one request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    App(&'static Pool),
    Page(Found),
    /// What an authority for certificates looks for.
    Challenge,
    /// To the same by TLS, at this port.
    Redirect(u16),
}

/// A handler that has a request.
#[derive(Debug, Default)]
pub(crate) enum Handling {
    /// None has.
    #[default]
    Nobody,
    App(Job),
    Page(PageJob),
    /// An answer that needs nobody; none once it was taken.
    Ready(Option<Box<Response>>),
}

impl Router {
    /// The first of the pools is for every path that nothing is mounted at, be it mounted itself or not.
    pub(crate) fn new(
        pages: Option<Arc<OwnPages>>,
        challenges: Option<Arc<Challenges>>,
        pools: &[&'static Pool],
        ids: &'static Ids,
    ) -> Option<Self> {
        let &first = pools.first()?;
        let mount = |pool: &&'static Pool| {
            let mount = pool.setup.mount.as_deref().unwrap_or_default();
            (mount.trim_end_matches('/').as_bytes().to_vec(), *pool)
        };
        // One alone has everything.
        let mut mounted: Vec<_> = pools.iter().filter(|_| pools.len() > 1).map(mount).collect();
        mounted.sort_by_key(|(mount, _)| std::cmp::Reverse(mount.len()));
        Some(Self { pages, challenges, first, mounted, ids, path: RefCell::default() })
    }

    fn pools(&self) -> impl Iterator<Item = &'static Pool> {
        let mounted = self.mounted.iter().map(|&(_, pool)| pool);
        std::iter::once(self.first).filter(|_| self.mounted.is_empty()).chain(mounted)
    }

    /// Whether any application may take connections.
    pub(crate) fn lends(&self) -> bool {
        self.pools().any(|pool| pool.setup.upgrades.most() > 0)
    }

    /// Who answers this request.
    pub(crate) fn target(&self, request: &Request<'_>) -> Target {
        if self.challenge(request).is_some() {
            return Target::Challenge;
        }
        if let Some(port) = request.client.origin.redirect {
            return Target::Redirect(port);
        }
        match self.pages.as_ref().and_then(|pages| pages.find(request)) {
            Some(found) => Target::Page(found),
            None => Target::App(self.pool(request)),
        }
    }

    fn challenge(&self, request: &Request<'_>) -> Option<String> {
        challenge(request, self.challenges.as_ref()?)
    }

    fn pool(&self, request: &Request<'_>) -> &'static Pool {
        if self.mounted.is_empty() {
            return self.first;
        }
        let mut path = self.path.borrow_mut();
        path.clear();
        if decode_path(request.path, &mut path).is_err() {
            return self.first; // which refuses it
        }
        let lies_below = |(mount, _): &&(Vec<u8>, &'static Pool)| {
            path.strip_prefix(mount.as_slice()).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        };
        self.mounted.iter().find(lies_below).map_or(self.first, |&(_, pool)| pool)
    }

    /// Refuses a request by its head, before its body is asked for, that no application could have.
    pub(crate) fn check(&self, account: &mut Account, request: &Request<'_>) -> Result<(), Fault> {
        let mut path = self.path.borrow_mut();
        path.clear();
        let decoded = decode_path(request.path, &mut path);
        Ok(decoded.inspect_err(|_| self.set_aside(account, request))?)
    }

    /// Gives a complete request to its handler.
    pub(crate) fn begin(
        &self,
        target: Target,
        exchange: &mut Exchange,
        request: &Request<'_>,
        body: Body<'_>,
    ) -> Result<Handling, Fault> {
        match target {
            Target::Page(found) => {
                self.set_aside(&mut exchange.account, request);
                let page = self.pages.as_ref().map(|pages| pages.ask(found, request));
                Ok(page.map_or(Handling::Nobody, Handling::Page))
            }
            Target::Challenge => {
                self.set_aside(&mut exchange.account, request);
                Ok(Handling::Ready(Some(Box::new(answer(self.challenge(request))))))
            }
            Target::Redirect(port) => {
                self.set_aside(&mut exchange.account, request);
                Ok(Handling::Ready(Some(Box::new(redirect(request, port)))))
            }
            Target::App(pool) => match pool.queue(exchange, request, body) {
                Ok(slot) => Ok(Handling::App(Job::new(pool, slot))),
                Err(fault) => {
                    self.set_aside(&mut exchange.account, request);
                    Err(fault)
                }
            },
        }
    }

    /// Keeps the words of a request that goes into no slot, for its answer and the log.
    pub(crate) fn set_aside(&self, account: &mut Account, request: &Request<'_>) {
        if let Some((words, id)) = request_record::copy(request, self.ids) {
            account.request = Some(words);
            account.id = id;
        }
    }

    /// Names what is refused, also where its head could not be read.
    pub(crate) fn name(&self, account: &mut Account) {
        if account.id.bytes().is_empty() {
            account.id = self.ids.invent();
        }
    }
}

impl Handling {
    /// What there is of the response.
    pub(crate) fn poll(&mut self, exchange: &Exchange, context: &mut Context<'_>) -> Poll<Event> {
        match self {
            Self::App(job) => job.poll(exchange, context),
            Self::Page(job) => job.poll(context).map(Event::Response),
            Self::Ready(answer) => Poll::Ready(match answer.take() {
                Some(answer) => Event::Response(*answer),
                None => Event::Fault(Fault::NoResponse),
            }),
            Self::Nobody => Poll::Ready(Event::Fault(Fault::NoResponse)),
        }
    }

    /// The application's job, when one has the request.
    pub(crate) fn job(&self) -> Option<&Job> {
        match self {
            Self::App(job) => Some(job),
            _ => None,
        }
    }

    /// Notes which worker has made the response.
    pub(crate) fn note_worker(&self, account: &mut Account) {
        account.worker = self.job().and_then(Job::worker).or(account.worker);
    }

    /// Gives up what the handler holds before the response is out, with a copy of what the log will want.
    pub(crate) fn part(&mut self, account: &mut Account) {
        if let Self::App(job) = self {
            job.part(account);
        }
    }

    /// Gives up what the handler holds.
    pub(crate) fn give_back(&mut self) {
        if let Self::App(job) = self {
            job.give_back();
        }
    }

    /// The words of the request, without its body; none when there is no request.
    pub(crate) fn request<'a>(&'a self, account: &'a Account) -> RequestReader<'a> {
        match (&account.request, self) {
            (Some(copy), _) => RequestReader::new(copy),
            (None, Self::App(job)) => job.request(),
            (None, _) => RequestReader::new(&[]),
        }
    }

    /// The words of the request will be wanted soon.
    pub(crate) fn prefetch_request(&self) {
        if let Self::App(job) = self {
            job.prefetch_request();
        }
    }

    /// What the worker has reported of its env.
    pub(crate) fn report<'a>(&'a self, account: &'a Account) -> Cow<'a, [u8]> {
        match (&account.report, self) {
            (Some(copy), _) => Cow::Borrowed(copy),
            (None, Self::App(job)) => job.report(),
            (None, _) => Cow::Borrowed(&[]),
        }
    }

    /// Where the application is mounted.
    pub(crate) fn mount(&self) -> Option<&str> {
        self.job().and_then(Job::mount)
    }

    /// Who that worker is.
    pub(crate) fn identity(&self, worker: Option<u16>) -> Identity {
        self.job().map_or_else(Identity::default, |job| job.identity(worker))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;
    use crate::config::Config;
    use crate::sample::world::{Terms, World, beside, run};
    use crate::sample::{client, with};
    use crate::slots::Spool;

    /// Applications at no path, at /app and below that, and at one with a slash at its end.
    fn world() -> World {
        World::with(Config::default(), Terms { max_queue: 1, ..Terms::default() }, |setup| {
            let first = setup.pools[0].clone();
            setup.pools.extend(["/app", "/app/deep", "/app/de", "/odd/"].map(|mount| beside(&first, mount)));
        })
    }

    fn router(world: &World) -> &Router {
        &world.thread.entrance.server.router
    }

    fn target(world: &World, line: &str) -> Target {
        let head = format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        with(&head, &client("127.0.0.1"), |request| router(world).target(request))
    }

    #[test]
    fn the_first_application_may_be_mounted_below_another() {
        run(async {
            let world = World::with(Config::default(), Terms { max_queue: 1, ..Terms::default() }, |setup| {
                let first = setup.pools[0].clone();
                setup.pools.extend(["/", "/app"].map(|mount| beside(&first, mount)));
                setup.pools[0].mount = Some("/app/first".to_owned());
            });
            for (line, expected) in [
                ("GET /app/first", "/app/first"),
                ("GET /app/first/x", "/app/first"),
                ("GET /app/firstly", "/app"),
                ("GET /app", "/app"),
                ("GET /other", "/"),
                ("GET /app/%zz", "/app/first"),
            ] {
                let Target::App(pool) = target(&world, line) else { panic!("{line}: a page") };
                assert_eq!(pool.setup.mount.as_deref(), Some(expected), "{line}");
            }
        });
    }

    #[test]
    fn a_request_goes_to_a_page_or_to_the_application_with_the_longest_mount() {
        run(async {
            let world = world();
            for (line, expected) in [
                ("GET /", "first"),
                ("GET /x/app", "first"),
                ("GET /app", "/app"),
                ("GET /app/", "/app"),
                ("GET /app?x", "/app"),
                ("GET /app/x", "/app"),
                ("GET /apple", "first"),
                ("GET /ap", "first"),
                ("GET /app/deep", "/app/deep"),
                ("GET /app/deep/er", "/app/deep"),
                ("GET /app/deeper", "/app"),
                ("GET /app/de/ep", "/app/de"),
                ("GET /%61pp/x", "/app"),
                ("GET /app%2Fdeep", "/app/deep"),
                ("GET /app/%64eep%2fx", "/app/deep"),
                ("GET /%2561pp", "first"),
                ("GET /app/%zz", "first"),
                ("GET /odd", "/odd/"),
                ("GET /odd/x", "/odd/"),
                ("GET /oddity", "first"),
                ("OPTIONS *", "first"),
                ("GET /health", "page"),
                ("HEAD /health", "page"),
                ("POST /health", "first"),
                ("GET /health/", "first"),
                ("GET /app/health", "/app"),
            ] {
                let found = match target(&world, line) {
                    Target::Page(_) => "page",
                    Target::Challenge | Target::Redirect(_) => "elsewhere",
                    Target::App(pool) => pool.setup.mount.as_deref().unwrap_or("first"),
                };
                assert_eq!(found, expected, "{line}");
            }
        });
    }

    #[test]
    fn a_page_at_the_path_of_an_application_comes_first() {
        run(async {
            let world = World::with(Config::default(), Terms::default(), |setup| {
                let first = setup.pools[0].clone();
                setup.pools.push(beside(&first, "/health"));
            });
            assert!(matches!(target(&world, "GET /health"), Target::Page(_)));
            assert!(matches!(target(&world, "GET /health/x"), Target::App(_)));
        });
    }

    #[test]
    fn without_an_application_there_is_no_router() {
        let ids = crate::sample::forever(Ids::new(true).unwrap());
        assert!(Router::new(None, None, &[], ids).is_none());
    }

    /// Begins a request at its target.
    fn begin(world: &World, exchange: &mut Exchange, line: &str) -> Result<Handling, Fault> {
        let head = format!("{line} HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: mine\r\n\r\n");
        with(&head, &client("127.0.0.1"), |request| {
            router(world).begin(router(world).target(request), exchange, request, Body::Inline(b""))
        })
    }

    #[test]
    fn the_words_of_a_request_are_found_wherever_they_are() {
        run(async {
            let world = world();
            let mut kept = Exchange::default();
            let _first = begin(&world, &mut kept, "GET /app").unwrap();
            // What is asked for, whether a handler has it, where it is mounted, and whether its words were set aside.
            for (line, has, mount, aside) in [
                ("GET /a?b", true, None, false),
                ("GET /odd/x", true, Some("/odd/"), false),
                ("GET /health?b", true, None, true),
                ("GET /app/refused", false, None, true),
            ] {
                let mut exchange = Exchange::default();
                let begun = begin(&world, &mut exchange, line);
                assert_eq!(begun.is_ok(), has, "{line}");
                assert_eq!(exchange.account.request.is_some(), aside, "{line}");
                assert_eq!(exchange.account.id.bytes(), b"mine", "{line}");
                let mut handling = begun.unwrap_or_default();
                assert_eq!(handling.mount(), mount, "{line}");
                let target = line.split_once(' ').unwrap().1.as_bytes();
                assert_eq!(handling.request(&exchange.account).uri(), target, "{line}");
                assert!(handling.report(&exchange.account).is_empty());
                handling.part(&mut exchange.account);
                assert!(exchange.account.request.is_some(), "{line}: a copy was made");
                assert_eq!(handling.request(&exchange.account).uri(), target, "{line}");
                exchange.account.report = Some(b"said"[..].into());
                assert_eq!(&*handling.report(&exchange.account), b"said");
            }
        });
    }

    #[test]
    fn where_nobody_has_a_request_there_is_no_response_and_no_word() {
        run(async {
            let world = world();
            let exchange = Exchange::default();
            let mut context = Context::from_waker(Waker::noop());
            let mut nobody = Handling::default();
            let said = nobody.poll(&exchange, &mut context);
            assert!(matches!(said, Poll::Ready(Event::Fault(Fault::NoResponse))));
            assert!(nobody.job().is_none() && nobody.request(&exchange.account).uri().is_empty());
            assert_eq!((nobody.identity(Some(0)).pid, nobody.mount()), (0, None));
            let mut page = begin(&world, &mut Exchange::default(), "GET /health").unwrap();
            assert!(page.poll(&exchange, &mut context).is_pending() && page.job().is_none());
        });
    }

    #[test]
    fn an_applications_handler_knows_its_worker_and_gives_its_slot_back() {
        run(async {
            let world = World::with(Config::default(), Terms::default(), |setup| {
                setup.pools[0].roster.forked(0, 4711);
            });
            let mut exchange = Exchange::default();
            let mut handling = begin(&world, &mut exchange, "GET /a").unwrap();
            assert!(world.worker.serve() && world.pool().turn());
            let said = handling.poll(&exchange, &mut Context::from_waker(Waker::noop()));
            assert!(matches!(said, Poll::Ready(Event::Response(_))));
            assert_eq!(handling.identity(Some(0)).pid, 4711);
            handling.give_back();
            assert_eq!(world.pool().dispatch.borrow().in_flight, 0);
        });
    }

    #[test]
    fn a_body_with_a_place_of_its_own_lasts_as_long_as_the_slot() {
        run(async {
            let world = world();
            let begin = |exchange: &mut Exchange| {
                let spool = Spool::Extent(world.pool().extent_for_body(None).unwrap());
                let head = "POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n";
                with(head, &client("127.0.0.1"), |request| {
                    router(&world).begin(
                        Target::App(world.pool()),
                        exchange,
                        request,
                        Body::Spooled(spool, 5),
                    )
                })
            };
            let kept = || world.pool().dispatch.borrow().kept(0).is_some();
            let mut exchange = Exchange::default();
            let handling = begin(&mut exchange).unwrap();
            assert!(kept());
            assert!(begin(&mut Exchange::default()).is_err(), "the queue is full");
            drop(handling);
            assert!(!kept());
        });
    }
}
