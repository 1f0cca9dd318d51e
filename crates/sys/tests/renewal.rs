//! A segment that takes another's place, where the system refuses it. Alone in its process, whose limit of open files it sets.

use std::fs::{File, read_to_string};
use std::os::fd::OwnedFd;

use howdah_sys::{create_segment, renew_segment};
use howdah_wire::Shape;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn mapped() -> usize {
    read_to_string("/proc/self/maps")
        .unwrap_or_default()
        .lines()
        .filter(|line| line.contains("memfd:howdah"))
        .count()
}

#[test]
fn nothing_is_left_of_a_segment_for_whose_descriptors_there_was_no_room() {
    let (_fd, old) = create_segment(Shape { fronts: 1, workers: 1, slots: 2 }).unwrap();
    assert_eq!(mapped(), 1);
    let next = OwnedFd::from(File::open("/dev/null").unwrap());
    let limit = getrlimit(Resource::Nofile);
    // For itself and one of its copies.
    let first = u64::try_from(std::os::fd::AsRawFd::as_raw_fd(&next)).unwrap();
    drop(next);
    setrlimit(Resource::Nofile, Rlimit { current: Some(first + 2), ..limit }).unwrap();
    let refused: Vec<bool> = (0..3).map(|_| renew_segment(&old, 2).is_err()).collect();
    let (_, copies, _) = renew_segment(&old, 1).unwrap();
    setrlimit(Resource::Nofile, limit).unwrap();
    assert_eq!(refused, [true; 3]);
    assert_eq!(copies.len(), 1);
    assert_eq!(mapped(), 2, "the old one, and the one that was had in the end");
}
