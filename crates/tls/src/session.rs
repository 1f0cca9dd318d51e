//! The TLS of one connection, without I/O: records come in and are opened where they lie, plain bytes are sealed into
//! memory of the caller's. What the protocol itself has to say (handshake, alerts, tickets) is collected in
//! [`Session::pending`], which the caller sends before anything else.

use std::fmt;
use std::io::{self, Write};

use rustls::HandshakeKind;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, UnbufferedStatus};

use crate::facts::Facts;
use crate::store::asked;
use crate::tickets::{ENDLESS, ENDS};

/// Bytes that sealing adds to each 16 KiB begun, at most.
pub const OVERHEAD: usize = 64;

/// A fatal alert in the clear (RFC 8446 6.2).
const DECODE_ERROR: [u8; 7] = [21, 3, 3, 0, 2, 2, 50];

/// See the module.
pub struct Session {
    tls: UnbufferedServerConnection,
    /// Records that are to be sent before others.
    pub pending: Vec<u8>,
    /// The name that the client has asked for.
    name: Option<Box<str>>,
    asks_clients: bool,
    /// What [`ENDS`] is for this one.
    ends: i64,
    closed: bool,
    /// Records of which the library has taken note and that it wants to see again, since they have the beginning of a message:
    /// whatever it is asked, it panics without them.
    held: Vec<u8>,
    /// The client has been told so, and nothing more.
    broken: bool,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("closed", &self.closed).finish_non_exhaustive()
    }
}

/// The session is over: the client, or somebody between, does not follow the protocol. [`Session::pending`] has the alert.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Broken(rustls::Error);

impl Broken {
    fn full(_: io::Error) -> Self {
        Self(rustls::Error::General("no room for what the client says".to_owned()))
    }
}

/// What [`Session::open`] has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Bytes of the input that are used up. The others are the beginning of a record, to be brought again.
    pub used: usize,
    /// Whole records that the input had.
    pub records: usize,
}

impl Session {
    pub(crate) fn new(tls: UnbufferedServerConnection, asks_clients: bool) -> Self {
        Self {
            tls,
            pending: Vec::new(),
            name: None,
            asks_clients,
            ends: ENDLESS,
            closed: false,
            held: Vec::new(),
            broken: false,
        }
    }

