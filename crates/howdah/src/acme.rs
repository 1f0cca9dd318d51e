//! Certificates by ACME: a thread of its own orders one when it is due, and has it taken over as any file that has changed.
//! What is done with the authority is in `howdah_acme`; the front shows it what it wants to see.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use howdah_acme::{Asked, Error, Patience, Place, Talk, Wish, due, is_stand_in, order, stand_in, try_root};
use howdah_tls::{Certificate, Challenges, look};
use tokio::runtime::Runtime;

use crate::options::Serve;

/// The clock may be set, and another process may have been faster: longer than this nobody sleeps.
const LOOK: Duration = Duration::from_secs(60);
/// While another process orders one.
const TURN: Duration = Duration::from_secs(5);

/// Most letters of an authority's words that are shown.
const WORDS: usize = 500;

/// See the module. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Acme {
    wish: Arc<Wish>,
    place: Place,
    pub(crate) challenges: Arc<Challenges>,
    /// Why there is no newer certificate.
    trouble: Arc<Mutex<Option<String>>>,
    /// Another process serves, and is asked by the authority.
    retired: Arc<AtomicBool>,
    pause: Arc<Pause>,
}

/// The wait for the next try after a failure, which people may shorten.
#[derive(Debug, Default)]
struct Pause {
    state: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Until when, if so.
    next: Option<Instant>,
    /// When the authority may be asked at the earliest, of its own saying.
    later: Option<Instant>,
    asked: Asked,
}

impl Acme {
    /// Sees to it that there is a certificate to begin with; none when the options name nothing.
    ///
    /// # Errors
    /// When the directory cannot be had.
    pub(crate) fn prepare(options: &Serve) -> anyhow::Result<Option<Self>> {
        let Some(place) = options.tls.acme.place() else { return Ok(None) };
        let wish = Arc::new(options.tls.acme.wish());
        try_root(&wish)?;
        place.make().context("--acme-dir does not work: name another directory")?;
        if let Some(why) = unfit(&place) {
            begin(&wish, &place, &why).context("--acme-dir does not work: name another directory")?;
        }
        let (challenges, trouble, retired, pause) = Default::default();
        Ok(Some(Self { wish, place, challenges, trouble, retired, pause }))
    }

    /// Orders certificates from now on. `reload` has what is in the files taken over.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn start(&self, reload: impl Fn() + Send + 'static) -> std::io::Result<()> {
        let acme = self.clone();
        std::thread::Builder::new().name("acme".into()).spawn(move || acme.run(reload)).map(drop)
    }

    /// Another process does it from now on.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    /// Somebody may have mended what the last try has failed for. When there is another, in seconds, if there has been one.
    pub(crate) fn hurry(&self) -> Option<u64> {
        self.pause.hurry(Instant::now()).map(|wait| wait.as_secs())
    }

    /// Why there is no newer one, if this certificate is ours.
    pub(crate) fn trouble_with(&self, certificate: &Certificate) -> Option<String> {
        let ours = certificate.file == self.place.certificate();
        let trouble = || self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ours.then(trouble).flatten()
    }

    fn run(&self, reload: impl Fn()) {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                return tracing::error!("certificates are not renewed: {error}; start the server anew");
            }
        };
        let mut patience = Patience::default();
        while self.wait_until_due() {
            let talk = Arc::new(self.talk());
            match self.renew(&reload, &runtime, &talk) {
                Ok(wait) => {
                    patience.renew();
                    std::thread::sleep(wait);
                }
                Err(error) => self.pause.sleep(self.failed(&error, &mut patience, &talk), talk.later()),
            }
        }
    }

    /// False when that is another process's business.
    fn wait_until_due(&self) -> bool {
        while !self.retired.load(Ordering::Relaxed) {
            match u64::try_from(self.due() - now()) {
                Ok(left) if left > 0 => std::thread::sleep(LOOK.min(Duration::from_secs(left))),
                _ => return true,
            }
        }
        false
    }

    /// When another is to be ordered: at once, where the one that there is is not for these names. What the file has counts, be
    /// it in use or not: what keeps it from being used is not mended by another one.
    fn due(&self) -> i64 {
        let Ok(Certificate { mut names, begins, expires, .. }) = look(&self.place.certificate()) else {
            return 0;
        };
        names.sort_unstable();
        if is_stand_in(&names) || names != self.wish.names { 0 } else { due(begins, expires) }
    }

    /// Orders one, and returns how long to wait before the next look.
    fn renew(&self, reload: impl Fn(), runtime: &Runtime, talk: &Arc<Talk>) -> Result<Duration, String> {
        let told = |error: Error| error.to_string();
        let Some(_lock) = self.place.lock().map_err(told)? else { return Ok(TURN) };
        if self.due() > now() {
            // Another process has had one meanwhile.
            self.trouble(None);
            reload();
            return Ok(Duration::ZERO);
        }
        self.place.try_room().map_err(told)?;
        let names = self.wish.names.join(" ");
        tracing::info!("ordering a certificate for {names} from {}", self.wish.directory);
        runtime.block_on(order(&self.wish, &self.place, &self.challenges, talk)).map_err(told)?;
        if self.due() <= now() {
            // To order another would do so for ever.
            return Err(
                "what was issued is not for these names, or due already: is the clock right?".to_owned()
            );
        }
        self.trouble(None);
        tracing::info!("there is a certificate for {names} from {}", self.wish.directory);
        // The log tells why where it cannot be used; it is, once that is mended.
        reload();
        Ok(Duration::ZERO)
    }

    /// What takes long in an order is told while it does.
    fn talk(&self) -> Talk {
        let acme = self.clone();
        Talk::new(move |slow| {
            let slow = shown(slow);
            tracing::warn!("no certificate for {} yet: {slow}", acme.wish.names.join(" "));
            acme.trouble(Some(slow));
        })
    }

    fn failed(&self, error: &str, patience: &mut Patience, talk: &Talk) -> Duration {
        let error = shown(error);
        let wait = patience.wait(howdah_sys::monotonic_ns(), talk.later());
        let (names, seconds) = (self.wish.names.join(" "), wait.as_secs());
        tracing::error!("no certificate for {names}: {error}; the next try is in {seconds} s");
        self.trouble(Some(error));
        wait
    }

    fn trouble(&self, now: Option<String>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }
}

