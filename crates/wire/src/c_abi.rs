//! What a worker's C side calls. Each function is a thin door to the protocol above; none of them blocks, allocates,
//! makes a system call or calls Perl. `xs/wire.h` declares them.

use std::sync::OnceLock;

use crate::layout::{LENGTH_UNKNOWN, RESPONSE_RING, SlotControl, WorkerCell};
use crate::segment::{RING_AT, Segment, ShapeError};
use crate::sync::Ordering::{Relaxed, SeqCst};

static SEGMENT: OnceLock<Segment> = OnceLock::new();

fn segment() -> Segment {
    *SEGMENT.get().expect("howdah_attach comes first")
}

/// Uses the segment mapped at `base`. 0 when it fits, 1 when it is of another version, 2 when it is cut short.
///
/// # Safety
/// `base` must point to `length` readable and writable bytes that stay mapped until the process ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn howdah_attach(base: *mut u8, length: usize) -> i32 {
    // SAFETY: the caller keeps the promise above.
    match unsafe { Segment::attach(base, length) } {
        Ok(found) => {
            i32::from(SEGMENT.set(found).is_err() && segment().slot_address(0) != found.slot_address(0)) * 2
        }
        Err(ShapeError::WrongMagic) => 1,
        Err(_) => 2,
    }
}

/// The cell of `worker`, or null when there is none.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_worker(worker: u16) -> *const WorkerCell {
    segment().workers().get(worker as usize).map_or(core::ptr::null(), core::ptr::from_ref)
}

/// The control words of `slot`.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_control(slot: u32) -> *const SlotControl {
    &raw const segment().controls()[slot as usize]
}

/// The request in `slot`; a `Request` record stands at its start.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_request(slot: u32) -> *const u8 {
    segment().request_address(slot)
}

/// The extent that a request with `REQUEST_EXTENT` names; its body stands at its start.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_extent(extent: u32) -> *const u8 {
    segment().extent_address(extent)
}

/// Claims the oldest waiting request: its slot, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_claim(worker: u16) -> i64 {
    segment().queue().claim(worker).map_or(-1, i64::from)
}

/// Says that the worker is about to sleep. 1 when it may, on the futex `WorkerCell::wake` while that reads 0.
/// Call `howdah_leave_idle` afterwards in either case.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_enter_idle(worker: u16, order: u64) -> i32 {
    let segment = segment();
    let cell = &segment.workers()[worker as usize];
    let queue = segment.queue();
    queue.cells.enter_idle(worker, cell, order);
    i32::from(queue.may_sleep(cell))
}

/// Says that the worker is awake.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_leave_idle(worker: u16) {
    segment().queue().cells.leave_idle(worker);
}

/// Picks a sleeper that is to come in the caller's stead, and marks it woken: the caller wakes the futex
/// `WorkerCell::wake` of the returned cell. Null when none sleeps.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_pick_sleeper() -> *const WorkerCell {
    let workers = segment().workers();
    let picked = segment().queue().cells.pick_sleeper(workers);
    picked.map_or(core::ptr::null(), |worker| core::ptr::from_ref(&workers[worker as usize]))
}

/// Nanoseconds for which an idle worker may look for work before it sleeps.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_spin() -> u32 {
    segment().queue().cells.spin.load(Relaxed)
}

/// Number of requests that wait, at most.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_queue_length() -> u64 {
    segment().queue().length()
}

/// Room in the response ring of `slot`: `length` is set to the free bytes that lie in one run at the returned address.
///
/// # Safety
/// `length` must point to a `size_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn howdah_room(slot: u32, length: *mut usize) -> *mut u8 {
    let segment = segment();
    let control = &segment.controls()[slot as usize];
    let start = control.produced.load(Relaxed) as usize & (RESPONSE_RING - 1);
    // SAFETY: the caller keeps the promise above.
    unsafe { *length = control.room_left().min(RESPONSE_RING - start) };
    // SAFETY: start lies in the ring, which stands behind the other areas.
    unsafe { segment.slot_address(slot).add(RING_AT + start) }
}

/// The names of the variables that are to be reported: each a byte of its length and so many bytes, a length of 0 behind
/// the last. Null before `howdah_attach`.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_report_names() -> *const u8 {
    SEGMENT.get().map_or(core::ptr::null(), |segment| (&raw const segment.header().report_names).cast())
}

/// Where the values of those variables go: `REPORT_AREA` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_report(slot: u32) -> *mut u8 {
    segment().report_address(slot)
}

/// Adds the `length` bytes written at `howdah_room`'s address to the response.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_produce(slot: u32, length: usize) {
    segment().controls()[slot as usize].produce(length);
}

/// Before sleeping for room: sets `seen` and returns 1 when the worker must sleep on `SlotControl::room` while that
/// reads `seen`; 0 when there is room, or nobody wants the response.
///
/// # Safety
/// `seen` must point to a `uint32_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn howdah_wait_for_room(slot: u32, seen: *mut u32) -> i32 {
    let Some(value) = segment().controls()[slot as usize].wait_for_room() else { return 0 };
    // SAFETY: the caller keeps the promise above.
    unsafe { *seen = value };
    1
}

/// Sets the status and flags of the response; `content_length` -1 for none. The head may be sent once told.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_set_head(slot: u32, status: u32, flags: u32, head_length: u32, content_length: i64) {
    let control = &segment().controls()[slot as usize];
    control.status.store(status, Relaxed);
    control.head_length.store(head_length, Relaxed);
    let length = u64::try_from(content_length).unwrap_or(LENGTH_UNKNOWN);
    control.content_length.store(length, Relaxed);
    control.flags.store(flags, SeqCst);
}

/// Adds flags to the response.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_add_flags(slot: u32, flags: u32) {
    segment().controls()[slot as usize].flags.fetch_or(flags, SeqCst);
}

/// Tells the front that `slot` has news. 1 when the caller must write to the eventfd of the slot's front thread.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_tell(slot: u32) -> i32 {
    i32::from(segment().front_of(slot).tell(slot))
}

/// Ends the worker's part in `slot` and tells the front. 1 as with `howdah_tell`.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_finish(slot: u32, worker: u16) -> i32 {
    i32::from(segment().queue().finish(slot, worker) && segment().front_of(slot).tell(slot))
}
