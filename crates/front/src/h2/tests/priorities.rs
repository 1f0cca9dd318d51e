//! What clients say of priorities beside their requests (RFC 9218 7.1).

use crate::config::Config;
use crate::sample::frames::{
    GOAWAY, HEADERS, PREFACE, SETTINGS, WINDOW_UPDATE, answer, bodies, frame, frames, get, goaways, greeting,
    literals,
};
use crate::sample::world::{Terms, World, run};
use crate::transport::scripted::{Piece, Scripted};

const PRIORITY_UPDATE: u8 = 16;

fn update(stream: u8, value: &str) -> Vec<u8> {
    frame(PRIORITY_UPDATE, 0, 0, &[&[0, 0, 0, stream], value.as_bytes()].concat())
}

fn prior(stream: u8, priority: &str) -> Vec<u8> {
    let fields = [
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/a"),
        (":authority", "h"),
        ("priority", priority),
    ];
    frame(HEADERS, 5, stream, &literals(&fields))
}

/// In which order streams are through that have 100 KiB each, where the client says this, and that while all of them wait for it.
async fn order(count: usize, said: Vec<u8>, later: Vec<u8>) -> Vec<u8> {
    let world = World::with(Config::default(), Terms { max_queue: 16, ..Terms::default() }, |_| ());
    let wide =
        [frame(SETTINGS, 0, 0, &[0, 4, 0, 16, 0, 0]), frame(WINDOW_UPDATE, 0, 0, &[0, 63, 0, 0])].concat();
    let greeting = Piece::Bytes([PREFACE, &wide].concat());
    let script = Scripted::new([
        greeting,
        Piece::Pause,
        Piece::Bytes(said),
        Piece::Pause,
        Piece::Bytes(later),
        Piece::Pause,
    ]);
    let _connection = world.connect(&script);
    world.run(false).await;
    script.take(0);
    world.run(false).await;
    for _ in 0..count {
        answer(&world, &vec![b'x'; 100 << 10]).await;
    }
    script.go_on();
    world.run(false).await;
    script.take(usize::MAX);
    world.run(false).await;
    let ends: Vec<_> =
        frames(&script).into_iter().filter(|(kind, ..)| *kind == 0).map(|(_, stream, _)| stream).collect();
    let mut order: Vec<_> = (1..=9).step_by(2).filter(|stream| ends.contains(stream)).collect();
    order.sort_by_key(|stream| ends.iter().rposition(|other| other == stream));
    order
}

#[test]
fn what_a_client_says_last_of_a_response_counts() {
    let asked = || [prior(1, "u=0"), prior(3, "u=1"), prior(5, "u=7"), prior(7, "u=2")].concat();
    // What is said before the requests, behind them, and while all wait for the first, which leaves room for none.
    for (what, before, behind, later, expected) in [
        ("nothing", vec![], vec![], vec![], [1, 3, 7, 5]),
        ("of a stream to come", vec![update(5, "u=0")], vec![], vec![], [1, 5, 3, 7]),
        ("of one of several to come", vec![update(9, "u=0"), update(3, "u=6")], vec![], vec![], [1, 7, 3, 5]),
        ("twice", vec![update(5, "u=0"), update(5, "u=6")], vec![update(3, "u=5, i")], vec![], [1, 7, 3, 5]),
        ("of one that has begun", vec![], vec![update(5, "u=0")], vec![], [1, 5, 3, 7]),
        ("of one that waits", vec![], vec![], vec![update(5, "u=0")], [1, 5, 3, 7]),
        ("that it is less urgent", vec![], vec![], vec![update(3, "u=6")], [1, 7, 3, 5]),
        ("what is usual", vec![], vec![], vec![update(3, "")], [1, 7, 3, 5]),
        ("nothing that is known", vec![], vec![], vec![update(5, "u=9"), update(7, "u=5")], [1, 3, 5, 7]),
        ("rubbish", vec![update(5, "U=0")], vec![], vec![update(5, "u=0,")], [1, 3, 7, 5]),
    ] {
        let said = [before.concat(), asked(), behind.concat()].concat();
        assert_eq!(run(order(4, said, later.concat())), expected, "{what}");
    }
}

/// How a connection ends on which that is said before a request: what GOAWAY tells, and whether the request is answered.
async fn told(said: Vec<u8>) -> (Option<u8>, bool) {
    let world = World::new(Config { http2_streams: 3, ..Config::default() });
    let script =
        Scripted::new([Piece::Bytes([greeting(), get(1, "/a")].concat()), Piece::Pause, Piece::Bytes(said)]);
    let _connection = world.connect(&script);
    world.run(true).await;
    script.go_on();
    world.run(true).await;
    let word = frames(&script).into_iter().find(|(kind, ..)| *kind == GOAWAY).map(|(.., said)| said[7]);
    (word, bodies(&script).contains("=/last "))
}

#[test]
fn what_no_client_may_say_ends_the_connection_and_what_means_nothing_is_passed_over() {
    let of = |number: u32| frame(PRIORITY_UPDATE, 0, 0, &[&number.to_be_bytes()[..], b"u=1"].concat());
    let many =
        |streams: std::ops::Range<u32>| streams.map(|number| of(2 * number + 1)).collect::<Vec<_>>().concat();
    for (what, said, word) in [
        ("on a stream", frame(PRIORITY_UPDATE, 0, 1, &[0, 0, 0, 1, b'i']), Some(1)),
        ("too short", frame(PRIORITY_UPDATE, 0, 0, &[0, 0, 1]), Some(6)),
        ("empty", frame(PRIORITY_UPDATE, 0, 0, &[]), Some(6)),
        ("of the connection", of(0), Some(1)),
        ("of a stream of ours", of(2), Some(1)),
        ("of more streams than there may be", many(9..13), Some(1)),
        ("of as many", many(9..12), None),
        ("of those again and again", many(9..12).repeat(100), None),
        (
            "of streams that will not be opened any more",
            [many(2..4), get(9, "/b"), many(5..8)].concat(),
            None,
        ),
        ("of a stream that is closed", of(1), None),
        ("of a stream with the reserved bit", of(1 << 31 | 51), None),
        ("of nothing", frame(PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 51]), None),
        ("in more words than anybody reads", update(51, &format!("u=1, x=\"{}\"", "y".repeat(9000))), None),
    ] {
        let last = get(0x33, "/last");
        let (told, answered) = run(told([said, last].concat()));
        assert_eq!((told, answered), (word, word.is_none()), "{what}");
    }
}

#[test]
fn clients_are_told_which_priorities_are_heeded() {
    run(async {
        let world = World::new(Config::default());
        let script = Scripted::new([Piece::Bytes(greeting()), Piece::Pause]);
        let _connection = world.connect(&script);
        world.run(true).await;
        let (kind, stream, settings) = frames(&script).swap_remove(0);
        let told: Vec<_> = settings.chunks(6).filter(|one| one[..2] == [0, 9]).collect();
        assert_eq!((kind, stream, told), (SETTINGS, 0, vec![&[0, 9, 0, 0, 0, 1][..]]));
        assert_eq!((settings.len() % 6, goaways(&script)), (0, 0));
    });
}