impl Pause {
    fn sleep(&self, wait: Duration, later: Duration) {
        let start = Instant::now();
        let mut waiting = self.lock();
        waiting.next = Some(start + wait);
        // However long the authority says, the wait is no longer.
        waiting.later = Some(start + later.min(wait));
        while let Some(left) = waiting.left(Instant::now()) {
            waiting = self.changed.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        waiting.next = None;
    }

    /// How long the wait is from now on, if there is one.
    fn hurry(&self, now: Instant) -> Option<Duration> {
        let mut waiting = self.lock();
        let (next, later) = (waiting.next?, waiting.later.unwrap_or(now));
        let wait = waiting.asked.wait(now, later);
        if now + wait < next {
            waiting.asked.made(now + wait);
            waiting.next = Some(now + wait);
            self.changed.notify_all();
        }
        waiting.next.map(|next| next.saturating_duration_since(now))
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn left(&self, now: Instant) -> Option<Duration> {
        self.next?.checked_duration_since(now).filter(|left| !left.is_zero())
    }
}

/// Some of these words are the authority's, or of whoever is in its place.
fn shown(words: &str) -> String {
    words.chars().filter(|letter| !letter.is_control()).take(WORDS).collect()
}

/// Keeps what clients get until the authority has issued a certificate. Where names were added or taken away, that is the one
/// for the names before: a name that cannot be proven yet is nothing that clients of the others should be warned of.
fn begin(wish: &Wish, place: &Place, why: &str) -> Result<(), Error> {
    if let Some(pem) =
        nearest(&place.others(), &wish.names).and_then(|file| std::fs::read_to_string(file).ok())
    {
        return place.keep(&pem);
    }
    place.keep(&stand_in(&wish.names)?)?;
    tracing::warn!(
        "{why}: clients get one of our own making, which they do not believe, until {} has issued another",
        wish.directory
    );
    Ok(())
}

/// Of these certificates the one that is good for most of the names.
fn nearest<'a>(files: &'a [PathBuf], wanted: &[String]) -> Option<&'a PathBuf> {
    let good = |file: &'a PathBuf| {
        let one = look(file).ok().filter(|one| !is_stand_in(&one.names))?;
        let names = wanted.iter().filter(|name| one.names.contains(name)).count();
        (names > 0).then_some(((names, one.expires), file))
    };
    files.iter().filter_map(good).max_by_key(|(rank, _)| *rank).map(|(_, file)| file)
}

/// Why the certificate that is kept cannot be used, if so.
fn unfit(place: &Place) -> Option<String> {
    look(&place.certificate()).err().map(|error| {
        if place.certificate().exists() {
            error.to_string()
        } else {
            "there is no certificate yet".to_owned()
        }
    })
}

/// In seconds since 1970.
fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_shortened_by_whoever_asks() {
        let pause = Arc::new(Pause::default());
        assert_eq!(pause.hurry(Instant::now()), None, "nothing has failed");
        let sleeper = Arc::clone(&pause);
        let sleeper = std::thread::spawn(move || sleeper.sleep(Duration::from_secs(3600), Duration::ZERO));
        let shortened = loop {
            match pause.hurry(Instant::now()) {
                Some(wait) => break wait,
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        assert_eq!(shortened, Duration::ZERO);
        sleeper.join().unwrap();
        assert_eq!(pause.hurry(Instant::now()), None);
    }

    #[test]
    fn nobody_asks_before_the_authority_wants_it_or_much_sooner_than_the_last_time() {
        let (pause, now) = (Pause::default(), Instant::now());
        let at = |seconds| now + Duration::from_secs(seconds);
        let wait = |start: Instant| {
            pause.lock().next = Some(start + Duration::from_secs(3600));
            pause.hurry(start).map(|wait| wait.as_secs())
        };
        pause.lock().later = Some(at(900));
        assert_eq!(wait(at(0)), Some(900));
        pause.lock().later = None;
        assert_eq!(wait(at(1000)), Some(500), "ten minutes after the one at 900");
        assert_eq!(pause.hurry(at(1200)).map(|wait| wait.as_secs()), Some(300), "asked twice is the same");
    }
}
