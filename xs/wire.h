#ifndef HOWDAH_WIRE_H
#define HOWDAH_WIRE_H

/* Generated from crates/wire by `make header`. Change the Rust source, not this file. */

#include <stddef.h>
#include <stdint.h>
/* Workers change atomic words only through the functions below, and cast no const away; reading one is an aligned load. */
typedef uint32_t AtomicU32;
typedef uint64_t AtomicU64;
#define HOWDAH_ALIGNED(n) __attribute__((aligned(n)))


/*
 Length of a variable that the env has not.
 */
#define REPORT_NONE UINT16_MAX

/*
 Variables that one server may ask for.
 */
#define REPORT_MOST 64

/*
 Fields that the table holds: the codec's default of 128, CONTENT_LENGTH, X-Request-Id, and what TLS has settled.
 */
#define MAX_FIELDS 152

/*
 The first ticket. Not 0, so that a ring of zeros holds no ticket that anybody waits for.
 */
#define FIRST_TICKET 1

/*
 Cells for workers: two generations of the largest pool must fit. Owner numbers have 12 bits.
 */
#define MAX_WORKERS 1024

/*
 Front threads.
 */
#define MAX_FRONTS 16

/*
 Slots: waiting requests and running ones together.
 */
#define MAX_SLOTS 16384

/*
 Request record, fields, strings and an inline body.
 */
#define REQUEST_AREA (222 * 1024)

/*
 Values of env variables that the front has asked for, see `report`.
 */
#define REPORT_AREA (2 * 1024)

/*
 Words that hold the names of those variables.
 */
#define REPORT_WORDS 128

/*
 Response stream of a slot: header lines, then body. A power of two.
 */
#define RESPONSE_RING (512 * 1024)

/*
 The end of the request area, beside report area and response ring, where a request stands that fits: the first touch
 of a slot then costs a new worker one page fault, which maps the neighbours, and not one for each.
 */
#define NEAR_REQUEST (6 * 1024)

/*
 The request near the ring begins at a multiple of this in the segment, which [`SLOT_STRIDE`] keeps for every slot. The
 kernel maps neighbours up to the next multiple of 64 KiB, so the beginning of the ring is among them.
 */
#define NEIGHBOURS (32 * 1024)

/*
 Bytes from one slot to the next.
 */
#define SLOT_STRIDE ((REQUEST_AREA + REPORT_AREA) + RESPONSE_RING)

/*
 Largest request body kept in the slot; above it goes to an extent or a file.
 */
#define INLINE_BODY (64 * 1024)

/*
 An extent: memory for one request body that is too large for a slot.
 */
#define EXTENT (1 << 20)

/*
 Extents of each front thread. They bound what such bodies take; when none is free, a file serves.
 */
#define EXTENTS_PER_FRONT 16

/*
 Largest block of response header lines. It must fit the ring at once.
 */
#define RESPONSE_HEAD (64 * 1024)

/*
 Words of a bitmap with a bit for each worker.
 */
#define IDLE_WORDS (MAX_WORKERS / 64)

/*
 Words of a bitmap with a bit for each slot.
 */
#define ATTENTION_WORDS (MAX_SLOTS / 64)

/*
 `SlotControl::content_length` when the application gave none.
 */
#define LENGTH_UNKNOWN UINT64_MAX

/*
 In the lower half of the word for [`Inquiry::Leaks`]: note what is blessed. Without it, tell what is left.
 */
#define LEAKS_TRACK 1

/*
 ... only of what was blessed since the inquiry began, and not of what an earlier one has found.
 */
#define LEAKS_SINCE 2

/*
 Routes that a worker tells apart, see `growth`; the first one stands for all others.
 */
#define ROUTES 64

/*
 Bytes of a route's name.
 */
#define ROUTE_NAME 48

/*
 Numbers of inquiries, which then begin again with 1. Few of all there could be: a word that somebody has written over does
 not look like one.
 */
#define INQUIRY_SERIALS (1 << 20)

/*
 Words for inquiries in a worker's cell.
 */
#define INQUIRIES 7

/*
 Answer to [`MessageKind::Socket`], and to [`MessageKind::Interim`] of 101: applications have as many connections as may be.
 */
#define ANSWER_TOO_MANY 2

/*
 Answer to [`MessageKind::Socket`]: the connection cannot be had for want of a descriptor.
 */
#define ANSWER_NO_DESCRIPTOR 3

/*
 Response flag: status, header lines and length are final; the head may be sent.
 */
#define RESPONSE_HEAD_READY 1

/*
 Response flag: the lines have a Date field.
 */
#define RESPONSE_HAS_DATE 2

/*
 Response flag: the lines have a Server field.
 */
#define RESPONSE_HAS_SERVER 4

/*
 Response flag: the application wants the connection closed.
 */
#define RESPONSE_CLOSE 8

/*
 Response flag: the body is a file sent over the channel.
 */
#define RESPONSE_FILE 16

