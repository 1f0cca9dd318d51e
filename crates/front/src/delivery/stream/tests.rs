//! Responses that grow, and files: what clients get of them when either side is slow, leaves, or says what is not so.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use howdah_metrics::Failure;
use howdah_wire::{LENGTH_UNKNOWN, RESPONSE_BROKEN, RESPONSE_FILE, RESPONSE_RING};

use super::SURPLUS;
use crate::config::Config;
use crate::exchange::Mail;
use crate::h1::serve;
use crate::reports::Loss;
use crate::sample::frames::{HEADERS, frame, get, greeting, literals};
use crate::sample::worker::Claimed;
use crate::sample::world::{World, pieces, run};
use crate::transport::scripted::{Piece, Scripted};
use crate::transport::{Peer, Socket, Transport};

/// A client whose request a worker has, which has said its head.
struct Scene {
    world: World,
    script: Scripted,
    connection: tokio::task::JoinHandle<()>,
    claimed: Claimed,
}

async fn scene(config: Config, version: &str, length: u64, flags: u32) -> Scene {
    let asked = pieces(&format!("GET /a HTTP/{version}\r\nHost: h\r\nConnection: keep-alive\r\n\r\n"));
    scene_of(config, asked, length, flags).await
}

async fn scene_of(config: Config, asked: Vec<Piece>, length: u64, flags: u32) -> Scene {
    let (world, script) = (World::new(config), Scripted::new(asked));
    let connection = world.connect(&script);
    world.run(false).await;
    let mut claimed = world.worker.claim().unwrap();
    world.worker.begin(&claimed);
    world.worker.head(&mut claimed, 200, length, flags);
    Scene { world, script, connection, claimed }
}

/// One of a head alone so far, of which the front has been told.
async fn begun(asked: Vec<Piece>) -> Scene {
    let scene = scene_of(Config::default(), asked, LENGTH_UNKNOWN, 0).await;
    scene.world.worker.tell(&scene.claimed);
    scene.world.run(false).await;
    scene
}

impl Scene {
    /// The worker writes that, and tells.
    async fn write(&mut self, bytes: &[u8]) -> usize {
        let first = self.world.worker.write(&mut self.claimed, bytes);
        // Which may have come to the ring's end.
        let written = first + self.world.worker.write(&mut self.claimed, &bytes[first..]);
        self.world.worker.tell(&self.claimed);
        self.world.run(false).await;
        written
    }

    async fn finish(self) -> (World, Scripted, tokio::task::JoinHandle<()>) {
        self.world.worker.finish(self.claimed);
        self.world.run(false).await;
        (self.world, self.script, self.connection)
    }

    fn body(&self) -> String {
        body(&self.script)
    }
}

fn body(script: &Scripted) -> String {
    let text = String::from_utf8(script.output()).unwrap();
    text.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.to_owned())
}

#[test]
fn each_piece_goes_out_when_it_is_there() {
    // Version, length that is given, what each piece looks like, what the end adds, and whether the connection stays.
    for (version, length, shown, end, stays) in [
        ("1.1", LENGTH_UNKNOWN, ["3\r\none\r\n", "3\r\ntwo\r\n"], "0\r\n\r\n", true),
        ("1.1", 6, ["one", "two"], "", true),
        ("1.1", 7, ["one", "two"], "", false),
        ("1.1", 5, ["one", "tw"], "", false),
        ("1.0", LENGTH_UNKNOWN, ["one", "two"], "", false),
    ] {
        run(async {
            let mut scene = scene(Config::default(), version, length, 0).await;
            scene.write(b"one").await;
            assert_eq!(scene.body(), shown[0], "{version} {length}");
            scene.write(b"two").await;
            assert_eq!(scene.body(), shown.concat());
            let (_, script, connection) = scene.finish().await;
            assert_eq!(body(&script), shown.concat() + end);
            assert_eq!(!connection.is_finished() && !script.was_shut(), stays, "{version} {length}");
            assert!(!script.was_reset());
        });
    }
}

