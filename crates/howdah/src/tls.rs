//! The certificates of the server: loaded before anything else runs, taken over anew when their files change, and handed
//! with the keys of tickets to the process that replaces this one. What is done with them is in `howdah_tls`.

use std::collections::BTreeSet;
use std::io::{Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::anyhow;
use howdah_acme::is_stand_in;
use howdah_metrics as metrics;
use howdah_tls::{Acceptor, Certificate, ClientCertificates, Least, Settings};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::acme::Acme;
use crate::options::Serve;
use crate::options::tls::{Client, Version};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(2);
/// How often it is tried again to take over what could not be.
const AGAIN: Duration = Duration::from_secs(10);
/// How often it is said that a certificate is about to expire.
const TELL: Duration = Duration::from_secs(12 * 3600);
/// From how many seconds on, or from a quarter of its life on where that is less: whoever renews those of six days, does it then.
const SOON: i64 = 14 * DAY;
const DAY: i64 = 24 * 3600;
/// What a successor is given is a few keys.
const MOST: u64 = 4096;

/// See the module. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    pub(crate) acceptor: Arc<Acceptor>,
    /// Who has some of them issued.
    acme: Option<Acme>,
    /// The files before they were read. It may be long until they are looked after: an application is loaded meanwhile.
    read: Vec<Option<Stamp>>,
}

impl Tls {
    /// Reads what the options name; none when they name nothing. `tickets` are the older process's, if this one `succeeds` another.
    ///
    /// # Errors
    /// When a file is not as it should be.
    pub(crate) fn load(options: &Serve, tickets: &[u8], succeeds: bool) -> anyhow::Result<Option<Self>> {
        if !options.tls.is_on() {
            return Ok(None);
        }
        let acme = Acme::prepare(options, succeeds)?;
        let challenges = acme.as_ref().map(|acme| Arc::clone(&acme.challenges));
        let settings = Settings { challenges, ..settings(options) };
        let read = settings.files().map(stamp).collect();
        let acceptor = Acceptor::new(settings, tickets).map_err(|error| named(options, error))?;
        let tls = Self { acceptor: Arc::new(acceptor), acme, read };
        tls.tell_expiry();
        Ok(Some(tls))
    }

    /// Reads the files anew. What became of it, for people; the log has it, too.
    ///
    /// # Errors
    /// When a file is not as it should be; then the old certificate stays in its place.
    pub(crate) fn reload(&self) -> Result<String, String> {
        let outcome = self.take_over();
        self.tell(&outcome);
        outcome
    }

    fn take_over(&self) -> Result<String, String> {
        let Err(wrong) = self.acceptor.reload() else {
            let all = self.acceptor.certificates();
            let first = all.first().map(|one| one.expiry.clone()).unwrap_or_default();
            return Ok(format!("the certificates are read anew, the first is valid to {first}"));
        };
        let reasons = wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let all = self.acceptor.parts() == wrong.len();
        let others = if all { "" } else { "; what is in the other files is taken over" };
        Err(format!("the old certificates stay in use: {reasons}{others}"))
    }

    fn tell(&self, outcome: &Result<String, String>) {
        match outcome {
            Ok(told) => tracing::info!("{told}"),
            Err(told) => tracing::error!("{told}"),
        }
        self.tell_expiry();
    }

    /// What has failed for want of descriptors, or by a clock that was wrong, is mended without a change of any file. Nothing is
    /// told as long as it fails as before.
    fn try_again(&self, before: &Result<String, String>) -> Result<String, String> {
        let outcome = self.take_over();
        if outcome != *before {
            self.tell(&outcome);
        }
        outcome
    }

