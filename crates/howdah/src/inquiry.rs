//! What an operator's command asks of running workers, and what they say.
//!
//! A [`Conversation`] writes a word into the cells of some workers (`wire`'s `inquiry`) and wakes those that sleep. Each
//! answers between two of its requests, or when it leaves, with a file or a sentence, by the front thread that has its
//! channel. There is one conversation at a time for each inquiry of an application; when it is dropped, nothing is wanted
//! any more. What a worker says counts once, and only when it was asked and has not been replaced by another.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use howdah_front::WorkerAnswer;
use howdah_supervisor::{Handle, WorkerInfo};
use howdah_sys::{Pid, futex_wake};
use howdah_wire::{INQUIRY_SERIALS, Inquiry, Segment, WorkerPhase, inquiry_serial, inquiry_word};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, UnboundedSender, unbounded_channel};

/// How often to look who is still there.
const LOOK: Duration = Duration::from_millis(100);
/// Looks that find a worker gone before its answer is given up: it may be on its way.
const LOOKS: u8 = 5;

/// The workers of a host have nobody whom to ask.
const SCRIPTS: &str = "there is nothing to ask: it runs CGI scripts, each in a process that ends with its request; those of \
    mode keep stay, and can be asked";

/// Who takes the answers to one inquiry.
struct Taker {
    inquiry: u32,
    serial: u32,
    /// Workers that have not answered.
    awaited: Vec<u16>,
    inbox: UnboundedSender<WorkerAnswer>,
}

/// See the module. There is one for each application.
pub(crate) struct Inquiries {
    handle: Handle,
    takers: Mutex<Takers>,
}

#[derive(Default)]
struct Takers {
    serial: u32,
    list: Vec<Taker>,
}

impl fmt::Debug for Inquiries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inquiries").finish_non_exhaustive()
    }
}

impl Inquiries {
    /// For the workers of this supervisor, who answer there.
    pub(crate) fn start(handle: Handle, mut answers: Receiver<WorkerAnswer>) -> Arc<Self> {
        let inquiries = Arc::new(Self { handle, takers: Mutex::default() });
        let desk = Arc::clone(&inquiries);
        tokio::spawn(async move {
            while let Some(answer) = answers.recv().await {
                if answer.inquiry == Inquiry::Zygote as u32 {
                    desk.pass_zygote(answer);
                } else {
                    desk.takers.lock().unwrap_or_else(PoisonError::into_inner).pass(answer);
                }
            }
        });
        inquiries
    }

    /// A worker leaves a zygote behind, or says why not. The supervisor knows whether it was asked.
    fn pass_zygote(&self, WorkerAnswer { worker, text, file, .. }: WorkerAnswer) {
        let control = file.map(|(control, _permit)| control);
        let why = || match text.is_empty() {
            true => "the front has no descriptor to spare".to_owned(),
            false => String::from_utf8_lossy(&text).trim_end().replace(char::is_control, " "),
        };
        self.handle.leave_zygote(worker, control.ok_or_else(why));
    }

    /// Asks the workers that `chosen` picks of those that serve.
    ///
    /// # Errors
    /// A sentence, when the same inquiry is under way already, or there is nobody to be asked.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        inquiry: Inquiry,
        what: u32,
        chosen: impl Fn(&[WorkerInfo]) -> Vec<u16>,
    ) -> Result<Conversation, String> {
        let serving: Vec<WorkerInfo> =
            self.handle.snapshot().await.workers.into_iter().filter(is_serving).collect();
        if serving.iter().any(|worker| worker.is_thread) {
            return Err(SCRIPTS.to_owned());
        }
        let chosen = chosen(&serving);
        let asked: Vec<Asked> =
            serving.iter().filter(|worker| chosen.contains(&worker.index)).map(Asked::new).collect();
        if asked.is_empty() {
            return Err(nobody(&serving));
        }
        let (inbox, answers) = unbounded_channel();
        let awaited = asked.iter().map(|worker| worker.index).collect();
        let mut takers = self.takers.lock().unwrap_or_else(PoisonError::into_inner);
        let serial = takers.enter(inquiry, awaited, inbox)?;
        drop(takers);
        let segment = self.handle.segment();
        let conversation =
            Conversation { inquiries: Arc::clone(self), segment, inquiry, serial, asked, answers };
        conversation.say(what);
        Ok(conversation)
    }
}

