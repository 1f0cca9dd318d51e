//! Becoming an ordinary user, for a process that runs what others have written: every perl before it is executed, by whom it is started
//! (`launcher`, `howdah check`), and the host of scripts. A zygote that plackup has forked does the same in `lib/Howdah/Privileges.pm`.
//! Whoever starts any finds out before whether it can be done. And having a user's rights for a moment, to look at what is his.

use std::ffi::{CStr, CString};
use std::fs::Metadata;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;

use rustix::fs::{Mode, OFlags};

use crate::daemon::{exit, fork_alone};
use crate::process::{leave_terminal, wait};

/// An entry of the system's list of users or groups never needs more.
const LONGEST_ENTRY: usize = 1 << 20;
/// Whoever is not root does not come so far. The same words stand in `lib/Howdah/Privileges.pm`.
const WHO_MAY: &str = "root may if it has CAP_SETUID and CAP_SETGID and, in a user namespace, the id is mapped there; else leave out \
                       --user and --group";
/// A user has no more groups: the kernel's own limit.
const MOST_GROUPS: u16 = u16::MAX;

/// One whom the system's list does not have, as in many a container, is a number alone.
struct User {
    uid: libc::uid_t,
    listed: Option<(CString, libc::gid_t)>,
}

/// Whose rights a process is to have, in the kernel's numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// None to stay the same.
    user: Option<libc::uid_t>,
    group: libc::gid_t,
    groups: Vec<libc::gid_t>,
}

/// What the kernel has refused to whoever wanted another identity.
enum Refused {
    Keyring(io::Error),
    Group(io::Error),
    User(io::Error),
}

impl Identity {
    /// Either may be a name or a number. Without a group it is the user's, whose further groups are taken over; without a user only
    /// the group changes, and further groups are given up. None where neither is wanted.
    ///
    /// # Errors
    /// A sentence that says what is not there.
    pub fn find(user: Option<&str>, group: Option<&str>) -> Result<Option<Self>, String> {
        let Some((found, group)) = find(user, group)? else { return Ok(None) };
        let listed = found.as_ref().and_then(|user| user.listed.as_ref());
        let groups = listed.map_or_else(|| vec![group], |(name, _)| groups_of(name, group));
        Ok(Some(Self { user: found.map(|user| user.uid), group, groups }))
    }

    /// Has `command` change to it before it executes its program, of which no line is run by anybody else then. It leaves root's
    /// terminal, too, and listening sockets that this process was started with and has not taken yet.
    pub fn give(&self, command: &mut Command) {
        let own = self.clone();
        let change = move || {
            close_others_on_exec();
            leave_terminal();
            own.assume().map_err(Refused::reason)
        };
        // SAFETY: between fork and exec the closure makes system calls alone; it takes no lock and does not allocate.
        unsafe { command.pre_exec(change) };
    }

    /// The same for a process that is about to execute a program itself.
    ///
    /// # Errors
    /// A sentence that says what is refused.
    pub(crate) fn take(&self) -> Result<(), String> {
        leave_terminal();
        self.assume().map_err(|refused| self.told(&refused))
    }

    /// Whether this process may change to it, which a child finds out. Call it while there is one thread.
    ///
    /// # Errors
    /// A sentence that says what is refused.
    pub fn try_out(&self) -> Result<(), String> {
        let Ok((mut said, mut tell)) = io::pipe() else { return Ok(()) };
        match fork_alone() {
            Ok(None) => {
                let _ = tell.write_all(self.take().err().unwrap_or_default().as_bytes());
                exit(0)
            }
            Ok(Some(child)) => {
                drop(tell);
                let mut refused = String::new();
                let _ = said.read_to_string(&mut refused);
                let _ = wait(child);
                if refused.is_empty() { Ok(()) } else { Err(refused) }
            }
            // The next one who wants a child says so.
            Err(_) => Ok(()),
        }
    }

    /// Of this process, which must have one thread. What is root's is left behind: its session keyring, the reading side of its
    /// terminal. The kernel lets nobody else look into the process from then on, until it executes a program.
    fn assume(&self) -> Result<(), Refused> {
        leave_keyring().map_err(Refused::Keyring)?;
        OUTPUTS.iter().for_each(|&(fd, path)| only_write(fd, path));
        change_group(self.group, &self.groups).map_err(Refused::Group)?;
        self.user.map_or(Ok(()), change_user).map_err(Refused::User)
    }

