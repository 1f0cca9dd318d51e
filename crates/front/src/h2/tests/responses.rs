//! How responses leave by a connection of HTTP/2, also to clients that take little or nothing.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use howdah_metrics::{ConnectionState, Failure};
use howdah_wire::{Answer, LENGTH_UNKNOWN, RESPONSE_DETACHED, RESPONSE_HEAD_READY};

use super::data;
use crate::config::Config;
use crate::exchange::Mail;
use crate::sample::frames::{
    HEADERS, PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE, answer, asking, frame, frames, get, greeting,
    literals,
};
use crate::sample::world::{Terms, World, run};
use crate::transport::Peer;
use crate::transport::scripted::{Piece, Scripted};

#[test]
fn a_client_that_takes_nothing_is_cut_off_and_one_that_is_gone_interrupts_nobody_else() {
    run(async {
        let world = World::new(Config { write_timeout: Duration::from_secs(5), ..Config::default() });
        let script = Scripted::new([Piece::Bytes(greeting()), Piece::Pause, Piece::Bytes(get(1, "/a"))]);
        let connection = world.connect(&script);
        world.run(true).await;
        script.take(0);
        world.run(true).await;
        for _ in 0..7 {
            world.wait(Duration::from_secs(1));
            world.run(true).await;
        }
        assert!(connection.is_finished() && script.was_reset());
        let left =
            Scripted::new([Piece::Bytes([greeting(), get(1, "/a")].concat()), Piece::Pause, Piece::End]);
        let connection = world.connect(&left);
        world.run(false).await;
        left.become_of(Peer::Gone);
        left.go_on();
        world.run(false).await;
        assert!(connection.is_finished());
        assert_eq!(world.totals().failures[Failure::ClientGone], 1);
    });
}

