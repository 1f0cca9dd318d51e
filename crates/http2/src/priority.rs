//! How urgent a response is by the field Priority, a dictionary of structured fields (RFC 9218 4, RFC 9651).
//!
//! Whatever is none tells nothing: such a field is to be ignored as a whole (RFC 9651 4.2). What stands in strings, lists and
//! parameters is passed over by its own grammar. One walk over the bytes, without memory of its own.

/// How urgent it is where nothing says so (RFC 9218 4.1).
pub const URGENCY: u8 = 3;

/// How urgent it is by these lines of the field, 0 the most and 7 the least. The last `u` counts, also one that says nothing that there is.
pub fn urgency<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Option<u8> {
    read(lines)?
}

/// How urgent it is by a frame that says so later: all of it anew, so that what it does not say is as usual (RFC 9218 7). None where
/// that is no field.
#[must_use]
pub fn updated(value: &[u8]) -> Option<u8> {
    read([value]).map(|urgency| urgency.unwrap_or(URGENCY))
}

/// What is said of it, if anything is; none of what is no field.
fn read<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Option<Option<u8>> {
    let mut urgency = None;
    for line in lines {
        let mut rest = Rest(line);
        rest.dictionary(|key, value| {
            if key == b"u" {
                urgency = value.and_then(|number| u8::try_from(number).ok()).filter(|&number| number <= 7);
            }
        })?;
    }
    Some(urgency)
}

/// Digits of an integer, before the point of a decimal, and behind it (RFC 9651 3.3.1, 3.3.2).
const INTEGER: usize = 15;
const WHOLE: usize = 12;
const FRACTION: usize = 3;

