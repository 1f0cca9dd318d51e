//! Every structure in the segment, declared once; `xs/wire.h` is generated from this file.
//!
//! Order in memory: [`Header`], front cells, worker cells, route cells, queue ring, slot controls, slots, extents. A slot is a request
//! area, written by the front before the request is queued, a report area and a response ring, written by the worker that
//! owns it. An extent is written by the front, before the request is queued whose body it holds.
//!
//! A field's comment names who writes it: front threads, the supervisor, or the worker whose cell or claim it is. Where
//! there are several, they take turns, or all of them use read-modify-write operations. Workers write by `c_abi` alone.
#![expect(missing_debug_implementations, reason = "cells of shared memory have no useful rendering")]

use crate::sync::{AtomicU32, AtomicU64};

/// First eight bytes of a segment: `HOWDAH` and the layout's version.
pub const MAGIC: u64 = u64::from_le_bytes(*b"HOWDAH05");
/// Cells for workers: two generations of the largest pool must fit. Owner numbers have 12 bits.
pub const MAX_WORKERS: usize = 1024;
/// Front threads.
pub const MAX_FRONTS: usize = 16;
/// Slots: waiting requests and running ones together.
pub const MAX_SLOTS: usize = 16384;
/// Request record, fields, strings and an inline body.
pub const REQUEST_AREA: usize = 222 * 1024;
/// Values of env variables that the front has asked for, see `report`.
pub const REPORT_AREA: usize = 2 * 1024;
/// Words that hold the names of those variables.
pub const REPORT_WORDS: usize = 128;
/// Response stream of a slot: header lines, then body. A power of two.
pub const RESPONSE_RING: usize = 512 * 1024;
/// The end of the request area, beside report area and response ring, where a request stands that fits: the first touch
/// of a slot then costs a new worker one page fault, which maps the neighbours, and not one for each.
pub const NEAR_REQUEST: usize = 6 * 1024;
/// The request near the ring begins at a multiple of this in the segment, which [`SLOT_STRIDE`] keeps for every slot. The
/// kernel maps neighbours up to the next multiple of 64 KiB, so the beginning of the ring is among them.
pub const NEIGHBOURS: usize = 32 * 1024;
/// Bytes from one slot to the next.
pub const SLOT_STRIDE: usize = REQUEST_AREA + REPORT_AREA + RESPONSE_RING;
/// Largest request body kept in the slot; above it goes to an extent or a file.
pub const INLINE_BODY: usize = 64 * 1024;
/// An extent: memory for one request body that is too large for a slot.
pub const EXTENT: usize = 1 << 20;
/// Extents of each front thread. They bound what such bodies take; when none is free, a file serves.
pub const EXTENTS_PER_FRONT: usize = 16;
/// Largest block of response header lines. It must fit the ring at once.
pub const RESPONSE_HEAD: usize = 64 * 1024;
/// Words of a bitmap with a bit for each worker.
pub const IDLE_WORDS: usize = MAX_WORKERS / 64;
/// Words of a bitmap with a bit for each slot.
pub const ATTENTION_WORDS: usize = MAX_SLOTS / 64;
/// `SlotControl::content_length` when the application gave none.
pub const LENGTH_UNKNOWN: u64 = u64::MAX;

/// What a slot is doing: the top four bits of its state word.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Held by the front; no worker looks at it.
    Free = 0,
    /// Complete and waiting for a worker.
    Queued = 1,
    /// Claimed by the worker in the owner bits.
    Running = 2,
    /// The worker is through with it; the front has yet to take the rest of the response.
    Done = 3,
}

/// What a worker is doing. Written by the worker, by the supervisor before its fork and after its death.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerPhase {
    /// The cell is unused.
    Absent = 0,
    /// Forked, hooks not yet run.
    Starting = 1,
    /// Waiting for a request.
    Idle = 2,
    /// Running a request.
    Busy = 3,
    /// On its way out; takes no further request.
    Leaving = 4,
}

