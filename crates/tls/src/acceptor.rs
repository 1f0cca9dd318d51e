//! What sessions are made from: settings, and the files that they name. All of it is read and checked before it is used,
//! and exchanged as a whole. Where a file is wrong, what it had before stays, and what is in the others is taken over.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::crypto::CryptoProvider;
use rustls::server::{NoServerSessionStorage, UnbufferedServerConnection, WebPkiClientVerifier};
use rustls::{ServerConfig, SupportedProtocolVersion, version};

use crate::challenges::{ACME_TLS, Challenges};
use crate::error::Error;
use crate::pair::Pair;
use crate::provider::provider;
use crate::session::Session;
use crate::store::Store;
use crate::tickets::{Ticketer, Tickets};
use crate::trusted::Trusted;

/// Bytes of early data (RFC 8446 4.2.10) to pass over, of a client that has a ticket of another server, which took them: with less it would be
/// cut off until it forgets that, which may be in a week. Each record counts anew whenever more has come behind it. How much comes
/// at all is bounded by whoever reads.
const SKIPPED: u32 = 1 << 20;

/// The oldest protocol that is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Least {
    /// TLS 1.2.
    #[default]
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// Whose certificates clients may show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificates {
    /// File of the authorities.
    pub authorities: PathBuf,
    /// Who has none is turned away.
    pub required: bool,
}

/// What an operator can set.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Files of certificates and keys. The first is for clients that ask for no name.
    pub pairs: Vec<(PathBuf, PathBuf)>,
    /// The oldest protocol that is spoken.
    pub least: Least,
    /// Certificates of clients; none are asked for without.
    pub clients: Option<ClientCertificates>,
    /// Protocols above TLS (ALPN), the best first.
    pub protocols: Vec<Vec<u8>>,
    /// What authorities for certificates are shown; none when none is asked for a certificate.
    pub challenges: Option<Arc<Challenges>>,
}

impl Settings {
    /// Every file that they name.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let pairs = self.pairs.iter().flat_map(|(certificate, key)| [certificate, key]);
        pairs.chain(self.clients.iter().map(|clients| &clients.authorities)).map(PathBuf::as_path)
    }
}

/// A certificate that is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Its file.
    pub file: PathBuf,
    /// Names that it is for.
    pub names: Vec<String>,
    /// Its last second, since 1970.
    pub expires: i64,
    /// The same, for people.
    pub expiry: String,
    /// Its first second, since 1970.
    pub begins: i64,
}

/// See the module.
#[derive(Debug)]
pub struct Acceptor {
    settings: Settings,
    tickets: Arc<Tickets>,
    current: RwLock<Current>,
    /// Whoever reads the files first is done before others look at them: else what it has read could take the place of what they
    /// have. Sessions do not wait for it.
    reloading: Mutex<()>,
}

#[derive(Clone, Debug)]
struct Current {
    config: Arc<ServerConfig>,
    certificates: Arc<[Certificate]>,
    parts: Parts,
}

/// What is in the files.
#[derive(Clone, Debug)]
struct Parts {
    /// In the order of the settings.
    pairs: Vec<Arc<Pair>>,
    trusted: Option<Arc<Trusted>>,
}

impl Acceptor {
    /// Reads all files. A certificate that has expired is taken: clients are warned of it, and without it there would be nobody
    /// for the other names either. `tickets` is what another process gave by [`Acceptor::tickets`].
    ///
    /// # Errors
    /// When a file is not as it should be.
    pub fn new(settings: Settings, tickets: &[u8]) -> Result<Self, Error> {
        let tickets = Arc::new(Tickets::unpack(tickets));
        let current = RwLock::new(build(&settings, &tickets, Parts::read(&settings, i64::MIN)?)?);
        Ok(Self { settings, tickets, current, reloading: Mutex::default() })
    }

    /// Reads the files anew. Sessions that begin from now on use what is in them; others go on.
    ///
    /// # Errors
    /// Whatever is not as it should be; what was in the place of that stays, and the rest is taken over.
    pub fn reload(&self) -> Result<(), Vec<Error>> {
        let _turn = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let (parts, mut wrong) = self.current().parts.renewed(&self.settings, now());
        match build(&self.settings, &self.tickets, parts) {
            Ok(fresh) => *self.current.write().unwrap_or_else(PoisonError::into_inner) = fresh,
            Err(error) => wrong.push(error),
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }

    /// A session for a new connection.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub fn session(&self) -> Result<Session, Error> {
        // Of many certificates a copy of all else would take longer than the handshake.
        let config = Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner).config);
        let tls = UnbufferedServerConnection::new(config).map_err(|error| Error::Setup(error.to_string()))?;
        Ok(Session::new(tls, self.settings.clients.is_some()))
    }

    /// The certificates in use, in the order of the settings.
    #[must_use]
    pub fn certificates(&self) -> Arc<[Certificate]> {
        self.current().certificates
    }

    /// The keys of tickets, for the process that replaces this one. They are secrets.
    #[must_use]
    pub fn tickets(&self) -> Vec<u8> {
        self.tickets.pack()
    }

    /// What authorities for certificates are shown.
    #[must_use]
    pub fn challenges(&self) -> Option<&Arc<Challenges>> {
        self.settings.challenges.as_ref()
    }

    /// How many there are to be read that may be wrong: certificates with their keys, and the authorities of clients.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.settings.pairs.len() + usize::from(self.settings.clients.is_some())
    }

    /// Every file that is read.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.settings.files()
    }

    fn current(&self) -> Current {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Reads all files that the settings name.
///
/// # Errors
/// When a file is not as it should be, or its certificate has expired.
pub fn check(settings: &Settings) -> Result<(), Error> {
    build(settings, &Arc::new(Tickets::unpack(&[])), Parts::read(settings, now())?).map(drop)
}

/// What is in a file that has a certificate and its key, be it expired or not.
///
/// # Errors
/// When it could not be used.
pub fn look(pair: &Path) -> Result<Certificate, Error> {
    Pair::read(pair, pair, i64::MIN).map(|pair| Certificate::of(&pair))
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()).cast_signed()
}

