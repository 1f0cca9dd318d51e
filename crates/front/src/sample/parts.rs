//! For tests: requests from text, clients, and parts of a thread that are put together as `thread` does it.

use std::sync::Arc;

use howdah_http1::{FieldStore, Limits, RequestDecoder};
use howdah_metrics::Recorder;
use howdah_tls::{Acceptor, Settings};
use rustls::pki_types::CertificateDer;

use crate::address::Serves;
use crate::capacity::Capacity;
use crate::clock::Clock;
use crate::config::Config;
use crate::listen::Origin;
use crate::outflow::{Holding, Stock};
use crate::record::Records;
use crate::request::{Client, Content, Request};
use crate::room::Room;
use crate::timers::Timers;

/// Something that a thread has for good.
pub(crate) fn forever<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// What speaks TLS for example.org, and its certificate.
pub(crate) fn acceptor() -> (Acceptor, CertificateDer<'static>) {
    let (dir, key) = (tempfile::tempdir().unwrap(), rcgen::KeyPair::generate().unwrap());
    let made = rcgen::CertificateParams::new(["example.org".to_owned()]).unwrap().self_signed(&key).unwrap();
    let file = dir.path().join("pair");
    std::fs::write(&file, made.pem() + &key.serialize_pem()).unwrap();
    let settings = Settings { pairs: vec![(file.clone(), file)], ..Settings::default() };
    (Acceptor::new(settings, &[]).unwrap(), made.der().clone())
}

/// A client with an address, or on a Unix socket where that is empty.
pub(crate) fn client(address: &str) -> Client {
    client_of(Serves::Requests, address)
}

/// One that has come to a listener which serves that.
pub(crate) fn client_of(serves: Serves, address: &str) -> Client {
    let (name, port) = ("example.org".to_owned(), "5000".to_owned());
    let origin = Origin { serves, ..Origin::of(name, port) };
    let port = if address.is_empty() { "" } else { "40000" };
    Client {
        origin: Arc::new(origin),
        address: address.into(),
        port: port.into(),
        secure: false,
        tls: None,
        server_port: None,
        trusted: false,
        introduced: None,
    }
}

/// Lets `look` see the request that an HTTP/1 head is.
pub(crate) fn with<T>(head: &str, client: &Client, look: impl FnOnce(&Request<'_>) -> T) -> T {
    let mut store = FieldStore::new();
    let mut decoder = RequestDecoder::new(&Limits::default());
    let head = decoder.decode(head.as_bytes(), &mut store).expect("a good head").expect("a whole head");
    look(&Request {
        method: head.method,
        target: head.path_and_query,
        path: head.path,
        query: head.query,
        authority: head.authority,
        host: None,
        vouched: false,
        protocol: b"HTTP/1.1",
        fields: head.fields(),
        lends: true,
        content: Content::of(head.framing),
        length: head.len,
        redirected: None,
        client,
    })
}

/// Room for as many as there are.
pub(crate) fn room(clock: &'static Clock) -> &'static Room {
    room_for(Capacity::new(None), clock)
}

/// Room for as many as that says.
pub(crate) fn room_for(capacity: Capacity, clock: &'static Clock) -> &'static Room {
    let timers = forever(Timers::new(clock));
    let records = forever(Records::new(None, None, Recorder::new(), clock));
    forever(Room::new(forever(capacity), timers, clock, records))
}

/// What the connections of a server with these settings share when their clients read slowly.
pub(crate) fn holding(config: Config) -> &'static Holding {
    let clock = forever(Clock::new());
    let stock = Arc::new(Stock::new(&config));
    forever(Holding::new(Arc::new(config), clock, stock, room(clock)))
}
