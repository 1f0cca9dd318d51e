//! The body of a request becomes a script's standard input, without anybody who writes it while the script reads: what fits a
//! pipe stands in there before the script starts, more of it in a memory of its own, and a spooled body is its file.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use howdah_sys::{decode_message, encode_message, recv_with_fds, send_until_passed};
use howdah_wire::{Message, MessageKind, REQUEST_EXTENT, REQUEST_SPOOLED, RequestReader, Work};
use rustix::fs::SeekFrom;
use rustix::io::{Errno, pwrite, write};
use rustix::pipe::{PipeFlags, pipe_with};

/// Longest answer on a channel that anybody reads.
const LONGEST: usize = 64 * 1024 + 64;

/// Standard input for the request, `null` for one without a body. `channel` goes to the front thread that has it.
///
/// # Errors
/// The kernel's, or that the body is not there.
pub(crate) fn stdin(
    work: &Work,
    request: &RequestReader<'_>,
    channel: &OwnedFd,
    null: &OwnedFd,
) -> io::Result<OwnedFd> {
    let (flags, length) = (request.flags(), request.body_length());
    if flags & REQUEST_SPOOLED != 0 {
        return spooled(work.slot(), channel);
    }
    let body = if flags & REQUEST_EXTENT != 0 {
        usize::try_from(length).ok().and_then(|length| work.extent(request.extent(), length))
    } else {
        Some(request.body())
    };
    match body {
        Some([]) => null.try_clone(),
        Some(body) => held(body),
        None => Err(io::Error::other("the body is not where the front has put it")),
    }
}

fn held(body: &[u8]) -> io::Result<OwnedFd> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&writer, true)?;
    match write(&writer, body) {
        Ok(written) if written == body.len() => Ok(reader),
        Ok(_) | Err(Errno::AGAIN) => in_memory(body),
        Err(error) => Err(error.into()),
    }
}

fn in_memory(body: &[u8]) -> io::Result<OwnedFd> {
    let file = howdah_sys::memfd(c"body", body.len() as u64)?;
    let mut at = 0;
    while at < body.len() {
        at += pwrite(&file, &body[at..], at as u64)?;
    }
    Ok(file)
}

/// Asks the front for the file.
fn spooled(slot: u32, channel: &OwnedFd) -> io::Result<OwnedFd> {
    let question = Message { kind: MessageKind::Body as u32, slot, value: 0 };
    send_until_passed(channel, &encode_message(question))?;
    let mut packet = vec![0; LONGEST];
    loop {
        let (length, mut fds) = recv_with_fds(channel, &mut packet)?;
        if length == 0 {
            return Err(io::Error::other("the front is gone"));
        }
        // An answer to an earlier question may come late.
        let answer = decode_message(&packet[..length]).map(|(answer, _)| answer);
        if !answer.is_some_and(|answer| answer.kind == question.kind && answer.slot == slot) {
            continue;
        }
        let file =
            fds.pop().ok_or_else(|| io::Error::other("the front did not hand over the request body"))?;
        rustix::fs::seek(file.as_fd(), SeekFrom::Start(0))?;
        return Ok(file);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use howdah_sys::send_with_fds;

    use super::*;

    #[test]
    fn a_body_is_there_whole_before_anybody_reads_it() {
        for length in [1, 4096, 65_536, 65_537, 1 << 20] {
            let body: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let mut read = Vec::new();
            std::fs::File::from(held(&body).unwrap()).read_to_end(&mut read).unwrap();
            assert!(read == body, "{length} bytes");
        }
    }

    #[test]
    fn a_spooled_body_comes_as_its_file() {
        let (front, channel) = howdah_sys::socketpair_seqpacket().unwrap();
        rustix::io::ioctl_fionbio(&front, false).unwrap();
        let answers = std::thread::spawn(move || {
            let mut packet = [0; 64];
            let (length, _) = recv_with_fds(&front, &mut packet).unwrap();
            let (question, _) = decode_message(&packet[..length]).unwrap();
            let file = in_memory(b"large").unwrap();
            rustix::fs::seek(&file, SeekFrom::End(0)).unwrap();
            for (slot, fd) in [(question.slot + 1, None), (question.slot, Some(file.as_fd()))] {
                let answer = encode_message(Message { slot, ..question });
                send_with_fds(&front, &answer, fd.as_slice()).unwrap();
            }
        });
        let mut read = String::new();
        std::fs::File::from(spooled(7, &channel).unwrap()).read_to_string(&mut read).unwrap();
        answers.join().unwrap();
        assert_eq!(read, "large");
        assert!(spooled(7, &channel).is_err(), "the front is gone");
    }
}