/*
 Response flag: the application died after its head was out; the connection must be cut.
 */
#define RESPONSE_BROKEN 32

/*
 Response flag: the application took the socket and answers by itself.
 */
#define RESPONSE_DETACHED 64

/*
 Response flag: the application died before a head was out; status 500, no lines. With status 502, a process that the
 worker ran was killed.
 */
#define RESPONSE_FAILED 256

/*
 Response flag: the lines have an X-Request-Id field.
 */
#define RESPONSE_HAS_REQUEST_ID 512

/*
 Response flag, beside that of a head that is ready: what stands in the place of the lines is a path, perhaps with a query,
 and a GET of that is to be answered instead (RFC 3875 6.2.2). There is no body, and it holds once the worker is through.
 */
#define RESPONSE_REDIRECT 1024

/*
 Response flag, from when the head is ready: the worker would send the body by itself, and waits on its channel for the
 client's connection, a [`MessageKind::Loan`]. Nothing but the lines is in the ring.
 */
#define RESPONSE_ASKS 2048

/*
 Response flag: the worker has had that answer, has sent so many bytes as [`SlotControl::direct`] says, and writes to the
 connection no more.
 */
#define RESPONSE_RETURNED 4096

/*
 Request flag: the connection is TLS.
 */
#define REQUEST_HTTPS 1

/*
 Request flag: the method is HEAD.
 */
#define REQUEST_IS_HEAD 4

/*
 Request flag: the body is in a file that the channel delivers.
 */
#define REQUEST_SPOOLED 8

/*
 Request flag: the body is in the extent that the record names.
 */
#define REQUEST_EXTENT 32

/*
 Request flag: the connection may be lent to who answers, see [`RESPONSE_ASKS`].
 */
#define REQUEST_LENDS 64

/*
 Longest packet on the control socket, in bytes.
 */
#define ZYGOTE_PACKET (64 * 1024)

/*
 Letters of the secret by which the front knows what Perl itself writes to standard error.
 */
#define ZYGOTE_SECRET 16

/*
 Order flag of an attach: the titles of workers tell the request that they run.
 */
#define ZYGOTE_TITLES 1

/*
 Order flag of an attach: the last descriptor becomes standard error, and `secret` marks what Perl writes there.
 */
#define ZYGOTE_ERRORS 2

/*
 Signals have the numbers 1 to this.
 */
#define ZYGOTE_SIGNALS 64

/*
 Longest packet on the socket between them, in bytes. A request whose environment does not fit is executed instead.
 */
#define SCRIPT_PACKET (256 * 1024)

/*
 Descriptors of a launch: standard input, output and error.
 */
#define SCRIPT_DESCRIPTORS 3

/*
 The kind of a launch. A change of its form changes the number.
 */
#define SCRIPT_LAUNCH 1

/*
 First eight bytes of the mapping: `HWPERL01` where the lowest byte comes first, for what this is and its version.
 */
#define PERL_LAYOUT_MAGIC 3544416822974502728

/*
 Kind of a [`Message`] on a worker's channel.
 */
enum MessageKind
#if __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // __STDC_VERSION__ >= 202311L
 {
  /*
   Worker asks for the spooled request body; the answer carries its descriptor.
   */
  MESSAGE_KIND_BODY = 1,
  /*
   Worker asks for the client's socket; the answer carries it, and bytes already read behind the request.
   */
  MESSAGE_KIND_SOCKET = 2,
  /*
   Worker sends the file that is the response body (descriptor attached, `value` = bytes to send). No answer.
   */
  MESSAGE_KIND_FILE = 3,
  /*
   Worker sends an interim response (`value` = status, header lines behind). The answer means that it is out.
   */
  MESSAGE_KIND_INTERIM = 4,
  /*
   Worker answers an inquiry (`slot` = which, `value` = the word in its cell): a sealed memfd or a file beside it, or
   behind it a sentence that says why there is none. No answer.
   */
  MESSAGE_KIND_ANSWER = 5,
  /*
   Front answers [`RESPONSE_ASKS`]: `value` is the request's ticket, the client's connection is beside it, or is not.
   */
  MESSAGE_KIND_LOAN = 6,
};
#if __STDC_VERSION__ >= 202311L
typedef enum MessageKind MessageKind;
#else
typedef uint32_t MessageKind;
#endif // __STDC_VERSION__ >= 202311L

/*
 What an operator may want of a worker that serves: which word of [`WorkerCell::asked`] says so, see `inquiry`.
 */
enum Inquiry
#if __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // __STDC_VERSION__ >= 202311L
 {
  /*
   Note what is blessed, and tell what is left of it.
   */
  INQUIRY_LEAKS = 0,
  /*
   Write the heap into a file, of so many megabytes at most.
   */
  INQUIRY_HEAP = 1,
  /*
   Tell what holds the objects of the class that has this hash ([`crate::class_hash`]).
   */
  INQUIRY_WHY = 2,
  /*
   End what Devel::NYTProf writes, and hand it over.
   */
  INQUIRY_PROFILE = 3,
  /*
   No word asks this. Under this number a worker that was told to [`Command::Promote`] hands over the control socket of the
   zygote that it leaves behind.
   */
  INQUIRY_ZYGOTE = 4,
};
#if __STDC_VERSION__ >= 202311L
typedef enum Inquiry Inquiry;
#else
typedef uint32_t Inquiry;
#endif // __STDC_VERSION__ >= 202311L

