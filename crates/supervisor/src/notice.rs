//! What the supervisor hears, and where it is sent.

use std::io;

use howdah_sys::Pid;
use howdah_sys::process::Peer;
use tokio::sync::mpsc;

use crate::call::Call;
use crate::message::Report;

/// Where news for the supervisor goes.
pub(crate) type Mailbox = mpsc::UnboundedSender<Notice>;

/// News for the supervisor.
#[derive(Debug)]
pub(crate) enum Notice {
    /// Somebody calls.
    Call(Call),
    /// Every front thread has recovered the slots of this cell's dead worker.
    Recovered { index: u16 },
    /// A zygote has been started, or could not be.
    Started { generation: u32, outcome: io::Result<Pid> },
    /// A zygote speaks.
    Zygote { generation: u32, sender: Option<Peer>, report: Report },
    /// A zygote has closed its control socket; it said nothing more.
    ZygoteClosed { generation: u32 },
    /// Private memory of workers, in bytes, and one that lives and has none to be seen.
    Memory { found: Vec<(u16, Pid, u64)>, hidden: Option<(Pid, io::Error)> },
    /// The process of this worker has ended; its zygote may not know it yet.
    WorkerEnded { index: u16, pid: Pid },
}
