//! Where Howdah listens.
//!
//! The options add up: each -l, a -S and a -o/-p pair name one listener. [`Listen::listeners`] joins them
//! into the list that the front binds.

use std::net::Ipv6Addr;

use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};
use howdah_front::Address;

use super::listener::{Named, Several, several};
use super::values::{Mode, whole};

/// Port for a host named without one; plackup's and Starman's.
const PORT: u16 = 5000;

/// Listeners and their sockets.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Listening")]
pub(crate) struct Listen {
    /// HOST:PORT, :PORT or a path (repeatable) [default: 127.0.0.1:5000]
    ///
    /// :PORT listens on every address, IPv4 and IPv6; an IPv6 address stands in brackets, as in [::1]:80.
    /// A name with several addresses, as localhost may have 127.0.0.1 and [::1], is listened on at each of them that is this
    /// machine's, but for those that another listener names by itself. A path has a slash, or unix: before it. unix:@NAME is an
    /// abstract socket, which has no file: whoever is in the same network namespace may connect. Several may be joined by commas.
    /// Port 0 takes a free port, which is printed at start. Listeners named by -l, -S and -o/-p add up;
    /// one named on the command line puts those of the environment aside. What is to hold for one listener alone stands
    /// behind it: /run/app.sock,mode=0660, :80,backlog=4096 and :81,proxy-protocol instead of --socket-mode, --backlog and
    /// --proxy-protocol. tls:ADDR speaks TLS
    /// (see --tls-cert).
    #[arg(short = 'l', long, value_name = "ADDR", value_parser = several)]
    pub(crate) listen: Vec<Several>,

    /// Name or address to listen on, at --port
    #[arg(short = 'o', long, value_name = "HOST", value_parser = host)]
    pub(crate) host: Option<String>,

    /// Port to listen on, at --host or on every address
    #[arg(short = 'p', long, value_name = "PORT", value_parser = whole::<u16>(0..=65535))]
    pub(crate) port: Option<u16>,

    /// Unix socket to listen on
    #[arg(short = 'S', long, value_name = "PATH", value_parser = PathBufValueParser::new().try_map(Address::unix))]
    pub(crate) socket: Option<Address>,

    /// Permissions of Unix sockets, in octal
    ///
    /// Of those that have none of their own (see --listen). Without it, the umask decides.
    #[arg(long, value_name = "MODE")]
    pub(crate) socket_mode: Option<Mode>,

    /// Connections waiting in the kernel to be accepted
    ///
    /// For each listener that has none of its own (see --listen). The kernel bounds it by net.core.somaxconn.
    #[arg(long, value_name = "N", default_value = "1024", value_parser = whole::<u16>(1..=65535))]
    pub(crate) backlog: u16,
}

impl Listen {
    /// Every listener.
    pub(crate) fn listeners(&self) -> Vec<Named> {
        let mut all: Vec<Named> = self.listen.iter().flat_map(|several| several.0.clone()).collect();
        all.extend(self.socket.clone().map(Named::from));
        match (&self.host, self.port.unwrap_or(PORT)) {
            (Some(host), port) if host == "*" => all.push(Address::Any(port).into()),
            (Some(host), port) => all.push(Address::Host(unbracketed(host).to_owned(), port).into()),
            (None, port) if self.port.is_some() => all.push(Address::Any(port).into()),
            _ => {}
        }
        if all.is_empty() {
            all.push(Address::Host("127.0.0.1".to_owned(), PORT).into());
        }
        all
    }

    /// Every listener, and whether it speaks TLS when there are certificates: those that are said to, or all on TCP.
    pub(crate) fn secured(&self, on: bool) -> Vec<(Named, bool)> {
        let all = self.listeners();
        let some_are_said = all.iter().any(|named| named.tls);
        let is_tcp = |named: &Named| matches!(named.address, Address::Any(_) | Address::Host(..));
        let tls = |named: &Named| on && if some_are_said { named.tls } else { is_tcp(named) };
        all.into_iter().map(|named| (named.clone(), tls(&named))).collect()
    }

    /// Why --socket-mode is of no use.
    pub(super) fn mode_fault<'a>(&self, pages: impl Iterator<Item = &'a Named>) -> Option<String> {
        self.socket_mode?;
        let all: Vec<_> =
            self.listeners().into_iter().chain(pages.cloned()).map(|named| named.address).collect();
        if let Some(named) = all.iter().find(|address| matches!(address, Address::Abstract(_))) {
            return Some(format!(
                "--socket-mode cannot protect {named}, an abstract socket, which has no file and no permissions: give the \
                 socket a path, or leave --socket-mode out"
            ));
        }
        (!all.iter().any(|address| matches!(address, Address::Unix(_)))).then(|| {
            "--socket-mode needs a Unix socket to apply to: name one by --socket PATH or --listen PATH"
                .to_owned()
        })
    }
}

/// --host takes an IPv6 address with and without the brackets that it needs before `:PORT`.
fn unbracketed(host: &str) -> &str {
    host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host)
}

/// What is no host anywhere is refused before a resolver is asked, whose answer would name neither the option nor the way out.
/// An empty one, as of a variable that somebody has forgotten to set, is not taken for every address.
fn host(text: &str) -> Result<String, String> {
    let inner = unbracketed(text);
    let is_scoped = |(address, zone): (&str, &str)| address.parse::<Ipv6Addr>().is_ok() && !zone.is_empty();
    let is_ipv6 = inner.parse::<Ipv6Addr>().is_ok() || inner.split_once('%').is_some_and(is_scoped);
    let is_word = |text: &str| !text.is_empty() && !text.contains([':', '/', ',', '[', ']', ' ']);
    if is_ipv6 || is_word(text) {
        return Ok(text.to_owned());
    }
    Err("a host is a name or an address without a port: write it so, or HOST:PORT and paths by --listen; without --host, \
         --port PORT is every address"
        .to_owned())
}
