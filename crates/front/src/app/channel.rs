//! The channel to each worker: what cannot go through shared memory, descriptors above all.
//!
//! A task per worker reads its packets. What it asks of us is answered at once; what is for the exchange whose request it
//! runs goes to that exchange's desk, and is answered from there.

use std::future::poll_fn;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use howdah_wire::{Message, MessageKind};
use tokio::io::unix::AsyncFd;

use crate::app::pool::Pool;
use crate::exchange::Mail;
use crate::repeated::Repeated;
use crate::slots::Spool;

/// The answer that means no.
const REFUSED: u64 = 1;

impl Pool {
    /// Starts to listen to `worker`.
    pub(crate) fn open_channel(&'static self, worker: u16, channel: OwnedFd) -> io::Result<()> {
        let channel = Arc::new(howdah_sys::watch(channel)?);
        self.channels.borrow_mut().insert(worker, Arc::clone(&channel));
        tokio::task::spawn_local(async move {
            while let Ok(true) = poll_fn(|context| self.poll_packet(worker, &channel, context)).await {}
        });
        Ok(())
    }

    /// Delivers one packet. False at the end of the stream.
    fn poll_packet(
        &self,
        worker: u16,
        channel: &AsyncFd<OwnedFd>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<bool>> {
        loop {
            let mut guard = ready!(channel.poll_read_ready(context))?;
            let packet = &mut self.services.packet.borrow_mut();
            match howdah_sys::recv_with_fds_left(channel.get_ref(), packet) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                Err(error) => return Poll::Ready(Err(error)),
                Ok((0, _)) => return Poll::Ready(Ok(false)),
                Ok((length, fds)) => {
                    self.deliver(worker, &packet[..length], fds);
                    return Poll::Ready(Ok(true));
                }
            }
        }
    }

    fn deliver(&self, worker: u16, packet: &[u8], fds: Vec<OwnedFd>) {
        let Some((message, rest)) = howdah_sys::decode_message(packet) else {
            static TOLD: Repeated = Repeated::new();
            if let Some(again) = TOLD.pass() {
                let length = packet.len();
                tracing::error!("worker {worker} sent a packet of {length} bytes that is no message{again}");
            }
            return;
        };
        let desk = self.dispatch.borrow().desk_served_by(worker, message.slot);
        if desk.is_some() && message.kind == MessageKind::Body as u32 {
            return self.answer_body(worker, message);
        }
        let mail = self.read(worker, &message, rest, fds);
        let taken = desk.zip(mail).is_some_and(|(desk, mail)| self.services.desks.post(desk, mail));
        if !taken && message.kind != MessageKind::File as u32 {
            self.answer(worker, Message { value: REFUSED, ..message }, &[], None);
        }
    }

    /// The worker wants the request body that lies in a file.
    fn answer_body(&self, worker: u16, message: Message) {
        let dispatch = self.dispatch.borrow();
        let file = dispatch.kept(message.slot).and_then(Spool::file);
        self.answer(worker, Message { value: u64::from(file.is_none()), ..message }, &[], file);
    }

    fn read(&self, worker: u16, message: &Message, rest: &[u8], fds: Vec<OwnedFd>) -> Option<Mail> {
        let kind = |kind: MessageKind| message.kind == kind as u32;
        if kind(MessageKind::Socket) {
            Some(Mail::Takeover { worker })
        } else if kind(MessageKind::Interim) {
            let status = u16::try_from(message.value)
                .ok()
                .filter(|status| (100..200).contains(status) && *status != 101)?;
            Some(Mail::Interim { worker, status, lines: rest.to_vec() })
        } else if kind(MessageKind::File) {
            // The kernel drops a descriptor that would be one too many.
            let permit = || self.services.room.permit_for_file();
            let file = fds.into_iter().next().and_then(|file| Some((file, permit()?)));
            Some(Mail::File { file, length: message.value })
        } else {
            None
        }
    }

    /// Answers a worker that wants the client's connection: with the descriptor and what was read from it, or no.
    pub(crate) fn answer_takeover(&self, worker: u16, slot: u32, lent: Option<(BorrowedFd<'_>, &[u8])>) {
        let value = if lent.is_some() { 0 } else { REFUSED };
        let message = Message { kind: MessageKind::Socket as u32, slot, value };
        let (fd, input) = lent.unzip();
        self.answer(worker, message, input.unwrap_or_default(), fd);
    }

    /// Answers a worker whose interim response was sent, or not.
    pub(crate) fn answer_interim(&self, worker: u16, slot: u32, sent: bool) {
        let message = Message { kind: MessageKind::Interim as u32, slot, value: u64::from(!sent) };
        self.answer(worker, message, &[], None);
    }

    /// Answers a worker. One that has died meanwhile does not miss it.
    fn answer(&self, worker: u16, message: Message, rest: &[u8], fd: Option<BorrowedFd<'_>>) {
        let Some(channel) = self.channels.borrow().get(&worker).map(Arc::clone) else { return };
        let mut packet = howdah_sys::encode_message(message).to_vec();
        packet.extend_from_slice(rest);
        if let Err(error) = howdah_sys::send_with_fds(channel.get_ref(), &packet, fd.as_slice()) {
            static TOLD: Repeated = Repeated::new();
            if let Some(again) = TOLD.pass() {
                tracing::warn!("cannot answer worker {worker}: {error}{again}");
            }
        }
    }
}
