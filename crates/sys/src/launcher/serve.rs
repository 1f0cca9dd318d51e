//! The launcher's side: a process with one thread that waits for the front's requests.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::fcntl_dupfd_cloexec;

use super::line::{AHEAD, DOUBLE, KNOCK, MEMORY, REPLY, START, take};
use crate::channel::{AGAIN, recv_all_fds, send_until_passed};
use crate::clock::monotonic_ns;
use crate::process::{FIRST_FD, Pid, Signal, adopt_fd};
use crate::recipe::{Recipe, decode};
use crate::shortage::may_pass_later;
use crate::smaps::measure;

/// Bytes before the letter of a request: the end of its time.
const UNTIL: usize = 8;
/// Longest request: the value of a variable, which the kernel itself bounds by this.
const LONGEST: usize = 128 * 1024 + 64;

/// Serves the front that started this process, until it is gone. The process must be fresh, with one thread.
///
/// # Errors
/// When this process was not started by [`start`](super::start), or the kernel refuses something basic.
pub fn serve() -> io::Result<()> {
    let (mut socket, recipes) = (adopt_fd(FIRST_FD)?, adopt_fd(FIRST_FD + 1)?);
    let mut list = Vec::new();
    File::from(recipes).read_to_end(&mut list)?;
    let recipes = decode(&list).ok_or(io::ErrorKind::InvalidData)?;
    keep_only(&socket)?;
    be_deaf();
    // Executed by /proc/self/exe, it would be `exe` to those who list processes by name.
    rustix::thread::set_name(c"howdah")?;
    let (mut packet, mut ahead) = (vec![0; LONGEST], Ahead::default());
    loop {
        let (length, fds) = match recv_all_fds(&socket, &mut packet) {
            Ok((0, _)) => return Ok(()),
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => continue,
            Err(error) if may_pass_later(&error) => {
                std::thread::sleep(AGAIN);
                continue;
            }
            Err(_) => return Ok(()),
        };
        let mut request = &packet[..length];
        let Ok(serial) = take(&mut request) else { continue };
        if !ahead.add(serial, request, fds) {
            continue;
        }
        let outcome = obey(&recipes, request, ahead.take());
        if let Ok(Done { double: Some(own), .. }) = outcome {
            socket = own;
            continue;
        }
        // What has been done is told whatever the kernel is short of; it is the front's end that ends us.
        if send_until_passed(&socket, &reply(serial, &outcome)).is_err() {
            return Ok(());
        }
    }
}

/// Descriptors that have gone ahead of their question, because one packet had no room for all of them.
#[derive(Debug, Default)]
struct Ahead {
    serial: [u8; 4],
    fds: Vec<OwnedFd>,
    /// Some of them have found no room here.
    lost: bool,
}

impl Ahead {
    /// Takes what has come with a packet. What has gone ahead of another question, which never came, is let go. True when this is the
    /// question itself.
    fn add(&mut self, serial: [u8; 4], request: &[u8], fds: Option<Vec<OwnedFd>>) -> bool {
        if self.serial != serial {
            *self = Self { serial, ..Self::default() };
        }
        self.lost |= fds.is_none();
        self.fds.extend(fds.unwrap_or_default());
        request.get(UNTIL) != Some(&AHEAD)
    }

    /// All that belongs to the question; none where some of it is lost.
    fn take(&mut self) -> Option<Vec<OwnedFd>> {
        let Self { fds, lost, .. } = std::mem::take(self);
        (!lost).then_some(fds)
    }
}

/// What has been done.
#[derive(Debug, Default)]
struct Done {
    /// The letter of what was asked.
    what: u8,
    numbers: [u64; 3],
    /// This process is the double, with this socket.
    double: Option<OwnedFd>,
}

impl Done {
    fn started(what: u8, pid: Pid) -> Self {
        Self { what, numbers: [u64::from(pid.as_raw_pid().unsigned_abs()), 0, 0], double: None }
    }
}

fn reply(serial: [u8; 4], outcome: &io::Result<Done>) -> [u8; REPLY] {
    let error = outcome.as_ref().err().map_or(0, |error| error.raw_os_error().unwrap_or(libc::EINVAL));
    let (what, numbers) = outcome.as_ref().map_or((0, [0; 3]), |done| (done.what, done.numbers));
    let mut bytes = [0; REPLY];
    bytes[..4].copy_from_slice(&serial);
    bytes[4..8].copy_from_slice(&error.to_ne_bytes());
    bytes[8] = what;
    for (place, number) in bytes[9..].chunks_exact_mut(8).zip(numbers) {
        place.copy_from_slice(&number.to_ne_bytes());
    }
    bytes
}