/*
 What a worker is doing. Written by the worker, by the supervisor before its fork and after its death.
 */
enum WorkerPhase
#if __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // __STDC_VERSION__ >= 202311L
 {
  /*
   The cell is unused.
   */
  WORKER_PHASE_ABSENT = 0,
  /*
   Forked, hooks not yet run.
   */
  WORKER_PHASE_STARTING = 1,
  /*
   Waiting for a request.
   */
  WORKER_PHASE_IDLE = 2,
  /*
   Running a request.
   */
  WORKER_PHASE_BUSY = 3,
  /*
   On its way out; takes no further request.
   */
  WORKER_PHASE_LEAVING = 4,
};
#if __STDC_VERSION__ >= 202311L
typedef enum WorkerPhase WorkerPhase;
#else
typedef uint32_t WorkerPhase;
#endif // __STDC_VERSION__ >= 202311L

/*
 What a worker is asked to do.
 */
enum Command
#if __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // __STDC_VERSION__ >= 202311L
 {
  /*
   Keep serving.
   */
  COMMAND_RUN = 0,
  /*
   Finish the current request, then leave.
   */
  COMMAND_DRAIN = 1,
  /*
   The same, and leave a process behind that is the next zygote.
   */
  COMMAND_PROMOTE = 2,
};
#if __STDC_VERSION__ >= 202311L
typedef enum Command Command;
#else
typedef uint32_t Command;
#endif // __STDC_VERSION__ >= 202311L

/*
 Why a worker leaves, or has left. Written by the worker once it knows, and again when it claims nothing any more.
 */
enum Leave
#if __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // __STDC_VERSION__ >= 202311L
 {
  /*
   It did not say: it crashed or was killed.
   */
  LEAVE_UNSAID = 0,
  /*
   The front asked it to drain.
   */
  LEAVE_DRAINED = 1,
  /*
   It served its quota of requests.
   */
  LEAVE_QUOTA = 2,
  /*
   The application asked by psgix.harakiri.
   */
  LEAVE_HARAKIRI = 3,
  /*
   A TERM or QUIT signal.
   */
  LEAVE_SIGNAL = 4,
  /*
   The application called exit.
   */
  LEAVE_EXIT = 5,
  /*
   The front is gone.
   */
  LEAVE_ORPHAN = 6,
  /*
   The application executes another program.
   */
  LEAVE_EXEC = 7,
};
#if __STDC_VERSION__ >= 202311L
typedef enum Leave Leave;
#else
typedef uint32_t Leave;
#endif // __STDC_VERSION__ >= 202311L

/*
 What a slot is doing: the top four bits of its state word.
 */
enum Phase
#if __STDC_VERSION__ >= 202311L
  : uint8_t
#endif // __STDC_VERSION__ >= 202311L
 {
  /*
   Held by the front; no worker looks at it.
   */
  PHASE_FREE = 0,
  /*
   Complete and waiting for a worker.
   */
  PHASE_QUEUED = 1,
  /*
   Claimed by the worker in the owner bits.
   */
  PHASE_RUNNING = 2,
  /*
   The worker is through with it; the front has yet to take the rest of the response.
   */
  PHASE_DONE = 3,
};
#if __STDC_VERSION__ >= 202311L
typedef enum Phase Phase;
#else
typedef uint8_t Phase;
#endif // __STDC_VERSION__ >= 202311L

/*
 What the front orders.
 */
enum ZygoteOrder
#if __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // __STDC_VERSION__ >= 202311L
 {
  /*
   Map this segment, know these front threads, load the application. The first order, and sent once.
   */
  ZYGOTE_ORDER_ATTACH = 1,
  /*
   Workers that are forked from now on use this segment.
   */
  ZYGOTE_ORDER_SEGMENT = 2,
  /*
   Fork a worker.
   */
  ZYGOTE_ORDER_SPAWN = 3,
  /*
   Fork no more, and exit when the last worker has.
   */
  ZYGOTE_ORDER_STOP = 4,
  /*
   Do with a worker as a signal to its process would. For a zygote whose workers are threads.
   */
  ZYGOTE_ORDER_SIGNAL = 5,
};
#if __STDC_VERSION__ >= 202311L
typedef enum ZygoteOrder ZygoteOrder;
#else
typedef uint32_t ZygoteOrder;
#endif // __STDC_VERSION__ >= 202311L

/*
 What a zygote reports.
 */
