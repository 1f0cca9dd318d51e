//! What arrives when this process has no number left for a descriptor. A program of its own: the limit is the process's.
#![allow(clippy::unwrap_used, reason = "a test's panic is its report")]

use std::io::ErrorKind;
use std::os::fd::AsFd;

use howdah_sys::{recv_with_fds, recv_with_fds_left, send_with_fds, socketpair_seqpacket};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn the_packet_comes_without_it_or_is_an_error_as_the_caller_prefers() {
    let (ours, theirs) = socketpair_seqpacket().unwrap();
    for _ in 0..2 {
        send_with_fds(&ours, b"a file", &[std::io::stdin().as_fd()]).unwrap();
    }
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..limit }).unwrap();
    let mut buffer = [0; 64];
    let (length, fds) = recv_with_fds_left(&theirs, &mut buffer).unwrap();
    let error = recv_with_fds(&theirs, &mut buffer).unwrap_err();
    setrlimit(Resource::Nofile, limit).unwrap();
    assert_eq!((&buffer[..length], fds.len()), (&b"a file"[..], 0));
    assert_eq!(error.kind(), ErrorKind::InvalidData);
}