#[test]
fn a_body_that_has_no_end_is_not_waited_for() {
    run(async {
        let mut scene = scene(Config::default(), "1.1", 5, 0).await;
        let piece = vec![b'x'; RESPONSE_RING / 2];
        for _ in 0..SURPLUS as usize / piece.len() {
            assert_eq!(scene.write(&piece).await, piece.len());
            assert!(!scene.connection.is_finished() && !scene.world.worker.is_abandoned(&scene.claimed));
        }
        scene.write(&piece).await;
        assert_eq!(scene.body(), "xxxxx");
        assert!(scene.script.was_shut() && scene.world.worker.is_abandoned(&scene.claimed));
    });
}

#[test]
fn a_body_that_breaks_off_does_not_look_whole() {
    for (version, length, reset) in
        [("1.1", LENGTH_UNKNOWN, false), ("1.1", 6, false), ("1.0", LENGTH_UNKNOWN, true)]
    {
        run(async {
            let mut scene = scene(Config::default(), version, length, 0).await;
            scene.write(b"one").await;
            scene.world.pool().worker_gone(0, Loss::Killed);
            scene.world.run(false).await;
            assert!(scene.connection.is_finished() && !scene.body().ends_with("0\r\n\r\n"));
            assert_eq!(scene.script.was_reset(), reset, "an ordinary end would say that this was all");
        });
    }
}