impl Parts {
    /// Reads all files; certificates must be good until `wanted`, in seconds since 1970.
    fn read(settings: &Settings, wanted: i64) -> Result<Self, Error> {
        let pairs = settings.pairs.iter();
        let pairs = pairs.map(|(certificate, key)| Pair::read(certificate, key, wanted).map(Arc::new));
        let trusted = settings.clients.as_ref().map(|clients| trusted(clients).map(Arc::new));
        Ok(Self { pairs: pairs.collect::<Result<_, _>>()?, trusted: trusted.transpose()? })
    }

    /// What is in the files now, and what is wrong with them: there these parts stay.
    fn renewed(&self, settings: &Settings, now: i64) -> (Self, Vec<Error>) {
        let mut wrong = Vec::new();
        let pairs = settings.pairs.iter().zip(&self.pairs).map(|((certificate, key), used)| {
            // One that has expired in use may be read once more, as may one that has expired since.
            let wanted = used.content.not_after.min(now);
            let fresh = try_files(&[certificate, key]).and_then(|()| Pair::read(certificate, key, wanted));
            or_keep(fresh, used, &mut wrong)
        });
        let pairs = pairs.collect();
        let trusted = settings.clients.as_ref().zip(self.trusted.as_ref()).map(|(clients, used)| {
            let fresh = try_files(&[&clients.authorities]).and_then(|()| trusted(clients));
            or_keep(fresh, used, &mut wrong)
        });
        (Self { pairs, trusted }, wrong)
    }
}

fn trusted(clients: &ClientCertificates) -> Result<Trusted, Error> {
    Trusted::read(&clients.authorities, clients.required)
}

fn or_keep<T>(fresh: Result<T, Error>, used: &Arc<T>, wrong: &mut Vec<Error>) -> Arc<T> {
    match fresh {
        Ok(fresh) => Arc::new(fresh),
        Err(error) => {
            wrong.push(error);
            Arc::clone(used)
        }
    }
}

/// A pipe is good for one start. Waiting for another writer would end all renewals.
fn try_files(files: &[&PathBuf]) -> Result<(), Error> {
    match files.iter().find(|file| file.metadata().is_ok_and(|there| !there.is_file())) {
        Some(other) => Err(Error::NoFile((*other).clone())),
        None => Ok(()),
    }
}

fn build(settings: &Settings, tickets: &Arc<Tickets>, parts: Parts) -> Result<Current, Error> {
    let provider = Arc::new(provider());
    let store = Store::new(parts.pairs.clone(), settings.challenges.clone());
    let certificates = parts.pairs.iter().map(|pair| Certificate::of(pair)).collect();
    let trusted = parts.trusted.as_deref();
    let context = trusted.map(|trusted| trusted.context.clone()).unwrap_or_default();
    let mut config = config(settings, &provider, trusted, store)?;
    config.alpn_protocols.clone_from(&settings.protocols);
    config.alpn_protocols.extend(settings.challenges.iter().map(|_| ACME_TLS.to_vec()));
    // What clients resume by is in their tickets alone.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.ticketer = Arc::new(Ticketer { tickets: Arc::clone(tickets), context });
    // Early data is taken from nobody who resumes by a ticket alone. This is for what is said so to whoever was at this address before.
    config.max_early_data_size = SKIPPED;
    Ok(Current { config: Arc::new(config), certificates, parts })
}

fn config(
    settings: &Settings,
    provider: &Arc<CryptoProvider>,
    trusted: Option<&Trusted>,
    store: Store,
) -> Result<ServerConfig, Error> {
    let verifier = match trusted {
        Some(trusted) => Arc::clone(&trusted.verifier),
        None => WebPkiClientVerifier::no_client_auth(),
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(versions(settings.least))
        .map_err(|error| Error::Setup(error.to_string()))?;
    Ok(builder.with_client_cert_verifier(verifier).with_cert_resolver(Arc::new(store)))
}

fn versions(least: Least) -> &'static [&'static SupportedProtocolVersion] {
    static BOTH: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];
    match least {
        Least::Tls12 => &BOTH,
        Least::Tls13 => &BOTH[..1],
    }
}

