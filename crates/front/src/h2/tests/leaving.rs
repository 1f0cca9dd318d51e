//! How a connection of HTTP/2 ends: that rests, is told to leave, or whose client ends its side.

use std::time::Duration;

use howdah_metrics::Failure;
use howdah_wire::RESPONSE_BROKEN;

use crate::address::Serves;
use crate::config::Config;
use crate::exchange::Mail;
use crate::sample::frames::{
    GOAWAY, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE, bodies, frame, frames, get, goaways,
    greeting, literals,
};
use crate::sample::world::{World, run};
use crate::transport::Peer;
use crate::transport::scripted::{Piece, Scripted};

#[test]
fn a_connection_that_rests_has_its_time_and_is_told_of_its_end() {
    // Whether it has had a request, and for how long it may rest then.
    for (asked, seconds) in [(false, 60), (true, 75)] {
        run(async {
            let world = World::new(Config::default());
            let input = if asked { [greeting(), get(1, "/a")].concat() } else { greeting() };
            let script = Scripted::new([Piece::Bytes(input)]);
            let connection = world.connect(&script);
            world.run(true).await;
            world.wait(Duration::from_millis(seconds * 1000 - 1));
            world.run(true).await;
            assert_eq!(goaways(&script), 0, "not yet");
            world.wait(Duration::from_millis(2));
            world.run(true).await;
            assert_eq!(goaways(&script), 1, "first without an end");
            for _ in 0..2 {
                // It does not answer, and then does not leave.
                world.wait(Duration::from_secs(3));
                world.run(true).await;
                assert_eq!(goaways(&script), 2, "then with it");
            }
            let last = frames(&script).into_iter().rfind(|(kind, ..)| *kind == GOAWAY);
            assert_eq!(last.unwrap().2, [0, 0, 0, u8::from(asked), 0, 0, 0, 0], "no later stream was taken");
            assert!(connection.is_finished());
        });
    }
}

#[test]
fn who_goes_on_after_the_word_to_leave_is_refused_what_it_cannot_have_begun_before() {
    run(async {
        let config = Config { keepalive_requests: 1, http2_streams: 2, ..Config::default() };
        let world = World::new(config);
        let further = [3, 5, 7, 9].map(|stream| [Piece::Pause, Piece::Bytes(get(stream, "/a"))]);
        let first = Piece::Bytes([greeting(), get(1, "/a")].concat());
        let script = Scripted::new([first].into_iter().chain(further.into_iter().flatten()));
        let connection = world.connect(&script);
        for _ in 0..5 {
            world.run(true).await;
            script.go_on();
        }
        assert_eq!(bodies(&script), "1=/a 3=/a 5=/a ");
        let resets: Vec<_> = frames(&script).into_iter().filter(|(kind, ..)| *kind == RST_STREAM).collect();
        let refused = |stream| (RST_STREAM, stream, vec![0, 0, 0, 7]);
        assert_eq!(resets, [refused(7), refused(9)], "it may ask for them again, elsewhere");
        for _ in 0..2 {
            world.wait(Duration::from_secs(3));
            world.run(true).await;
        }
        assert!(connection.is_finished());
    });
}

#[test]
fn who_still_takes_the_last_response_may_begin_another_stream() {
    type Ends = fn(&World);
    let ends: [(&str, Ends); 2] = [
        ("it was kept for so long", |world| world.wait(Duration::from_secs(75))),
        ("others need the room", |world| {
            world.wait(Duration::from_secs(1));
            assert!(world.thread.entrance.room.dismiss(Serves::Requests));
        }),
    ];
    for (what, end) in ends {
        for takes in [true, false] {
            run(async {
                let world = World::new(Config::default());
                let input = [greeting(), get(1, "/a")].concat();
                let script = Scripted::new([Piece::Bytes(input), Piece::Pause, Piece::Bytes(get(3, "/b"))]);
                script.hold(90_000);
                let connection = world.connect(&script);
                world.run(true).await;
                for left in if takes { [80_000, 60_000, 40_000] } else { [90_000; 3] } {
                    script.hold(left);
                    if !connection.is_finished() {
                        end(&world);
                    }
                    world.run(true).await;
                }
                script.go_on();
                world.run(true).await;
                let expected = if takes { "1=/a 3=/b " } else { "1=/a " };
                assert_eq!(bodies(&script), expected, "{what}");
                for _ in 0..4 {
                    world.wait(Duration::from_secs(76));
                    world.run(true).await;
                }
                assert!(connection.is_finished(), "{what}");
            });
        }
    }
}