/// What a worker is asked to do.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Keep serving.
    Run = 0,
    /// Finish the current request, then leave.
    Drain = 1,
    /// The same, and leave a process behind that is the next zygote.
    Promote = 2,
}

/// Why a worker leaves, or has left. Written by the worker once it knows, and again when it claims nothing any more.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// It did not say: it crashed or was killed.
    Unsaid = 0,
    /// The front asked it to drain.
    Drained = 1,
    /// It served its quota of requests.
    Quota = 2,
    /// The application asked by psgix.harakiri.
    Harakiri = 3,
    /// A TERM or QUIT signal.
    Signal = 4,
    /// The application called exit.
    Exit = 5,
    /// The front is gone.
    Orphan = 6,
    /// The application executes another program.
    Exec = 7,
}

/// What an operator may want of a worker that serves: which word of [`WorkerCell::asked`] says so, see `inquiry`.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inquiry {
    /// Note what is blessed, and tell what is left of it.
    Leaks = 0,
    /// Write the heap into a file, of so many megabytes at most.
    Heap = 1,
    /// Tell what holds the objects of the class that has this hash ([`crate::class_hash`]).
    Why = 2,
    /// End what Devel::NYTProf writes, and hand it over.
    Profile = 3,
    /// No word asks this. Under this number a worker that was told to [`Command::Promote`] hands over the control socket of the
    /// zygote that it leaves behind.
    Zygote = 4,
}

/// In the lower half of the word for [`Inquiry::Leaks`]: note what is blessed. Without it, tell what is left.
pub const LEAKS_TRACK: u32 = 1;
/// ... only of what was blessed since the inquiry began, and not of what an earlier one has found.
pub const LEAKS_SINCE: u32 = 2;

/// Routes that a worker tells apart, see `growth`; the first one stands for all others.
pub const ROUTES: usize = 64;
/// Bytes of a route's name.
pub const ROUTE_NAME: usize = 48;

/// Numbers of inquiries, which then begin again with 1. Few of all there could be: a word that somebody has written over does
/// not look like one.
pub const INQUIRY_SERIALS: u32 = 1 << 20;

/// Words for inquiries in a worker's cell.
pub const INQUIRIES: usize = 7;

/// Kind of a [`Message`] on a worker's channel.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// Worker asks for the spooled request body; the answer carries its descriptor.
    Body = 1,
    /// Worker asks for the client's socket; the answer carries it, and bytes already read behind the request.
    Socket = 2,
    /// Worker sends the file that is the response body (descriptor attached, `value` = bytes to send). No answer.
    File = 3,
    /// Worker sends an interim response (`value` = status, header lines behind). The answer means that it is out.
    Interim = 4,
    /// Worker answers an inquiry (`slot` = which, `value` = the word in its cell): a sealed memfd or a file beside it, or
    /// behind it a sentence that says why there is none. No answer.
    Answer = 5,
    /// Front answers [`RESPONSE_ASKS`]: `value` is the request's ticket, the client's connection is beside it, or is not.
    Loan = 6,
}

/// One packet on the channel between a worker and a front thread, perhaps with bytes behind it and a descriptor beside it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// A [`MessageKind`].
    pub kind: u32,
    /// The slot that it is about.
    pub slot: u32,
    /// By kind; in an answer 0 means yes.
    pub value: u64,
}

/// Answer to [`MessageKind::Socket`], and to [`MessageKind::Interim`] of 101: applications have as many connections as may be.
pub const ANSWER_TOO_MANY: u64 = 2;
/// Answer to [`MessageKind::Socket`]: the connection cannot be had for want of a descriptor.
pub const ANSWER_NO_DESCRIPTOR: u64 = 3;

