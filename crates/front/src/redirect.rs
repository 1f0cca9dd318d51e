//! A local redirect (RFC 3875 6.2.2): a script names another path of this server, and what is there answers the client.
//!
//! The request is put together once more from the words of the one that was answered so, and goes through the codec and the
//! router as a client's does. So what a worker names is checked as whatever a client asks for, and may lead to any other
//! application. The log and messages still have what the client has asked.

use std::time::Duration;

use howdah_http1::{FieldStore, Limits, RequestDecoder, Version};
use howdah_wire::RequestReader;

use crate::exchange::Exchange;
use crate::fault::Fault;
use crate::proxied::Behind;
use crate::request::Client;
use crate::request_record::Body;
use crate::route::Handling;
use crate::server::{Server, request};

/// So many for one request of a client: a script may name one that names it.
const MOST: u32 = 10;
/// Fields of a body, which a further request has not, and of how the first one has come.
const OF_BODY: [&[u8]; 4] = [b"HTTP_CONTENT_", b"HTTP_EXPECT", b"HTTP_TRANSFER_ENCODING", b"HTTP_TRAILER"];

/// A request that another path is to answer, with what its connection knows of it.
#[derive(Debug)]
pub(crate) struct Detour<'a> {
    pub(crate) server: &'static Server,
    pub(crate) client: &'a Client,
    pub(crate) behind: Option<&'a Behind>,
    pub(crate) exchange: &'a mut Exchange,
    pub(crate) handling: &'a mut Handling,
    pub(crate) version: Version,
    /// SERVER_PROTOCOL.
    pub(crate) protocol: &'static [u8],
    pub(crate) is_head: bool,
    /// The application has taken the connection.
    pub(crate) lent: bool,
    /// The how many-th for this request.
    pub(crate) count: u32,
}

impl Detour<'_> {
    /// Has what is at `path` answer the client's request.
    pub(crate) fn follow(&mut self, path: &[u8]) -> Result<(), Fault> {
        if self.lent {
            return Err(Fault::Redirect);
        }
        let limit = self.handling.job().map_or(Duration::ZERO, |job| job.limit());
        let spent = self.handling.job().map_or(Duration::ZERO, |job| job.spent());
        let original = self.exchange.account.request.take();
        self.handling.part(&mut self.exchange.account);
        // What is told of the env is told by who answers.
        (self.exchange.account.report, self.exchange.account.worker) = (None, None);
        let words = self.exchange.account.request.take().unwrap_or_default();
        let begun = if self.count > MOST {
            Err(format!("it was the {}th in a row", self.count))
        } else {
            self.ask_again(&words, path)
        };
        self.exchange.account.request = original.or(Some(words));
        match begun {
            Ok(begun) => {
                *self.handling = begun?;
                if let Handling::App(job) = &mut *self.handling {
                    job.go_on_with(limit, spent);
                }
                Ok(())
            }
            Err(why) => Err(self.refuse_redirect(path, &why)),
        }
    }

    /// Gives the request to whoever is at the path, or says why that cannot be.
    fn ask_again(&mut self, words: &[u8], path: &[u8]) -> Result<Result<Handling, Fault>, String> {
        if !path.starts_with(b"/") || !path.iter().all(u8::is_ascii_graphic) {
            return Err("it is no path that a request could have".to_owned());
        }
        let words = RequestReader::new(words);
        let head = self.head_for(words, path);
        let mut fields = FieldStore::new();
        let mut decoder = RequestDecoder::new(&with_our_own(&self.server.config.limits));
        let decoded = decoder
            .decode(&head, &mut fields)
            .map_err(|reject| format!("a request for it is refused: {reject}"))?;
        let head = decoded.ok_or("it is no path that a request could have")?;
        let mut request = request(&head, self.client, self.behind);
        (request.protocol, request.redirected) = (self.protocol, Some(words.path()));
        let target = self.server.router.target(&request);
        Ok(self.server.router.begin(target, self.exchange, &request, Body::Inline(b"")))
    }

    /// The same request for another path, without a body. A HEAD stays one, so that nobody makes what nobody reads.
    fn head_for(&self, words: RequestReader<'_>, path: &[u8]) -> Vec<u8> {
        let method: &[u8] = if self.is_head { b"HEAD " } else { b"GET " };
        let version: &[u8] = match self.version {
            Version::Http11 => b" HTTP/1.1\r\n",
            Version::Http10 => b" HTTP/1.0\r\n",
        };
        let mut head = [method, path, version].concat();
        for (name, value) in words.variables() {
            let Some(field) = name.strip_prefix(b"HTTP_") else { continue };
            // The words come out of memory that workers share.
            let is_odd = value.iter().chain(name).any(u8::is_ascii_control);
            if is_odd || OF_BODY.iter().any(|prefix| name.starts_with(prefix)) {
                continue;
            }
            head.extend(field.iter().map(|&byte| if byte == b'_' { b'-' } else { byte }));
            head.extend_from_slice(&[b": ", value, b"\r\n"].concat());
        }
        head.extend_from_slice(b"\r\n");
        head
    }

    fn refuse_redirect(&self, path: &[u8], why: &str) -> Fault {
        let request = self.handling.request(&self.exchange.account);
        tracing::error!(
            request_id = %self.exchange.account.id.bytes().escape_ascii(),
            "a local redirect to {} cannot be followed: {why}; answered 500 to {} {} from {}",
            path.escape_ascii(),
            request.method().escape_ascii(),
            request.uri().escape_ascii(),
            request.remote_addr().escape_ascii(),
        );
        Fault::Redirect
    }
}

