//! What jobs make of what workers do, and of workers that are lost.

use std::task::Waker;

use howdah_accesslog::{Compat, Options, Sink, Target, compile};
use howdah_wire::REQUEST_AREA;

use super::*;
use crate::capacity::Kind;
use crate::config::Config;
use crate::record::AccessLog;
use crate::reports::Loss;
use crate::sample::worker::Claimed;
use crate::sample::world::{Terms, World, run};
use crate::slots::Spool;

/// What a job has for its connection, in words.
fn event(job: &mut Job, exchange: &Exchange) -> String {
    match job.poll(exchange, &Context::from_waker(Waker::noop())) {
        Poll::Pending => "nothing".to_owned(),
        Poll::Ready(Event::Fault(fault)) => format!("{fault:?}"),
        Poll::Ready(Event::Response(Response { head, body })) => {
            let body = match body {
                Body::Ring(_, length) => format!("ring {length:?}"),
                Body::File(file) => format!("file {}", file.length),
                Body::Bytes(_) => "bytes".to_owned(),
            };
            format!("{} {:?} {body}", head.status, head.content_length)
        }
        Poll::Ready(Event::Interim { status, .. }) => format!("interim {status}"),
        Poll::Ready(other) => format!("{other:?}"),
    }
}

/// A file as a worker sends it.
fn file(world: &World, length: u64) -> Mail {
    let permit = world.capacity.enter(Kind::File).unwrap();
    Mail::File { file: Some((howdah_sys::eventfd().unwrap(), permit)), length }
}

fn post(world: &World, job: &Job, mail: Mail) -> bool {
    let desk = world.pool().dispatch.borrow().desk_of(job.slot.unwrap());
    world.thread.desks.post(desk.unwrap(), mail)
}

#[test]
fn what_a_worker_says_and_whether_it_is_through_decides_what_there_is() {
    // Flags, status, length of the lines, and what there is before and after its end.
    const READY: u32 = RESPONSE_HEAD_READY;
    for (flags, status, lines, before, after) in [
        (READY, 200, 4, "200 Some(7) ring None", "200 Some(7) ring Some(3)"),
        (READY, 200, 7, "200 Some(7) ring None", "200 Some(7) ring Some(0)"),
        (READY, 999, 0, "999 Some(7) ring None", "999 Some(7) ring Some(7)"),
        (READY | RESPONSE_BROKEN, 200, 4, "200 Some(7) ring None", "200 Some(7) ring None"),
        (READY, 200, 8, "BadResponse", "BadResponse"),
        (READY, 199, 4, "BadResponse", "BadResponse"),
        (READY, 1000, 4, "BadResponse", "BadResponse"),
        (READY | RESPONSE_FAILED, 200, 4, "200 Some(7) ring None", "Failed"),
        (0, 200, 4, "nothing", "NoResponse"),
        (RESPONSE_FAILED, 0, 0, "nothing", "Failed"),
        (RESPONSE_FAILED, 502, 0, "nothing", "WorkerLost"),
        (RESPONSE_FAILED, 503, 0, "nothing", "TooManyUpgrades"),
        (RESPONSE_DETACHED, 0, 0, "nothing", "Detached"),
        (READY | RESPONSE_FILE, 200, 4, "nothing", "nothing"),
    ] {
        run(async {
            let world = World::new(Config::default());
            let (mut job, exchange) = world.ask("/a");
            let mut claimed = world.worker.claim().unwrap();
            world.worker.write(&mut claimed, b"A:b\nxyz");
            let answer = Answer { flags, status, head_length: lines, content_length: 7, ..Answer::default() };
            world.worker.say(&mut claimed, answer);
            let case = format!("flags {flags}, status {status}, {lines} bytes of lines");
            assert_eq!(event(&mut job, &exchange), "nothing", "{case}: without news");
            world.worker.tell(&claimed);
            world.pool().turn();
            assert_eq!(event(&mut job, &exchange), before, "{case}");
            world.worker.finish(claimed);
            world.pool().turn();
            assert_eq!(event(&mut job, &exchange), after, "{case}, and it is through");
            assert_eq!(event(&mut job, &exchange), "nothing", "{case}: it is said once");
        });
    }
}

