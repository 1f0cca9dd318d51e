//! The parser of format strings: Apache's grammar, of which it accepts no less, but it refuses what httpd would
//! silently print as `-` for ever. Called for whole formats by `compile`, for parts of them by `preset`.

use crate::compat::Compat;
use crate::directive::Directive;
use crate::error::FormatError;
use crate::format::{Condition, Op};
use crate::needs::Needs;

/// Compiles a format string that is no preset's name.
pub(crate) fn parse(format: &str, compat: Compat, needs: &mut Needs) -> Result<Vec<Op>, FormatError> {
    let mut parser = Parser { format, at: 0, start: 0, compat, needs };
    let mut ops = Vec::new();
    while let Some(first) = parser.peek() {
        parser.start = parser.at;
        ops.push(if first == '%' { parser.directive()? } else { parser.literal() });
    }
    Ok(ops)
}

struct Parser<'f, 'n> {
    format: &'f str,
    at: usize,
    /// Where the current directive begins.
    start: usize,
    compat: Compat,
    needs: &'n mut Needs,
}

impl<'f> Parser<'f, '_> {
    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn rest(&self) -> &'f str {
        &self.format[self.at..]
    }

    fn take(&mut self, len: usize) -> &'f str {
        let taken = &self.rest()[..len];
        self.at += len;
        taken
    }

    /// Text up to the next directive. `\n`, `\t` and `\\` are escapes in Apache's formats; `\"` is one in its
    /// configuration file, from where formats are copied.
    fn literal(&mut self) -> Op {
        let len = self.rest().find('%').unwrap_or(self.rest().len());
        let mut text = Vec::with_capacity(len);
        let mut rest = self.take(len).as_bytes();
        while let [first, after @ ..] = rest {
            let escape = after.first().filter(|_| *first == b'\\').and_then(unescaped);
            text.push(escape.unwrap_or(*first));
            rest = &after[usize::from(escape.is_some())..];
        }
        Op::Text(text.into())
    }

    /// `%`, then conditions, modifiers and an argument in any order, then the name.
    fn directive(&mut self) -> Result<Op, FormatError> {
        self.take(1);
        if self.peek() == Some('%') {
            self.take(1);
            return Ok(Op::Text((*b"%").into()));
        }
        let mut condition = Condition::default();
        let mut argument = None;
        while let Some(next) = self.peek() {
            match next {
                '!' => {
                    condition.negated = !condition.negated;
                    self.at += 1;
                }
                // There are no internal redirects: the original request and the final one are the same.
                '<' | '>' | ',' => self.at += 1,
                '{' => argument = Some(self.argument()?),
                '0'..='9' => condition.statuses.push(self.status()?),
                _ => return self.field(argument, condition),
            }
        }
        Err(self.error("the format ends within a directive; write %% for a percent sign"))
    }

    fn argument(&mut self) -> Result<&'f str, FormatError> {
        let end = self.rest().find('}').ok_or_else(|| self.error("no } closes the { of this directive"))?;
        Ok(&self.take(end + 1)[1..end])
    }

    fn status(&mut self) -> Result<u16, FormatError> {
        let len = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        let digits = self.take(len);
        let valid = digits.parse().ok().filter(|status| (100..1000).contains(status));
        valid.ok_or_else(|| self.error(&format!("{digits} is no status; they have three digits")))
    }

    /// A letter, or `^` and two letters, of which `^ti` is one; what they mean is in the table of directives.
    fn field(&mut self, argument: Option<&'f str>, condition: Condition) -> Result<Op, FormatError> {
        let characters = if self.peek() == Some('^') { 3 } else { 1 };
        let len = self.rest().chars().take(characters).map(char::len_utf8).sum();
        let directive = Directive { name: self.take(len), argument };
        let field = directive.field(self.compat, self.needs).map_err(|what| self.error(&what))?;
        Ok(Op::Field(field, condition.if_any()))
    }

    fn error(&self, what: &str) -> FormatError {
        FormatError { column: self.format[..self.start].chars().count() + 1, what: what.to_owned() }
    }
}

fn unescaped(byte: &u8) -> Option<u8> {
    match byte {
        b'n' => Some(b'\n'),
        b't' => Some(b'\t'),
        b'\\' | b'"' => Some(*byte),
        _ => None,
    }
}
