//! Where to listen, as an operator writes it and as it is shown, and how.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::str::FromStr;

/// A place to listen, as an operator writes it: `HOST:PORT`, `[::1]:PORT`, `:PORT` (every address, IPv6 and IPv4),
/// `PORT` alone, a path with a `/` (or `unix:PATH`) for a Unix socket, or `unix:@NAME` for one that has a name instead of a
/// file. Port 0 lets the kernel choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Every address of the machine.
    Any(u16),
    /// A host name or address literal, and a port.
    Host(String, u16),
    /// A Unix socket.
    Unix(PathBuf),
    /// A Unix socket without a file (`unix(7)`: abstract), by its name.
    Abstract(String),
}

/// What those get who come to a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Serves {
    /// Answers to all requests: of applications, and pages of the front's own where a client may see them.
    #[default]
    Requests,
    /// The front's own pages and nothing else, whoever can reach them.
    Pages,
}

/// How to listen; each listener has its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// Connections that the kernel may hold before they are accepted.
    pub backlog: u16,
    /// Permission bits of a Unix socket's file; none leaves them to the umask.
    pub mode: Option<u32>,
    /// What is answered.
    pub serves: Serves,
    /// TLS is spoken.
    pub tls: bool,
    /// Nothing is answered but that the same is there by TLS, at this port.
    pub redirect: Option<u16>,
    /// A connection begins with what its proxy says of the client: the PROXY protocol.
    pub proxy_protocol: bool,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            backlog: 1024,
            mode: None,
            serves: Serves::Requests,
            tls: false,
            redirect: None,
            proxy_protocol: false,
        }
    }
}

/// A text that is no address.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// It has another form.
    #[error("cannot listen on '{0}': want HOST:PORT, [IPv6]:PORT, :PORT, a path with a slash, or unix:@NAME")]
    Syntax(String),
    /// It ends with a number, which no port has.
    #[error("cannot listen on '{0}': a port is a number from 0 to 65535")]
    Port(String),
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let syntax = || AddressError::Syntax(text.to_owned());
        if let Some(local) = text.strip_prefix("unix:") {
            return Self::unix(local.into()).map_err(|_| syntax());
        }
        if text.contains('/') {
            return Ok(Self::Unix(text.into()));
        }
        let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
        let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port
            .parse()
            .map_err(|_| if is_number { AddressError::Port(text.to_owned()) } else { syntax() })?;
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        match bracketed {
            Some(inner) => {
                inner.parse::<Ipv6Addr>().map(|_| Self::Host(inner.to_owned(), port)).map_err(|_| syntax())
            }
            None if host.is_empty() || host == "*" => Ok(Self::Any(port)),
            None if host.contains([':', '[', ']', ' ']) => Err(syntax()),
            None => Ok(Self::Host(host.to_owned(), port)),
        }
    }
}

impl Address {
    /// A Unix socket by its path, or by its name behind an `@`.
    ///
    /// # Errors
    /// When nothing is named, or by bytes that are no text.
    pub fn unix(path: PathBuf) -> Result<Self, AddressError> {
        let is_abstract = path.as_os_str().as_bytes().starts_with(b"@");
        let name = path.to_str().and_then(|path| path.strip_prefix('@'));
        match name {
            Some(name) if !name.is_empty() => Ok(Self::Abstract(name.to_owned())),
            None if !is_abstract && !path.as_os_str().is_empty() => Ok(Self::Unix(path)),
            _ => Err(AddressError::Syntax(path.display().to_string())),
        }
    }
}

impl Address {
    /// The one address that this is, if it is no name.
    #[must_use]
    pub fn literal(&self) -> Option<SocketAddr> {
        match self {
            Self::Host(host, port) => Some(SocketAddr::new(host.parse::<IpAddr>().ok()?, *port)),
            _ => None,
        }
    }

    /// Whether `other` is one of several addresses that this stands for by itself. Of the addresses of names nothing is known here.
    #[must_use]
    pub fn includes(&self, other: &Self) -> bool {
        let port = self.port().filter(|&port| port != 0);
        let reaches = match (self, self.literal().map(|own| own.ip())) {
            (Self::Any(_), _) => true,
            (_, Some(IpAddr::V6(ip))) => ip.is_unspecified(),
            (_, Some(IpAddr::V4(ip))) => {
                ip.is_unspecified() && other.literal().is_some_and(|other| other.is_ipv4())
            }
            _ => false,
        };
        reaches && self != other && port.is_some() && other.port() == port
    }

    fn port(&self) -> Option<u16> {
        match self {
            Self::Any(port) | Self::Host(_, port) => Some(*port),
            Self::Unix(_) | Self::Abstract(_) => None,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any(port) => write!(f, ":{port}"),
            Self::Host(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Host(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Abstract(name) => write!(f, "unix:@{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_operators_write_them() {
        let table = [
            (":5000", Some(Address::Any(5000))),
            ("5000", Some(Address::Any(5000))),
            ("*:80", Some(Address::Any(80))),
            ("127.0.0.1:0", Some(Address::Host("127.0.0.1".into(), 0))),
            ("[::1]:8080", Some(Address::Host("::1".into(), 8080))),
            ("localhost:5000", Some(Address::Host("localhost".into(), 5000))),
            ("/run/app.sock", Some(Address::Unix("/run/app.sock".into()))),
            ("unix:app.sock", Some(Address::Unix("app.sock".into()))),
            ("unix:./@app", Some(Address::Unix("./@app".into()))),
            ("unix:@app", Some(Address::Abstract("app".into()))),
            ("unix:@a/b:c", Some(Address::Abstract("a/b:c".into()))),
            ("unix:@", None),
            ("@app", None),
            ("", None),
            ("localhost", None),
            ("::1:5000", None),
            ("[::g]:5000", None),
            (":70000", None),
            ("unix:", None),
        ];
        for (text, want) in table {
            assert_eq!(text.parse::<Address>().ok(), want, "{text}");
        }
    }

    #[test]
    fn wildcards_include_what_the_kernel_would_not_bind_beside_them() {
        for (wildcard, other, includes) in [
            (":80", "127.0.0.1:80", true),
            (":80", "[::1]:80", true),
            (":80", "localhost:80", true),
            (":80", "0.0.0.0:80", true),
            (":80", "[::]:80", true),
            ("[::]:80", "0.0.0.0:80", true),
            ("0.0.0.0:80", "127.0.0.1:80", true),
            ("0.0.0.0:80", "[::1]:80", false),
            ("0.0.0.0:80", "[::]:80", false),
            (":80", ":80", false),
            (":80", "127.0.0.1:81", false),
            (":0", "127.0.0.1:0", false),
            (":80", "/run/80", false),
            ("127.0.0.1:80", ":80", false),
            ("localhost:80", "127.0.0.1:80", false),
        ] {
            let [wildcard, other] = [wildcard, other].map(|text| text.parse::<Address>().unwrap());
            assert_eq!(wildcard.includes(&other), includes, "{wildcard} {other}");
        }
    }

    #[test]
    fn a_number_that_no_port_has_is_told_from_what_is_no_address() {
        for (text, is_port) in
            [(":65536", true), ("99999", true), ("[::1]:70000", true), (":", false), (":http", false)]
        {
            let error = text.parse::<Address>().unwrap_err();
            assert_eq!(matches!(error, AddressError::Port(_)), is_port, "{text}");
        }
    }
}