#[test]
fn who_is_told_to_leave_has_time_for_what_is_on_its_way() {
    // Bytes on their way, how many of them arrive in a second, for how many seconds those may rest that can, after how many seconds, and
    // whether it is over then.
    for (what, held, takes, idle, seconds, over) in [
        ("nothing", 0, 0, 0, 1, false),
        ("nothing for long", 0, 0, 0, 5, true),
        ("nothing, at an upgrade", 0, 0, 5, 4, false),
        ("nothing for long, at an upgrade", 0, 0, 5, 9, true),
        ("the last words to one that is gone", 50, 0, 0, 1, false),
        ("the last words to one that is gone for long", 50, 0, 0, 3, true),
        ("a response to one that is gone", 50_000, 0, 0, 59, false),
        ("a response to one that is gone for long", 50_000, 0, 0, 75, true),
        ("a response that is taken slowly", 50_000, 400, 0, 100, false),
        ("a response that is taken too slowly", 50_000, 100, 0, 150, true),
        ("a response that was taken", 50_000, 1000, 0, 56, true),
    ] {
        run(async {
            let world = World::new(Config { keepalive_requests: u64::from(idle == 0), ..Config::default() });
            let script = Scripted::new([Piece::Bytes([greeting(), get(1, "/a")].concat()), Piece::Pause]);
            script.hold(held);
            let connection = world.connect(&script);
            world.run(true).await;
            world.thread.entrance.doors.drain(Duration::from_secs(idle));
            world.thread.timers.wake_all();
            world.run(true).await;
            for second in 1..=seconds {
                script.hold(held.saturating_sub(second * takes));
                world.wait(Duration::from_secs(1));
                world.run(true).await;
            }
            assert_eq!(connection.is_finished(), over, "{what}");
        });
    }
}

#[test]
fn who_has_ended_its_side_gets_what_it_has_asked_for() {
    let upload = frame(HEADERS, 4, 5, &get(5, "/c")[9..]);
    let asked = [greeting(), get(1, "/a"), get(3, "/b"), upload].concat();
    let at_once = vec![Piece::Bytes(asked.clone()), Piece::End];
    let later = vec![Piece::Bytes(asked.clone()), Piece::Pause, Piece::End];
    let cut = vec![Piece::Bytes(asked), Piece::Pause, Piece::Cut];
    // When it ends its side, whether that is to abort, what becomes of it, and what it gets.
    for (what, input, abort_on_disconnect, peer, expected) in [
        ("at once", at_once.clone(), false, Peer::Silent, "1=/a 3=/b "),
        ("later", later.clone(), false, Peer::Silent, "1=/a 3=/b "),
        ("without a word", cut, false, Peer::Silent, "1=/a 3=/b "),
        ("to abort", at_once, true, Peer::Silent, ""),
        ("to abort later", later.clone(), true, Peer::Silent, ""),
        ("gone", later, false, Peer::Gone, ""),
    ] {
        run(async {
            let world = World::new(Config { abort_on_disconnect, ..Config::default() });
            let script = Scripted::new(input);
            script.become_of(Peer::Silent);
            let connection = world.connect(&script);
            world.run(false).await;
            script.become_of(peer);
            script.go_on();
            world.run(false).await;
            assert_eq!(connection.is_finished(), expected.is_empty(), "{what}");
            world.run(true).await;
            assert_eq!(bodies(&script), expected, "{what}");
            assert!(connection.is_finished(), "{what}");
        });
    }
}

#[test]
fn who_has_ended_its_side_opens_no_window_for_what_is_left() {
    let small = [PREFACE, &frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 2])].concat();
    let asked = [small, get(1, "/a"), get(3, "/bcde")].concat();
    let wider = frame(WINDOW_UPDATE, 0, 3, &[0, 0, 0, 3]);
    for (what, then, expected) in [
        ("at once", vec![Piece::End], "1=/a 3=/b "),
        ("later", vec![Piece::Pause, Piece::End], "1=/a 3=/b "),
        ("opened before", vec![Piece::Pause, Piece::Bytes(wider), Piece::End], "1=/a 3=/b 3=cde 3= "),
    ] {
        run(async {
            let world = World::new(Config::default());
            let script = Scripted::new([vec![Piece::Bytes(asked.clone())], then].concat());
            let connection = world.connect(&script);
            world.run(true).await;
            assert_eq!(connection.is_finished(), what == "at once", "{what}");
            script.go_on();
            world.run(true).await;
            assert!(connection.is_finished(), "{what}");
            assert_eq!(bodies(&script), expected, "{what}");
        });
    }
}

