//! What sessions are made from: settings, and the files that they name. All of it is read and checked before it is used,
//! and exchanged as a whole, so that a file that is wrong changes nothing.

use std::iter::repeat;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::{NoServerSessionStorage, UnbufferedServerConnection, WebPkiClientVerifier};
use rustls::{ServerConfig, SupportedProtocolVersion, version};

use crate::challenges::{ACME_TLS, Challenges};
use crate::error::Error;
use crate::pair::Pair;
use crate::session::Session;
use crate::store::Store;
use crate::tickets::{Ticketer, Tickets};
use crate::trusted::Trusted;

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
}

#[derive(Clone, Debug)]
struct Current {
    config: Arc<ServerConfig>,
    certificates: Arc<[Certificate]>,
}

impl Acceptor {
    /// Reads all files. A certificate that has expired is taken: clients are warned of it, and without it there would be nobody
    /// for the other names either. `tickets` is what another process gave by [`Acceptor::tickets`].
    ///
    /// # Errors
    /// When a file is not as it should be.
    pub fn new(settings: Settings, tickets: &[u8]) -> Result<Self, Error> {
        let tickets = Arc::new(Tickets::unpack(tickets));
        let current = RwLock::new(build(&settings, &tickets, repeat(i64::MIN))?);
        Ok(Self { settings, tickets, current })
    }

    /// Reads the files anew. Sessions that begin from now on use what is in them; others go on.
    ///
    /// # Errors
    /// When a file is not as it should be; then everything stays.
    pub fn reload(&self) -> Result<(), Error> {
        // A pipe is good for one start. Waiting for another writer would end all renewals.
        if let Some(other) = self.files().find(|file| file.metadata().is_ok_and(|there| !there.is_file())) {
            return Err(Error::NoFile(other.to_owned()));
        }
        let fresh = build(&self.settings, &self.tickets, until(&self.certificates(), now()))?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    /// A session for a new connection.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub fn session(&self) -> Result<Session, Error> {
        let config = self.current().config;
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

    /// Every file that is read.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let pairs = self.settings.pairs.iter().flat_map(|(certificate, key)| [certificate, key]);
        pairs.chain(self.settings.clients.iter().map(|clients| &clients.authorities)).map(PathBuf::as_path)
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
    build(settings, &Arc::new(Tickets::unpack(&[])), repeat(now())).map(drop)
}

/// What is in a file that has a certificate and its key.
///
/// # Errors
/// When it could not be used now.
pub fn look(pair: &Path) -> Result<Certificate, Error> {
    Pair::read(pair, pair, now()).map(|pair| Certificate::of(&pair))
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()).cast_signed()
}

/// Until when what takes the place of those in use must be good. One that has expired in use may stay: the others' renewal would
/// wait for its own.
fn until(used: &[Certificate], now: i64) -> impl Iterator<Item = i64> {
    used.iter().map(move |one| one.expires.min(now))
}

/// `wanted` has for each pair until when it must be good, in seconds since 1970.
fn build(
    settings: &Settings,
    tickets: &Arc<Tickets>,
    wanted: impl Iterator<Item = i64>,
) -> Result<Current, Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let pairs = settings.pairs.iter().zip(wanted);
    let pairs = pairs.map(|((certificate, key), wanted)| Pair::read(certificate, key, wanted));
    let store = Store::new(pairs.collect::<Result<_, _>>()?, settings.challenges.clone());
    let certificates = store.pairs.iter().map(Certificate::of).collect();
    let clients = settings.clients.as_ref();
    let trusted = clients.map(|clients| Trusted::read(&clients.authorities, clients.required)).transpose()?;
    let context = trusted.as_ref().map(Trusted::context).unwrap_or_default();
    let mut config = config(settings, &provider, trusted.as_ref(), store)?;
    config.alpn_protocols.clone_from(&settings.protocols);
    config.alpn_protocols.extend(settings.challenges.iter().map(|_| ACME_TLS.to_vec()));
    config.ignore_client_order = true;
    // What clients resume by is in their tickets alone.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.ticketer = Arc::new(Ticketer { tickets: Arc::clone(tickets), context });
    Ok(Current { config: Arc::new(config), certificates })
}

fn config(
    settings: &Settings,
    provider: &Arc<CryptoProvider>,
    trusted: Option<&Trusted>,
    store: Store,
) -> Result<ServerConfig, Error> {
    let verifier = match trusted {
        Some(trusted) => trusted.verifier(provider)?,
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
        let tickets = Arc::new(Tickets::unpack(&[]));
        // When those in use end, and whether they are replaced by what is in the files.
        for (a, b, taken) in
            [(2030, 2002, true), (2030, 2001, true), (2030, 2003, false), (2030, 2030, false)]
        {
            let used = [a, b].map(|year| Certificate {
                file: PathBuf::new(),
                names: Vec::new(),
                expires: date_time_ymd(year, 1, 1).unix_timestamp(),
                expiry: String::new(),
                begins: 0,
            });
            assert_eq!(build(&settings, &tickets, until(&used, now())).is_ok(), taken, "{a} {b}");
        }
        assert!(matches!(check(&settings), Err(Error::Expired(..))), "before the start");
        let started = Acceptor::new(settings, &[]).unwrap();
        assert_eq!(started.certificates().len(), 2, "at the start");
        started.reload().unwrap();
    }
}
