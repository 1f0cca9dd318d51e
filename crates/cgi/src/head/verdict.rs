//! What the lines of a header mean together (RFC 3875 6.2 and 6.3).

use howdah_wire::RESPONSE_HEAD;

use super::answer::{Answer, Head};
use super::line::{self, Field};

/// Fields about the connection, which is the front's (RFC 9110 7.6.1).
const HOPS: [&str; 4] = ["keep-alive", "proxy-connection", "te", "trailer"];

/// What is known of a head that has not ended.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) status: Option<u16>,
    head: Head,
    /// Bytes that its fields will have as lines.
    size: usize,
    /// What its Connection lists: names of fields that are for the connection alone, among other words.
    listed: Vec<Vec<u8>>,
}

impl Draft {
    /// Says why a field cannot be added.
    pub(super) fn add(&mut self, field: Field<'_>, nph: bool) -> Result<(), String> {
        let is_one_of = |names: &[&str]| names.iter().any(|name| field.is(name));
        match field {
            // One without a value counts as one that is not there.
            Field { value: b"", .. } => return Ok(()),
            _ if field.is("status") && nph => return Ok(()),
            _ if field.is("status") => return self.set_status(field.value),
            _ if field.is("content-length") => return self.set_length(field.value),
            _ if is_one_of(&["content-type", "location"]) => return self.add_once(field),
            _ if field.is("connection") => {
                self.head.close |= field.lists("close");
                self.listed.extend(field.words().map(<[u8]>::to_vec));
            }
            _ if field.is("transfer-encoding") => {
                line::transfer_coding(field)?;
                self.head.chunked |= field.lists("chunked");
            }
            _ if is_one_of(&HOPS) => {}
            _ => return self.push(field),
        }
        Ok(())
    }

    fn set_status(&mut self, value: &[u8]) -> Result<(), String> {
        let status = line::status(value)?;
        match self.status.replace(status) {
            Some(before) if before != status => Err(format!("the Status was {before} before")),
            _ => Ok(()),
        }
    }

    fn set_length(&mut self, value: &[u8]) -> Result<(), String> {
        let length = line::length(value)?;
        match self.head.length.replace(length) {
            Some(before) if before != length => Err(format!("the Content-Length was {before} before")),
            _ => Ok(()),
        }
    }

    /// The same again does no harm.
    fn add_once(&mut self, field: Field<'_>) -> Result<(), String> {
        match self.get(field.name) {
            Some(before) if before == field.value => Ok(()),
            Some(before) => Err(format!("it was \"{}\" before", line::excerpt(before))),
            None => self.push(field),
        }
    }

    fn push(&mut self, field: Field<'_>) -> Result<(), String> {
        self.size += field.name.len() + field.value.len() + 4;
        if self.size > RESPONSE_HEAD {
            return Err(format!("with it the header is longer than {RESPONSE_HEAD} bytes"));
        }
        self.head.fields.push((field.name.to_vec(), field.value.to_vec()));
        Ok(())
    }

    fn get(&self, name: &[u8]) -> Option<&[u8]> {
        let mut fields = self.head.fields.iter();
        fields.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_slice())
    }

    /// The answer of a script that leaves the protocol to the server.
    pub(super) fn complete(mut self) -> Result<Answer, String> {
        if self.status.is_none() {
            match self.get(b"location") {
                Some(location) if self.is_local(location) => return local(location).map(Answer::Redirect),
                Some(_) => self.status = Some(302),
                None if self.get(b"content-type").is_some() => self.status = Some(200),
                None => return Err("no Content-Type, Location or Status came before that".to_owned()),
            }
        }
        Ok(Answer::Response(self.into_head()))
    }

    /// With nothing else to tell the client; a fragment is for a client alone. A Content-Type is there by habit, and Upgrade
    /// would not be told.
    fn is_local(&self, location: &[u8]) -> bool {
        let alone = |(name, _): &(Vec<u8>, Vec<u8>)| {
            [&b"location"[..], b"content-type", b"upgrade"]
                .iter()
                .any(|habit| name.eq_ignore_ascii_case(habit))
        };
        location.starts_with(b"/") && !location.contains(&b'#') && self.head.fields.iter().all(alone)
    }

    /// `Upgrade` is the front's as well, but for the status that cannot be without it (RFC 9110 15.5.22), and so are fields
    /// that the script's Connection lists.
    pub(super) fn into_head(mut self) -> Head {
        let status = self.status.unwrap_or(200);
        let listed = self.listed;
        self.head.fields.retain(|(name, _)| match name.eq_ignore_ascii_case(b"upgrade") {
            true => status == 426,
            false => !listed.iter().any(|other| other.eq_ignore_ascii_case(name)),
        });
        Head { status, ..self.head }
    }
}

/// A path and a query as a request could have them.
fn local(location: &[u8]) -> Result<Vec<u8>, String> {
    let mut path = Vec::with_capacity(location.len());
    for (at, &byte) in location.iter().enumerate() {
        let hex = |at: usize| location.get(at).is_some_and(u8::is_ascii_hexdigit);
        match byte {
            b'%' if !(hex(at + 1) && hex(at + 2)) => {
                return Err(format!(
                    "the Location is \"{}\", where % has no two hexadecimal digits behind it",
                    line::excerpt(location)
                ));
            }
            b'!'..=b'~' => path.push(byte),
            _ => path.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    Ok(path)
}