/// One that will take requests, or does.
fn is_serving(worker: &WorkerInfo) -> bool {
    !worker.draining && matches!(worker.phase, WorkerPhase::Idle | WorkerPhase::Busy)
}

/// One that a signal or a debugger has stopped, which does not come to an answer.
pub(crate) fn is_stopped(worker: &WorkerInfo) -> bool {
    worker.pid.is_some_and(howdah_sys::process::is_stopped)
}

fn nobody(serving: &[WorkerInfo]) -> String {
    let numbers: Vec<String> = serving.iter().map(|worker| worker.index.to_string()).collect();
    match &numbers[..] {
        [] => "no worker serves at the moment: see howdah status".to_owned(),
        [only] => format!("there is no such worker: the only one has the number {only}"),
        _ => format!("there is no such worker: those that serve have the numbers {}", numbers.join(", ")),
    }
}

impl Takers {
    fn enter(
        &mut self,
        inquiry: Inquiry,
        awaited: Vec<u16>,
        inbox: UnboundedSender<WorkerAnswer>,
    ) -> Result<u32, String> {
        if self.list.iter().any(|taker| taker.inquiry == inquiry as u32) {
            return Err("another such command is under way: wait for its end, or end it".to_owned());
        }
        self.serial = self.serial % INQUIRY_SERIALS + 1;
        self.list.push(Taker { inquiry: inquiry as u32, serial: self.serial, awaited, inbox });
        Ok(self.serial)
    }

    /// What nobody has asked for is dropped.
    fn pass(&mut self, answer: WorkerAnswer) {
        let serial = inquiry_serial(answer.word);
        let mut takers = self.list.iter_mut();
        let Some(taker) = takers.find(|it| it.inquiry == answer.inquiry && it.serial == serial) else {
            return;
        };
        let Some(at) = taker.awaited.iter().position(|&worker| worker == answer.worker) else { return };
        taker.awaited.swap_remove(at);
        let _ = taker.inbox.send(answer);
    }
}

/// A worker that was asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// Its cell.
    pub(crate) index: u16,
    pub(crate) pid: Option<Pid>,
    /// How often it was looked for in vain.
    missed: u8,
    /// Nothing more will come of it.
    over: bool,
}

impl Asked {
    fn new(worker: &WorkerInfo) -> Self {
        Self { index: worker.index, pid: worker.pid, missed: 0, over: false }
    }

    /// For sentences.
    pub(crate) fn named(&self) -> String {
        let pid = self.pid.map_or_else(String::new, |pid| format!(" (pid {})", pid.as_raw_nonzero()));
        format!("worker {}{pid}", self.index)
    }
}

/// What comes of an inquiry.
#[derive(Debug)]
pub(crate) enum Heard {
    /// A worker has answered.
    Answer(Asked, WorkerAnswer),
    /// A worker is gone that had not.
    Gone(Asked),
}

/// An inquiry under way.
pub(crate) struct Conversation {
    inquiries: Arc<Inquiries>,
    segment: Segment,
    inquiry: Inquiry,
    serial: u32,
    asked: Vec<Asked>,
    answers: UnboundedReceiver<WorkerAnswer>,
}

impl Conversation {
    /// Tells those that have not answered what is wanted from now on.
    pub(crate) fn say(&self, what: u32) {
        self.put(inquiry_word(self.serial, what), self.asked.iter().filter(|worker| !worker.over));
    }

