//! Connections from their first request to their end, on a stream that says what comes when.

use std::time::Duration;

use super::*;
use crate::config::Config;
use crate::sample::world::{World, pieces, run};
use crate::transport::scripted::{Piece, Scripted};

/// Bytes of the future that `serve` makes.
fn size<F>(_serve: impl Fn(&'static Server, Transport, Client, Presence) -> F) -> usize {
    size_of::<F>()
}

#[test]
fn what_each_connection_has_all_the_time_is_small() {
    // What it had before its large parts were in boxes was 2592.
    assert!(size(serve) <= 1800, "{} bytes", size(serve));
}

/// What a client has received, without what differs from run to run.
fn received(script: &Scripted) -> String {
    let text = String::from_utf8(script.output()).unwrap();
    let varies = |line: &&str| !line.starts_with("Date: ") && !line.starts_with("X-Request-Id: ");
    text.split_inclusive("\r\n").filter(varies).collect()
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    Closed,
    /// Our side is ended, the client's is read for a while.
    Lingers,
    /// Closed, and what the client has not taken is forgotten.
    Reset,
}

async fn outcome(config: Config, input: Vec<Piece>) -> (String, End) {
    let mut world = World::new(config);
    world.questions.close();
    let script = Scripted::new(input);
    let closed = world.serve(&script).await;
    let end = match (closed, script.was_reset(), script.was_shut()) {
        (true, true, _) => End::Reset,
        (true, false, _) => End::Closed,
        (false, _, true) => End::Lingers,
        (false, ..) => End::Open,
    };
    (received(&script), end)
}

const HOST: &str = "Host: h\r\n";

/// A response of the test's application.
fn response(version: &str, fields: &str, body: &str) -> String {
    format!("HTTP/{version} 200 OK\r\nServer: Howdah\r\nX-App: yes\r\n{fields}\r\n{body}")
}

fn whole(body: &str) -> String {
    response("1.1", &format!("Content-Length: {}\r\n", body.len()), body)
}

fn refusal(status: &str, fields: &str) -> String {
    let length = status.len() + 1;
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\n{fields}Content-Length: {length}\r\n\
         Connection: close\r\n\r\n{status}\n"
    )
}

/// What the client sends, with a pause at each |, what it receives, and the connection.
type Case = (&'static str, String, String, End);

/// Alone, and sent together with others: what leaves the connection open leaves the next request to be answered.
fn check(cases: Vec<Case>) {
    let both = |path| (get(path), whole(path));
    for (what, input, output, end) in cases {
        for (before, behind) in [("", ""), ("/before", ""), ("/before", "/behind")] {
            let (first, answered) = if before.is_empty() { Default::default() } else { both(before) };
            let (next, follows) = if behind.is_empty() { Default::default() } else { both(behind) };
            let (received, ended) = run(outcome(Config::default(), pieces(&format!("{first}{input}{next}"))));
            let expected = answered + &output + if end == End::Open { &follows } else { "" };
            assert_eq!(received, expected, "{what}, between {before:?} and {behind:?}");
            let as_ever = ended == end || !behind.is_empty() && ended == End::Lingers;
            assert!(as_ever, "{what}, between {before:?} and {behind:?}: {ended:?}");
        }
    }
}

const LENGTH: &str = "Content-Length: 2\r\n";
const CLOSE: &str = "Connection: close\r\n";

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\n{HOST}\r\n")
}

fn post(fields: &str, rest: &str) -> String {
    format!("POST /a HTTP/1.1\r\n{HOST}{fields}\r\n{rest}")
}

