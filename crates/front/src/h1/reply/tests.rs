//! What goes out for which response, and what follows when one breaks off.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use howdah_metrics::{ConnectionState, Failure};
use howdah_wire::{ANSWER_TOO_MANY, LENGTH_UNKNOWN, RESPONSE_DETACHED, RESPONSE_FAILED};

use super::COPY_BODY;
use crate::config::Config;
use crate::exchange::Mail;
use crate::h1::serve;
use crate::reports::Loss;
use crate::sample::heard::heard;
use crate::sample::worker::Claimed;
use crate::sample::world::{Terms, World, pieces, run};
use crate::transport::scripted::Scripted;
use crate::transport::{Peer, Socket, Transport};

const GET: &str = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";

fn text(script: &Scripted) -> String {
    String::from_utf8(script.output()).unwrap()
}

#[test]
fn what_becomes_of_a_worker_is_what_its_client_hears() {
    for (loss, status, failure) in [
        (Loss::Exited, "500 Internal Server Error", Failure::Application),
        (Loss::Killed, "502 Bad Gateway", Failure::WorkerLost),
    ] {
        run(async {
            let world = World::new(Config::default());
            let script = Scripted::new(pieces(GET));
            let connection = world.connect(&script);
            world.run(false).await;
            let claimed = world.worker.claim().unwrap();
            world.worker.begin(&claimed);
            world.pool().worker_gone(0, loss);
            world.run(false).await;
            assert!(text(&script).starts_with(&format!("HTTP/1.1 {status}\r\n")), "{loss:?}");
            assert_eq!(world.totals().failures[failure], 1);
            assert!(!connection.is_finished(), "the connection stays");
        });
    }
}

#[test]
fn a_request_that_takes_too_long_is_answered_and_its_worker_told_of() {
    run(async {
        let terms = Terms { request_timeout: Duration::from_secs(3), ..Terms::default() };
        let mut world = World::with(Config::default(), terms, |_| ());
        let script = Scripted::new(pieces(GET));
        world.connect(&script);
        world.run(false).await;
        let claimed = world.worker.claim().unwrap();
        world.worker.begin(&claimed);
        world.wait(Duration::from_millis(2900));
        world.run(false).await;
        assert!(script.output().is_empty(), "not yet");
        world.wait(Duration::from_secs(1));
        world.run(false).await;
        assert!(text(&script).starts_with("HTTP/1.1 504 Gateway Timeout\r\n"));
        let overdue = world.overdue.try_recv().unwrap();
        assert_eq!((overdue.worker, overdue.slot), (0, claimed.claim.slot));
        world.worker.finish(claimed);
        world.run(false).await;
        assert_eq!(world.totals().all_requests(), 1, "what comes later is for nobody");
    });
}

#[test]
fn a_client_that_has_left_is_not_waited_for_and_its_worker_interrupted_where_asked_for() {
    for (abort_on_disconnect, peer, over) in
        [(false, Peer::Gone, true), (true, Peer::Silent, true), (false, Peer::Silent, false)]
    {
        run(async {
            let mut world = World::new(Config { abort_on_disconnect, ..Config::default() });
            let script = Scripted::new(pieces(GET));
            let connection = world.connect(&script);
            world.run(false).await;
            let claimed = world.worker.claim().unwrap();
            world.worker.begin(&claimed);
            script.become_of(peer);
            world.wait(Duration::from_millis(100));
            world.run(false).await;
            assert_eq!(connection.is_finished(), over, "{abort_on_disconnect} {peer:?}");
            assert_eq!(world.departed.try_recv().ok(), abort_on_disconnect.then_some(0));
            assert_eq!(world.totals().failures[Failure::ClientGone], u64::from(over));
        });
    }
}

