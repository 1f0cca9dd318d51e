//! The words of a request in the memory of a slot: as they were written, and whatever a worker has made of that memory.

use howdah_wire::{RequestReader, RequestWriter};

/// How much memory there is, and bytes that a worker writes over it; behind that names and values, each ended by a zero.
///
/// # Panics
/// When a field is not read as it was written, or anything beyond the memory.
pub fn words(data: &[u8]) {
    let Some((&[size, start, length], rest)) = data.split_first_chunk() else { return };
    let parts: Vec<_> = rest.split(|&byte| byte == 0).collect();
    let mut area = vec![0; usize::from(size) * 64 + 4096];
    if let Some(written) = write(&mut area, &parts) {
        let read = |name: &[u8]| RequestReader::new(&area).field(name);
        for (name, value) in &written {
            assert_eq!(read(name), Some(&value[..]), "{}", name.escape_ascii());
        }
        assert_eq!(RequestReader::new(&area).variables().count(), written.len());
        look(&area);
    }
    // The record and the table are where it does harm.
    let at = usize::from(start) * 16;
    let with = rest.iter().copied().cycle().take(usize::from(length));
    area.iter_mut().skip(at).zip(with).for_each(|(byte, with)| *byte = with);
    look(&area);
    look(rest);
}

/// What was written, by its name in the env; none if there was no room.
fn write(area: &mut [u8], parts: &[&[u8]]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut out = RequestWriter::new(area);
    let mut all: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    out.record.method = out.put(b"GET").ok()?;
    for [name, value] in parts.as_chunks().0 {
        out.field(name, value).ok()?;
        let upper = name.iter().map(|&byte| if byte == b'-' { b'_' } else { byte.to_ascii_uppercase() });
        let prefix: &[u8] = if name.eq_ignore_ascii_case(b"content-type") { b"" } else { b"HTTP_" };
        let name: Vec<u8> = prefix.iter().copied().chain(upper).collect();
        match all.iter_mut().find(|other| other.0 == name) {
            Some((name, before)) => {
                before.extend_from_slice(if name == b"HTTP_COOKIE" { b"; " } else { b", " });
                before.extend_from_slice(value);
            }
            None => all.push((name, value.to_vec())),
        }
    }
    out.finish();
    Some(all)
}

fn look(area: &[u8]) {
    let words = RequestReader::new(area);
    let _ = (
        words.method(),
        words.uri(),
        words.path(),
        words.query(),
        words.protocol(),
        words.body(),
        words.flags(),
    );
    let _ = (words.server_name(), words.server_port(), words.remote_addr(), words.remote_port());
    assert!(words.used().len() <= area.len());
    for (name, value) in words.variables() {
        assert!(name.len() <= area.len() && value.len() <= area.len());
        let _ = words.field(name);
    }
}