/// Response flag: status, header lines and length are final; the head may be sent.
pub const RESPONSE_HEAD_READY: u32 = 1;
/// Response flag: the lines have a Date field.
pub const RESPONSE_HAS_DATE: u32 = 2;
/// Response flag: the lines have a Server field.
pub const RESPONSE_HAS_SERVER: u32 = 4;
/// Response flag: the application wants the connection closed.
pub const RESPONSE_CLOSE: u32 = 8;
/// Response flag: the body is a file sent over the channel.
pub const RESPONSE_FILE: u32 = 16;
/// Response flag: the application died after its head was out; the connection must be cut.
pub const RESPONSE_BROKEN: u32 = 32;
/// Response flag: the application took the socket and answers by itself.
pub const RESPONSE_DETACHED: u32 = 64;
/// Response flag: the application died before a head was out; status 500, no lines. With status 502, a process that the
/// worker ran was killed.
pub const RESPONSE_FAILED: u32 = 256;
/// Response flag: the lines have an X-Request-Id field.
pub const RESPONSE_HAS_REQUEST_ID: u32 = 512;
/// Response flag, beside that of a head that is ready: what stands in the place of the lines is a path, perhaps with a query,
/// and a GET of that is to be answered instead (RFC 3875 6.2.2). There is no body, and it holds once the worker is through.
pub const RESPONSE_REDIRECT: u32 = 1024;
/// Response flag, from when the head is ready: the worker would send the body by itself, and waits on its channel for the
/// client's connection, a [`MessageKind::Loan`]. Nothing but the lines is in the ring.
pub const RESPONSE_ASKS: u32 = 2048;
/// Response flag: the worker has had that answer, has sent so many bytes as [`SlotControl::direct`] says, and writes to the
/// connection no more.
pub const RESPONSE_RETURNED: u32 = 4096;

/// Request flag: the connection is TLS.
pub const REQUEST_HTTPS: u32 = 1;
/// Request flag: the method is HEAD.
pub const REQUEST_IS_HEAD: u32 = 4;
/// Request flag: the body is in a file that the channel delivers.
pub const REQUEST_SPOOLED: u32 = 8;
/// Request flag: the body is in the extent that the record names.
pub const REQUEST_EXTENT: u32 = 32;
/// Request flag: the connection may be lent to who answers, see [`RESPONSE_ASKS`].
pub const REQUEST_LENDS: u32 = 64;

/// Start of the segment. Written before there is a worker. Who attaches reads its shape once, checks it, and never again:
/// each process keeps the geometry in memory of its own.
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// Size of the whole segment in bytes.
    pub total: AtomicU64,
    /// Front threads in use.
    pub fronts: AtomicU32,
    /// Worker cells in use.
    pub workers: AtomicU32,
    /// Slots in use.
    pub slots: AtomicU32,
    /// Entries of the ring, a power of two.
    pub ring: AtomicU32,
    /// Byte offsets of the parts.
    pub fronts_at: AtomicU64,
    /// Worker cells.
    pub workers_at: AtomicU64,
    /// Route cells.
    pub routes_at: AtomicU64,
    /// Queue ring.
    pub ring_at: AtomicU64,
    /// Slot controls.
    pub controls_at: AtomicU64,
    /// Slots.
    pub slots_at: AtomicU64,
    /// Extents.
    pub extents_at: AtomicU64,
    /// Names of the variables that workers report, see `report`. The program, before there is a worker; in a segment that
    /// takes another's place, the supervisor.
    pub report_names: [AtomicU64; REPORT_WORDS],
    /// The queue's two ends and the idle bitmap.
    pub queue: QueueCells,
}

/// Ends of the queue, each on its own pair of cache lines.
#[repr(C, align(128))]
pub struct QueueCells {
    /// Next ticket to claim. Advanced by any worker, and by front threads past requests that wait no longer.
    pub head: Padded,
    /// Next ticket to hand out, for workers to see. Advanced by front threads, which draw tickets elsewhere: see `queue`.
    pub tail: Padded,
    /// Nanoseconds for which an idle worker may look for work before it sleeps; 0 unless requests come one by one. Front.
    pub spin: AtomicU32,
    /// Set by a worker before it sleeps, cleared by whoever wakes it: itself, a front thread, the supervisor, or a worker
    /// that leaves.
    pub idle: [AtomicU64; IDLE_WORDS],
}