enum ZygoteReport
#if __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // __STDC_VERSION__ >= 202311L
 {
  /*
   The application is loaded. Status: how many templates it has compiled. Text: the version of perl.
   */
  ZYGOTE_REPORT_READY = 1,
  /*
   It does not load, and the zygote exits. Text: Perl's message.
   */
  ZYGOTE_REPORT_FAILED = 2,
  /*
   A worker was forked.
   */
  ZYGOTE_REPORT_SPAWNED = 3,
  /*
   A worker has ended, or could not be forked.
   */
  ZYGOTE_REPORT_EXITED = 4,
  /*
   Text for the log.
   */
  ZYGOTE_REPORT_LOG = 5,
};
#if __STDC_VERSION__ >= 202311L
typedef enum ZygoteReport ZygoteReport;
#else
typedef uint32_t ZygoteReport;
#endif // __STDC_VERSION__ >= 202311L

/*
 What the zygote of a script reports.
 */
enum ScriptReport
#if __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // __STDC_VERSION__ >= 202311L
 {
  /*
   Its module fits this perl, which is about to compile the script.
   */
  SCRIPT_REPORT_LOADED = 1,
  /*
   The script is compiled. Text: the files that it has loaded, each with a NUL behind it.
   */
  SCRIPT_REPORT_READY = 2,
  /*
   It does not compile, and the zygote exits. Text: as with ready.
   */
  SCRIPT_REPORT_FAILED = 3,
  /*
   It cannot be forked, and the zygote exits: it is to be executed. Text: why.
   */
  SCRIPT_REPORT_UNFIT = 4,
  /*
   A process was forked. Value: its id.
   */
  SCRIPT_REPORT_FORKED = 5,
  /*
   None was forked. Value: the kernel's number for the reason.
   */
  SCRIPT_REPORT_REFUSED = 6,
};
#if __STDC_VERSION__ >= 202311L
typedef enum ScriptReport ScriptReport;
#else
typedef uint32_t ScriptReport;
#endif // __STDC_VERSION__ >= 202311L

/*
 A worker's cell: what it does, for the front and for the status pages. The supervisor clears it before the fork; then
 the writers are those named here.
 */
typedef struct HOWDAH_ALIGNED(128) WorkerCell {
  /*
   A [`WorkerPhase`]. Worker; supervisor, before the fork and once every front thread has recovered the slots of the
   dead worker.
   */
  AtomicU32 phase;
  /*
   Process id. Worker.
   */
  AtomicU32 pid;
  /*
   Slot being served, plus one; 0 for none. Worker.
   */
  AtomicU32 slot;
  /*
   A [`Leave`]. Worker.
   */
  AtomicU32 leave;
  /*
   Requests served. Worker.
   */
  AtomicU64 requests;
  /*
   CLOCK_MONOTONIC nanoseconds at which the current phase began. Worker.
   */
  AtomicU64 since;
  /*
   Rises with every sleep of any worker, so the front can wake the most recent sleeper. Worker.
   */
  AtomicU64 idle_order;
  /*
   Load of the application that this worker runs. Supervisor, before the fork.
   */
  AtomicU32 generation;
  /*
   A [`Command`]. Supervisor, and the program when a request is overdue.
   */
  AtomicU32 command;
  /*
   Futex: 0 while the worker may sleep (worker), 1 to wake it (whoever cleared its bit in `idle`).
   */
  AtomicU32 wake;
  /*
   The processor that the worker is to stay on, plus one; 0 for any. The first front thread; supervisor, before the fork.
   */
  AtomicU32 cpu;
  /*
   Leave after this many requests; 0 for never. Supervisor, before the fork.
   */
  AtomicU64 quota;
  /*
   Rises whenever a word of `asked` has changed: a worker looks at it between two requests. Supervisor, before the
   fork; program.
   */
  AtomicU64 asks;
  /*
   For each [`Inquiry`] what is wanted now, see `inquiry`. As above.
   */
  AtomicU64 asked[INQUIRIES];
} WorkerCell;

/*
 A slot's control words. The first cache line is the worker's, the second the front's but for `waiting`, `report` and `direct`. The
 front clears them all before it queues a request; then the writers are those named here.
 */
