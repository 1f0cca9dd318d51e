//! The end of a connection whose client may still be sending: reads and discards for a while, so that the kernel does
//! not reset the connection before the client has read our answer (RFC 9112 9.6).

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::server::Server;
use crate::timers::{Rest, Timer};
use crate::transport::Transport;

/// How long to wait for the client's end.
const PATIENCE: Duration = Duration::from_secs(2);
/// How much to discard.
const MOST: usize = 16 << 20;
/// How often to look whether the client has all of the answer.
const LOOK: Duration = Duration::from_millis(100);

/// Closes gently; sooner when somebody needs the room and the client has all of the answer.
pub(crate) async fn linger(server: &Server, transport: &mut Transport, timer: &Timer) {
    let (end, mut discarded, mut is_shut) = (server.clock.after(PATIENCE), 0, false);
    rest(server, transport, timer, end);
    while let Some(length) = poll_fn(|context| {
        // A client of TLS that takes its time takes our end last.
        is_shut = is_shut || transport.poll_shut(context).is_ready();
        poll_discard(server, transport, timer, end, context)
    })
    .await
    {
        discarded += length;
        if discarded > MOST {
            return;
        }
    }
}

/// The connection rests once nothing more is on its way to the client: it would be lost.
fn rest(server: &Server, transport: &Transport, timer: &Timer, end: u64) {
    if transport.outstanding() > 0 {
        timer.set(Rest::No, end.min(server.clock.after(LOOK)));
    } else {
        timer.set(Rest::Lingers, end);
    }
}

fn poll_discard(
    server: &Server,
    transport: &mut Transport,
    timer: &Timer,
    end: u64,
    context: &mut Context<'_>,
) -> Poll<Option<usize>> {
    if timer.is_unwanted() {
        return Poll::Ready(None);
    }
    if timer.poll_expired(context) {
        if server.clock.now() >= end {
            return Poll::Ready(None);
        }
        rest(server, transport, timer, end);
    }
    let input = &mut server.scratch.borrow_mut().input;
    let read = ready!(transport.poll_read(context, input));
    Poll::Ready(read.ok().filter(|&length| length > 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::sample::world::{World, run};
    use crate::transport::scripted::{Piece, Scripted};

    /// Whether a connection is over whose client has sent nonsense and then this.
    async fn is_over(rest: Vec<Piece>, later: Duration) -> bool {
        let world = World::new(Config::default());
        let bad = Piece::Bytes(b"nonsense\r\n\r\n".to_vec());
        let script = Scripted::new([bad, Piece::Pause].into_iter().chain(rest));
        let connection = world.connect(&script);
        world.run(true).await;
        assert!(
            script.output().starts_with(b"HTTP/1.1 400 ") && script.was_shut(),
            "it is told, and our side ends"
        );
        assert!(!connection.is_finished(), "it may still be sending");
        script.go_on();
        for _ in 0..10 {
            world.run(true).await;
        }
        world.wait(later);
        world.run(true).await;
        connection.is_finished()
    }

    #[test]
    fn a_client_is_read_until_its_end_for_two_seconds_or_so_many_bytes() {
        let much = |bytes: usize| vec![Piece::Bytes(vec![b'x'; bytes])];
        for (what, rest, later, over) in [
            ("it ends", vec![Piece::End], 0, true),
            ("it sends on and ends", vec![Piece::Bytes(vec![b'x'; 1 << 20]), Piece::End], 0, true),
            ("it does nothing", vec![], 1999, false),
            ("it does nothing for long", vec![], 2001, true),
            ("it sends too much", much(MOST + (1 << 20)), 0, true),
            ("it sends much", much(MOST / 2), 0, false),
        ] {
            assert_eq!(run(is_over(rest, Duration::from_millis(later))), over, "{what}");
        }
    }

    /// The end of a connection whose client has sent nonsense, and takes so many bytes of the answer.
    async fn at_the_end(takes: usize) -> (World, Scripted, tokio::task::JoinHandle<()>) {
        let world = World::new(Config::default());
        let script = Scripted::new([Piece::Bytes(b"nonsense\r\n\r\n".to_vec()), Piece::Pause]);
        script.take(takes);
        let connection = world.connect(&script);
        world.run(true).await;
        assert!(script.was_shut() && !connection.is_finished());
        world.wait(Duration::from_millis(500));
        world.run(true).await;
        (world, script, connection)
    }

    #[test]
    fn it_makes_room_once_the_client_has_all_of_the_answer() {
        run(async {
            let (world, script, connection) = at_the_end(usize::MAX).await;
            assert!(world.thread.entrance.room.dismiss(false));
            world.run(true).await;
            assert!(connection.is_finished());
            let answer = script.output().len();

            let (world, script, connection) = at_the_end(answer).await;
            assert!(!world.thread.entrance.room.dismiss(false), "the end of the answer is on its way");
            script.take(1);
            for _ in 0..2 {
                world.wait(Duration::from_millis(150));
                world.run(true).await;
            }
            assert!(world.thread.entrance.room.dismiss(false), "it has arrived");
            world.run(true).await;
            assert!(connection.is_finished());

            let (world, _script, connection) = at_the_end(answer).await;
            world.wait(Duration::from_secs(2));
            world.run(true).await;
            assert!(connection.is_finished(), "it has its time and no more");
        });
    }
}
