//! Writes a request into a slot, in the form in which a worker will store it into the PSGI env.
//!
//! Called by the front once a request is complete. Names become `HTTP_NAME`, repeated fields are joined (RFC 9110
//! 5.3; Cookie with `; `, RFC 9113 8.2.3), so the worker only stores. Strings lie behind a table of fixed size, in
//! the order in which they are put.

use core::mem::size_of;
use core::ops::Range;

use crate::layout::{FieldRecord, RequestRecord, Span};

/// Fields that the table holds: the codec's default of 128, CONTENT_LENGTH, X-Request-Id, and what TLS has settled.
pub const MAX_FIELDS: usize = 152;
const TABLE_AT: usize = size_of::<RequestRecord>();
/// Strings begin here: the record and the whole table lie before.
pub(crate) const STRINGS_AT: usize = TABLE_AT + MAX_FIELDS * size_of::<FieldRecord>();

/// The request area has no room for the request; answer 431.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Fills the request area of one slot.
#[derive(Debug)]
pub struct RequestWriter<'a> {
    area: &'a mut [u8],
    end: usize,
    /// A bit for each name in the table, as [`mark`] gives it: a name whose bit is missing needs no search.
    seen: u64,
    /// The record; `finish` stores it.
    pub record: RequestRecord,
}

