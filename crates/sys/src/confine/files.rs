//! Files and TCP ports that a front has no use for (Landlock, Linux 5.13 and later).

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, NetPort, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, path_beneath_rules,
};

/// What stays open. A directory stands for all below it; what does not exist is left out.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// To read and to list.
    pub read: Vec<PathBuf>,
    /// To write, which may be a directory to create and remove files in.
    pub write: Vec<PathBuf>,
    /// Directories to remove files from.
    pub remove: Vec<PathBuf>,
    /// TCP ports to connect to; where there are any, that of name servers is another.
    pub connect: Vec<u16>,
}

/// What the kernel did.
#[derive(Debug)]
pub enum Restricted {
    /// By a version of Landlock that bears this name for people.
    By(String),
    /// Nothing, for there is none: ENOSYS when the kernel knows no such call, EOPNOTSUPP when it was told at its start to do
    /// without, another error when a filter of system calls refuses it.
    Not(io::Error),
}

/// Closes everything else to the calling thread and what comes of it, and all TCP ports but those to connect to: none to
/// bind. What is open stays open. Wants [`no_new_privileges`](super::no_new_privileges).
///
/// # Errors
/// When the kernel has Landlock but refuses.
pub fn restrict_files(files: &Files) -> Result<Restricted, RulesetError> {
    if let Err(error) = version() {
        return Ok(Restricted::Not(error));
    }
    let write = AccessFs::ReadFile
        | AccessFs::ReadDir
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::RemoveFile;
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(handled())?
        .handle_access(AccessNet::ConnectTcp | AccessNet::BindTcp)?
        .create()?
        .add_rules(path_beneath_rules(nameable(&files.read), AccessFs::ReadFile | AccessFs::ReadDir))?
        .add_rules(path_beneath_rules(nameable(&files.write), write))?
        .add_rules(path_beneath_rules(nameable(&files.remove), AccessFs::RemoveFile))?
        .add_rules(ports(&files.connect))?
        .restrict_self()?;
    Ok(match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => {
            Restricted::By(format!("ABI {}", format!("{effective_abi:?}").trim_start_matches('V')))
        }
        LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => {
            Restricted::Not(io::ErrorKind::Unsupported.into())
        }
    })
}

/// The crate takes each error for a kernel without Landlock.
fn version() -> io::Result<()> {
    const VERSION: libc::c_uint = 1;
    let nothing = std::ptr::null::<libc::c_void>();
    // SAFETY: a call that only returns a number.
    let found = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0_usize, VERSION) };
    if found < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn ports(connect: &[u16]) -> impl Iterator<Item = Result<NetPort, RulesetError>> {
    let names = connect.first().map(|_| 53);
    let ports = connect.iter().copied().chain(names);
    ports.map(|port| Ok(NetPort::new(port, AccessNet::ConnectTcp)))
}

/// Without pipes and sockets, such as /dev/stdout may lead to: they have no place in the file system, so that no rule
/// can name them, nor need one.
fn nameable(paths: &[PathBuf]) -> impl Iterator<Item = &Path> {
    let has_place = |path: &&PathBuf| {
        path.metadata().is_ok_and(|meta| {
            let kind = meta.file_type();
            kind.is_dir() || kind.is_file() || kind.is_char_device()
        })
    };
    paths.iter().filter(has_place).map(PathBuf::as_path)
}

/// All that there is, but for the devices' ioctls: a terminal is asked for its width.
fn handled() -> BitFlags<AccessFs> {
    AccessFs::from_all(ABI::V5) & !AccessFs::IoctlDev
}

#[cfg(test)]
mod tests {
    use super::super::{calls, no_new_privileges};
    use super::*;

    #[test]
    fn a_filter_that_refuses_landlock_is_told_from_a_kernel_that_lacks_it() {
        for number in [libc::EPERM, libc::ENOSYS] {
            let restricted = move || {
                no_new_privileges().unwrap();
                calls::refuse_one(libc::SYS_landlock_create_ruleset, number);
                restrict_files(&Files::default()).unwrap()
            };
            match std::thread::spawn(restricted).join().unwrap() {
                Restricted::Not(error) => assert_eq!(error.raw_os_error(), Some(number)),
                done @ Restricted::By(_) => panic!("{done:?}"),
            }
        }
    }
}
