//! What comes through the pipe: records of Perl's, and whatever else writes to standard error.
//!
//! A record is a mark, a line of fields parted by unit separators, and so many bytes (`xs/errors.c` writes it):
//!
//!     MARK level \x1f pid \x1f worker or - \x1f request id \x1f method \x1f target \x1f length \n bytes
//!
//! Perl writes one with a single call and never more than a pipe takes as a whole, so records stand undivided. The mark
//! holds a secret of this server's: a program that is made to print something cannot print a record.
//!
//! What comes out are messages: one line, or as many as were said in one breath, which a terminal shows as one.

use std::collections::HashMap;
use std::mem;

use super::line::{RequestTag, Source};
use crate::options::logs::Level;

/// A message that gets longer is cut into several.
const LONGEST: usize = 64 * 1024;
/// A record is written at once, and so has no more bytes: PIPE_BUF.
const MOST: usize = 4096;
/// A record of this size is full, and the message goes on in the next: PIPE_BUF, less what `xs/errors.c` cannot use.
const FULL: usize = 4096 - 8;

/// Takes bytes, gives messages.
#[derive(Debug)]
pub(super) struct Records {
    mark: Vec<u8>,
    /// Read, and not yet understood.
    input: Vec<u8>,
    /// Of each process the line that is not at its end; what stands in no record is process 0's.
    open: HashMap<u32, Open>,
}

#[derive(Debug, Default)]
struct Open {
    level: Option<Level>,
    source: Source,
    text: Vec<u8>,
    /// Nothing has come since the last look.
    rests: bool,
}

/// What stands behind a mark is none.
struct NoRecord;

struct Header {
    level: Level,
    source: Source,
    length: usize,
    /// Bytes of the header itself.
    size: usize,
}

impl Records {
    pub(super) fn new(mark: Vec<u8>) -> Self {
        Self { mark, input: Vec::new(), open: HashMap::new() }
    }

    /// Takes what was read; `line` gets every message that is at its end.
    pub(super) fn take(&mut self, bytes: &[u8], mut line: impl FnMut(Level, &Source, &[u8])) {
        self.input.extend_from_slice(bytes);
        let input = mem::take(&mut self.input);
        let mut rest = &input[..];
        loop {
            let at = find(rest, &self.mark);
            self.put_raw(&rest[..at], &mut line);
            rest = &rest[at..];
            let header = match self.header(rest) {
                Ok(Some(header)) => header,
                Ok(None) => break,
                Err(NoRecord) => {
                    rest = &rest[self.mark.len()..];
                    continue;
                }
            };
            let end = header.size + header.length;
            if rest.len() < end {
                break;
            }
            let key = match header.source {
                Source::Zygote { pid } | Source::Worker { pid, .. } => pid,
                Source::Front | Source::Unknown => 0,
            };
            let goes_on = end >= FULL;
            self.put(key, (header.level, header.source), &rest[header.size..end], goes_on, &mut line);
            rest = &rest[end..];
        }
        self.input = rest.to_vec();
    }

    /// Somebody has begun a line and not ended it.
    pub(super) fn has_open(&self) -> bool {
        !self.open.is_empty() || !self.input.is_empty()
    }

    /// Gives the lines that nobody has ended, and to which nothing has come since the last look, while others go on.
    pub(super) fn look(&mut self, mut line: impl FnMut(Level, &Source, &[u8])) {
        for open in self.open.values_mut() {
            if mem::replace(&mut open.rests, true) {
                open.give(open.text.len(), &mut line);
            }
        }
        self.open.retain(|_, open| !open.text.is_empty());
    }

    /// Nothing has come for a while: gives the lines that nobody has ended.
    pub(super) fn flush(&mut self, mut line: impl FnMut(Level, &Source, &[u8])) {
        let input = mem::take(&mut self.input);
        self.put_raw(&input, &mut line);
        for (_, mut open) in self.open.drain() {
            open.give(open.text.len(), &mut line);
        }
    }

