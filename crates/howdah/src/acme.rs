//! Certificates by ACME: a thread of its own orders one when it is due, and has it taken over as any file that has changed.
//! What is done with the authority is in `howdah_acme`; the front shows it what it wants to see.

mod hint;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use howdah_acme::{
    Asked, Error, Place, Talk, Tries, Wish, advice, due, is_for, is_stand_in, now, order, show_begun,
    stand_in, try_root,
};
use howdah_tls::{Certificate, Challenges, look};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use crate::options::Serve;
use hint::Hint;

/// The clock may be set, and another process may have been faster: longer than this nobody sleeps.
const LOOK: Duration = Duration::from_secs(60);
/// While another process orders one, which leaves it to us when we take its place.
const TURN: Duration = Duration::from_secs(1);

const ANOTHER: &str = "--acme-dir does not work: name another directory";

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
    /// Another process serves, and is asked by the authority; an order hears of it.
    retired: Arc<AtomicBool>,
    retirement: Arc<Notify>,
    /// This process has taken the place of another.
    succeeds: bool,
    pause: Arc<Pause>,
    hint: Arc<Mutex<Hint>>,
    /// Where in the time that the authority leaves open this server has its turn, in thousandths.
    share: i64,
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
    pub(crate) fn prepare(options: &Serve, succeeds: bool) -> anyhow::Result<Option<Self>> {
        let Some(place) = options.tls.acme.place() else { return Ok(None) };
        let wish = Arc::new(try_files(options)?);
        place.make().context(ANOTHER)?;
        begin(&wish, &place)?;
        let (challenges, trouble, retired, retirement, pause, hint) = Default::default();
        let share = (howdah_sys::monotonic_ns() % 1000).cast_signed();
        Ok(Some(Self { wish, place, challenges, trouble, retired, retirement, succeeds, pause, hint, share }))
    }

    /// Orders certificates from now on. `reload` has what is in the files taken over.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn start(&self, reload: impl Fn() + Send + 'static) -> std::io::Result<()> {
        // An authority that looks at what another process has ordered comes to us from now on.
        self.show_begun();
        let acme = self.clone();
        std::thread::Builder::new().name("acme".into()).spawn(move || acme.run(reload)).map(drop)
    }

    fn show_begun(&self) {
        show_begun(&self.wish, &self.place, &self.challenges);
    }

    /// Another process does it from now on, and goes on with an order that is under way.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
        self.retirement.notify_one();
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
        let mut tries = Tries::kept(&self.place);
        self.wait_as_before(&tries);
        while self.wait_until_due(&runtime) {
            let talk = Arc::new(self.talk());
            match self.renew(&reload, &runtime, &talk, &mut tries) {
                Ok(true) => tries.succeed(),
                // No reason to ask the authority sooner.
                Ok(false) => {
                    self.show_begun();
                    std::thread::sleep(TURN);
                }
                Err(error) => {
                    let wait = self.failed(&error, &mut tries, &talk);
                    self.pause(wait, talk.later());
                }
            }
        }
    }

    /// The authority has been asked by a process before this one, and is asked no sooner for a start. Whoever has mended something
    /// reloads. An order that the process before has left to this one goes on.
    fn wait_as_before(&self, tries: &Tries) {
        let (wait, later) = tries.wait();
        let goes_on = self.succeeds && tries.are_cut_short();
        if wait.is_zero() || goes_on || self.left().is_ok_and(|left| !left.is_zero()) {
            return;
        }
        let (names, seconds) = (self.wish.names.join(" "), wait.as_secs());
        let told = tries.why();
        tracing::warn!(
            "no certificate for {names} yet: {told}; the next try is in {seconds} s, or at a reload"
        );
        self.trouble(Some(told.to_owned()));
        self.pause(wait, later);
    }

    /// Sleeps, unless there is a certificate sooner or somebody asks for a try.
    fn pause(&self, wait: Duration, later: Duration) {
        self.pause.sleep(wait, later, || self.left().is_ok_and(|left| !left.is_zero()));
    }

    /// False when that is another process's business.
    fn wait_until_due(&self, runtime: &Runtime) -> bool {
        while !self.retired.load(Ordering::Relaxed) {
            self.take_advice(runtime);
            match self.left() {
                Ok(left) if !left.is_zero() => {
                    // Another process has had one, or the clock was wrong.
                    self.trouble(None);
                    std::thread::sleep(LOOK.min(left));
                }
                _ => return true,
            }
        }
        false
    }

    /// How long until another is to be ordered: not at all, where the one that there is is not for these names. What the file has
    /// counts, be it in use or not: what keeps it from being used is not mended by another one.
    ///
    /// # Errors
    /// When it cannot be read now, as for want of descriptors.
    fn left(&self) -> Result<Duration, String> {
        let due = self.kept()?.map_or(0, |kept| self.due(&kept));
        Ok(Duration::from_secs((due - now()).max(0).cast_unsigned()))
    }

    /// The certificate that the authority has issued for these names, if it has.
    fn kept(&self) -> Result<Option<Certificate>, String> {
        match look(&self.place.certificate()) {
            Err(error) if error.is_unknown() => Err(error.to_string()),
            kept => Ok(kept
                .ok()
                .filter(|kept| !is_stand_in(&kept.names) && is_for(&kept.names, &self.wish.names))),
        }
    }

    fn due(&self, kept: &Certificate) -> i64 {
        let wanted = self.hint().window(kept).map(|window| window.due(kept.begins, kept.expires, self.share));
        wanted.unwrap_or_else(|| due(kept.begins, kept.expires))
    }

    /// Asks the authority when it would like the certificate to be replaced, as often as it wants to be asked that. What it does not
    /// say is no failure: a certificate has its own time.
    fn take_advice(&self, runtime: &Runtime) {
        let Ok(Some(kept)) = self.kept() else { return };
        let before = self.due(&kept);
        if before <= now() || self.hint().is_fresh(&kept, Instant::now()) {
            return;
        }
        let told = runtime.block_on(advice(&self.wish, &self.place, &Arc::new(Talk::new(|_| ()))));
        let told = told.inspect_err(tell_no_advice).ok().flatten();
        self.hint().take(&kept, told.as_ref(), Instant::now());
        let (own, wanted) = (due(kept.begins, kept.expires), self.due(&kept));
        if wanted != before && wanted < own {
            let why =
                told.and_then(|told| told.why).map(|why| format!(": {}", shown(&why))).unwrap_or_default();
            let names = self.wish.names.join(" ");
            tracing::info!(
                "the authority wants the certificate for {names} to be replaced before its time{why}"
            );
        }
    }

    fn hint(&self) -> MutexGuard<'_, Hint> {
        self.hint.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Orders one; false while another process does, or when one is to go on with it.
    fn renew(
        &self,
        reload: impl Fn(),
        runtime: &Runtime,
        talk: &Arc<Talk>,
        tries: &mut Tries,
    ) -> Result<bool, String> {
        let told = |error: Error| error.to_string();
        let Some(_lock) = self.place.lock().map_err(told)? else { return Ok(false) };
        if !self.left()?.is_zero() {
            // Another process has had one meanwhile.
            self.challenges.clear();
            self.trouble(None);
            reload();
            return Ok(true);
        }
        self.place.try_room().map_err(told)?;
        tries.begin().map_err(told)?;
        let names = self.wish.names.join(" ");
        tracing::info!("ordering a certificate for {names} from {}", self.wish.directory);
        let Some(ordered) = runtime.block_on(self.order(talk)) else { return Ok(false) };
        ordered.map_err(told)?;
        tracing::info!("there is a certificate for {names} from {}", self.wish.directory);
        // The log tells why where it cannot be used; it is, once that is mended.
        reload();
        if self.left()?.is_zero() {
            // Another one would be no better, and authorities count what they have issued.
            talk.put_off();
            return Err("what was issued is to be renewed already: is the clock right?".to_owned());
        }
        self.trouble(None);
        Ok(true)
    }

    /// None when another process goes on with it.
    async fn order(&self, talk: &Arc<Talk>) -> Option<Result<(), Error>> {
        tokio::select! {
            ordered = order(&self.wish, &self.place, &self.challenges, talk) => Some(ordered),
            () = self.retirement.notified() => None,
        }
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

    fn failed(&self, error: &str, tries: &mut Tries, talk: &Talk) -> Duration {
        let error = shown(error);
        let wait = tries.fail(howdah_sys::monotonic_ns(), talk.later());
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
    /// `is_vain` is asked now and then whether there is still something to wait for.
    fn sleep(&self, wait: Duration, later: Duration, is_vain: impl Fn() -> bool) {
        let start = Instant::now();
        // However long the authority says, the wait is no longer.
        self.lock().begin(start + wait, start + later.min(wait));
        while self.doze() && !is_vain() {}
        self.lock().next = None;
    }

    /// A part of the wait; false when that is over.
    fn doze(&self) -> bool {
        let waiting = self.lock();
        let Some(left) = waiting.left(Instant::now()) else { return false };
        let woken =
            self.changed.wait_timeout(waiting, left.min(LOOK)).unwrap_or_else(PoisonError::into_inner);
        woken.0.left(Instant::now()).is_some()
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
    fn begin(&mut self, next: Instant, later: Instant) {
        (self.next, self.later) = (Some(next), Some(later));
    }

    fn left(&self, now: Instant) -> Option<Duration> {
        self.next?.checked_duration_since(now).filter(|left| !left.is_zero())
    }
}

/// What people have to mend is told before an order fails for it.
fn tell_no_advice(error: &Error) {
    let words = shown(&error.to_string());
    match error {
        Error::Contact(..) => tracing::warn!("{words}"),
        _ => tracing::debug!("{words}"),
    }
}

/// Some of these words are the authority's, or of whoever is in its place.
fn shown(words: &str) -> String {
    words.chars().filter(|letter| !letter.is_control()).take(WORDS).collect()
}

/// Reads the files that tell the authority from others, and us from other customers of its.
///
/// # Errors
/// When they do not.
pub(crate) fn try_files(options: &Serve) -> anyhow::Result<Wish> {
    let wish = options.tls.acme.wish().context("--acme-eab-key-file")?;
    try_root(&wish)?;
    Ok(wish)
}

/// Sees to what clients get until the authority has issued a certificate. Where names were added or taken away, that is the one
/// for the names before: a name that cannot be proven yet is nothing that clients of the others should be warned of.
fn begin(wish: &Wish, place: &Place) -> anyhow::Result<()> {
    let (why, has_expired) = match look(&place.certificate()) {
        Ok(there) if there.expires >= now() => return Ok(()),
        Ok(there) => (format!("the last one has expired on {}", there.expiry), !is_stand_in(&there.names)),
        Err(error) if error.is_missing() => ("there is no certificate yet".to_owned(), false),
        // It may be good, and nothing takes its place before somebody has looked.
        Err(error) if error.is_unknown() => return Err(error.into()),
        Err(error) => (error.to_string(), false),
    };
    if let Some(pem) =
        nearest(&place.others(), &wish.names).and_then(|file| std::fs::read_to_string(file).ok())
    {
        return place.keep(&pem).context(ANOTHER);
    }
    if has_expired {
        // The clock may be wrong; where it is right, clients are warned of a stand-in, too.
        return Ok(());
    }
    stand_in(&wish.names).and_then(|pem| place.keep(&pem)).context(ANOTHER)?;
    tracing::warn!(
        "{why}: clients get one of our own making, which they do not believe, until {} has issued another",
        wish.directory
    );
    Ok(())
}

/// Of these certificates the one that is good for most of the names.
fn nearest<'a>(files: &'a [PathBuf], wanted: &[String]) -> Option<&'a PathBuf> {
    let now = now();
    let good = |file: &'a PathBuf| {
        let one = look(file).ok().filter(|one| !is_stand_in(&one.names) && one.expires >= now)?;
        let names = wanted.iter().filter(|name| one.names.contains(name)).count();
        (names > 0).then_some(((names, one.expires), file))
    };
    files.iter().filter_map(good).max_by_key(|(rank, _)| *rank).map(|(_, file)| file)
}