#[test]
fn requests_are_answered_in_their_order_however_they_come() {
    let old = |fields: &str| format!("GET /a HTTP/1.0\r\n{fields}\r\n");
    let last = response("1.1", &format!("{LENGTH}{CLOSE}"), "/a");
    let stays = "Connection: keep-alive\r\n";
    check(vec![
        ("one", get("/a"), whole("/a"), End::Open),
        ("in pieces", "GET /a HT|TP/1.1\r\nHo|st: h\r\n\r|\n".into(), whole("/a"), End::Open),
        ("two in one", get("/a") + &get("/b"), whole("/a") + &whole("/b"), End::Open),
        (
            "one and a half",
            get("/a") + "GET /b HTTP/1.1|\r\nHost: h\r\n\r\n",
            whole("/a") + &whole("/b"),
            End::Open,
        ),
        ("the last one", format!("GET /a HTTP/1.1\r\n{HOST}{CLOSE}\r\n"), last, End::Closed),
        ("an old one", old(""), response("1.0", LENGTH, "/a"), End::Closed),
        ("an old one that stays", old(stays), response("1.0", &format!("{LENGTH}{stays}"), "/a"), End::Open),
    ]);
}

#[test]
fn what_the_application_says_decides_what_goes_out_and_what_becomes_of_the_connection() {
    let failed = |status: &str| refusal(status, "").replace(CLOSE, "");
    let given = |length: u32, body: &str| response("1.1", &format!("Content-Length: {length}\r\n"), body);
    let chunked = response("1.1", "Transfer-Encoding: chunked\r\n", "4\r\nhalf\r\n");
    let bye = response("1.1", &format!("Content-Length: 3\r\n{CLOSE}"), "bye");
    let none = |status: &str, fields: &str| {
        format!("HTTP/1.1 {status}\r\nServer: Howdah\r\nX-App: yes\r\n{fields}\r\n")
    };
    check(vec![
        ("HEAD", format!("HEAD /given HTTP/1.1\r\n{HOST}\r\n"), given(4, ""), End::Open),
        ("a given length", get("/given"), given(4, "four"), End::Open),
        ("a body that is too short", get("/short"), given(9, "four"), End::Lingers),
        ("a body that is too long", get("/long"), given(2, "fo"), End::Lingers),
        ("no content", get("/empty"), none("204 No Content", ""), End::Open),
        ("not modified", get("/unchanged"), none("304 Not Modified", "Content-Length: 7\r\n"), End::Open),
        ("it wants to close", get("/close"), bye, End::Lingers),
        ("a body that breaks off", get("/broken"), chunked, End::Closed),
        ("it dies", get("/fail"), failed("500 Internal Server Error"), End::Open),
        ("it says nothing", get("/silent"), failed("500 Internal Server Error"), End::Open),
        ("it says nonsense", get("/odd"), failed("502 Bad Gateway"), End::Open),
        ("it has had the connection", get("/detached"), String::new(), End::Closed),
    ]);
}

#[test]
fn bodies_are_read_to_their_end_and_waited_for_where_the_client_waits() {
    let both = whole("/a") + &whole("/b");
    let waits = |framing: &str| format!("{framing}\r\nExpect: 100-continue\r\n");
    let (short, chunked) = ("Content-Length: 2", "Transfer-Encoding: chunked");
    let continued = "HTTP/1.1 100 Continue\r\n\r\n".to_owned() + &whole("/a");
    let chunks = "Transfer-Encoding: chunked\r\n";
    check(vec![
        ("a body", post(LENGTH, "hi") + &get("/b"), both.clone(), End::Open),
        ("in pieces", post("Content-Length: 4\r\n", "h|i|th"), whole("/a"), End::Open),
        (
            "in odd chunks",
            post(chunks, "1\r\nh\r\n00|1\r\ni\r\n0|\r\n\r\n") + &get("/b"),
            both.clone(),
            End::Open,
        ),
        ("in chunks", post(chunks, "2\r\nh|i\r\n0\r\n\r\n") + &get("/b"), both, End::Open),
        ("one that waits", post(&waits(short), "|hi"), continued.clone(), End::Open),
        ("chunks that wait", post(&waits(chunked), "|0\r\n\r\n"), continued, End::Open),
        ("one that did not wait", post(&waits(short), "hi"), whole("/a"), End::Open),
    ]);
}