    /// Lines in no record may be different programs', so each is a message.
    fn put_raw(&mut self, bytes: &[u8], line: &mut impl FnMut(Level, &Source, &[u8])) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.put(0, (Level::Info, Source::Unknown), piece, false, line);
        }
    }

    fn put(
        &mut self,
        key: u32,
        (level, source): (Level, Source),
        bytes: &[u8],
        goes_on: bool,
        line: &mut impl FnMut(Level, &Source, &[u8]),
    ) {
        if bytes.is_empty() {
            return;
        }
        let mut open = self.open.remove(&key).unwrap_or_default();
        if !open.text.is_empty() && (open.source != source || open.level != Some(level)) {
            open.give(open.text.len(), line);
        }
        (open.level, open.source, open.rests) = (Some(level), source, false);
        open.text.extend_from_slice(bytes);
        let whole_lines = open.text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        if !goes_on || open.text.len() >= LONGEST {
            open.give(whole_lines, line);
        }
        if open.text.len() >= LONGEST {
            open.give(open.text.len(), line);
        }
        if !open.text.is_empty() {
            self.open.insert(key, open);
        }
    }

    /// The header of the record that begins here; none while it is not complete. Who knows the mark may write anything behind it.
    fn header(&self, bytes: &[u8]) -> Result<Option<Header>, NoRecord> {
        let Some(fields) = bytes.strip_prefix(&self.mark[..]) else { return Ok(None) };
        let Some(end) = fields.iter().take(MOST).position(|&byte| byte == b'\n') else {
            return if fields.len() < MOST { Ok(None) } else { Err(NoRecord) };
        };
        self.whole_header(&fields[..end]).filter(|header| header.length <= MOST).map(Some).ok_or(NoRecord)
    }

    fn whole_header(&self, line: &[u8]) -> Option<Header> {
        let mut fields = line.split(|&byte| byte == 0x1f);
        let mut next = || fields.next().unwrap_or_default();
        let level = match next() {
            b"error" => Level::Error,
            b"info" => Level::Info,
            _ => Level::Warn,
        };
        let pid = number(next())?;
        let worker = next();
        let (id, method, target) = (next().to_vec(), next().to_vec(), next().to_vec());
        let request = (!method.is_empty()).then_some(RequestTag { id, method, target });
        let source = match number(worker) {
            Some(index) => Source::Worker { index, pid, request },
            None => Source::Zygote { pid },
        };
        Some(Header { level, source, length: number(next())?, size: self.mark.len() + line.len() + 1 })
    }
}

impl Open {
    /// Gives the first so many bytes.
    fn give(&mut self, length: usize, line: &mut impl FnMut(Level, &Source, &[u8])) {
        if length > 0 {
            line(self.level.unwrap_or(Level::Info), &self.source, &self.text[..length]);
            self.text.drain(..length);
        }
    }
}

