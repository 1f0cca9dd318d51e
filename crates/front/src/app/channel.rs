//! The channel to each worker: what cannot go through shared memory, descriptors above all.
//!
//! A task per worker reads its packets. What it asks of us is answered at once; what is for the exchange whose request it
//! runs goes to that exchange's desk, and is answered from there.

use std::future::poll_fn;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::{fmt, io};

use howdah_sys::shortage::{WithWayOut, may_pass_later, what_to_raise_to_pass, with_way_out};
use howdah_wire::{Message, MessageKind};
use tokio::io::unix::AsyncFd;

use crate::app::pool::{Asked, Pool};
use crate::capacity::Permit;
use crate::exchange::Mail;
use crate::repeated::Repeated;
use crate::reports::WorkerAnswer;
use crate::slots::Spool;

/// Bytes of a sentence that says why there is no answer.
const SENTENCE: usize = 1024;
/// The answer that means no.
const REFUSED: u64 = 1;
/// Before what the kernel has refused is tried again.
const AGAIN: Duration = Duration::from_millis(100);
/// How often to pass a body that the kernel refuses to pass, before its worker hears that it gets none.
const TRIES: u32 = 50;

impl Pool {
    /// Starts to listen to `worker`. It gets requests, and answers, whether or not the kernel lets us watch one more descriptor, and
    /// what it says meanwhile waits in the channel: so that is tried until it works, or the worker has ended.
    pub(crate) fn open_channel(&'static self, worker: u16, channel: impl Into<Arc<OwnedFd>>) {
        let channel = channel.into();
        // What the one before it has asked is no business of this one.
        self.asked.borrow_mut().retain(|_, asked| asked.worker != worker);
        self.channels.borrow_mut().insert(worker, Arc::clone(&channel));
        let Err(error) = self.listen(worker, &channel) else { return };
        let name = &self.setup.name;
        let error = with_way_out(&error);
        tracing::error!(
            "cannot watch the channel of worker {worker} of {name}, which is tried again: {error}"
        );
        tokio::task::spawn_local(async move {
            loop {
                tokio::time::sleep(AGAIN).await;
                if !self.is_channel_of(worker, &channel) {
                    return;
                }
                if self.listen(worker, &channel).is_ok() {
                    return tracing::info!("the channel of worker {worker} of {name} is watched");
                }
            }
        });
    }

    fn is_channel_of(&self, worker: u16, channel: &Arc<OwnedFd>) -> bool {
        self.channels.borrow().get(&worker).is_some_and(|known| Arc::ptr_eq(known, channel))
    }

    fn listen(&'static self, worker: u16, channel: &Arc<OwnedFd>) -> io::Result<()> {
        let channel = howdah_sys::watch_shared(Arc::clone(channel))?;
        tokio::task::spawn_local(async move {
            let ended = loop {
                match poll_fn(|context| self.poll_packet(worker, &channel, context)).await {
                    Ok(true) => {}
                    ended => break ended,
                }
            };
            if let Err(error) = ended {
                let name = &self.setup.name;
                tracing::error!(
                    "cannot read the channel of worker {worker} of {name}, which is to leave: {error}"
                );
                // It would wait for ever for what nobody hears. At the end of its channel it leaves, and another takes its place.
                let _ = rustix::net::shutdown(channel.get_ref(), rustix::net::Shutdown::Both);
            }
        });
        Ok(())
    }

