//! Records of TLS, cut anywhere, and with anything between them: the session says what the client has said, or that it is broken,
//! and can be asked for whatever a connection asks of it at any moment.

use std::io::Write;
use std::sync::{Arc, LazyLock};

use howdah_tls::{Acceptor, Session, Settings};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme};

/// What the client says to the application consists of these.
const WORD: u8 = b'q';

/// A script, behind a byte that chooses the protocol's version: each byte has a step in its lower three bits and its size in the others.
///
/// # Panics
/// When a session says what its client has not, loses what it has, or breaks though nobody has tampered with it.
pub fn tls(data: &[u8]) {
    let [version, script @ ..] = data else { return };
    let mut talk = Talk::new(version & 1 == 0);
    let mut steps = script.iter().copied();
    while let Some(step) = steps.next() {
        let size = usize::from(step >> 3);
        match step & 7 {
            0 => talk.bring(size + 1),
            1 => talk.bring(usize::MAX),
            2 => talk.say(size),
            3 => talk.renew_keys(),
            4 => talk.answer(),
            5 if size == 0 => talk.session.close(),
            5 => talk.end(),
            6 => talk.tamper(&steps.by_ref().take(size + 1).collect::<Vec<_>>()),
            _ => talk.spoil(size),
        }
    }
    talk.conclude();
}

/// A client and a session.
struct Talk {
    client: ClientConnection,
    session: Session,
    /// What the client has sent and the session not received.
    wire: Vec<u8>,
    input: Vec<u8>,
    plain: Vec<u8>,
    said: usize,
    renewed: usize,
    ended: bool,
    tampered: bool,
    broken: bool,
}

impl Talk {
    fn new(old: bool) -> Self {
        static CONFIGS: LazyLock<[Arc<ClientConfig>; 2]> = LazyLock::new(|| [true, false].map(config));
        static ACCEPTOR: LazyLock<Acceptor> = LazyLock::new(acceptor);
        let name = ServerName::try_from("example.org").unwrap();
        let client = ClientConnection::new(Arc::clone(&CONFIGS[usize::from(!old)]), name).unwrap();
        let session = ACCEPTOR.session().unwrap();
        Self {
            client,
            session,
            wire: Vec::new(),
            input: Vec::new(),
            plain: Vec::new(),
            said: 0,
            renewed: 0,
            ended: false,
            tampered: false,
            broken: false,
        }
    }

    /// So many bytes more, or all that there are.
    fn bring(&mut self, most: usize) {
        while self.client.wants_write() {
            self.client.write_tls(&mut self.wire).unwrap();
        }
        let more = self.wire.drain(..most.min(self.wire.len()));
        self.input.extend(more);
        self.open();
    }

    fn open(&mut self) {
        if self.broken {
            return;
        }
        match self.session.open(&mut self.input, &mut self.plain) {
            Ok(opened) => {
                assert!(opened.used <= self.input.len());
                self.input.drain(..opened.used);
            }
            Err(broken) => {
                assert!(self.tampered, "{broken}");
                self.broken = true;
            }
        }
        assert!(
            self.plain.len() <= self.said && self.plain.iter().all(|&byte| byte == WORD),
            "it was not said"
        );
        self.hear();
    }

    /// The client is told what the protocol has to say.
    fn hear(&mut self) {
        let pending = std::mem::take(&mut self.session.pending);
        self.tell(&pending);
    }

    fn tell(&mut self, mut records: &[u8]) {
        while !records.is_empty() {
            let read = self.client.read_tls(&mut records);
            let heard = self.client.process_new_packets();
            if self.tampered && (heard.is_err() || read.is_err()) {
                break;
            }
            heard.unwrap();
            if read.unwrap() == 0 {
                break;
            }
        }
    }

    fn say(&mut self, size: usize) {
        // A client that has heard nonsense says no more.
        let said = !self.ended && self.client.writer().write_all(&vec![WORD; size]).is_ok();
        assert!(said || self.ended || self.tampered);
        self.said += if said { size } else { 0 };
    }

    fn renew_keys(&mut self) {
        // More of them without a word between are refused. There are none before the handshake is over, nor in TLS 1.2.
        if self.renewed < 30 && self.client.refresh_traffic_keys().is_ok() {
            self.renewed += 1;
        }
    }

    fn end(&mut self) {
        if !self.client.is_handshaking() {
            self.client.send_close_notify();
            self.ended = true;
        }
    }

    fn answer(&mut self) {
        let mut out = [0; 200];
        if let Ok(length) = self.session.seal(b"answer", &mut out) {
            assert!(!self.broken && !self.session.is_handshaking());
            self.hear();
            self.tell(&out[..length]);
        }
    }

    /// Somebody says something between.
    fn tamper(&mut self, bytes: &[u8]) {
        self.tampered |= !bytes.is_empty();
        self.input.extend_from_slice(bytes);
        self.open();
    }

    /// Somebody changes what is on its way.
    fn spoil(&mut self, place: usize) {
        if let Some(byte) = self.wire.get_mut(place) {
            *byte ^= 1;
            self.tampered = true;
        }
    }

    fn conclude(&mut self) {
        if self.tampered {
            self.bring(usize::MAX);
        } else {
            // As many turns as a handshake has, and one for what was said.
            (0..4).for_each(|_| self.bring(usize::MAX));
            assert!(!self.session.is_handshaking() && self.plain.len() == self.said, "it was said");
            assert_eq!(self.session.is_closed(), self.ended);
        }
        self.answer();
        self.session.close();
        self.hear();
    }
}

fn config(old: bool) -> Arc<ClientConfig> {
    let versions = if old { [&TLS12] } else { [&TLS13] };
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_protocol_versions(&versions).unwrap().dangerous();
    Arc::new(builder.with_custom_certificate_verifier(Arc::new(Anybody)).with_no_client_auth())
}

fn acceptor() -> Acceptor {
    let (dir, key) = (tempfile::tempdir().unwrap(), rcgen::KeyPair::generate().unwrap());
    let wish = rcgen::CertificateParams::new(["example.org".to_owned()]).unwrap();
    let file = dir.path().join("pair");
    std::fs::write(&file, wish.self_signed(&key).unwrap().pem() + &key.serialize_pem()).unwrap();
    Acceptor::new(Settings { pairs: vec![(file.clone(), file)], ..Settings::default() }, &[]).unwrap()
}

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
