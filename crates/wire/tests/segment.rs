//! A segment is laid out once, and recognised or refused by those who attach to it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's panic is its report")]

use std::sync::atomic::Ordering::SeqCst;

use core::mem::offset_of;

mod common;
use common::memory;
use howdah_wire::*;

const SHAPE: Shape = Shape { fronts: 2, workers: 3, slots: 4 };

fn create(shape: Shape, length: usize) -> Result<Segment, ShapeError> {
    // SAFETY: zeroed, page-aligned, never freed.
    unsafe { Segment::create(memory(length), length, shape) }
}

fn segment() -> Segment {
    common::segment(SHAPE)
}

#[test]
fn a_shape_out_of_range_is_refused() {
    for shape in [
        Shape { fronts: 0, ..SHAPE },
        Shape { fronts: MAX_FRONTS + 1, ..SHAPE },
        Shape { workers: 0, ..SHAPE },
        Shape { workers: MAX_WORKERS + 1, ..SHAPE },
        Shape { slots: 0, ..SHAPE },
        Shape { slots: MAX_SLOTS + 1, ..SHAPE },
    ] {
        assert_eq!(create(shape, 4096).err(), Some(ShapeError::OutOfRange), "{shape:?}");
    }
}

#[test]
fn memory_too_small_is_refused() {
    assert_eq!(create(SHAPE, SHAPE.total() - 1).err(), Some(ShapeError::TooSmall));
}

#[test]
fn attaching_finds_what_was_created() {
    let segment = segment();
    let base = segment.slot_address(0).wrapping_sub(offset_of_slots());
    // SAFETY: created above.
    let attached = unsafe { Segment::attach(base, SHAPE.total()) }.unwrap();
    assert_eq!(attached.controls().len(), SHAPE.slots);
    assert_eq!(attached.workers().len(), SHAPE.workers);
    assert_eq!(attached.fronts().len(), SHAPE.fronts);
}

fn offset_of_slots() -> usize {
    SHAPE.offsets().slots_at
}

#[test]
fn attaching_refuses_what_is_no_segment() {
    let attach = |base: *mut u8, length| {
        // SAFETY: at least `length` bytes are there.
        unsafe { Segment::attach(base, length) }.err()
    };
    let base = segment().slot_address(0).wrapping_sub(offset_of_slots());
    assert_eq!(attach(base, 100), Some(ShapeError::TooSmall));
    assert_eq!(attach(base, SHAPE.total() - 1), Some(ShapeError::TooSmall));
    assert_eq!(attach(memory(SHAPE.total()), SHAPE.total()), Some(ShapeError::WrongMagic));
    assert!(ShapeError::WrongMagic.to_string().contains("install both anew"));
}

#[test]
fn slots_are_shared_out_evenly_among_front_threads() {
    for (fronts, slots) in [(2, 4), (1, 7), (3, 7), (16, 16), (3, 1100)] {
        let shape = Shape { fronts, slots, ..SHAPE };
        let segment = create(shape, shape.total()).unwrap();
        let mut next = 0;
        for front in 0..fronts {
            let own = segment.slots_of(front as u32);
            assert!(own.clone().all(|slot| segment.front_number(slot) == front), "{shape:?} {own:?}");
            assert!(own.start == next && own.len().abs_diff(slots / fronts) <= 1, "{shape:?} {own:?}");
            next = own.end;
        }
        assert_eq!(next as usize, slots);
    }
}

/// The header's words: magic, total; counts of fronts, workers, slots, ring; offsets. Then the names.
#[test]
fn a_header_that_was_overwritten_is_refused_and_followed_by_nobody() {
    let (attached, base) =
        (segment(), |segment: Segment| segment.slot_address(0).wrapping_sub(offset_of_slots()));
    attached.ask_for([&b"REMOTE_USER"[..]].into_iter()).unwrap();
    let shape = attached.shape();
    for word in 0..11 {
        for wrong in [0, 1, 1 << 40, u64::MAX] {
            #[expect(clippy::cast_ptr_alignment, reason = "the base is page-aligned")]
            let place = base(attached).wrapping_add(word * 8).cast::<u64>();
            // SAFETY: within the header, aligned.
            let right = unsafe { place.read() };
            // SAFETY: as above.
            unsafe { place.write(wrong) };
            assert!(!attached.has_its_header(), "word {word}");
            // SAFETY: created above.
            let other = unsafe { Segment::attach(base(attached), SHAPE.total()) };
            assert!(word == 10 || other.is_err(), "word {word}");
            assert_eq!((attached.shape(), attached.controls().len()), (shape, SHAPE.slots));
            // SAFETY: as above.
            unsafe { place.write(right) };
        }
    }
    assert!(attached.has_its_header());
    let header = attached.slot_address(0).wrapping_sub(offset_of_slots());
    // SAFETY: the header's first page is ours.
    unsafe { header.write_bytes(0xff, 1000) };
    attached.restore_header();
    assert!(attached.has_its_header());
    attached.all_but_header().fill(1);
    assert!(attached.has_its_header());
    assert_eq!(attached.all_but_header().len(), SHAPE.total() - SHAPE.offsets().fronts_at);
    assert_eq!(
        (attached.fronts()[0].sleeping.load(SeqCst), attached.extent(31)[EXTENT - 1]),
        (0x0101_0101, 1)
    );
    let next = segment();
    next.ask_as(&attached);
    assert!(next.has_its_header() && next.is(&next) && !next.is(&attached));
}