#[cfg(test)]
mod tests {
    use std::fs::{read_to_string, write};
    use std::os::unix::fs::symlink;

    use howdah_acme::Proof;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn pem(name: &str, year: i32) -> String {
        let key = KeyPair::generate().unwrap();
        let mut wish = CertificateParams::new([name.to_owned()]).unwrap();
        (wish.not_before, wish.not_after) = (date_time_ymd(2000, 1, 1), date_time_ymd(year, 1, 1));
        wish.self_signed(&key).unwrap().pem() + &key.serialize_pem()
    }

    #[test]
    fn what_may_be_good_is_there_after_a_start_whatever_the_clock_says() {
        let all = tempfile::tempdir().unwrap();
        let (names, directory) = (vec!["a.example".to_owned()], "https://a.example/dir".to_owned());
        let wish = Wish {
            names,
            email: None,
            binding: None,
            profile: None,
            directory,
            root: None,
            proof: Proof::Tls,
        };
        let place = Place::of(all.path(), &wish.directory, &wish.names);
        let (file, beside) = (place.certificate(), place.certificate().with_file_name("b.pem"));
        place.make().unwrap();
        // What there is, in another file, and what there is then: the same, the other one, or a stand-in.
        for (there, other, then) in [
            (pem("a.example", 2100), String::new(), "same"),
            (pem("a.example", 2001), String::new(), "same"),
            (pem("a.example", 2001), pem("b.example", 2100), "same"),
            (pem("a.example", 2001), pem("a.example", 2100), "other"),
            (pem("a.example", 2001), pem("a.example", 2002), "same"),
            (pem("stand-in.invalid", 2001), String::new(), "stand-in"),
            ("<html>".to_owned(), String::new(), "stand-in"),
        ] {
            write(&file, &there).unwrap();
            write(&beside, &other).unwrap();
            begin(&wish, &place).unwrap();
            let found = read_to_string(&file).unwrap();
            let is_stand_in = is_stand_in(&look(&file).unwrap().names);
            let is = [
                ("same", found == there),
                ("other", found == other),
                ("stand-in", is_stand_in && found != there),
            ];
            assert!(is.contains(&(then, true)), "{then}: {is:?}");
        }
        std::fs::remove_file(&file).unwrap();
        begin(&wish, &place).unwrap();
        assert!(is_stand_in(&look(&file).unwrap().names), "where there is none");
        std::fs::remove_file(&file).unwrap();
        symlink(&file, &file).unwrap();
        assert!(begin(&wish, &place).unwrap_err().to_string().contains("cannot read"));
        assert!(file.is_symlink(), "what cannot be read stays");
    }

    #[test]
    fn a_wait_is_shortened_by_whoever_asks() {
        let pause = Arc::new(Pause::default());
        assert_eq!(pause.hurry(Instant::now()), None, "nothing has failed");
        let sleeper = Arc::clone(&pause);
        let sleeper = std::thread::spawn(move || {
            sleeper.sleep(Duration::from_secs(3600), Duration::ZERO, || false);
        });
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