typedef struct HOWDAH_ALIGNED(128) SlotControl {
  /*
   Phase (4 bits), owner (12), ticket (48), see `queue`. Front and workers; from a phase in which both may change it by
   compare-and-swap only.
   */
  AtomicU64 state;
  /*
   Bytes ever put into the response ring for this request. Worker.
   */
  AtomicU64 produced;
  /*
   Content-Length that the application gave, or [`LENGTH_UNKNOWN`]. Worker.
   */
  AtomicU64 content_length;
  /*
   CLOCK_MONOTONIC nanoseconds at which the worker entered it. Worker.
   */
  AtomicU64 claimed_at;
  /*
   CLOCK_MONOTONIC nanoseconds of the end. Worker.
   */
  AtomicU64 finished_at;
  /*
   RESPONSE_ flags. Worker.
   */
  AtomicU32 flags;
  /*
   HTTP status. Worker.
   */
  AtomicU32 status;
  /*
   Length of the header lines, which come first in the ring. Worker.
   */
  AtomicU32 head_length;
  /*
   1 from just before the application is called with it. Worker.
   */
  AtomicU32 begun;
  /*
   Vouches for the response's words with the ticket that was claimed, see `response`. Worker, behind those.
   */
  AtomicU64 seal;
  /*
   Bytes that the front has taken from the ring, for the worker to see: the front counts for itself. Front.
   */
  AtomicU64 consumed;
  /*
   CLOCK_MONOTONIC nanoseconds at which the request was queued. Front.
   */
  AtomicU64 queued_at;
  /*
   Futex: rises whenever there is more room in the ring. Front.
   */
  AtomicU32 room;
  /*
   1 while the worker waits for `room`. Set by the worker, cleared by both.
   */
  AtomicU32 waiting;
  /*
   1 when nobody wants the response any more. Front.
   */
  AtomicU32 abandoned;
  /*
   Where in the request area the request stands, see [`NEAR_REQUEST`]. Front, before queueing.
   */
  AtomicU32 request_at;
  /*
   Bytes in the report area. Worker, before it finishes.
   */
  AtomicU32 report;
  /*
   Body bytes that the worker has sent by itself, see [`RESPONSE_ASKS`]. Worker.
   */
  AtomicU64 direct;
} SlotControl;

/*
 A counter with a cache-line pair to itself.
 */
typedef struct HOWDAH_ALIGNED(128) Padded {
  /*
   The counter.
   */
  AtomicU64 value;
} Padded;

/*
 Ends of the queue, each on its own pair of cache lines.
 */
typedef struct HOWDAH_ALIGNED(128) QueueCells {
  /*
   Next ticket to claim. Advanced by any worker, and by front threads past requests that wait no longer.
   */
  struct Padded head;
  /*
   Next ticket to hand out, for workers to see. Advanced by front threads, which draw tickets elsewhere: see `queue`.
   */
  struct Padded tail;
  /*
   Nanoseconds for which an idle worker may look for work before it sleeps; 0 unless requests come one by one. Front.
   */
  AtomicU32 spin;
  /*
   Set by a worker before it sleeps, cleared by whoever wakes it: itself, a front thread, the supervisor, or a worker
   that leaves.
   */
  AtomicU64 idle[IDLE_WORDS];
} QueueCells;

/*
 Start of the segment. Written before there is a worker. Who attaches reads its shape once, checks it, and never again:
 each process keeps the geometry in memory of its own.
 */
typedef struct Header {
  /*
   [`MAGIC`].
   */
  AtomicU64 magic;
  /*
   Size of the whole segment in bytes.
   */
  AtomicU64 total;
  /*
   Front threads in use.
   */
  AtomicU32 fronts;
  /*
   Worker cells in use.
   */
  AtomicU32 workers;
  /*
   Slots in use.
   */
  AtomicU32 slots;
  /*
   Entries of the ring, a power of two.
   */
  AtomicU32 ring;
  /*
   Byte offsets of the parts.
   */
  AtomicU64 fronts_at;
  /*
   Worker cells.
   */
  AtomicU64 workers_at;
  /*
   Route cells.
   */
  AtomicU64 routes_at;
  /*
   Queue ring.
   */
  AtomicU64 ring_at;
  /*
   Slot controls.
   */
  AtomicU64 controls_at;
  /*
   Slots.
   */
  AtomicU64 slots_at;
  /*
   Extents.
   */
  AtomicU64 extents_at;
  /*
   Names of the variables that workers report, see `report`. The program, before there is a worker; in a segment that
   takes another's place, the supervisor.
   */
  AtomicU64 report_names[REPORT_WORDS];
  /*
   The queue's two ends and the idle bitmap.
   */
  struct QueueCells queue;
} Header;

/*
 A run of bytes in the request area.
 */
typedef struct Span {
  /*
   From the start of the request area.
   */
  uint32_t offset;
  /*
   In bytes.
   */
  uint32_t length;
} Span;

/*
 The request record at the start of a slot's request area. All of it is written by the front before queueing. Another
 worker may write over it, so whoever reads a span checks that it ends within `used`.
 */
typedef struct RequestRecord {
  /*
   REQUEST_METHOD.
   */
  struct Span method;
  /*
   REQUEST_URI, as sent.
   */
  struct Span uri;
  /*
   PATH_INFO, percent-decoded.
   */
  struct Span path;
  /*
   QUERY_STRING.
   */
  struct Span query;
  /*
   SERVER_PROTOCOL.
   */
  struct Span protocol;
  /*
   SERVER_NAME.
   */
  struct Span server_name;
  /*
   SERVER_PORT, decimal.
   */
  struct Span server_port;
  /*
   REMOTE_ADDR.
   */
  struct Span remote_addr;
  /*
   REMOTE_PORT, decimal.
   */
  struct Span remote_port;
  /*
   The body when it is inline.
   */
  struct Span body;
  /*
   Body length in bytes, inline or spooled.
   */
  uint64_t body_length;
  /*
   The ticket under which the request waits: what another one has left in the area does not bear it.
   */
  uint64_t ticket;
  /*
   REQUEST_ flags.
   */
  uint32_t flags;
  /*
   Number of [`FieldRecord`]s, which stand right behind this record.
   */
  uint32_t fields;
  /*
   The extent that holds the body, with [`REQUEST_EXTENT`].
   */
  uint32_t extent;
  /*
   Bytes of the area that belong to the request, this record included.
   */
  uint32_t used;
} RequestRecord;

