//! The access log of a front thread: its format, its writer, and where the values are found that the format needs.

use std::fmt;

use howdah_accesslog::{Format, Kept, Needs, Record, Source, Values, Writer};
use howdah_wire::{RequestReader, reported};

/// See the module.
pub struct AccessLog {
    format: Format,
    writer: Writer,
    /// For each need of the format, where its value is.
    pub(crate) places: Vec<Place>,
}

/// Where a value that the format needs is found at the end of a request.
#[derive(Debug)]
pub(crate) enum Place {
    /// Among the request's fields, under this CGI name.
    Field(Vec<u8>),
    /// In the worker's report, at this place.
    Report(usize),
    /// Among what was kept on the way.
    Kept,
}

impl AccessLog {
    /// A log in `format`; `writer` is this thread's.
    #[must_use]
    pub fn new(format: Format, writer: Writer) -> Self {
        let mut reported = 0..;
        let places = format.needs().iter().map(|(_, source, name)| match source {
            Source::RequestHeader => Place::Field(cgi_name(name)),
            Source::Environment => Place::Report(reported.next().unwrap_or_default()),
            Source::ResponseHeader | Source::RequestTrailer | Source::ResponseTrailer => Place::Kept,
        });
        Self { places: places.collect(), writer, format }
    }

    /// The values that lines have.
    pub(crate) fn needs(&self) -> &Needs {
        self.format.needs()
    }

    /// Writes a line.
    pub(crate) fn line(&self, record: &Record<'_>) {
        self.writer.line(|out| self.format.render(record, out));
    }
}

impl fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessLog").finish_non_exhaustive()
    }
}

/// The values that the format wants, found where they are.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    pub(crate) request: RequestReader<'a>,
    pub(crate) report: &'a [u8],
    pub(crate) places: &'a [Place],
    pub(crate) kept: Option<&'a Kept>,
}

impl Values for Found<'_> {
    fn value(&self, need: usize) -> Option<&[u8]> {
        match self.places.get(need)? {
            Place::Field(name) => self.request.field(name),
            Place::Report(index) => reported(self.report, *index),
            Place::Kept => self.kept?.value(need),
        }
    }
}

/// PATH_INFO of an application that is mounted at `mount`, where Plack::App::URLMap sees it.
pub(crate) fn path_info<'p>(path: &'p [u8], mount: Option<&str>) -> &'p [u8] {
    let below = mount.and_then(|mount| path.strip_prefix(mount.trim_end_matches('/').as_bytes()));
    below.filter(|rest| rest.is_empty() || rest.starts_with(b"/")).unwrap_or(path)
}

/// `User-Agent` as HTTP_USER_AGENT (RFC 3875 4.1.18).
fn cgi_name(name: &[u8]) -> Vec<u8> {
    let upper = name.iter().map(|&byte| if byte == b'-' { b'_' } else { byte.to_ascii_uppercase() });
    let prefix: &[u8] = match name.to_ascii_lowercase().as_slice() {
        b"content-type" | b"content-length" => b"",
        _ => b"HTTP_",
    };
    prefix.iter().copied().chain(upper).collect()
}

#[cfg(test)]
mod tests {
    use super::path_info;

    #[test]
    fn path_info_is_what_the_mount_leaves() {
        let cases = [
            ("/app/x", Some("/app"), "/x"),
            ("/app/x", Some("/app/"), "/x"),
            ("/app", Some("/app"), ""),
            ("/apple", Some("/app"), "/apple"),
            ("/other", Some("/app"), "/other"),
            ("/x", Some("/"), "/x"),
            ("/x", None, "/x"),
        ];
        for (path, mount, rest) in cases {
            assert_eq!(path_info(path.as_bytes(), mount), rest.as_bytes(), "{path} below {mount:?}");
        }
    }
}