impl<'a> RequestWriter<'a> {
    /// Starts over at the beginning of `area`.
    #[must_use]
    pub fn new(area: &'a mut [u8]) -> Self {
        Self { area, end: STRINGS_AT, seen: 0, record: RequestRecord::default() }
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// [`Full`] when the area has no room.
    pub fn put(&mut self, bytes: &[u8]) -> Result<Span, Full> {
        let offset = self.end;
        self.extend(bytes)?;
        Ok(Span { offset: offset as u32, length: bytes.len() as u32 })
    }

    /// Free bytes.
    #[must_use]
    pub fn room(&self) -> usize {
        self.area.len() - self.end
    }

    /// Adds a header field under its CGI name (RFC 3875 4.1.18), or joins it to an earlier one of that name.
    ///
    /// # Errors
    /// [`Full`] when the area or the table has no room.
    pub fn field(&mut self, name: &[u8], value: &[u8]) -> Result<(), Full> {
        let name = self.put_name(name)?;
        match self.find(name) {
            Some(index) => {
                self.end = name.offset as usize;
                self.join(index, value)
            }
            None => self.add(name, value),
        }
    }

    /// Adds a variable under exactly this name; gives where its value stands.
    ///
    /// # Errors
    /// [`Full`] when the area or the table has no room.
    pub fn variable(&mut self, name: &[u8], value: &[u8]) -> Result<Span, Full> {
        let name = self.put(name)?;
        self.add(name, value)?;
        Ok(Span { offset: self.end as u32 - value.len() as u32, length: value.len() as u32 })
    }

    /// Stores the record. The area is complete.
    pub fn finish(self) {
        let record = &self.record;
        let spans = [
            record.method,
            record.uri,
            record.path,
            record.query,
            record.protocol,
            record.server_name,
            record.server_port,
            record.remote_addr,
            record.remote_port,
            record.body,
        ];
        let mut at = 0;
        let mut store = |bytes: &[u8]| {
            self.area[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        for span in spans {
            store(&span.offset.to_ne_bytes());
            store(&span.length.to_ne_bytes());
        }
        store(&record.body_length.to_ne_bytes());
        store(&record.ticket.to_ne_bytes());
        for word in [record.flags, record.fields, record.extent, self.end as u32] {
            store(&word.to_ne_bytes());
        }
    }

    fn add(&mut self, name: Span, value: &[u8]) -> Result<(), Full> {
        if self.record.fields as usize == MAX_FIELDS {
            return Err(Full);
        }
        let value = self.put(value)?;
        self.seen |= mark(self.bytes(name));
        self.store_field(self.record.fields as usize, FieldRecord { name, value });
        self.record.fields += 1;
        Ok(())
    }

    fn join(&mut self, index: usize, value: &[u8]) -> Result<(), Full> {
        let mut field = self.load_field(index);
        let old = range(field.value);
        if self.area.get(old.clone()).is_none() {
            return Err(Full);
        }
        let separator: &[u8] = if self.bytes(field.name) == b"HTTP_COOKIE" { b"; " } else { b", " };
        if old.end != self.end {
            // Not the last string: it moves to the end, where it can grow.
            let moved = self.end;
            if self.room() < old.len() {
                return Err(Full);
            }
            self.area.copy_within(old.clone(), moved);
            self.end += old.len();
            field.value.offset = moved as u32;
        }
        self.extend(separator)?;
        self.extend(value)?;
        field.value.length = self.end as u32 - field.value.offset;
        self.store_field(index, field);
        Ok(())
    }

    fn put_name(&mut self, name: &[u8]) -> Result<Span, Full> {
        let offset = self.end;
        if !name.eq_ignore_ascii_case(b"content-type") {
            self.extend(b"HTTP_")?;
        }
        let start = self.end;
        self.extend(name)?;
        for byte in &mut self.area[start..self.end] {
            *byte = if *byte == b'-' { b'_' } else { byte.to_ascii_uppercase() };
        }
        Ok(Span { offset: offset as u32, length: (self.end - offset) as u32 })
    }

    fn find(&self, name: Span) -> Option<usize> {
        let wanted = self.bytes(name);
        if self.seen & mark(wanted) == 0 {
            return None;
        }
        (0..self.record.fields as usize).find(|&index| {
            let other = self.load_field(index).name;
            other.length == name.length && self.bytes(other) == wanted
        })
    }

    /// Nothing where the table has been overwritten meanwhile, as all of the area can be by a worker.
    fn bytes(&self, span: Span) -> &[u8] {
        self.area.get(range(span)).unwrap_or_default()
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let end = self.end + bytes.len();
        self.area.get_mut(self.end..end).ok_or(Full)?.copy_from_slice(bytes);
        self.end = end;
        Ok(())
    }

    fn store_field(&mut self, index: usize, field: FieldRecord) {
        let words = [field.name.offset, field.name.length, field.value.offset, field.value.length];
        let at = TABLE_AT + index * size_of::<FieldRecord>();
        for (place, word) in self.area[at..at + 16].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
    }

    fn load_field(&self, index: usize) -> FieldRecord {
        let at = TABLE_AT + index * size_of::<FieldRecord>();
        let word = |i: usize| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&self.area[at + i * 4..at + i * 4 + 4]);
            u32::from_ne_bytes(bytes)
        };
        FieldRecord {
            name: Span { offset: word(0), length: word(1) },
            value: Span { offset: word(2), length: word(3) },
        }
    }
}

fn range(span: Span) -> Range<usize> {
    let start = span.offset as usize;
    start..start.saturating_add(span.length as usize)
}

/// One of 64 bits by the length and the end of a name, in which most names of a request differ.
fn mark(name: &[u8]) -> u64 {
    let end = name.last_chunk().map_or(0, |end| u64::from_le_bytes(*end));
    1 << ((end ^ name.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58)
}

/// Reads back what identifies a request, for logs and status pages. Whatever the area holds, it stays within it.
#[derive(Clone, Copy, Debug)]
pub struct RequestReader<'a> {
    area: &'a [u8],
}

impl<'a> RequestReader<'a> {
    /// Looks at a request area.
    #[must_use]
    pub fn new(area: &'a [u8]) -> Self {
        Self { area }
    }

    /// REQUEST_METHOD.
    #[must_use]
    pub fn method(&self) -> &'a [u8] {
        self.span(core::mem::offset_of!(RequestRecord, method))
    }

