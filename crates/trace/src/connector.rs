//! The kernel's process connector: a netlink socket on which it tells of forks, execs and ends (linux/cn_proc.h). It takes
//! CAP_NET_ADMIN. Numbers come; names are read from /proc, which is too late for a process that is gone by then.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::netlink::{CONNECTOR, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with, sockopt,
};

use crate::event::Event;

/// The connector's number for processes, and the group that is told.
const PROCESSES: u32 = 1;
/// Bytes before an event: a netlink head and the connector's.
const HEADS: usize = 16 + 20;
/// Room in the kernel for what comes while we read: some ten thousand events.
const BUFFER: usize = 8 << 20;

/// An open one.
#[derive(Debug)]
pub(crate) struct Connector(OwnedFd);

impl Connector {
    /// Listens.
    pub(crate) fn open() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(CONNECTOR))?;
        // More than an ordinary user may have where we are root, which is who gets this far.
        sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, BUFFER))?;
        bind(&socket, &SocketAddrNetlink::new(0, PROCESSES))?;
        send(&socket, &subscription(), SendFlags::empty())?;
        // Whoever is slower than a short program does not learn its name.
        let _ = rustix::process::nice(-10);
        Ok(Self(socket))
    }

    /// Whether something has come that was not read.
    pub(crate) fn has_more(&self) -> bool {
        let mut ready = [PollFd::new(&self.0, PollFlags::IN)];
        poll(&mut ready, Some(&Timespec::default())).is_ok_and(|count| count > 0)
    }

    /// What has come within that time, and when that was, in the kernel's nanoseconds.
    pub(crate) fn read(&self, patience: Duration) -> io::Result<Option<(u64, Event)>> {
        let mut ready = [PollFd::new(&self.0, PollFlags::IN)];
        let patience = Timespec::try_from(patience).map_err(io::Error::other)?;
        match poll(&mut ready, Some(&patience)) {
            Ok(0) | Err(Errno::INTR) => return Ok(None),
            other => other?,
        };
        let mut packet = [0; 1024];
        match recv(self.0.as_fd(), &mut packet, RecvFlags::DONTWAIT) {
            Ok((length, _)) => Ok(packet.get(..length).and_then(parse)),
            Err(Errno::NOBUFS) => Ok(Some((0, Event::Lost))),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Asks to be told.
fn subscription() -> Vec<u8> {
    const LISTEN: u32 = 1;
    const DONE: u16 = 3;
    let half = |number: u16| number.to_ne_bytes().to_vec();
    let word = |number: u32| number.to_ne_bytes().to_vec();
    let body = [word(PROCESSES), word(1), word(0), word(0), half(4), half(0), word(LISTEN)].concat();
    let length = u32::try_from(16 + body.len()).unwrap_or_default();
    [word(length), half(DONE), half(0), word(0), word(0), body].concat()
}

/// An event of the kernel's: its kind, processor, time, and process ids.
fn parse(packet: &[u8]) -> Option<(u64, Event)> {
    let event = packet.get(HEADS..)?;
    let word = |at: usize| Some(u32::from_ne_bytes(event.get(at..at + 4)?.try_into().ok()?));
    let at = u64::from_ne_bytes(event.get(8..16)?.try_into().ok()?);
    let (first, second) = (16, 20);
    let event = match word(0)? {
        // A thread has the process of its maker.
        0x1 if word(24)? == word(28)? => Event::Fork { parent: word(second)?, child: word(28)?, who: None },
        0x2 => Event::Exec { pid: word(second)?, who: None, path: None },
        // The last thread is the process.
        0x8000_0000 if word(first)? == word(second)? => Event::Exit { pid: word(second)? },
        _ => return None,
    };
    Some((at, event))
}

#[cfg(test)]
pub(crate) use tests::tell_exec;

#[cfg(test)]
mod tests {
    use rustix::net::socketpair;

    use super::*;

    impl Connector {
        /// Told by whoever has the other end.
        pub(crate) fn stand_in() -> (Self, OwnedFd) {
            let pair =
                socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None).unwrap();
            (Self(pair.0), pair.1)
        }
    }

    /// As the kernel tells that this process runs another program.
    pub(crate) fn tell_exec(kernel: &OwnedFd, pid: u32) {
        send(kernel, &packet(&[2, 0, 5, 0, pid, pid]), SendFlags::empty()).unwrap();
    }

    fn packet(words: &[u32]) -> Vec<u8> {
        let event: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        [vec![0; HEADS], event].concat()
    }

    #[test]
    fn the_kernels_events_are_taken_apart() {
        // Kind, processor, time in two halves; then thread and process, of the parent first.
        let fork = Event::Fork { parent: 7, child: 9, who: None };
        for (words, event) in [
            (&[1, 0, 5, 0, 7, 7, 9, 9][..], Some((5, fork.clone()))),
            (&[1, 0, 0, 1, 8, 7, 9, 9], Some((1 << 32, fork))),
            (&[1, 0, 0, 0, 7, 7, 9, 7], None),
            (&[2, 0, 5, 0, 9, 9], Some((5, Event::Exec { pid: 9, who: None, path: None }))),
            (&[0x8000_0000, 0, 5, 0, 9, 9, 0, 17], Some((5, Event::Exit { pid: 9 }))),
            (&[0x8000_0000, 0, 0, 0, 10, 9, 0, 17], None),
            (&[0, 0, 0, 0, 0], None),
            (&[2, 0, 0, 0, 9], None),
            (&[1, 0, 0, 0, 7, 7, 9], None),
            (&[], None),
        ] {
            assert_eq!(parse(&packet(words)), event, "{words:?}");
        }
        assert_eq!(parse(b"short"), None);
    }
}