#[test]
fn a_client_that_is_gone_without_a_word_keeps_no_worker() {
    // How much of what was sent is on its way to the client, and whether it is gone.
    type Case = (&'static str, fn(u64) -> u64, bool);
    let cases: [Case; 3] = [
        ("it has all", |_| 0, false),
        ("it takes less than --min-send-rate, for that is all there is", |sent| sent / 4, false),
        ("nothing arrives any more", |sent| sent.saturating_sub(100), true),
    ];
    for (what, on_its_way, gone) in cases {
        run(async {
            let world = World::new(Config { write_timeout: Duration::from_secs(10), ..Config::default() });
            let script = Scripted::new([Piece::Bytes(greeting()), Piece::Pause, Piece::Bytes(get(1, "/a"))]);
            let connection = world.connect(&script);
            world.run(false).await;
            script.go_on();
            world.run(false).await;
            let mut claimed = world.worker.claim().unwrap();
            world.worker.begin(&claimed);
            world.worker.head(&mut claimed, 200, LENGTH_UNKNOWN, 0);
            for _ in 0..30 {
                world.worker.write(&mut claimed, b"event");
                world.worker.tell(&claimed);
                world.run(false).await;
                script.hold(on_its_way(script.output().len() as u64));
                world.wait(Duration::from_secs(1));
                world.run(false).await;
            }
            assert_eq!(world.worker.is_abandoned(&claimed), gone, "{what}");
            assert_eq!((connection.is_finished(), script.was_reset()), (gone, gone), "{what}");
            let counted = world.totals().failures[Failure::WriteTimeout];
            assert_eq!(counted, u64::from(gone), "{what}");
        });
    }
}

#[test]
fn a_stream_is_not_late_while_its_client_is_busy_with_others() {
    // Bytes of all streams that the client takes in each second, and whether some of these are cut off. Each has its turn after 13 s.
    for (takes, cut) in [(8 << 10, false), (200, true)] {
        run(async {
            let config = Config { response_buffer: 4 << 20, ..Config::default() };
            let world = World::with(config, Terms { max_queue: 16, ..Terms::default() }, |_| ());
            let streams = (1..28).step_by(2);
            let asked = streams.flat_map(|stream| get(stream, "/a"));
            let first = [PREFACE, &frame(SETTINGS, 0, 0, &[0, 4, 0, 16, 0, 0])].concat();
            let opens = Piece::Bytes(frame(WINDOW_UPDATE, 0, 0, &u32::to_be_bytes(takes)));
            let opens = (0..80).flat_map(|_| [Piece::Pause, opens.clone()]);
            let first = [Piece::Bytes(first), Piece::Pause, Piece::Bytes(asked.collect())];
            let script = Scripted::new(first.into_iter().chain(opens));
            let connection = world.connect(&script);
            world.run(false).await;
            script.go_on();
            world.run(false).await;
            for _ in 0..14 {
                answer(&world, &vec![b'x'; 200 << 10]).await;
            }
            for _ in 0..80 {
                world.wait(Duration::from_secs(1));
                script.go_on();
                world.run(false).await;
            }
            assert!(data(&script).concat().len() > 60_000 && !connection.is_finished());
            let late = world.totals().failures[Failure::WriteTimeout];
            assert_eq!(late > 0, cut, "{takes}: {late}");
        });
    }
}

#[test]
fn who_was_slow_once_owes_nothing_for_the_time_in_which_there_was_nothing_to_take() {
    run(async {
        let config = Config { keepalive_timeout: Duration::from_secs(300), ..Config::default() };
        let world = World::new(config);
        let wide = [
            PREFACE,
            &frame(SETTINGS, 0, 0, &[0, 4, 0, 16, 0, 0]),
            &frame(WINDOW_UPDATE, 0, 0, &[0, 63, 0, 0]),
        ];
        let pauses = || [Piece::Pause, Piece::Pause, Piece::Pause];
        let first = [Piece::Bytes(wide.concat()), Piece::Pause, Piece::Bytes(get(1, "/a"))];
        let script = Scripted::new(first.into_iter().chain(pauses()).chain([Piece::Bytes(get(3, "/b"))]));
        let connection = world.connect(&script);
        world.run(false).await;
        let body = vec![b'x'; 100 << 10];
        script.take(1000);
        world.run(false).await;
        answer(&world, &body).await;
        script.take(101_000);
        world.run(false).await;
        // It is looked at, and has little left to take then.
        world.wait(Duration::from_secs(6));
        world.run(false).await;
        script.take(usize::MAX);
        world.run(false).await;
        assert_eq!(world.totals().connections[ConnectionState::Idle], 1);
        world.wait(Duration::from_secs(200));
        script.take(0);
        world.run(false).await;
        answer(&world, &body).await;
        for _ in 0..5 {
            world.wait(Duration::from_secs(1));
            world.run(false).await;
        }
        assert!(!connection.is_finished() && !script.was_reset());
        script.take(usize::MAX);
        world.run(false).await;
        assert_eq!(data(&script).concat().len(), 2 * body.len());
    });
}

#[test]
fn a_worker_that_says_hints_waits_for_a_client_that_takes_none_for_a_moment() {
    run(async {
        let world = World::new(Config::default());
        let (ours, workers) = howdah_sys::socketpair_seqpacket().unwrap();
        world.pool().open_channel(0, ours);
        rustix::fs::fcntl_setfl(&workers, rustix::fs::OFlags::NONBLOCK).unwrap();
        let asked = Piece::Bytes(get(1, "/a"));
        let script = Scripted::new([Piece::Bytes(greeting()), Piece::Pause, asked]);
        let _connection = world.connect(&script);
        world.run(false).await;
        script.take(0);
        world.run(false).await;
        world.worker.begin(&world.worker.claim().unwrap());
        let word = || {
            let mut packet = [0; 64];
            let (length, _) = howdah_sys::recv_with_fds(&workers, &mut packet).ok()?;
            howdah_sys::decode_message(&packet[..length]).map(|(message, _)| message.value)
        };
        // Of those that come before one is out nothing is kept.
        for (takes, refused) in [(0, 0), (0, 1), (0, 1), (usize::MAX, 0), (0, 0), (0, 1)] {
            script.take(takes);
            world.run(false).await;
            let mail = Mail::Interim { status: 103, lines: b"Link: </a>\r\n".to_vec() };
            assert!(world.thread.desks.post(0, mail));
            assert_eq!(world.until(word).await, Some(refused));
        }
    });
}

/// An application that has taken a WebSocket's stream, has heard its end, and said `words` for a client that has no window for
/// them. Gives its end of the pair.
async fn taken(world: &World, script: &Scripted) -> UnixStream {
    let (ours, workers) = howdah_sys::socketpair_seqpacket().unwrap();
    world.pool().open_channel(0, ours);
    world.run(false).await;
    script.go_on();
    world.run(false).await;
    let mut claimed = world.worker.claim().unwrap();
    world.worker.begin(&claimed);
    assert!(world.thread.desks.post(0, Mail::Takeover));
    world.run(false).await;
    let (_, descriptors) = howdah_sys::recv_with_fds(&workers, &mut [0; 4096]).unwrap();
    let mut end = UnixStream::from(descriptors.into_iter().next().unwrap());
    let head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    end.write_all(format!("{head}words").as_bytes()).unwrap();
    world.worker.flag(&mut claimed, RESPONSE_DETACHED);
    world.worker.finish(claimed);
    end
}

#[test]
fn a_websocket_that_waits_for_a_window_ends_with_its_client_or_in_its_time() {
    let closed = [PREFACE, &frame(4, 0, 0, &[0, 4, 0, 0, 0, 0])].concat();
    let asks = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":path", "/a"),
        (":authority", "h"),
    ];
    let asked = [frame(HEADERS, 4, 1, &literals(&asks)), frame(0, 1, 1, b"x")].concat();
    // What the client does then, whether the application is still there, and whether the stream is let go.
    for (what, then, is_there, at_once, in_time) in [
        ("it ends its side", Piece::End, true, true, true),
        ("it does nothing", Piece::Pause, false, false, true),
        ("it does nothing, and the application may wait for that", Piece::Pause, true, false, false),
    ] {
        run(async {
            let world = World::new(Config::default());
            let asked = Piece::Bytes(asked.clone());
            let script =
                Scripted::new([Piece::Bytes(closed.clone()), Piece::Pause, asked, Piece::Pause, then]);
            let connection = world.connect(&script);
            let end = taken(&world, &script).await;
            world.run(false).await;
            script.become_of(Peer::Silent);
            script.go_on();
            world.run(false).await;
            end.set_nonblocking(true).unwrap();
            let ended = |end: &mut UnixStream| {
                let _ = end.read(&mut [0; 9]);
                end.write(b"more").is_err()
            };
            let mut end = is_there.then_some(end);
            let is_let_go = |end: &mut Option<UnixStream>| match end {
                Some(end) => ended(end),
                None => frames(&script).iter().any(|(kind, ..)| *kind == RST_STREAM),
            };
            assert_eq!(is_let_go(&mut end), at_once, "{what}");
            for _ in 0..70 {
                world.wait(Duration::from_secs(1));
                world.run(false).await;
            }
            assert_eq!(is_let_go(&mut end), in_time, "{what}");
            assert_eq!(connection.is_finished(), at_once, "{what}");
        });
    }
}

