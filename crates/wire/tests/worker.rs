//! A worker's life through the doors that its C files call, one step at a time. How the steps interleave with the front's
//! is in `loom/`; here is what each call returns, and what the front finds after it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's panic is its report")]

mod common;

use common::memory;
use howdah_wire::c_abi::*;
use howdah_wire::*;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Mutex, MutexGuard, PoisonError};

const SHAPE: Shape = Shape { fronts: 3, workers: 3, slots: 6 };
/// A slot of the last front thread.
const SLOT: u32 = 5;
const ME: u16 = 1;

/// A process is one worker, and these tests are one process.
static TURN: Mutex<()> = Mutex::new(());

/// The segment as the front sees it; the test's process is attached to it as a worker.
struct World {
    segment: Segment,
    _turn: MutexGuard<'static, ()>,
}

fn attach(base: *mut u8, length: usize) -> i32 {
    // SAFETY: so many bytes are there, and never freed.
    unsafe { howdah_attach(base, length) }
}

fn world() -> World {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let base = memory(SHAPE.total());
    // SAFETY: zeroed, page-aligned, never freed.
    let segment = unsafe { Segment::create(base, SHAPE.total(), SHAPE) }.unwrap();
    assert_eq!(attach(base, SHAPE.total()), 0);
    World { segment, _turn: turn }
}

impl World {
    fn control(&self) -> &'static SlotControl {
        &self.segment.controls()[SLOT as usize]
    }

    fn cell(&self) -> &'static WorkerCell {
        &self.segment.workers()[usize::from(ME)]
    }

    fn front(&self) -> &'static FrontCell {
        self.segment.front_of(SLOT)
    }

    /// The front queues a request for `/here` in [`SLOT`]: its ticket.
    fn queue(&self) -> u64 {
        self.segment.place_request(SLOT, true);
        let mut writer = RequestWriter::new(self.segment.request_area(SLOT, true));
        writer.record.uri = writer.put(b"/here").unwrap();
        writer.finish();
        self.control().reset(1);
        let queue = self.segment.queue();
        let ticket = queue.draw().unwrap();
        self.segment.stamp(SLOT, true, ticket);
        queue.push(SLOT, ticket);
        ticket
    }

    /// And this worker claims it.
    fn claimed(&self) -> u64 {
        let ticket = self.queue();
        assert_eq!(howdah_claim(ME), i64::from(SLOT));
        ticket
    }

    fn news(&self) -> Vec<u32> {
        let mut news = Vec::new();
        self.front().take_news(|slot| news.push(slot));
        news
    }
}

/// What of the request can be read: `used` bytes.
fn request() -> &'static [u8] {
    let mut used = usize::MAX;
    // SAFETY: a place for the number.
    let start = unsafe { howdah_request(SLOT, &raw mut used) };
    // SAFETY: so many bytes are readable, by what the call promises.
    unsafe { core::slice::from_raw_parts(start, used) }
}

/// Where the next bytes of the response go.
fn room() -> &'static mut [u8] {
    let mut length = usize::MAX;
    // SAFETY: a place for the number.
    let start = unsafe { howdah_room(SLOT, &raw mut length) };
    // SAFETY: so many bytes are free, by what the call promises.
    unsafe { core::slice::from_raw_parts_mut(start, length) }
}

/// The value to sleep on until there is room, if the worker must.
fn wait_for_room() -> Option<u32> {
    let mut seen = 77;
    // SAFETY: a place for the number.
    let waits = unsafe { howdah_wait_for_room(SLOT, &raw mut seen) };
    (waits == 1).then_some(seen)
}

#[test]
fn a_mapping_that_does_not_fit_is_told_by_its_number() {
    let _world = world();
    let (base, length) = (memory(SHAPE.total()), SHAPE.total());
    assert_eq!(attach(base, length), 1, "no segment, or one of another version");
    // SAFETY: zeroed, page-aligned, never freed.
    let segment = unsafe { Segment::create(base, length, SHAPE) }.unwrap();
    assert_eq!(attach(base, length - 1), 2, "cut short");
    assert_eq!(attach(base, length), 0);
    // SAFETY: the word behind the magic number.
    unsafe { base.wrapping_add(8).write(0xff) };
    assert_eq!(attach(base, length), 3, "damaged");
    assert!(!segment.has_its_header());
}

