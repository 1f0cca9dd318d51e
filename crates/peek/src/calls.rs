//! What the kernel calls its system calls, by their numbers on this machine: those in which a worker may be found waiting.

use std::ffi::c_long;

/// On every architecture.
const CALLS: &[(c_long, &str)] = &[
    (libc::SYS_accept, "accept"),
    (libc::SYS_accept4, "accept4"),
    (libc::SYS_brk, "brk"),
    (libc::SYS_chdir, "chdir"),
    (libc::SYS_clock_nanosleep, "clock_nanosleep"),
    (libc::SYS_clone, "clone"),
    (libc::SYS_clone3, "clone3"),
    (libc::SYS_close, "close"),
    (libc::SYS_connect, "connect"),
    (libc::SYS_copy_file_range, "copy_file_range"),
    (libc::SYS_dup, "dup"),
    (libc::SYS_dup3, "dup3"),
    (libc::SYS_epoll_pwait, "epoll_pwait"),
    (libc::SYS_epoll_pwait2, "epoll_pwait2"),
    (libc::SYS_execve, "execve"),
    (libc::SYS_exit_group, "exit_group"),
    (libc::SYS_faccessat, "faccessat"),
    (libc::SYS_faccessat2, "faccessat2"),
    (libc::SYS_fallocate, "fallocate"),
    (libc::SYS_fchdir, "fchdir"),
    (libc::SYS_fcntl, "fcntl"),
    (libc::SYS_fdatasync, "fdatasync"),
    (libc::SYS_flock, "flock"),
    (libc::SYS_fstat, "fstat"),
    (libc::SYS_fsync, "fsync"),
    (libc::SYS_ftruncate, "ftruncate"),
    (libc::SYS_futex, "futex"),
    (libc::SYS_getdents64, "getdents64"),
    (libc::SYS_getitimer, "getitimer"),
    (libc::SYS_getrandom, "getrandom"),
    (libc::SYS_io_uring_enter, "io_uring_enter"),
    (libc::SYS_ioctl, "ioctl"),
    (libc::SYS_kill, "kill"),
    (libc::SYS_lseek, "lseek"),
    (libc::SYS_madvise, "madvise"),
    (libc::SYS_mkdirat, "mkdirat"),
    (libc::SYS_mmap, "mmap"),
    (libc::SYS_mprotect, "mprotect"),
    (libc::SYS_msgrcv, "msgrcv"),
    (libc::SYS_msgsnd, "msgsnd"),
    (libc::SYS_msync, "msync"),
    (libc::SYS_munmap, "munmap"),
    (libc::SYS_nanosleep, "nanosleep"),
    (libc::SYS_newfstatat, "newfstatat"),
    (libc::SYS_openat, "openat"),
    (libc::SYS_pipe2, "pipe2"),
    (libc::SYS_ppoll, "ppoll"),
    (libc::SYS_pread64, "pread64"),
    (libc::SYS_preadv, "preadv"),
    (libc::SYS_process_vm_readv, "process_vm_readv"),
    (libc::SYS_pselect6, "pselect6"),
    (libc::SYS_pwrite64, "pwrite64"),
    (libc::SYS_pwritev, "pwritev"),
    (libc::SYS_read, "read"),
    (libc::SYS_readlinkat, "readlinkat"),
    (libc::SYS_readv, "readv"),
    (libc::SYS_recvfrom, "recvfrom"),
    (libc::SYS_recvmmsg, "recvmmsg"),
    (libc::SYS_recvmsg, "recvmsg"),
    (libc::SYS_renameat2, "renameat2"),
    (libc::SYS_restart_syscall, "restart_syscall"),
    (libc::SYS_rt_sigsuspend, "rt_sigsuspend"),
    (libc::SYS_rt_sigtimedwait, "rt_sigtimedwait"),
    (libc::SYS_sched_yield, "sched_yield"),
    (libc::SYS_semop, "semop"),
    (libc::SYS_semtimedop, "semtimedop"),
    (libc::SYS_sendfile, "sendfile"),
    (libc::SYS_sendmmsg, "sendmmsg"),
    (libc::SYS_sendmsg, "sendmsg"),
    (libc::SYS_sendto, "sendto"),
    (libc::SYS_shutdown, "shutdown"),
    (libc::SYS_socket, "socket"),
    (libc::SYS_splice, "splice"),
    (libc::SYS_statx, "statx"),
    (libc::SYS_sync, "sync"),
    (libc::SYS_sync_file_range, "sync_file_range"),
    (libc::SYS_syncfs, "syncfs"),
    (libc::SYS_unlinkat, "unlinkat"),
    (libc::SYS_wait4, "wait4"),
    (libc::SYS_waitid, "waitid"),
    (libc::SYS_write, "write"),
    (libc::SYS_writev, "writev"),
];

