//! How requests come by a connection of HTTP/2: its preface, their heads, and clients that say much else.

use std::time::Duration;

use howdah_metrics::{ConnectionState, Failure};

use super::data;
use crate::config::Config;
use crate::sample::frames::{
    GOAWAY, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS, bodies, frame, frames, get, goaways, greeting,
    literals,
};
use crate::sample::heard::heard;
use crate::sample::world::{World, run};
use crate::transport::scripted::{Piece, Scripted};

#[test]
fn who_begins_with_the_preface_is_served_however_its_bytes_come() {
    let bytes = [greeting(), get(1, "/a"), get(3, "/b")].concat();
    for size in [1, 7, 16, 23, 24, bytes.len()] {
        run(async {
            let world = World::new(Config::default());
            let pieces = bytes.chunks(size).flat_map(|piece| [Piece::Bytes(piece.to_vec()), Piece::Pause]);
            let script = Scripted::new(pieces);
            let connection = world.connect(&script);
            for _ in 0..bytes.len() {
                world.run(true).await;
                script.go_on();
            }
            assert_eq!(bodies(&script), "1=/a 3=/b ", "pieces of {size}");
            assert!(!connection.is_finished() && world.totals().all_requests() == 2);
            let totals = world.totals();
            assert_eq!((totals.http2, totals.http2_streams), (1, 2));
            assert_eq!(totals.connections[ConnectionState::Idle], 1);
        });
    }
}

#[test]
fn others_have_their_turn_while_a_client_says_much_that_is_no_body() {
    // What it says how often, and how many turns that takes at least: changed windows concern every stream.
    let change = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 9, 9]);
    for (kind, said, times, least) in
        [(PING, frame(PING, 0, 0, b"an octet"), 10_000, 8), (SETTINGS, change, 200, 5)]
    {
        run(async {
            let world = World::new(Config::default());
            let said = [greeting(), said.repeat(times), get(1, "/a")];
            let script = Scripted::new([Piece::Bytes(said.concat()), Piece::End]);
            let connection = world.connect(&script);
            let all_frames = || frames(&script).into_iter();
            // It is told of our settings, and that its own first ones are heard.
            let beside = if kind == SETTINGS { 2 } else { 0 };
            let answered = || all_frames().filter(|frame| frame.0 == kind).count().saturating_sub(beside);
            let mut turns = 0;
            while (turns == 0 || answered() < times) && turns < 1000 {
                tokio::task::yield_now().await;
                turns += 1;
            }
            assert!((least..1000).contains(&turns), "{turns} turns for {} of {kind}", answered());
            world.run(true).await;
            assert_eq!(bodies(&script), "1=/a ", "what was said last is heard, too");
            assert!(connection.is_finished());
        });
    }
}

#[test]
fn a_host_is_told_by_an_authority_or_by_a_field() {
    // What tells it, and whether that is a request for the application, a refusal, or none.
    let cases: [(&[(&str, &str)], &str); 7] = [
        (&[(":authority", "h")], "served"),
        (&[("host", "h")], "served"),
        (&[(":authority", "h"), ("host", "h")], "served"),
        (&[(":authority", "h"), ("host", "other")], "reset"),
        (&[(":authority", "h"), ("host", "h"), ("host", "h")], "refused"),
        (&[("host", "h"), ("host", "h")], "refused"),
        (&[], "refused"),
    ];
    for (told, expected) in cases {
        let lines = heard(|| {
            run(async {
                let world = World::new(Config::default());
                let fields = [&[(":method", "GET"), (":scheme", "http"), (":path", "/a")], told].concat();
                let script = Scripted::new([Piece::Bytes(
                    [greeting(), frame(HEADERS, 5, 1, &literals(&fields))].concat(),
                )]);
                let _connection = world.connect(&script);
                world.run(true).await;
                let is_reset = frames(&script).iter().any(|(kind, ..)| *kind == RST_STREAM);
                let seen = match bodies(&script).as_str() {
                    "1=/a " => "served",
                    _ if is_reset => "reset",
                    _ => "refused",
                };
                assert_eq!(seen, expected, "{told:?}");
            });
        });
        assert_eq!(
            lines.iter().any(|line| line.contains("refused a request")),
            expected != "served",
            "{lines:?}"
        );
        assert!(!lines.concat().contains("HTTP/1"), "nobody has spoken that: {lines:?}");
    }
}

