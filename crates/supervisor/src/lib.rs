//! Zygote generations and the life of workers.
//!
//! The binary starts a [`Supervisor`] for each pool, an application with all that is its own, in the runtime of front
//! thread 0. They know nothing of each other but whose children are whose ([`Family`]). Each starts the zygote (a Perl process with
//! the application loaded), has it fork workers, replaces those that leave, and changes generations on reload. It
//! never sees a request: the front learns of workers through [`Event`]s, workers learn of the supervisor's wishes
//! through their cell in shared memory. Everybody else talks to it through a [`Handle`].
//!
//! All state belongs to one task, which after each piece of news compares what is with what should be and takes the
//! next step ([`reconcile`]); there are no timers or callbacks that act by themselves.
//!
//! ```text
//! scale        more workers while requests wait, fewer when they idle: asks as an operator would
//! supervisor   the task: news in, next step
//! handle       the door for those who ask it something
//! news         what a piece of news changes
//!              the next steps:
//! reconcile    start workers that are missing, drain those too many, finish a reload
//! status       the state, for those who ask
//! trouble      what is wrong with it, in words
//! recycle      workers that have served long enough, or grown too large
//! replace      a segment that a worker has damaged
//! refork       a worker that leaves the next zygote behind
//! reap         children of ours: zygotes, and workers whose zygote died
//! departure    a worker is gone: what follows
//! shutdown     the end, graceful or at once
//! guest        one more worker, for somebody who looks at it
//! reload       a new generation beside the old one
//!              the state:
//! state        all of it
//! damage       segments that were damaged
//! watch        when counters and memory are looked at again
//! crew         cells, and the workers in them
//! generation   one load of the application
//! lease        how long a guest stays
//! promotion    what has become of a refork
//! zygote       its process
//! worker       one worker
//! link         the control socket to a zygote
//! end          how one ended, and whose doing that was
//! jitter       spreading what would coincide
//! backoff      waiting longer after each failure
//!              what is said:
//! event        what the fronts must know
//! notice       what the supervisor hears
//! call         what is asked through the handle
//! snapshot     what is answered: the state at one moment
//! counts       what came and went, and why
//! error        failures, for the operator
//! config       what the binary tells at start
//! message      orders to a zygote and its reports, as bytes
//! spec         what a zygote is to load, as it finds it
//! family       the processes that supervisors know
//! pid          process ids in the log
//! ```
#![forbid(unsafe_code)]

#[cfg(test)]
mod scene;

mod scale;
mod supervisor;
mod handle;
mod news;
mod reconcile;
mod status;
mod trouble;
mod recycle;
mod replace;
mod refork;
mod reap;
mod departure;
mod shutdown;
mod guest;
mod reload;
mod state;
mod damage;
mod watch;
mod crew;
mod generation;
mod lease;
mod promotion;
mod zygote;
mod worker;
mod link;
mod end;
mod jitter;
mod backoff;
mod event;
mod notice;
mod call;
mod snapshot;
mod counts;
mod error;
mod config;
mod message;
mod spec;
mod family;
mod pid;

#[cfg(test)]
mod vectors;

pub use call::Resized;
pub use config::{Config, Errors, Shared, Source, cells_for, most_workers};
pub use counts::{Cause, Counts};
pub use error::{ReloadError, StartError};
pub use event::{Event, Recovery};
pub use family::Family;
pub use handle::Handle;
pub use howdah_sys::{ExitKind, Pid, Signal};
pub use lease::Lease;
pub use message::Secret;
pub use scale::scale;
pub use snapshot::{Snapshot, WorkerInfo};
pub use spec::ZygoteSpec;
pub use state::Ended;
pub use supervisor::Supervisor;
pub use zygote::recipe;
