//! What a worker's C side calls. Each function is a thin door to the protocol above; none of them blocks, allocates,
//! makes a system call or calls Perl. `xs/wire.h` declares them.

use core::cell::UnsafeCell;
use core::sync::atomic::AtomicPtr;

use crate::growth::Growth;
use crate::layout::{LENGTH_UNKNOWN, RouteCell, SlotControl, WorkerCell};
use crate::response::Answer;
use crate::segment::Segment;
use crate::shape::ShapeError;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::work::{Post, Work};

/// The segment that this process uses. A zygote is given another one when the first is damaged.
static SEGMENT: AtomicPtr<Segment> = AtomicPtr::new(core::ptr::null_mut());

/// What this worker has claimed.
static PRESENT: Present = Present(UnsafeCell::new(None));

struct Present(UnsafeCell<Option<Work>>);

// SAFETY: a worker is one thread: the interpreter's, which makes every call of this file.
unsafe impl Sync for Present {}

fn attached() -> Option<&'static Segment> {
    // SAFETY: null, or a segment that was leaked for this purpose.
    unsafe { SEGMENT.load(Acquire).as_ref() }
}

fn segment() -> &'static Segment {
    attached().expect("howdah_attach comes first")
}

fn post(worker: u16) -> Post {
    Post::of(*segment(), worker).expect("howdah_start comes first")
}

/// The request in `slot` and the response to it.
fn present(slot: u32) -> &'static mut Work {
    // SAFETY: one thread, and no function of this file keeps the reference or calls another one that takes it.
    let present = unsafe { &mut *PRESENT.0.get() };
    let present = present.get_or_insert_with(|| Work::new(*segment(), slot, 0));
    if !present.is_at(segment(), slot) {
        *present = Work::new(*segment(), slot, 0);
    }
    present
}

/// Uses the segment mapped at `base`, from now on instead of one attached before. 0 when it fits, 1 when it is of another
/// version, 2 when it is cut short, 3 when it is damaged.
///
/// # Safety
/// `base` must point to `length` readable and writable bytes that stay mapped until another segment takes their place.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn howdah_attach(base: *mut u8, length: usize) -> i32 {
    // SAFETY: the caller keeps the promise above.
    match unsafe { Segment::attach(base, length) } {
        Ok(found) => {
            SEGMENT.store(Box::leak(Box::new(found)), Release);
            0
        }
        Err(ShapeError::WrongMagic) => 1,
        Err(ShapeError::Damaged) => 3,
        Err(_) => 2,
    }
}

/// This process, `pid`, is `worker` from now on: its cell, for reading. Null when there is no such cell.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_start(worker: u16, pid: u32, now: u64) -> *const WorkerCell {
    Post::start(*segment(), worker, pid, now).map_or(core::ptr::null(), |post| post.cell())
}

/// The number of the front thread that `slot` belongs to.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_front(slot: u32) -> u32 {
    segment().front_number(slot) as u32
}

/// The request in `slot`, which this worker has claimed: a `RequestRecord` stands at its start. `used` is set to the bytes
/// that belong to it, all of them readable; 0 when what stands there is not the request that was claimed.
///
/// # Safety
/// `used` must point to a `size_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn howdah_request(slot: u32, used: *mut usize) -> *const u8 {
    let (start, length) = present(slot).place().unwrap_or((segment().slot_address(slot).cast_const(), 0));
    // SAFETY: the caller keeps the promise above.
    unsafe { *used = length };
    start
}

/// The extent with the body of the request in `slot`, which stands at its start. Null when it is not that request's.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_extent(slot: u32, extent: u32) -> *const u8 {
    present(slot).extent_address(extent).unwrap_or(core::ptr::null())
}

/// Claims the oldest waiting request: its slot, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_claim(worker: u16) -> i64 {
    let Some(work) = post(worker).claim() else { return -1 };
    let slot = work.slot();
    *present(slot) = work;
    i64::from(slot)
}

/// Says that the worker is at `slot`, which it has claimed: the slot's control words, for reading.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_enter(worker: u16, slot: u32, now: u64) -> *const SlotControl {
    present(slot).enter(&post(worker), now)
}

/// Says that the application is about to be called with the request in `slot`, which from then on goes to no other worker.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_begin(slot: u32) {
    present(slot).begin();
}

/// Counts a request that has been served. 1 when the worker has served its quota.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_count(worker: u16) -> i32 {
    i32::from(post(worker).cell().count())
}

/// Says why the worker will leave, a `Leave`.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_give_reason(worker: u16, reason: u32) {
    post(worker).cell().give_reason(reason);
}