#[test]
fn interim_responses_go_before_the_answer_but_not_to_old_clients() {
    let said = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
    // And behind others that wait to go out with it.
    for (version, hints, before) in [("1.1", said, 0), ("1.0", "", 0), ("1.1", said, 2), ("1.0", "", 2)] {
        run(async {
            let world = World::new(Config::default());
            let get = format!("GET /a HTTP/{version}\r\nHost: h\r\nConnection: keep-alive\r\n\r\n");
            let script = Scripted::new(pieces(&get.repeat(before + 1)));
            world.connect(&script);
            world.run(false).await;
            for _ in 0..before {
                assert!(world.worker.serve());
                world.run(false).await;
            }
            let mail = Mail::Interim { status: 103, lines: b"Link: x\r\n".to_vec() };
            assert!(world.thread.desks.post(0, mail));
            world.run(false).await;
            let old = text(&script);
            assert!(old.ends_with(hints) && old.matches(" 200 OK\r\n").count() == before, "{old}");
            world.run(true).await;
            assert!(text(&script)[old.len()..].starts_with(&format!("HTTP/{version} 200 OK\r\n")));
        });
    }
}

#[test]
fn a_connection_that_switches_protocols_is_nobodys_but_the_applications() {
    for (version, sent) in [("1.1", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"), ("1.0", "")] {
        for fails in [false, true] {
            run(async {
                let world = World::new(Config::default());
                let script = Scripted::new(pieces(&format!("GET /a HTTP/{version}\r\nHost: h\r\n\r\n")));
                let connection = world.connect(&script);
                world.run(false).await;
                let mut claimed = world.worker.claim().unwrap();
                world.worker.begin(&claimed);
                let mail = Mail::Interim { status: 101, lines: b"Upgrade: x\r\n".to_vec() };
                assert!(world.thread.desks.post(0, mail));
                world.run(false).await;
                assert_eq!(text(&script), sent);
                world.worker.flag(&mut claimed, if fails { RESPONSE_FAILED } else { RESPONSE_DETACHED });
                world.worker.finish(claimed);
                world.run(false).await;
                let case = format!("{version} {fails}");
                assert_eq!(text(&script).len() > sent.len(), sent.is_empty() && fails, "{case}");
                assert!(connection.is_finished() || script.was_shut(), "{case}");
            });
        }
    }
}

#[test]
fn requests_beyond_the_queue_are_refused_and_their_connections_stay() {
    run(async {
        let terms = Terms { max_queue: 2, ..Terms::default() };
        let world = World::with(Config::default(), terms, |_| ());
        let scripts: Vec<_> = (0..3).map(|_| Scripted::new(pieces(&format!("{GET}|{GET}")))).collect();
        let connections: Vec<_> = scripts.iter().map(|script| world.connect(script)).collect();
        world.run(false).await;
        let refused: Vec<_> =
            scripts.iter().map(|script| text(script).contains("503 Service Unavailable\r\n")).collect();
        assert_eq!(refused, [false, false, true]);
        assert!(text(&scripts[2]).contains("\r\nRetry-After: 1\r\n"));
        world.run(true).await;
        for script in &scripts {
            script.go_on();
            world.run(true).await;
        }
        assert!(scripts.iter().all(|script| text(script).ends_with("\r\n\r\n/a")));
        assert!(connections.iter().all(|connection| !connection.is_finished()));
        assert_eq!(world.totals().failures[Failure::QueueFull], 1);
    });
}

/// A client whose request has a whole response with a body of so many bytes.
async fn with_body(length: usize, takes: usize) -> (World, Scripted) {
    let world = World::new(Config::default());
    let script = Scripted::new(pieces(GET));
    world.connect(&script);
    script.take(takes);
    answer(&world, length).await;
    (world, script)
}

/// The worker answers the request that waits, whole before anybody looks.
async fn answer(world: &World, length: usize) {
    world.run(false).await;
    let mut claimed = world.worker.claim().unwrap();
    world.worker.begin(&claimed);
    world.worker.head(&mut claimed, 200, LENGTH_UNKNOWN, 0);
    assert_eq!(world.worker.write(&mut claimed, &vec![b'x'; length]), length);
    world.worker.finish(claimed);
    world.run(false).await;
}

/// A worker whose second request is of a client that takes nothing, and has not taken the response to the first; what it hears
/// from us. None where that response did not wait for the second, as on a machine that is busy.
async fn behind_another(terms: Terms) -> Option<(World, Scripted, Claimed, OwnedFd)> {
    let world = World::with(Config::default(), terms, |_| ());
    let (ours, channel) = howdah_sys::socketpair_seqpacket().unwrap();
    rustix::io::ioctl_fionbio(&channel, true).unwrap();
    world.pool().open_channel(0, ours);
    let script = Scripted::new(pieces(&GET.repeat(2)));
    script.take(0);
    world.connect(&script);
    world.run(false).await;
    assert!(world.worker.serve());
    world.run(false).await;
    let claimed = world.worker.claim()?;
    world.worker.begin(&claimed);
    Some((world, script, claimed, channel))
}

fn is_seen(test: impl AsyncFn() -> Option<()>) {
    assert!((0..50).any(|_| run(test()).is_some()));
}

/// What the worker was told.
fn word(channel: &OwnedFd) -> Option<u64> {
    let mut packet = [0; 4096];
    let (length, _) = howdah_sys::recv_with_fds(channel, &mut packet).ok()?;
    Some(howdah_sys::decode_message(&packet[..length])?.0.value)
}

#[test]
fn no_worker_waits_for_a_client_that_does_not_take_interim_responses() {
    run(async {
        let world = World::new(Config::default());
        let (ours, channel) = howdah_sys::socketpair_seqpacket().unwrap();
        rustix::io::ioctl_fionbio(&channel, true).unwrap();
        world.pool().open_channel(0, ours);
        let script = Scripted::new(pieces(GET));
        script.take(5);
        world.connect(&script);
        world.run(false).await;
        let claimed = world.worker.claim().unwrap();
        world.worker.begin(&claimed);
        // Of what is said the second time nothing goes out.
        for refused in [0, 1] {
            let mail = Mail::Interim { status: 103, lines: b"Link: x\r\n".to_vec() };
            assert!(world.thread.desks.post(0, mail));
            world.run(false).await;
            assert_eq!(word(&channel), Some(refused));
        }
        world.worker.respond(claimed);
        world.run(false).await;
        script.take(usize::MAX);
        world.run(false).await;
        let said = text(&script);
        assert!(said.starts_with("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n"), "{said}");
        assert_eq!((said.matches("HTTP/1.1").count(), said.ends_with("\r\n\r\n/a")), (2, true));
        assert_eq!(world.totals().bytes_out, said.len() as u64);
    });
}

#[test]
fn no_worker_waits_with_a_large_response_for_a_client_that_does_not_take_the_one_before() {
    is_seen(async || {
        let (world, script, mut claimed, _) = behind_another(Terms::default()).await?;
        world.worker.head(&mut claimed, 200, LENGTH_UNKNOWN, 0);
        let (piece, mut written) = (vec![b'x'; 200_000], 0);
        while written < 5 * piece.len() {
            let more = world.worker.write(&mut claimed, &piece);
            assert!(more > 0, "{written} bytes found room");
            written += more;
            world.worker.tell(&claimed);
            world.run(false).await;
            world.wait(Duration::from_millis(60));
            tokio::time::sleep(Duration::from_millis(15)).await;
            world.run(false).await;
        }
        world.worker.finish(claimed);
        world.run(false).await;
        script.take(usize::MAX);
        let whole = || text(&script).ends_with("0\r\n\r\n").then(|| text(&script).matches('x').count());
        assert_eq!(world.until(whole).await, Some(written));
        Some(())
    });
}

#[test]
fn what_a_client_has_not_taken_is_not_lost_with_the_worker_of_its_next_request() {
    for takes in [0, 10, 100] {
        is_seen(async || {
            let (world, script, mut claimed, _channel) = behind_another(Terms::default()).await?;
            world.worker.head(&mut claimed, 200, LENGTH_UNKNOWN, 0);
            world.worker.write(&mut claimed, b"some of it");
            world.worker.tell(&claimed);
            world.run(false).await;
            script.take(takes);
            world.run(false).await;
            world.pool().worker_gone(0, Loss::Killed);
            world.run(false).await;
            script.take(usize::MAX);
            world.run(false).await;
            let said = text(&script);
            assert!(said.contains("\r\n\r\n/aHTTP/1.1 502 Bad Gateway\r\n"), "{takes}: {said}");
            assert_eq!(world.totals().bytes_out, said.len() as u64);
            Some(())
        });
    }
}

#[test]
fn a_worker_that_is_lost_counts_once_though_its_client_does_not_hear_of_it() {
    run(async {
        let world = World::new(Config::default());
        let script = Scripted::new(pieces(GET));
        script.take(0);
        world.connect(&script);
        world.run(false).await;
        let mut claimed = world.worker.claim().unwrap();
        world.worker.begin(&claimed);
        world.worker.head(&mut claimed, 200, LENGTH_UNKNOWN, 0);
        world.worker.write(&mut claimed, b"some of it");
        world.worker.tell(&claimed);
        world.run(false).await;
        script.become_of(Peer::Gone);
        world.pool().worker_gone(0, Loss::Killed);
        world.run(false).await;
        let failures = world.totals().failures;
        assert_eq!((failures[Failure::WorkerLost], failures[Failure::ClientGone]), (1, 1));
    });
}

#[test]
fn an_application_that_may_have_no_connection_hears_so_before_its_client_is_waited_for() {
    let switching = || Mail::Interim { status: 101, lines: b"Upgrade: x\r\n".to_vec() };
    for mail in [|| Mail::Takeover, switching] as [fn() -> Mail; 2] {
        is_seen(async || {
            let terms = Terms { max_upgrades: 0, ..Terms::default() };
            let (world, _script, _claimed, channel) = behind_another(terms).await?;
            assert!(world.thread.desks.post(0, mail()));
            world.run(false).await;
            assert_eq!(word(&channel), Some(ANSWER_TOO_MANY));
            Some(())
        });
    }
}

#[test]
fn a_small_body_is_copied_behind_its_head_and_a_larger_one_sent_from_where_it_lies() {
    for (length, runs) in [(0, 1), (1, 1), (COPY_BODY, 1), (COPY_BODY + 1, 2), (100_000, 2)] {
        run(async {
            let (_, script) = with_body(length, usize::MAX).await;
            assert_eq!((script.runs(), script.writes()), (runs, 1), "{length}");
            assert_eq!(text(&script).matches('x').count(), length);
        });
    }
    assert_eq!(COPY_BODY, 16_384);
}

#[test]
fn a_client_that_takes_a_response_in_pieces_has_all_of_it_and_keeps_the_connection() {
    for takes in [0, 1, 100, 20_000] {
        run(async {
            let (world, script) = with_body(50_000, takes).await;
            assert_eq!(script.output().len(), takes);
            script.take(usize::MAX);
            world.run(false).await;
            assert_eq!(text(&script).matches('x').count(), 50_000, "{takes}");
            assert_eq!(world.totals().all_requests(), 1);
            assert_eq!(world.totals().connections[ConnectionState::Idle], 1, "{takes}");
        });
    }
}

#[test]
fn a_length_that_is_not_the_bodys_is_told() {
    for (target, told) in [
        ("/given", None),
        ("/short", Some("gave Content-Length 9 but a body of 4 bytes to GET /short")),
        ("/long", Some("gave Content-Length 2 but a body of 4 bytes to GET /long")),
    ] {
        let said = heard(|| {
            run(async {
                let world = World::new(Config::default());
                let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
                world.serve(&Scripted::new(pieces(&request))).await;
            });
        });
        assert_eq!(
            said.iter().filter(|line| line.contains("Content-Length")).count(),
            usize::from(told.is_some())
        );
        assert!(told.is_none_or(|told| said.iter().any(|line| line.contains(told))), "{said:?}");
    }
}

#[test]
fn an_application_that_wants_the_connection_has_its_descriptor_and_what_came_behind_the_request() {
    run(async {
        let world = World::new(Config::default());
        let (ours, workers) = howdah_sys::socketpair_seqpacket().unwrap();
        world.pool().open_channel(0, ours);
        let (mut client, socket) = UnixStream::pair().unwrap();
        client.write_all(format!("{GET}{GET}early").as_bytes()).unwrap();
        socket.set_nonblocking(true).unwrap();
        let presence = world.presence();
        let (server, who) = (world.thread.entrance.server, crate::sample::client(""));
        let transport = Transport::Plain(Socket::Fresh(socket.into()));
        let connection = tokio::task::spawn_local(serve(server, transport, who, presence));
        world.run(false).await;
        // Its response may wait for the next one.
        assert!(world.worker.serve());
        world.run(false).await;
        world.worker.begin(&world.worker.claim().unwrap());
        assert!(world.thread.desks.post(0, Mail::Takeover));
        world.run(false).await;
        let mut packet = [0; 4096];
        let (length, descriptors) = howdah_sys::recv_with_fds(&workers, &mut packet).unwrap();
        assert!(packet[..length].ends_with(b"early"));
        let lent = UnixStream::from(descriptors.into_iter().next().unwrap());
        (&lent).write_all(b"mine").unwrap();
        let mut answer = [0; 4096];
        let length = client.read(&mut answer).unwrap();
        let answer = answer[..length].escape_ascii().to_string();
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("/amine"), "{answer}");
        assert_eq!(world.totals().connections[ConnectionState::Detached], 1);
        world.pool().worker_gone(0, Loss::Killed);
        world.run(false).await;
        assert!(connection.is_finished(), "it is not ours to answer on");
    });
}