/// Where there are calls that newer architectures have no more.
#[cfg(target_arch = "x86_64")]
const OLD: &[(c_long, &str)] = &[
    (libc::SYS_access, "access"),
    (libc::SYS_dup2, "dup2"),
    (libc::SYS_epoll_wait, "epoll_wait"),
    (libc::SYS_fork, "fork"),
    (libc::SYS_getdents, "getdents"),
    (libc::SYS_lstat, "lstat"),
    (libc::SYS_mkdir, "mkdir"),
    (libc::SYS_open, "open"),
    (libc::SYS_pause, "pause"),
    (libc::SYS_pipe, "pipe"),
    (libc::SYS_poll, "poll"),
    (libc::SYS_readlink, "readlink"),
    (libc::SYS_rename, "rename"),
    (libc::SYS_renameat, "renameat"),
    (libc::SYS_rmdir, "rmdir"),
    (libc::SYS_select, "select"),
    (libc::SYS_stat, "stat"),
    (libc::SYS_unlink, "unlink"),
    (libc::SYS_vfork, "vfork"),
];
#[cfg(target_arch = "aarch64")]
const OLD: &[(c_long, &str)] = &[(libc::SYS_renameat, "renameat")];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const OLD: &[(c_long, &str)] = &[];

fn all() -> impl Iterator<Item = &'static (c_long, &'static str)> {
    CALLS.iter().chain(OLD)
}

/// Its name; `call 123` for one that is not known here.
pub(crate) fn name(number: c_long) -> String {
    let known = all().find(|(other, _)| *other == number);
    known.map_or_else(|| format!("call {number}"), |(_, name)| (*name).to_owned())
}

/// Its number, if it is known here.
#[cfg(test)]
pub(crate) fn number(name: &str) -> Option<c_long> {
    all().find(|(_, other)| *other == name).map(|(number, _)| *number)
}

/// Which argument of a call is the descriptor that it waits for.
pub(crate) fn descriptor(call: &str) -> Option<usize> {
    let first = matches!(
        call,
        "read"
            | "write"
            | "readv"
            | "writev"
            | "pread64"
            | "pwrite64"
            | "preadv"
            | "pwritev"
            | "recvfrom"
            | "sendto"
            | "recvmsg"
            | "sendmsg"
            | "recvmmsg"
            | "sendmmsg"
            | "connect"
            | "accept"
            | "accept4"
            | "fcntl"
            | "flock"
            | "fsync"
            | "fdatasync"
            | "ftruncate"
            | "fallocate"
            | "ioctl"
            | "getdents"
            | "getdents64"
            | "sendfile"
            | "epoll_wait"
            | "epoll_pwait"
            | "epoll_pwait2"
            | "splice"
            | "copy_file_range"
    );
    first.then_some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_names() {
        for name_of in ["read", "clock_nanosleep", "futex", "ppoll", "wait4"] {
            assert_eq!(name(number(name_of).unwrap()), name_of);
        }
        assert_eq!(name(99_999), "call 99999");
    }
}
