//! Processes: starting them with descriptors, waiting for them, signalling them.
//!
//! Used by the supervisor for zygotes and for workers whose zygote is dead, and by the binary for a new front; started are
//! they through the [`launcher`](crate::launcher).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::process::{PidfdFlags, WaitId, WaitIdOptions, WaitOptions};

pub use rustix::process::{Pid, Signal};

use crate::descent::{descent_of, tells_limits};
use crate::readable::is_readable_within;

/// The first descriptor that a started process gets beside standard input, output and error; the others follow.
pub const FIRST_FD: RawFd = 3;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitKind {
    /// It exited with this status.
    Exited(i32),
    /// This signal ended it.
    Signaled(i32),
    /// Nobody could learn it: its parent died with the knowledge.
    Unknown,
}

impl ExitKind {
    /// From a wait status as `wait(2)` and Perl's `$?` give it.
    #[must_use]
    pub fn from_raw(status: i32) -> Self {
        match status & 0x7f {
            0 => Self::Exited((status >> 8) & 0xff),
            signal => Self::Signaled(signal),
        }
    }

    /// Behind the status, what an operator may not think of: the kernel, too, kills.
    #[must_use]
    pub fn hint(self) -> &'static str {
        match self {
            Self::Signaled(libc::SIGKILL) => "; killed from outside, perhaps for lack of memory (see dmesg)",
            Self::Signaled(libc::SIGALRM | libc::SIGVTALRM | libc::SIGPROF) => {
                "; ended by a timer that the application, or one of its hooks, has left running (alarm)"
            }
            Self::Signaled(libc::SIGBUS) => {
                "; there was no memory for a page, perhaps of those shared with the front (see vm.overcommit_memory)"
            }
            _ => "",
        }
    }
}

impl std::fmt::Display for ExitKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::Exited(status) => write!(f, "exit status {status}"),
            Self::Signaled(signal) => match signal_name(signal) {
                Some(name) => write!(f, "signal {name}"),
                None => write!(f, "signal {signal}"),
            },
            Self::Unknown => f.write_str("unknown exit status"),
        }
    }
}

fn signal_name(number: i32) -> Option<&'static str> {
    Some(match number {
        libc::SIGHUP => "HUP",
        libc::SIGINT => "INT",
        libc::SIGQUIT => "QUIT",
        libc::SIGILL => "ILL",
        libc::SIGABRT => "ABRT",
        libc::SIGBUS => "BUS",
        libc::SIGFPE => "FPE",
        libc::SIGKILL => "KILL",
        libc::SIGSEGV => "SEGV",
        libc::SIGPIPE => "PIPE",
        libc::SIGALRM => "ALRM",
        libc::SIGVTALRM => "VTALRM",
        libc::SIGPROF => "PROF",
        libc::SIGTERM => "TERM",
        libc::SIGUSR1 => "USR1",
        libc::SIGUSR2 => "USR2",
        libc::SIGXCPU => "XCPU",
        libc::SIGXFSZ => "XFSZ",
        libc::SIGSYS => "SYS",
        _ => return None,
    })
}