#[test]
fn no_body_is_asked_for_where_the_head_is_refused() {
    /// 100, in Huffman's code.
    const CONTINUE: &[u8] = &[0x82, 0x08, 0x01];
    for (path, statuses) in [("/a", 1), ("/%zz", 0)] {
        run(async {
            let world = World::new(Config::default());
            let fields = [
                (":method", "POST"),
                (":scheme", "http"),
                (":path", path),
                (":authority", "h"),
                ("expect", "100-continue"),
            ];
            let asked = frame(HEADERS, 4, 1, &literals(&fields));
            let script = Scripted::new([Piece::Bytes([greeting(), asked].concat())]);
            let _connection = world.connect(&script);
            world.run(true).await;
            let heads = frames(&script).into_iter().filter(|(kind, ..)| *kind == HEADERS);
            assert_eq!(heads.filter(|(.., head)| head.ends_with(CONTINUE)).count(), statuses, "{path}");
            assert_eq!(world.totals().failures[Failure::BadRequest], 1 - statuses as u64, "{path}");
        });
    }
}

#[test]
fn a_body_is_not_late_while_its_client_is_busy_with_others() {
    // Bytes that come of one body in each second, and whether another, of which nothing comes meanwhile, is late.
    for (comes, is_late) in [(1000, false), (520, false), (200, true)] {
        run(async {
            let world = World::new(Config::default());
            let post = |stream| {
                let fields = [(":method", "POST"), (":scheme", "http"), (":path", "/a"), (":authority", "h")];
                frame(HEADERS, 4, stream, &literals(&fields))
            };
            let begin = Piece::Bytes([greeting(), post(1), post(3)].concat());
            let pieces =
                (0..120).flat_map(|_| [Piece::Pause, Piece::Bytes(frame(0, 0, 1, &vec![b'x'; comes]))]);
            let ends = [Piece::Pause, Piece::Bytes([frame(0, 1, 1, b""), frame(0, 1, 3, b"")].concat())];
            let script = Scripted::new([begin].into_iter().chain(pieces).chain(ends));
            let _connection = world.connect(&script);
            world.run(true).await;
            for _ in 0..121 {
                world.wait(Duration::from_secs(1));
                script.go_on();
                world.run(true).await;
            }
            let totals = world.totals();
            let (late, served) = (totals.failures[Failure::ReadTimeout], totals.all_requests());
            assert_eq!((late, served), (u64::from(is_late), 2), "{comes}");
        });
    }
}

#[test]
fn heads_that_are_long_once_and_short_to_send_have_little_room() {
    run(async {
        let world = World::new(Config::default());
        let plain = literals(&[(":path", "/a"), (":authority", "h"), ("content-length", "9")]);
        // POST by http; then a field of 3900 bytes, which goes into the table, and is what the next ones refer to.
        let field = [&[0x40, 1, b'x', 0x7f, 0xbd, 0x1d], &[b'a'; 3900][..]].concat();
        let first = frame(HEADERS, 4, 1, &[&[0x83, 0x86], &plain[..], &field].concat());
        let other = [&[0x83, 0x86], &plain[..], &[0xbe; 15]].concat();
        let others = (1..=60).flat_map(|number| frame(HEADERS, 4, 1 + 2 * number, &other));
        let bodies_of = (0..=60).flat_map(|number| frame(0, 1, 1 + 2 * number, b"this body"));
        let script = Scripted::new([
            Piece::Bytes([greeting(), first, others.collect()].concat()),
            Piece::Pause,
            Piece::Bytes(bodies_of.collect()),
            Piece::Pause,
            Piece::Bytes(frame(HEADERS, 5, 201, &other)),
        ]);
        let connection = world.connect(&script);
        world.run(true).await;
        let refused = || {
            let resets = frames(&script).into_iter().filter(|(kind, ..)| *kind == RST_STREAM);
            resets.filter(|(_, _, code)| code == &[0, 0, 0, 7]).count()
        };
        assert_eq!(refused(), 61 - 18, "a mebibyte of heads is there");
        script.go_on();
        world.run(true).await;
        assert_eq!(data(&script).len(), 18, "what has room is served");
        script.go_on();
        world.run(true).await;
        assert_eq!((refused(), connection.is_finished()), (61 - 18, false), "and leaves it to others");
        assert_eq!(world.totals().failures[Failure::TooLarge], 61 - 18);
    });
}