#[test]
fn a_large_body_is_sent_from_where_it_is_and_counted_without_its_head() {
    run(async {
        let (world, script) = with_body(100_000, usize::MAX).await;
        let output = text(&script);
        let (head, body) = output.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("\r\nContent-Length: 100000") && body.len() == 100_000);
        assert_eq!(script.writes(), 1);
        assert_eq!(world.totals().bytes_out, output.len() as u64);
    });
}

#[test]
fn what_a_client_leaves_of_a_long_response_is_held_as_far_as_memory_goes_and_stays_in_its_slot_beyond_that() {
    // Whether others have all the memory, and requests whose slot is not free yet.
    for (others, kept) in [(false, 0), (true, 1)] {
        run(async {
            let world = World::new(Config { response_spool: 0, ..Config::default() });
            let memory = &world.thread.entrance.server.holding.stock.memory;
            while others && memory.take(1 << 20) {}
            let script = Scripted::new(pieces(GET));
            script.take(50_000);
            world.connect(&script);
            answer(&world, 200_000).await;
            assert_eq!(script.output().len(), 50_000, "{others}");
            assert_eq!(world.pool().dispatch.borrow().in_flight, kept, "{others}");
            script.take(usize::MAX);
            world.run(false).await;
            let output = text(&script);
            let (head, body) = output.split_once("\r\n\r\n").unwrap();
            assert!(head.contains("\r\nContent-Length: 200000") && body == "x".repeat(200_000), "{others}");
            assert_eq!(world.pool().dispatch.borrow().in_flight, 0, "{others}");
            assert_eq!(world.totals().bytes_out, output.len() as u64);
            assert!(others || memory.take(64 << 20), "the memory is given back");
        });
    }
}