#[test]
fn a_file_may_come_before_the_head_that_speaks_of_it_and_after() {
    for file_first in [true, false] {
        run(async {
            let world = World::new(Config::default());
            let (mut job, exchange) = world.ask("/a");
            let mut claimed = world.worker.claim().unwrap();
            if file_first {
                assert!(post(&world, &job, file(&world, 70)));
                assert_eq!(event(&mut job, &exchange), "nothing");
            }
            world.worker.head(&mut claimed, 200, 70, RESPONSE_FILE);
            world.worker.tell(&claimed);
            world.pool().turn();
            if !file_first {
                assert_eq!(event(&mut job, &exchange), "nothing", "it is due");
                assert!(post(&world, &job, file(&world, 70)));
            }
            assert_eq!(event(&mut job, &exchange), "200 Some(70) file 70");
        });
    }
}

#[test]
fn a_file_that_does_not_come_is_not_waited_for_once_its_worker_is_through() {
    run(async {
        let world = World::new(Config::default());
        let (mut job, exchange) = world.ask("/a");
        let mut claimed = world.worker.claim().unwrap();
        world.worker.head(&mut claimed, 200, 70, RESPONSE_FILE);
        world.worker.tell(&claimed);
        let looks = |job: &mut Job, count: u8| {
            let look = |_| {
                world.wait(Duration::from_millis(100));
                event(job, &exchange)
            };
            (0..count).map(look).filter(|event| event != "Look").collect::<Vec<_>>()
        };
        world.pool().turn();
        assert_eq!(event(&mut job, &exchange), "nothing");
        assert!(looks(&mut job, 3 * FILE_LOOKS).is_empty(), "it may take its time over that");
        world.worker.finish(claimed);
        world.pool().turn();
        assert_eq!(event(&mut job, &exchange), "nothing");
        assert!(looks(&mut job, FILE_LOOKS - 1).is_empty(), "what it has sent may not have been heard yet");
        assert_eq!(looks(&mut job, 1), ["BadResponse"]);
    });
}

#[test]
fn a_file_for_which_there_was_no_descriptor_is_no_response() {
    run(async {
        let world = World::new(Config::default());
        let (mut job, exchange) = world.ask("/a");
        let _claimed = world.worker.claim();
        assert!(post(&world, &job, Mail::File { file: None, length: 3 }));
        assert_eq!(event(&mut job, &exchange), "NoDescriptor");
    });
}

#[test]
fn who_gives_up_without_the_connection_is_answered_by_why_it_was_refused_last() {
    type Refuse = fn(&mut Job);
    let lacks = |job: &mut Job| job.lack_descriptor();
    let exceeds = |job: &mut Job| assert!(!job.upgrade(MessageKind::Socket));
    let cases: [(Refuse, Refuse, _); 2] =
        [(lacks, exceeds, "TooManyUpgrades"), (exceeds, lacks, "NoDescriptor")];
    for (first, second, fault) in cases {
        run(async {
            let terms = Terms { max_upgrades: 0, ..Terms::default() };
            let world = World::with(Config::default(), terms, |_| ());
            let (mut job, exchange) = world.ask("/a");
            let mut claimed = world.worker.claim().unwrap();
            first(&mut job);
            second(&mut job);
            let flags = RESPONSE_FAILED;
            world.worker.say(&mut claimed, Answer { status: 503, flags, ..Answer::default() });
            world.worker.finish(claimed);
            world.pool().turn();
            assert_eq!(event(&mut job, &exchange), fault);
        });
    }
}