    /// Opens the records of `input`, in place, and writes to `plain` what the client says in them, which is less than they take.
    ///
    /// # Errors
    /// When the session is broken, or `plain` has no room.
    pub fn open(&mut self, input: &mut [u8], plain: &mut impl Write) -> Result<Opened, Broken> {
        let mut used = 0;
        let (whole, records) = whole(input.get(self.held.len()..).unwrap_or_default());
        let whole = self.held.len() + whole;
        let greets = self.tls.is_handshaking();
        loop {
            if greets {
                ENDS.set(self.ends);
            }
            let UnbufferedStatus { mut discard, state, .. } =
                self.tls.process_tls_records(&mut input[used..]);
            if greets {
                self.name = asked().or(self.name.take());
                self.ends = ENDS.get();
            }
            let mut more = true;
            match state {
                Err(error) => {
                    self.last_words(&mut input[used..], &error);
                    self.broken = true;
                    return Err(Broken(error));
                }
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(Broken)?;
                        plain.write_all(record.payload).map_err(Broken::full)?;
                        discard += record.discard;
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, &mut self.pending),
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => self.closed = true,
                // Nothing is left to do without more input.
                Ok(_) => more = false,
            }
            used += discard;
            if !more {
                self.held.clear();
                self.held.extend_from_slice(input.get(used..whole).unwrap_or_default());
                return Ok(Opened { used, records });
            }
        }
    }

    /// The alert that tells the client why, behind what else there is to say, such as the beginning of an answer to its greeting.
    /// The library says that before it looks at its input, and is asked for nothing more: what is wrong would be found wanting again.
    fn last_words(&mut self, seen: &mut [u8], error: &rustls::Error) {
        while self.tls.wants_write()
            && let Ok(ConnectionState::EncodeTlsData(mut data)) = self.tls.process_tls_records(seen).state
        {
            encode(&mut data, &mut self.pending);
        }
        // A greeting that says it is too long is refused without a word.
        let greets = self.tls.protocol_version().is_none();
        if greets && self.pending.is_empty() && matches!(error, rustls::Error::InvalidMessage(_)) {
            self.pending.extend_from_slice(&DECODE_ERROR);
        }
    }

    /// Seals `plain` into the beginning of `out`, which must have room for it and for [`OVERHEAD`] for each 16 KiB begun.
    /// Gives the length.
    ///
    /// # Errors
    /// When the handshake is not over, the session is closed by us, or has sealed as much as its keys may.
    pub fn seal(&mut self, plain: &[u8], out: &mut [u8]) -> Result<usize, Unsealed> {
        if self.broken {
            return Err(Unsealed);
        }
        loop {
            match self.tls.process_tls_records(&mut self.held).state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    return traffic.encrypt(plain, out).map_err(|_| Unsealed);
                }
                // It goes before what is sealed now.
                Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, &mut self.pending),
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => self.closed = true,
                Ok(_) | Err(_) => return Err(Unsealed),
            }
        }
    }

    /// Says that nothing more will be sent; once.
    pub fn close(&mut self) {
        if self.broken {
            return;
        }
        let mut record = [0; 256];
        let mut length = 0;
        loop {
            match self.tls.process_tls_records(&mut self.held).state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    length = traffic.queue_close_notify(&mut record).unwrap_or(0);
                    break;
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, &mut self.pending),
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => self.closed = true,
                Ok(_) | Err(_) => break,
            }
        }
        self.pending.extend_from_slice(&record[..length]);
    }

    /// The client has said that it will send no more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// The handshake is not over.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// It is TLS 1.3: with the client's last word of the handshake it needs none of ours.
    #[must_use]
    pub fn is_tls13(&self) -> bool {
        self.tls.protocol_version() == Some(rustls::ProtocolVersion::TLSv1_3)
    }

    /// It continues an earlier session.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        matches!(self.tls.handshake_kind(), Some(HandshakeKind::Resumed))
    }

    /// What the handshake has settled.
    #[must_use]
    pub fn facts(&self) -> Facts {
        let cipher = self.tls.negotiated_cipher_suite().map(|cipher| cipher.suite());
        let mut facts =
            Facts::new(self.tls.protocol_version(), cipher, self.name.as_deref(), self.tls.alpn_protocol());
        if self.asks_clients {
            facts.of_client(self.tls.peer_certificates());
        }
        facts
    }
}

/// Nothing can be sealed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the TLS session is over")]
pub struct Unsealed;

/// Bytes of the whole records that `input` begins with, and how many they are.
fn whole(input: &[u8]) -> (usize, usize) {
    let (mut end, mut records) = (0, 0);
    while let Some([_, _, _, high, low]) = input.get(end..end + 5) {
        let next = end + 5 + usize::from(u16::from_be_bytes([*high, *low]));
        if next > input.len() {
            break;
        }
        (end, records) = (next, records + 1);
    }
    (end, records)
}