/*
 One header field, its name in the form of the PSGI env: `HTTP_ACCEPT`, `CONTENT_TYPE`. Names are unique in a request.
 */
typedef struct FieldRecord {
  /*
   The name.
   */
  struct Span name;
  /*
   The value; repeated fields are joined.
   */
  struct Span value;
} FieldRecord;

/*
 One packet on the channel between a worker and a front thread, perhaps with bytes behind it and a descriptor beside it.
 */
typedef struct Message {
  /*
   A [`MessageKind`].
   */
  uint32_t kind;
  /*
   The slot that it is about.
   */
  uint32_t slot;
  /*
   By kind; in an answer 0 means yes.
   */
  uint64_t value;
} Message;

/*
 An order, in this machine's byte order. What its kind does not use is 0.
 */
typedef struct OrderRecord {
  /*
   A [`ZygoteOrder`].
   */
  uint32_t kind;
  /*
   How many descriptors come with it.
   */
  uint32_t descriptors;
  /*
   Spawn, signal: the worker's cell.
   */
  uint32_t worker;
  /*
   Attach: the load of the application that this zygote is for.
   */
  uint32_t generation;
  /*
   Attach: [`ZYGOTE_TITLES`] and [`ZYGOTE_ERRORS`]. Signal: its number.
   */
  uint32_t flags;
  /*
   Attach with [`ZYGOTE_ERRORS`].
   */
  uint8_t secret[ZYGOTE_SECRET];
} OrderRecord;

/*
 A report, in this machine's byte order; text of the kinds that have any stands behind it. What its kind does not use
 is 0.
 */
typedef struct ReportRecord {
  /*
   A [`ZygoteReport`].
   */
  uint32_t kind;
  /*
   Spawned, exited: the worker's cell.
   */
  uint32_t worker;
  /*
   Spawned, exited: its process id; 0 in an exited when there was no process.
   */
  int32_t pid;
  /*
   Exited: as from waitpid(2). Ready: how many templates were compiled before the fork.
   */
  int32_t status;
} ReportRecord;

/*
 A process of the script is wanted, in this machine's byte order. Behind it stand `length` bytes: first the arguments,
 then the variables of the environment as `NAME=VALUE`, each with a NUL behind it.
 */
typedef struct LaunchRecord {
  /*
   [`SCRIPT_LAUNCH`].
   */
  uint32_t kind;
  /*
   How many arguments there are.
   */
  uint32_t arguments;
  /*
   How many variables there are.
   */
  uint32_t variables;
  /*
   Bytes of text.
   */
  uint32_t length;
} LaunchRecord;

/*
 A report, in this machine's byte order; text of the kinds that have any stands behind it.
 */
typedef struct ScriptRecord {
  /*
   A [`ScriptReport`].
   */
  uint32_t kind;
  /*
   Forked: the process id. Refused: an errno. Else 0.
   */
  int32_t value;
} ScriptRecord;

/*
 Addresses in the process that it stands in, and offsets in perl's structures, in bytes.
 */