#[test]
fn a_head_says_what_it_has_and_whether_to_close() {
    // Flags, and whether the head has a date, a server and an id, and closes.
    for (flags, date, server, request_id, close) in [
        (0, false, false, false, false),
        (RESPONSE_HAS_DATE, true, false, false, false),
        (RESPONSE_HAS_SERVER, false, true, false, false),
        (RESPONSE_HAS_REQUEST_ID, false, false, true, false),
        (RESPONSE_CLOSE, false, false, false, true),
    ] {
        let answer = Answer { flags, status: 404, ..Answer::default() };
        let Head { status, has, content_length, close: closes, .. } = head(&answer, b"");
        let said = (status, has.date, has.server, has.request_id, closes, content_length);
        assert_eq!(said, (404, date, server, request_id, close, None), "{flags}");
    }
}

#[test]
fn what_is_no_response_goes_to_the_connection_as_it_comes() {
    run(async {
        let world = World::new(Config::default());
        let (mut job, exchange) = world.ask("/a");
        let _claimed = world.worker.claim();
        world.thread.desks.sweep();
        assert!(post(&world, &job, Mail::Interim { status: 103, lines: vec![] }));
        assert!(post(&world, &job, Mail::Takeover));
        let events: Vec<_> = (0..4).map(|_| event(&mut job, &exchange)).collect();
        assert_eq!(events, ["interim 103", "Takeover", "Look", "nothing"]);
    });
}

#[test]
fn a_worker_that_runs_a_request_for_too_long_is_reported() {
    let terms = |seconds| Terms { request_timeout: Duration::from_secs(seconds), ..Terms::default() };
    // The limit, whether a worker has it, whether it is through, how many seconds pass, and whether it is too long.
    for (limit, claims, ends, passed, overdue) in [
        (60, true, false, 30, false),
        (60, true, false, 120, true),
        (60, true, true, 120, false),
        (60, false, false, 120, false),
        (0, true, false, 120, false),
    ] {
        run(async {
            let mut world = World::with(Config::default(), terms(limit), |_| ());
            let (job, _exchange) = world.ask("/a");
            let claimed = claims.then(|| world.worker.claim().unwrap());
            if ends {
                claimed.into_iter().for_each(|claimed| world.worker.finish(claimed));
            }
            world.wait(Duration::from_secs(passed));
            let case = format!("limit {limit}, claimed {claims}, ended {ends}, {passed} seconds");
            assert_eq!(job.report_overdue(), overdue.then_some(0), "{case}");
            let report = overdue.then_some(Overdue { worker: 0, slot: job.slot.unwrap() });
            assert_eq!(world.overdue.try_recv().ok(), report, "{case}");
            assert_eq!(job.runner(), (claims && !ends).then_some(0), "{case}");
            assert_eq!(job.worker(), claims.then_some(0), "{case}");
        });
    }
}

#[test]
fn a_worker_has_its_time_also_where_the_thread_is_held_up() {
    run(async {
        let terms = Terms { request_timeout: Duration::from_secs(60), ..Terms::default() };
        let world = World::with(Config::default(), terms, |_| ());
        let (job, _exchange) = world.ask("/a");
        let _claimed = world.worker.claim().unwrap();
        world.wait(Duration::from_secs(30));
        world.thread.clock.hold_up(Duration::from_secs(3600));
        world.wait(Duration::from_secs(29));
        assert_eq!(job.report_overdue(), None);
        world.wait(Duration::from_secs(2));
        assert_eq!(job.report_overdue(), Some(0));
    });
}