/// The client's bounds, and room for what is not its own: the path, and the id that we have given the request.
fn with_our_own(limits: &Limits) -> Limits {
    Limits { head: limits.head + limits.request_line + 1024, fields: limits.fields + 1, ..*limits }
}

#[cfg(test)]
mod tests {
    use howdah_accesslog::{Compat, Options, Sink, Target, compile};
    use howdah_metrics::Failure;

    use super::*;
    use crate::config::Config;
    use crate::record::AccessLog;
    use crate::reports::Loss;
    use crate::sample::heard::heard;
    use crate::sample::worker::Worker;
    use crate::sample::world::{Terms, World, beside, pieces, run};
    use crate::transport::Peer;
    use crate::transport::scripted::Scripted;

    const HOST: &str = "Host: h\r\nX-Request-Id: mine\r\n";

    /// Of each response that the client has, its status and, where there is any, its last line.
    fn responses(script: &Scripted) -> String {
        let text = String::from_utf8(script.output()).unwrap();
        let parts = text.split("HTTP/1.").filter(|part| !part.is_empty());
        let shown = |part: &str| {
            format!("{} {}", &part[2..5], part.rsplit("\r\n").next().unwrap_or_default().trim_end())
        };
        parts.map(shown).collect::<Vec<_>>().join(", ")
    }

    fn answer(input: &str) -> (String, bool) {
        run(async {
            let mut world = World::new(Config::default());
            world.questions.close();
            let script = Scripted::new(pieces(input));
            let closed = world.serve(&script).await;
            (responses(&script), closed || script.was_shut())
        })
    }

