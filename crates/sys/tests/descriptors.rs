//! Descriptors between processes, and the memory and wake-ups behind them.
#![allow(clippy::unwrap_used, reason = "a test's panic is its report")]

use std::io::{ErrorKind, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use howdah_sys::channel::tell_sender;
use howdah_sys::launcher::Job;
use howdah_sys::process::{Peer, Process, adopt_fd, try_wait};
use howdah_sys::recipe::Recipe;
use howdah_sys::*;
use howdah_wire::{Message, Shape};

#[test]
fn a_packet_arrives_whole_with_its_descriptors_in_order() {
    let (ours, theirs) = socketpair_seqpacket().unwrap();
    let mut files: Vec<std::fs::File> = (0..3).map(|_| tempfile::tempfile().unwrap()).collect();
    for (number, file) in files.iter_mut().enumerate() {
        write!(file, "file {number}").unwrap();
        file.rewind().unwrap();
    }
    let fds: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    send_with_fds(&ours, b"three files", &fds).unwrap();
    send_with_fds(&ours, b"none", &[]).unwrap();
    let mut buffer = [0; 64];
    let (length, received) = recv_with_fds(&theirs, &mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"three files");
    let texts: Vec<_> = received.into_iter().map(read_all).collect();
    assert_eq!(texts, ["file 0", "file 1", "file 2"]);
    let (length, received) = recv_with_fds(&theirs, &mut buffer).unwrap();
    assert_eq!((length, received.len()), (4, 0));
}

fn read_all(fd: std::os::fd::OwnedFd) -> String {
    let mut text = String::new();
    std::fs::File::from(fd).read_to_string(&mut text).unwrap();
    text
}

#[test]
fn our_end_never_blocks_and_sees_the_peer_leave() {
    let (ours, theirs) = socketpair_seqpacket().unwrap();
    let mut buffer = [0; 8];
    assert_eq!(recv_with_fds(&ours, &mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
    let full = (0..100_000).find_map(|_| send_with_fds(&ours, &[0; 1024], &[]).err());
    assert_eq!(full.unwrap().kind(), ErrorKind::WouldBlock);
    let (fresh, gone) = socketpair_seqpacket().unwrap();
    drop(gone);
    assert_eq!(recv_with_fds(&fresh, &mut buffer).unwrap().0, 0);
    assert_eq!(send_with_fds(&fresh, b"x", &[]).unwrap_err().kind(), ErrorKind::BrokenPipe);
    drop(theirs);
}

#[test]
fn a_packet_longer_than_the_buffer_is_an_error_not_a_torn_message() {
    let (ours, theirs) = socketpair_seqpacket().unwrap();
    send_with_fds(&ours, &[7; 100], &[]).unwrap();
    assert_eq!(recv_with_fds(&theirs, &mut [0; 10]).unwrap_err().kind(), ErrorKind::InvalidData);
}

#[test]
fn a_packet_tells_who_sent_it() {
    let (ours, theirs) = socketpair_seqpacket().unwrap();
    tell_sender(&ours).unwrap();
    send_with_fds(&theirs, b"ready", &[]).unwrap();
    let (length, sender) = recv_from_peer(&ours, &mut [0; 16]).unwrap();
    let us = Peer { pid: rustix::process::getpid(), user: rustix::process::getuid().as_raw() };
    assert_eq!((length, sender), (5, Some(us)));
}

#[test]
fn messages_survive_the_trip_with_their_payload() {
    let message = Message { kind: 4, slot: 77, value: 103 };
    let packet = [&encode_message(message)[..], b"Link: </a>\r\n"].concat();
    let (decoded, payload) = decode_message(&packet).unwrap();
    assert_eq!((decoded.kind, decoded.slot, decoded.value), (4, 77, 103));
    assert_eq!(payload, b"Link: </a>\r\n");
    assert!(decode_message(&packet[..15]).is_none());
}

#[test]
fn a_sealed_memfd_keeps_its_size() {
    let file = std::fs::File::from(memfd(c"test", 3 * 4096).unwrap());
    assert!(file.set_len(4096).is_err() && file.set_len(1 << 20).is_err());
}

#[test]
fn discarded_memory_goes_back_and_reads_as_zeros() {
    let (fd, segment) = create_segment(Shape { fronts: 1, workers: 1, slots: 2 }).unwrap();
    let file = std::fs::File::from(fd);
    let pages = || file.metadata().unwrap().blocks();
    segment.slot_area(0).fill(1);
    segment.slot_area(1).fill(2);
    let before = pages();
    discard(segment.slot_area(0)).unwrap();
    // All of it where pages have 4 KiB.
    let (area, page) = (segment.slot_area(0), rustix::param::page_size());
    let (start, end) = (area.as_ptr().addr(), area.as_ptr().addr() + area.len());
    let whole = start.next_multiple_of(page) - start..end / page * page - start;
    assert_eq!(before - pages(), whole.len() as u64 / 512);
    assert!(area.iter().enumerate().all(|(at, &byte)| (byte == 0) == whole.contains(&at)));
    assert!(segment.slot_area(1).iter().all(|&byte| byte == 2));
    segment.slot_area(0).fill(1);
    discard(&mut segment.slot_area(0)[1..4097]).unwrap();
    assert_eq!(segment.slot_area(0)[4096], 1, "less than a page of it");
    discard(&mut segment.slot_area(0)[1..8193]).unwrap();
    let given_back = segment.slot_area(0).iter().filter(|&&byte| byte == 0).count();
    assert!(given_back <= 8192 && segment.slot_area(0)[0] == 1, "nothing beside it");
}

#[test]
fn a_segment_is_seen_by_whoever_maps_its_descriptor() {
    let shape = Shape { fronts: 1, workers: 2, slots: 4 };
    let (fd, segment) = create_segment(shape).unwrap();
    segment.workers()[1].quota.store(128, SeqCst);
    let base = map_shared(&fd, shape.total()).unwrap();
    // SAFETY: mapped just now from the segment's descriptor and never unmapped.
    let other = unsafe { howdah_wire::Segment::attach(base, shape.total()) }.unwrap();
    assert_eq!(other.workers()[1].quota.load(SeqCst), 128);
    assert!(create_segment(Shape { fronts: 0, workers: 1, slots: 1 }).is_err());
}

#[test]
fn an_eventfd_stays_readable_until_it_is_drained() {
    let fd = eventfd().unwrap();
    assert!(!drain_eventfd(&fd).unwrap());
    signal_eventfd(&fd).unwrap();
    signal_eventfd(&fd).unwrap();
    assert!(drain_eventfd(&fd).unwrap());
    assert!(!drain_eventfd(&fd).unwrap());
}

#[test]
fn a_futex_wakes_a_sleeper() {
    static WORD: AtomicU32 = AtomicU32::new(0);
    let sleeper = std::thread::spawn(|| {
        while WORD.load(SeqCst) == 0 {
            let _ = rustix::thread::futex::wait(&WORD, rustix::thread::futex::Flags::empty(), 0, None);
        }
    });
    std::thread::sleep(Duration::from_millis(50));
    WORD.store(1, SeqCst);
    futex_wake(&WORD, 1);
    sleeper.join().unwrap();
}

#[test]
fn only_the_named_descriptors_reach_a_child() {
    let (mut output, theirs) = std::io::pipe().unwrap();
    let (_, shown) = socketpair_seqpacket().unwrap();
    let (_, hidden) = socketpair_seqpacket().unwrap();
    let script =
        "exec >&3; echo \"$SAID\"; readlink /proc/$$/fd/4; for fd in /proc/$$/fd/*; do readlink $fd; done";
    let job = Job::here(Recipe::new("sh").args(["-c", script]).told_by("SAID"));
    let fds = vec![theirs.into(), shown.try_clone().unwrap()];
    let pid = job.start(Some("a value".as_ref()), None, fds).unwrap();
    let mut said = String::new();
    output.read_to_string(&mut said).unwrap();
    rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).unwrap();
    let name = |fd: &std::os::fd::OwnedFd| {
        let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(fd));
        std::fs::read_link(link).unwrap().into_os_string().into_string().unwrap()
    };
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[..2], ["a value", &name(&shown)], "{said}");
    assert_eq!(lines.iter().filter(|&&line| line == name(&shown)).count(), 2, "once as descriptor 4: {said}");
    assert!(!said.contains(&name(&hidden)), "{said}");
}