/// Starts `command` with `input` (or /dev/null) as its standard input and copies of `fds` from descriptor
/// [`FIRST_FD`] on. They stay close-on-exec here, so no other child gets them.
///
/// # Errors
/// As [`Command::spawn`]: NotFound when there is no such program.
pub(crate) fn spawn(
    command: &mut Command,
    input: Option<BorrowedFd<'_>>,
    fds: &[BorrowedFd<'_>],
) -> io::Result<Pid> {
    let above = FIRST_FD + RawFd::try_from(fds.len()).map_err(io::Error::other)?;
    let _reserved = reserve_below(above)?;
    let copies: Vec<OwnedFd> =
        fds.iter().map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, above)).collect::<Result<_, _>>()?;
    let numbers: Vec<RawFd> = copies.iter().map(AsRawFd::as_raw_fd).collect();
    let arrange = move || {
        for (&number, target) in numbers.iter().zip(FIRST_FD..) {
            // SAFETY: dup2 has no precondition; in the child nobody else uses the number, which reserve_below has taken.
            if unsafe { libc::dup2(number, target) } == -1 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure only makes dup2 calls; it takes no lock and does not allocate.
    unsafe { command.pre_exec(arrange) };
    command.stdin(match input {
        Some(input) => Stdio::from(input.try_clone_to_owned()?),
        None => Stdio::null(),
    });
    Ok(Pid::from_child(&command.spawn()?))
}

/// Descriptors so that none below `above` is free: the standard library tells by a pipe why a program could not be
/// executed, and it must not be among those that the child overwrites.
fn reserve_below(above: RawFd) -> io::Result<Vec<OwnedFd>> {
    let null = std::fs::File::open("/dev/null")?;
    let mut reserved = Vec::new();
    loop {
        let fd = rustix::io::fcntl_dupfd_cloexec(&null, FIRST_FD)?;
        if fd.as_raw_fd() >= above {
            return Ok(reserved);
        }
        reserved.push(fd);
    }
}

/// Takes over a descriptor that this process was started with, such as `--zygote-fd N`; it becomes close-on-exec.
///
/// # Errors
/// EBADF when it is not open; InvalidInput for 0 to 2, which belong to standard input and output.
pub fn adopt_fd(number: RawFd) -> io::Result<OwnedFd> {
    if number <= 2 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "descriptors 0 to 2 are not handed over"));
    }
    // SAFETY: only used for the duration of the dup, which fails with EBADF when it is not open.
    let inherited = unsafe { BorrowedFd::borrow_raw(number) };
    let owned = rustix::io::fcntl_dupfd_cloexec(inherited, 3)?;
    // SAFETY: it is open, as the dup shows, and was inherited, so no other object in this process owns it.
    unsafe { rustix::io::close(number) };
    Ok(owned)
}

/// Orphaned descendants become children of this process, which must then wait for them: so no worker is lost from
/// sight when its zygote dies.
///
/// # Errors
/// EINVAL before Linux 3.4.
pub fn set_subreaper() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Gives up the controlling terminal, if there is one. Who reads it in the background is stopped, with all of the process
/// group; without it, who looks for a terminal, to ask for a password, finds none. No matter for a leader of a session.
pub fn leave_terminal() {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    if let Ok(terminal) = rustix::fs::open(c"/dev/tty", flags, Mode::empty()) {
        // SAFETY: the request takes no argument and touches no memory.
        unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCNOTTY) };
    }
}

