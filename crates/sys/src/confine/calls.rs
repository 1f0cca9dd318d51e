//! System calls that a front has no use for (seccomp): they fail with EPERM, rather than end the process, so that a
//! library that tries one has its fallback.
//!
//! It is a list of what is refused. One of what is allowed would be shorter to get wrong: the next version of the C
//! library uses a call that is not on it, and the server ends. So the list holds the calls by which a process that
//! somebody else has taken over gets further: programs, other processes, connections, the system itself.

use std::collections::BTreeMap;
use std::io;

use libc::{c_int, c_long};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// Refused whatever their arguments.
const REFUSED: &[c_long] = &[
    // Other programs and processes.
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    // Another view of the system.
    libc::SYS_chroot,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_pivot_root,
    libc::SYS_setns,
    libc::SYS_umount2,
    libc::SYS_unshare,
    // The kernel's machinery, a frequent way through its walls. io_uring makes calls that no filter sees.
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_keyctl,
    libc::SYS_perf_event_open,
    libc::SYS_request_key,
    libc::SYS_userfaultfd,
    // The machine.
    libc::SYS_acct,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_kexec_load,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    // Files past the rules of their directories.
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    // Other identities.
    libc::SYS_personality,
    libc::SYS_setfsgid,
    libc::SYS_setfsuid,
    libc::SYS_setgid,
    libc::SYS_setgroups,
    libc::SYS_setregid,
    libc::SYS_setresgid,
    libc::SYS_setresuid,
    libc::SYS_setreuid,
    libc::SYS_setuid,
];

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[c_long] =
    &[libc::SYS_ioperm, libc::SYS_iopl, libc::SYS_kexec_file_load, libc::SYS_modify_ldt, libc::SYS_uselib];
/// kexec_file_load, by the number that these have in common: the crate libc does not know it on RISC-V.
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[c_long] = &[294];

/// On x86 each call has a second number, that of the x32 ABI, and some have one of their own there: execve, ptrace,
/// kexec_load, process_vm_readv and process_vm_writev, execveat.
#[cfg(target_arch = "x86_64")]
const X32: (c_long, &[c_long]) = (0x4000_0000, &[520, 521, 528, 539, 540, 545]);

/// Refuses them to the calling thread and what comes of it. So is what leads to others, as a front is connected to: connect, and
/// sockets other than Unix sockets. With `connects` those of TCP and UDP are left, and connect. Wants
/// [`no_new_privileges`](super::no_new_privileges).
///
/// # Errors
/// Unsupported on another architecture than x86-64, AArch64 and RISC-V; ENOSYS or EINVAL when the kernel has no seccomp.
pub fn refuse_calls(connects: bool) -> io::Result<()> {
    install(&compile(connects).map_err(|error| io::Error::new(io::ErrorKind::Unsupported, error))?)
}

fn compile(connects: bool) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> =
        REFUSED.iter().chain(REFUSED_HERE).map(|&number| (number, Vec::new())).collect();
    const LOCAL: &[c_int] = &[libc::AF_UNIX];
    const ALL: &[c_int] = &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6];
    rules.insert(libc::SYS_socket, vec![other_than(if connects { ALL } else { LOCAL })?]);
    if !connects {
        rules.insert(libc::SYS_connect, Vec::new());
    }
    #[cfg(target_arch = "x86_64")]
    for number in rules.keys().copied().chain(X32.1.iter().copied()).collect::<Vec<_>>() {
        let rule = rules.get(&number).cloned().unwrap_or_default();
        rules.insert(number | X32.0, rule);
    }
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, std::env::consts::ARCH.try_into()?)?;
    filter.try_into()
}

/// A socket of another family.
fn other_than(families: &[c_int]) -> Result<SeccompRule, seccompiler::BackendError> {
    let other = |family: &c_int| {
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family.unsigned_abs().into())
    };
    SeccompRule::new(families.iter().map(other).collect::<Result<_, _>>()?)
}

/// Without the mitigation of Spectre v4 that kernels before 5.16 couple with a filter: it would slow every load after
/// a store, and nothing here runs code that somebody else brought.
fn install(program: &BpfProgram) -> io::Result<()> {
    let length = u16::try_from(program.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut().cast() };
    let flags = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    // SAFETY: the program is valid for reading with its length, and its instructions have the kernel's layout.
    let failed =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has the calling thread see that error of that call, as it does under a service manager's filter.
#[cfg(test)]
pub(super) fn refuse_one(number: c_long, error: c_int) {
    let rules = BTreeMap::from([(number, Vec::new())]);
    let refuse = SeccompAction::Errno(error.unsigned_abs());
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).unwrap();
    install(&filter.try_into().unwrap()).unwrap();
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4};

    use rustix::net::{AddressFamily, SocketType};

    use super::*;

    #[test]
    fn a_thread_loses_calls_and_keeps_those_that_a_front_makes() {
        let confined = || {
            super::super::no_new_privileges().unwrap();
            refuse_calls(false).unwrap();
            let refused = std::process::Command::new("/bin/true").spawn().unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::EPERM), "execve");
            let refused = std::net::TcpStream::connect("127.0.0.1:9").unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::EPERM), "socket");
            std::os::unix::net::UnixDatagram::unbound().unwrap();
            std::thread::spawn(|| std::fs::read("/proc/self/status").unwrap()).join().unwrap();
        };
        std::thread::spawn(confined).join().unwrap();
        std::process::Command::new("/bin/true").status().unwrap();
    }

    #[test]
    fn a_thread_that_is_to_connect_still_does_and_no_more() {
        let confined = || {
            super::super::no_new_privileges().unwrap();
            refuse_calls(true).unwrap();
            // It has the port, so that nobody else listens there.
            let deaf = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
            rustix::net::bind(&deaf, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
            let there = SocketAddrV4::try_from(rustix::net::getsockname(&deaf).unwrap()).unwrap();
            let refused = std::net::TcpStream::connect(there).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused, "nobody listens");
            std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            let refused = std::process::Command::new("/bin/true").spawn().unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::EPERM), "execve");
        };
        std::thread::spawn(confined).join().unwrap();
    }
}