/// Without `fds` some of them are lost: there are no numbers for them here.
fn obey(recipes: &[Recipe], mut request: &[u8], fds: Option<Vec<OwnedFd>>) -> io::Result<Done> {
    if monotonic_ns() > u64::from_ne_bytes(take(&mut request)?) {
        // We were stopped, and whoever asked has been told so: they have helped themselves since.
        return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT));
    }
    let (&what, mut rest) = request.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let fds = fds.ok_or_else(|| io::Error::from_raw_os_error(libc::EMFILE))?;
    match what {
        KNOCK => Ok(Done::default()),
        MEMORY => {
            let pid =
                Pid::from_raw(i32::from_ne_bytes(take(&mut rest)?)).ok_or(io::ErrorKind::InvalidInput)?;
            let memory = measure(pid)?;
            Ok(Done {
                what,
                numbers: [memory.private, memory.proportional, memory.resident],
                ..Done::default()
            })
        }
        START => {
            let number = u32::from_ne_bytes(take(&mut rest)?) as usize;
            let value = rest.strip_prefix(b"=").map(|value| OsString::from_vec(value.to_vec()));
            let recipe = recipes.get(number).ok_or(io::ErrorKind::InvalidInput)?;
            start(recipe, value.as_deref(), fds)
        }
        DOUBLE => double(fds.into_iter().next().ok_or(io::ErrorKind::InvalidInput)?),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Forks a child of the front that executes the program. It is the front that waits for that, so that we have an answer
/// for it at any time.
fn start(recipe: &Recipe, value: Option<&OsStr>, mut fds: Vec<OwnedFd>) -> io::Result<Done> {
    let mut command = recipe.command(value)?;
    let tell = fds.pop().ok_or(io::ErrorKind::InvalidInput)?;
    let Some(pid) = fork_sibling()? else { become_it(recipe, &mut command, &fds, tell.as_fd()) };
    Ok(Done::started(START, pid))
}

/// Forks a launcher like this one, which serves the front on `socket`. Nothing of what it may start comes from there: the
/// recipes are in our memory.
fn double(socket: OwnedFd) -> io::Result<Done> {
    if let Some(pid) = fork_sibling()? {
        return Ok(Done::started(DOUBLE, pid));
    }
    // A signal for a process group is not to end both.
    let _ = rustix::process::setpgid(None, None);
    Ok(Done { double: Some(socket), ..Done::default() })
}

/// Executes the command in this process by the recipe's user, with `fds` as the descriptors 0, 1, 2 and so on. Ends it when that
/// fails. Who that user is, the new process finds out: the system's lists may be far away, and a launcher waits for nothing. What it
/// still has of the launcher's memory is shown to nobody, since the kernel hides who has changed its user until it executes a program.
fn become_it(recipe: &Recipe, command: &mut Command, fds: &[OwnedFd], tell: BorrowedFd<'_>) -> ! {
    let mut execute = || {
        // What is above their numbers is not lost when those are taken.
        let above = RawFd::try_from(fds.len()).map_err(io::Error::other)?.max(FIRST_FD);
        let tell = fcntl_dupfd_cloexec(tell, above)?;
        // As long as this process is the launcher's user's.
        recipe.score().iter().for_each(|score| score.take());
        let changed = arrange(fds, above).and_then(|()| recipe.change_user());
        tie(recipe);
        let error = changed.err().unwrap_or_else(|| command.exec());
        File::from(tell).write_all(&failure(&error))
    };
    let _: io::Result<()> = execute();
    // SAFETY: _exit has no preconditions; nothing of the launcher's is to run here.
    unsafe { libc::_exit(127) }
}

/// Not before the user is another, with whom that is lost. A front that has ended before now leaves the new process a closed socket.
fn tie(recipe: &Recipe) {
    if recipe.is_tied() {
        // Where a sandbox refuses that, the process outlives the front until it looks at its socket.
        let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    }
}

fn failure(error: &io::Error) -> Vec<u8> {
    match error.raw_os_error() {
        Some(number) => number.to_ne_bytes().to_vec(),
        None => [&[0; 4], error.to_string().as_bytes()].concat(),
    }
}

/// Makes `fds` the descriptors 0, 1, 2 and so on, below `above`.
fn arrange(fds: &[OwnedFd], above: RawFd) -> io::Result<()> {
    // First out of the way, since one may have the number that another is to get.
    let copies: Vec<OwnedFd> =
        fds.iter().map(|fd| fcntl_dupfd_cloexec(fd, above)).collect::<Result<_, _>>()?;
    for (number, copy) in (0..).zip(&copies) {
        // SAFETY: dup2 has no precondition; what had the number is not used any more, since this process execs or exits.
        if unsafe { libc::dup2(copy.as_raw_fd(), number) } == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// As fork, but the child is the front's. None in the child.
fn fork_sibling() -> io::Result<Option<Pid>> {
    let flags = libc::c_long::from(libc::CLONE_PARENT | libc::SIGCHLD);
    let none: libc::c_long = 0;
    // SAFETY: without a stack and without CLONE_VM this is fork, on every architecture whatever the order of the other
    // arguments, which are all zero; the launcher has one thread, so the child has a consistent copy of everything.
    match unsafe { libc::syscall(libc::SYS_clone, flags, none, none, none, none) } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        pid => Ok(i32::try_from(pid).ok().and_then(Pid::from_raw)),
    }
}

/// Listening sockets and terminals must not stay open only because the launcher has them.
fn keep_only(socket: &OwnedFd) -> io::Result<()> {
    let open = std::fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let numbers: Vec<RawFd> = open.collect();
    for number in numbers.into_iter().filter(|&number| number >= FIRST_FD && number != socket.as_raw_fd()) {
        // SAFETY: nothing in this fresh process owns it, except the directory that was read, which is closed.
        unsafe { libc::close(number) };
    }
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(rustix::stdio::dup2_stderr(&null)?)
}

extern "C" fn nothing(_signal: libc::c_int) {}

/// The end comes with the front's, which may have requests to finish when a service manager tells everybody to stop.
/// Caught rather than ignored, because the programs that are started would inherit the latter.
fn be_deaf() {
    let handler = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGUSR1, libc::SIGUSR2] {
        // SAFETY: the handler does nothing, which is safe at any moment.
        unsafe { libc::signal(signal, handler) };
    }
}
