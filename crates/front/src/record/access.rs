//! The access log of a front thread: its format, its writer, and where the values are found that the format needs.

use std::fmt;

use howdah_accesslog::{Format, Kept, Needs, Record, Source, Values, Writer};
use howdah_tls::Facts;
use howdah_wire::{RequestReader, reported};

/// See the module.
pub struct AccessLog {
    format: Format,
    writer: Writer,
    /// For each need of the format, where its value is.
    pub(crate) places: Vec<ValueAt>,
}

/// Where a value that the format needs is found at the end of a request.
#[derive(Debug)]
pub(crate) enum ValueAt {
    /// Among the request's fields, under this CGI name.
    Field(Vec<u8>),
    /// In the worker's report, at this place.
    Report(usize),
    /// Among what TLS has settled, under this name.
    Tls(Vec<u8>),
    /// Among what was kept on the way.
    Kept,
}

impl AccessLog {
    /// A log in `format`; `writer` is this thread's.
    #[must_use]
    pub fn new(format: Format, writer: Writer) -> Self {
        let mut reported = 0..;
        let places = format.needs().iter().map(|(_, source, name)| match source {
            Source::RequestHeader => ValueAt::Field(cgi_name(name)),
            Source::Environment => ValueAt::Report(reported.next().unwrap_or_default()),
            Source::Tls => ValueAt::Tls(name.to_vec()),
            Source::ResponseHeader | Source::RequestTrailer | Source::ResponseTrailer => ValueAt::Kept,
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
    pub(crate) tls: Option<&'a Facts>,
    pub(crate) places: &'a [ValueAt],
    pub(crate) kept: Option<&'a Kept>,
}

impl Values for Found<'_> {
    fn value(&self, need: usize) -> Option<&[u8]> {
        match self.places.get(need)? {
            ValueAt::Field(name) => self.request.field(name),
            ValueAt::Report(index) => reported(self.report, *index),
            ValueAt::Tls(name) => self.tls?.variable(name).map(str::as_bytes),
            ValueAt::Kept => self.kept?.value(need),
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
    use howdah_accesslog::{Compat, Options, Sink, Target, compile};
    use howdah_wire::RequestWriter;

    use super::*;

    #[test]
    fn a_field_is_found_by_the_name_that_cgi_gives_it() {
        for (name, cgi) in [
            ("User-Agent", "HTTP_USER_AGENT"),
            ("x_y-Z1", "HTTP_X_Y_Z1"),
            ("Content-Type", "CONTENT_TYPE"),
            ("content-LENGTH", "CONTENT_LENGTH"),
        ] {
            assert_eq!(cgi_name(name.as_bytes()), cgi.as_bytes());
        }
    }

    #[test]
    fn each_value_comes_from_where_the_format_wants_it() {
        let format = compile("%{One}e %{X-A}i %{X-B}o %{Two}e %{X-C}i", Compat::Apache).unwrap();
        let sink = Sink::open(&Target::File("/dev/null".into()), Options::default()).unwrap();
        let log = AccessLog::new(format, sink.writer());
        let mut area = vec![0; 8192];
        let mut out = RequestWriter::new(&mut area);
        out.field(b"X-A", b"in").unwrap();
        out.finish();
        let mut kept = Kept::default();
        kept.offer(log.needs(), Source::ResponseHeader, b"x-b", b"out");
        let report = [&3_u16.to_ne_bytes()[..], b"one", &3_u16.to_ne_bytes(), b"two"].concat();
        let request = RequestReader::new(&area);
        let found = Found { request, report: &report, tls: None, places: &log.places, kept: Some(&kept) };
        let values = [0, 1, 2, 3, 4, 5].map(|need| found.value(need));
        assert_eq!(values, [Some(&b"one"[..]), Some(b"in"), Some(b"out"), Some(b"two"), None, None]);
        let found = Found { kept: None, ..found };
        assert_eq!(found.value(2), None, "nothing was kept");
    }

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
