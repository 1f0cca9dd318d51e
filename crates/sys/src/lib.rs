//! What Howdah asks of the kernel, each call wrapped once so that front and supervisor can forbid `unsafe`.
//!
//! ```text
//! confine     giving up rights: capabilities, system calls, files
//! orphan      parting with the process that one was started by
//! usage       memory that a process has for itself
//! launcher    starting processes, also for a front that may not do so itself
//! smaps       what the kernel says of a process's memory
//! recipe      what a process is to be, told before it is needed
//! oom         whom the kernel ends first where there is no more memory
//! privileges  becoming an ordinary user
//! activation  listeners handed over by systemd or Server::Starter
//! notify      readiness and status for systemd
//! daemon      the double fork of `--daemonize`, with the launcher waiting for readiness
//! channel     packets with descriptors beside them (SCM_RIGHTS), and `wire::Message` as bytes
//! remote      memory of another process, read from outside
//! process     subreaper, wait, signals through pidfd
//! allocator   the C library's memory, and a word where there is none
//! heap        what the C library keeps of freed memory, and the stack
//! memory      the sealed memfd behind the shared segment, and giving pages back
//! wake        eventfd towards a front thread, futex towards a worker
//! affinity    on which processors a thread may run
//! watch       descriptors in the event loop
//! tcp         socket options, and what a client has not taken yet
//! random      numbers that nobody can guess
//! descent     whose child a process is, by the kernel's own word
//! readable    a wait for one descriptor
//! shortage    what to raise where the kernel is short of something
//! clock       the clocks that nobody sets
//! patience    time of which nearly none passes while the process stands still
//! ```
//!
//! Errors are `std::io::Error` with the kernel's number; the caller knows what it was doing and says so.

pub mod confine;
pub mod orphan;
pub mod usage;
pub mod launcher;
mod moment;
mod smaps;
pub mod recipe;
pub mod oom;
pub mod privileges;
pub mod activation;
pub mod notify;
pub mod daemon;
pub mod channel;
pub mod remote;
pub mod process;
mod allocator;
pub mod heap;
pub mod memory;
pub mod wake;
pub mod affinity;
pub mod watch;
pub mod tcp;
mod socket_file;
pub mod random;
mod descent;
mod readable;
pub mod shortage;
mod clock;
mod patience;

pub use allocator::Allocator;
pub use channel::{
    MESSAGE_SIZE, decode_message, encode_message, recv_from_peer, recv_with_fds, recv_with_fds_left,
    send_until_passed, send_with_fds, socketpair_seqpacket, socketpair_stream,
};
pub use clock::{monotonic_ns, thread_ns};
pub use memory::{
    Retired, attach_segment, create_segment, discard, is_sealed, map_shared, memfd, renew_segment,
    tell_missing_page,
};
pub use moment::Moment;
pub use patience::Patience;
pub use process::{ExitKind, Pid, Signal, set_subreaper};
pub use random::random;
pub use shortage::is_short_of_files;
pub use socket_file::{is_listened_on, set_socket_mode};
pub use tcp::{defer_accept, outstanding};
pub use wake::{drain_eventfd, eventfd, futex_wait, futex_wake, signal_eventfd};
pub use watch::{watch, watch_readable, watch_shared};
