//! The attendant among launchers that do not answer, or end. Their part is played by threads of the test; a process that
//! sleeps stands for each.

use std::os::fd::AsFd;
use std::process::Command;
use std::sync::Mutex;

use super::*;
use crate::channel::{recv_with_fds, send_with_fds, socketpair_seqpacket};
use crate::launcher::line::{DOUBLE, START};
use crate::process::{ExitKind, Process, Signal, spawn, try_wait, wait};

/// How a launcher behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Manner {
    Answers,
    Silent,
    /// Ends when it is to start something.
    Dies,
    /// Answers everything, but only when it is knocked at a second time.
    Late,
}
use Manner::{Answers, Dies, Late, Silent};

/// Who was asked for what, and what was started.
#[derive(Debug, Default)]
struct Book {
    asked: Mutex<Vec<(usize, u8)>>,
    started: Mutex<Vec<Pid>>,
}
type Heard = Arc<Book>;

fn sleeper() -> Pid {
    spawn(Command::new("sleep").arg("60"), None, &[]).unwrap()
}

fn launcher(number: usize, manner: Manner, heard: &Heard) -> Line {
    let (ours, theirs) = socketpair_seqpacket().unwrap();
    let heard = Arc::clone(heard);
    std::thread::spawn(move || serve(number, manner, &theirs, &heard));
    Line::new(ours, Process::open(sleeper()))
}

fn serve(number: usize, manner: Manner, socket: &OwnedFd, heard: &Heard) {
    let mut packet = [0; 256];
    let mut owed = Vec::new();
    while let Ok((length @ 1.., fds)) = recv_with_fds(socket, &mut packet) {
        let what = packet[..length][12];
        heard.asked.lock().unwrap().push((number, what));
        owed.push((packet[..4].to_vec(), what, fds));
        match manner {
            Silent => continue,
            Dies if what == START => return,
            Late if owed.len() == 1 => continue,
            _ => {}
        }
        for (serial, what, mut fds) in owed.drain(..) {
            let started = (what == START || what == DOUBLE).then(sleeper);
            heard.started.lock().unwrap().extend(started);
            let pid = i64::from(started.map_or(0, Pid::as_raw_pid));
            let reply = [&serial[..], &[0; 4], &[what], &pid.to_ne_bytes(), &[0; 16]].concat();
            send_with_fds(socket, &reply, &[]).unwrap();
            if what == DOUBLE {
                let (socket, heard) = (fds.remove(0), Arc::clone(heard));
                std::thread::spawn(move || serve(number + 10, Answers, &socket, &heard));
            }
        }
    }
}

struct Scene {
    attendant: Attendant,
    desk: Desk,
    heard: Heard,
    news: Arc<Mutex<Vec<String>>>,
}

impl Scene {
    fn of(manners: &[Manner]) -> Self {
        let (heard, news) = (Heard::default(), Arc::new(Mutex::new(Vec::new())));
        let told = Arc::clone(&news);
        let lines = (0..).zip(manners).map(|(number, manner)| launcher(number, *manner, &heard)).collect();
        let report = move |news| told.lock().unwrap().push(format!("{news:?}"));
        let (mut attendant, desk) = Attendant::new(lines, Box::new(report)).unwrap();
        attendant.patience = Duration::from_secs(2);
        Self { attendant, desk, heard, news }
    }

    fn start(&mut self) -> io::Result<Answer> {
        self.attendant.ask(&Question::start(0, None, Vec::new()))
    }

    fn was_asked(&self, number: usize, what: u8) -> bool {
        self.heard.asked.lock().unwrap().contains(&(number, what))
    }

    fn has_news(&self, words: &str) -> bool {
        self.news.lock().unwrap().iter().any(|news| news.starts_with(words))
    }

    fn pids(&self) -> Vec<Pid> {
        self.attendant.lines.iter().map(Line::pid).collect()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.attendant.lines.iter().for_each(Line::end);
        let started = self.heard.started.lock().unwrap();
        started.iter().for_each(|pid| drop(Process::open(*pid).signal(Signal::KILL)));
    }
}

fn kind<T: std::fmt::Debug>(outcome: io::Result<T>) -> io::ErrorKind {
    outcome.unwrap_err().kind()
}