fn number<N: std::str::FromStr>(digits: &[u8]) -> Option<N> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Where the mark is, or where one begins whose end has not been read; else the end.
fn find(bytes: &[u8], mark: &[u8]) -> usize {
    let begins = |at: &usize| {
        let rest = &bytes[*at..];
        rest.starts_with(mark) || mark.starts_with(rest)
    };
    (0..bytes.len()).find(|at| bytes[*at] == mark[0] && begins(at)).unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: &[u8] = b"\x1esecret";

    fn record(pid: u32, worker: &str, request: &str, text: &str) -> String {
        let mark = std::str::from_utf8(MARK).unwrap();
        format!("{mark}warn\x1f{pid}\x1f{worker}\x1f{request}\x1f{}\n{text}", text.len())
    }

    /// The lines of `input`, read in pieces of `size` bytes.
    fn lines(input: &[u8], size: usize) -> Vec<(Source, String)> {
        let mut records = Records::new(MARK.to_vec());
        let mut lines = Vec::new();
        let mut line = |_, source: &Source, text: &[u8]| {
            lines.push((source.clone(), String::from_utf8_lossy(text).into_owned()));
        };
        for piece in input.chunks(size) {
            records.take(piece, &mut line);
        }
        records.flush(&mut line);
        assert!(!records.has_open());
        lines
    }

    fn worker(index: u16, pid: u32) -> Source {
        let request = RequestTag { id: b"id".to_vec(), method: b"GET".to_vec(), target: b"/a".to_vec() };
        Source::Worker { index, pid, request: Some(request) }
    }

    #[test]
    fn lines_find_their_process_however_they_are_read() {
        let request = "id\x1fGET\x1f/a";
        let input = [
            "raw be",
            &record(7, "1", request, "begun "),
            &record(8, "2", request, "other\n"),
            "gun\nmore\x1e raw\n",
            &record(7, "1", request, "and ended\nnext"),
            &record(5, "-", "\x1f\x1f", "loading\n"),
        ]
        .concat();
        let expected = [
            (worker(2, 8), "other\n"),
            (Source::Unknown, "raw begun\n"),
            (Source::Unknown, "more\x1e raw\n"),
            (worker(1, 7), "begun and ended\n"),
            (Source::Zygote { pid: 5 }, "loading\n"),
            (worker(1, 7), "next"),
        ];
        for size in [1, 2, 7, 50, 1000] {
            let found = lines(input.as_bytes(), size);
            let found: Vec<_> = found.iter().map(|(source, text)| (source.clone(), text.as_str())).collect();
            assert_eq!(found, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn a_line_that_rests_is_given_while_others_go_on() {
        let mut records = Records::new(MARK.to_vec());
        let mut given = Vec::new();
        let mut look = |records: &mut Records| {
            records.look(|_, _, text| given.push(String::from_utf8_lossy(text).into_owned()));
            mem::take(&mut given)
        };
        let say = |records: &mut Records, pid, text| {
            records.take(record(pid, "1", "\x1f\x1f", text).as_bytes(), |_, _, _| ());
        };
        say(&mut records, 7, "last words");
        say(&mut records, 8, "begun");
        assert!(look(&mut records).is_empty(), "it has just come");
        say(&mut records, 8, " and gone on");
        assert_eq!(look(&mut records), ["last words"]);
        assert_eq!(look(&mut records), ["begun and gone on"]);
        assert!(!records.has_open());
    }

    #[test]
    fn without_the_secret_there_is_no_record() {
        let forged = "\x1esecreterror\x1f7\x1f1\x1f\x1f\x1f\x1f5\nforged\n".replace("secret", "guess!");
        let found = lines(forged.as_bytes(), 1000);
        assert!(found.iter().all(|(source, _)| *source == Source::Unknown), "{found:?}");
    }

    #[test]
    fn what_is_no_record_behind_the_mark_is_what_somebody_printed() {
        let mark = std::str::from_utf8(MARK).unwrap();
        let good = record(7, "1", "id\x1fGET\x1f/a", "good\n");
        for odd in [
            "warn\x1fx\x1f1\x1f\x1f\x1f\x1f5\n",
            "warn\x1f7\x1f1\x1f\x1f\x1f\x1fmany\n",
            "warn\x1f7\x1f1\x1f\x1f\x1f\x1f5000\n",
            &format!("warn\x1f7\x1f1\x1f\x1f\x1f\x1f{}\n", usize::MAX),
            &format!("{}\n", "x".repeat(5000)),
        ] {
            for size in [7, 10_000] {
                let mut records = Records::new(MARK.to_vec());
                let mut found = Vec::new();
                for piece in format!("{mark}{odd}{good}").as_bytes().chunks(size) {
                    records.take(piece, |_, source, text| {
                        found.push((source.clone(), String::from_utf8_lossy(text).into_owned()));
                    });
                }
                assert_eq!(found.last(), Some(&(worker(1, 7), "good\n".to_owned())), "{odd} {size}");
                assert!(!records.has_open());
            }
        }
    }

    #[test]
    fn what_is_said_in_one_breath_is_one_message() {
        let trace = "it failed\n\tat a\n".to_owned() + &"\tat b\n".repeat(1000);
        let header = record(7, "1", "\x1f\x1f", "").len() + "0000".len() - 1;
        let (first, rest) = trace.split_at(4093 - header);
        assert_eq!(record(7, "1", "\x1f\x1f", first).len(), 4093);
        let input = [record(7, "1", "\x1f\x1f", first), record(7, "1", "\x1f\x1f", rest)].concat();
        let none = Source::Worker { index: 1, pid: 7, request: None };
        for size in [100, 100_000] {
            assert_eq!(lines(input.as_bytes(), size), [(none.clone(), trace.clone())]);
        }
        let found = lines(b"one\ntwo\n", 1000);
        assert_eq!(found.len(), 2, "but what others print may be by several");
    }

    #[test]
    fn levels_are_told_apart() {
        let said = |level: &str, text: &str| {
            record(7, "1", "\x1f\x1f", text).replace("warn\x1f", &format!("{level}\x1f"))
        };
        let input =
            [said("info", "printed"), said("warn", "warned\n"), said("error", "died\n")].concat() + "raw\n";
        let mut levels = Vec::new();
        Records::new(MARK.to_vec())
            .take(input.as_bytes(), |level, _, text| levels.push((level, text.to_vec())));
        let expected = [
            (Level::Info, "printed"),
            (Level::Warn, "warned\n"),
            (Level::Error, "died\n"),
            (Level::Info, "raw\n"),
        ];
        assert_eq!(levels, expected.map(|(level, text)| (level, text.as_bytes().to_vec())));
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let found = lines(&vec![b'x'; LONGEST * 2 + 10], 4096);
        assert_eq!(found.iter().map(|(_, text)| text.len()).sum::<usize>(), LONGEST * 2 + 10);
        assert!(found.len() >= 3);
    }

    #[test]
    fn the_end_of_a_request_ends_its_line() {
        let input = [record(7, "1", "id\x1fGET\x1f/a", "no end"), record(7, "1", "\x1f\x1f", "x\n")].concat();
        let none = Source::Worker { index: 1, pid: 7, request: None };
        let found = lines(input.as_bytes(), 1000);
        assert_eq!(found, [(worker(1, 7), "no end".to_owned()), (none, "x\n".to_owned())]);
    }
}
