//! For tests: frames of HTTP/2, as a client writes and reads them.

use tokio::task::JoinHandle;

use crate::sample::world::World;
use crate::transport::scripted::{Piece, Scripted};

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;

pub(crate) fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

/// A request by literals that no table remembers.
pub(crate) fn get(stream: u8, path: &str) -> Vec<u8> {
    let fields = [(":method", "GET"), (":scheme", "http"), (":path", path), (":authority", "h")];
    frame(HEADERS, 5, stream, &literals(&fields))
}

pub(crate) fn literals(fields: &[(&str, &str)]) -> Vec<u8> {
    let literal = |word: &str| [&[u8::try_from(word.len()).unwrap()], word.as_bytes()].concat();
    fields.iter().flat_map(|(name, value)| [vec![0], literal(name), literal(value)].concat()).collect()
}

pub(crate) fn greeting() -> Vec<u8> {
    [PREFACE, &frame(4, 0, 0, b"")].concat()
}

/// Type, stream and payload of the frames in what a client has received.
pub(crate) fn frames(script: &Scripted) -> Vec<(u8, u8, Vec<u8>)> {
    let (output, mut at, mut frames) = (script.output(), 0, Vec::new());
    while let Some(head) = output.get(at..at + 9) {
        let length = usize::from(head[1]) * 256 + usize::from(head[2]);
        frames.push((head[3], head[8], output[at + 9..at + 9 + length].to_vec()));
        at += 9 + length;
    }
    frames
}

/// The bodies of streams.
pub(crate) fn bodies(script: &Scripted) -> String {
    let data = frames(script).into_iter().filter(|(kind, ..)| *kind == 0);
    data.map(|(_, stream, body)| format!("{stream}={} ", String::from_utf8(body).unwrap())).collect()
}

pub(crate) fn goaways(script: &Scripted) -> usize {
    frames(script).iter().filter(|(kind, ..)| *kind == GOAWAY).count()
}

/// A client whose windows are a mebibyte wide, and four for all, that has asked for so many, and takes `takes` bytes of the responses that
/// a worker has made.
pub(crate) async fn asking(
    world: &World,
    count: usize,
    asked: Vec<u8>,
    takes: usize,
    body: &[u8],
) -> (Scripted, JoinHandle<()>) {
    let wide = [frame(4, 0, 0, &[0, 4, 0, 16, 0, 0]), frame(8, 0, 0, &[0, 63, 0, 0])].concat();
    let greeting = Piece::Bytes([PREFACE, &wide].concat());
    let script = Scripted::new([greeting, Piece::Pause, Piece::Bytes(asked)]);
    let connection = world.connect(&script);
    world.run(false).await;
    script.take(takes);
    world.run(false).await;
    for _ in 0..count {
        answer(world, body).await;
    }
    (script, connection)
}

/// The next request is answered by that.
pub(crate) async fn answer(world: &World, body: &[u8]) {
    let mut claimed = world.worker.claim().unwrap();
    world.worker.begin(&claimed);
    world.worker.head(&mut claimed, 200, body.len() as u64, 0);
    let mut written = world.worker.write(&mut claimed, body);
    while written < body.len() {
        world.worker.tell(&claimed);
        world.run(false).await;
        let more = world.worker.write(&mut claimed, &body[written..]);
        assert!(more > 0, "the front takes it");
        written += more;
    }
    world.worker.finish(claimed);
    world.run(false).await;
}