#[test]
fn what_cannot_be_read_is_refused_and_nothing_behind_it_is() {
    let bad = || refusal("400 Bad Request", "");
    let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(20_000));
    let many = format!("GET / HTTP/1.1\r\n{HOST}{}X: y\n\r\n", "X: y\r\n".repeat(90));
    let waits = |length: &str| post(&format!("{length}Expect: 100-continue\r\n"), "").replace("/a", "/%zz");
    check(vec![
        ("no Host", "GET / HTTP/1.1\r\n\r\n".into(), bad(), End::Lingers),
        ("behind a request", get("/a") + "\x16\x03" + &get("/b"), whole("/a") + &bad(), End::Lingers),
        ("a bare line end behind many fields", many, bad(), End::Lingers),
        ("a line that is too long", long, refusal("414 URI Too Long", ""), End::Lingers),
        ("a path that cannot be", get("/%zz"), bad(), End::Lingers),
        ("one whose body waits", waits("Content-Length: 2\r\n"), bad(), End::Lingers),
        ("one whose large body waits", waits("Content-Length: 99999\r\n"), bad(), End::Lingers),
        ("a chunk that cannot be", post("Transfer-Encoding: chunked\r\n", "x\r\n"), bad(), End::Lingers),
    ]);
}

#[test]
fn what_is_refused_as_a_head_has_no_body_however_much_of_it_was_read() {
    let chunks = "Transfer-Encoding: chunked\r\n";
    for (what, input) in [
        ("a path that cannot be", format!("HEAD /%zz HTTP/1.1\r\n{HOST}\r\n")),
        ("a head that cannot be", "\r\nHEAD / HTTP/1.1\r\n\r\n".into()),
        ("a small body that waits", format!("HEAD /%zz HTTP/1.1\r\n{HOST}{LENGTH}\r\n")),
        ("a chunk that cannot be", format!("HEAD / HTTP/1.1\r\n{HOST}{chunks}\r\n|x\r\n")),
    ] {
        let (received, _) = run(outcome(Config::default(), pieces(&input)));
        assert_eq!(
            received,
            refusal("400 Bad Request", "").replace("\r\n\r\n400 Bad Request\n", "\r\n\r\n"),
            "{what}"
        );
    }
    run(async {
        let world = World::new(Config::default());
        let script = Scripted::new(pieces("HEAD / HTTP/1.1\r\n|"));
        world.connect(&script);
        world.run(true).await;
        world.wait(Duration::from_secs(61));
        world.run(true).await;
        let said = received(&script);
        assert!(said.starts_with("HTTP/1.1 408 ") && said.ends_with("\r\n\r\n"), "one that is late: {said}");
    });
}

#[test]
fn a_connection_that_is_cut_off_ends_whatever_it_waits_for_and_its_request_counts() {
    // What it waits for, what has come, whether the worker works, bytes that the client takes, and how it ends.
    for (what, input, works, takes, end, counts) in [
        ("a request", String::new(), true, 0, End::Closed, 0),
        ("another one", get("/a"), true, 1000, End::Closed, 1),
        ("the rest of a head", "GET /a HT".into(), true, 0, End::Closed, 0),
        ("the rest of a body", post(LENGTH, "h"), true, 0, End::Closed, 1),
        ("more chunks", post("Transfer-Encoding: chunked\r\n", "1\r\nh"), true, 0, End::Closed, 1),
        ("a worker, which a client that takes it is told", get("/a"), false, 1000, End::Closed, 1),
        ("a worker", get("/a"), false, 0, End::Reset, 1),
        ("a client that takes nothing", get("/a"), true, 0, End::Reset, 1),
    ] {
        run(async {
            let world = World::new(Config::default());
            let script = Scripted::new(pieces(&input));
            script.take(takes);
            let connection = world.connect(&script);
            world.run(works).await;
            assert!(!connection.is_finished(), "{what}");
            world.thread.cut_off().await;
            assert!(connection.is_finished() && script.was_reset() == (end == End::Reset), "{what}");
            assert_eq!(world.totals().all_requests(), counts, "{what}");
        });
    }
}

