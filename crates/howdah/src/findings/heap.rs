//! `howdah heap`: has one worker fork, so that a child writes the heap, or tells what holds the objects of a class, while the
//! worker goes on. The file with the heap is only handed on; whoever asked reads it.

use std::fs::File;
use std::future::Future;
use std::time::Duration;

use howdah_find::heap::Holders;
use howdah_front::WorkerAnswer;
use howdah_supervisor::WorkerInfo;
use howdah_wire::{Inquiry, class_hash};

use crate::inquiry::{Heard, is_stopped, read_sealed};
use crate::pools::Pool;
use crate::protocol::HeapWish;

/// Time for the worker to come to it, and for its child.
const PATIENCE: Duration = Duration::from_secs(600);
/// Bytes of what a child tells.
const MOST: u64 = 64 << 20;

/// A file with the heap of a worker, whatever that has put there.
///
/// # Errors
/// A sentence, when there is none.
pub(crate) async fn dump(
    pool: &Pool,
    wish: &HeapWish,
    gone: impl Future<Output = ()>,
) -> Result<(File, String), String> {
    let (worker, answer) = ask(pool, wish, Inquiry::Heap, wish.megabytes.max(1), gone).await?;
    let text = String::from_utf8_lossy(&answer.text).into_owned();
    answer.file.map(|(file, _)| (File::from(file), worker.clone())).ok_or_else(|| format!("{worker}: {text}"))
}

/// What holds the objects of the class.
///
/// # Errors
/// A sentence, when that cannot be told.
pub(crate) async fn why(
    pool: &Pool,
    wish: &HeapWish,
    class: &str,
    gone: impl Future<Output = ()>,
) -> Result<Holders, String> {
    let (worker, answer) = ask(pool, wish, Inquiry::Why, class_hash(class.as_bytes()), gone).await?;
    let Some((file, permit)) = answer.file else {
        return Err(format!("{worker}: {}", String::from_utf8_lossy(&answer.text)));
    };
    let read = tokio::task::spawn_blocking(move || {
        let read = read_sealed(&file.into(), MOST);
        drop(permit);
        read
    });
    let bytes = read.await.map_err(|error| error.to_string())?;
    let bytes = bytes.map_err(|error| format!("{worker}: its answer cannot be read: {error}"))?;
    Holders::read(class, &worker, &bytes).ok_or_else(|| format!("{worker}: its answer is none"))
}

/// The first answer of a worker, and what that is called.
async fn ask(
    pool: &Pool,
    wish: &HeapWish,
    inquiry: Inquiry,
    what: u32,
    gone: impl Future<Output = ()>,
) -> Result<(String, WorkerAnswer), String> {
    // One that has no request comes to it at once, one that has been stopped never.
    let chosen = |all: &[WorkerInfo]| {
        let fits = |worker: &&WorkerInfo| wish.worker.is_none_or(|number| number == worker.index);
        let first = all.iter().filter(fits).min_by_key(|worker| (is_stopped(worker), worker.slot.is_some()));
        first.map(|worker| worker.index).into_iter().collect()
    };
    let mut talk = pool.inquiries.ask(inquiry, what, chosen).await?;
    let heard = tokio::select! {
        () = gone => return Err("nobody wants to know any more".to_owned()),
        heard = tokio::time::timeout(PATIENCE, talk.next()) => heard,
    };
    match heard {
        Ok(Some(Heard::Answer(worker, answer))) => Ok((worker.named(), answer)),
        Ok(Some(Heard::Gone(worker))) => Err(format!("{} has died before it could tell", worker.named())),
        Ok(None) | Err(_) => {
            let silent = talk.silent().map(crate::inquiry::Asked::named).collect::<Vec<_>>().join(", ");
            Err(format!("{silent} has not told in ten minutes: see howdah status, and the error log"))
        }
    }
}