    /// As [`Self::reload`], when people want it: what they have mended may be what kept a certificate from being issued.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn reload_and_try(&self) -> Result<String, String> {
        let reloaded = self.reload();
        let ordered = match self.acme.as_ref().and_then(Acme::hurry) {
            None => return reloaded,
            Some(0) => "another one is ordered now".to_owned(),
            Some(seconds) => format!("another one is ordered in {seconds} s"),
        };
        let with_it = |told| format!("{told}; {ordered}");
        reloaded.map(with_it).map_err(with_it)
    }

    /// Takes changed files over, on a thread of its own.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn watch(&self) -> std::io::Result<()> {
        if let Some(acme) = &self.acme {
            let tls = self.clone();
            acme.start(move || drop(tls.reload()))?;
        }
        let tls = self.clone();
        std::thread::Builder::new().name("tls".into()).spawn(move || tls.look_after()).map(drop)
    }

    /// Another process serves: certificates are its business from now on.
    pub(crate) fn retire(&self) {
        self.acme.iter().for_each(Acme::retire);
    }

    /// A writer may need a moment for certificate and key, so a change counts once nothing has changed any more.
    fn look_after(&self) {
        let (mut known, mut told) = (self.read.clone(), Instant::now());
        let mut last = known.clone();
        let (mut outcome, mut tried) = (Ok(String::new()), Instant::now());
        loop {
            std::thread::sleep(LOOK);
            let now = self.stamps();
            if now == last && now != known {
                known.clone_from(&now);
                (outcome, tried) = (self.reload(), Instant::now());
            } else if outcome.is_err() && tried.elapsed() > AGAIN {
                (outcome, tried) = (self.try_again(&outcome), Instant::now());
            }
            last = now;
            if told.elapsed() > TELL {
                told = Instant::now();
                self.tell_expiry();
            }
        }
    }

    fn stamps(&self) -> Vec<Option<Stamp>> {
        self.acceptor.files().map(stamp).collect()
    }

    fn tell_expiry(&self) {
        let now = now();
        let all = self.acceptor.certificates();
        // Why there is no other than a stand-in is told by whoever orders that.
        for Certificate { file, expires, expiry, begins, .. } in
            all.iter().filter(|one| !is_stand_in(&one.names))
        {
            let (file, days) = (file.display(), (expires - now).div_euclid(DAY));
            if *begins > now {
                tracing::warn!("the certificate in {file} is not valid yet: is the clock right?");
            }
            match metrics::days_left(days) {
                None => tracing::error!("the certificate in {file} has expired on {expiry}: renew it"),
                Some(left) if expires - now < SOON.min((expires - begins) / 4) => {
                    tracing::warn!("the certificate in {file} expires in {left}, on {expiry}: renew it");
                }
                Some(_) => {}
            }
        }
    }

    /// For pages and metrics.
    pub(crate) fn certificates(&self) -> Vec<metrics::Certificate> {
        let now = now();
        let show = |one: &Certificate| metrics::Certificate {
            file: one.file.display().to_string(),
            // A common name may be anything.
            names: one.names.iter().map(|name| metrics::printable(name.as_bytes())).collect(),
            expires: one.expires,
            days: (one.expires - now).div_euclid(DAY),
            trouble: self.acme.as_ref().and_then(|acme| acme.trouble_with(one)),
        };
        self.acceptor.certificates().iter().map(show).collect()
    }

    /// The keys of tickets, in memory that only who is given the descriptor can read.
    pub(crate) fn tickets(&self) -> std::io::Result<OwnedFd> {
        let mut memory = std::fs::File::from(memfd_create("howdah-tickets", MemfdFlags::CLOEXEC)?);
        memory.write_all(&self.acceptor.tickets())?;
        Ok(memory.into())
    }
}

/// Reads the files that the options name, for `howdah check`. One that is ordered from an authority is left out: what is in
/// its place is ours, and replaced when it does not fit.
///
/// # Errors
/// When a file is not as it should be, or its certificate has expired.
pub(crate) fn try_files(options: &Serve) -> anyhow::Result<()> {
    let pairs = options.tls.named();
    if pairs.is_empty() {
        return Ok(());
    }
    howdah_tls::check(&Settings { pairs, ..settings(options) }).map_err(|error| named(options, error))
}

/// With the option before it that names the file.
fn named(options: &Serve, error: howdah_tls::Error) -> anyhow::Error {
    match error.file().and_then(|file| options.tls.option_of(file)) {
        Some(option) => anyhow!("{option}: {error}"),
        None => error.into(),
    }
}

/// Where a front must be able to read for a reload: the files' directories, and those that links lead to.
pub(crate) fn directories(options: &Serve) -> impl Iterator<Item = PathBuf> {
    let pairs = options.tls.pairs().into_iter().flat_map(|(certificate, key)| [certificate, key]);
    let files = pairs.chain(options.tls.tls_client_ca.clone());
    let found: BTreeSet<PathBuf> = files
        .flat_map(|file| [std::path::absolute(&file).ok(), file.canonicalize().ok()])
        .flatten()
        .filter_map(|file| file.parent().map(Into::into))
        .collect();
    found.into_iter()
}

/// What [`Tls::tickets`] of the older process has made.
pub(crate) fn handed(memory: OwnedFd) -> Vec<u8> {
    let (mut memory, mut tickets) = (std::fs::File::from(memory), Vec::new());
    let read = memory.rewind().and_then(|()| memory.take(MOST).read_to_end(&mut tickets));
    // Without them clients make a handshake.
    read.map(|_| tickets).unwrap_or_default()
}

/// The best first. Who offers none of them is turned away, also one that would speak HTTP/1.0, and says so (RFC 7301 6).
fn protocols(http2: bool) -> Vec<Vec<u8>> {
    let best = http2.then_some(&b"h2"[..]);
    best.into_iter().chain([&b"http/1.1"[..], b"http/1.0"]).map(<[u8]>::to_vec).collect()
}

fn settings(options: &Serve) -> Settings {
    let tls = &options.tls;
    Settings {
        pairs: tls.pairs(),
        least: match tls.tls_min {
            Version::Tls12 => Least::Tls12,
            Version::Tls13 => Least::Tls13,
        },
        clients: tls.tls_client_ca.clone().map(|authorities| ClientCertificates {
            authorities,
            required: tls.tls_client == Client::Required,
        }),
        protocols: protocols(options.http2.http2),
        challenges: None,
    }
}

/// What changes with a file, wherever its name leads.
type Stamp = (u64, u64, u64, i64, i64, i64);

fn stamp(file: &Path) -> Option<Stamp> {
    let meta = std::fs::metadata(file).ok()?;
    Some((meta.dev(), meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec(), meta.ctime_nsec()))
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()).cast_signed()
}
