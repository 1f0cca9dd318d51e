//! Becoming an ordinary user, for a process that runs what others have written: the host of scripts. Perl zygotes do the same
//! in `lib/Howdah/Privileges.pm`. Whoever starts either finds out before whether there is such a user. And having a user's rights for a moment, to
//! look at what is his.

use std::ffi::{CStr, CString};
use std::fs::Metadata;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::ptr;

use rustix::fs::{Mode, OFlags};

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

/// Changes real, effective and saved ids, and leaves root's session keyring. Either may be a name or a number. Without a group it is the user's, whose further
/// groups are taken over; without a user only the group changes, and further groups are given up. Call it while there is
/// one thread.
///
/// # Errors
/// A sentence that says what is not there or may not be done.
pub fn become_user(user: Option<&str>, group: Option<&str>) -> Result<(), String> {
    let Some((found, group)) = find(user, group)? else { return Ok(()) };
    let listed = found.as_ref().and_then(|user| user.listed.as_ref());
    let groups = listed.map_or_else(|| vec![group], |(name, _)| groups_of(name, group));
    leave_keyring().map_err(|error| format!("cannot leave the session keyring of root: {error}"))?;
    [libc::STDOUT_FILENO, libc::STDERR_FILENO].into_iter().for_each(only_write);
    change_group(group, &groups)
        .map_err(|error| format!("cannot change to group {group}: {error}; {WHO_MAY}"))?;
    let Some(user) = found else { return Ok(()) };
    change_user(user.uid).map_err(|error| format!("cannot change to user {}: {error}; {WHO_MAY}", user.uid))
}

/// Whether [`become_user`] finds both.
///
/// # Errors
/// A sentence that says what is not there.
pub fn are_known(user: Option<&str>, group: Option<&str>) -> Result<(), String> {
    find(user, group).map(drop)
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

/// A terminal that standard output leads to is open for reading, too: what root types there is root's.
fn only_write(fd: libc::c_int) {
    // SAFETY: numbers only.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    // SAFETY: the same.
    let terminal = unsafe { libc::isatty(fd) } == 1;
    if !terminal || flags & libc::O_ACCMODE != libc::O_RDWR {
        return;
    }
    let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::CLOEXEC;
    if let Ok(terminal) = rustix::fs::open(format!("/proc/self/fd/{fd}"), flags, Mode::empty()) {
        // SAFETY: the copy is open, and whoever uses the number finds the same terminal.
        unsafe { libc::dup2(terminal.as_raw_fd(), fd) };
    }
}

fn change_group(group: libc::gid_t, groups: &[libc::gid_t]) -> io::Result<()> {
    // SAFETY: the list has so many entries.
    done(unsafe { libc::setgroups(groups.len(), groups.as_ptr()) })?;
    // SAFETY: numbers only.
    done(unsafe { libc::setresgid(group, group, group) })
}

fn change_user(user: libc::uid_t) -> io::Result<()> {
    // SAFETY: numbers only.
    done(unsafe { libc::setresuid(user, user, user) })?;
    // So that the front can look at the memory of this process, as it can at a zygote's.
    // SAFETY: numbers only.
    done(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) })
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
            assert_eq!(are_known(user, group), Err(message.to_owned()));
        }
        assert_eq!(are_known(Some("root"), Some("root")), Ok(()));
        assert_eq!(are_known(Some("4123456789"), Some("7")), Ok(()));
        assert_eq!(become_user(None, None), Ok(()));
        assert!(groups_of(c"root", 0).contains(&0));
    }
}