typedef struct PerlLayout {
  /*
   [`PERL_LAYOUT_MAGIC`].
   */
  uint64_t magic;
  /*
   Address of the pointer `PL_op`: the operation that runs.
   */
  uint64_t op_at;
  /*
   Address of the pointer `PL_curcop`: the statement that runs.
   */
  uint64_t curcop_at;
  /*
   Address of the pointer `PL_curstackinfo`.
   */
  uint64_t stackinfo_at;
  /*
   Address of the pointer `PL_curpad`.
   */
  uint64_t curpad_at;
  /*
   Address of the array of operations' names.
   */
  uint64_t op_names_at;
  /*
   Address of what the worker knows of its present request.
   */
  uint64_t exchange_at;
  /*
   Entries of the array of names.
   */
  uint32_t op_names;
  /*
   Size of what it knows.
   */
  uint32_t exchange_size;
  /*
   In there: an int that is 0 when there is no request.
   */
  uint32_t exchange_progress;
  /*
   In there: the number of the request.
   */
  uint32_t exchange_serial;
  /*
   In there: address of the `RequestRecord`.
   */
  uint32_t exchange_request;
  /*
   In there: how many bytes of that count; 0 when it is not to be read.
   */
  uint32_t exchange_used;
  /*
   In there: address of the `SlotControl`.
   */
  uint32_t exchange_control;
  /*
   OP: the word that has its type.
   */
  uint32_t op_type;
  /*
   OP: which bits of that word.
   */
  uint32_t op_type_mask;
  /*
   OP: which bit of that word says that `op_sibling` is a sibling; 0 when it always is.
   */
  uint32_t op_moresib_mask;
  /*
   OP: its target, a place in the pad.
   */
  uint32_t op_targ;
  /*
   OP: next sibling.
   */
  uint32_t op_sibling;
  /*
   OP with children: the first of them.
   */
  uint32_t op_first;
  /*
   OP with a value: the value, or its place in the pad.
   */
  uint32_t op_value;
  /*
   1 when a GV is named by its place in the pad.
   */
  uint32_t gv_in_pad;
  /*
   Size of an OP that is a statement.
   */
  uint32_t cop_size;
  /*
   COP: its line.
   */
  uint32_t cop_line;
  /*
   COP: its file.
   */
  uint32_t cop_file;
  /*
   1 when that is a GV that is named `_<FILE`, else it is a string.
   */
  uint32_t cop_file_is_gv;
  /*
   Size of a stack's information.
   */
  uint32_t si_size;
  /*
   Its contexts.
   */
  uint32_t si_contexts;
  /*
   The stack below it.
   */
  uint32_t si_prev;
  /*
   Index of the topmost context.
   */
  uint32_t si_top;
  /*
   Index of the last context that there is room for.
   */
  uint32_t si_room;
  /*
   Size of a context.
   */
  uint32_t context_size;
  /*
   Context: a byte with its type.
   */
  uint32_t context_type;
  /*
   Which bits of that.
   */
  uint32_t context_type_mask;
  /*
   The type of a sub.
   */
  uint32_t context_sub;
  /*
   The type of a format.
   */
  uint32_t context_format;
  /*
   Context: the statement that entered it.
   */
  uint32_t context_oldcop;
  /*
   Context of a sub: its CV.
   */
  uint32_t context_cv;
  /*
   SV: its body.
   */
  uint32_t sv_any;
  /*
   SV: its flags.
   */
  uint32_t sv_flags;
  /*
   SV: string, or what it refers to.
   */
  uint32_t sv_u;
  /*
   Flag: it is a reference.
   */
  uint32_t sv_rok;
  /*
   Body of a string: its length.
   */
  uint32_t pv_cur;
  /*
   Body of a CV: its flags.
   */
  uint32_t cv_flags;
  /*
   Body of a CV: its GV, or its name.
   */
  uint32_t cv_gv;
  /*
   Body of a CV: the stash that it was compiled in.
   */
  uint32_t cv_stash;
  /*
   Body of a CV: its first operation.
   */
  uint32_t cv_start;
  /*
   Flag of a CV: it has no name of its own.
   */
  uint32_t cv_anon;
  /*
   Flag of a CV: it has a name instead of a GV.
   */
  uint32_t cv_named;
  /*
   Flag of a CV: it is C.
   */
  uint32_t cv_is_xsub;
  /*
   Body of a GV: its name.
   */
  uint32_t gv_name;
  /*
   Body of a GV: its stash.
   */
  uint32_t gv_stash;
  /*
   What the `sv_u` of a GV leads to: its CV.
   */
  uint32_t gp_cv;
  /*
   Body of a stash: index of the last entry of its array.
   */
  uint32_t hv_max;
  /*
   Where a stash's name stands: in its body, or with `hv_aux_behind` behind its array.
   */
  uint32_t hv_name;
  /*
   There: how many names it has; 0 for one that stands there by itself.
   */
  uint32_t hv_name_count;
  /*
   1 for behind the array.
   */
  uint32_t hv_aux_behind;
  /*
   A name: its length.
   */
  uint32_t hek_length;
  /*
   A name: its bytes.
   */
  uint32_t hek_key;
} PerlLayout;

/*
 Uses the segment mapped at `base`, from now on instead of one attached before. 0 when it fits, 1 when it is of another
 version, 2 when it is cut short, 3 when it is damaged.

 # Safety
 `base` must point to `length` readable and writable bytes that stay mapped until another segment takes their place.
 */
int32_t howdah_attach(uint8_t *base,
                      uintptr_t length);

/*
 This process, `pid`, is `worker` from now on: its cell, for reading. Null when there is no such cell.
 */
const struct WorkerCell *howdah_start(uint16_t worker,
                                      uint32_t pid,
                                      uint64_t now);

/*
 The number of the front thread that `slot` belongs to.
 */
uint32_t howdah_front(uint32_t slot);

/*
 The request in `slot`, which this worker has claimed: a `RequestRecord` stands at its start. `used` is set to the bytes
 that belong to it, all of them readable; 0 when what stands there is not the request that was claimed.

 # Safety
 `used` must point to a `size_t`.
 */
const uint8_t *howdah_request(uint32_t slot,
                              uintptr_t *used);