#[test]
fn a_program_that_is_not_there_is_told() {
    let (_, fd) = socketpair_seqpacket().unwrap();
    let fds = (0..20).map(|_| fd.try_clone().unwrap()).collect();
    let error = Job::here(Recipe::new("/no/such/program")).start(None, None, fds).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn a_child_is_signalled_and_waited_for() {
    let pid = Job::here(Recipe::new("sleep").args(["60"])).start(None, None, Vec::new()).unwrap();
    assert_eq!(try_wait(pid).unwrap(), None);
    let process = Process::open(pid);
    process.signal(Signal::TERM).unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    let status = std::iter::from_fn(|| (Instant::now() < end).then(|| try_wait(pid).unwrap()))
        .inspect(|_| std::thread::sleep(Duration::from_millis(5)))
        .flatten()
        .next();
    assert_eq!(status, Some(ExitKind::Signaled(15)));
    assert!(process.signal(Signal::TERM).is_err());
    assert!(try_wait(pid).is_err());
}

#[test]
fn a_program_with_threads_is_not_daemonized() {
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let other = std::thread::spawn(move || stopped.recv());
    let error = daemon::daemonize().unwrap_err();
    drop(stop);
    let _ = other.join();
    assert!(error.to_string().contains("thread"), "{error}");
}

#[test]
fn standard_streams_and_closed_descriptors_are_not_adopted() {
    assert!(adopt_fd(1).is_err());
    assert!(adopt_fd(9999).is_err());
}

#[test]
fn wait_statuses_read_as_the_shell_shows_them() {
    let cases = [
        (0, ExitKind::Exited(0), "exit status 0"),
        (256, ExitKind::Exited(1), "exit status 1"),
        (9, ExitKind::Signaled(9), "signal KILL"),
        (139, ExitKind::Signaled(11), "signal SEGV"),
        (34, ExitKind::Signaled(34), "signal 34"),
    ];
    for (raw, kind, text) in cases {
        assert_eq!(ExitKind::from_raw(raw), kind);
        assert_eq!(kind.to_string(), text);
    }
}