#[test]
fn a_worker_starts_in_the_cell_of_its_number() {
    let world = world();
    let cell = howdah_start(ME, 4711, 10);
    assert!(core::ptr::eq(cell, world.cell()));
    assert_eq!((world.cell().pid.load(SeqCst), world.cell().since.load(SeqCst)), (4711, 10));
    assert!(howdah_start(SHAPE.workers as u16, 4712, 10).is_null(), "there is no such cell");
}

#[test]
fn a_worker_sleeps_when_nothing_waits_and_nobody_wants_it_to_leave() {
    let world = world();
    let cells = world.segment.queue().cells;
    assert_eq!((howdah_enter_idle(ME, 5), cells.sleepers()), (1, 1));
    assert_eq!(world.cell().phase.load(SeqCst), WorkerPhase::Idle as u32);
    howdah_leave_idle(ME);
    assert_eq!(cells.sleepers(), 0);
    world.queue();
    assert_eq!((howdah_enter_idle(ME, 6), howdah_queue_length()), (0, 1), "a request waits");
    howdah_leave_idle(ME);
    world.segment.queue().push(0, world.segment.queue().draw().unwrap());
    assert_eq!(howdah_queue_length(), 2);
    assert_eq!([howdah_claim(ME), howdah_claim(ME), howdah_claim(ME)], [5, 0, -1]);
    assert_eq!((howdah_enter_idle(ME, 7), howdah_queue_length()), (1, 0));
    howdah_leave_idle(ME);
    world.cell().command.store(Command::Drain as u32, SeqCst);
    assert_eq!(howdah_enter_idle(ME, 8), 0, "it is to leave");
    howdah_leave_idle(ME);
}

#[test]
fn a_worker_that_looks_around_between_two_naps_rests_on() {
    let world = world();
    let rests = || (world.cell().since.load(SeqCst), world.cell().idle_order.load(SeqCst));
    howdah_start(ME, 4711, 1);
    for (now, since) in [(5, 5), (6, 5), (7, 5)] {
        assert_eq!(howdah_enter_idle(ME, now), 1);
        howdah_leave_idle(ME);
        assert_eq!(rests(), (since, since), "at {now}");
    }
    world.cell().phase.store(WorkerPhase::Busy as u32, SeqCst);
    howdah_enter_idle(ME, 8);
    assert_eq!(rests(), (8, 8), "it has worked");
}

#[test]
fn a_worker_never_looks_for_work_for_longer_than_a_millisecond() {
    let world = world();
    for (said, done) in [(0, 0), (20_000, 20_000), (u32::MAX, 1_000_000)] {
        world.segment.queue().cells.spin.store(said, SeqCst);
        assert_eq!(howdah_spin(), done);
    }
}

#[test]
fn a_claimed_request_is_read_and_no_other() {
    let world = world();
    let ticket = world.claimed();
    assert_eq!(RequestReader::new(request()).uri(), b"/here");
    world.segment.stamp(SLOT, true, ticket + 1);
    assert!(request().is_empty(), "somebody has written over it");
    assert_eq!([0, 2, 4].map(|slot| howdah_front(slot)), [0, 1, 2], "each front thread has two slots");
}

#[test]
fn a_body_is_read_from_the_extent_that_bears_the_request_s_ticket() {
    let world = world();
    let ticket = world.claimed();
    let extent = world.segment.extents_of(2).start;
    assert!(howdah_extent(SLOT, extent).is_null(), "no request's");
    world.segment.extent_ticket(extent).unwrap().store(ticket, SeqCst);
    assert!(core::ptr::eq(howdah_extent(SLOT, extent), world.segment.extent_address(extent)));
    world.segment.extent_ticket(extent).unwrap().store(ticket + 1, SeqCst);
    assert!(howdah_extent(SLOT, extent).is_null(), "another request's");
    assert!(howdah_extent(SLOT, u32::MAX).is_null(), "there is no such extent");
}

