//! A child whose end cannot be watched, since there is no number left for a descriptor. A program of its own: the limit is the
//! process's.
#![allow(clippy::unwrap_used, reason = "a test's panic is its report")]

use std::os::unix::process::CommandExt;
use std::process::Command;

use howdah_sys::process::{is_child, watch_end_or_kill};
use howdah_sys::{Pid, is_short_of_files};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn it_is_ended_and_leaves_no_zombie() {
    #[expect(clippy::zombie_processes, reason = "that it is waited for is what is tested")]
    let child = Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
    let pid = Pid::from_child(&child);
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..limit }).unwrap();
    let outcome = watch_end_or_kill(pid);
    setrlimit(Resource::Nofile, limit).unwrap();
    assert!(is_short_of_files(&outcome.unwrap_err()));
    assert!(!is_child(pid));
}
