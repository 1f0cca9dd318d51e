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

/// Closes gently, or at once when somebody needs the room.
pub(crate) async fn linger(server: &Server, transport: &mut Transport, timer: &Timer) {
    timer.set(Rest::Lingers, server.clock.after(PATIENCE));
    let (mut discarded, mut is_shut) = (0, false);
    while let Some(length) = poll_fn(|context| {
        // A client of TLS that takes its time takes our end last.
        is_shut = is_shut || transport.poll_shut(context).is_ready();
        poll_discard(server, transport, timer, context)
    })
    .await
    {
        discarded += length;
        if discarded > MOST {
            return;
        }
    }
}

fn poll_discard(
    server: &Server,
    transport: &mut Transport,
    timer: &Timer,
    context: &mut Context<'_>,
) -> Poll<Option<usize>> {
    if timer.poll_expired(context) || timer.is_unwanted() {
        return Poll::Ready(None);
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
}
