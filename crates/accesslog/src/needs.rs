//! Which values of a request and its response a format will ask for.

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A request's header field: `%{X}i`, and Cookie for `%{X}C`.
    RequestHeader,
    /// A response's header field: `%{X}o`.
    ResponseHeader,
    /// A field of a request's trailer section: `%{X}^ti`.
    RequestTrailer,
    /// A field of a response's trailer section: `%{X}^to`.
    ResponseTrailer,
    /// A variable of the application's environment, as the application left it: `%{X}e`, and REMOTE_USER for `%u`.
    Environment,
    /// What TLS has settled, under mod_ssl's names: `%{SSL_X}x`.
    Tls,
}

impl Source {
    /// Names of fields are compared without regard to case (RFC 9110 5.1), those of variables are not.
    pub(crate) fn same_name(self, left: &[u8], right: &[u8]) -> bool {
        match self {
            Self::Environment | Self::Tls => left == right,
            _ => left.eq_ignore_ascii_case(right),
        }
    }
}

/// The values that a format asks for, each once. A value's position in this list is its number for
/// [`crate::Values::value`].
#[derive(Clone, Debug, Default)]
pub struct Needs {
    list: Vec<(Source, Box<[u8]>)>,
    /// Of several Set-Cookie fields the first alone counts.
    pub(crate) first_only: bool,
}

impl Needs {
    pub(crate) fn new(first_only: bool) -> Self {
        Self { list: Vec::new(), first_only }
    }

    /// Every need: its number, its source and its name.
    pub fn iter(&self) -> impl Iterator<Item = (usize, Source, &[u8])> {
        self.list.iter().enumerate().map(|(number, (source, name))| (number, *source, &**name))
    }

    /// The needs from one source: number and name.
    pub fn of(&self, source: Source) -> impl Iterator<Item = (usize, &[u8])> {
        self.iter().filter(move |need| need.1 == source).map(|(number, _, name)| (number, name))
    }

    /// Whether anything is needed from there: when not, the front need not even look.
    #[must_use]
    pub fn any(&self, source: Source) -> bool {
        self.of(source).next().is_some()
    }

    /// The number of this need, added if it is new.
    pub(crate) fn add(&mut self, source: Source, name: &[u8]) -> usize {
        let known =
            self.list.iter().position(|(from, known)| *from == source && source.same_name(known, name));
        known.unwrap_or_else(|| {
            self.list.push((source, name.into()));
            self.list.len() - 1
        })
    }
}