#[test]
fn requests_that_no_worker_has_begun_are_refused_when_the_server_ends() {
    run(async {
        let world = World::new(Config::default());
        let scripts = ["/runs", "/waits", "/waits-too"].map(|path| Scripted::new(pieces(&get(path))));
        let connections = scripts.each_ref().map(|script| world.connect(script));
        world.run(false).await;
        let claimed = world.worker.claim().unwrap();
        world.worker.begin(&claimed);
        world.thread.cut_off().await;
        assert!(connections.iter().all(|connection| connection.is_finished()));
        for (script, refused) in scripts.iter().zip([false, true, true]) {
            let said = received(script);
            assert_eq!(
                said.starts_with("HTTP/1.1 503 ") && said.contains("\r\nConnection: close\r\n"),
                refused,
                "{said}"
            );
            assert_eq!(said.is_empty(), !refused, "{said}");
        }
        assert_eq!(world.totals().all_requests(), 3);
    });
}

#[test]
fn a_page_of_our_own_with_nobody_to_make_it_is_503() {
    let (received, end) = run(outcome(Config::default(), pieces(&(get("/health") + &get("/a")))));
    assert!(received.starts_with("HTTP/1.1 503 Service Unavailable\r\n") && received.ends_with(&whole("/a")));
    assert_eq!(end, End::Open);
}

#[test]
fn a_body_that_comes_to_a_page_of_our_own_is_read_past_when_the_client_has_the_answer() {
    let length = "Content-Length: 5\r\n";
    // What the client sends, and whether it is let go at once.
    for (what, input, end) in [
        ("a body behind the answer", post(length, "|hello"), End::Lingers),
        ("one that begins with its head", post(length, "he|llo"), End::Lingers),
        ("chunks", post("Transfer-Encoding: chunked\r\n", "|5\r\nhello\r\n0\r\n\r\n"), End::Lingers),
        (
            "one that waits to be asked for",
            post(&format!("{length}Expect: 100-continue\r\n"), ""),
            End::Lingers,
        ),
        ("none", format!("GET /a HTTP/1.1\r\n{HOST}{CLOSE}\r\n"), End::Closed),
    ] {
        run(async {
            let world = World::new(Config::default());
            let script = Scripted::new(pieces(&input));
            let permit = world.capacity.enter(crate::capacity::Kind::Page).unwrap();
            let client = crate::sample::client_of(Serves::Pages, "127.0.0.1");
            let (server, transport) = (world.thread.entrance.server, Transport::Scripted(script.clone()));
            let presence = Presence::new(server, permit, Serves::Pages);
            let connection = tokio::task::spawn_local(serve(server, transport, client, presence));
            world.run(true).await;
            script.go_on();
            world.run(true).await;
            assert!(received(&script).starts_with("HTTP/1.1 404 "), "{what}: {}", received(&script));
            assert!(script.was_shut(), "{what}");
            assert_eq!(connection.is_finished(), end == End::Closed, "{what}");
        });
    }
}

#[test]
fn a_client_that_does_not_take_an_interim_response_has_nothing_behind_its_beginning() {
    let expects = post(&format!("{LENGTH}Expect: 100-continue\r\n"), "|hi");
    let chunks = post("Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n", "|2\r\nhi\r\n0\r\n\r\n");
    for (what, input) in [("a body", expects), ("chunks", chunks)] {
        run(async {
            let world = World::new(Config { write_timeout: Duration::from_secs(3), ..Config::default() });
            let script = Scripted::new(pieces(&input));
            script.take(5);
            let connection = world.connect(&script);
            world.run(false).await;
            for _ in 0..8 {
                world.wait(Duration::from_millis(500));
                world.run(false).await;
            }
            script.take(usize::MAX);
            world.run(true).await;
            assert_eq!(received(&script), "HTTP/", "{what}");
            assert!(connection.is_finished() && script.was_reset(), "{what}");
            assert_eq!(world.totals().failures[Failure::WriteTimeout], 1, "{what}");
        });
    }
}