#[test]
fn a_client_that_is_gone_without_a_word_keeps_no_worker() {
    // How much of what was sent is on its way to the client, and whether it is gone.
    type Case = (&'static str, fn(u64) -> u64, bool);
    let cases: [Case; 4] = [
        ("it has all", |_| 0, false),
        ("the last piece is on its way", |_| 5, false),
        ("it takes less than --min-send-rate, for that is all there is", |sent| sent / 4, false),
        ("nothing arrives any more", |sent| sent.saturating_sub(100), true),
    ];
    for (what, on_its_way, gone) in cases {
        run(async {
            let config = Config { write_timeout: Duration::from_secs(10), ..Config::default() };
            let mut scene = scene(config, "1.1", LENGTH_UNKNOWN, 0).await;
            for _ in 0..30 {
                scene.write(b"event").await;
                scene.script.hold(on_its_way(scene.script.output().len() as u64));
                scene.world.wait(Duration::from_secs(1));
                scene.world.run(false).await;
            }
            assert_eq!(scene.world.worker.is_abandoned(&scene.claimed), gone, "{what}");
            assert_eq!((scene.connection.is_finished(), scene.script.was_reset()), (gone, gone), "{what}");
            let counted = scene.world.totals().failures[Failure::WriteTimeout];
            assert_eq!(counted, u64::from(gone), "{what}");
        });
    }
}

#[test]
fn what_a_client_has_nothing_of_yet_is_taken_back_when_its_worker_is_lost() {
    for (taken, what, stays) in
        [(0, "HTTP/1.1 502 Bad Gateway", true), (4, "HTTP/1.1 200 OK", false), (15, "HTTP/1.1 200 OK", false)]
    {
        run(async {
            let mut scene = scene(Config::default(), "1.1", 6, 0).await;
            scene.script.take(taken);
            scene.write(b"one").await;
            scene.world.pool().worker_gone(0, Loss::Killed);
            scene.world.run(false).await;
            scene.script.take(usize::MAX);
            scene.world.run(false).await;
            let output = String::from_utf8(scene.script.output()).unwrap();
            assert_eq!(output.lines().next(), Some(what));
            assert_eq!(output.ends_with("\r\n\r\n502 Bad Gateway\n"), stays, "{taken}");
            assert_eq!(!scene.connection.is_finished(), stays, "{taken}");
            assert_eq!(scene.world.totals().failures[Failure::WorkerLost], 1);
        });
    }
}

#[test]
fn what_a_lost_worker_had_handed_over_goes_to_a_client_that_is_slow() {
    for (length, is_behind) in
        [(LENGTH_UNKNOWN, false), (LENGTH_UNKNOWN, true), (200_000, false), (200_000, true)]
    {
        run(async {
            let mut scene = scene(Config::default(), "1.1", length, 0).await;
            scene.script.take(300);
            let written = scene.write(&[b'y'; 100_000]).await;
            if is_behind {
                scene.world.wait(Duration::from_millis(60));
                tokio::time::sleep(Duration::from_millis(15)).await;
                scene.world.run(false).await;
            }
            scene.world.pool().worker_gone(0, Loss::Killed);
            scene.world.run(false).await;
            assert!(!scene.connection.is_finished(), "{length} {is_behind}");
            scene.script.take(usize::MAX);
            scene.world.run(false).await;
            assert_eq!(scene.body().matches('y').count(), written, "{length} {is_behind}");
            assert!(scene.connection.is_finished() && !scene.body().ends_with("0\r\n\r\n"));
        });
    }
}

#[test]
fn a_worker_is_free_when_its_client_is_behind_and_memory_takes_the_response() {
    run(async {
        let config = Config { response_buffer: 4 << 20, response_spool: 0, ..Config::default() };
        let mut scene = scene(config, "1.1", LENGTH_UNKNOWN, 0).await;
        scene.script.take(0);
        let piece = vec![b'x'; RESPONSE_RING / 2];
        let mut written = 0;
        for _ in 0..12 {
            written += scene.write(&piece).await;
            scene.world.wait(Duration::from_millis(60));
            tokio::time::sleep(Duration::from_millis(15)).await;
            scene.world.run(false).await;
        }
        assert_eq!(written, 12 * piece.len(), "nothing held the worker up");
        scene.script.take(usize::MAX);
        let (_, script, connection) = scene.finish().await;
        assert_eq!(body(&script).matches('x').count(), written);
        assert!(body(&script).ends_with("0\r\n\r\n") && !connection.is_finished());
    });
}

#[test]
fn beyond_the_bounds_the_worker_waits() {
    run(async {
        let config = Config { response_buffer: 8192, response_spool: 0, ..Config::default() };
        let mut scene = scene(config, "1.1", LENGTH_UNKNOWN, 0).await;
        scene.script.take(0);
        let mut written = 0;
        for _ in 0..20 {
            written += scene.write(&vec![b'x'; RESPONSE_RING / 2]).await;
            scene.world.wait(Duration::from_millis(60));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(written <= RESPONSE_RING + 16384, "{written}");
    });
}

#[test]
fn a_client_that_takes_nothing_is_cut_off_and_one_that_leaves_is_noticed() {
    for (peer, seconds) in [(Peer::There, 61), (Peer::Gone, 8)] {
        run(async {
            let config = Config { min_send_rate: 0, ..Config::default() };
            let mut scene = scene(config, "1.1", LENGTH_UNKNOWN, 0).await;
            scene.script.take(0);
            scene.write(b"one").await;
            assert!(!scene.connection.is_finished());
            scene.script.become_of(peer);
            for _ in 0..2 * seconds {
                scene.world.wait(Duration::from_millis(500));
                scene.world.run(false).await;
            }
            assert!(scene.connection.is_finished(), "{peer:?}");
            assert_eq!(scene.script.was_reset(), peer == Peer::There);
            let failure = if peer == Peer::There { Failure::WriteTimeout } else { Failure::ClientGone };
            let failures = scene.world.totals().failures;
            assert_eq!(failures[failure], 1);
        });
    }
}

#[test]
fn a_response_that_breaks_off_counts_as_the_doing_of_whoever_has_it_break_off() {
    type Ends = fn(&World, Claimed);
    let is_through: Ends = |world, claimed| world.worker.finish(claimed);
    let dies: Ends = |world, mut claimed| {
        world.worker.flag(&mut claimed, RESPONSE_BROKEN);
        world.worker.finish(claimed);
    };
    let is_killed: Ends = |world, _| world.pool().worker_gone(0, Loss::Killed);
    let asked = [greeting(), get(1, "/a")].concat();
    let by = [("HTTP/2", asked), ("HTTP/1.1", b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n".to_vec())];
    // Whether some of it is out before its worker ends, its length as the worker says, how that ends, and what counts.
    for (what, grows, length, ends, expected) in [
        ("whole and short", false, 9, is_through, Some(Failure::Application)),
        ("short", true, 9, is_through, Some(Failure::Application)),
        ("whole and long", false, 2, is_through, None),
        ("long", true, 2, is_through, None),
        ("half", true, LENGTH_UNKNOWN, dies, Some(Failure::Application)),
        ("killed", true, LENGTH_UNKNOWN, is_killed, Some(Failure::WorkerLost)),
    ] {
        for (protocol, asked) in &by {
            run(async {
                let world = World::new(Config::default());
                let script = Scripted::new([Piece::Bytes(asked.clone())]);
                world.connect(&script);
                world.run(false).await;
                let mut claimed = world.worker.claim().unwrap();
                world.worker.begin(&claimed);
                world.worker.head(&mut claimed, 200, length, 0);
                world.worker.write(&mut claimed, b"four");
                if grows {
                    world.worker.tell(&claimed);
                    world.run(false).await;
                }
                ends(&world, claimed);
                world.run(false).await;
                let totals = world.totals();
                assert_eq!(totals.all_requests(), 1, "{what} by {protocol}");
                let failures = totals.failures.iter().filter(|(_, count)| **count > 0);
                let failed: Vec<_> = failures.map(|(failure, _)| failure).collect();
                assert_eq!(failed, expected.into_iter().collect::<Vec<_>>(), "{what} by {protocol}");
            });
        }
    }
}

fn file(bytes: &[u8]) -> File {
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file
}

#[test]
fn a_file_is_sent_as_long_as_it_was_said_to_be() {
    // What is in it, its length as the worker says, the length of the head, and whether the connection stays.
    for (bytes, length, given, sent, stays) in [
        (&b"0123456789"[..], 10, LENGTH_UNKNOWN, "0123456789", true),
        (b"0123456789", 10, 10, "0123456789", true),
        (b"0123456789", 10, 4, "0123", true),
        (b"0123", 10, LENGTH_UNKNOWN, "0123", false),
        (b"0123456789", 10, 12, "0123456789", false),
        (b"", 0, LENGTH_UNKNOWN, "", true),
    ] {
        run(async {
            let mut scene = scene(Config::default(), "1.1", given, RESPONSE_FILE).await;
            scene.world.worker.tell(&scene.claimed);
            scene.world.run(false).await;
            assert!(scene.script.output().is_empty(), "the file is not there yet");
            let permit = scene.world.thread.entrance.room.permit_for_file().unwrap();
            let mail = Mail::File { file: Some((file(bytes).into(), permit)), length };
            assert!(scene.world.thread.desks.post(0, mail));
            scene.write(b"").await;
            let (_, script, connection) = scene.finish().await;
            assert_eq!(body(&script), sent, "{length} {given}");
            assert_eq!(!connection.is_finished(), stays, "{length} {given}");
        });
    }
}

#[test]
fn a_slot_is_free_while_a_client_takes_a_file_slowly() {
    // Whether the worker is through with it before the client has to be waited for, behind that, or dies instead.
    for (when, dies) in [("before", false), ("behind", false), ("behind", true)] {
        run(async {
            let mut scene = scene(Config::default(), "1.1", LENGTH_UNKNOWN, RESPONSE_FILE).await;
            scene.script.take(0);
            let permit = scene.world.thread.entrance.room.permit_for_file().unwrap();
            let mail = Mail::File { file: Some((file(b"0123456789").into(), permit)), length: 10 };
            assert!(scene.world.thread.desks.post(0, mail));
            if when == "behind" {
                scene.write(b"").await;
            }
            let in_flight = |world: &World| world.pool().dispatch.borrow().in_flight;
            assert_eq!(in_flight(&scene.world), 1, "{when}: the worker may still be at it");
            let Scene { world, script, connection, claimed } = scene;
            match dies {
                true => world.pool().worker_gone(0, Loss::Killed),
                false => world.worker.finish(claimed),
            }
            world.run(false).await;
            assert_eq!(in_flight(&world), 0, "{when}");
            assert!(body(&script).is_empty() && !connection.is_finished());
            script.take(usize::MAX);
            world.run(false).await;
            assert_eq!((body(&script).as_str(), connection.is_finished()), ("0123456789", false));
            assert_eq!(world.totals().all_requests(), 1, "{when}");
        });
    }
}

#[test]
fn who_has_a_head_and_nothing_to_come_is_not_waited_with_once_he_has_ended_his_side() {
    for (method, is_let_go) in [("HEAD", true), ("GET", false)] {
        run(async {
            let asked = pieces(&format!("{method} /a HTTP/1.1\r\nHost: h\r\n\r\n"));
            let Scene { world, script, connection, claimed } = begun(asked).await;
            assert!(script.output().ends_with(b"\r\n\r\n"));
            for peer in [Peer::There, Peer::Silent] {
                assert!(!world.worker.is_abandoned(&claimed), "{method} {peer:?}");
                script.become_of(peer);
                world.wait(Duration::from_millis(100));
                world.run(false).await;
            }
            assert_eq!(world.worker.is_abandoned(&claimed), is_let_go, "{method}");
            assert_eq!(connection.is_finished() || script.was_shut(), is_let_go, "{method}");
            assert_eq!(world.totals().failures[Failure::ClientGone], 0);
        });
    }
}

#[test]
fn a_client_of_http2_that_has_all_its_heads_and_ends_its_side_of_the_connection_is_let_go() {
    for (method, is_let_go) in [("HEAD", true), ("GET", false)] {
        run(async {
            let fields = [(":method", method), (":scheme", "http"), (":path", "/a"), (":authority", "h")];
            let asked = [greeting(), frame(HEADERS, 5, 1, &literals(&fields))].concat();
            let asked = vec![Piece::Bytes(asked), Piece::Pause, Piece::End];
            let Scene { world, script, connection, claimed } = begun(asked).await;
            for is_silent in [false, true] {
                for _ in 0..30 {
                    world.wait(Duration::from_millis(100));
                    world.run(false).await;
                }
                assert_eq!(world.worker.is_abandoned(&claimed), is_silent && is_let_go, "{method}");
                script.go_on();
                world.run(false).await;
            }
            assert_eq!(connection.is_finished() || script.was_shut(), is_let_go, "{method}");
            assert_eq!(world.totals().failures[Failure::ClientGone], 0);
        });
    }
}

#[test]
fn who_has_a_head_and_nothing_to_come_and_asks_again_does_not_wait_for_a_worker_that_goes_on() {
    for (first, is_let_go) in [("HEAD", true), ("GET", false)] {
        run(async {
            let first_and_next =
                format!("{first} /a HTTP/1.1\r\nHost: h\r\n\r\n|GET /b HTTP/1.1\r\nHost: h\r\n\r\n");
            let Scene { world, script, connection, claimed } = begun(pieces(&first_and_next)).await;
            for _ in 0..30 {
                world.wait(Duration::from_millis(100));
                world.run(false).await;
            }
            assert!(!world.worker.is_abandoned(&claimed), "{first}: it may wait for that");
            script.go_on();
            for _ in 0..2 {
                world.wait(Duration::from_millis(100));
                world.run(false).await;
            }
            assert_eq!(world.worker.is_abandoned(&claimed), is_let_go, "{first}");
            assert!(!connection.is_finished());
            assert_eq!(world.totals().failures[Failure::ClientGone], 0);
        });
    }
}

#[test]
fn a_file_that_cannot_be_read_is_not_its_clients_doing() {
    run(async {
        let world = World::new(Config::default());
        let (mut client, socket) = UnixStream::pair().unwrap();
        client.write_all(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        socket.set_nonblocking(true).unwrap();
        let presence = world.presence();
        let transport = Transport::Plain(Socket::Fresh(socket.into()));
        let (server, who) = (world.thread.entrance.server, crate::sample::client(""));
        tokio::task::spawn_local(serve(server, transport, who, presence));
        let mut claimed = world.until(|| world.worker.claim()).await.unwrap();
        world.worker.begin(&claimed);
        world.worker.head(&mut claimed, 200, LENGTH_UNKNOWN, RESPONSE_FILE);
        let permit = world.thread.entrance.room.permit_for_file().unwrap();
        let mail = Mail::File { file: Some((File::open("/").unwrap().into(), permit)), length: 10 };
        assert!(world.thread.desks.post(0, mail));
        world.worker.finish(claimed);
        let over = world.until(|| (world.totals().all_requests() > 0).then_some(())).await;
        let failures = world.totals().failures;
        assert_eq!((over, failures[Failure::Application], failures[Failure::ClientGone]), (Some(()), 1, 0));
    });
}

#[test]
fn a_file_for_which_there_is_no_descriptor_is_503() {
    run(async {
        let scene = scene(Config::default(), "1.1", LENGTH_UNKNOWN, RESPONSE_FILE).await;
        assert!(scene.world.thread.desks.post(0, Mail::File { file: None, length: 4 }));
        scene.world.run(false).await;
        assert!(scene.script.output().starts_with(b"HTTP/1.1 503 "));
        assert_eq!(scene.world.totals().failures[Failure::Resources], 1);
    });
}