/// Once it has been killed.
fn ends(pid: Pid) -> bool {
    let end = Instant::now() + Duration::from_secs(10);
    while Instant::now() < end {
        if !matches!(try_wait(pid), Ok(None)) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

#[test]
fn a_silent_launcher_is_passed_over_and_another_takes_its_place() {
    let mut scene = Scene::of(&[Silent, Answers]);
    let before = scene.pids();
    scene.start().unwrap();
    assert!(!scene.was_asked(0, START), "it is knocked at before");
    scene.attendant.step();
    assert!(scene.has_news("Silent") && scene.has_news("Replaced"));
    assert!(ends(before[0]), "the silent one is killed");
    assert_eq!((scene.pids().len(), scene.pids()[0]), (2, before[1]));
    scene.attendant.lines[0].end();
    scene.attendant.lines.remove(0);
    scene.start().unwrap();
    assert!(scene.was_asked(11, START), "the new one works");
}

#[test]
fn some_that_die_one_after_another_are_replaced_at_once_and_many_are_not() {
    let mut scene = Scene::of(&[Answers, Answers]);
    for death in 1..=8 {
        scene.attendant.lines.remove(0).end();
        scene.attendant.step();
        let replaced = scene.pids().len() == 2;
        assert_eq!(replaced, death <= AT_ONCE, "death {death}");
        if !replaced {
            break;
        }
    }
    scene.attendant.restore_at = Instant::now();
    scene.attendant.step();
    assert_eq!(scene.pids().len(), 2, "after a rest");
}

#[test]
fn what_may_have_been_started_is_not_started_by_another() {
    let mut scene = Scene::of(&[Dies, Answers]);
    assert_eq!(kind(scene.start()), io::ErrorKind::BrokenPipe);
    assert!(!scene.was_asked(1, START));
    scene.attendant.step();
    assert!(scene.has_news("Ended") && scene.has_news("Replaced"));
    scene.start().unwrap();
}

#[test]
fn a_measurement_is_asked_of_the_other() {
    let mut scene = Scene::of(&[Silent, Answers]);
    scene.attendant.ask(&Question::memory(Pid::INIT)).unwrap();
    assert!(scene.was_asked(0, b'm') && scene.was_asked(1, b'm'));
}

#[test]
fn when_all_are_silent_all_stay_and_nobody_waits_for_them_twice() {
    let mut scene = Scene::of(&[Silent, Silent]);
    assert_eq!(kind(scene.start()), io::ErrorKind::TimedOut);
    scene.attendant.step();
    assert_eq!(*scene.desk.condition().borrow(), Condition::Silent);
    let asked = scene.heard.asked.lock().unwrap().len();
    assert_eq!(kind(scene.start()), io::ErrorKind::TimedOut);
    assert_eq!((scene.heard.asked.lock().unwrap().len(), scene.pids().len()), (asked, 2));
    assert!(scene.has_news("Condition(Silent)"));
}

#[test]
fn without_any_it_says_so() {
    let mut scene = Scene::of(&[Dies]);
    assert_eq!(kind(scene.start()), io::ErrorKind::BrokenPipe);
    scene.attendant.step();
    assert_eq!(*scene.desk.condition().borrow(), Condition::Gone);
    assert!(scene.start().unwrap_err().to_string().contains("no launcher is left"));
}

#[test]
fn what_a_launcher_starts_too_late_is_ended_and_the_launcher_is_well_again() {
    let heard = Heard::default();
    let mut line = launcher(0, Late, &heard);
    let question = Question::start(0, None, Vec::new());
    assert!(matches!(line.ask(&question, Duration::from_millis(50)), Err(Failure::Silent)));
    assert!(!line.is_well());
    // It answers both, the older question first.
    line.ask(&Question::knock(), Duration::from_secs(10)).unwrap();
    assert!(line.is_well());
    let started = heard.started.lock().unwrap().clone();
    assert!(started.len() == 1 && started.into_iter().all(ends));
    line.end();
}

#[test]
fn nobody_but_who_starts_something_waits_behind_a_launcher_that_is_silent() {
    let scene = Scene::of(&[Answers]);
    let long_ago = monotonic_ns() - u64::try_from(LONG.as_nanos()).unwrap() * 2;
    scene.attendant.busy_since.store(long_ago, SeqCst);
    let began = Instant::now();
    assert_eq!(
        kind(scene.desk.ask(Question::memory(Pid::INIT), Duration::from_secs(30))),
        io::ErrorKind::TimedOut
    );
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn launchers_that_are_dismissed_are_waited_for_and_not_left_behind() {
    for is_stopped in [false, true] {
        let (ours, theirs) = socketpair_seqpacket().unwrap();
        let pid =
            spawn(Command::new("sh").args(["-c", "read _; exit 7"]), Some(theirs.as_fd()), &[]).unwrap();
        drop(theirs);
        let line = Line::new(ours, Process::open(pid));
        let (mut attendant, desk) = Attendant::new(vec![line], Box::new(drop)).unwrap();
        attendant.to_leave = if is_stopped { Duration::ZERO } else { Duration::from_secs(30) };
        if is_stopped {
            Process::open(pid).signal(Signal::STOP).unwrap();
        }
        let thread = std::thread::spawn(move || attendant.run());
        desk.dismiss(Duration::from_secs(60));
        thread.join().unwrap();
        let expected = if is_stopped { ExitKind::Signaled(9) } else { ExitKind::Exited(7) };
        assert_eq!(wait(pid).unwrap(), expected);
    }
}