/// A counter with a cache-line pair to itself.
#[repr(C, align(128))]
pub struct Padded {
    /// The counter.
    pub value: AtomicU64,
}

/// A front thread's letter box.
#[repr(C, align(128))]
pub struct FrontCell {
    /// 1 while the thread sleeps in epoll. Set by the thread, which also sets it back to 0 once awake; a worker that does so
    /// before it writes to its eventfd.
    pub sleeping: AtomicU32,
    /// A bit for every four attention words that may have news. Set by workers, taken by the thread.
    pub summary: AtomicU64,
    /// A bit for every slot with news for the front. As above.
    pub attention: [AtomicU64; ATTENTION_WORDS],
    /// For each extent of this thread, the ticket of the request whose body it holds. This thread, before queueing.
    pub extents: [AtomicU64; EXTENTS_PER_FRONT],
}

/// A worker's cell: what it does, for the front and for the status pages. The supervisor clears it before the fork; then
/// the writers are those named here.
#[repr(C, align(128))]
pub struct WorkerCell {
    /// A [`WorkerPhase`]. Worker; supervisor, before the fork and once every front thread has recovered the slots of the
    /// dead worker.
    pub phase: AtomicU32,
    /// Process id. Worker.
    pub pid: AtomicU32,
    /// Slot being served, plus one; 0 for none. Worker.
    pub slot: AtomicU32,
    /// A [`Leave`]. Worker.
    pub leave: AtomicU32,
    /// Requests served. Worker.
    pub requests: AtomicU64,
    /// CLOCK_MONOTONIC nanoseconds at which the current phase began. Worker.
    pub since: AtomicU64,
    /// Rises with every sleep of any worker, so the front can wake the most recent sleeper. Worker.
    pub idle_order: AtomicU64,
    /// Load of the application that this worker runs. Supervisor, before the fork.
    pub generation: AtomicU32,
    /// A [`Command`]. Supervisor, and the program when a request is overdue.
    pub command: AtomicU32,
    /// Futex: 0 while the worker may sleep (worker), 1 to wake it (whoever cleared its bit in `idle`).
    pub wake: AtomicU32,
    /// The processor that the worker is to stay on, plus one; 0 for any. The first front thread; supervisor, before the fork.
    pub cpu: AtomicU32,
    /// Leave after this many requests; 0 for never. Supervisor, before the fork.
    pub quota: AtomicU64,
    /// Rises whenever a word of `asked` has changed: a worker looks at it between two requests. Supervisor, before the
    /// fork; program.
    pub asks: AtomicU64,
    /// For each [`Inquiry`] what is wanted now, see `inquiry`. As above.
    pub asked: [AtomicU64; INQUIRIES],
}

/// What requests have left behind. Worker.
#[repr(C)]
pub struct Counts {
    /// Requests.
    pub requests: AtomicU64,
    /// Perl values more than before, signed.
    pub values: AtomicU64,
    /// Requests that were measured.
    pub measured: AtomicU64,
    /// Bytes of private memory more than before those, signed.
    pub bytes: AtomicU64,
}

/// One route in one worker, see `growth`. Worker.
#[repr(C)]
pub struct RouteCell {
    /// Zeros behind its end.
    pub name: [AtomicU64; ROUTE_NAME / 8],
    /// Of all requests.
    pub all: Counts,
    /// When there were about half of them.
    pub marked: Counts,
    /// When there were half of those.
    pub earlier: Counts,
}

