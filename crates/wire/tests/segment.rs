//! A segment is laid out once, and recognised or refused by those who attach to it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's panic is its report")]

use std::sync::atomic::Ordering::SeqCst;

use howdah_wire::*;

const SHAPE: Shape = Shape { fronts: 2, workers: 3, slots: 4 };

/// Zeroed memory as a mapping gives it: aligned to a page, there until the end.
fn memory(length: usize) -> *mut u8 {
    let layout = std::alloc::Layout::from_size_align(length, 4096).unwrap();
    // SAFETY: the length is not zero.
    unsafe { std::alloc::alloc_zeroed(layout) }
}

fn create(shape: Shape, length: usize) -> Result<Segment, ShapeError> {
    // SAFETY: zeroed, page-aligned, never freed.
    unsafe { Segment::create(memory(length), length, shape) }
}

fn segment() -> Segment {
    create(SHAPE, SHAPE.total()).unwrap()
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
    segment().header().slots_at as usize
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
    let owners = segment().controls().iter().map(|c| c.front.load(std::sync::atomic::Ordering::Relaxed));
    assert_eq!(owners.collect::<Vec<_>>(), [0, 0, 1, 1]);
}

#[test]
fn parts_do_not_overlap() {
    let segment = segment();
    let header = segment.header();
    let ends = [
        (header.fronts_at, size_of::<FrontCell>() * SHAPE.fronts),
        (header.workers_at, size_of::<WorkerCell>() * SHAPE.workers),
        (header.ring_at, 8 * header.ring as usize),
        (header.controls_at, size_of::<SlotControl>() * SHAPE.slots),
        (header.slots_at, SLOT_STRIDE * SHAPE.slots),
        (header.extents_at, EXTENT * EXTENTS_PER_FRONT * SHAPE.fronts),
    ];
    let mut end = size_of::<Header>() as u64;
    for (at, length) in ends {
        assert!(at >= end && at % 4096 == 0, "{at} lies in what ends at {end}");
        end = at + length as u64;
    }
    assert_eq!(end, header.total);
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
    let control = &segment.controls()[1];
    control.reset(1);
    control.produce(RESPONSE_RING - 2);
    let _ = control.consume(RESPONSE_RING - 2);
    let ring = segment.slot_address(1).wrapping_add(REQUEST_AREA + REPORT_AREA);
    for (place, byte) in [RESPONSE_RING - 2, RESPONSE_RING - 1, 0, 1, 2].into_iter().zip(*b"camel") {
        // SAFETY: within the slot's ring.
        unsafe { ring.wrapping_add(place).write(byte) };
    }
    control.produce(5);
    assert_eq!(segment.response(1, 0), (&b"ca"[..], &b"mel"[..]));
    assert_eq!(segment.response(1, 1), (&b"a"[..], &b"mel"[..]));
    assert_eq!(segment.response(1, 3), (&b"el"[..], &b""[..]));
    assert_eq!(segment.response(1, 9), (&b""[..], &b""[..]));
}

#[test]
fn a_request_stands_near_the_ring_or_where_there_is_more_room() {
    let segment = segment();
    for (near, at) in [(true, REQUEST_AREA - NEAR_REQUEST), (false, 0)] {
        segment.place_request(3, near);
        assert_eq!(segment.request_address(3), segment.slot_address(3).wrapping_add(at));
        assert_eq!(segment.request_area(3).len(), REQUEST_AREA - at);
    }
    segment.controls()[3].request_at.store(5, SeqCst);
    assert_eq!(segment.request_address(3), segment.slot_address(3), "a word that is wrong does no harm");
}

#[test]
fn variables_are_asked_for_by_name_and_reported_beside_the_request() {
    let segment = segment();
    let names = [&b"REMOTE_USER"[..], b"psgix.session"];
    segment.ask_for(names.into_iter()).unwrap();
    let stored: Vec<u8> =
        segment.header().report_names.iter().flat_map(|word| word.load(SeqCst).to_ne_bytes()).collect();
    assert!(stored.starts_with(b"\x0bREMOTE_USER\x0dpsgix.session\0"));
    let long = vec![b'x'; 256];
    let many = vec![&b"X"[..]; 65];
    assert!(segment.ask_for([&long[..]].into_iter()).is_err() && segment.ask_for(many.into_iter()).is_err());
    assert!(segment.report(1).is_empty(), "nothing is reported yet");
    segment.controls()[1].report.store(u32::MAX, SeqCst);
    assert_eq!(segment.report(1).len(), REPORT_AREA, "a worker gone mad");
    segment.controls()[1].reset(1);
    assert!(segment.report(1).is_empty(), "the next request");
}

#[test]
fn a_running_request_can_be_looked_at_by_others_and_no_other_can() {
    let segment = segment();
    segment.place_request(2, false);
    let mut writer = RequestWriter::new(segment.request_area(2));
    let uri = "/".repeat(9000);
    writer.record.uri = writer.put(uri.as_bytes()).unwrap();
    writer.field(b"Host", b"example.org").unwrap();
    writer.finish();
    assert!(segment.peek_request(2, 0).is_none(), "not queued");
    assert!(segment.queue().push(2));
    assert!(segment.peek_request(2, 0).is_none(), "queued");
    assert_eq!(segment.queue().claim(1), Some(2));
    assert!(segment.peek_request(2, 0).is_none(), "another worker's");
    let copy = segment.peek_request(2, 1).unwrap();
    let reader = RequestReader::new(&copy);
    assert_eq!((reader.uri(), reader.field(b"HTTP_HOST")), (uri.as_bytes(), Some(b"example.org".as_slice())));
    assert!(segment.queue().finish(2, 1));
    assert!(segment.peek_request(2, 1).is_none() && segment.peek_request(99, 1).is_none(), "done");
}
