//! What front and zygote say to each other, in bytes: an order is one [`OrderRecord`], a report is one [`ReportRecord`]
//! and perhaps text behind it. docs/zygote-protocol.md tells when each is sent.
//!
//! The front writes orders and reads reports in `crates/supervisor/src/message.rs`, the zygote does the reverse in
//! `xs/message.c`, by the header that is generated from this file. Nobody else puts one together or takes one apart.

/// Longest packet on the control socket, in bytes.
pub const ZYGOTE_PACKET: usize = 64 * 1024;
/// Letters of the secret by which the front knows what Perl itself writes to standard error.
pub const ZYGOTE_SECRET: usize = 16;
/// Order flag of an attach: the titles of workers tell the request that they run.
pub const ZYGOTE_TITLES: u32 = 1;
/// Order flag of an attach: the last descriptor becomes standard error, and `secret` marks what Perl writes there.
pub const ZYGOTE_ERRORS: u32 = 2;

/// Signals have the numbers 1 to this.
pub const ZYGOTE_SIGNALS: u32 = 64;

/// What the front orders.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZygoteOrder {
    /// Map this segment, know these front threads, load the application. The first order, and sent once.
    Attach = 1,
    /// Workers that are forked from now on use this segment.
    Segment = 2,
    /// Fork a worker.
    Spawn = 3,
    /// Fork no more, and exit when the last worker has.
    Stop = 4,
    /// Do with a worker as a signal to its process would. For a zygote whose workers are threads.
    Signal = 5,
}

/// What a zygote reports.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZygoteReport {
    /// The application is loaded. Status: how many templates it has compiled. Text: the version of perl.
    Ready = 1,
    /// It does not load, and the zygote exits. Text: Perl's message.
    Failed = 2,
    /// A worker was forked.
    Spawned = 3,
    /// A worker has ended, or could not be forked.
    Exited = 4,
    /// Text for the log.
    Log = 5,
}

/// An order, in this machine's byte order. What its kind does not use is 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct OrderRecord {
    /// A [`ZygoteOrder`].
    pub kind: u32,
    /// How many descriptors come with it.
    pub descriptors: u32,
    /// Spawn, signal: the worker's cell.
    pub worker: u32,
    /// Attach: the load of the application that this zygote is for.
    pub generation: u32,
    /// Attach: [`ZYGOTE_TITLES`] and [`ZYGOTE_ERRORS`]. Signal: its number.
    pub flags: u32,
    /// Attach with [`ZYGOTE_ERRORS`].
    pub secret: [u8; ZYGOTE_SECRET],
}

/// A report, in this machine's byte order; text of the kinds that have any stands behind it. What its kind does not use
/// is 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ReportRecord {
    /// A [`ZygoteReport`].
    pub kind: u32,
    /// Spawned, exited: the worker's cell.
    pub worker: u32,
    /// Spawned, exited: its process id; 0 in an exited when there was no process.
    pub pid: i32,
    /// Exited: as from waitpid(2). Ready: how many templates were compiled before the fork.
    pub status: i32,
}