fn encode<Data>(data: &mut EncodeTlsData<'_, Data>, pending: &mut Vec<u8>) {
    let at = pending.len();
    let mut room = 0;
    // The first attempt tells how much room is needed.
    while let Err(EncodeError::InsufficientSize(needed)) =
        data.encode(&mut pending[at..]).map(|length| room = length)
    {
        pending.resize(at + needed.required_size, 0);
    }
    pending.truncate(at + room);
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::Arc;

    use rustls::CipherSuite;
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::crypto::CryptoProvider;
    use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
    use rustls::{
        AlertDescription, ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme,
    };

    use super::*;
    use crate::{Acceptor, Least, Settings};

    /// A client that believes everybody.
    #[derive(Debug)]
    struct Anybody;

    impl ServerCertVerifier for Anybody {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ECDSA_NISTP256_SHA256]
        }
    }

    fn acceptor() -> Acceptor {
        let (dir, key) = (tempfile::tempdir().unwrap(), rcgen::KeyPair::generate().unwrap());
        let wish = rcgen::CertificateParams::new(["example.org".to_owned()]).unwrap();
        let file = dir.path().join("pair");
        std::fs::write(&file, wish.self_signed(&key).unwrap().pem() + &key.serialize_pem()).unwrap();
        let pairs = vec![(file.clone(), file)];
        let protocols = vec![b"http/1.1".to_vec()];
        Acceptor::new(Settings { pairs, protocols, ..Settings::default() }, &[]).unwrap()
    }

    fn clients(least: Least) -> Arc<ClientConfig> {
        clients_by(least, rustls::crypto::aws_lc_rs::default_provider())
    }

    fn clients_by(least: Least, provider: CryptoProvider) -> Arc<ClientConfig> {
        let provider = Arc::new(provider);
        let versions = match least {
            Least::Tls12 => [&rustls::version::TLS12],
            Least::Tls13 => [&rustls::version::TLS13],
        };
        let builder =
            ClientConfig::builder_with_provider(provider).with_protocol_versions(&versions).unwrap();
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody));
        let mut config = builder.with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config)
    }

    /// What the client has to say, in pieces of so many bytes, and what it hears. Gives what it says to the application.
    fn exchange(
        client: &mut ClientConnection,
        session: &mut Session,
        piece: usize,
    ) -> Result<Vec<u8>, Broken> {
        let (mut wire, mut plain, mut input) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..10 {
            while client.wants_write() {
                client.write_tls(&mut wire).unwrap();
            }
            for bytes in std::mem::take(&mut wire).chunks(piece) {
                input.extend_from_slice(bytes);
                let opened = session.open(&mut input, &mut plain)?;
                input.drain(..opened.used);
            }
            let pending = std::mem::take(&mut session.pending);
            let mut pending = &pending[..];
            while !pending.is_empty() {
                client.read_tls(&mut pending).unwrap();
                client.process_new_packets().unwrap();
            }
        }
        Ok(plain)
    }

    fn greet(config: &Arc<ClientConfig>, acceptor: &Acceptor, piece: usize) -> (ClientConnection, Session) {
        let name = ServerName::try_from("example.org").unwrap();
        let mut client = ClientConnection::new(Arc::clone(config), name).unwrap();
        let mut session = acceptor.session().unwrap();
        assert!(exchange(&mut client, &mut session, piece).unwrap().is_empty());
        assert!(!client.is_handshaking() && !session.is_handshaking());
        (client, session)
    }

    fn variables(session: &Session) -> Vec<(&'static str, String)> {
        session.facts().variables().map(|(name, value)| (name, value.to_owned())).collect()
    }

    /// A server that takes early data, as there may be one at an address before ours.
    fn other_server() -> Arc<rustls::ServerConfig> {
        let key = rcgen::KeyPair::generate().unwrap();
        let wish = rcgen::CertificateParams::new(["example.org".to_owned()]).unwrap();
        let chain = vec![wish.self_signed(&key).unwrap().der().clone()];
        let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).unwrap();
        let mut config = builder.with_no_client_auth().with_single_cert(chain, key).unwrap();
        config.max_early_data_size = 16_384;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config)
    }

    #[test]
    fn early_data_that_another_server_would_take_is_passed_over() {
        let (other, acceptor) = (other_server(), acceptor());
        for (early, piece) in [(100, 100_000), (6000, 100_000), (16_384, 100_000), (16_384, 1400)] {
            let mut config = (*clients(Least::Tls13)).clone();
            config.enable_early_data = true;
            let config = Arc::new(config);
            let name = || ServerName::try_from("example.org").unwrap();
            let mut client = ClientConnection::new(Arc::clone(&config), name()).unwrap();
            let mut server = rustls::ServerConnection::new(Arc::clone(&other)).unwrap();
            for _ in 0..5 {
                let mut wire = Vec::new();
                while client.wants_write() {
                    client.write_tls(&mut wire).unwrap();
                }
                server.read_tls(&mut &wire[..]).unwrap();
                server.process_new_packets().unwrap();
                wire.clear();
                while server.wants_write() {
                    server.write_tls(&mut wire).unwrap();
                }
                client.read_tls(&mut &wire[..]).unwrap();
                client.process_new_packets().unwrap();
            }
            let mut client = ClientConnection::new(config, name()).unwrap();
            for part in vec![b'x'; early].chunks(4000) {
                client.early_data().unwrap().write_all(part).unwrap();
            }
            let mut session = acceptor.session().unwrap();
            let told = exchange(&mut client, &mut session, piece);
            assert_eq!(told.unwrap(), b"", "{early} bytes in pieces of {piece}");
            assert!(!session.is_handshaking() && !client.is_early_data_accepted());
            client.writer().write_all(b"later").unwrap();
            assert_eq!(exchange(&mut client, &mut session, piece).unwrap(), b"later");
        }
    }

    #[test]
    fn a_client_has_the_cipher_that_it_likes_best() {
        let acceptor = acceptor();
        for least in [Least::Tls12, Least::Tls13] {
            for best in ["AES_128_GCM", "AES_256_GCM", "CHACHA20_POLY1305"] {
                let mut provider = rustls::crypto::aws_lc_rs::default_provider();
                let is_best = |name: CipherSuite| name.as_str().unwrap().contains(best);
                provider.cipher_suites.sort_by_key(|suite| !is_best(suite.suite()));
                let (client, _) = greet(&clients_by(least, provider), &acceptor, 100_000);
                assert!(is_best(client.negotiated_cipher_suite().unwrap().suite()), "{best}");
            }
        }
    }

    #[test]
    fn both_sides_understand_each_other_however_the_bytes_come() {
        let acceptor = acceptor();
        for (least, protocol, cipher) in [
            (Least::Tls12, "TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384"),
            (Least::Tls13, "TLSv1.3", "TLS_AES_256_GCM_SHA384"),
        ] {
            let config = clients(least);
            for (piece, resumed) in [(1, false), (100, true), (100_000, true)] {
                let (mut client, mut session) = greet(&config, &acceptor, piece);
                assert_eq!(session.is_resumed(), resumed, "{protocol} {piece}");
                assert_eq!(session.is_tls13(), least == Least::Tls13);
                let expected =
                    [("SSL_PROTOCOL", protocol), ("SSL_CIPHER", cipher), ("SSL_TLS_SNI", "example.org")];
                assert_eq!(variables(&session), expected.map(|(name, value)| (name, value.to_owned())));
                assert_eq!(session.facts().alpn, b"http/1.1");
                client.writer().write_all(&[b'q'; 40_000]).unwrap();
                assert_eq!(exchange(&mut client, &mut session, piece).unwrap(), [b'q'; 40_000]);
                let mut out = vec![0; 50_000];
                let length = session.seal(&[b'a'; 40_000], &mut out).unwrap();
                assert!(length <= 40_000 + 3 * OVERHEAD, "{length}");
                let (mut sealed, mut heard) = (&out[..length], vec![0; 40_000]);
                let mut at = 0;
                while at < heard.len() {
                    client.read_tls(&mut sealed).unwrap();
                    client.process_new_packets().unwrap();
                    // It may be in the middle of a record.
                    at += client.reader().read(&mut heard[at..]).unwrap_or(0);
                }
                assert!(heard.iter().all(|&byte| byte == b'a'));
            }
        }
    }

    #[test]
    fn until_when_a_client_is_believed_is_known_also_when_it_resumes() {
        let (dir, key) = (tempfile::tempdir().unwrap(), rcgen::KeyPair::generate().unwrap());
        let mut wish = rcgen::CertificateParams::new(["example.org".to_owned()]).unwrap();
        wish.not_after = rcgen::date_time_ymd(2100, 1, 1);
        let (file, made) = (dir.path().join("pair"), wish.self_signed(&key).unwrap());
        std::fs::write(&file, made.pem() + &key.serialize_pem()).unwrap();
        let nobody = clients(Least::Tls13);
        let clients = Some(crate::ClientCertificates { authorities: file.clone(), required: false });
        let settings = Settings { pairs: vec![(file.clone(), file)], clients, ..Settings::default() };
        let acceptor = Acceptor::new(settings, &[]).unwrap();
        let shown = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        let builder =
            ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap();
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody));
        let config = Arc::new(builder.with_client_auth_cert(vec![made.der().clone()], shown).unwrap());
        for (piece, resumed) in [(1, false), (100, true), (100_000, true)] {
            let session = greet(&config, &acceptor, piece).1;
            assert_eq!((session.is_resumed(), session.ends), (resumed, 4_102_444_800), "{piece}");
        }
        let other = greet(&nobody, &acceptor, 100).1;
        assert_eq!(other.ends, ENDLESS, "what another has shown on this thread is not its own");
    }

    #[test]
    fn either_side_may_end_first_and_hear_the_other() {
        let acceptor = acceptor();
        let config = clients(Least::Tls13);
        let (mut client, mut session) = greet(&config, &acceptor, 1000);
        client.send_close_notify();
        exchange(&mut client, &mut session, 1000).unwrap();
        let mut out = [0; 200];
        assert!(session.is_closed() && session.seal(b"answer", &mut out).unwrap() > 6);

        let (mut client, mut session) = greet(&config, &acceptor, 1000);
        session.close();
        assert!(!session.pending.is_empty());
        client.writer().write_all(b"more").unwrap();
        assert_eq!(exchange(&mut client, &mut session, 1000).unwrap(), b"more");
        assert_eq!(client.reader().read(&mut [0; 10]).unwrap(), 0, "our end was understood");
    }

    #[test]
    fn what_is_no_tls_breaks_the_session_and_is_told() {
        let mut session = acceptor().session().unwrap();
        let mut input = *b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
        assert!(session.open(&mut input, &mut Vec::new()).is_err());
        assert_eq!(session.pending[0], 21, "an alert");
        assert!(session.seal(b"x", &mut [0; 100]).is_err());
    }

    #[test]
    fn a_client_hears_why_it_is_turned_away_also_behind_the_beginning_of_an_answer() {
        let acceptor = acceptor();
        for least in [Least::Tls12, Least::Tls13] {
            let mut config = ClientConfig::clone(&clients(least));
            config.alpn_protocols = vec![b"h3".to_vec()];
            let name = ServerName::try_from("example.org").unwrap();
            let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
            let (mut session, mut greeting) = (acceptor.session().unwrap(), Vec::new());
            client.write_tls(&mut greeting).unwrap();
            assert!(session.open(&mut greeting, &mut Vec::new()).is_err());
            client.read_tls(&mut &session.pending[..]).unwrap();
            let why = AlertDescription::NoApplicationProtocol;
            assert_eq!(client.process_new_packets().unwrap_err(), Error::AlertReceived(why), "{least:?}");
        }
        let (mut session, mut too_long) =
            (acceptor.session().unwrap(), *b"\x16\x03\x01\0\x04\x01\xff\xff\xff");
        assert!(session.open(&mut too_long, &mut Vec::new()).is_err());
        assert_eq!(session.pending, DECODE_ERROR);
        let (mut session, mut gives_up) = (acceptor.session().unwrap(), *b"\x15\x03\x01\0\x02\x02\x28");
        assert!(session.open(&mut gives_up, &mut Vec::new()).is_err());
        assert_eq!(session.pending, b"", "nobody answers an alert");
    }

    /// The beginning of a message is in records that the library wants to see again, whatever it is asked.
    #[test]
    fn a_client_that_begins_a_message_and_says_no_more_is_answered_all_the_same() {
        let acceptor = acceptor();
        for first in [
            &b"\x16\x03\x01\0\x10zzzzzzzzzzzzzzzz"[..],
            b"\x16\x03\x01\0\x06\x01\0\x02\0zz\x17\x03\x03\0\x01z",
        ] {
            let (mut session, mut input) = (acceptor.session().unwrap(), first.to_vec());
            assert!(session.open(&mut input, &mut Vec::new()).is_err());
            session.close();
            assert_eq!(session.seal(b"hello", &mut [0; 99]), Err(Unsealed));
        }
        let mut session = acceptor.session().unwrap();
        for records in 2..5 {
            let mut input = b"\x16\x03\x01\0\x05\x01\0\x02\0z".to_vec();
            input.extend(b"\x16\x03\x01\0\x01z".repeat(records - 1));
            assert_eq!(session.open(&mut input, &mut Vec::new()).unwrap(), Opened { used: 0, records });
            assert_eq!(session.held.len(), 4 + 6 * records);
            session.close();
            session = acceptor.session().unwrap();
        }
    }
}