#[test]
fn each_part_begins_on_the_first_page_behind_the_one_before() {
    for shape in [SHAPE, Shape { fronts: MAX_FRONTS, workers: MAX_WORKERS, slots: MAX_SLOTS }] {
        let offsets = shape.offsets();
        let parts = [
            (offsets.fronts_at, size_of::<FrontCell>() * shape.fronts),
            (offsets.workers_at, size_of::<WorkerCell>() * shape.workers),
            (offsets.routes_at, size_of::<RouteCell>() * ROUTES * shape.workers),
            (offsets.ring_at, 8 * offsets.ring),
            (offsets.controls_at, size_of::<SlotControl>() * shape.slots),
            (offsets.slots_at, SLOT_STRIDE * shape.slots),
            (offsets.extents_at, EXTENT * EXTENTS_PER_FRONT * shape.fronts),
        ];
        let mut end = size_of::<Header>();
        for (at, length) in parts {
            let (first, aligned) = (end.next_multiple_of(4096), at.is_multiple_of(4096));
            let shift = if at == offsets.slots_at { NEIGHBOURS } else { 4096 };
            assert!(
                aligned && (first..first + shift).contains(&at),
                "{shape:?}: what is before {at} ends at {end}"
            );
            end = at + length;
        }
        assert_eq!(end, shape.total());
    }
}

/// What the kernel maps at one page fault, unless told otherwise.
const FAULT_AROUND: usize = 64 * 1024;

#[test]
fn one_page_fault_maps_a_request_near_the_ring_and_the_beginning_of_that() {
    for slots in [1, 16, 17, 1000, MAX_SLOTS] {
        let shape = Shape { slots, ..SHAPE };
        for slot in 0..slots {
            let near = shape.offsets().slots_at + slot * SLOT_STRIDE + REQUEST_AREA - NEAR_REQUEST;
            let ring = near + NEAR_REQUEST + REPORT_AREA;
            assert_eq!(near / FAULT_AROUND, ring / FAULT_AROUND, "slot {slot} of {slots}: {near} and {ring}");
        }
    }
}

#[test]
fn the_queue_s_ring_is_a_power_of_two_with_four_places_for_each_slot_and_some_to_spare() {
    for slots in [1, 16, 17, 1000, MAX_SLOTS] {
        let (ring, least) = (Shape { slots, ..SHAPE }.offsets().ring, 4 * slots + 4 * MAX_FRONTS);
        assert!(
            ring.is_power_of_two() && (least..2 * least).contains(&ring),
            "{ring} places for {slots} slots"
        );
    }
}

#[test]
fn the_worker_s_and_the_front_s_words_lie_on_lines_of_their_own() {
    assert_eq!(core::mem::offset_of!(SlotControl, consumed), 64);
    assert_eq!(size_of::<SlotControl>(), 128);
}

#[test]
#[should_panic(expected = "slot 4 is out of range")]
fn a_slot_out_of_range_is_refused() {
    let _ = segment().slot_address(4);
}

#[test]
fn each_slot_has_memory_of_its_own() {
    let segment = segment();
    for slot in 0..4 {
        segment.slot_area(slot).fill(slot as u8 + 1);
    }
    for slot in 0..4 {
        let area = segment.slot_area(slot);
        assert_eq!(
            (area.len(), area[0], area[SLOT_STRIDE - 1]),
            (SLOT_STRIDE, slot as u8 + 1, slot as u8 + 1)
        );
    }
    assert_eq!(segment.extent(0)[0], 0, "nor do they reach into the extents");
}

#[test]
fn each_front_thread_has_extents_of_its_own() {
    let segment = segment();
    assert_eq!([0, 1].map(|front| segment.extents_of(front)), [0..16, 16..32]);
    segment.extent(15).fill(1);
    segment.extent(16).fill(2);
    assert_eq!((segment.extent(15)[EXTENT - 1], segment.extent(16)[0]), (1, 2));
}