    fn told(&self, refused: &Refused) -> String {
        match refused {
            Refused::Keyring(error) => {
                let way_out = "raise kernel.keys.root_maxkeys and root_maxbytes (sysctl)";
                format!("cannot leave the session keyring of root: {error}; {way_out}")
            }
            Refused::Group(error) => {
                format!("cannot change to group {}: {error}; {WHO_MAY}", self.group)
            }
            Refused::User(error) => {
                format!("cannot change to user {}: {error}; {WHO_MAY}", self.user.unwrap_or_default())
            }
        }
    }
}

impl Refused {
    fn reason(self) -> io::Error {
        match self {
            Self::Keyring(error) | Self::Group(error) | Self::User(error) => error,
        }
    }
}

/// Has this process change to what [`Identity::find`] finds. Call it while there is one thread.
///
/// # Errors
/// A sentence that says what is not there or may not be done.
pub fn become_user(user: Option<&str>, group: Option<&str>) -> Result<(), String> {
    let Some(identity) = Identity::find(user, group)? else { return Ok(()) };
    identity.assume().map_err(|refused| identity.told(&refused))
}

/// Lets those of its own user look into this process though it has changed to that, and a launcher measure its memory: for one that has
/// nothing of root's.
pub fn be_open() {
    // SAFETY: numbers only.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
}

/// The user, if one is wanted, and the group; none where neither is.
fn find(user: Option<&str>, group: Option<&str>) -> Result<Option<(Option<User>, libc::gid_t)>, String> {
    let user = user.map(find_user).transpose()?;
    let wanted = group.map(find_group).transpose()?;
    let group = match &user {
        Some(User { uid, listed: None }) => Some(wanted.ok_or_else(|| {
            format!("user {uid} is not in the list of users, which has no group for it: name that by --group")
        })?),
        Some(User { listed: Some((_, own)), .. }) => wanted.or(Some(*own)),
        None => wanted,
    };
    Ok(group.map(|group| (user, group)))
}

/// Who has a session keyring may read what is in it, whoever that is: tickets of Kerberos, keys of file systems. It is exchanged for one
/// that is empty, while root's quota counts for it. A kernel or container without this call gives nobody a key.
fn leave_keyring() -> io::Result<()> {
    // SAFETY: a null pointer stands for no name.
    let joined = unsafe {
        libc::syscall(libc::SYS_keyctl, libc::KEYCTL_JOIN_SESSION_KEYRING, ptr::null::<libc::c_char>())
    };
    let error = io::Error::last_os_error();
    let is_short = matches!(error.raw_os_error(), Some(libc::EDQUOT | libc::ENOMEM));
    if joined < 0 && is_short { Err(error) } else { Ok(()) }
}

/// Where a process writes that has nothing else.
const OUTPUTS: [(libc::c_int, &CStr); 2] =
    [(libc::STDOUT_FILENO, c"/proc/self/fd/1"), (libc::STDERR_FILENO, c"/proc/self/fd/2")];

/// A terminal that standard output leads to is open for reading, too: what root types there is root's.
fn only_write(fd: libc::c_int, path: &CStr) {
    // SAFETY: numbers only.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    // SAFETY: the same.
    let terminal = unsafe { libc::isatty(fd) } == 1;
    if !terminal || flags & libc::O_ACCMODE != libc::O_RDWR {
        return;
    }
    let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::CLOEXEC;
    if let Ok(terminal) = rustix::fs::open(path, flags, Mode::empty()) {
        // SAFETY: the copy is open, and whoever uses the number finds the same terminal.
        unsafe { libc::dup2(terminal.as_raw_fd(), fd) };
    }
}

/// All descriptors but the standard ones, as far as the kernel can do that at once (Linux 5.11).
fn close_others_on_exec() {
    let first = libc::STDERR_FILENO.unsigned_abs() + 1;
    // SAFETY: numbers only; none is closed before this process executes a program.
    unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
}

fn change_group(group: libc::gid_t, groups: &[libc::gid_t]) -> io::Result<()> {
    // SAFETY: the list has so many entries.
    done(unsafe { libc::setgroups(groups.len(), groups.as_ptr()) })?;
    // SAFETY: numbers only.
    done(unsafe { libc::setresgid(group, group, group) })
}

fn change_user(user: libc::uid_t) -> io::Result<()> {
    // SAFETY: numbers only.
    done(unsafe { libc::setresuid(user, user, user) })
}

/// Does that with what the owner of a file may do to files, those of /proc among them; for root, to whom others' may be refused. Of this
/// process only the calling thread is changed, and not for long.
pub(crate) fn with_rights_of<T>(owner: &Metadata, what: impl FnOnce() -> T) -> T {
    // SAFETY: numbers only.
    let dumpable = unsafe { libc::prctl(libc::PR_GET_DUMPABLE, 0, 0, 0, 0) };
    let (user, group) = change_rights(owner.uid(), owner.gid());
    let done = what();
    // Its own again, which is always granted.
    change_rights(user, group);
    if dumpable == 1 {
        // The kernel takes that away from whoever changes a user.
        // SAFETY: numbers only.
        unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
    }
    done
}

