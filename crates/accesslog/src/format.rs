//! A compiled format, and the rendering of lines.

use crate::field::Field;
use crate::needs::Needs;
use crate::record::Record;
use crate::style::Style;
use crate::zone::Zone;

/// A compiled format. It remembers the texts of the current second, so each front thread has a clone of its own.
#[derive(Clone, Debug)]
pub struct Format {
    pub(crate) ops: Vec<Op>,
    pub(crate) needs: Needs,
    pub(crate) style: Style,
    pub(crate) zone: Zone,
}

/// A step of rendering a line.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Text(Box<[u8]>),
    Field(Field, Option<Condition>),
}

/// Statuses with which a field prints its value (or does not, when negated).
#[derive(Clone, Debug, Default)]
pub(crate) struct Condition {
    pub(crate) statuses: Vec<u16>,
    pub(crate) negated: bool,
}

impl Condition {
    /// A lone `!` says nothing, as in httpd.
    pub(crate) fn if_any(self) -> Option<Self> {
        (!self.statuses.is_empty()).then_some(self)
    }

    fn holds(&self, status: u16) -> bool {
        self.statuses.contains(&status) != self.negated
    }
}

impl Format {
    /// Which fields, trailers and variables the lines use; keep only those.
    #[must_use]
    pub fn needs(&self) -> &Needs {
        &self.needs
    }

    /// Appends the line of `record`, its line feed included. Allocates only where `out` must grow, and once a second
    /// for each different time.
    pub fn render(&self, record: &Record<'_>, out: &mut Vec<u8>) {
        for op in &self.ops {
            match op {
                Op::Text(text) => out.extend_from_slice(text),
                Op::Field(_, Some(condition)) if !condition.holds(record.status) => self.style.nothing(out),
                Op::Field(field, _) => field.render(out, self.style, &self.zone, record),
            }
        }
        out.push(b'\n');
    }
}