#[test]
#[should_panic(expected = "extent 32 is out of range")]
fn an_extent_out_of_range_is_refused() {
    let _ = segment().extent_address(32);
}

#[test]
fn a_response_is_read_in_two_runs_around_the_ring_s_end() {
    let segment = segment();
    let ring = segment.slot_address(1).wrapping_add(REQUEST_AREA + REPORT_AREA);
    for (place, byte) in [RESPONSE_RING - 2, RESPONSE_RING - 1, 0, 1, 2].into_iter().zip(*b"camel") {
        // SAFETY: within the slot's ring.
        unsafe { ring.wrapping_add(place).write(byte) };
    }
    let at = 3 * RESPONSE_RING as u64 - 2;
    assert_eq!(segment.response(1, at, 5), (&b"ca"[..], &b"mel"[..]));
    assert_eq!(segment.response(1, at + 1, 2), (&b"a"[..], &b"m"[..]));
    assert_eq!(segment.response(1, at + 3, 2), (&b"el"[..], &b""[..]));
    assert_eq!(segment.response(1, at, 0), (&b""[..], &b""[..]));
    let (first, second) = segment.response(1, u64::MAX, usize::MAX);
    assert_eq!(first.len() + second.len(), RESPONSE_RING, "never more than a ring");
}

#[test]
fn a_response_that_is_longer_than_the_ring_is_produced_run_by_run() {
    let segment = segment();
    let control = &segment.controls()[1];
    let mut response = Outgoing::new(7);
    response.set_head(control, Answer { flags: RESPONSE_HEAD_READY, ..Answer::default() });
    let bytes: Vec<u8> = (0..RESPONSE_RING + 1000).map(|at| (at / 1000) as u8).collect();
    let mut produced = 0;
    for (length, what) in [
        (RESPONSE_RING - 10, "all of it"),
        (10, "up to the ring's end"),
        (600, "what the front has taken"),
        (0, "the ring is full"),
    ] {
        let rest = &bytes[produced..bytes.len().min(produced + RESPONSE_RING - 10)];
        assert_eq!(segment.produce(1, &mut response, rest), length, "{what}");
        produced += length;
        assert!(!control.consume(600), "nobody waits for it");
    }
    assert_eq!((response.produced(), response.ticket()), (RESPONSE_RING as u64 + 600, 7));
    let (first, second) = segment.response(1, 600, RESPONSE_RING);
    assert_eq!([first, second].concat(), bytes[600..RESPONSE_RING + 600]);
}

#[test]
fn a_request_stands_near_the_ring_or_where_there_is_more_room() {
    let segment = segment();
    for (near, at) in [(true, REQUEST_AREA - NEAR_REQUEST), (false, 0)] {
        segment.place_request(3, near);
        RequestWriter::new(segment.request_area(3, near)).finish();
        segment.stamp(3, near, 7);
        let (start, _) = segment.claimed_request(3, 7).unwrap();
        assert_eq!(start, segment.slot_address(3).wrapping_add(at).cast_const());
        assert_eq!(segment.request_area(3, near).len(), REQUEST_AREA - at);
        assert!(segment.claimed_request(3, 6).is_none(), "what an earlier request has left there");
        segment.stamp(3, near, 0);
    }
    segment.stamp(3, true, 7);
    assert!(segment.claimed_request(3, 7).is_none(), "it was said to stand elsewhere");
    segment.controls()[3].request_at.store(5, SeqCst);
    assert!(segment.claimed_request(3, 7).is_none(), "a word that is wrong does no harm");
}

#[test]
fn a_request_is_believed_as_far_as_its_area_goes() {
    let segment = segment();
    let queue = segment.queue();
    for (near, room) in [(true, NEAR_REQUEST), (false, REQUEST_AREA)] {
        segment.place_request(3, near);
        let mut writer = RequestWriter::new(segment.request_area(3, near));
        writer.record.remote_port = Span { offset: 0, length: u32::MAX };
        let least = segment.request_area(3, near).len() - writer.room();
        writer.finish();
        let ticket = queue.draw().unwrap();
        segment.stamp(3, near, ticket);
        for (used, sound) in [(least - 1, false), (least, true), (room, true), (room + 1, false)] {
            let place = &mut segment.request_area(3, near)[offset_of!(RequestRecord, used)..];
            place[..4].copy_from_slice(&(used as u32).to_ne_bytes());
            let claimed = segment.claimed_request(3, ticket).map(|(_, used)| used);
            assert_eq!(claimed, sound.then_some(used), "of {room} bytes");
        }
        queue.push(3, ticket);
        assert_eq!(queue.claim(1).unwrap().ticket, ticket);
        assert_eq!(segment.peek_request(3, 1).unwrap().len(), room, "nor is more than that copied");
    }
}