/// Has `command` do so before it executes its program.
pub fn without_terminal(command: &mut Command) {
    let leave = || {
        leave_terminal();
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes system calls alone; it takes no lock and does not allocate.
    unsafe { command.pre_exec(leave) };
}

/// Forgets what whoever started this process has done with its signals: none stays blocked, or a server would hear neither TERM nor
/// of the end of a child, and children can be waited for, also where their end is ignored. Call it while there is one thread.
pub fn forget_inherited_signals() {
    // SAFETY: a set of signals is plain memory, which is valid in every state and emptied before it is used.
    let mut none: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is valid for writing.
    unsafe { libc::sigemptyset(&raw mut none) };
    // SAFETY: the set is valid for reading.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) };
    // SAFETY: the system's way with a signal needs no handler.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// A file that would grow beyond the limit of files (`ulimit -f`) makes a write fail with EFBIG, much as on a full disk,
/// instead of ending this process. What is started from here has the system's behaviour: a handler does not outlive
/// exec, which ignoring the signal would.
///
/// # Errors
/// None that is known.
pub fn survive_file_limit() -> io::Result<()> {
    extern "C" fn nothing(_signal: libc::c_int) {}
    let handler = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the handler does nothing, which is safe at any moment.
    let before = unsafe { libc::signal(libc::SIGXFSZ, handler) };
    if before == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The end of child `pid`, if it has ended. It is gone from the process table afterwards.
///
/// # Errors
/// ECHILD when it is no child of ours, or was waited for before.
pub fn try_wait(pid: Pid) -> io::Result<Option<ExitKind>> {
    let found = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG)?;
    Ok(found.map(|(_, status)| ExitKind::from_raw(status.as_raw())))
}

/// Waits for the end of child `pid`.
///
/// # Errors
/// ECHILD when it is no child of ours, or was waited for before.
pub fn wait(pid: Pid) -> io::Result<ExitKind> {
    loop {
        match rustix::process::waitpid(Some(pid), WaitOptions::empty()) {
            Err(rustix::io::Errno::INTR) | Ok(None) => {}
            Ok(Some((_, status))) => return Ok(ExitKind::from_raw(status.as_raw())),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether `pid` is a child of this process that nobody has waited for.
#[must_use]
pub fn is_child(pid: Pid) -> bool {
    // SAFETY: siginfo_t is a plain C structure for which zeros are valid.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: info is valid for writing.
    unsafe { libc::waitid(libc::P_PID, pid.as_raw_pid().unsigned_abs(), &raw mut info, flags) == 0 }
}

/// Some child that has ended and that nobody has waited for yet. It stays so.
#[must_use]
pub fn ended_child() -> Option<Pid> {
    // SAFETY: siginfo_t is a plain C structure for which zeros are valid.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: info is valid for writing; P_ALL ignores the id.
    let failed = unsafe { libc::waitid(libc::P_ALL, 0, &raw mut info, flags) } != 0;
    if failed {
        return None;
    }
    // SAFETY: waitid fills in the fields of SIGCHLD; without an ended child the pid stays 0.
    Pid::from_raw(unsafe { info.si_pid() })
}

/// Sends `signal` to the process group of `leader`, a child of this process that nobody has waited for: so its number is no
/// other group's.
///
/// # Errors
/// ESRCH when nobody is left in it.
pub fn signal_group(leader: Pid, signal: Signal) -> io::Result<()> {
    Ok(rustix::process::kill_process_group(leader, signal)?)
}

/// A descriptor that becomes readable when `leader` ends, which leads a process group, a child of this process that nobody has
/// waited for. Without one nobody would notice its end, so the group is ended here, and waited for.
///
/// # Errors
/// EMFILE or ENFILE when there is no descriptor left, ENOSYS where the kernel has none of that kind.
pub fn watch_end_or_kill(leader: Pid) -> io::Result<OwnedFd> {
    rustix::process::pidfd_open(leader, PidfdFlags::empty()).map_err(|error| {
        let _ = signal_group(leader, Signal::KILL);
        let _ = wait(leader);
        error.into()
    })
}

/// What stands in a /proc/PID/stat behind the name, in which anything may stand: the state, then numbers.
fn behind_name(stat: &str) -> Option<&str> {
    Some(stat.rsplit_once(") ")?.1)
}

/// The letter of a process's state in its /proc/PID/stat.
#[must_use]
pub fn state_in(stat: &str) -> Option<char> {
    behind_name(stat)?.chars().next()
}

/// Whether that is the state of one that has been stopped: by SIGSTOP, from a terminal, or by a debugger.
#[must_use]
pub fn says_stopped(stat: &str) -> bool {
    matches!(state_in(stat), Some('T' | 't'))
}

/// Whether a process has been stopped. False when that cannot be told.
#[must_use]
pub fn is_stopped(pid: Pid) -> bool {
    stat_of(pid.as_raw_pid().unsigned_abs()).is_some_and(|stat| says_stopped(&stat))
}

/// Whether a process may have got any further since the last look. It has not while it is stopped, waits for a disk or for memory, or
/// is ready to run and has had no processor. `spent` is what it had had of that at the last look, in ticks of the kernel, and becomes
/// what it has had now. True when it cannot be told.
#[must_use]
pub fn may_have_moved(pid: u32, spent: &mut u64) -> bool {
    stat_of(pid).is_none_or(|stat| says_moved(&stat, spent))
}

fn says_moved(stat: &str, spent: &mut u64) -> bool {
    let now = spent_in(stat).unwrap_or_default();
    let before = std::mem::replace(spent, now);
    match state_in(stat) {
        _ if says_stopped(stat) => false,
        Some('D') => false,
        Some('R') => now != before,
        _ => true,
    }
}

/// Time that a process has had of processors.
fn spent_in(stat: &str) -> Option<u64> {
    let mut numbers = behind_name(stat)?.split(' ').skip(11);
    let mut next = || numbers.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

/// Whether the process of that number is there and has not ended. One that has is there until somebody collects it, which
/// some first processes of containers never do.
#[must_use]
pub fn runs(pid: u32) -> bool {
    stat_of(pid).is_some_and(|stat| !matches!(state_in(&stat), Some('Z' | 'X')))
}

/// A process and its user, by the kernel's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its process.
    pub pid: Pid,
    /// Who runs that.
    pub user: u32,
}

/// Whether `pid` is a child of `parent`, or was one: an orphan, which this process takes, of the same user. True also when that
/// cannot be told: it has ended and was waited for, or /proc shows neither it nor that it is another's.
#[must_use]
pub fn may_be_child_of(pid: Pid, parent: Peer) -> bool {
    let number = |pid: Pid| pid.as_raw_pid().unsigned_abs();
    let orphaned = |found| found == std::process::id() && is_run_by(pid, parent.user);
    let shown = || stat_of(number(pid)).and_then(|stat| parent_in(&stat));
    match shown().or_else(|| Some(descent_of(pid)?.parent)) {
        Some(found) => found == number(parent.pid) || orphaned(found),
        None => may_be_hidden_child_of(pid, parent),
    }
}

/// Of one of which neither /proc, as where that is mounted with hidepid, nor an older kernel tells: it is in its parent's session, was not
/// started from here, and does not look like one of our own user's.
fn may_be_hidden_child_of(pid: Pid, parent: Peer) -> bool {
    let is_gone = rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH);
    let session = |pid| rustix::process::getsid(Some(pid)).ok();
    let is_near = || session(pid).is_some_and(|found| Some(found) == session(parent.pid) && found != pid);
    let is_ours = || tells_limits(pid) && !tells_limits(parent.pid);
    is_gone
        || is_us(parent.user)
        || pid != rustix::process::getpid() && !is_child(pid) && is_near() && !is_ours()
}

/// Whether `pid` is a child of this process that nobody has waited for, and run by `user`: those that this process has started
/// for itself are not, where that is another than its own.
#[must_use]
pub fn is_child_run_by(pid: Pid, user: u32) -> bool {
    is_child(pid) && is_run_by(pid, user)
}

/// By its real user, which programs that change the effective one leave as it is. Where nobody tells, what leads a group is not:
/// launchers and the commands of logs do.
fn is_run_by(pid: Pid, user: u32) -> bool {
    let status = std::fs::read(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap_or_default();
    let told = || user_in(&String::from_utf8_lossy(&status)).or_else(|| Some(descent_of(pid)?.user));
    let leads = || rustix::process::getpgid(Some(pid)) == Ok(pid);
    is_us(user) || told().map_or_else(|| !leads(), |found| found == user)
}

/// Whoever has our own rights needs none of us to signal a process, and what he has started may have given up some.
fn is_us(user: u32) -> bool {
    user == rustix::process::getuid().as_raw()
}

fn user_in(status: &str) -> Option<u32> {
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().next()?.parse().ok()
}

/// None of one that is being waited for, whose parent is 0 then.
fn parent_in(stat: &str) -> Option<u32> {
    if state_in(stat) == Some('X') {
        return None;
    }
    behind_name(stat)?.split(' ').nth(1)?.parse().ok()
}

fn stat_of(pid: u32) -> Option<String> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    Some(String::from_utf8_lossy(&stat).into_owned())
}

/// Kills `pid` if it is a child of this process that nobody has waited for: the number is nobody else's then.
pub(crate) fn end_child(pid: Pid) {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    if rustix::process::waitid(WaitId::Pid(pid), look).is_ok() {
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

/// A running process that can be signalled without fear that its id has been given to another.
#[derive(Debug)]
pub struct Process {
    pid: Pid,
    hold: Hold,
}

/// By what a process is known.
#[derive(Debug)]
enum Hold {
    Pidfd(Arc<OwnedFd>),
    /// Its number alone, where there was no pidfd: Linux before 5.3, some sandboxes, no descriptor left.
    Number,
    /// It was gone already, and its number may be another's by now.
    Gone,
}

impl Process {
    /// Looks at process `pid`, which the caller knows to be the one it means.
    #[must_use]
    pub fn open(pid: Pid) -> Self {
        let hold = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => Hold::Pidfd(Arc::new(pidfd)),
            Err(rustix::io::Errno::SRCH) => Hold::Gone,
            Err(_) => Hold::Number,
        };
        Self { pid, hold }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// A descriptor that becomes readable when the process ends, whoever is its parent. None where the kernel has no
    /// pidfd, or had no descriptor left, or the process was gone.
    #[must_use]
    pub fn end(&self) -> Option<Arc<OwnedFd>> {
        match &self.hold {
            Hold::Pidfd(pidfd) => Some(Arc::clone(pidfd)),
            Hold::Number | Hold::Gone => None,
        }
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ends_within(Duration::ZERO)
    }

    /// Whether it has ended, or does so within `patience`, for which this waits where the kernel has pidfds: never call it on a front
    /// thread with more than none.
    #[must_use]
    pub fn ends_within(&self, patience: Duration) -> bool {
        match &self.hold {
            Hold::Pidfd(pidfd) => is_readable_within(&**pidfd, patience).unwrap_or(false),
            Hold::Number => rustix::process::test_kill_process(self.pid).is_err(),
            Hold::Gone => true,
        }
    }

    /// Whether it has not ended, by the kernel's word on this very process: that something has its number says nothing.
    #[must_use]
    pub fn is_known_to_run(&self) -> bool {
        matches!(self.hold, Hold::Pidfd(_)) && !self.has_ended()
    }

    /// Sends `signal`.
    ///
    /// # Errors
    /// ESRCH when it is gone, EPERM when it belongs to another user.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        match &self.hold {
            Hold::Pidfd(pidfd) => rustix::process::pidfd_send_signal(pidfd.as_fd(), signal)?,
            Hold::Number => rustix::process::kill_process(self.pid, signal)?,
            Hold::Gone => return Err(rustix::io::Errno::SRCH.into()),
        }
        Ok(())
    }

    /// Ends it by TERM, and by KILL where it does not heed that within `patience`, for which this waits.
    pub fn end_within(&self, patience: Duration) {
        let _ = self.signal(Signal::TERM);
        self.end_by(Instant::now() + patience);
    }

    /// Waits until it has ended by itself, and ends it by KILL where it has not by then.
    pub fn end_by(&self, until: Instant) {
        let left = until.saturating_duration_since(Instant::now());
        let ended = self.end().is_some_and(|end| is_readable_within(&*end, left).unwrap_or(false));
        if !ended {
            let _ = self.signal(Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_stands_behind_the_name() {
        for (stat, state) in [
            ("7 (howdah: worker) T 1 2", Some('T')),
            ("7 (a) R (b) S 1", Some('S')),
            ("7 (a", None),
            ("", None),
        ] {
            assert_eq!(state_in(stat), state, "{stat}");
        }
    }

    #[test]
    fn whoever_is_held_up_has_not_moved() {
        let mut spent = 0;
        // State, time in user mode and in the kernel, and what that says.
        for (state, user, system, moved) in [
            ('R', 0, 0, false),
            ('R', 3, 4, true),
            ('R', 3, 4, false),
            ('R', 3, 5, true),
            ('T', 3, 6, false),
            ('t', 4, 6, false),
            ('D', 5, 6, false),
            ('R', 5, 6, false),
            ('S', 5, 6, true),
        ] {
            let stat = format!("7 (a) R 1 (b) {state} 1 7 7 0 -1 4194304 9 0 0 0 {user} {system} 1 1");
            assert_eq!(says_moved(&stat, &mut spent), moved, "{stat}");
            assert_eq!(spent, user + system);
        }
        assert!(says_moved("", &mut spent));
        let mut own = 0;
        while own == 0 {
            let _ = may_have_moved(std::process::id(), &mut own);
        }
    }

    fn parent() -> Pid {
        rustix::process::getppid().unwrap()
    }

    #[test]
    fn a_process_is_its_real_users() {
        assert_eq!(user_in("Name:\tUid: 7\nUid:\t33\t0\t0\t0\nGid:\t1\t1\t1\t1\n"), Some(33));
        assert_eq!(user_in("Name:\tx\n"), None);
    }

    #[test]
    fn a_child_is_known_by_its_parent() {
        assert_eq!(parent_in("7 (a) R 1 (b) S 42 7 7"), Some(42));
        assert_eq!(parent_in("7 (a) X 0 7 7"), None);
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let user = rustix::process::getuid().as_raw();
        let by = |pid, user| Peer { pid, user };
        assert!(may_be_child_of(pid, by(Pid::INIT, user)), "an orphan of theirs");
        assert!(!may_be_child_of(pid, by(Pid::INIT, user + 1)), "what this process has started for itself");
        assert!(is_child_run_by(pid, user), "of our own");
        assert!(!is_child_run_by(pid, user + 1) && !is_child_run_by(parent(), user), "of another");
        assert!(may_be_child_of(rustix::process::getpid(), by(parent(), user + 1)), "a child, whoever it is");
        assert!(!may_be_child_of(rustix::process::getpid(), by(pid, user)), "of somebody else's");
        assert!(!Process::open(pid).has_ended());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(may_be_child_of(pid, by(Pid::INIT, user)), "who knows");
        let gone = Process::open(pid);
        assert!(gone.has_ended() && gone.signal(Signal::CONT).is_err());
    }
}