/// A slot's control words. The first cache line is the worker's, the second the front's but for `waiting`, `report` and `direct`. The
/// front clears them all before it queues a request; then the writers are those named here.
#[repr(C, align(128))]
pub struct SlotControl {
    /// Phase (4 bits), owner (12), ticket (48), see `queue`. Front and workers; from a phase in which both may change it by
    /// compare-and-swap only.
    pub state: AtomicU64,
    /// Bytes ever put into the response ring for this request. Worker.
    pub produced: AtomicU64,
    /// Content-Length that the application gave, or [`LENGTH_UNKNOWN`]. Worker.
    pub content_length: AtomicU64,
    /// CLOCK_MONOTONIC nanoseconds at which the worker entered it. Worker.
    pub claimed_at: AtomicU64,
    /// CLOCK_MONOTONIC nanoseconds of the end. Worker.
    pub finished_at: AtomicU64,
    /// RESPONSE_ flags. Worker.
    pub flags: AtomicU32,
    /// HTTP status. Worker.
    pub status: AtomicU32,
    /// Length of the header lines, which come first in the ring. Worker.
    pub head_length: AtomicU32,
    /// 1 from just before the application is called with it. Worker.
    pub begun: AtomicU32,
    /// Vouches for the response's words with the ticket that was claimed, see `response`. Worker, behind those.
    pub seal: AtomicU64,
    /// Bytes that the front has taken from the ring, for the worker to see: the front counts for itself. Front.
    pub consumed: AtomicU64,
    /// CLOCK_MONOTONIC nanoseconds at which the request was queued. Front.
    pub queued_at: AtomicU64,
    /// Futex: rises whenever there is more room in the ring. Front.
    pub room: AtomicU32,
    /// 1 while the worker waits for `room`. Set by the worker, cleared by both.
    pub waiting: AtomicU32,
    /// 1 when nobody wants the response any more. Front.
    pub abandoned: AtomicU32,
    /// Where in the request area the request stands, see [`NEAR_REQUEST`]. Front, before queueing.
    pub request_at: AtomicU32,
    /// Bytes in the report area. Worker, before it finishes.
    pub report: AtomicU32,
    /// Body bytes that the worker has sent by itself, see [`RESPONSE_ASKS`]. Worker.
    pub direct: AtomicU64,
}

/// A run of bytes in the request area.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// From the start of the request area.
    pub offset: u32,
    /// In bytes.
    pub length: u32,
}

/// One header field, its name in the form of the PSGI env: `HTTP_ACCEPT`, `CONTENT_TYPE`. Names are unique in a request.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct FieldRecord {
    /// The name.
    pub name: Span,
    /// The value; repeated fields are joined.
    pub value: Span,
}

/// The request record at the start of a slot's request area. All of it is written by the front before queueing. Another
/// worker may write over it, so whoever reads a span checks that it ends within `used`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestRecord {
    /// REQUEST_METHOD.
    pub method: Span,
    /// REQUEST_URI, as sent.
    pub uri: Span,
    /// PATH_INFO, percent-decoded.
    pub path: Span,
    /// QUERY_STRING.
    pub query: Span,
    /// SERVER_PROTOCOL.
    pub protocol: Span,
    /// SERVER_NAME.
    pub server_name: Span,
    /// SERVER_PORT, decimal.
    pub server_port: Span,
    /// REMOTE_ADDR.
    pub remote_addr: Span,
    /// REMOTE_PORT, decimal.
    pub remote_port: Span,
    /// The body when it is inline.
    pub body: Span,
    /// Body length in bytes, inline or spooled.
    pub body_length: u64,
    /// The ticket under which the request waits: what another one has left in the area does not bear it.
    pub ticket: u64,
    /// REQUEST_ flags.
    pub flags: u32,
    /// Number of [`FieldRecord`]s, which stand right behind this record.
    pub fields: u32,
    /// The extent that holds the body, with [`REQUEST_EXTENT`].
    pub extent: u32,
    /// Bytes of the area that belong to the request, this record included.
    pub used: u32,
}