/// Says that the worker leaves now, and why. It may have been woken for a request in that instant, or be one that the front
/// counts on: when requests wait, the cell of another is returned, which is to come in its stead. The caller wakes the
/// futex `WorkerCell::wake` of that cell.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_retire(worker: u16, reason: u32) -> *const WorkerCell {
    post(worker).retire(reason).map_or(core::ptr::null(), core::ptr::from_ref)
}

/// Says that the worker is about to sleep. 1 when it may, on the futex `WorkerCell::wake` while that reads 0.
/// Call `howdah_leave_idle` afterwards in either case.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_enter_idle(worker: u16, now: u64) -> i32 {
    i32::from(post(worker).enter_idle(now))
}

/// Says that the worker is awake.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_leave_idle(worker: u16) {
    post(worker).leave_idle();
}

/// Nanoseconds for which an idle worker may look for work before it sleeps: never more than a millisecond.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_spin() -> u32 {
    segment().queue().cells.spin.load(Relaxed).min(1_000_000)
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
    let (start, room) = present(slot).room_address();
    // SAFETY: the caller keeps the promise above.
    unsafe { *length = room };
    start
}

/// The names of the variables that are to be reported: each a byte of its length and so many bytes, a length of 0 behind
/// the last. Null before `howdah_attach`.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_report_names() -> *const u8 {
    attached().map_or(core::ptr::null(), |segment| (&raw const segment.header().report_names).cast())
}

/// Where the values of those variables go: `REPORT_AREA` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_report(slot: u32) -> *mut u8 {
    segment().report_address(slot)
}

/// Says that `length` bytes stand there.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_reported(slot: u32, length: u32) {
    present(slot).reported(length);
}

/// Adds the `length` bytes written at `howdah_room`'s address to the response.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_produce(slot: u32, length: usize) {
    present(slot).produce(length);
}

/// A piece of a body has been made that nobody gets, since the response has none: look at `SlotControl::abandoned` behind it.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_drop_piece(slot: u32, now: u64) {
    present(slot).drop_piece(now);
}

/// Before sleeping for room: sets `seen` and returns 1 when the worker must sleep on `SlotControl::room` while that
/// reads `seen`; 0 when there is room, or nobody wants the response.
///
/// # Safety
/// `seen` must point to a `uint32_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn howdah_wait_for_room(slot: u32, seen: *mut u32) -> i32 {
    let Some(value) = present(slot).wait_for_room() else { return 0 };
    // SAFETY: the caller keeps the promise above.
    unsafe { *seen = value };
    1
}

/// Sets the status and flags of the response; `content_length` -1 for none. The head may be sent once told.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_set_head(slot: u32, status: u32, flags: u32, head_length: u32, content_length: i64) {
    let content_length = u64::try_from(content_length).unwrap_or(LENGTH_UNKNOWN);
    present(slot).set_head(Answer { content_length, flags, status, head_length, ..Answer::default() });
}

/// Adds flags to the response.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_add_flags(slot: u32, flags: u32) {
    present(slot).add_flags(flags);
}

/// The ticket under which the request in `slot` was claimed.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_ticket(slot: u32) -> u64 {
    present(slot).ticket()
}

/// Says that `length` more bytes of the body are out, by the connection that the front has lent.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_sent(slot: u32, length: u64) {
    present(slot).sent(length);
}

/// Tells the front that `slot` has news. 1 when the caller must write to the eventfd of the slot's front thread.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_tell(slot: u32) -> i32 {
    i32::from(present(slot).tell())
}

/// Ends the worker's part in `slot` and tells the front. 1 as with `howdah_tell`. The worker's cell says so only then: one
/// that has begun a request, and not ended it, must be known by its cell, too, when it dies.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_finish(slot: u32, worker: u16, now: u64) -> i32 {
    i32::from(present(slot).finish(&post(worker), now))
}

/// A new worker has this cell: no route is counted there yet.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_forget_routes(worker: u16) {
    segment().routes(worker).iter().for_each(RouteCell::forget);
}

/// Gives the route `number` its name.
///
/// # Safety
/// `name` must point to `length` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn howdah_name_route(worker: u16, number: u32, name: *const u8, length: usize) {
    // SAFETY: the caller keeps the promise above.
    let name = unsafe { core::slice::from_raw_parts(name, length) };
    if let Some(cell) = segment().routes(worker).get(number as usize) {
        cell.name(name);
    }
}

/// Counts a request of the route `number`, which has left so many Perl values and, when it was measured, so many bytes of
/// private memory behind.
#[unsafe(no_mangle)]
pub extern "C" fn howdah_grow(worker: u16, number: u32, values: i64, measured: bool, bytes: i64) {
    if let Some(cell) = segment().routes(worker).get(number as usize) {
        cell.grow(Growth { requests: 1, values, measured: u64::from(measured), bytes });
    }
}