#[test]
fn a_worker_that_nobody_waits_for_has_no_more_time_than_any_other() {
    // The limit, seconds that pass; whether the response has begun, the application has the connection, the worker was
    // reported before its client left, or is through; and whether it is reported then.
    for (limit, passed, begun, taken, told, ends, overdue) in [
        (60, 120, false, false, false, false, true),
        (60, 30, false, false, false, false, false),
        (0, 120, false, false, false, false, false),
        (60, 120, true, false, false, false, false),
        (60, 120, false, true, false, false, false),
        (60, 120, false, false, true, false, false),
        (60, 120, false, false, false, true, false),
    ] {
        run(async {
            let terms = Terms { request_timeout: Duration::from_secs(limit), ..Terms::default() };
            let mut world = World::with(Config::default(), terms, |_| ());
            let (mut job, _exchange) = world.ask("/a");
            let slot = job.slot.unwrap();
            let claimed = world.worker.claim().unwrap();
            world.worker.begin(&claimed);
            let control = world.pool().dispatch.borrow().control(slot);
            control.flags.store(if begun { RESPONSE_HEAD_READY } else { 0 }, Relaxed);
            assert!(!taken || job.upgrade(MessageKind::Socket));
            if told {
                world.wait(Duration::from_secs(passed));
                assert!(job.report_overdue().is_some() && world.overdue.try_recv().is_ok());
            }
            job.give_back();
            if ends {
                world.worker.finish(claimed);
            }
            world.wait(Duration::from_secs(passed));
            world.pool().sweep();
            world.pool().sweep();
            let reports: Vec<_> = std::iter::from_fn(|| world.overdue.try_recv().ok()).collect();
            let expected = overdue.then_some(Overdue { worker: 0, slot });
            let case = format!("{limit} {passed} {begun} {taken} {told} {ends}");
            assert_eq!(reports, Vec::from_iter(expected), "{case}");
        });
    }
}

#[test]
fn a_job_without_its_slot_knows_nothing_any_more() {
    run(async {
        let mut world = World::new(Config::default());
        let (mut job, exchange) = world.ask("/a");
        world.worker.begin(&world.worker.claim().unwrap());
        let mut account = Account::default();
        job.part(&mut account);
        assert_eq!(RequestReader::new(&account.request.clone().unwrap()).uri(), b"/a");
        assert_eq!((account.report.as_deref(), account.run.is_some()), (Some(&b""[..]), true));
        account.request = None;
        job.part(&mut account);
        assert!(account.request.is_none(), "there is nothing to be copied any more");
        assert!(job.runner().is_none() && job.worker().is_none() && !job.is_done());
        assert!(job.request().uri().is_empty() && event(&mut job, &exchange) == "nothing");
        job.interrupt(0);
        assert_eq!(world.departed.try_recv(), Ok(0));
    });
}

#[test]
fn who_has_run_it_is_known_from_the_roster() {
    run(async {
        let world = World::with(Config::default(), Terms::default(), |setup| {
            setup.pools[0].roster.expect(0, 7);
            setup.pools[0].roster.forked(0, 4711);
            setup.pools[0].mount = Some("/app".to_owned());
        });
        let (job, _exchange) = world.ask("/a");
        let known = |worker| {
            let Identity { pid, generation } = job.identity(worker);
            (pid, generation)
        };
        assert_eq!((known(Some(0)), known(None), job.mount()), ((4711, 7), (0, 0), Some("/app")));
    });
}

#[test]
fn who_died_at_a_request_is_known() {
    for (begins, who) in [(true, Some(0)), (false, None)] {
        run(async {
            let world = World::new(Config::default());
            let (job, _exchange) = world.ask("/a");
            let claimed = world.worker.claim().unwrap();
            if begins {
                world.worker.begin(&claimed);
            }
            world.pool().worker_gone(0, Loss::Killed);
            assert_eq!(job.worker(), who, "begun: {begins}");
        });
    }
}

