//! What a script prints becomes the head of a response (RFC 3875 section 6), as it comes.
//!
//! [`Reader`] takes pieces of any size, so that a script may print its header byte by byte; it holds no more than a head may
//! have. Lines end in LF or CRLF. [`line`] says what a line is, [`verdict`] what all of them mean. The front owns the
//! connection: fields about that and about framing are taken out and told apart from the others.

mod verdict;
mod answer;
mod line;

use howdah_wire::RESPONSE_HEAD;
use thiserror::Error;

pub use answer::{Answer, Head};
use line::Field;
use verdict::Draft;

/// The head is no head: 500, and this for the log.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct Fault(String);

/// Takes the head from a script's output, piece by piece.
#[derive(Debug)]
pub struct Reader {
    nph: bool,
    /// What has come of the present line.
    line: Vec<u8>,
    /// Lines that are whole.
    lines: usize,
    /// Bytes that they had.
    taken: usize,
    draft: Draft,
}

impl Reader {
    /// For a script that writes the whole response itself (`nph`), or for one whose output the server completes.
    #[must_use]
    pub fn new(nph: bool) -> Self {
        Self { nph, line: Vec::new(), lines: 0, taken: 0, draft: Draft::default() }
    }

    /// Takes further bytes; once the head is complete, gives it and how many of these bytes belonged to it.
    ///
    /// # Errors
    /// [`Fault`] says which line is wrong and how.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Option<(Answer, usize)>, Fault> {
        let mut at = 0;
        while let Some(length) = bytes[at..].iter().position(|&byte| byte == b'\n') {
            self.add(&bytes[at..at + length])?;
            at += length + 1;
            let line = std::mem::take(&mut self.line);
            self.lines += 1;
            self.taken += line.len() + 1;
            if let Some(answer) = self.end_line(line.strip_suffix(b"\r").unwrap_or(&line))? {
                return Ok(Some((answer, at)));
            }
        }
        self.add(&bytes[at..])?;
        Ok(None)
    }

    fn add(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        if self.taken + self.line.len() + bytes.len() > RESPONSE_HEAD {
            return Err(Fault(format!(
                "its header is longer than {RESPONSE_HEAD} bytes, and has not ended by an empty line"
            )));
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// Gives the answer when the line was the last.
    fn end_line(&mut self, line: &[u8]) -> Result<Option<Answer>, Fault> {
        if self.nph && self.draft.status.is_none() {
            self.draft.status = Some(line::status_line(line).map_err(|why| self.fault(line, &why))?);
            return Ok(None);
        }
        if line.is_empty() {
            return self.end_head();
        }
        let field = Field::parse(line).map_err(|why| self.fault(line, &why))?;
        self.draft.add(field, self.nph).map_err(|why| self.fault(line, &why))?;
        Ok(None)
    }

    fn end_head(&mut self) -> Result<Option<Answer>, Fault> {
        let draft = std::mem::take(&mut self.draft);
        if !self.nph {
            let what = if self.lines == 1 { "its output begins" } else { "its header ends" };
            return draft
                .complete()
                .map(Some)
                .map_err(|why| Fault(format!("{what} with an empty line: {why}")));
        }
        // Interim responses come before the one that counts.
        let interim = draft.status.is_some_and(|status| status < 200);
        Ok((!interim).then(|| Answer::Response(draft.into_head())))
    }

    /// The output has ended before its head was complete.
    #[must_use]
    pub fn ended(&self) -> Fault {
        Fault(match (self.lines, self.line.is_empty()) {
            (0, true) => "it has ended without any output".to_owned(),
            (0, false) => format!("its output ends within its first line, \"{}\"", line::excerpt(&self.line)),
            (lines, true) => {
                format!("its output ends after line {lines} of its header, which no empty line has ended")
            }
            (lines, false) => {
                format!(
                    "its output ends within line {} of its header, \"{}\"",
                    lines + 1,
                    line::excerpt(&self.line)
                )
            }
        })
    }

    fn fault(&self, line: &[u8], why: &str) -> Fault {
        Fault(format!("line {} of its output is \"{}\": {why}", self.lines, line::excerpt(line)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a script's output comes to, in a line; the same however it is split.
    fn answer(nph: bool, output: &[u8]) -> String {
        let whole = shown(&mut Reader::new(nph), [output]);
        assert_eq!(shown(&mut Reader::new(nph), output.chunks(1)), whole, "byte by byte");
        for cut in 1..output.len() {
            let (first, second) = output.split_at(cut);
            assert_eq!(shown(&mut Reader::new(nph), [first, second]), whole, "cut at {cut}");
        }
        whole
    }

    fn shown<'a>(reader: &mut Reader, pieces: impl IntoIterator<Item = &'a [u8]>) -> String {
        let mut before = 0;
        for piece in pieces {
            match reader.take(piece) {
                Err(fault) => return fault.to_string(),
                Ok(Some((answer, used))) => return format!("{} @{}", show(&answer), before + used),
                Ok(None) => before += piece.len(),
            }
        }
        reader.ended().to_string()
    }

    fn show(answer: &Answer) -> String {
        match answer {
            Answer::Redirect(path) => format!("-> {}", path.escape_ascii()),
            Answer::Response(head) => {
                let length = head.length.map(|length| format!(" length {length}"));
                let flags = [(head.close, " close"), (head.chunked, " chunked")];
                let flags: String = flags.iter().filter(|(set, _)| *set).map(|(_, word)| *word).collect();
                let lines = head.lines().escape_ascii().to_string().replace("\\r\\n", "|");
                format!("{}{}{flags} {lines}", head.status, length.unwrap_or_default())
            }
        }
    }

    const TYPE: &str = "Content-Type: text/plain\n";

    #[test]
    fn what_a_script_prints_becomes_a_head() {
        for (output, expected) in [
            ("Content-Type: text/plain\n\nbody", "200 Content-Type: text/plain| @26"),
            ("Content-Type: text/plain\r\n\r\nbody", "200 Content-Type: text/plain| @28"),
            ("Content-Type: text/plain\r\n\nbody", "200 Content-Type: text/plain| @27"),
            ("content-type:text/plain\n\n\n", "200 content-type: text/plain| @25"),
            ("A: \t b \t\nContent-Type: x\n\n", "200 A: b|Content-Type: x| @26"),
            ("Status: 404 Not Found\nContent-Type: x\n\n", "404 Content-Type: x| @39"),
            ("Status: 404\n\n", "404  @13"),
            ("STATUS: 299 odd\n\n", "299  @17"),
            ("Status: 204 No Content\nContent-Type:\n\n", "204  @38"),
            (
                "Content-Type: x\nSet-Cookie: a\nSet-Cookie: b\n\n",
                "200 Content-Type: x|Set-Cookie: a|Set-Cookie: b| @45",
            ),
            ("Content-Type: x\nContent-Length: 12\n\n", "200 length 12 Content-Type: x| @36"),
            (
                "Content-Type: x\nContent-Length: 012\nContent-Length: 12\n\n",
                "200 length 12 Content-Type: x| @56",
            ),
            (
                "Content-Type: x\nContent-Type: x\nStatus: 201\nStatus: 201 Created\n\n",
                "201 Content-Type: x| @65",
            ),
            (
                "Content-Type: x\nConnection: Foo, close\nKeep-Alive: 5\nTE: x\nTrailer: y\nUpgrade: z\n\n",
                "200 close Content-Type: x| @82",
            ),
            (
                "X-A: 1\nContent-Type: x\nConnection: x-a ,X-B\nX-B: 2\nX-AB: 3\nX-A: 4\n\n",
                "200 Content-Type: x|X-AB: 3| @67",
            ),
            ("Status: 426\nContent-Type: x\nUpgrade: z\n\n", "426 Content-Type: x|Upgrade: z| @40"),
            ("Content-Type: x\nTransfer-Encoding: chunked\n\n", "200 chunked Content-Type: x| @44"),
            ("Content-Type: x\nTransfer-Encoding: binary\n\n", "200 Content-Type: x| @43"),
            ("Content-Type: caf\u{e9}\n\n", "200 Content-Type: caf\\xc3\\xa9| @21"),
            ("X:\nContent-Type: x\n\n", "200 Content-Type: x| @20"),
        ] {
            assert_eq!(answer(false, output.as_bytes()), expected, "{output:?}");
        }
    }

    #[test]
    fn a_location_is_for_the_client_or_for_the_server() {
        for (output, expected) in [
            ("Location: /a?b=c\n\n", "-> /a?b=c @18"),
            ("Content-Type: x\nLocation: /a\n\n", "-> /a @30"),
            ("Location: /a\nContent-Length: 3\nConnection: close\n\n", "-> /a @50"),
            ("Location: /a\nTrailer: x\n\n", "-> /a @25"),
            ("Location: /a\nUpgrade: x\n\n", "-> /a @25"),
            ("Location: /a b\u{e9}\n\n", "-> /a%20b%C3%A9 @18"),
            ("Location: //h/a\n\n", "-> //h/a @17"),
            ("Status: 302 Found\nLocation: /a\n\n", "302 Location: /a| @32"),
            ("Location: /a\nSet-Cookie: x\n\n", "302 Location: /a|Set-Cookie: x| @28"),
            ("Location: /a#b\n\n", "302 Location: /a#b| @16"),
            ("Location: http://h/\n\n", "302 Location: http://h/| @21"),
            ("Location: http://h/\nContent-Type: x\n\n", "302 Location: http://h/|Content-Type: x| @37"),
            ("Location: a.html\n\n", "302 Location: a.html| @18"),
            ("Status: 301\nLocation: http://h/\n\n", "301 Location: http://h/| @33"),
            ("Status: 201\nLocation: /new\nContent-Type: x\n\n", "201 Location: /new|Content-Type: x| @44"),
            ("Location:\nContent-Type: x\n\n", "200 Content-Type: x| @27"),
            (
                "Location: /%zz\n\n",
                "its header ends with an empty line: the Location is \"/%zz\", where % has no two hexadecimal digits behind it",
            ),
            (
                "Location: /%4x\n\n",
                "its header ends with an empty line: the Location is \"/%4x\", where % has no two hexadecimal digits behind it",
            ),
            (
                "Location: /a\nLocation: /b\n\n",
                "line 2 of its output is \"Location: /b\": it was \"/a\" before",
            ),
        ] {
            assert_eq!(answer(false, output.as_bytes()), expected, "{output:?}");
        }
    }

    #[test]
    fn what_is_no_head_is_told_with_its_line() {
        for (output, expected) in [
            ("", "it has ended without any output"),
            ("Hello", "its output ends within its first line, \"Hello\""),
            (TYPE, "its output ends after line 1 of its header, which no empty line has ended"),
            ("A: b\nhal", "its output ends within line 2 of its header, \"hal\""),
            (
                "\n",
                "its output begins with an empty line: no Content-Type, Location or Status came before that",
            ),
            (
                "A: b\n\n",
                "its header ends with an empty line: no Content-Type, Location or Status came before that",
            ),
            (
                "Content-Type:\n\n",
                "its header ends with an empty line: no Content-Type, Location or Status came before that",
            ),
            (
                "Hello\n",
                "line 1 of its output is \"Hello\": that is no header field; an empty line has to come before the body",
            ),
            (
                "Content-Type: x\n<html>\n",
                "line 2 of its output is \"<html>\": that is no header field; an empty line has to come before the body",
            ),
            (
                "HTTP/1.1 200 OK\n",
                "line 1 of its output is \"HTTP/1.1 200 OK\": a status line is only for scripts whose names begin with nph-, others print a Status field",
            ),
            (
                "A: b\n c\n",
                "line 2 of its output is \" c\": a line of the header must not go on in the next one",
            ),
            (
                "A: b\n\tc\n",
                "line 2 of its output is \"\\tc\": a line of the header must not go on in the next one",
            ),
            ("A : b\n", "line 1 of its output is \"A : b\": that has a name that no header field can have"),
            (": b\n", "line 1 of its output is \": b\": that has a name that no header field can have"),
            (
                "caf\u{e9}: b\n",
                "line 1 of its output is \"caf\\xc3\\xa9: b\": that has a name that no header field can have",
            ),
            (
                "A: b\rc\n",
                "line 1 of its output is \"A: b\\rc\": that has the control character \\x0D in its value",
            ),
            (
                "A: b\r\r\n",
                "line 1 of its output is \"A: b\\r\": that has the control character \\x0D in its value",
            ),
            (
                "A: b\0\n",
                "line 1 of its output is \"A: b\\x00\": that has the control character \\x00 in its value",
            ),
            (
                "A: b\x7f\n",
                "line 1 of its output is \"A: b\\x7f\": that has the control character \\x7F in its value",
            ),
            (
                "A: \x1b[0m\n",
                "line 1 of its output is \"A: \\x1b[0m\": that has the control character \\x1B in its value",
            ),
        ] {
            assert_eq!(answer(false, output.as_bytes()), expected, "{output:?}");
        }
    }

    #[test]
    fn fields_that_the_server_acts_on_are_checked() {
        for (output, expected) in [
            (
                "Status: ok\n",
                "line 1 of its output is \"Status: ok\": a Status is a number from 200 to 999, and perhaps words behind it",
            ),
            (
                "Status: 42\n",
                "line 1 of its output is \"Status: 42\": a Status is a number from 200 to 999, and perhaps words behind it",
            ),
            (
                "Status: 100\n",
                "line 1 of its output is \"Status: 100\": a Status is a number from 200 to 999, and perhaps words behind it",
            ),
            (
                "Status: 2000\n",
                "line 1 of its output is \"Status: 2000\": a Status is a number from 200 to 999, and perhaps words behind it",
            ),
            (
                "Status: 200\nStatus: 404\n",
                "line 2 of its output is \"Status: 404\": the Status was 200 before",
            ),
            (
                "Content-Length: -1\n",
                "line 1 of its output is \"Content-Length: -1\": that is no number of bytes",
            ),
            (
                "Transfer-Encoding: x, GZip\n",
                "line 1 of its output is \"Transfer-Encoding: x, GZip\": codings of the transfer are the server's: say Content-Encoding where the body is so encoded",
            ),
            (
                "Content-Length: 1,1\n",
                "line 1 of its output is \"Content-Length: 1,1\": that is no number of bytes",
            ),
            (
                "Content-Length: 18446744073709551615\n",
                "line 1 of its output is \"Content-Length: 18446744073709551615\": that is no number of bytes",
            ),
            (
                "Content-Length: 99999999999999999999\n",
                "line 1 of its output is \"Content-Length: 99999999999999999999\": that is no number of bytes",
            ),
            (
                "Content-Length: 1\nContent-Length: 2\n",
                "line 2 of its output is \"Content-Length: 2\": the Content-Length was 1 before",
            ),
            (
                "Content-Type: a\nContent-Type: b\n",
                "line 2 of its output is \"Content-Type: b\": it was \"a\" before",
            ),
        ] {
            assert_eq!(answer(false, output.as_bytes()), expected, "{output:?}");
        }
    }

    #[test]
    fn an_nph_script_writes_its_own_status_line() {
        const FIRST: &str =
            "a script whose name begins with nph- has to begin with a status line, as HTTP/1.1 200 OK";
        for (output, expected) in [
            ("HTTP/1.1 200 OK\r\nA: b\r\n\r\n", "200 A: b| @25"),
            ("HTTP/1.0 404\n\n", "404  @14"),
            ("HTTP/1.1 302 Found\nLocation: /a\n\n", "302 Location: /a| @33"),
            ("HTTP/1.1 200 OK\nStatus: 404\n\n", "200  @29"),
            ("HTTP/1.1 200 OK\nConnection: close\nTransfer-Encoding: chunked\n\n", "200 close chunked  @62"),
            ("HTTP/1.1 103 Early Hints\nLink: x\n\nHTTP/1.1 200 OK\nA: b\n\n", "200 A: b| @56"),
            (
                "HTTP/1.1 103 Early Hints\nContent-Type: x\n\nHTTP/1.1 200 OK\nContent-Type: y\n\n",
                "200 Content-Type: y| @75",
            ),
            ("HTTP/1.1 200 OK\nConnection: upgrade, A\nA: b\nC: d\n\n", "200 C: d| @50"),
            ("HTTP/1.1 426 No\nConnection: Upgrade\nUpgrade: z\n\n", "426 Upgrade: z| @48"),
            ("Content-Type: x\n", &format!("line 1 of its output is \"Content-Type: x\": {FIRST}")),
            ("HTTP/1.1 099 OK\n", &format!("line 1 of its output is \"HTTP/1.1 099 OK\": {FIRST}")),
            ("HTTP/1.1 OK\n", &format!("line 1 of its output is \"HTTP/1.1 OK\": {FIRST}")),
            ("HTTP/11 200 OK\n", &format!("line 1 of its output is \"HTTP/11 200 OK\": {FIRST}")),
            ("\n", &format!("line 1 of its output is \"\": {FIRST}")),
            (
                "HTTP/1.1 101 Go\n",
                "line 1 of its output is \"HTTP/1.1 101 Go\": the connection is not the script's, so that it cannot change its protocol",
            ),
        ] {
            assert_eq!(answer(true, output.as_bytes()), expected, "{output:?}");
        }
    }

    #[test]
    fn a_head_is_bounded_however_it_comes_and_goes() {
        let long = "x".repeat(RESPONSE_HEAD + 1);
        let many = "a:b\n".repeat(RESPONSE_HEAD / 5);
        for output in
            [long.clone(), format!("A: {long}\n\n"), format!("{TYPE}{many}\n"), "A:\n".repeat(RESPONSE_HEAD)]
        {
            let mut reader = Reader::new(false);
            let fault = output.as_bytes().chunks(1000).find_map(|piece| reader.take(piece).err()).unwrap();
            assert!(fault.to_string().contains("header is longer than 65536 bytes"), "{fault}");
            assert!(fault.to_string().len() < 500, "{fault}");
        }
    }
}
