//! The control socket to one zygote: orders out one after another, reports in as they come.
//!
//! Two small tasks do the waiting, so the supervisor never blocks on a zygote that is busy forking.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use howdah_sys::channel::{set_nonblocking, tell_sender};
use howdah_sys::process::{Peer, may_be_child_of};
use howdah_sys::shortage::{is_short_of_files, may_pass_later, with_way_out};
use howdah_sys::{Pid, Signal, recv_from_peer, send_with_fds};
use howdah_wire::{Roster, ZYGOTE_PACKET};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::message::{Order, Report};
use crate::notice::{Mailbox, Notice};

/// Before a packet is sent or read again that the kernel has refused to pass.
const AGAIN: Duration = Duration::from_millis(100);

type Socket = Arc<AsyncFd<OwnedFd>>;

#[derive(Debug)]
struct Packet {
    order: Order,
    fds: Vec<OwnedFd>,
}

/// Tells a zygote what to do with one of its workers, which is a thread: there is no process to signal.
#[derive(Clone, Debug)]
pub(crate) struct Orders {
    outgoing: mpsc::UnboundedSender<Packet>,
    worker: u16,
}

impl Orders {
    /// False when the zygote is gone.
    pub(crate) fn signal(&self, signal: Signal) -> bool {
        let order = Order::Signal { worker: self.worker, signal };
        self.outgoing.send(Packet { order, fds: Vec::new() }).is_ok()
    }
}

/// Our end of a zygote's control socket. Dropping it closes the socket, which tells the zygote to leave.
#[derive(Debug)]
pub(crate) struct Link {
    outgoing: mpsc::UnboundedSender<Packet>,
    tasks: [AbortHandle; 2],
}

impl Link {
    /// Reads what the zygote of `generation` says into `mailbox`, up to [`Notice::ZygoteClosed`].
    /// Front threads learn process ids by the `roster`, sooner than the supervisor does.
    pub(crate) fn open(
        control: OwnedFd,
        generation: u32,
        mailbox: Mailbox,
        roster: Roster,
    ) -> io::Result<Self> {
        set_nonblocking(&control)?;
        tell_sender(&control)?;
        let socket = Arc::new(howdah_sys::watch(control)?);
        let (outgoing, packets) = mpsc::unbounded_channel();
        let reader = tokio::spawn(read(Arc::clone(&socket), generation, mailbox, roster));
        let writer = tokio::spawn(write(socket, packets));
        Ok(Self { outgoing, tasks: [reader.abort_handle(), writer.abort_handle()] })
    }

    /// Sends an order with its descriptors, after those before it.
    pub(crate) fn send(&self, order: Order, fds: Vec<OwnedFd>) {
        // A zygote that is gone is noticed by the reader.
        let _ = self.outgoing.send(Packet { order, fds });
    }

    /// For one of its workers.
    pub(crate) fn orders(&self, worker: u16) -> Orders {
        Orders { outgoing: self.outgoing.clone(), worker }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

async fn write(socket: Socket, mut packets: mpsc::UnboundedReceiver<Packet>) {
    while let Some(packet) = packets.recv().await {
        let fds: Vec<BorrowedFd<'_>> = packet.fds.iter().map(AsFd::as_fd).collect();
        let bytes = packet.order.encode(fds.len());
        let send = |fd: &OwnedFd| send_with_fds(fd, &bytes, &fds);
        let mut told = false;
        while let Err(error) = socket.async_io(Interest::WRITABLE, send).await {
            if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) {
                return;
            }
            // For now: too many descriptors are on their way, or there is no memory. The zygote waits for nothing but orders.
            if !std::mem::replace(&mut told, true) {
                tracing::error!("cannot give the zygote an order, which waits: {}", with_way_out(&error));
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
}

async fn read(socket: Socket, generation: u32, mailbox: Mailbox, roster: Roster) {
    let mut buffer = vec![0; ZYGOTE_PACKET];
    let (mut strange, mut told) = (0u64, false);
    loop {
        let received = socket.async_io(Interest::READABLE, |fd| recv_from_peer(fd, &mut buffer)).await;
        let (length, sender) = match received {
            Ok((0, _)) => break,
            Ok(packet) => packet,
            // It is gone, and has left an order unread, which the kernel tells first and once. What it has said before that is still there.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => continue,
            Err(error) => {
                if !std::mem::replace(&mut told, true) {
                    let way_out = with_way_out(&error);
                    tracing::error!(generation, "cannot read what the zygote says: {way_out}");
                }
                if !may_pass_later(&error) && !is_short_of_files(&error) {
                    break;
                }
                tokio::time::sleep(AGAIN).await;
                continue;
            }
        };
        match Report::decode(&buffer[..length]) {
            Some(Report::Spawned { worker, pid }) if !is_worker_of(sender, pid) => {
                let pid = pid.as_raw_pid();
                tracing::error!(
                    generation,
                    worker,
                    pid,
                    "the zygote calls a process its worker that is no child of it, which is left alone; what has the zygote's socket may have said so"
                );
            }
            Some(report) => {
                if let Report::Spawned { worker, pid } = report
                    && roster.pid(worker) == 0
                {
                    roster.forked(worker, pid.as_raw_pid().unsigned_abs());
                }
                let _ = mailbox.send(Notice::Zygote { generation, sender, report });
            }
            None => {
                strange += 1;
                // What has its socket may say so without end.
                if strange.is_power_of_two() {
                    tracing::warn!(
                        generation,
                        times = strange,
                        "the zygote, or what has its socket, says something that makes no sense"
                    );
                }
            }
        }
    }
    let _ = mailbox.send(Notice::ZygoteClosed { generation });
}

/// Workers are signalled, by a front that may be root's: nobody names one that is not the zygote's own child, or in a host the
/// host itself. Launchers and commands of logs are the front's children, as orphans are, but not that user's.
fn is_worker_of(sender: Option<Peer>, pid: Pid) -> bool {
    sender.is_none_or(|sender| sender.pid == pid || may_be_child_of(pid, sender))
}

#[cfg(test)]
mod tests {
    use howdah_sys::socketpair_seqpacket;
    use howdah_wire::ZygoteReport;

    use super::*;

    #[tokio::test]
    async fn last_words_are_heard_of_a_zygote_that_has_left_an_order_unread() {
        let (ours, theirs) = socketpair_seqpacket().unwrap();
        let (mailbox, mut inbox) = mpsc::unbounded_channel();
        let link = Link::open(ours, 7, mailbox, Roster::default()).unwrap();
        link.send(Order::Stop, Vec::new());
        let theirs = howdah_sys::watch(theirs).unwrap();
        drop(theirs.readable().await.unwrap());
        // Nothing is awaited between its last words and its end: both are there when the first is read.
        let mut words = [ZygoteReport::Failed as u32, 0, 0, 0].map(u32::to_ne_bytes).as_flattened().to_vec();
        words.extend_from_slice(b"it does not load");
        send_with_fds(theirs.get_ref(), &words, &[]).unwrap();
        drop(theirs);
        let Some(Notice::Zygote { report, .. }) = inbox.recv().await else { panic!("nothing was heard") };
        assert_eq!(report, Report::Failed("it does not load".to_owned()));
        assert!(matches!(inbox.recv().await, Some(Notice::ZygoteClosed { generation: 7 })));
    }
}