#[test]
fn a_request_is_served_step_by_step() {
    let world = world();
    world.cell().quota.store(2, SeqCst);
    let (ticket, control) = (world.claimed(), world.control());
    assert!(core::ptr::eq(howdah_enter(ME, SLOT, 20), control));
    assert!(world.cell().is_at(SLOT) && !control.is_begun());
    howdah_begin(SLOT);
    assert!(control.is_begun());
    room()[..9].copy_from_slice(b"A: 1\r\nhel");
    howdah_produce(SLOT, 9);
    assert_eq!(control.answer(ticket), None, "before the head is ready the front hears of nothing");
    howdah_set_head(SLOT, 201, RESPONSE_HEAD_READY, 6, 5);
    let head = Answer {
        produced: 9,
        content_length: 5,
        flags: RESPONSE_HEAD_READY,
        status: 201,
        head_length: 6,
        ..Answer::default()
    };
    assert_eq!(control.answer(ticket), Some(head));
    assert_eq!((howdah_tell(SLOT), world.news()), (0, vec![SLOT]), "the front is awake");
    assert!(world.front().try_sleep());
    assert_eq!((howdah_tell(SLOT), howdah_tell(SLOT)), (1, 0), "it slept, and is woken once");
    room()[..2].copy_from_slice(b"lo");
    howdah_produce(SLOT, 2);
    howdah_add_flags(SLOT, RESPONSE_CLOSE);
    let all = Answer { produced: 11, flags: RESPONSE_HEAD_READY | RESPONSE_CLOSE, ..head };
    assert_eq!(control.answer(ticket), Some(all));
    howdah_sent(SLOT, 3);
    howdah_sent(SLOT, 4);
    assert_eq!((control.answer(ticket), howdah_ticket(SLOT)), (Some(Answer { direct: 7, ..all }), ticket));
    assert_eq!(world.segment.response(SLOT, 0, 11).0, b"A: 1\r\nhello");
    assert_eq!(world.news(), [SLOT]);
    assert!(world.front().try_sleep());
    assert_eq!((howdah_finish(SLOT, ME, 30), world.news()), (1, vec![SLOT]));
    assert_eq!(
        (world.segment.queue().state(SLOT).phase, control.finished_at.load(SeqCst)),
        (Phase::Done, 30)
    );
    assert!(!world.cell().is_at(SLOT));
    assert_eq!([howdah_count(ME), howdah_count(ME)], [0, 1], "the quota is two");
}

#[test]
fn a_response_without_a_length_says_so() {
    let world = world();
    let ticket = world.claimed();
    howdah_set_head(SLOT, 200, RESPONSE_HEAD_READY, 0, -1);
    assert_eq!(world.control().answer(ticket).unwrap().content_length, LENGTH_UNKNOWN);
}

#[test]
fn who_makes_a_body_that_nobody_gets_hears_after_half_a_minute_that_nobody_is_there() {
    const SECOND: u64 = 1_000_000_000;
    let world = world();
    world.claimed();
    howdah_enter(ME, SLOT, SECOND);
    let gone = || world.control().abandoned.load(SeqCst) != 0;
    // It counts from the first piece, however long the code was about something else before.
    for (second, is_gone) in [(100, false), (101, false), (129, false), (130, true), (131, true)] {
        howdah_drop_piece(SLOT, second * SECOND);
        assert_eq!(gone(), is_gone, "{second}");
    }
}

#[test]
fn a_slot_that_was_taken_away_is_no_news() {
    let world = world();
    world.claimed();
    howdah_enter(ME, SLOT, 20);
    world.segment.queue().release(SLOT);
    assert!(world.front().try_sleep());
    assert_eq!((howdah_finish(SLOT, ME, 30), world.news()), (0, vec![]));
    assert!(!world.cell().is_at(SLOT), "the worker goes on all the same");
}

#[test]
fn a_ring_that_is_full_is_waited_for_and_its_end_leads_to_its_start() {
    let world = world();
    world.claimed();
    howdah_set_head(SLOT, 200, RESPONSE_HEAD_READY, 0, -1);
    assert_eq!((room().len(), wait_for_room()), (RESPONSE_RING, None));
    let start = room().as_ptr();
    howdah_produce(SLOT, RESPONSE_RING - 10);
    assert_eq!(room().len(), 10);
    assert!(core::ptr::eq(room().as_ptr(), start.wrapping_add(RESPONSE_RING - 10)));
    howdah_produce(SLOT, 10);
    assert_eq!((room().len(), wait_for_room()), (0, Some(0)));
    assert!(world.control().consume(100), "a worker waits");
    assert!(!world.control().consume(100), "it is woken once");
    assert_eq!((room().len(), wait_for_room()), (100, None));
    assert!(core::ptr::eq(room().as_ptr(), start));
    howdah_produce(SLOT, 100);
    assert_eq!(wait_for_room(), Some(1), "the value has changed with the room");
    assert!(world.control().abandon());
    assert_eq!(wait_for_room(), None, "nobody wants the rest");
}

