//! The channel to each worker: what cannot go through shared memory, descriptors above all.
//!
//! A task per worker reads its packets and leaves them as mail with the connection that they are about; the connection
//! answers from its own task, see [`Conn::open_mail`].

use std::future::poll_fn;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use howdah_http1::Version;
use howdah_http1::encode::status_line;
use howdah_metrics::ConnectionState;
use howdah_wire::{Message, MessageKind};
use tokio::io::unix::AsyncFd;

use crate::capacity::permit_for_file;
use crate::conn::{Conn, Exchange};
use crate::registry::Mail;
use crate::repeated::Repeated;
use crate::spool::Spool;
use crate::thread::here;

/// Largest packet: a message and the header lines of an interim response.
pub(crate) const PACKET: usize = 64 * 1024 + 64;
/// Packets that may wait for their connection. A worker in its right mind waits for the answer to each.
const MOST_MAIL: usize = 64;
/// The answer that means no.
const REFUSED: u64 = 1;

/// Starts to listen to `worker`.
pub(crate) fn open(worker: u16, channel: OwnedFd) -> io::Result<()> {
    let channel = Arc::new(howdah_sys::watch(channel)?);
    here().channels.borrow_mut().insert(worker, Arc::clone(&channel));
    tokio::spawn(listen(worker, channel));
    Ok(())
}

/// Forgets the channel of a dead worker. Its task ends at the end of the stream.
pub(crate) fn close(worker: u16) {
    here().channels.borrow_mut().remove(&worker);
}

async fn listen(worker: u16, channel: Arc<AsyncFd<OwnedFd>>) {
    while let Ok(true) = poll_fn(|context| poll_packet(worker, &channel, context)).await {}
}

/// Delivers one packet, by way of the buffer that the thread's channels share. False at the end of the stream.
fn poll_packet(worker: u16, channel: &AsyncFd<OwnedFd>, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
    loop {
        let mut guard = ready!(channel.poll_read_ready(context))?;
        let packet = &mut here().scratch.borrow_mut().packet;
        match howdah_sys::recv_with_fds_left(channel.get_ref(), packet) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
            Err(error) => return Poll::Ready(Err(error)),
            Ok((0, _)) => return Poll::Ready(Ok(false)),
            Ok((length, fds)) => {
                deliver(worker, &packet[..length], fds);
                return Poll::Ready(Ok(true));
            }
        }
    }
}

fn deliver(worker: u16, packet: &[u8], fds: Vec<OwnedFd>) {
    let Some((message, rest)) = howdah_sys::decode_message(packet) else {
        static TOLD: Repeated = Repeated::new();
        if let Some(again) = TOLD.pass() {
            let length = packet.len();
            tracing::error!("worker {worker} sent a packet of {length} bytes that is no message{again}");
        }
        return;
    };
    let thread = here();
    let conn = thread.dispatch.borrow().conn_served_by(worker, message.slot);
    let mail = read(worker, &message, rest, fds);
    let Some((conn, mail)) = conn.zip(mail) else {
        return answer(worker, Message { value: REFUSED, ..message }, &[], None);
    };
    let mut registry = thread.registry.borrow_mut();
    let entry = registry.get(conn);
    if entry.mail.len() >= MOST_MAIL {
        drop(registry);
        return answer(worker, Message { value: REFUSED, ..message }, &[], None);
    }
    entry.mail.push_back(mail);
    entry.wake();
}

fn read(worker: u16, message: &Message, rest: &[u8], fds: Vec<OwnedFd>) -> Option<Mail> {
    let kind = |kind: MessageKind| message.kind == kind as u32;
    if kind(MessageKind::Body) {
        Some(Mail::WantBody { worker })
    } else if kind(MessageKind::Socket) {
        Some(Mail::WantSocket { worker })
    } else if kind(MessageKind::Interim) {
        let status = u16::try_from(message.value)
            .ok()
            .filter(|status| (100..200).contains(status) && *status != 101)?;
        Some(Mail::Interim { worker, status, lines: rest.to_vec() })
    } else if kind(MessageKind::File) {
        // The kernel drops a descriptor that would be one too many.
        let file = fds.into_iter().next().and_then(|file| Some((file, permit_for_file()?)));
        Some(Mail::File { file, length: message.value })
    } else {
        None
    }
}

/// Answers a worker. One that has died meanwhile does not miss it.
fn answer(worker: u16, message: Message, rest: &[u8], fd: Option<BorrowedFd<'_>>) {
    let Some(channel) = here().channels.borrow().get(&worker).map(Arc::clone) else { return };
    let mut packet = howdah_sys::encode_message(message).to_vec();
    packet.extend_from_slice(rest);
    if let Err(error) = howdah_sys::send_with_fds(channel.get_ref(), &packet, fd.as_slice()) {
        static TOLD: Repeated = Repeated::new();
        if let Some(again) = TOLD.pass() {
            tracing::warn!("cannot answer worker {worker}: {error}{again}");
        }
    }
}

impl Conn {
    /// Does what the worker that runs our request asks for.
    pub(crate) async fn open_mail(&mut self, exchange: Exchange, mail: Mail) {
        let reply = |kind: MessageKind, value: u64| Message { kind: kind as u32, slot: exchange.slot, value };
        match mail {
            Mail::WantBody { worker } => {
                let dispatch = here().dispatch.borrow();
                let file = dispatch.kept(exchange.slot).and_then(Spool::file);
                answer(worker, reply(MessageKind::Body, u64::from(file.is_none())), &[], file);
            }
            Mail::WantSocket { worker } => self.lend(worker, exchange.slot),
            Mail::Interim { worker, status, lines } => {
                let sent = self.send_interim(exchange.version, status, &lines).await;
                answer(worker, reply(MessageKind::Interim, u64::from(!sent)), &[], None);
            }
            Mail::File { .. } | Mail::Lost { .. } => {}
        }
    }

    /// Lets the application have the connection, with all that we have read behind its request. We read nothing while a
    /// worker has a request, so the rest of what the client has sent is still in the kernel; from now on it is not ours.
    fn lend(&mut self, worker: u16, slot: u32) {
        let reply = |value: u64| Message { kind: MessageKind::Socket as u32, slot, value };
        let Ok(fd) = self.socket.fd() else { return answer(worker, reply(REFUSED), &[], None) };
        answer(worker, reply(0), &std::mem::take(&mut self.input), Some(fd));
        self.lent = true;
        self.enter(ConnectionState::Detached);
    }

    /// Sends an interim response. HTTP/1.0 has none (RFC 9110 15.2): then it is dropped.
    async fn send_interim(&mut self, version: Version, status: u16, lines: &[u8]) -> bool {
        if version == Version::Http10 {
            return true;
        }
        status_line(&mut self.output, version, status);
        self.output.extend_from_slice(lines);
        self.output.extend_from_slice(b"\r\n");
        self.flush().await
    }
}