#[test]
fn the_way_through_a_worker_is_told_in_times() {
    // When it was claimed and has ended, and how long it has waited and run, beginning with when it was queued.
    for (claimed, ended, queue, run_time) in
        [(0, 0, None, None), (50, 80, Some(50), Some(30)), (50, 0, Some(50), Some(950))]
    {
        run(async {
            let world = World::new(Config::default());
            let (job, _exchange) = world.ask("/a");
            let slot = job.slot.unwrap();
            let begin = world.thread.clock.now();
            let control = world.pool().dispatch.borrow().control(slot);
            let at = |time| if time == 0 { 0 } else { begin + time };
            control.claimed_at.store(at(claimed), Relaxed);
            control.finished_at.store(at(ended), Relaxed);
            world.thread.clock.advance(Duration::from_nanos(1000));
            let mut account = Account::default();
            job.visit(&mut account);
            assert_eq!((account.queue, account.run), (queue, run_time), "{claimed} {ended}");
        });
    }
}

/// A world whose access log wants a variable of the env.
fn with_log() -> World {
    World::with(Config::default(), Terms::default(), |setup| {
        let sink = Sink::open(&Target::File("/dev/null".into()), Options::default()).unwrap();
        let format = compile("%{VAR}e", Compat::Apache).unwrap();
        setup.access_log = Some(AccessLog::new(format, sink.writer()));
    })
}

/// Leaves a report of a request.
fn leave(world: &World, claimed: &Claimed, report: &[u8]) {
    let (slot, segment) = (claimed.claim.slot, world.pool().setup.segment);
    segment.slot_area(slot)[REQUEST_AREA..][..report.len()].copy_from_slice(report);
    segment.controls()[slot as usize].report.store(report.len() as u32, Relaxed);
}

/// Finishes a request with a report.
fn finish(world: &World, claimed: Claimed, report: &[u8]) {
    leave(world, &claimed, report);
    world.worker.finish(claimed);
}

#[test]
fn a_report_is_read_once_the_worker_has_left_it_and_the_log_wants_one() {
    for (wanted, world) in [(true, with_log as fn() -> World), (false, || World::new(Config::default()))] {
        run(async {
            let world = world();
            let (job, _exchange) = world.ask("/a");
            let claimed = world.worker.claim().unwrap();
            assert!(job.report().is_empty(), "there is none yet");
            leave(&world, &claimed, b"\x04\0self");
            let expected = if wanted { &b"\x04\0self"[..] } else { b"" };
            assert_eq!(&*job.report(), expected, "while a script runs");
            world.worker.finish(claimed);
            assert_eq!(&*job.report(), expected, "at its end");
        });
    }
}

#[test]
fn a_report_is_waited_for_until_it_comes_or_cannot_come() {
    // Whether the log wants it, and whether the worker is killed, or else answers.
    for (wanted, killed) in [(true, false), (true, true), (false, false)] {
        run(async {
            let world = if wanted { with_log() } else { World::new(Config::default()) };
            let (job, exchange) = world.ask("/a");
            let claimed = world.worker.claim().unwrap();
            world.worker.begin(&claimed);
            exchange.answer();
            let mut waits = Box::pin(job.await_report(&exchange));
            let mut poll = || waits.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(poll().is_pending(), wanted);
            if !wanted {
                return;
            }
            world.pool().dispatch.borrow_mut().news(claimed.claim.slot);
            assert!(poll().is_pending(), "there is more of the response");
            if killed {
                world.pool().worker_gone(0, Loss::Killed);
            } else {
                finish(&world, claimed, b"");
                world.pool().turn();
            }
            assert!(poll().is_ready());
        });
    }
}

#[test]
fn a_slot_is_given_back_when_its_job_is_dropped() {
    run(async {
        let world = World::new(Config::default());
        let (job, _exchange) = world.ask("/a");
        let extent = world.pool().extent_for_body(None).unwrap();
        world.pool().dispatch.borrow_mut().keep(0, Spool::Extent(extent));
        assert!(world.pool().dispatch.borrow().kept(0).is_some());
        drop(job);
        assert_eq!(world.pool().dispatch.borrow().in_flight, 0);
        assert!(world.pool().dispatch.borrow().kept(0).is_none() && world.worker.claim().is_none());
    });
}