    /// Delivers one packet. False at the end of the stream.
    fn poll_packet(
        &'static self,
        worker: u16,
        channel: &AsyncFd<Arc<OwnedFd>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<bool>> {
        loop {
            let mut guard = ready!(channel.poll_read_ready(context))?;
            let packet = &mut self.services.packet.borrow_mut();
            match howdah_sys::recv_with_fds_left(channel.get_ref(), packet) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                // It is gone, and has left an answer of ours unread, which the kernel tells first and once. What it has said
                // before that is still there, and may be the file of a response.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
                // Longer than there is room for, and gone with that.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    tell_no_message(worker, format_args!("more than {}", packet.len()));
                    return Poll::Ready(Ok(true));
                }
                Err(error) => return Poll::Ready(Err(error)),
                Ok((0, _)) => return Poll::Ready(Ok(false)),
                Ok((length, fds)) => {
                    self.deliver(worker, &packet[..length], fds);
                    return Poll::Ready(Ok(true));
                }
            }
        }
    }

    fn deliver(&'static self, worker: u16, packet: &[u8], fds: Vec<OwnedFd>) {
        let Some((message, rest)) = howdah_sys::decode_message(packet) else {
            return tell_no_message(worker, format_args!("{}", packet.len()));
        };
        let kind = MessageKind::read(message.kind);
        if kind == Some(MessageKind::Answer) {
            return self.pass_answer(worker, message, rest, fds);
        }
        let desk = self.dispatch.borrow().desk_served_by(worker, message.slot);
        let mail = match kind {
            Some(MessageKind::Body) if desk.is_some() => return self.answer_body(worker, message),
            Some(MessageKind::Socket) => Some(Mail::Takeover),
            Some(MessageKind::Interim) => interim(message.value, rest),
            Some(MessageKind::File) => Some(Mail::File { file: self.counted(fds), length: message.value }),
            _ => None,
        };
        let taken = desk.zip(mail).is_some_and(|(desk, mail)| self.services.desks.post(desk, mail));
        if kind == Some(MessageKind::File) {
            return;
        }
        if taken {
            self.asked.borrow_mut().insert(message.slot, Asked { worker, kind: message.kind });
        } else {
            self.answer(worker, Message { value: REFUSED, ..message }, &[], None);
        }
    }

    /// What a worker says to an inquiry is the program's. If that has no room, nobody has asked.
    fn pass_answer(&self, worker: u16, message: Message, rest: &[u8], fds: Vec<OwnedFd>) {
        let Message { slot: inquiry, value: word, .. } = message;
        let Ok(place) = self.setup.answers.try_reserve() else { return };
        let text = rest[..rest.len().min(SENTENCE)].to_vec();
        let file = self.counted(fds);
        place.send(WorkerAnswer { worker, inquiry, word, text, file });
    }

    /// The worker wants the request body that lies in a file. Where the kernel does not pass it now, it may in a moment.
    fn answer_body(&'static self, worker: u16, message: Message) {
        let Err(error) = self.pass_body(worker, message) else { return };
        if !waits(&error) || !self.late.borrow_mut().insert(worker) {
            return self.refuse_body(worker, message, &error);
        }
        let channel = self.channels.borrow().get(&worker).map(Arc::clone);
        tokio::task::spawn_local(async move {
            let mut passed = Err(error);
            for _ in 0..TRIES {
                tokio::time::sleep(AGAIN).await;
                let waits_for_it =
                    channel.as_ref().is_some_and(|channel| self.is_channel_of(worker, channel));
                passed = if waits_for_it { self.pass_body(worker, message) } else { Ok(()) };
                if !passed.as_ref().is_err_and(waits) {
                    break;
                }
            }
            self.late.borrow_mut().remove(&worker);
            if let Err(error) = passed {
                self.refuse_body(worker, message, &error);
            }
        });
    }

    fn pass_body(&self, worker: u16, message: Message) -> io::Result<()> {
        let (channels, dispatch) = (self.channels.borrow(), self.dispatch.borrow());
        let file = dispatch.kept(message.slot).and_then(Spool::file).ok_or(io::ErrorKind::NotFound)?;
        let channel = channels.get(&worker).ok_or(io::ErrorKind::BrokenPipe)?;
        howdah_sys::send_with_fds(
            &**channel,
            &howdah_sys::encode_message(Message { value: 0, ..message }),
            &[file],
        )
    }

    fn refuse_body(&self, worker: u16, message: Message, error: &io::Error) {
        if error.kind() != io::ErrorKind::NotFound {
            tell_unanswered(worker, error);
        }
        self.answer(worker, Message { value: REFUSED, ..message }, &[], None);
    }

    /// The descriptor that came beside a packet, if there is room for it. The kernel drops one that would be one too many.
    fn counted(&self, fds: Vec<OwnedFd>) -> Option<(OwnedFd, Permit)> {
        let file = fds.into_iter().next()?;
        Some((file, self.services.room.permit_for_file()?))
    }

    /// Answers a worker that wants the client's connection: with the descriptor and what was read from it, or no. False when
    /// it still waits.
    pub(crate) fn answer_takeover(
        &self,
        worker: u16,
        slot: u32,
        lent: Option<(BorrowedFd<'_>, &[u8])>,
    ) -> bool {
        let value = if lent.is_some() { 0 } else { REFUSED };
        let message = Message { kind: MessageKind::Socket as u32, slot, value };
        let (fd, input) = lent.unzip();
        self.answer(worker, message, input.unwrap_or_default(), fd)
    }

    /// Answers a worker that would send the body of its response by itself: with the connection, or no. False when it has
    /// not heard yes.
    pub(crate) fn answer_loan(
        &self,
        worker: u16,
        slot: u32,
        ticket: u64,
        lent: Option<BorrowedFd<'_>>,
    ) -> bool {
        let message = Message { kind: MessageKind::Loan as u32, slot, value: ticket };
        let has_it = lent.is_some() && self.answer(worker, message, &[], lent);
        if !has_it {
            self.answer(worker, message, &[], None);
        }
        has_it
    }

    /// Answers a worker whose application may have no connection now; `value` says why.
    pub(crate) fn refuse_takeover(&self, worker: u16, slot: u32, asked: MessageKind, value: u64) {
        self.answer(worker, Message { kind: asked as u32, slot, value }, &[], None);
    }

    /// Answers a worker whose interim response was sent, or not.
    pub(crate) fn answer_interim(&self, worker: u16, slot: u32, sent: bool) {
        let message = Message { kind: MessageKind::Interim as u32, slot, value: u64::from(!sent) };
        self.answer(worker, message, &[], None);
    }

    /// Nobody will answer what was asked of the exchange in `slot`: its client has left, or has an answer of ours.
    pub(crate) fn refuse_asked(&self, slot: u32) {
        if self.asked.borrow().is_empty() {
            return; // as at the end of nearly every request, which need not look for its slot
        }
        let asked = self.asked.borrow_mut().remove(&slot);
        if let Some(Asked { worker, kind }) = asked {
            self.answer(worker, Message { kind, slot, value: REFUSED }, &[], None);
        }
    }

    /// Answers a worker. One that has died meanwhile does not miss it, and nobody needs to hear of that here. True when the answer
    /// is on its way. The kernel may refuse to pass a descriptor, where too many are on their way already; then the worker still waits.
    fn answer(&self, worker: u16, message: Message, rest: &[u8], fd: Option<BorrowedFd<'_>>) -> bool {
        let Some(channel) = self.channels.borrow().get(&worker).map(Arc::clone) else { return false };
        let mut packet = howdah_sys::encode_message(message).to_vec();
        packet.extend_from_slice(rest);
        let sent = howdah_sys::send_with_fds(&*channel, &packet, fd.as_slice());
        let is_late =
            fd.is_none() && sent.as_ref().is_err_and(waits) && self.answer_later(worker, channel, packet);
        let mut asked = self.asked.borrow_mut();
        if (sent.is_ok() || is_late)
            && asked.get(&message.slot) == Some(&Asked { worker, kind: message.kind })
        {
            asked.remove(&message.slot);
        }
        drop(asked);
        if let Err(error) = &sent
            && !is_late
        {
            tell_unanswered(worker, error);
        }
        sent.is_ok() || is_late
    }

    /// Sends an answer that the kernel does not take now, which its worker waits for. One at a time: who asks for more has not read
    /// the one before. False when that is so.
    fn answer_later(&self, worker: u16, channel: Arc<OwnedFd>, packet: Vec<u8>) -> bool {
        if !self.late.borrow_mut().insert(worker) {
            return false;
        }
        let late = Rc::clone(&self.late);
        tokio::task::spawn_local(async move {
            loop {
                tokio::time::sleep(AGAIN).await;
                // One that is gone does not miss it.
                if !howdah_sys::send_with_fds(&*channel, &packet, &[]).is_err_and(|error| waits(&error)) {
                    break;
                }
            }
            late.borrow_mut().remove(&worker);
        });
        true
    }
}