#[test]
fn a_body_has_its_time_also_where_its_client_was_slow_to_be_asked_for_it() {
    for framing in [LENGTH, "Transfer-Encoding: chunked\r\n"] {
        run(async {
            let world = World::new(Config { write_timeout: Duration::from_secs(2), ..Config::default() });
            let input = post(&format!("{framing}Expect: 100-continue\r\n"), "|1");
            let script = Scripted::new(pieces(&input));
            script.take(5);
            let connection = world.connect(&script);
            world.run(true).await;
            world.wait(Duration::from_millis(100));
            script.take(usize::MAX);
            for second in 0..60 {
                world.run(true).await;
                assert_eq!(received(&script), "HTTP/1.1 100 Continue\r\n\r\n", "{framing} {second} s");
                world.wait(Duration::from_secs(1));
            }
            world.wait(Duration::from_secs(1));
            world.run(true).await;
            assert!(received(&script).contains("HTTP/1.1 408 ") && !connection.is_finished(), "{framing}");
        });
    }
}

#[test]
fn a_client_that_ends_its_side_is_answered_and_then_let_go() {
    let get = format!("GET /a HTTP/1.1\r\n{HOST}\r\n");
    for (input, output, end) in [
        (vec![Piece::End], String::new(), End::Closed),
        (vec![Piece::Bytes(get.into()), Piece::End], whole("/a"), End::Closed),
        (vec![Piece::Bytes(b"GET /a HT".to_vec()), Piece::End], String::new(), End::Closed),
        (
            vec![
                Piece::Bytes(format!("POST /a HTTP/1.1\r\n{HOST}Content-Length: 5\r\n\r\nhal").into()),
                Piece::End,
            ],
            String::new(),
            End::Closed,
        ),
    ] {
        let shown = format!("{input:?}");
        assert_eq!(run(outcome(Config::default(), input)), (output, end), "{shown}");
    }
}

#[test]
fn settings_decide_how_long_a_connection_lives() {
    let two = format!("GET /a HTTP/1.1\r\n{HOST}\r\nGET /b HTTP/1.1\r\n{HOST}\r\n");
    let closing = |body: &str| response("1.1", "Content-Length: 2\r\nConnection: close\r\n", body);
    for (config, output, end) in [
        (Config { keepalive: false, ..Config::default() }, closing("/a"), End::Lingers),
        (Config { keepalive_requests: 1, ..Config::default() }, closing("/a"), End::Lingers),
        (Config { keepalive_requests: 2, ..Config::default() }, whole("/a") + &closing("/b"), End::Lingers),
    ] {
        let shown = format!("{} {}", config.keepalive, config.keepalive_requests);
        assert_eq!(run(outcome(config, pieces(&two))), (output, end), "{shown}");
    }
}

#[test]
fn a_response_that_is_whole_leaves_in_one_write() {
    run(async {
        let world = World::new(Config::default());
        let script = Scripted::new(pieces(&format!("GET /a HTTP/1.1\r\n{HOST}\r\n")));
        world.serve(&script).await;
        assert_eq!((received(&script), script.writes()), (whole("/a"), 1));
    });
}

#[test]
fn our_side_ends_with_the_response_where_nothing_can_follow_it() {
    let close = format!("GET /a HTTP/1.1\r\n{HOST}Connection: close\r\n\r\n");
    for (what, sent, most, shut) in [
        ("it is kept", get("/a"), 0, false),
        ("it asks for the end", close.clone(), 0, true),
        ("HTTP/1.0", "GET /a HTTP/1.0\r\n\r\n".into(), 0, true),
        ("the second is the last", get("/a") + "|" + &get("/b"), 2, true),
        ("the second of three", get("/a") + "|" + &get("/b"), 3, false),
        ("more than is asked for", close + "GET", 0, true),
        ("refused", "nonsense\r\n\r\n".into(), 0, true),
    ] {
        run(async {
            let world = World::new(Config { keepalive_requests: most, ..Config::default() });
            let script = Scripted::new(pieces(&sent));
            world.serve(&script).await;
            assert_eq!(script.was_shut(), shut, "{what}");
            assert_eq!(script.writes(), received(&script).matches("HTTP/1.").count(), "{what}");
        });
    }
}

