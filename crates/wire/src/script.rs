//! What the host of CGI scripts and the zygote of one script say to each other, in bytes: a launch is one [`LaunchRecord`]
//! and text, with three descriptors; a report is one [`ScriptRecord`] and perhaps text. docs/cgi-zygote.md tells when each
//! is sent.
//!
//! The host writes launches and reads reports in `crates/cgi/src/start/fork/message.rs`, the zygote does the reverse in
//! `xs-fork/packet.c`, by the header that is generated from this file.

/// Longest packet on the socket between them, in bytes. A request whose environment does not fit is executed instead.
pub const SCRIPT_PACKET: usize = 256 * 1024;
/// Descriptors of a launch: standard input, output and error.
pub const SCRIPT_DESCRIPTORS: usize = 3;
/// The kind of a launch. A change of its form changes the number.
pub const SCRIPT_LAUNCH: u32 = 1;

/// What the zygote of a script reports.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptReport {
    /// Its module fits this perl, which is about to compile the script.
    Loaded = 1,
    /// The script is compiled. Text: the files that it has loaded, each with a NUL behind it.
    Ready = 2,
    /// It does not compile, and the zygote exits. Text: as with ready.
    Failed = 3,
    /// It cannot be forked, and the zygote exits: it is to be executed. Text: why.
    Unfit = 4,
    /// A process was forked. Value: its id.
    Forked = 5,
    /// None was forked. Value: the kernel's number for the reason.
    Refused = 6,
}

/// A process of the script is wanted, in this machine's byte order. Behind it stand `length` bytes: first the arguments,
/// then the variables of the environment as `NAME=VALUE`, each with a NUL behind it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LaunchRecord {
    /// [`SCRIPT_LAUNCH`].
    pub kind: u32,
    /// How many arguments there are.
    pub arguments: u32,
    /// How many variables there are.
    pub variables: u32,
    /// Bytes of text.
    pub length: u32,
}

/// A report, in this machine's byte order; text of the kinds that have any stands behind it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ScriptRecord {
    /// A [`ScriptReport`].
    pub kind: u32,
    /// Forked: the process id. Refused: an errno. Else 0.
    pub value: i32,
}
