//! `howdah leaks`: has workers note what is blessed, for a time or for a number of requests, and puts their reports together.
//! It ends earlier when all of them have left, and when whoever asked has gone.

use std::future::Future;
use std::time::Duration;

use howdah_find::growth::growing;
use howdah_find::leaks::Report;
use howdah_front::WorkerAnswer;
use howdah_supervisor::WorkerInfo;
use howdah_wire::{Inquiry, LEAKS_SINCE, LEAKS_TRACK, WorkerCell};
use tokio::time::{Instant, sleep, sleep_until};

use crate::inquiry::{Asked, Conversation, Heard, is_stopped, read_sealed};
use crate::pools::Pool;
use crate::protocol::LeaksWish;

/// Time for a worker to come to its report: one that is at a long request does not before its end.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often requests are counted.
const LOOK: Duration = Duration::from_millis(20);
/// Why a look may be shorter than was asked for.
const EARLY: &str = "all workers that were asked have left before the end, for a reload, a stop, --max-requests or --refork: ask again";
/// Bytes of a worker's report.
const MOST: u64 = 64 << 20;

/// Looks for leaks in the workers of this application; `gone` resolves when nobody wants to know any more.
///
/// # Errors
/// A sentence, when nobody can be asked.
pub(crate) async fn look(
    pool: &Pool,
    wish: &LeaksWish,
    gone: impl Future<Output = ()>,
) -> Result<Report, String> {
    let most = wish.workers.unwrap_or(usize::MAX);
    // Those that have been stopped run no requests.
    let first = |all: &[WorkerInfo]| {
        let mut all: Vec<&WorkerInfo> = all.iter().collect();
        all.sort_by_cached_key(|worker| is_stopped(worker));
        all.into_iter().take(most).map(|worker| worker.index).collect()
    };
    let what = if wish.since_last { LEAKS_SINCE } else { 0 };
    let mut talk = pool.inquiries.ask(Inquiry::Leaks, LEAKS_TRACK | what, first).await?;
    let mut report = Report { pool: pool.name.to_string(), ..Report::default() };
    let begun = Instant::now();
    let ended = tokio::select! {
        () = gone => return Err("nobody wants to know any more".to_owned()),
        ended = follow(&mut talk, &mut report, wish, what) => ended,
    };
    report.seconds = ended.duration_since(begun).as_secs_f64();
    let asked = talk.asked().iter().flat_map(|worker| talk.segment().routes(worker.index));
    report.routes = growing(asked.map(howdah_wire::RouteCell::read));
    report.conclude();
    Ok(report)
}

/// Until all have told, or do not; when it came to that.
async fn follow(talk: &mut Conversation, report: &mut Report, wish: &LeaksWish, what: u32) -> Instant {
    let counter = Counter::new(talk);
    let mut end = Box::pin(over(counter, wish.clone()));
    let mut ended: Option<Instant> = None;
    loop {
        tokio::select! {
            heard = talk.next() => match heard {
                Some(heard) => take(report, heard).await,
                None => {
                    if ended.is_none() {
                        report.notes.push(EARLY.to_owned());
                    }
                    return ended.unwrap_or_else(Instant::now);
                }
            },
            () = &mut end, if ended.is_none() => {
                talk.say(what);
                ended = Some(Instant::now());
            }
            () = sleep_until(ended.unwrap_or_else(Instant::now) + PATIENCE), if ended.is_some() => {
                let late = talk.silent().map(|worker| format!(
                    "{} has not told: it is still at a request, or stopped, see howdah where", worker.named()
                ));
                report.notes.extend(late);
                return ended.unwrap_or_else(Instant::now);
            }
        }
    }
}

/// Resolves when the time is over or the requests have been run.
async fn over(counter: Counter, wish: LeaksWish) {
    let enough = async {
        let Some(requests) = wish.requests else { return std::future::pending().await };
        while counter.count() < requests {
            sleep(LOOK).await;
        }
    };
    tokio::select! {
        () = sleep(Duration::from_millis(wish.milliseconds)) => {}
        () = enough => {}
    }
}

/// Counts the requests of some workers, as they tell in their cells.
struct Counter {
    cells: Vec<(&'static WorkerCell, u64)>,
}

impl Counter {
    fn new(talk: &Conversation) -> Self {
        let cells =
            talk.asked().iter().filter_map(|worker| talk.segment().workers().get(usize::from(worker.index)));
        Self { cells: cells.map(|cell| (cell, requests(cell))).collect() }
    }

    fn count(&self) -> u64 {
        self.cells
            .iter()
            .map(|&(cell, before)| requests(cell).saturating_sub(before))
            .fold(0, u64::saturating_add)
    }
}

fn requests(cell: &WorkerCell) -> u64 {
    cell.requests.load(std::sync::atomic::Ordering::Acquire)
}

async fn take(report: &mut Report, heard: Heard) {
    match heard {
        Heard::Gone(worker) => report.notes.push(format!("{} has died before it could tell", worker.named())),
        Heard::Answer(worker, answer) => {
            if let Err(why) = add(report, &worker, answer).await {
                report.notes.push(format!("{}: {why}", worker.named()));
            }
        }
    }
}

async fn add(report: &mut Report, worker: &Asked, answer: WorkerAnswer) -> Result<(), String> {
    let Some((file, permit)) = answer.file else {
        return Err(String::from_utf8_lossy(&answer.text).into_owned());
    };
    let read = tokio::task::spawn_blocking(move || {
        let read = read_sealed(&file.into(), MOST);
        drop(permit);
        read
    });
    let bytes = read.await.map_err(|error| error.to_string())?;
    let bytes = bytes.map_err(|error| format!("its report cannot be read: {error}"))?;
    report.add(&worker.named(), &bytes).then_some(()).ok_or_else(|| "its report is none".to_owned())
}