#[test]
fn who_takes_too_long_has_408_or_is_let_go() {
    let config = || Config {
        header_timeout: Duration::from_secs(5),
        keepalive_timeout: Duration::from_secs(7),
        min_body_rate: 1,
        ..Config::default()
    };
    let get = format!("GET /a HTTP/1.1\r\n{HOST}\r\n");
    let post = format!("POST /a HTTP/1.1\r\n{HOST}Content-Length: 70000\r\n\r\nx");
    let timeout = refusal("408 Request Timeout", "");
    // What it has sent, for how long it is waited for, and what it receives then.
    for (what, sent, seconds, output, end) in [
        ("nothing at first", "", 5, timeout.clone(), End::Closed),
        ("half a head", "GET /a HT", 5, timeout.clone(), End::Lingers),
        ("an empty line at first", "\r\n", 5, timeout.clone(), End::Lingers),
        ("nothing after a request", get.as_str(), 7, whole("/a"), End::Closed),
        ("an empty line after a request", &format!("{get}\r\n"), 7, whole("/a"), End::Closed),
        ("one that comes later", &format!("{get}|\r\n"), 7, whole("/a"), End::Closed),
        ("half a head after a request", &format!("{get}GET"), 5, whole("/a") + &timeout, End::Lingers),
        ("a body that stops", &post, 60, timeout.clone(), End::Lingers),
    ] {
        run(async {
            let world = World::new(config());
            let script = Scripted::new(pieces(sent));
            let connection = world.connect(&script);
            world.run(true).await;
            script.go_on();
            world.run(true).await;
            world.wait(Duration::from_secs(seconds) - Duration::from_millis(1));
            world.run(true).await;
            assert!(!connection.is_finished() && !script.was_shut(), "{what}: too early");
            world.wait(Duration::from_millis(2));
            world.run(true).await;
            assert_eq!(received(&script), output, "{what}");
            let ended = if connection.is_finished() { End::Closed } else { End::Lingers };
            assert_eq!(ended, end, "{what}");
            world.wait(Duration::from_secs(3));
            world.run(true).await;
            assert!(connection.is_finished(), "{what}: it does not linger for long");
        });
    }
}

#[test]
fn who_leaves_within_a_head_is_counted_and_who_has_not_begun_one_is_not() {
    let get = format!("GET /a HTTP/1.1\r\n{HOST}\r\n");
    for (sent, counted) in [
        (String::new(), 0),
        ("GET /a HT".into(), 1),
        ("GET /a HTTP/1.1\r\n|Host: h\r\n".into(), 1),
        (get.clone(), 0),
        (format!("{get}\r\n"), 0),
        (format!("{get}G"), 1),
        (format!("POST /a HTTP/1.1\r\n{HOST}Content-Length: 2\r\n\r\nx"), 1),
        (format!("POST /a HTTP/1.1\r\n{HOST}Content-Length: 70000\r\n\r\nx"), 1),
    ] {
        run(async {
            let world = World::new(Config::default());
            let script = Scripted::new(pieces(&sent).into_iter().chain([Piece::End]).collect::<Vec<_>>());
            let connection = world.connect(&script);
            for _ in 0..3 {
                world.run(true).await;
                script.go_on();
            }
            world.run(true).await;
            assert!(connection.is_finished(), "{sent}");
            assert_eq!(world.totals().failures[Failure::ClientGone], counted, "{sent}");
        });
    }
}

const KEPT: Duration = Duration::from_secs(7);

type Ends = fn(&World);

/// What ends the time of a connection that is kept, and how.
const ENDS: [(&str, Ends); 3] = [
    ("it was kept for so long", |world| world.wait(KEPT)),
    ("others need the room", |world| {
        world.wait(Duration::from_secs(1));
        assert!(world.thread.entrance.room.dismiss(Serves::Requests));
    }),
    ("the thread drains", |world| {
        let drain = world.thread.entrance.doors.drain(Duration::ZERO);
        world.thread.timers.hurry(drain);
        world.wait(Duration::from_secs(1));
    }),
];

