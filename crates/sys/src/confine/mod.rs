//! Giving up rights for good. What is given up here is given up by the calling thread and by all that it starts, so the
//! binary does it once, before there is a second thread, and after the [`launcher`](crate::launcher) was started.
//!
//! ```text
//! capabilities   root without the power of root
//! calls          system calls that a front has no use for (seccomp)
//! files          files and ports that it has no use for (Landlock)
//! rehearsal      whether trying that ends a process
//! ```

mod calls;
mod capabilities;
mod files;
mod rehearsal;

use std::io;

pub use calls::refuse_calls;
pub use capabilities::{Kept, keep_capabilities};
pub use files::{Files, Restricted, restrict_files};
pub use rehearsal::{is_filtered, survived};

/// No program that this process executes gets more rights than it has itself, which the kernel demands before what is
/// in this module.
///
/// # Errors
/// EINVAL before Linux 3.5.
pub fn no_new_privileges() -> io::Result<()> {
    Ok(rustix::thread::set_no_new_privs(true)?)
}