#[test]
fn who_has_ended_its_side_and_is_gone_is_looked_for() {
    run(async {
        let world = World::new(Config::default());
        let input = [greeting(), get(1, "/a")].concat();
        let script = Scripted::new([Piece::Bytes(input), Piece::End]);
        let connection = world.connect(&script);
        world.run(false).await;
        script.become_of(Peer::Gone);
        world.wait(Duration::from_millis(1100));
        world.run(false).await;
        assert!(connection.is_finished());
        assert_eq!(world.totals().failures[Failure::ClientGone], 1);
    });
}

#[test]
fn a_stream_that_both_sides_have_closed_ends_with_its_connection_whatever_its_worker_does() {
    // The method, whether the worker then breaks off, and whether the client has taken what was said of the response.
    for (method, breaks_off, takes) in [
        ("HEAD", true, false),
        ("HEAD", true, true),
        ("HEAD", false, false),
        ("HEAD", false, true),
        ("GET", true, true),
        ("GET", false, true),
    ] {
        run(async {
            let world = World::new(Config::default());
            let asks = [(":method", method), (":scheme", "http"), (":path", "/a"), (":authority", "h")];
            let asked = [greeting(), frame(HEADERS, 5, 1, &literals(&asks))].concat();
            let script = Scripted::new([Piece::Bytes(asked), Piece::Pause, Piece::Cut]);
            let connection = world.connect(&script);
            world.run(false).await;
            let mut claimed = world.worker.claim().unwrap();
            world.worker.begin(&claimed);
            script.take(if takes { usize::MAX } else { 0 });
            world.run(false).await;
            world.worker.head(&mut claimed, 200, 4, 0);
            world.worker.write(&mut claimed, b"four");
            world.worker.tell(&claimed);
            let server = world.thread.entrance.server;
            let inside = || server.doors.inside(Serves::Requests);
            if takes {
                world.run(false).await;
            }
            if breaks_off {
                world.worker.flag(&mut claimed, RESPONSE_BROKEN);
                world.worker.finish(claimed);
            }
            world.run(false).await;
            script.become_of(Peer::Gone);
            script.go_on();
            world.run(false).await;
            world.wait(Duration::from_millis(1100));
            world.run(false).await;
            let what = format!("{method} {breaks_off} {takes}");
            assert!(connection.is_finished(), "{what}");
            assert_eq!(inside(), 0, "{what}");
        });
    }
}

#[test]
fn who_is_told_to_leave_and_has_all_leaves_the_code_behind_its_responses_its_time() {
    // The answer to the ping by which we learn that a client has come to the word to leave.
    let heard = frame(PING, 1, 0, &[0x0b, 0x7b, 0xa2, 0xf0, 0x8b, 0x9b, 0xfe, 0x54]);
    // How the code behind the head ends: by itself, broken off, or with all that is under way. And whether the client closes, too.
    for (how, leaves) in [("ends", false), ("ends", true), ("breaks off", true), ("is cut off", true)] {
        run(async {
            let config = Config { keepalive_requests: 1, abort_on_disconnect: true, ..Config::default() };
            let world = World::new(config);
            let asks = [(":method", "HEAD"), (":scheme", "http"), (":path", "/a"), (":authority", "h")];
            let asked = [greeting(), frame(HEADERS, 5, 1, &literals(&asks))].concat();
            let heard = Piece::Bytes(heard.clone());
            let end = if leaves { Piece::End } else { Piece::Pause };
            let script = Scripted::new([Piece::Bytes(asked), Piece::Pause, heard, Piece::Pause, end]);
            let connection = world.connect(&script);
            script.take(usize::MAX);
            world.run(false).await;
            let mut claimed = world.worker.claim().unwrap();
            world.worker.begin(&claimed);
            world.worker.head(&mut claimed, 200, 4, 0);
            world.worker.write(&mut claimed, b"four");
            world.worker.tell(&claimed);
            for _ in 0..3 {
                world.run(false).await;
                script.go_on();
                world.wait(Duration::from_secs(3));
            }
            world.run(false).await;
            assert!(goaways(&script) > 0, "{how}: it is told");
            assert!(!connection.is_finished() && !world.worker.is_abandoned(&claimed), "{how}");
            match how {
                "is cut off" => {
                    world.thread.cut_off().await;
                    world.run(false).await;
                    assert!(connection.is_finished() && world.worker.is_abandoned(&claimed), "{how}");
                }
                _ => {
                    if how == "breaks off" {
                        world.worker.flag(&mut claimed, RESPONSE_BROKEN);
                    }
                    world.worker.finish(claimed);
                    world.run(false).await;
                    assert!(connection.is_finished(), "{how}");
                }
            }
            assert_eq!(world.thread.entrance.server.doors.inside(Serves::Requests), 0, "{how}");
        });
    }
}

