//! Responses to pipelined requests, several in one write: one that is whole and short waits for the next, where that was
//! asked for already and is likely to be there soon. See docs/decisions/33-pipelined-requests.md.

use howdah_http1::Framing;
use howdah_wire::INLINE_BODY;

use crate::h1::state::Conn;
use crate::server::Scratch;

impl Conn {
    /// Whether a response of `length` bytes may wait for the next one. Who asks knows that the connection stays.
    pub(super) fn may_postpone(&mut self, length: usize) -> bool {
        !self.input.is_empty()
            && self.out.may_postpone(length)
            && self.handling.job().is_some_and(|job| job.is_quick())
            && self.has_whole_request()
    }

    /// Whether the next request is here to its end, so that its client is not waited for before a worker has it.
    fn has_whole_request(&mut self) -> bool {
        let Scratch { fields, .. } = &mut *self.server.scratch.borrow_mut();
        match self.decoder.decode(&self.input, fields) {
            Ok(Some(head)) => {
                let body = match head.framing {
                    Framing::None => Some(0),
                    Framing::Length(length) => {
                        usize::try_from(length).ok().filter(|length| *length <= INLINE_BODY)
                    }
                    Framing::Chunked => None,
                };
                body.is_some_and(|body| head.len + body <= self.input.len())
            }
            Ok(None) => false,
            Err(_) => {
                // It is refused when its turn comes.
                self.decoder.reset();
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use tokio::task::JoinHandle;

    use crate::config::Config;
    use crate::sample::world::{World, pieces, run};
    use crate::transport::Peer;
    use crate::transport::scripted::Scripted;

    const A: &str = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";
    const B: &str = "GET /b HTTP/1.1\r\nHost: h\r\n\r\n";

    fn post(fields: &str, body: &str) -> String {
        format!("POST /b HTTP/1.1\r\nHost: h\r\n{fields}\r\n\r\n{body}")
    }

    /// Bodies of the responses, each of which names its path, and writes that they took.
    fn said(script: &Scripted) -> (Vec<String>, usize) {
        let output = String::from_utf8(script.output()).unwrap();
        let bodies =
            output.split("\r\n\r\n").skip(1).map(|text| text.split("HTTP/1.1").next().unwrap().to_owned());
        (bodies.collect(), script.writes())
    }

    /// Responses wait for a moment alone, which can be over before a busy machine has looked: many times, one after the other.
    fn eventually(what: &str, holds: impl AsyncFn() -> bool) {
        let end = Instant::now() + Duration::from_secs(20);
        while !run(holds()) {
            assert!(Instant::now() < end, "{what}");
        }
    }

    /// A client that has sent two requests, of which the first is answered, and whether that response waits.
    async fn half_answered(config: Config) -> (World, Scripted, JoinHandle<()>, bool) {
        let world = World::new(config);
        let script = Scripted::new(pieces(&(A.to_owned() + B)));
        let connection = world.connect(&script);
        world.run(false).await;
        world.worker.serve();
        world.run(false).await;
        let waits = script.output().is_empty();
        (world, script, connection, waits)
    }

    #[test]
    fn responses_go_out_together_where_the_next_request_is_here_to_its_end() {
        let length = |length: usize| format!("Content-Length: {length}");
        let chunks = "Transfer-Encoding: chunked";
        // What the client sends, and writes.
        for (what, sent, writes) in [
            ("two", A.to_owned() + B, 1),
            ("many", A.repeat(20) + B, 1),
            ("an empty line between", format!("{A}\r\n{B}"), 1),
            ("a pause between", format!("{A}|{B}"), 2),
            ("a part of the next one", format!("{A}GET /b HTTP/1.1\r\nHo|st: h\r\n\r\n"), 2),
            ("its body is here", format!("{A}{}", post(&length(2), "hi")), 1),
            ("a part of its body", format!("{A}{}", post(&length(2), "h|i")), 2),
            ("a body without a length", format!("{A}{}", post(chunks, "1\r\nh\r\n0\r\n\r\n")), 2),
            ("a long one", format!("{A}{}", post(&length(100_000), &"h".repeat(100_000))), 2),
            ("the last one", format!("{A}GET /b HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"), 1),
            ("more than may wait", A.replace("/a", &format!("/{}", "a".repeat(6000))).repeat(3) + B, 2),
        ] {
            eventually(what, async || {
                let world = World::new(Config::default());
                let script = Scripted::new(pieces(&sent));
                world.serve(&script).await;
                let (bodies, written) = said(&script);
                let asked = sent.matches("HTTP/1.1").count();
                assert_eq!((bodies.len(), bodies.last().map(String::as_str)), (asked, Some("/b")), "{what}");
                assert_eq!(
                    world.totals().bytes_out,
                    script.output().len() as u64,
                    "{what}: all is counted once"
                );
                written == writes
            });
        }
    }

    #[test]
    fn a_response_waits_for_a_moment_only() {
        eventually("it waits", async || {
            let (world, script, _connection, waits) = half_answered(Config::default()).await;
            let slow = world.worker.claim().expect("the next one");
            let out = world.until(|| (!script.output().is_empty()).then(|| said(&script))).await;
            assert_eq!(out, Some((vec!["/a".to_owned()], 1)), "though the second one is not answered");
            world.worker.respond(slow);
            world.run(false).await;
            assert_eq!(said(&script), (vec!["/a".to_owned(), "/b".to_owned()], 2));
            waits
        });
    }

    #[test]
    fn none_waits_for_longer_because_more_of_them_come() {
        run(async {
            let world = World::new(Config::default());
            let script = Scripted::new(pieces(&(A.repeat(2) + B)));
            world.connect(&script);
            for waits in [true, false] {
                world.run(false).await;
                assert!(script.output().is_empty() || !waits);
                world.thread.clock.advance(Duration::from_millis(if waits { 0 } else { 6 }));
                assert!(world.worker.serve());
            }
            world.run(false).await;
            assert_eq!(said(&script).0, ["/a", "/a"], "though the last one is here");
        });
    }

    #[test]
    fn where_requests_take_long_no_response_waits() {
        run(async {
            let world = World::new(Config::default());
            world.pool().dispatch.borrow_mut().run_ns = 1_000_000;
            let script = Scripted::new(pieces(&(A.to_owned() + B)));
            world.serve(&script).await;
            assert_eq!(said(&script), (vec!["/a".to_owned(), "/b".to_owned()], 2));
        });
    }

    #[test]
    fn a_client_that_does_not_take_them_has_them_later_or_is_let_go() {
        run(async {
            let world = World::new(Config::default());
            let script = Scripted::new(pieces(&(A.repeat(3) + B)));
            script.take(150);
            let connection = world.connect(&script);
            world.run(true).await;
            assert_eq!(script.output().len(), 150);
            for more in [1, 100, 1, usize::MAX] {
                script.take(more);
                world.run(true).await;
            }
            assert_eq!(said(&script).0, ["/a", "/a", "/a", "/b"]);
            assert_eq!(world.totals().bytes_out, script.output().len() as u64);
            assert!(!connection.is_finished());
        });
        run(async {
            let world = World::new(Config::default());
            let script = Scripted::new(pieces(&(A.to_owned() + B)));
            script.become_of(Peer::Gone);
            assert!(world.serve(&script).await && script.output().is_empty());
            assert_eq!(world.totals().all_requests(), 2);
        });
    }

    #[test]
    fn who_is_given_up_before_the_next_response_has_what_waits() {
        eventually("it waits", async || {
            let config = Config { abort_on_disconnect: true, ..Config::default() };
            let (world, script, connection, waits) = half_answered(config).await;
            script.become_of(Peer::Silent);
            world.wait(Duration::from_secs(1));
            world.run(false).await;
            assert!(connection.is_finished());
            assert_eq!(said(&script), (vec!["/a".to_owned()], 1));
            waits
        });
    }

    #[test]
    fn what_waits_is_sent_before_the_thread_ends() {
        eventually("it waits", async || {
            let (world, script, _connection, waits) = half_answered(Config::default()).await;
            world.thread.cut_off().await;
            let refused = "503 Service Unavailable\n".to_owned();
            assert_eq!(
                said(&script),
                (vec!["/a".to_owned(), refused], 1),
                "with that of the next, which no worker has begun"
            );
            waits && !script.was_reset()
        });
    }
}
