//! The server's side of the control socket. `serve` starts it; what concerns the whole process goes back there as an
//! [`Wish`], the rest is done by `operations`.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener as Listening;
use std::time::Duration;

use howdah_front::Repeated;
use howdah_sys::shortage::with_way_out;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Interest};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use crate::findings::{heap, leaks, nytprof};
use crate::operations::Operations;
use crate::pools::Pool;
use crate::protocol::{Change, ControlAnswer, ControlRequest, HeapWish, LeaksWish, NytprofWish};
use crate::status::Observer;
use crate::wish::{Reply, Wish};

/// Bytes of a request.
const LONGEST: u64 = 4096;
/// Time for a request to arrive.
const PATIENCE: Duration = Duration::from_secs(5);
/// Rest when no connection can be accepted.
const REST: Duration = Duration::from_millis(200);

/// Why a server does not do yet what it is asked for.
const STARTING: &str = "the server is starting, its application is not loaded yet: ask again when howdah status says that it \
    is ready, or end it by howdah stop";

/// Whom requests go to.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    /// For the state of the server.
    pub(crate) observer: Observer,
    /// For what concerns the workers; none before the application is loaded.
    pub(crate) operations: Option<Operations>,
    /// For what concerns the process.
    pub(crate) wishes: mpsc::UnboundedSender<Wish>,
}

/// Answers on `listener` until aborted.
pub(crate) fn start(listener: Listening, desk: Desk) -> io::Result<AbortHandle> {
    listener.set_nonblocking(true)?;
    let listener = UnixListener::from_std(listener)?;
    Ok(tokio::spawn(accept(listener, desk)).abort_handle())
}

async fn accept(listener: UnixListener, desk: Desk) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(converse(stream, desk.clone()))),
            Err(error) => {
                static TOLD: Repeated = Repeated::new();
                if let Some(again) = TOLD.pass() {
                    tracing::warn!("the control socket takes no connection: {}{again}", with_way_out(&error));
                }
                tokio::time::sleep(REST).await;
            }
        }
    }
}

async fn converse(mut stream: UnixStream, desk: Desk) {
    let answer = match permitted(&stream) {
        Ok(()) => match hear(&mut stream).await {
            Ok(request) => desk.answer(request, &mut stream).await,
            Err(reason) => Some(ControlAnswer::Failed(reason)),
        },
        Err(reason) => Some(ControlAnswer::Failed(reason)),
    };
    if let Some(answer) = answer {
        say(&mut stream, &answer).await;
    }
}

/// The mode of the file keeps others out already; it may have been changed.
fn permitted(stream: &UnixStream) -> Result<(), String> {
    let peer = stream.peer_cred().map_err(|error| format!("cannot tell who you are: {error}"))?.uid();
    if peer == 0 || peer == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    Err(format!("user {peer} may not control this server: ask as root or as the user that it runs as"))
}

async fn hear(stream: &mut UnixStream) -> Result<ControlRequest, String> {
    let mut line = String::new();
    let mut reader = BufReader::new(stream.take(LONGEST));
    match tokio::time::timeout(PATIENCE, reader.read_line(&mut line)).await {
        Ok(Ok(_)) => serde_json::from_str(&line).map_err(|error| format!("no request: {error}")),
        Ok(Err(error)) => Err(format!("no request: {error}")),
        Err(_) => Err("no request came".to_owned()),
    }
}

/// A client that has gone away is not told.
async fn say(stream: &mut UnixStream, answer: &ControlAnswer) {
    if let Ok(mut line) = serde_json::to_vec(answer) {
        line.push(b'\n');
        let _ = stream.write_all(&line).await;
    }
}

/// Resolves when the client has left; it says nothing more before that.
async fn gone(stream: &mut UnixStream) {
    while matches!(stream.read(&mut [0; 64]).await, Ok(1..)) {}
}

/// Answers with a file. What remains to be said when that does not go.
async fn hand_over(stream: &UnixStream, file: &File, answer: ControlAnswer) -> Option<ControlAnswer> {
    let mut line = serde_json::to_vec(&answer).ok()?;
    line.push(b'\n');
    let send = || howdah_sys::send_with_fds(stream, &line, &[file.as_fd()]);
    let sent = stream.async_io(Interest::WRITABLE, send).await;
    sent.err().map(|error| ControlAnswer::Failed(format!("the file cannot be handed over: {error}")))
}