#[test]
fn a_connection_is_closed_at_its_end_however_long_an_application_goes_on_that_has_a_stream() {
    let asks = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":path", "/a"),
        (":authority", "h"),
    ];
    let asked = frame(HEADERS, 4, 1, &literals(&asks));
    // Whether the client leaves, or takes nothing any more of what another stream has for it.
    for leaves in [true, false] {
        run(async {
            let world = World::new(Config { write_timeout: Duration::from_secs(5), ..Config::default() });
            let (ours, _workers) = howdah_sys::socketpair_seqpacket().unwrap();
            world.pool().open_channel(0, ours);
            // The latter is refused at once.
            let then = if leaves { Piece::Cut } else { Piece::Bytes(get(3, "/%zz")) };
            let script = Scripted::new([
                Piece::Bytes(greeting()),
                Piece::Pause,
                Piece::Bytes(asked.clone()),
                Piece::Pause,
                then,
            ]);
            let connection = world.connect(&script);
            world.run(false).await;
            script.go_on();
            world.run(false).await;
            let claimed = world.worker.claim().unwrap();
            world.worker.begin(&claimed);
            assert!(world.thread.desks.post(0, Mail::Takeover));
            world.run(false).await;
            if leaves {
                script.become_of(Peer::Gone);
                script.go_on();
            } else {
                script.take(0);
            }
            for _ in 0..7 {
                world.run(false).await;
                world.wait(Duration::from_secs(1));
            }
            world.run(false).await;
            assert!(!world.worker.is_abandoned(&claimed), "{leaves}");
            assert_eq!((connection.is_finished(), script.was_reset()), (true, !leaves));
            assert!(script.is_closed(), "{leaves}");
        });
    }
}

#[test]
fn who_has_not_come_to_the_end_of_its_preface_makes_room_at_once() {
    run(async {
        let world = World::new(Config::default());
        let script = Scripted::new([Piece::Bytes(PREFACE[..20].to_vec()), Piece::Pause]);
        let connection = world.connect(&script);
        world.run(false).await;
        world.wait(Duration::from_millis(1001));
        assert!(world.thread.entrance.room.dismiss(Serves::Requests));
        world.run(false).await;
        assert!(connection.is_finished(), "its place is another's already");
    });
}

#[test]
fn what_a_client_finds_wrong_with_us_is_no_bad_request() {
    // What a client says last (RFC 9113 7), and whether that is a mistake of its own.
    for (said, is_mistake) in
        [(frame(GOAWAY, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 2]), false), (frame(PING, 0, 0, b"short"), true)]
    {
        run(async {
            let world = World::new(Config::default());
            let script = Scripted::new([Piece::Bytes([greeting(), get(1, "/a"), said].concat()), Piece::End]);
            let connection = world.connect(&script);
            world.run(true).await;
            assert!(connection.is_finished());
            assert_eq!(world.totals().failures[Failure::BadRequest], u64::from(is_mistake));
        });
    }
}

#[test]
fn whose_request_has_come_need_not_make_room() {
    for (next, stays) in [(get(3, "/b"), true), (frame(PING, 0, 0, b"an octet"), false)] {
        run(async {
            let world = World::new(Config::default());
            let first = Piece::Bytes([greeting(), get(1, "/a")].concat());
            let script = Scripted::new([first, Piece::Pause, Piece::Bytes(next), Piece::Pause]);
            let connection = world.connect(&script);
            world.run(true).await;
            world.wait(Duration::from_millis(1001));
            script.go_on();
            assert!(world.thread.entrance.room.dismiss(Serves::Requests), "nobody has heard of it yet");
            world.run(true).await;
            assert_eq!(bodies(&script), if stays { "1=/a 3=/b " } else { "1=/a " });
            assert_eq!(connection.is_finished(), !stays);
        });
    }
}
