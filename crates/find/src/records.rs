//! The form of a worker's answer (`xs/ask.c` writes it): a record is a line, its fields have tabs between them. A byte
//! in a field that would end it, any other control character, and `%` itself stand there as `%` and two hexadecimal digits.

/// The records of an answer, each of so many fields at most.
pub fn records(answer: &[u8], most: usize) -> impl Iterator<Item = Vec<String>> {
    let lines = answer.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    lines.map(move |line| line.split(|&byte| byte == b'\t').take(most).map(decoded).collect())
}

/// What is not UTF-8 is Latin-1: so perl has names of its own that need no more.
fn decoded(field: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, behind)) = rest.split_first() {
        let escaped = (byte == b'%').then(|| behind.first_chunk().and_then(|two| hex(*two))).flatten();
        bytes.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8(bytes).unwrap_or_else(|no| no.into_bytes().into_iter().map(char::from).collect())
}

/// What an application has named, a class or a key, ends no line.
pub(crate) fn one_line(text: &str) -> String {
    text.replace('\n', "\\x0a")
}

fn hex(digits: [u8; 2]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(digits[0])? << 4 | digit(digits[1])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_whatever_stands_there() {
        for (answer, expected) in [
            (&b""[..], vec![]),
            (b"\n\n", vec![]),
            (b"a\tb\nc", vec![vec!["a", "b"], vec!["c"]]),
            (b"a%09b%25%0A\t", vec![vec!["a\tb%\n", ""]]),
            (b"%", vec![vec!["%"]]),
            (b"%4\t%zz\t%e9", vec![vec!["%4", "%zz", "é"]]),
            (b"1\t2\t3\t4", vec![vec!["1", "2", "3"]]),
        ] {
            assert_eq!(records(answer, 3).collect::<Vec<_>>(), expected, "{answer:?}");
        }
    }
}