/// To files, of the calling thread. Returns what there was.
fn change_rights(user: libc::uid_t, group: libc::gid_t) -> (libc::uid_t, libc::gid_t) {
    // SAFETY: numbers only.
    let group = unsafe { libc::setfsgid(group) };
    // SAFETY: the same.
    let user = unsafe { libc::setfsuid(user) };
    (user.cast_unsigned(), group.cast_unsigned())
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn find_user(wanted: &str) -> Result<User, String> {
    let unknown = || format!("there is no user '{wanted}'");
    let name = CString::new(wanted).map_err(|_| unknown())?;
    // To the kernel the highest number means no change.
    let number = wanted.parse().ok().filter(|&uid| uid != libc::uid_t::MAX);
    // SAFETY: a plain C structure of numbers and pointers, for which zeros are valid.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut text = vec![0; LONGEST_ENTRY];
    let mut found = ptr::null_mut();
    match number {
        // SAFETY: all of it is valid for writing, and the text has so many bytes.
        Some(uid) => unsafe {
            libc::getpwuid_r(uid, &raw mut entry, text.as_mut_ptr(), text.len(), &raw mut found)
        },
        // SAFETY: as above; the name ends with a zero.
        None => unsafe {
            libc::getpwnam_r(name.as_ptr(), &raw mut entry, text.as_mut_ptr(), text.len(), &raw mut found)
        },
    };
    if found.is_null() {
        return number.map(|uid| User { uid, listed: None }).ok_or_else(unknown);
    }
    // SAFETY: an entry that was found has a name that ends with a zero, within the text.
    let name = unsafe { CStr::from_ptr(entry.pw_name) }.to_owned();
    Ok(User { uid: entry.pw_uid, listed: Some((name, entry.pw_gid)) })
}

fn find_group(wanted: &str) -> Result<libc::gid_t, String> {
    if let Ok(number) = wanted.parse() {
        return Ok(number);
    }
    let unknown = || format!("there is no group '{wanted}'");
    let name = CString::new(wanted).map_err(|_| unknown())?;
    // SAFETY: a plain C structure of numbers and pointers, for which zeros are valid.
    let mut entry: libc::group = unsafe { std::mem::zeroed() };
    let mut text = vec![0; LONGEST_ENTRY];
    let mut found = ptr::null_mut();
    // SAFETY: all of it is valid for writing, the text has so many bytes, and the name ends with a zero.
    unsafe { libc::getgrnam_r(name.as_ptr(), &raw mut entry, text.as_mut_ptr(), text.len(), &raw mut found) };
    if found.is_null() { Err(unknown()) } else { Ok(entry.gr_gid) }
}

/// The groups of a user, as login gives them, `primary` among them.
fn groups_of(name: &CStr, primary: libc::gid_t) -> Vec<libc::gid_t> {
    let mut groups = vec![0; MOST_GROUPS.into()];
    let mut count = libc::c_int::from(MOST_GROUPS);
    // SAFETY: the list has room for so many, and the name ends with a zero.
    let all = unsafe { libc::getgrouplist(name.as_ptr(), primary, groups.as_mut_ptr(), &raw mut count) };
    groups.truncate(usize::try_from(all).unwrap_or_default());
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_found_and_others_are_named() {
        assert_eq!(
            (find_user("root").map(|user| user.uid), find_user("0").map(|user| user.uid)),
            (Ok(0), Ok(0))
        );
        assert_eq!((find_group("root"), find_group("77")), (Ok(0), Ok(77)));
        for (user, group, message) in [
            (Some("no such user"), None, "there is no user 'no such user'"),
            (None, Some("no such group"), "there is no group 'no such group'"),
            (Some("a\0b"), None, "there is no user 'a\0b'"),
            (Some("4294967295"), Some("7"), "there is no user '4294967295'"),
            (
                Some("4123456789"),
                None,
                "user 4123456789 is not in the list of users, which has no group for it: name that by --group",
            ),
        ] {
            assert_eq!(become_user(user, group), Err(message.to_owned()));
            assert_eq!(Identity::find(user, group), Err(message.to_owned()));
        }
        let numbers = Identity { user: Some(4_123_456_789), group: 7, groups: vec![7] };
        assert_eq!(Identity::find(Some("4123456789"), Some("7")), Ok(Some(numbers)));
        assert_eq!(become_user(None, None), Ok(()));
        assert!(groups_of(c"root", 0).contains(&0));
    }
}