    #[test]
    fn what_is_at_the_path_answers_instead() {
        let get = |target: &str| format!("GET {target} HTTP/1.1\r\n{HOST}\r\n");
        let post = "POST /to:/env HTTP/1.1\r\nHost: h\r\nX-Request-Id: mine\r\nContent-Type: a/b\r\nContent-Length: 2\r\n\r\nhi";
        let chunks = "POST /to:/env HTTP/1.1\r\nHost: h\r\nX-Request-Id: mine\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
        let told = "/to:/env 200 - - mine";
        // What the client sends, what it receives, and whether our side of the connection is ended.
        for (input, expected, closed) in [
            (get("/to:/env"), format!("200 GET /env  {told}"), false),
            (get("/to:/env%20%41?b=%20c"), "200 GET /env A b=%20c /to:/env A 200 - - mine".into(), false),
            (get("/to:/to:/env"), "200 GET /env  /to:/env 200 - - mine".into(), false),
            (
                get("/to:/env").replace("\r\n\r\n", "\r\nCookie: a=b\r\n\r\n"),
                "200 GET /env  /to:/env 200 - a=b mine".into(),
                false,
            ),
            (get("/to:/a") + &get("/b"), "200 /a, 200 /b".into(), false),
            (get("/to:/a") + "|" + &get("/to:/b"), "200 /a, 200 /b".into(), false),
            (post.to_owned() + &get("/b"), format!("200 GET /env  {told}, 200 /b"), false),
            (chunks.to_owned() + &get("/b"), format!("200 GET /env  {told}, 200 /b"), false),
            (
                "HEAD /to:/given HTTP/1.1\r\nHost: h\r\n\r\n".to_owned() + &get("/b"),
                "200 , 200 /b".into(),
                false,
            ),
            ("GET /to:/a HTTP/1.0\r\n\r\n".into(), "200 /a".into(), true),
            (get("/to:/a").replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"), "200 /a".into(), true),
            (get("/to:/close"), "200 bye".into(), true),
            (get("/to:/empty"), "204 ".into(), false),
            (get("/to:/fail"), "500 500 Internal Server Error".into(), false),
            (get("/to:/odd"), "502 502 Bad Gateway".into(), false),
            (get("/to:/health"), "503 503 Service Unavailable".into(), false),
        ] {
            let (received, ended) = answer(&input);
            assert_eq!(received, expected, "{input}");
            assert_eq!(ended, closed, "{input}");
        }
    }

    #[test]
    fn a_request_as_large_as_may_be_is_still_one_with_another_path() {
        let limits = Limits::default();
        let fields: String = (2..=limits.fields).map(|number| format!("A-{number}: x\r\n")).collect();
        let long = format!("A: {}\r\n", "x".repeat(limits.head - 60));
        let path = format!("/env?{}", "x".repeat(limits.request_line - 60));
        for (target, fields) in
            [("/to:/env", &fields), ("/to:/env", &long), (&format!("/to:{path}"), &String::new())]
        {
            let (received, _) = answer(&format!("GET {target} HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
            assert!(received.starts_with("200 GET /env "), "{target}: {received}");
        }
    }

    #[test]
    fn what_is_no_path_is_500_and_told_in_the_log() {
        let long = format!("/{}", "x".repeat(9000));
        for (path, why) in [
            ("http://h/", "it is no path that a request could have"),
            ("a", "it is no path that a request could have"),
            ("", "it is no path that a request could have"),
            ("*", "it is no path that a request could have"),
            ("/a b", "it is no path that a request could have"),
            ("/a HTTP/1.1\r\nCookie: mine", "it is no path that a request could have"),
            ("/caf\u{e9}", "it is no path that a request could have"),
            ("/a#b", "a request for it is refused: "),
            (&long, "a request for it is refused: "),
        ] {
            let log = heard(|| {
                run(async {
                    let world = World::new(Config::default());
                    let script = Scripted::new(pieces(&format!(
                        "GET /first HTTP/1.1\r\n{HOST}\r\nGET /b HTTP/1.1\r\n{HOST}\r\n"
                    )));
                    let connection = world.connect(&script);
                    world.run(false).await;
                    let claimed = world.worker.claim().unwrap();
                    world.worker.begin(&claimed);
                    world.worker.redirect(claimed, path.as_bytes());
                    world.run(true).await;
                    assert_eq!(responses(&script), "500 500 Internal Server Error, 200 /b", "{path}");
                    assert_eq!(world.totals().failures[Failure::Application], 1);
                    assert!(!connection.is_finished());
                });
            });
            let line = log.iter().find(|line| line.contains("a local redirect")).unwrap();
            assert!(
                line.contains(why) && line.contains("answered 500 to GET /first from 127.0.0.1"),
                "{line}"
            );
        }
    }

    #[test]
    fn ten_redirects_are_followed_and_no_eleventh() {
        let chain = |length: usize| format!("GET {}/a HTTP/1.1\r\n{HOST}\r\n", "/to:".repeat(length));
        assert_eq!(answer(&chain(10)).0, "200 /a");
        let log = heard(|| assert_eq!(answer(&chain(11)).0, "500 500 Internal Server Error"));
        assert!(
            log.iter().any(|line| line.contains("cannot be followed: it was the 11th in a row")),
            "{log:?}"
        );
    }

    #[test]
    fn a_path_of_another_application_is_answered_by_that() {
        run(async {
            let world = World::with(Config::default(), Terms::default(), |setup| {
                let first = setup.pools[0].clone();
                setup.pools.push(beside(&first, "/app"));
            });
            let other = world.thread.pools[1];
            other.worker_up(0);
            let worker = Worker::new(0, other.setup.segment);
            let script = Scripted::new(pieces(&format!("GET /to:/app/env HTTP/1.1\r\n{HOST}\r\n")));
            world.connect(&script);
            world.run(true).await;
            assert_eq!(script.output(), b"");
            let claimed = worker.claim().unwrap();
            assert_eq!(claimed.target, "/app/env");
            worker.begin(&claimed);
            worker.redirect(claimed, b"/env?back");
            other.turn();
            world.run(true).await;
            assert_eq!(responses(&script), "200 GET /env back /app/env 200 - - mine");
        });
    }

    #[test]
    fn a_full_queue_a_dead_worker_and_a_client_that_leaves_end_it_as_they_end_any_request() {
        // What becomes of the second request, and what the client receives.
        for (what, expected) in
            [("full", "503 503 Service Unavailable"), ("dead", "502 502 Bad Gateway"), ("left", "")]
        {
            run(async {
                let world =
                    World::with(Config::default(), Terms { max_queue: 1, ..Terms::default() }, |_| ());
                let script = Scripted::new(pieces(&format!("GET /to:/a HTTP/1.1\r\n{HOST}\r\n")));
                let connection = world.connect(&script);
                world.run(false).await;
                let claimed = world.worker.claim().unwrap();
                world.worker.begin(&claimed);
                let _waits = (what == "full").then(|| world.ask("/other"));
                world.worker.redirect(claimed, b"/a");
                world.run(false).await;
                if what == "dead" {
                    world.worker.begin(&world.worker.claim().unwrap());
                    world.pool().worker_gone(0, Loss::Killed);
                } else if what == "left" {
                    script.become_of(Peer::Gone);
                    world.wait(Duration::from_secs(1));
                }
                world.run(false).await;
                assert_eq!(responses(&script), expected, "{what}");
                assert_eq!(connection.is_finished(), what == "left", "{what}");
            });
        }
    }

    /// Waits so many seconds, within half of one, in which the time of a request ends.
    async fn ends_after(left: u64, world: &World, script: &Scripted, what: &str) {
        world.wait(Duration::from_millis(left * 1000 - 500));
        world.run(false).await;
        assert_eq!(responses(script), "", "{what}: too early");
        world.wait(Duration::from_secs(1));
        world.run(false).await;
        assert_eq!(responses(script), "504 504 Gateway Timeout", "{what}");
    }

    #[test]
    fn one_deadline_holds_for_the_whole() {
        // What both may take, what the first has taken, and how long the second one is waited for.
        for (first, second, spent, left) in
            [(10, 10, 4, 6), (10, 20, 4, 16), (20, 10, 15, 5), (0, 10, 15, 10), (10, 10, 9, 1)]
        {
            run(async {
                let terms = Terms { request_timeout: Duration::from_secs(first), ..Terms::default() };
                let mut world = World::with(Config::default(), terms, |setup| {
                    let mut other = beside(&setup.pools[0], "/app");
                    other.request_timeout = Duration::from_secs(second);
                    setup.pools.push(other);
                });
                let other = world.thread.pools[1];
                other.worker_up(0);
                let worker = Worker::new(0, other.setup.segment);
                let script = Scripted::new(pieces(&format!("GET /to:/app HTTP/1.1\r\n{HOST}\r\n")));
                world.connect(&script);
                world.run(false).await;
                let claimed = world.worker.claim().unwrap();
                world.worker.begin(&claimed);
                world.wait(Duration::from_secs(spent));
                let control = &world.pool().setup.segment.controls()[claimed.claim.slot as usize];
                let claimed_at = control.claimed_at.load(std::sync::atomic::Ordering::Relaxed);
                world.worker.redirect(claimed, b"/app");
                control
                    .finished_at
                    .store(claimed_at + spent * 1_000_000_000, std::sync::atomic::Ordering::Relaxed);
                world.run(false).await;
                let claimed = worker.claim().unwrap();
                let control = &other.setup.segment.controls()[claimed.claim.slot as usize];
                control.claimed_at.store(world.thread.clock.now(), std::sync::atomic::Ordering::Relaxed);
                worker.begin(&claimed);
                ends_after(left, &world, &script, &format!("{first} {second} {spent}")).await;
                assert!(world.overdue.try_recv().is_ok());
            });
        }
    }

    #[test]
    fn one_deadline_holds_for_as_many_as_there_are() {
        // What each may take, what each but the last has taken, and how long the last one is waited for.
        for (limit, spent, left) in [(10, vec![4, 3], 3), (10, vec![2, 2, 2, 2], 2), (20, vec![1, 18], 1)] {
            run(async {
                let terms = Terms { request_timeout: Duration::from_secs(limit), ..Terms::default() };
                let world = World::with(Config::default(), terms, |_| ());
                let script = Scripted::new(pieces(&format!("GET /first HTTP/1.1\r\n{HOST}\r\n")));
                world.connect(&script);
                world.run(false).await;
                let controls = world.pool().setup.segment.controls();
                let claim = || {
                    let claimed = world.worker.claim().unwrap();
                    let control = &controls[claimed.claim.slot as usize];
                    let now = world.thread.clock.now();
                    control.claimed_at.store(now, std::sync::atomic::Ordering::Relaxed);
                    world.worker.begin(&claimed);
                    (claimed, control, now)
                };
                for &seconds in &spent {
                    let (claimed, control, now) = claim();
                    world.wait(Duration::from_secs(seconds));
                    world.worker.redirect(claimed, b"/next");
                    let end = now + seconds * 1_000_000_000;
                    control.finished_at.store(end, std::sync::atomic::Ordering::Relaxed);
                    world.run(false).await;
                }
                let _last = claim();
                ends_after(left, &world, &script, &format!("{limit} {spent:?}")).await;
            });
        }
    }

    #[test]
    fn the_access_log_has_one_line_of_what_the_client_has_asked() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("access");
        let sink = Sink::open(&Target::File(path.clone()), Options::default()).unwrap();
        run(async {
            let world = World::with(Config::default(), Terms::default(), |setup| {
                let format = compile("%r %s %B %{Content-Type}i %L", Compat::Apache).unwrap();
                setup.access_log = Some(AccessLog::new(format, sink.writer()));
            });
            let post = format!(
                "POST /to:/to:/abc HTTP/1.1\r\n{HOST}Content-Type: a/b\r\nContent-Length: 2\r\n\r\nhi"
            );
            let get = format!("GET /to:bad HTTP/1.1\r\n{HOST}\r\n");
            world.serve(&Scripted::new(pieces(&(post + &get)))).await;
        });
        sink.close(Duration::from_secs(30));
        let lines = std::fs::read_to_string(path).unwrap();
        assert_eq!(lines, "POST /to:/to:/abc HTTP/1.1 200 4 a/b mine\nGET /to:bad HTTP/1.1 500 26 - mine\n");
    }
}
