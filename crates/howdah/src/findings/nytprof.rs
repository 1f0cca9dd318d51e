//! `howdah profile --nytprof`: one more worker of the application, from a zygote that has loaded Devel::NYTProf first. It takes its
//! share of the requests for a while, hands over what Devel::NYTProf has written, and leaves; the others do not notice.

use std::fs::File;
use std::future::Future;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use howdah_wire::Inquiry;
use tokio::time::timeout;

use crate::inquiry::{Asked, Heard};
use crate::pools::Pool;
use crate::protocol::{NytprofWish, Profiled};

/// What the worker is told in the lower half of the word.
const GO_ON: u32 = 0;
const END: u32 = 1;
/// For the application to be loaded, statement by statement.
const TO_LOAD: Duration = Duration::from_secs(300);
/// For the worker to come to its end: one that is at a long request does not before that.
const TO_END: Duration = Duration::from_secs(60);

/// A file with the profile, whatever the worker has put there.
///
/// # Errors
/// A sentence, when there is none.
pub(crate) async fn profile(
    pool: &Pool,
    wish: &NytprofWish,
    gone: impl Future<Output = ()>,
) -> Result<(File, Profiled), String> {
    tokio::select! {
        () = gone => Err("nobody wants to know any more".to_owned()),
        outcome = attend(pool, wish) => outcome,
    }
}

/// Whatever ends this sends the guest away.
async fn attend(pool: &Pool, wish: &NytprofWish) -> Result<(File, Profiled), String> {
    let guest = timeout(TO_LOAD, pool.handle.guest()).await;
    let (_lease, worker) =
        guest.unwrap_or_else(|_| Err("the application has not loaded in 5 minutes".to_owned()))?;
    let mut talk = pool.inquiries.ask(Inquiry::Profile, GO_ON, |_| vec![worker]).await?;
    let mut heard = timeout(Duration::from_millis(wish.milliseconds), talk.next()).await;
    if heard.is_err() {
        talk.say(END);
        heard = timeout(TO_END, talk.next()).await;
    }
    let cell = talk.segment().workers().get(usize::from(worker));
    let requests = cell.map_or(0, |cell| cell.requests.load(SeqCst));
    match heard {
        Ok(Some(Heard::Answer(asked, answer))) => {
            let worker = asked.named();
            let text = String::from_utf8_lossy(&answer.text);
            let file = answer.file.ok_or_else(|| format!("{worker}: {text}"))?;
            Ok((File::from(file.0), Profiled { worker, requests }))
        }
        Ok(Some(Heard::Gone(asked))) => Err(format!("{} has died: see the error log", asked.named())),
        Ok(None) | Err(_) => {
            let silent = talk.silent().map(Asked::named).collect::<Vec<_>>().join(", ");
            Err(format!("{silent} has been at one request for a minute: see howdah where"))
        }
    }
}