#[test]
fn a_preface_that_comes_late_or_is_not_wanted_is_a_bad_request() {
    let late = [b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n", PREFACE].concat();
    for (what, config, input) in [
        ("late", Config::default(), late),
        ("not wanted", Config { http2: false, ..Config::default() }, greeting()),
    ] {
        run(async {
            let world = World::new(config);
            let script = Scripted::new([Piece::Bytes(input)]);
            world.serve(&script).await;
            let said = String::from_utf8(script.output()).unwrap();
            assert!(said.contains("HTTP/1.1 505 HTTP Version Not Supported\r\n"), "{what}: {said}");
        });
    }
}

#[test]
fn who_does_not_come_to_the_end_of_its_preface_has_the_time_of_a_head() {
    run(async {
        let world = World::new(Config::default());
        let script = Scripted::new([Piece::Bytes(PREFACE[..20].to_vec())]);
        let connection = world.connect(&script);
        world.run(false).await;
        world.wait(Duration::from_millis(59_999));
        world.run(false).await;
        assert!(!connection.is_finished() && !script.was_shut());
        for _ in 0..3 {
            world.wait(Duration::from_secs(3));
            world.run(false).await;
        }
        assert!(connection.is_finished());
    });
}

#[test]
fn who_breaks_off_most_requests_is_told_to_leave_and_has_the_responses_that_are_under_way() {
    run(async {
        let world = World::new(Config::default());
        // Their bodies are yet to come, so that none of them is queued.
        let mut upload = get(1, "/b");
        upload[4] = 4;
        let breaks_off = [upload, frame(RST_STREAM, 0, 1, &[0, 0, 0, 8])];
        let broken_off = |numbers: std::ops::Range<u16>| {
            numbers.flat_map(|number| breaks_off.clone().map(|frame| of(number, frame)).concat()).collect()
        };
        let begun = Piece::Bytes([greeting(), get(1, "/a")].concat());
        let [some, more] = [1..110, 110..260].map(|numbers| Piece::Bytes(broken_off(numbers)));
        let script = Scripted::new([begun, Piece::Pause, some, Piece::Pause, more]);
        let _connection = world.connect(&script);
        for told in [0, 0, 1] {
            world.run(false).await;
            assert_eq!(goaways(&script), told);
            script.go_on();
        }
        world.run(true).await;
        assert_eq!(bodies(&script), "1=/a ");
    });
}

/// The same frame of another stream.
fn of(number: u16, mut frame: Vec<u8>) -> Vec<u8> {
    frame[7..9].copy_from_slice(&(2 * number + 1).to_be_bytes());
    frame
}

#[test]
fn who_breaks_off_many_requests_at_once_is_served_on_as_is_who_makes_mistakes_now_and_then() {
    let begun = (0..100).map(|number| of(number, get(1, "/a")));
    let broken_off = (0..100).map(|number| of(number, frame(RST_STREAM, 0, 1, &[0, 0, 0, 8])));
    // The crate has such a path reset.
    let mistakes = (0..400).map(|number| of(number, get(1, "/<")));
    for (what, said, next) in [
        ("broken off", begun.chain(broken_off).collect(), 100),
        ("mistakes", mistakes.collect::<Vec<_>>(), 400),
    ] {
        run(async {
            let world = World::new(Config::default());
            let last = of(next, get(1, "/last"));
            let script = Scripted::new([Piece::Bytes([greeting(), said.concat(), last].concat())]);
            let connection = world.connect(&script);
            for _ in 0..10 {
                world.run(true).await;
            }
            assert_eq!((goaways(&script), connection.is_finished()), (0, false), "{what}");
            assert!(bodies(&script).ends_with("=/last "), "{what}: {}", bodies(&script));
        });
    }
}

#[test]
fn who_makes_many_mistakes_is_told_to_leave_and_has_the_responses_that_are_under_way() {
    run(async {
        let world = World::new(Config::default());
        let mistakes = |numbers: std::ops::Range<u16>| {
            numbers.map(|number| of(number, get(1, "/<"))).collect::<Vec<_>>()
        };
        let said = [greeting(), get(1, "/a"), mistakes(1..1024).concat()].concat();
        let script =
            Scripted::new([Piece::Bytes(said), Piece::Pause, Piece::Bytes(mistakes(1024..1100).concat())]);
        let _connection = world.connect(&script);
        world.run(false).await;
        assert_eq!(goaways(&script), 0, "not yet");
        script.go_on();
        world.run(false).await;
        let told = frames(&script).into_iter().filter(|(kind, ..)| *kind == GOAWAY).map(|(.., said)| said);
        assert_eq!(told.collect::<Vec<_>>(), [[127, 255, 255, 255, 0, 0, 0, 0]], "first without an end");
        world.run(true).await;
        assert_eq!(bodies(&script), "1=/a ");
    });
}