#[test]
fn what_the_log_wants_is_reported_beside_the_request() {
    let world = world();
    world.segment.ask_for([&b"REMOTE_USER"[..]].into_iter()).unwrap();
    // SAFETY: a byte of length and so many bytes.
    let names = unsafe { core::slice::from_raw_parts(howdah_report_names(), 13) };
    assert_eq!(names, b"\x0bREMOTE_USER\0");
    world.claimed();
    // SAFETY: `REPORT_AREA` bytes are there.
    let area = unsafe { core::slice::from_raw_parts_mut(howdah_report(SLOT), REPORT_AREA) };
    area[..5].copy_from_slice(&[&3u16.to_ne_bytes()[..], b"ann"].concat());
    howdah_reported(SLOT, 5);
    assert_eq!(reported(&world.segment.report(SLOT), 0), Some(&b"ann"[..]));
}

#[test]
fn a_worker_that_leaves_sends_another_for_what_waits() {
    let world = world();
    let (cells, workers) = (world.segment.queue().cells, world.segment.workers());
    cells.enter_idle(2, &workers[2], 1);
    howdah_give_reason(ME, Leave::Harakiri as u32);
    assert_eq!(world.cell().leave.load(SeqCst), Leave::Harakiri as u32);
    assert!(howdah_retire(ME, Leave::Quota as u32).is_null(), "nothing waits");
    assert_eq!(world.cell().leave.load(SeqCst), Leave::Quota as u32);
    world.queue();
    assert!(core::ptr::eq(howdah_retire(ME, Leave::Signal as u32), &raw const workers[2]));
    assert_eq!((workers[2].wake.load(SeqCst), cells.sleepers()), (1, 0));
    assert!(howdah_retire(ME, Leave::Signal as u32).is_null(), "nobody sleeps");
}

#[test]
fn what_is_wanted_of_a_worker_is_told_by_one_word_and_forgotten_with_it() {
    let world = world();
    let cell = world.cell();
    cell.ask(Inquiry::Heap, inquiry_word(7, 3));
    cell.ask(Inquiry::Heap, inquiry_word(8, 0));
    assert_eq!((cell.asks.load(SeqCst), cell.asked(Inquiry::Leaks)), (2, 0));
    assert_eq!((cell.asked(Inquiry::Heap), inquiry_serial(cell.asked(Inquiry::Heap))), (8 << 32, 8));
    cell.ask_nothing();
    assert_eq!((cell.asks.load(SeqCst), cell.asked(Inquiry::Heap)), (0, 0));
}

/// A worker that is a thread does the same by other doors.
#[test]
fn a_thread_serves_a_request_as_a_process_does() {
    let world = world();
    let post = Post::start(world.segment, ME, 77, 10).unwrap();
    assert!(Post::start(world.segment, 3, 77, 10).is_none(), "there is no such cell");
    assert!(post.claim().is_none(), "nothing waits");
    assert!(post.enter_idle(11) && post.wake().load(SeqCst) == 0);
    post.leave_idle();
    let ticket = world.queue();
    let mut work = post.claim().unwrap();
    assert_eq!((work.slot(), work.front()), (SLOT, 2));
    work.enter(&post, 20);
    post.show_process(78);
    assert_eq!((world.cell().is_at(SLOT), world.cell().pid.load(SeqCst)), (true, 78));
    let request = work.request().unwrap();
    assert_eq!(RequestReader::new(&request).uri(), b"/here");
    assert!(work.extent(0, 1).is_none(), "it has none");
    work.begin();
    work.room()[..11].copy_from_slice(b"A: 1\r\nhello");
    work.produce(11);
    let head = Answer { status: 200, flags: RESPONSE_HEAD_READY, head_length: 6, ..Answer::default() };
    work.set_head(head);
    assert_eq!(world.control().answer(ticket), Some(Answer { produced: 11, ..head }));
    assert!(!work.is_abandoned() && work.wait_for_room().is_none());
    assert!(world.front().try_sleep());
    assert!(work.finish(&post, 30));
    assert_eq!((world.segment.queue().state(SLOT).phase, world.news()), (Phase::Done, vec![SLOT]));
    assert!(post.retire(Leave::Drained as u32).is_none());
}

