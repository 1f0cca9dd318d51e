//! Packets between processes, with descriptors beside them.
//!
//! Three pairs use this: front thread and worker (`wire::Message`), supervisor and zygote (ASCII), an old front and
//! the new one that takes its listeners. SOCK_SEQPACKET keeps packets whole, and 0 bytes mean that the peer is gone.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use howdah_wire::Message;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use crate::process::Peer;
use crate::shortage::may_pass_later;

/// Most descriptors that one packet carries; the kernel's own limit.
pub const MAX_FDS: usize = 253;

/// A connected pair, both ends close-on-exec. The first is ours and non-blocking, the second is for the other process
/// and blocks.
///
/// # Errors
/// EMFILE or ENFILE when there are no descriptors left.
pub fn socketpair_seqpacket() -> io::Result<(OwnedFd, OwnedFd)> {
    pair(SocketType::SEQPACKET)
}

/// The same for bytes without bounds between them.
///
/// # Errors
/// As [`socketpair_seqpacket`].
pub fn socketpair_stream() -> io::Result<(OwnedFd, OwnedFd)> {
    pair(SocketType::STREAM)
}

fn pair(kind: SocketType) -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    set_nonblocking(&ours)?;
    Ok((ours, theirs))
}

/// Whether it is one end of such a pair. What another process hands over may be anything.
#[must_use]
pub fn is_seqpacket(fd: impl AsFd) -> bool {
    let domain = rustix::net::sockopt::socket_domain(&fd);
    domain == Ok(AddressFamily::UNIX)
        && rustix::net::sockopt::socket_type(&fd) == Ok(SocketType::SEQPACKET)
        && rustix::net::sockopt::socket_acceptconn(&fd) == Ok(false)
}

/// The same of a descriptor that this process may have been started with.
pub(crate) fn is_handed_seqpacket(number: RawFd) -> bool {
    // SAFETY: only used for the duration of the calls, which fail with EBADF when it is not open.
    is_seqpacket(unsafe { BorrowedFd::borrow_raw(number) })
}

/// Sends one packet with up to [`MAX_FDS`] descriptors; the caller keeps its own copies.
///
/// # Errors
/// WouldBlock when the peer does not read fast enough, BrokenPipe or ConnectionReset when it is gone, InvalidInput
/// for too many descriptors.
pub fn send_with_fds(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    if fds.len() > MAX_FDS {
        return Err(Errno::INVAL.into());
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    // An empty list needs no control message; the space fits MAX_FDS.
    let _ = fds.is_empty() || control.push(SendAncillaryMessage::ScmRights(fds));
    let parts = [IoSlice::new(bytes)];
    retry(|| rustix::net::sendmsg(&socket, &parts, &mut control, SendFlags::NOSIGNAL))?;
    Ok(())
}

/// Before a packet that the kernel has refused to pass is tried again.
pub(crate) const AGAIN: Duration = Duration::from_millis(10);

/// Sends one packet, as often as it takes while the kernel is short of something. For who may wait.
///
/// # Errors
/// BrokenPipe or ConnectionReset when the peer is gone.
pub fn send_until_passed(socket: impl AsFd, bytes: &[u8]) -> io::Result<()> {
    loop {
        match send_with_fds(&socket, bytes, &[]) {
            Err(error) if may_pass_later(&error) => std::thread::sleep(AGAIN),
            other => return other,
        }
    }
}

/// Receives one packet: its length and the descriptors that came with it, close-on-exec. Length 0: the peer is gone.
///
/// # Errors
/// WouldBlock when there is none on a non-blocking socket; InvalidData when the packet is longer than `buffer`, or its
/// descriptors did not find room;
/// ConnectionReset when the peer left packets of ours unread.
pub fn recv_with_fds(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let packet = receive(socket, buffer)?;
    if packet.lost {
        let lost = "descriptors of a packet are lost: the limit of open files may be too low (ulimit -n)";
        return Err(io::Error::new(io::ErrorKind::InvalidData, lost));
    }
    Ok((packet.length, packet.fds))
}

/// The same, but where this process has no number left for a descriptor (EMFILE elsewhere), the packet comes without.
///
/// # Errors
/// As [`recv_with_fds`].
pub fn recv_with_fds_left(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let packet = receive(socket, buffer)?;
    Ok((packet.length, packet.fds))
}

/// The same, but none in place of the descriptors where the kernel has dropped some.
pub(crate) fn recv_all_fds(
    socket: impl AsFd,
    buffer: &mut [u8],
) -> io::Result<(usize, Option<Vec<OwnedFd>>)> {
    let packet = receive(socket, buffer)?;
    Ok((packet.length, (!packet.lost).then_some(packet.fds)))
}

/// Receives one packet without descriptors, and who sent it. The sender is only known once [`tell_sender`] was called.
///
/// # Errors
/// As [`recv_with_fds`].
pub fn recv_from_peer(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Option<Peer>)> {
    let packet = receive(socket, buffer)?;
    Ok((packet.length, packet.sender))
}

/// From now on packets that arrive at `socket` bear the process id and the user of their sender.
///
/// # Errors
/// ENOTSOCK when it is no socket.
pub fn tell_sender(socket: impl AsFd) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_socket_passcred(socket, true)?)
}

/// Calls on `socket` return WouldBlock from now on instead of waiting.
///
/// # Errors
/// EBADF when it is not open.
pub fn set_nonblocking(socket: impl AsFd) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(socket, true)?)
}

struct Packet {
    length: usize,
    fds: Vec<OwnedFd>,
    sender: Option<Peer>,
    /// The kernel has dropped descriptors.
    lost: bool,
}

fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<Packet> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS), ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(buffer)];
    let message = retry(|| rustix::net::recvmsg(&socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC))?;
    let lost = message.flags.contains(rustix::net::ReturnFlags::CTRUNC);
    let mut packet = Packet { length: message.bytes, fds: Vec::new(), sender: None, lost };
    for part in control.drain() {
        match part {
            RecvAncillaryMessage::ScmRights(rights) => packet.fds.extend(rights),
            RecvAncillaryMessage::ScmCredentials(sender) => {
                packet.sender = Some(Peer { pid: sender.pid, user: sender.uid.as_raw() });
            }
            _ => {}
        }
    }
    if message.flags.contains(rustix::net::ReturnFlags::TRUNC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "packet longer than expected"));
    }
    Ok(packet)
}

fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other.map_err(Into::into),
        }
    }
}

/// Bytes of a [`Message`] on a channel; a payload may follow.
pub const MESSAGE_SIZE: usize = 16;

/// A message as it goes over the channel, in this machine's byte order.
#[must_use]
pub fn encode_message(message: Message) -> [u8; MESSAGE_SIZE] {
    let mut bytes = [0; MESSAGE_SIZE];
    bytes[..4].copy_from_slice(&message.kind.to_ne_bytes());
    bytes[4..8].copy_from_slice(&message.slot.to_ne_bytes());
    bytes[8..].copy_from_slice(&message.value.to_ne_bytes());
    bytes
}

/// A packet from a channel: the message and the payload behind it. None when it is cut short.
#[must_use]
pub fn decode_message(packet: &[u8]) -> Option<(Message, &[u8])> {
    let (kind, rest) = packet.split_first_chunk()?;
    let (slot, rest) = rest.split_first_chunk()?;
    let (value, payload) = rest.split_first_chunk()?;
    let message = Message {
        kind: u32::from_ne_bytes(*kind),
        slot: u32::from_ne_bytes(*slot),
        value: u64::from_ne_bytes(*value),
    };
    Some((message, payload))
}
