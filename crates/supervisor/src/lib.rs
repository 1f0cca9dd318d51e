//! Zygote generations and the life of workers.
//!
//! The binary starts one [`Supervisor`] in the runtime of front thread 0. It starts the zygote (a Perl process with
//! the application loaded), has it fork workers, replaces those that leave, and changes generations on reload. It
//! never sees a request: the front learns of workers through [`Event`]s, workers learn of the supervisor's wishes
//! through their cell in shared memory. Everybody else talks to it through a [`Handle`].
//!
//! All state belongs to one task, which after each piece of news compares what is with what should be and takes the
//! next step ([`reconcile`]); there are no timers or callbacks that act by themselves.
//!
//! ```text
//! supervisor   the task: news in, state, next step
//! reconcile    start workers that are missing, drain those too many, finish a reload
//! departure    a worker is gone: why, and what follows
//! scale        more workers while requests wait, fewer when they idle
//! recycle      workers that have served long enough, or grown too large
//! reload       a new generation beside the old one; a zygote that died
//! replace      a segment that a worker has damaged
//! reap         children of ours: zygotes, and workers whose zygote died
//! shutdown     the end, graceful or at once
//! tally        what came and went, and why
//! status       the state, for those who ask
//! trouble      what is wrong with it, in words
//! generation, pool, worker    the state
//! zygote, link, message       the zygote's process, its control socket, what is said on it
//! backoff, jitter             waiting longer after each failure; spreading what would coincide
//! config, event, handle, error    the doors
//! ```
#![forbid(unsafe_code)]

mod backoff;
mod config;
mod departure;
mod error;
mod event;
mod generation;
mod handle;
mod jitter;
mod link;
mod message;
mod pool;
mod reap;
mod reconcile;
mod recycle;
mod reload;
mod replace;
mod scale;
mod shutdown;
mod status;
mod supervisor;
mod tally;
mod trouble;
mod worker;
mod zygote;

pub use config::{Config, Errors, Shared, Source, ZygoteSpec, cells_for, most_workers};
pub use error::{ReloadError, StartError};
pub use event::{Event, Recovery};
pub use handle::{Handle, Snapshot, WorkerInfo};
pub use howdah_sys::{ExitKind, Pid, Signal};
pub use scale::scale;
pub use supervisor::{Ended, Supervisor};
pub use tally::{Cause, Counts};
pub use zygote::recipe;