/// A client whose windows are a mebibyte wide, and four for all, and which takes `takes` bytes of the response that a worker has made.
async fn large(world: &World, takes: usize, body: &[u8]) -> (Scripted, tokio::task::JoinHandle<()>) {
    several(world, &[1], takes, body).await
}

/// Such a client, and what it has asked for in several streams.
async fn several(
    world: &World,
    streams: &[u8],
    takes: usize,
    body: &[u8],
) -> (Scripted, tokio::task::JoinHandle<()>) {
    let asked = streams.iter().flat_map(|stream| get(*stream, "/a")).collect();
    asking(world, streams.len(), asked, takes, body).await
}

#[test]
fn the_frames_of_a_turn_leave_together_and_their_memory_goes_on_to_the_next_connection() {
    run(async {
        let world = World::new(Config::default());
        let body = vec![b'x'; 100 << 10];
        let (script, _connection) = large(&world, usize::MAX, b"").await;
        let before = script.writes();
        let (second, _connection) = large(&world, usize::MAX, &body).await;
        assert_eq!((data(&second).len(), data(&second).concat() == body), (7, true));
        assert_eq!(
            (before, second.writes()),
            (2, 3),
            "what it begins with, and 64 KiB and the rest of the body"
        );
        assert_eq!(world.thread.entrance.server.scratch.borrow().batch.capacity(), 64 << 10);
    });
}