    fn put<'a>(&self, word: u64, workers: impl Iterator<Item = &'a Asked>) {
        for worker in workers {
            let Some(cell) = self.segment.workers().get(usize::from(worker.index)) else { continue };
            cell.ask(self.inquiry, word);
            if self.segment.queue().cells.mark_woken(worker.index, cell) {
                futex_wake(&cell.wake, 1);
            }
        }
    }

    /// The memory that they share with us.
    pub(crate) fn segment(&self) -> &Segment {
        &self.segment
    }

    /// Those that were asked.
    pub(crate) fn asked(&self) -> &[Asked] {
        &self.asked
    }

    /// Those that have not answered.
    pub(crate) fn silent(&self) -> impl Iterator<Item = &Asked> {
        self.asked.iter().filter(|worker| !worker.over)
    }

    /// What comes next; none when all have answered or are gone.
    pub(crate) async fn next(&mut self) -> Option<Heard> {
        while self.silent().next().is_some() {
            match tokio::time::timeout(LOOK, self.answers.recv()).await {
                Ok(Some(answer)) => {
                    let worker = self.asked.iter_mut().find(|it| it.index == answer.worker)?;
                    worker.over = true;
                    return Some(Heard::Answer(*worker, answer));
                }
                Ok(None) => return None,
                Err(_) => {
                    if let Some(gone) = self.look().await {
                        return Some(Heard::Gone(gone));
                    }
                }
            }
        }
        None
    }

    /// One that has not answered and never will.
    async fn look(&mut self) -> Option<Asked> {
        let living = self.inquiries.handle.snapshot().await.workers;
        let replaced = !self.inquiries.handle.segment().is(&self.segment);
        for worker in self.asked.iter_mut().filter(|worker| !worker.over) {
            let lives = living.iter().any(|it| it.index == worker.index && it.pid == worker.pid);
            worker.missed = if lives && !replaced { 0 } else { worker.missed + 1 };
            worker.over = worker.missed > LOOKS;
        }
        self.asked.iter().find(|worker| worker.missed > LOOKS).copied().inspect(|gone| {
            // It is told once.
            self.asked.iter_mut().filter(|worker| worker.index == gone.index).for_each(|it| it.missed = 0);
        })
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        let mut takers = self.inquiries.takers.lock().unwrap_or_else(PoisonError::into_inner);
        takers.list.retain(|taker| taker.serial != self.serial);
        drop(takers);
        self.put(0, self.asked.iter());
    }
}

/// The bytes of a file that a worker has sent, `most` of them at most. Blocks for as long as memory takes to copy: what is
/// no memory, or may still change, is not read.
///
/// # Errors
/// When it is another thing than a sealed memfd, is longer, or is cut short.
pub(crate) fn read_sealed(file: &File, most: u64) -> io::Result<Vec<u8>> {
    let refused = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why);
    if !howdah_sys::is_sealed(file) {
        return Err(refused("it is no sealed memory"));
    }
    let length = file.metadata()?.len();
    if length > most {
        return Err(refused("it is too long"));
    }
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| refused("it is too long"))?];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn answer(worker: u16, inquiry: u32, serial: u32) -> WorkerAnswer {
        WorkerAnswer { worker, inquiry, word: inquiry_word(serial, 7), text: Vec::new(), file: None }
    }

    #[test]
    fn an_answer_counts_once_and_only_from_whom_it_was_asked() {
        let mut takers = Takers::default();
        let (inbox, mut answers) = unbounded_channel();
        let serial = takers.enter(Inquiry::Heap, vec![1, 2], inbox.clone()).unwrap();
        assert!(takers.enter(Inquiry::Heap, vec![3], inbox.clone()).is_err(), "one at a time");
        let other = takers.enter(Inquiry::Leaks, vec![3], inbox).unwrap();
        let cases = [
            (1, Inquiry::Heap as u32, serial, true),
            (1, Inquiry::Heap as u32, serial, false),
            (2, Inquiry::Heap as u32, other, false),
            (3, Inquiry::Heap as u32, serial, false),
            (2, u32::MAX, serial, false),
            (2, Inquiry::Heap as u32, serial, true),
            (3, Inquiry::Leaks as u32, other, true),
        ];
        for (worker, inquiry, serial, counts) in cases {
            takers.pass(answer(worker, inquiry, serial));
            assert_eq!(answers.try_recv().is_ok(), counts, "worker {worker}, inquiry {inquiry}, {serial}");
        }
    }

    #[test]
    fn only_sealed_memory_is_read_and_no_more_than_may_be() {
        let mut plain = tempfile::tempfile().unwrap();
        plain.write_all(b"words").unwrap();
        assert!(read_sealed(&plain, 100).unwrap_err().to_string().contains("no sealed memory"));
        let growing = File::from(howdah_sys::memfd(c"answer", 5).unwrap());
        assert!(read_sealed(&growing, 100).is_err(), "it may still change");
        rustix::fs::fcntl_add_seals(&growing, rustix::fs::SealFlags::WRITE).unwrap_err();
        let sealed =
            File::from(rustix::fs::memfd_create("a", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap());
        (&sealed).write_all(b"words").unwrap();
        let seals =
            rustix::fs::SealFlags::SHRINK | rustix::fs::SealFlags::GROW | rustix::fs::SealFlags::WRITE;
        rustix::fs::fcntl_add_seals(&sealed, seals).unwrap();
        assert_eq!(read_sealed(&sealed, 5).unwrap(), b"words");
        assert!(read_sealed(&sealed, 4).unwrap_err().to_string().contains("too long"));
    }
}