/*
 The extent with the body of the request in `slot`, which stands at its start. Null when it is not that request's.
 */
const uint8_t *howdah_extent(uint32_t slot,
                             uint32_t extent);

/*
 Claims the oldest waiting request: its slot, or -1.
 */
int64_t howdah_claim(uint16_t worker);

/*
 Says that the worker is at `slot`, which it has claimed: the slot's control words, for reading.
 */
const struct SlotControl *howdah_enter(uint16_t worker, uint32_t slot, uint64_t now);

/*
 Says that the application is about to be called with the request in `slot`, which from then on goes to no other worker.
 */
void howdah_begin(uint32_t slot);

/*
 Counts a request that has been served. 1 when the worker has served its quota.
 */
int32_t howdah_count(uint16_t worker);

/*
 Says why the worker will leave, a `Leave`.
 */
void howdah_give_reason(uint16_t worker, uint32_t reason);

/*
 Says that the worker leaves now, and why. It may have been woken for a request in that instant, or be one that the front
 counts on: when requests wait, the cell of another is returned, which is to come in its stead. The caller wakes the
 futex `WorkerCell::wake` of that cell.
 */
const struct WorkerCell *howdah_retire(uint16_t worker,
                                       uint32_t reason);

/*
 Says that the worker is about to sleep. 1 when it may, on the futex `WorkerCell::wake` while that reads 0.
 Call `howdah_leave_idle` afterwards in either case.
 */
int32_t howdah_enter_idle(uint16_t worker,
                          uint64_t now);

/*
 Says that the worker is awake.
 */
void howdah_leave_idle(uint16_t worker);

/*
 Nanoseconds for which an idle worker may look for work before it sleeps: never more than a millisecond.
 */
uint32_t howdah_spin(void);

/*
 Number of requests that wait, at most.
 */
uint64_t howdah_queue_length(void);

/*
 Room in the response ring of `slot`: `length` is set to the free bytes that lie in one run at the returned address.

 # Safety
 `length` must point to a `size_t`.
 */
uint8_t *howdah_room(uint32_t slot,
                     uintptr_t *length);

/*
 The names of the variables that are to be reported: each a byte of its length and so many bytes, a length of 0 behind
 the last. Null before `howdah_attach`.
 */
const uint8_t *howdah_report_names(void);

/*
 Where the values of those variables go: `REPORT_AREA` bytes.
 */
uint8_t *howdah_report(uint32_t slot);

/*
 Says that `length` bytes stand there.
 */
void howdah_reported(uint32_t slot, uint32_t length);

/*
 Adds the `length` bytes written at `howdah_room`'s address to the response.
 */
void howdah_produce(uint32_t slot, uintptr_t length);

/*
 A piece of a body has been made that nobody gets, since the response has none: look at `SlotControl::abandoned` behind it.
 */
void howdah_drop_piece(uint32_t slot,
                       uint64_t now);

/*
 Before sleeping for room: sets `seen` and returns 1 when the worker must sleep on `SlotControl::room` while that
 reads `seen`; 0 when there is room, or nobody wants the response.

 # Safety
 `seen` must point to a `uint32_t`.
 */
int32_t howdah_wait_for_room(uint32_t slot,
                             uint32_t *seen);

/*
 Sets the status and flags of the response; `content_length` -1 for none. The head may be sent once told.
 */
void howdah_set_head(uint32_t slot,
                     uint32_t status,
                     uint32_t flags,
                     uint32_t head_length,
                     int64_t content_length);

/*
 Adds flags to the response.
 */
void howdah_add_flags(uint32_t slot, uint32_t flags);

/*
 The ticket under which the request in `slot` was claimed.
 */
uint64_t howdah_ticket(uint32_t slot);

/*
 Says that `length` more bytes of the body are out, by the connection that the front has lent.
 */
void howdah_sent(uint32_t slot, uint64_t length);

/*
 Tells the front that `slot` has news. 1 when the caller must write to the eventfd of the slot's front thread.
 */
int32_t howdah_tell(uint32_t slot);

/*
 Ends the worker's part in `slot` and tells the front. 1 as with `howdah_tell`. The worker's cell says so only then: one
 that has begun a request, and not ended it, must be known by its cell, too, when it dies.
 */
int32_t howdah_finish(uint32_t slot,
                      uint16_t worker,
                      uint64_t now);

/*
 A new worker has this cell: no route is counted there yet.
 */
void howdah_forget_routes(uint16_t worker);

/*
 Gives the route `number` its name.

 # Safety
 `name` must point to `length` readable bytes.
 */
void howdah_name_route(uint16_t worker, uint32_t number, const uint8_t *name, uintptr_t length);

/*
 Counts a request of the route `number`, which has left so many Perl values and, when it was measured, so many bytes of
 private memory behind.
 */
void howdah_grow(uint16_t worker,
                 uint32_t number,
                 int64_t values,
                 bool measured,
                 int64_t bytes);

#endif  /* HOWDAH_WIRE_H */