#[test]
fn a_client_that_takes_some_bytes_at_a_time_gets_each_of_them_once() {
    for some in [1, 1000, 40_000, 65_536, 70_000] {
        run(async {
            let world = World::new(Config::default());
            let body: Vec<u8> = (0..100_u32 << 10).map(|number| (number * 7 / 5) as u8).collect();
            let (script, connection) = large(&world, some, &body).await;
            let totals = world.totals();
            assert_eq!(totals.connections[ConnectionState::Running], 1, "it is waited for");
            let end = script.output().len() + 103_000;
            for more in 0.. {
                let before = script.output().len();
                script.take(some * (more + 1));
                world.run(false).await;
                if script.output().len() == before {
                    break;
                }
            }
            assert!(data(&script).concat() == body && script.output().len() < end, "{some} at a time");
            assert!(!connection.is_finished());
            assert_eq!(world.totals().connections[ConnectionState::Idle], 1);
        });
    }
}

#[test]
fn a_connection_holds_little_of_many_streams_for_a_client_that_takes_nothing() {
    run(async {
        let world = World::with(Config::default(), Terms { max_queue: 16, ..Terms::default() }, |_| ());
        let body = vec![b'x'; 100 << 10];
        let streams: Vec<u8> = (0..14).map(|number| 2 * number + 1).collect();
        let (script, _connection) = several(&world, &streams, 0, &body).await;
        script.take(usize::MAX);
        world.run(false).await;
        let data: Vec<_> = frames(&script).into_iter().filter(|(kind, ..)| *kind == 0).collect();
        let of = |stream| data.iter().filter(move |frame| frame.1 == stream);
        assert!(streams.iter().all(|&stream| of(stream).flat_map(|frame| &frame.2).count() == body.len()));
        // What the connection had, of the first two, is out before anything that its streams have held back.
        let held_back = data.iter().position(|frame| frame.1 > 3).unwrap();
        assert_eq!(data[..held_back].iter().map(|frame| frame.2.len()).sum::<usize>(), 127 << 10);
    });
}

#[test]
fn a_response_whose_head_is_none_is_its_workers_doing() {
    run(async {
        let world = World::new(Config::default());
        let script = Scripted::new([Piece::Bytes([greeting(), get(1, "/a")].concat())]);
        let connection = world.connect(&script);
        world.run(false).await;
        let mut claimed = world.worker.claim().unwrap();
        world.worker.begin(&claimed);
        let lines = b"no field\r\n";
        world.worker.write(&mut claimed, lines);
        let (flags, head_length) = (RESPONSE_HEAD_READY, lines.len() as u32);
        world.worker.say(&mut claimed, Answer { status: 200, flags, head_length, ..Answer::default() });
        world.worker.finish(claimed);
        world.run(false).await;
        assert!(frames(&script).iter().any(|(kind, ..)| *kind == RST_STREAM) && !connection.is_finished());
        let failures = world.totals().failures;
        assert_eq!((failures[Failure::WorkerLost], failures[Failure::ClientGone]), (1, 0));
    });
}
