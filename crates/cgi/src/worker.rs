//! A worker: a thread that claims a request, runs a script for it, and claims the next. `host` starts one for each cell that
//! the front wants filled.

use std::os::fd::OwnedFd;
use std::time::Duration;

use howdah_sys::{futex_wait, futex_wake, monotonic_ns};
use howdah_wire::{Leave, Post};

use crate::exchange::{Bench, House};
use crate::pump::Outcome;
use crate::seat::Seat;

/// The longest sleep without a look around.
const NAP: Duration = Duration::from_secs(1);
/// The wait status of a worker that has left, and of one that was killed.
const LEFT: i32 = 0;
const KILLED: i32 = 9;

/// Works until it is to leave; gives the status that a process would have had.
pub(crate) fn work(house: &House, post: &Post, seat: &Seat, channels: &[OwnedFd]) -> i32 {
    let bench = Bench { house, post, seat, channels, pid: std::process::id() };
    let reason = loop {
        if seat.is_killed() {
            return KILLED;
        }
        if seat.must_leave() {
            break Leave::Signal;
        }
        if post.cell().must_leave() {
            break Leave::Drained;
        }
        let Some(work) = post.claim() else {
            sleep(post, seat);
            continue;
        };
        if bench.serve(work) == Outcome::Killed {
            return KILLED;
        }
        if post.cell().count() {
            break Leave::Quota;
        }
    };
    if let Some(other) = post.retire(reason as u32) {
        futex_wake(&other.wake, 1);
    }
    LEFT
}

/// Until the front has work or an order.
fn sleep(post: &Post, seat: &Seat) {
    if post.enter_idle(monotonic_ns()) && !seat.is_killed() && !seat.must_leave() {
        futex_wait(post.wake(), 0, NAP);
    }
    post.leave_idle();
}