impl Certificate {
    fn of(pair: &Pair) -> Self {
        Self {
            file: pair.file.clone(),
            names: pair.content.names.clone(),
            expires: pair.content.not_after,
            expiry: pair.content.valid_to.clone(),
            begins: pair.content.not_before,
        }
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn what_has_expired_is_in_nobodys_way_and_replaces_nothing_that_is_good() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, year: i32| {
            let (file, key) = (dir.path().join(name), KeyPair::generate().unwrap());
            let mut wish = CertificateParams::new([name.to_owned()]).unwrap();
            (wish.not_before, wish.not_after) = (date_time_ymd(2000, 1, 1), date_time_ymd(year, 1, 1));
            std::fs::write(&file, wish.self_signed(&key).unwrap().pem() + &key.serialize_pem()).unwrap();
            (file.clone(), file)
        };
        let settings = Settings { pairs: vec![file("a", 2040), file("b", 2002)], ..Settings::default() };
        let started = Acceptor::new(settings.clone(), &[]).unwrap();
        assert_eq!(started.certificates().len(), 2, "at the start");
        // When those in use end, and whether they are replaced by what is in the files.
        for (a, b, wanted) in [
            (2030, 2002, [true, true]),
            (2030, 2001, [true, true]),
            (2030, 2003, [true, false]),
            (2050, 2050, [true, false]),
        ] {
            let until = |at: usize, year| {
                let Pair { key, mut content, file } = (*started.current().parts.pairs[at]).clone();
                content.not_after = date_time_ymd(year, 1, 1).unix_timestamp();
                Arc::new(Pair { key, content, file })
            };
            let used = Parts { pairs: vec![until(0, a), until(1, b)], trusted: None };
            let (parts, wrong) = used.renewed(&settings, now());
            let taken = [0, 1].map(|at| !Arc::ptr_eq(&parts.pairs[at], &used.pairs[at]));
            assert_eq!(taken, wanted, "{a} {b}");
            assert_eq!(wrong.len(), taken.iter().filter(|taken| !**taken).count(), "{a} {b}");
        }
        assert!(matches!(check(&settings), Err(Error::Expired(..))), "before the start");
        started.reload().unwrap();
    }

    #[test]
    fn files_are_read_by_one_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        let write = |year: i32| {
            let (key, mut wish) =
                (KeyPair::generate().unwrap(), CertificateParams::new(["a".to_owned()]).unwrap());
            wish.not_after = date_time_ymd(year, 1, 1);
            std::fs::write(&file, wish.self_signed(&key).unwrap().pem() + &key.serialize_pem()).unwrap();
        };
        write(2041);
        let pairs = vec![(file.clone(), file.clone())];
        let acceptor = Acceptor::new(Settings { pairs, ..Settings::default() }, &[]).unwrap();
        let has = |year: &str| acceptor.certificates()[0].expiry.contains(year);
        write(2042);
        std::thread::scope(|scope| {
            let turn = acceptor.reloading.lock().unwrap();
            let other = scope.spawn(|| acceptor.reload());
            std::thread::sleep(std::time::Duration::from_millis(100));
            assert!(has("2041") && acceptor.session().is_ok(), "sessions do not wait");
            // What the first has read by now is old, and what the other reads is not.
            write(2043);
            drop(turn);
            other.join().unwrap().unwrap();
        });
        assert!(has("2043"));
    }

    #[test]
    fn a_file_that_is_wrong_keeps_what_it_had_and_no_other_from_being_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, until: i32| {
            let (file, key) = (dir.path().join(name), KeyPair::generate().unwrap());
            let mut wish = CertificateParams::new([name.to_owned()]).unwrap();
            wish.not_after = date_time_ymd(until, 1, 1);
            std::fs::write(&file, wish.self_signed(&key).unwrap().pem() + &key.serialize_pem()).unwrap();
            file
        };
        let files = ["a", "b", "ca"].map(|name| write(name, 2040));
        let authorities = files[2].clone();
        let settings = Settings {
            pairs: files[..2].iter().map(|file| (file.clone(), file.clone())).collect(),
            clients: Some(ClientCertificates { authorities, required: true }),
            ..Settings::default()
        };
        let started = Acceptor::new(settings, &[]).unwrap();
        let context = || started.current().parts.trusted.unwrap().context.clone();
        let years = || {
            let all = started.certificates();
            all.iter().map(|one| one.expiry[16..20].to_owned()).collect::<Vec<_>>().join(" ")
        };
        // What is written anew, what is broken, and until when the certificates are good then.
        let before = context();
        for (written, broken, wanted, same) in [
            ("a", "b", "2041 2040", true),
            ("b", "a", "2041 2041", true),
            ("ca", "b", "2041 2041", false),
            ("a", "ca", "2041 2041", false),
        ] {
            write(written, 2041);
            std::fs::write(dir.path().join(broken), "broken").unwrap();
            let wrong = started.reload().unwrap_err();
            assert_eq!(wrong.last().unwrap().file(), Some(&*dir.path().join(broken)), "{broken}");
            assert_eq!((years().as_str(), context() == before), (wanted, same), "{written}");
        }
    }
}
