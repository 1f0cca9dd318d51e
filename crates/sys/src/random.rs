//! Random numbers of the kernel's, for ids and secrets.

use std::io;

/// 64 bits that nobody can guess. Waits for the kernel's pool to be filled, which it is soon after the machine's start.
///
/// # Errors
/// ENOSYS on a kernel without getrandom(2), before Linux 3.17.
pub fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}