impl Desk {
    /// None when the answer has been given already.
    async fn answer(&self, request: ControlRequest, stream: &mut UnixStream) -> Option<ControlAnswer> {
        match request {
            ControlRequest::Status => {
                Some(ControlAnswer::Status(Box::new(self.observer.snapshot(false).await)))
            }
            ControlRequest::Snapshot => {
                Some(ControlAnswer::Snapshot(Box::new(self.observer.snapshot(true).await)))
            }
            ControlRequest::Reload { pool } => Some(answer(self.reload(pool.as_deref()).await)),
            ControlRequest::Workers { pool, change } => {
                Some(answer(self.resize(pool.as_deref(), change).await))
            }
            ControlRequest::Leaks(wish) => Some(self.leaks(&wish, stream).await),
            ControlRequest::Heap(wish) => self.heap(&wish, stream).await,
            ControlRequest::Nytprof(wish) => self.nytprof(&wish, stream).await,
            ControlRequest::Upgrade => Some(answer(self.wish(Wish::Upgrade).await)),
            ControlRequest::Reopen => Some(answer(self.wish(Wish::Reopen).await)),
            ControlRequest::Stop { now } => {
                say(stream, &ControlAnswer::Done("stopping".to_owned())).await;
                let _ = self.wishes.send(if now { Wish::StopNow } else { Wish::Stop });
                // The client waits for the end of the connection, which is that of the process.
                std::future::pending().await
            }
        }
    }

    fn operations(&self) -> Result<&Operations, String> {
        self.operations.as_ref().ok_or_else(|| STARTING.to_owned())
    }

    fn pool(&self, name: Option<&str>) -> Result<&Pool, String> {
        let pools = &self.operations()?.pools;
        let which = name.map_or_else(|| pools.only(), |name| pools.number_of(name))?;
        Ok(&pools.all()[which])
    }

    async fn reload(&self, pool: Option<&str>) -> Result<String, String> {
        let operations = self.operations()?;
        let which = match pool {
            Some(name) => vec![operations.pools.number_of(name)?],
            None => operations.pools.numbers(),
        };
        operations.reload(&which).await
    }

    async fn resize(&self, pool: Option<&str>, change: Change) -> Result<String, String> {
        let operations = self.operations()?;
        let pools = &operations.pools;
        let which = pool.map_or_else(|| pools.only(), |name| pools.number_of(name))?;
        operations.resize(which, change).await
    }

    async fn leaks(&self, wish: &LeaksWish, stream: &mut UnixStream) -> ControlAnswer {
        let found = match self.pool(wish.pool.as_deref()) {
            Ok(pool) => leaks::look(pool, wish, gone(stream)).await,
            Err(reason) => Err(reason),
        };
        found.map_or_else(ControlAnswer::Failed, |report| ControlAnswer::Leaks(Box::new(report)))
    }

    async fn heap(&self, wish: &HeapWish, stream: &mut UnixStream) -> Option<ControlAnswer> {
        let pool = match self.pool(wish.pool.as_deref()) {
            Ok(pool) => pool,
            Err(reason) => return Some(ControlAnswer::Failed(reason)),
        };
        if let Some(class) = &wish.why {
            let found = heap::why(pool, wish, class, gone(stream)).await;
            return Some(
                found.map_or_else(ControlAnswer::Failed, |found| ControlAnswer::Why(Box::new(found))),
            );
        }
        match heap::dump(pool, wish, gone(stream)).await {
            Ok((file, worker)) => hand_over(stream, &file, ControlAnswer::Heap(worker)).await,
            Err(reason) => Some(ControlAnswer::Failed(reason)),
        }
    }

    async fn nytprof(&self, wish: &NytprofWish, stream: &mut UnixStream) -> Option<ControlAnswer> {
        let found = match self.pool(wish.pool.as_deref()) {
            Ok(pool) => nytprof::profile(pool, wish, gone(stream)).await,
            Err(reason) => Err(reason),
        };
        match found {
            Ok((file, about)) => hand_over(stream, &file, ControlAnswer::Profiled(about)).await,
            Err(reason) => Some(ControlAnswer::Failed(reason)),
        }
    }

    async fn wish(&self, wish: fn(Option<Reply>) -> Wish) -> Result<String, String> {
        self.operations()?;
        let (reply, outcome) = oneshot::channel();
        let _ = self.wishes.send(wish(Some(reply)));
        outcome.await.unwrap_or_else(|_| Err("the server is stopping".to_owned()))
    }
}

fn answer(outcome: Result<String, String>) -> ControlAnswer {
    match outcome {
        Ok(message) => ControlAnswer::Done(message),
        Err(reason) => ControlAnswer::Failed(reason),
    }
}