/// What is left to read. Its parts give what an integer says; nothing of any other value. None where the grammar ends.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn dictionary(&mut self, mut tell: impl FnMut(&[u8], Option<i64>)) -> Option<()> {
        self.take(|byte| byte == b' ');
        while !self.0.is_empty() {
            let key = self.key()?;
            let value = if self.eat(b'=') { self.member()? } else { None };
            self.parameters()?;
            tell(key, value);
            self.take(is_space);
            if self.0.is_empty() {
                break;
            }
            self.expect(b',')?;
            self.take(is_space);
            if self.0.is_empty() {
                return None;
            }
        }
        Some(())
    }

    fn key(&mut self) -> Option<&'a [u8]> {
        let begins = |byte: &u8| byte.is_ascii_lowercase() || *byte == b'*';
        self.0.first().filter(|first| begins(first))?;
        Some(self.take(|byte| begins(&byte) || byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'.')))
    }

    fn member(&mut self) -> Option<Option<i64>> {
        if !self.eat(b'(') {
            return self.item();
        }
        loop {
            self.take(|byte| byte == b' ');
            if self.eat(b')') {
                return Some(None);
            }
            self.item()?;
            self.parameters()?;
            matches!(self.0.first(), Some(b' ' | b')')).then_some(())?;
        }
    }

    fn parameters(&mut self) -> Option<()> {
        while self.eat(b';') {
            self.take(|byte| byte == b' ');
            self.key()?;
            if self.eat(b'=') {
                self.item()?;
            }
        }
        Some(())
    }

    /// A value without its parameters.
    fn item(&mut self) -> Option<Option<i64>> {
        match *self.0.first()? {
            b'-' | b'0'..=b'9' => return self.number(),
            b'"' => self.string()?,
            b'*' | b'a'..=b'z' | b'A'..=b'Z' => drop(self.take(is_of_token)),
            b':' => self.bytes()?,
            b'?' => self.boolean()?,
            b'@' => self.date()?,
            b'%' => self.display_string()?,
            _ => return None,
        }
        Some(None)
    }

    fn number(&mut self) -> Option<Option<i64>> {
        let minus = self.eat(b'-');
        let whole = self.take(|byte| byte.is_ascii_digit());
        if self.eat(b'.') {
            let fraction = self.take(|byte| byte.is_ascii_digit()).len();
            let fits = (1..=WHOLE).contains(&whole.len()) && (1..=FRACTION).contains(&fraction);
            return fits.then_some(None);
        }
        (1..=INTEGER).contains(&whole.len()).then_some(())?;
        let number = whole.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
        Some(Some(if minus { -number } else { number }))
    }

    fn string(&mut self) -> Option<()> {
        self.expect(b'"')?;
        loop {
            self.take(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\');
            if !self.eat(b'\\') {
                return self.expect(b'"');
            }
            (self.eat(b'"') || self.eat(b'\\')).then_some(())?;
        }
    }

    fn bytes(&mut self) -> Option<()> {
        self.expect(b':')?;
        self.take(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
        self.expect(b':')
    }

    fn boolean(&mut self) -> Option<()> {
        self.expect(b'?')?;
        (self.eat(b'0') || self.eat(b'1')).then_some(())
    }

    fn date(&mut self) -> Option<()> {
        self.expect(b'@')?;
        self.number()?.map(drop)
    }

    /// Whether its bytes are UTF-8 tells of nothing that we read.
    fn display_string(&mut self) -> Option<()> {
        self.expect(b'%')?;
        self.expect(b'"')?;
        loop {
            self.take(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'%');
            if !self.eat(b'%') {
                return self.expect(b'"');
            }
            let (digits, rest) = self.0.split_at_checked(2)?;
            digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')).then_some(())?;
            self.0 = rest;
        }
    }

    fn take(&mut self, is_wanted: impl Fn(u8) -> bool) -> &'a [u8] {
        let length = self.0.iter().position(|&byte| !is_wanted(byte)).unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }

    fn eat(&mut self, byte: u8) -> bool {
        let rest = self.0.strip_prefix(&[byte]);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.eat(byte).then_some(())
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn is_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_says_it() {
        for (said, wanted) in [
            (&["u=1"][..], Some(1)),
            (&["u=0"], Some(0)),
            (&["u=7"], Some(7)),
            (&["u=01"], Some(1)),
            (&["u=-0"], Some(0)),
            (&["  u=1, i  "], Some(1)),
            (&["i,\tu=7"], Some(7)),
            (&["u=1;x=2"], Some(1)),
            (&["u=1;x=\"u=2, u=3\";y"], Some(1)),
            (&["u=1, u=5"], Some(5)),
            (&["u=1", "u=5"], Some(5)),
            (&["u=1", ""], Some(1)),
            (&["u=9, u=1"], Some(1)),
            // What counts is the last, and it says nothing.
            (&["u=1, u=9"], None),
            (&["u=1", "u=9"], None),
            (&["u=1, u"], None),
            (&["u=1, u;x"], None),
            (&["u=1, u=high"], None),
            (&["u=1, u=-1"], None),
            (&["u=1, u=2.5"], None),
            (&["u=1, u=\"2\""], None),
            (&["u=1, u=(2 3)"], None),
            (&["u=1, u=?1"], None),
            (&["u=1, u=@2"], None),
            // Another word.
            (&["u=1, urgency=5"], Some(1)),
            (&["i"], None),
            (&[""], None),
            (&[], None),
        ] {
            assert_eq!(urgency(said.iter().map(|line| line.as_bytes())), wanted, "{said:?}");
        }
    }

    #[test]
    fn what_stands_within_another_value_is_none_of_its_members() {
        for value in [
            r#""a, u=5""#,
            r#""a\", u=5, \\""#,
            r#"%"a%22, u=5, %25""#,
            r#"("a, u=5" b);c="d, u=5""#,
            "(  1 2.125  *t ?0 :dT01: @-7 )",
            "()",
            "to:ken/x",
            ":dT01:",
            "?0",
            "@1659578233",
            "-999999999999999",
            "123456789012.125",
        ] {
            let field = format!("u=1, x={value};y={value}, i");
            // Parameters have no lists.
            let field = if value.starts_with('(') { format!("u=1, x={value}, i") } else { field };
            assert_eq!(urgency([field.as_bytes()]), Some(1), "{field}");
        }
    }

    #[test]
    fn what_is_said_later_says_all_there_is_to_say() {
        for (value, wanted) in [
            ("u=1", Some(1)),
            ("i, u=7", Some(7)),
            ("", Some(3)),
            ("i", Some(3)),
            ("u=9", Some(3)),
            ("u", Some(3)),
            ("u=1,", None),
            ("U=1", None),
        ] {
            assert_eq!(updated(value.as_bytes()), wanted, "{value:?}");
        }
    }

    #[test]
    fn what_is_no_dictionary_says_nothing_at_all() {
        for broken in [
            ",",
            "i,",
            "i,,",
            "u=1 i",
            "U=2",
            "x=1\ti",
            "1",
            "=2",
            "x=",
            "x=;",
            ";x",
            "x;",
            "x;=1",
            "x;Y",
            "x=\"",
            "x=\"\\n\"",
            "x=\"\t\"",
            "x=\"\u{e9}\"",
            "x=(",
            "x=(1",
            "x=(1,2)",
            "x=(1\"a\")",
            "x=1)",
            "x=:a",
            "x=:a-:",
            "x=?",
            "x=?2",
            "x=@",
            "x=@1.5",
            "x=%",
            "x=%\"%2\"",
            "x=%\"%2G\"",
            "x=%\"%2F\"",
            "x=-",
            "x=--1",
            "x=1.",
            "x=.5",
            "x=1.2345",
            "x=1234567890123.1",
            "x=1234567890123456",
            "x=1;y=(1)",
            "x={}",
            "\t",
        ] {
            assert_eq!(urgency([format!("u=1, {broken}").as_bytes()]), None, "{broken:?}");
            assert_eq!(
                urgency([b"u=1".as_slice(), broken.as_bytes()]),
                None,
                "{broken:?} in a line of its own"
            );
        }
    }
}