#[test]
fn a_request_that_waits_is_taken_over_when_it_is_sound() {
    let (old, new) = (segment(), segment());
    let mut writer = RequestWriter::new(old.request_area(1, true));
    writer.record.uri = writer.put(b"/here").unwrap();
    writer.field(b"Host", b"example.org").unwrap();
    writer.finish();
    old.stamp(1, true, 9);
    assert!(new.take_over(&old, 1, true, 9));
    let reader = RequestReader::new(new.request_area(1, true));
    assert_eq!((reader.uri(), reader.field(b"HTTP_HOST")), (&b"/here"[..], Some(&b"example.org"[..])));
    assert!(!new.take_over(&old, 1, true, 8), "another one");
    // Each number of the record and the first field: spans, fields, used.
    for at in (0..80).step_by(4).chain([100, 108, 112, 116, 120, 124]) {
        let place = &mut old.request_area(1, true)[at..at + 4];
        let right = [place[0], place[1], place[2], place[3]];
        place.fill(0xff);
        assert!(!new.take_over(&old, 1, true, 9), "nonsense at {at}");
        old.request_area(1, true)[at..at + 4].copy_from_slice(&right);
    }
    assert!(new.take_over(&old, 1, true, 9));
}

#[test]
fn an_extent_is_for_the_request_that_it_was_given_to() {
    let segment = segment();
    assert!(segment.extent_ticket(31).is_some() && segment.extent_ticket(32).is_none());
    segment.extent_ticket(18).unwrap().store(5, SeqCst);
    assert_eq!(segment.fronts()[1].extents[2].load(SeqCst), 5);
}

#[test]
fn variables_are_asked_for_by_name_and_reported_beside_the_request() {
    let segment = segment();
    let long = [b'x'; 200];
    let names = [&b"REMOTE_USER"[..], b"psgix.session", &long];
    segment.ask_for(names.into_iter()).unwrap();
    let names = segment
        .slot_address(0)
        .wrapping_sub(offset_of_slots())
        .wrapping_add(offset_of!(Header, report_names));
    // SAFETY: so many bytes of the header.
    let stored = unsafe { core::slice::from_raw_parts(names, REPORT_WORDS * 8) };
    assert!(stored.starts_with(&[b"\x0bREMOTE_USER\x0dpsgix.session\xc8", &long[..], b"\0"].concat()));
    assert!(segment.report(1).is_empty(), "nothing is reported yet");
    segment.controls()[1].report.store(u32::MAX, SeqCst);
    assert_eq!(segment.report(1).len(), REPORT_AREA, "a worker gone mad");
    segment.controls()[1].reset(1);
    assert!(segment.report(1).is_empty(), "the next request");
}

#[test]
fn so_many_variables_may_be_asked_for_as_the_header_has_room_for() {
    let (x, longest, too_long) = (&b"X"[..], &[b'x'; 255][..], &[b'x'; 256][..]);
    // 1024 bytes: a byte of length before each name, and one behind the last.
    for (names, fit) in [
        (vec![], true),
        (vec![x, b""], false),
        (vec![x; 64], true),
        (vec![x; 65], false),
        (vec![longest], true),
        (vec![too_long], false),
        (vec![longest, longest, longest, &longest[..254]], true),
        (vec![longest; 4], false),
    ] {
        let what = format!("{} of {:?} bytes", names.len(), names.last().map(|name| name.len()));
        assert_eq!(segment().ask_for(names.into_iter()).is_ok(), fit, "{what}");
    }
}

#[test]
fn a_running_request_can_be_looked_at_by_others_and_no_other_can() {
    let segment = segment();
    segment.place_request(2, false);
    let mut writer = RequestWriter::new(segment.request_area(2, false));
    let uri = "/".repeat(9000);
    writer.record.uri = writer.put(uri.as_bytes()).unwrap();
    writer.field(b"Host", b"example.org").unwrap();
    writer.finish();
    assert!(segment.peek_request(2, 0).is_none(), "not queued");
    let queue = segment.queue();
    queue.push(2, queue.draw().unwrap());
    assert!(segment.peek_request(2, 0).is_none(), "queued");
    let claim = queue.claim(1).unwrap();
    assert_eq!(claim.slot, 2);
    assert!(segment.peek_request(2, 0).is_none(), "another worker's");
    let copy = segment.peek_request(2, 1).unwrap();
    let reader = RequestReader::new(&copy);
    assert_eq!((reader.uri(), reader.field(b"HTTP_HOST")), (uri.as_bytes(), Some(b"example.org".as_slice())));
    assert!(queue.finish(claim, 1));
    assert!(segment.peek_request(2, 1).is_none() && segment.peek_request(99, 1).is_none(), "done");
}