    /// REQUEST_URI.
    #[must_use]
    pub fn uri(&self) -> &'a [u8] {
        self.span(core::mem::offset_of!(RequestRecord, uri))
    }

    /// REMOTE_ADDR.
    #[must_use]
    pub fn remote_addr(&self) -> &'a [u8] {
        self.span(core::mem::offset_of!(RequestRecord, remote_addr))
    }

    /// PATH_INFO.
    #[must_use]
    pub fn path(&self) -> &'a [u8] {
        self.span(core::mem::offset_of!(RequestRecord, path))
    }

    /// QUERY_STRING.
    #[must_use]
    pub fn query(&self) -> &'a [u8] {
        self.span(core::mem::offset_of!(RequestRecord, query))
    }

    /// SERVER_PROTOCOL.
    #[must_use]
    pub fn protocol(&self) -> &'a [u8] {
        self.span(core::mem::offset_of!(RequestRecord, protocol))
    }

    /// SERVER_NAME.
    #[must_use]
    pub fn server_name(&self) -> &'a [u8] {
        self.span(core::mem::offset_of!(RequestRecord, server_name))
    }

    /// SERVER_PORT.
    #[must_use]
    pub fn server_port(&self) -> &'a [u8] {
        self.span(core::mem::offset_of!(RequestRecord, server_port))
    }

    /// REMOTE_PORT.
    #[must_use]
    pub fn remote_port(&self) -> &'a [u8] {
        self.span(core::mem::offset_of!(RequestRecord, remote_port))
    }

    /// The body, when it stands behind the request.
    #[must_use]
    pub fn body(&self) -> &'a [u8] {
        self.span(core::mem::offset_of!(RequestRecord, body))
    }

    /// Bytes of the body, wherever it is.
    #[must_use]
    pub fn body_length(&self) -> u64 {
        let at = core::mem::offset_of!(RequestRecord, body_length);
        let halves = [self.word(at), self.word(at + 4)].map(u32::to_ne_bytes);
        halves.as_flattened().try_into().map_or(0, u64::from_ne_bytes)
    }

    /// REQUEST_ flags.
    #[must_use]
    pub fn flags(&self) -> u32 {
        self.word(core::mem::offset_of!(RequestRecord, flags))
    }

    /// The extent that holds the body, with [`REQUEST_EXTENT`](crate::REQUEST_EXTENT).
    #[must_use]
    pub fn extent(&self) -> u32 {
        self.word(core::mem::offset_of!(RequestRecord, extent))
    }

    /// All fields, each by its CGI name.
    pub fn variables(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let reader = *self;
        self.fields().map(move |at| (reader.span(at), reader.span(at + size_of::<Span>())))
    }

    /// A field by its CGI name, such as HTTP_HOST.
    #[must_use]
    pub fn field(&self, name: &[u8]) -> Option<&'a [u8]> {
        let at = self.fields().find(|&at| self.span(at) == name)?;
        Some(self.span(at + size_of::<Span>()))
    }

    /// Whether every string lies within what belongs to the request.
    pub(crate) fn is_sound(&self) -> bool {
        let used = self.word(core::mem::offset_of!(RequestRecord, used)) as usize;
        let spans = (0..core::mem::offset_of!(RequestRecord, body_length)).step_by(size_of::<Span>());
        let fields = self.fields().flat_map(|at| [at, at + size_of::<Span>()]);
        let end = |at| self.word(at) as usize + self.word(at + 4) as usize;
        self.word(core::mem::offset_of!(RequestRecord, fields)) as usize <= MAX_FIELDS
            && spans.chain(fields).all(|at| end(at) <= used)
    }

    /// Places of the field records.
    fn fields(&self) -> impl Iterator<Item = usize> + use<'a> {
        let count = (self.word(core::mem::offset_of!(RequestRecord, fields)) as usize).min(MAX_FIELDS);
        (0..count).map(|index| TABLE_AT + index * size_of::<FieldRecord>())
    }

    /// What [`RequestWriter::put`] or [`RequestWriter::variable`] has put there.
    #[must_use]
    pub fn text(&self, span: Span) -> &'a [u8] {
        self.area.get(range(span)).unwrap_or_default()
    }

    /// The part of the area that is in use, without the body.
    #[must_use]
    pub fn used(&self) -> &'a [u8] {
        &self.area[..self.end().min(self.area.len())]
    }

    /// Where that part ends, by what the record and the table say.
    pub(crate) fn end(&self) -> usize {
        let last = self.fields().last().unwrap_or(TABLE_AT) + size_of::<Span>();
        let fixed = core::mem::offset_of!(RequestRecord, remote_port);
        let ends = [fixed, last].map(|at| self.word(at) as usize + self.word(at + 4) as usize);
        ends.into_iter().max().unwrap_or(0)
    }

    fn span(&self, at: usize) -> &'a [u8] {
        self.text(Span { offset: self.word(at), length: self.word(at + 4) })
    }

    /// Read once: another process may change it between two looks.
    fn word(&self, at: usize) -> u32 {
        let bytes: Option<&[u8; 4]> = self.area.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        // SAFETY: a reference to four bytes.
        bytes.map_or(0, |bytes| u32::from_ne_bytes(unsafe { core::ptr::read_volatile(bytes) }))
    }
}