#[test]
fn a_thread_reads_a_body_in_an_extent_and_no_other_requests() {
    let world = world();
    let extent = world.segment.extents_of(2).start;
    world.segment.extent(extent)[..4].copy_from_slice(b"body");
    let post = Post::start(world.segment, ME, 77, 10).unwrap();
    let ticket = world.queue();
    let work = post.claim().unwrap();
    assert!(work.extent(extent, 4).is_none(), "another request's");
    world.segment.extent_ticket(extent).unwrap().store(ticket, SeqCst);
    assert_eq!(work.extent(extent, 4), Some(&b"body"[..]));
    assert!(work.extent(extent, EXTENT + 1).is_none() && work.extent(u32::MAX, 1).is_none());
    world.segment.request_area(SLOT, true)[..4].copy_from_slice(&u32::MAX.to_ne_bytes());
    assert!(work.request().is_none(), "a string that lies nowhere");
}

#[test]
fn a_thread_reports_what_the_log_wants() {
    let world = world();
    let names = [&b"SCRIPT_FILENAME"[..], b"NONE", b"LONG"];
    world.segment.ask_for(names.into_iter()).unwrap();
    let post = Post::start(world.segment, ME, 77, 10).unwrap();
    world.queue();
    let long = [b'x'; REPORT_AREA];
    post.claim().unwrap().report(|name| match name {
        b"SCRIPT_FILENAME" => Some(b"/x.cgi"),
        b"LONG" => Some(&long),
        _ => None,
    });
    let report = world.segment.report(SLOT);
    let found = [0, 1, 2].map(|index| reported(&report, index));
    assert_eq!(found, [Some(&b"/x.cgi"[..]), None, Some(&long[..REPORT_AREA / 3 - 2])]);
}

#[test]
fn a_report_ends_with_the_last_variable_that_there_is() {
    for (known, expected) in
        [("", &b""[..]), ("A", b"\x01\0A"), ("B", b"\xff\xff\x01\0B"), ("AB", b"\x01\0A\x01\0B")]
    {
        let world = world();
        world.segment.ask_for([&b"A"[..], b"B", b"C"].into_iter()).unwrap();
        let post = Post::start(world.segment, ME, 77, 10).unwrap();
        world.queue();
        post.claim()
            .unwrap()
            .report(|name| known.as_bytes().split_inclusive(|_| true).find(|found| *found == name));
        assert_eq!(world.segment.report(SLOT), expected, "{known}");
    }
}

#[test]
fn what_a_route_leaves_behind_is_told_of_all_its_requests_and_of_the_newer_half() {
    let world = world();
    howdah_forget_routes(ME);
    let name = b"/cart/*";
    // SAFETY: so many bytes are there.
    unsafe { howdah_name_route(ME, 3, name.as_ptr(), name.len()) };
    // The first request fills a cache; then each leaves two values, and every other one is measured.
    howdah_grow(ME, 3, 1000, true, 1 << 20);
    for request in 0..99 {
        howdah_grow(ME, 3, 2, request % 2 == 0, 100);
    }
    howdah_grow(ME, u32::MAX, 1, true, 1);
    let cells = world.segment.routes(ME);
    let (found, all, newer) = cells[3].read();
    assert_eq!((&found[..], all.requests, all.values), (&name[..], 100, 1198));
    assert!((34..=67).contains(&newer.requests), "{newer:?}");
    assert_eq!(newer.values, 2 * newer.requests.cast_signed());
    assert!((newer.bytes - 100 * newer.measured.cast_signed()) <= 5000, "{newer:?}");
    assert!(cells[0].read().0.is_empty() && world.segment.routes(u16::MAX).is_empty());
    howdah_forget_routes(ME);
    assert_eq!(cells[3].read(), (vec![], Growth::default(), Growth::default()));
}