#[test]
fn a_request_that_comes_as_the_time_for_it_ends_is_answered() {
    for (what, end) in ENDS {
        run(async {
            let world = World::new(Config { keepalive_timeout: KEPT, ..Config::default() });
            let script = Scripted::new(pieces(&(get("/a") + "|" + &get("/b"))));
            let connection = world.connect(&script);
            world.run(true).await;
            assert_eq!(received(&script), whole("/a"), "{what}");
            end(&world);
            script.go_on();
            world.run(true).await;
            assert!(received(&script).ends_with("/b"), "{what}");
            world.wait(Duration::from_secs(10));
            world.run(true).await;
            assert!(connection.is_finished(), "{what}");
        });
    }
}

#[test]
fn a_head_that_has_begun_holds_up_a_drain_for_a_moment_only() {
    // What has come before the drain, what comes at its beginning, and how long a connection that rests has.
    for (before, later, idle, patience) in [
        ("GET /b HT".to_owned(), "", 0, 2),
        ("\r\n".to_owned(), "", 0, 2),
        (get("/a") + "GET /b HT", "", 0, 2),
        (get("/a") + "|GET /b HT", "", 0, 2),
        (get("/a"), "GET /b HT", 1, 2),
        (get("/a"), "GET /b HT", 5, 5),
        ("GET /b HT".to_owned(), "TP/1.1\r\n", 5, 5),
    ] {
        run(async {
            let world = World::new(Config::default());
            let script = Scripted::new(pieces(&format!("{before}|{later}")));
            let connection = world.connect(&script);
            for _ in before.split('|') {
                world.run(true).await;
                script.go_on();
            }
            let case = format!("{before:?} {later:?}");
            let drain = world.thread.entrance.doors.drain(Duration::from_secs(idle));
            world.run(true).await;
            world.thread.timers.hurry(drain);
            world.wait(Duration::from_secs(patience) - Duration::from_millis(1));
            world.run(true).await;
            assert!(!connection.is_finished() && !script.was_shut(), "{case}: too early");
            world.wait(Duration::from_millis(2));
            world.run(true).await;
            assert!(received(&script).ends_with(&refusal("408 Request Timeout", "")), "{case}");
        });
    }
}

#[test]
fn a_client_that_still_takes_the_last_response_is_kept() {
    for (what, end) in ENDS {
        run(async {
            let world = World::new(Config { keepalive_timeout: KEPT, ..Config::default() });
            let script = Scripted::new(pieces(&(get("/a") + "|")));
            script.hold(9);
            let connection = world.connect(&script);
            world.run(true).await;
            for left in [8, 7, 6] {
                script.hold(left);
                end(&world);
                world.run(true).await;
                assert!(!connection.is_finished(), "{what}: {left} bytes are on their way");
            }
            end(&world);
            world.run(true).await;
            assert!(connection.is_finished(), "{what}: it takes nothing more");
        });
    }
}

#[test]
fn a_thread_that_drains_closes_behind_the_response_and_what_rests() {
    run(async {
        let world = World::new(Config::default());
        let busy = Scripted::new(pieces(&format!("GET /a HTTP/1.1\r\n{HOST}\r\n")));
        let idle = Scripted::new(pieces(""));
        let (first, second) = (world.connect(&busy), world.connect(&idle));
        world.run(false).await;
        let drain = tokio::task::spawn_local(world.thread.drain(Duration::from_secs(1)));
        world.run(true).await;
        assert_eq!(received(&busy), response("1.1", "Content-Length: 2\r\nConnection: close\r\n", "/a"));
        assert!(busy.was_shut() && !idle.was_shut() && !second.is_finished(), "one that rests has its time");
        world.wait(Duration::from_secs(2));
        world.run(true).await;
        assert!(first.is_finished() && second.is_finished());
        tokio::time::timeout(Duration::from_secs(10), drain).await.unwrap().unwrap();
    });
}