fn tell_unanswered(worker: u16, error: &io::Error) {
    static TOLD: Repeated = Repeated::new();
    if error.kind() != io::ErrorKind::BrokenPipe
        && let Some(again) = TOLD.pass()
    {
        let error = WithWayOut(error, what_to_raise_to_pass(error));
        tracing::warn!("cannot answer worker {worker}: {error}{again}");
    }
}

/// Whether a packet is taken later: its reader has room then, or the kernel has memory.
fn waits(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || may_pass_later(error)
}

fn tell_no_message(worker: u16, length: fmt::Arguments<'_>) {
    static TOLD: Repeated = Repeated::new();
    if let Some(again) = TOLD.pass() {
        tracing::error!("worker {worker} sent a packet of {length} bytes that is no message{again}");
    }
}

fn interim(status: u64, lines: &[u8]) -> Option<Mail> {
    let status = u16::try_from(status).ok().filter(|status| (100..200).contains(status))?;
    Some(Mail::Interim { status, lines: lines.to_vec() })
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use rustix::io::pread;

    use super::*;
    use crate::app::{Job, PACKET};
    use crate::capacity::Kind;
    use crate::config::Config;
    use crate::exchange::Exchange;
    use crate::reports::Loss;
    use crate::response::Event;
    use crate::sample::heard::heard;
    use crate::sample::world::{World, run};

    /// A worker's end of its channel.
    struct Channel {
        worker: u16,
        end: OwnedFd,
    }

    impl Channel {
        fn new(world: &World, worker: u16) -> Self {
            let (ours, end) = howdah_sys::socketpair_seqpacket().unwrap();
            rustix::io::ioctl_fionbio(&end, true).unwrap();
            world.pool().open_channel(worker, ours);
            Self { worker, end }
        }

        fn send(&self, kind: u32, slot: u32, value: u64, rest: &[u8]) {
            let packet = [&howdah_sys::encode_message(Message { kind, slot, value })[..], rest].concat();
            howdah_sys::send_with_fds(&self.end, &packet, &[]).unwrap();
        }

        /// The next answer: its kind, its value, what is behind it, and its descriptor.
        fn answer(&self) -> Option<(u32, u64, Vec<u8>, Option<OwnedFd>)> {
            let mut packet = vec![0; PACKET_MOST];
            let (length, fds) = howdah_sys::recv_with_fds(&self.end, &mut packet).ok()?;
            let (message, rest) = howdah_sys::decode_message(&packet[..length])?;
            Some((message.kind, message.value, rest.to_vec(), fds.into_iter().next()))
        }

        /// What the next answer says, 0 for yes and 1 for no.
        fn word(&self) -> Option<u64> {
            self.answer().map(|answer| answer.1)
        }
    }

    const PACKET_MOST: usize = 4096;
    const BODY: u32 = MessageKind::Body as u32;
    const SOCKET: u32 = MessageKind::Socket as u32;
    const FILE: u32 = MessageKind::File as u32;
    const INTERIM: u32 = MessageKind::Interim as u32;
    const ANSWER: u32 = MessageKind::Answer as u32;

    /// A request that worker 0 runs, in slot 0, and the channels of two workers.
    async fn running(world: &World) -> (Job, Exchange, Channel, Channel) {
        let (job, exchange) = world.ask("/a");
        world.worker.begin(&world.worker.claim().unwrap());
        let channels = (Channel::new(world, 0), Channel::new(world, 1));
        world.run(false).await;
        (job, exchange, channels.0, channels.1)
    }

    fn next(job: &mut Job, exchange: &Exchange) -> Option<Event> {
        match job.poll(exchange, &Context::from_waker(Waker::noop())) {
            Poll::Ready(event) => Some(event),
            Poll::Pending => None,
        }
    }

    #[test]
    fn what_cannot_be_is_refused_and_the_channel_goes_on() {
        run(async {
            let world = World::new(Config::default());
            let (mut job, exchange, own, other) = running(&world).await;
            // Who says what of which slot, with which value, and the answer.
            let cases = [
                (&own, 99, 0, 0, Some(1)),
                (&own, SOCKET, 1, 0, Some(1)),
                (&own, SOCKET, u32::MAX, 0, Some(1)),
                (&other, SOCKET, 0, 0, Some(1)),
                (&other, INTERIM, 0, 103, Some(1)),
                (&other, BODY, 0, 0, Some(1)),
                (&own, BODY, 0, 0, Some(1)),
                (&own, INTERIM, 0, 99, Some(1)),
                (&own, INTERIM, 0, 200, Some(1)),
                (&own, INTERIM, 0, 65_639, Some(1)),
                (&other, FILE, 0, 5, None),
                (&own, FILE, 3, 5, None),
            ];
            for packet in [&b"short"[..], &vec![0; PACKET + 1]] {
                howdah_sys::send_with_fds(&own.end, packet, &[]).unwrap();
            }
            for (channel, kind, slot, value, answer) in cases {
                channel.send(kind, slot, value, b"");
                // What is behind it is answered in any case.
                channel.send(77, 0, 0, b"");
                let mut answers = Vec::new();
                world
                    .until(|| {
                        answers.extend(channel.answer().map(|answer| (answer.0, answer.1)));
                        (answers.last() == Some(&(77, 1))).then_some(())
                    })
                    .await;
                let mut expected: Vec<_> = answer.map(|value| (kind, value)).into_iter().collect();
                expected.push((77, 1));
                let case = format!("worker {}, kind {kind}, slot {slot}, value {value}", channel.worker);
                assert_eq!(answers, expected, "{case}");
                assert!(next(&mut job, &exchange).is_none(), "{case}: nobody hears of it");
            }
        });
    }

    #[test]
    fn a_channel_that_cannot_be_watched_is_tried_again_until_its_worker_ends() {
        run(async {
            let world = World::new(Config::default());
            // The kernel refuses to watch the same descriptor twice (EEXIST).
            let open = |worker| {
                let (ours, end) = howdah_sys::socketpair_seqpacket().unwrap();
                rustix::io::ioctl_fionbio(&end, true).unwrap();
                let ours = Arc::new(ours);
                let first = howdah_sys::watch_readable(Arc::clone(&ours)).unwrap();
                let told = heard(|| world.pool().open_channel(worker, ours));
                assert!(
                    told[0].contains(&format!("cannot watch the channel of worker {worker} of ")),
                    "{told:?}"
                );
                (Channel { worker, end }, first)
            };
            let (heard_late, first) = open(0);
            let (gone, other) = open(1);
            heard_late.send(77, 0, 0, b"");
            world.pool().answer_interim(0, 5, true);
            let told = heard_late.answer().map(|answer| (answer.0, answer.1));
            assert_eq!(told, Some((INTERIM, 0)), "it is answered all the same");
            world.pool().worker_gone(1, Loss::Exited);
            drop((first, other));
            let answer = world.until(|| heard_late.answer()).await.map(|answer| (answer.0, answer.1));
            assert_eq!(answer, Some((77, 1)), "what it has said meanwhile is heard");
            tokio::time::sleep(AGAIN * 3).await;
            assert!(!world.pool().channels.borrow().contains_key(&gone.worker), "its channel is closed");
            assert_eq!(howdah_sys::recv_with_fds(&gone.end, &mut [0; 8]).unwrap().0, 0);
        });
    }

    #[test]
    fn an_answer_that_the_kernel_does_not_take_is_sent_later_and_one_more_is_not_kept() {
        run(async {
            let world = World::new(Config::default());
            let own = Channel::new(&world, 0);
            let message = |value| Message { kind: INTERIM, slot: 0, value };
            let say = |value| world.pool().answer(0, message(value), &[], None);
            let channel = Arc::clone(&world.pool().channels.borrow()[&0]);
            let fits = |&value: &u64| {
                howdah_sys::send_with_fds(&*channel, &howdah_sys::encode_message(message(value)), &[]).is_ok()
            };
            let count = (0..).take_while(fits).count() as u64;
            assert_eq!((say(count), say(count + 1)), (true, false));
            let mut heard = Vec::new();
            let all = world.until(|| {
                heard.extend(own.word());
                (heard.len() as u64 > count).then_some(())
            });
            assert!(all.await.is_some() && heard.into_iter().eq(0..=count));
            assert!(say(count + 2), "the next one finds room");
        });
    }

    #[test]
    fn a_worker_gets_the_body_that_lies_in_a_file() {
        run(async {
            let world = World::new(Config::default());
            let (_job, _exchange, own, _other) = running(&world).await;
            let file = world.pool().file_for_body(b"large".to_vec()).await.unwrap();
            world.pool().dispatch.borrow_mut().keep(0, Spool::File(file));
            own.send(BODY, 0, 0, b"");
            let answer = world.until(|| own.answer()).await;
            let (kind, value, rest, file) = answer.expect("an answer");
            let mut content = [0; 8];
            assert_eq!(pread(file.expect("a file"), &mut content, 0), Ok(5));
            assert_eq!((kind, value, rest, &content[..5]), (BODY, 0, vec![], &b"large"[..]));
        });
    }

    #[test]
    fn a_body_that_the_kernel_does_not_pass_now_is_passed_later() {
        run(async {
            let world = World::new(Config::default());
            let (_job, _exchange, own, _other) = running(&world).await;
            let file = world.pool().file_for_body(b"large".to_vec()).await.unwrap();
            world.pool().dispatch.borrow_mut().keep(0, Spool::File(file));
            let channel = Arc::clone(&world.pool().channels.borrow()[&0]);
            let packet = howdah_sys::encode_message(Message { kind: 77, slot: 0, value: 0 });
            while howdah_sys::send_with_fds(&*channel, &packet, &[]).is_ok() {}
            own.send(BODY, 0, 0, b"");
            world.run(false).await;
            let answer = world.until(|| own.answer().filter(|answer| answer.0 == BODY)).await;
            let (_, value, _, file) = answer.expect("an answer");
            assert!(value == 0 && file.is_some(), "{value} {file:?}");
            assert!(world.until(|| world.pool().late.borrow().is_empty().then_some(())).await.is_some());
        });
    }

    #[test]
    fn the_connection_is_lent_with_what_was_read_from_it_or_not() {
        for lends in [true, false] {
            run(async {
                let world = World::new(Config::default());
                let (mut job, exchange, own, _other) = running(&world).await;
                own.send(SOCKET, 0, 0, b"");
                let event = world.until(|| next(&mut job, &exchange)).await;
                assert!(matches!(event, Some(Event::Takeover)));
                let lent = howdah_sys::eventfd().unwrap();
                if lends {
                    assert!(job.lend(std::os::fd::AsFd::as_fd(&lent), b"rest"));
                } else {
                    job.keep_connection();
                }
                let (kind, value, rest, fd) = own.answer().expect("an answer");
                let expected: (u64, &[u8]) = if lends { (0, b"rest") } else { (1, b"") };
                assert_eq!((kind, (value, rest.as_slice()), fd.is_some()), (SOCKET, expected, lends));
            });
        }
    }

    #[test]
    fn interim_responses_go_to_the_connection_and_what_became_of_them_back() {
        run(async {
            let world = World::new(Config::default());
            let (mut job, exchange, own, _other) = running(&world).await;
            let most = vec![b'x'; 64 * 1024];
            for (status, sent, word) in [(100, true, 0), (103, true, 0), (199, false, 1)] {
                own.send(INTERIM, 0, status, &most);
                let event = world.until(|| next(&mut job, &exchange)).await;
                let Some(Event::Interim { status: said, lines }) = event else {
                    panic!("{status} has not come")
                };
                assert!(u64::from(said) == status && lines == most);
                job.interim_sent(sent);
                assert_eq!(own.answer().map(|answer| (answer.0, answer.1)), Some((INTERIM, word)));
            }
        });
    }

    #[test]
    fn a_file_comes_with_its_descriptor_or_there_is_none_for_it() {
        for with_file in [true, false] {
            run(async {
                let world = World::new(Config::default());
                let (mut job, exchange, own, _other) = running(&world).await;
                let packet = howdah_sys::encode_message(Message { kind: FILE, slot: 0, value: 70 });
                let file = howdah_sys::eventfd().unwrap();
                let fds = [std::os::fd::AsFd::as_fd(&file)];
                howdah_sys::send_with_fds(&own.end, &packet, if with_file { &fds } else { &[] }).unwrap();
                own.send(INTERIM, 0, 103, b"");
                let event = world.until(|| next(&mut job, &exchange)).await;
                let event = format!("{event:?}");
                assert!(event.contains(if with_file { "Interim" } else { "NoDescriptor" }), "{event}");
                let permits = std::iter::from_fn(|| world.capacity.enter(Kind::File)).take(3).count();
                assert_eq!(permits, 3);
            });
        }
    }

    #[test]
    fn what_a_worker_says_to_an_inquiry_goes_to_the_program_as_far_as_that_has_room() {
        run(async {
            let mut world = World::new(Config::default());
            let (_job, _exchange, _own, other) = running(&world).await;
            let packet = howdah_sys::encode_message(Message { kind: ANSWER, slot: 1, value: 7 << 32 });
            let file = howdah_sys::eventfd().unwrap();
            howdah_sys::send_with_fds(&other.end, &packet, &[std::os::fd::AsFd::as_fd(&file)]).unwrap();
            for word in 1..9 {
                other.send(ANSWER, 0, word, &[b'x'; 2000]);
                world.run(false).await;
            }
            other.send(77, 0, 0, b"");
            assert_eq!(world.until(|| other.word()).await, Some(1), "the channel goes on");
            let mut answers = std::iter::from_fn(|| world.answers.try_recv().ok());
            let first = answers.next().unwrap();
            assert_eq!((first.worker, first.inquiry, first.word), (1, 1, 7 << 32));
            assert!(first.file.is_some() && first.text.is_empty());
            let rest: Vec<_> = answers.map(|it| (it.word, it.text.len(), it.file.is_some())).collect();
            assert_eq!(rest, [(1, 1024, false), (2, 1024, false), (3, 1024, false)]);
        });
    }

    #[test]
    fn a_worker_that_asks_without_end_is_refused_and_so_is_one_that_is_late() {
        run(async {
            let world = World::new(Config::default());
            let (mut job, exchange, own, _other) = running(&world).await;
            // The kernel holds few at a time.
            for _ in 0..64 {
                own.send(SOCKET, 0, 0, b"");
                world.run(false).await;
            }
            own.send(77, 0, 0, b"");
            assert_eq!(
                world.until(|| own.answer()).await.map(|answer| answer.0),
                Some(77),
                "none is refused"
            );
            own.send(SOCKET, 0, 0, b"");
            assert_eq!(world.until(|| own.word()).await, Some(1), "one too many");
            assert_eq!(std::iter::from_fn(|| next(&mut job, &exchange)).count(), 64);
            exchange.answer();
            own.send(SOCKET, 0, 0, b"");
            assert_eq!(world.until(|| own.word()).await, Some(1), "the response has begun");
        });
    }

    #[test]
    fn whoever_waits_for_an_answer_is_refused_when_nobody_is_left_to_give_it() {
        for (kind, value) in [(SOCKET, 0), (INTERIM, 103)] {
            for is_opened in [false, true] {
                run(async {
                    let world = World::new(Config::default());
                    let (mut job, exchange, own, _other) = running(&world).await;
                    own.send(kind, 0, value, b"");
                    world.run(false).await;
                    assert_eq!(is_opened, is_opened && next(&mut job, &exchange).is_some());
                    drop((job, exchange));
                    let answer = world.until(|| own.answer()).await.map(|answer| (answer.0, answer.1));
                    assert_eq!(answer, Some((kind, 1)), "kind {kind}, opened: {is_opened}");
                    assert!(own.answer().is_none(), "once");
                });
            }
        }
    }

    #[test]
    fn that_a_worker_has_died_before_its_answer_is_told_by_others() {
        run(async {
            let world = World::new(Config::default());
            let (job, _exchange, own, _other) = running(&world).await;
            drop(own);
            assert_eq!(heard(|| job.interim_sent(true)), [""; 0]);
        });
    }

    #[test]
    fn who_has_its_answer_has_no_other_and_who_comes_behind_one_that_asked_has_none() {
        run(async {
            let world = World::new(Config::default());
            let (mut job, exchange, own, _other) = running(&world).await;
            own.send(INTERIM, 0, 103, b"");
            assert!(world.until(|| next(&mut job, &exchange)).await.is_some());
            job.interim_sent(true);
            assert_eq!(world.until(|| own.word()).await, Some(0));
            own.send(INTERIM, 0, 103, b"");
            world.run(false).await;
            let next = Channel::new(&world, 0);
            drop((job, exchange));
            world.run(false).await;
            assert!(own.answer().is_none() && next.answer().is_none());
        });
    }

    /// Whether nobody listens to that worker any more, after a bounded time.
    async fn is_left(world: &World, worker: u16) -> bool {
        let left = || Arc::strong_count(&world.pool().channels.borrow()[&worker]) == 1;
        world.until(|| left().then_some(())).await.is_some()
    }

    #[test]
    fn what_a_worker_has_said_counts_also_when_it_has_left_an_answer_unread() {
        run(async {
            let world = World::new(Config::default());
            let (mut job, exchange, own, _other) = running(&world).await;
            job.interim_sent(true);
            own.send(INTERIM, 0, 103, b"");
            drop(own);
            let event = world.until(|| next(&mut job, &exchange)).await;
            assert!(matches!(event, Some(Event::Interim { status: 103, .. })), "{event:?}");
            assert!(is_left(&world, 0).await);
        });
    }

    #[test]
    fn a_worker_that_is_gone_is_not_missed() {
        run(async {
            let world = World::new(Config::default());
            let (job, _exchange, own, _other) = running(&world).await;
            drop(own);
            assert!(is_left(&world, 0).await);
            job.interim_sent(true);
            world.pool().channels.borrow_mut().clear();
            job.interim_sent(true);
        });
    }
}
