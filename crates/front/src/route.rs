//! Which handler a request goes to: a page of the server's own, or the application that is mounted at its path.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;
use std::task::{Context, Poll};

use howdah_http1::decode_path;
use howdah_wire::RequestReader;

use crate::app::{Job, Pool};
use crate::exchange::Exchange;
use crate::fault::Fault;
use crate::fill::{self, Body};
use crate::pages::{Found, Local, PageJob};
use crate::record::{Account, Identity};
use crate::request::Request;
use crate::request_id::Ids;
use crate::response::Event;
use crate::slots::Spool;

/// The handlers of a front thread.
#[derive(Debug)]
pub(crate) struct Router {
    pages: Option<Arc<Local>>,
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
}

/// A handler that has a request.
#[derive(Debug, Default)]
pub(crate) enum Handling {
    /// None has.
    #[default]
    Nobody,
    App(Job),
    Page(PageJob),
}

impl Router {
    /// The first of the pools is for every path that no other is mounted at.
    pub(crate) fn new(pages: Option<Arc<Local>>, pools: &[&'static Pool], ids: &'static Ids) -> Option<Self> {
        let (&first, others) = pools.split_first()?;
        let mount = |pool: &&'static Pool| {
            let mount = pool.setup.mount.as_deref().unwrap_or_default();
            (mount.trim_end_matches('/').as_bytes().to_vec(), *pool)
        };
        let mut mounted: Vec<_> = others.iter().map(mount).collect();
        mounted.sort_by_key(|(mount, _)| std::cmp::Reverse(mount.len()));
        Some(Self { pages, first, mounted, ids, path: RefCell::default() })
    }

    /// Who answers this request.
    pub(crate) fn target(&self, request: &Request<'_>) -> Target {
        match self.pages.as_ref().and_then(|pages| pages.find(request)) {
            Some(found) => Target::Page(found),
            None => Target::App(self.pool(request)),
        }
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
            Target::App(pool) => match pool.queue(exchange, request, body) {
                Ok(slot) => Ok(Handling::App(Job::new(pool, slot))),
                Err(fault) => {
                    self.set_aside(&mut exchange.account, request);
                    Err(fault)
                }
            },
        }
    }

    /// As [`Router::begin`] for an application, with a body that has a place of its own.
    pub(crate) fn begin_spooled(
        &self,
        pool: &'static Pool,
        exchange: &mut Exchange,
        request: &Request<'_>,
        (spool, length): (Spool, u64),
    ) -> Result<Handling, Fault> {
        let handling = self.begin(Target::App(pool), exchange, request, Body::Spooled(&spool, length))?;
        if let Handling::App(job) = &handling {
            // It must last as long as a worker may look at the slot, which can be longer than the exchange.
            job.keep(spool);
        }
        Ok(handling)
    }

    /// Keeps the words of a request that goes into no slot, for its answer and the log.
    pub(crate) fn set_aside(&self, account: &mut Account, request: &Request<'_>) {
        if let Some((words, id)) = fill::copy(request, self.ids) {
            account.request = Some(words);
            account.id = id;
        }
    }
}

impl Handling {
    /// What there is of the response.
    pub(crate) fn poll(&mut self, exchange: &Exchange, context: &mut Context<'_>) -> Poll<Event> {
        match self {
            Self::App(job) => job.poll(exchange, context),
            Self::Page(job) => job.poll(context).map(Event::Response),
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
