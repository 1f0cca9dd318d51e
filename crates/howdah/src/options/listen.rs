//! Where Howdah listens.
//!
//! The options add up: each -l, a -S and a -o/-p pair name one listener. [`Listen::addresses`] joins them
//! into the list that the front binds.

use std::path::PathBuf;

use clap::Args;

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
    /// Whatever has no port at its end is the path of a Unix socket. Several may be joined by commas.
    /// Port 0 takes a free port, which is printed at start. Listeners named by -l, -S and -o/-p add up;
    /// one named on the command line puts those of the environment aside.
    #[arg(short = 'l', long, value_name = "ADDR", value_delimiter = ',')]
    pub(crate) listen: Vec<String>,

    /// Name or address to listen on, at --port
    #[arg(short = 'o', long, value_name = "HOST")]
    pub(crate) host: Option<String>,

    /// Port to listen on, at --host or on every address
    #[arg(short = 'p', long, value_name = "PORT")]
    pub(crate) port: Option<u16>,

    /// Unix socket to listen on
    #[arg(short = 'S', long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,

    /// Permissions of Unix sockets, in octal
    ///
    /// Without it, the umask decides.
    #[arg(long, value_name = "MODE")]
    pub(crate) socket_mode: Option<Mode>,

    /// Connections waiting in the kernel to be accepted
    ///
    /// The kernel bounds it by net.core.somaxconn.
    #[arg(long, value_name = "N", default_value = "1024", value_parser = whole::<u32>(1..=65535))]
    pub(crate) backlog: u32,
}

impl Listen {
    /// Every listener in the notation of -l.
    pub(crate) fn addresses(&self) -> Vec<String> {
        let mut all = self.listen.clone();
        all.extend(self.socket.as_ref().map(|path| path.display().to_string()));
        if self.host.is_some() || self.port.is_some() {
            all.push(format!("{}:{}", self.bracketed_host(), self.port.unwrap_or(PORT)));
        }
        if all.is_empty() {
            all.push(format!("127.0.0.1:{PORT}"));
        }
        all
    }

    /// A host as it stands before `:PORT`: an IPv6 address needs its brackets there.
    fn bracketed_host(&self) -> String {
        match self.host.as_deref().unwrap_or_default() {
            host if host.contains(':') && !host.starts_with('[') => format!("[{host}]"),
            host => host.to_owned(),
        }
    }

    /// Whether any listener is a Unix socket.
    pub(super) fn any_unix(&self) -> bool {
        self.addresses().iter().any(|address| is_path(address))
    }
}

/// An address without a port at its end is the path of a Unix socket, as for plackup; so is whatever
/// starts like a path.
pub(crate) fn is_path(address: &str) -> bool {
    let port = address.rsplit_once(':').map(|(_, port)| port);
    address.starts_with(['/', '.'])
        || !port.is_some_and(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()))
}

/// Refuses what is probably a slip, although plackup would make a socket file of it.
pub(super) fn check(address: &str) -> Result<(), String> {
    match address {
        "" => Err("it is empty; write HOST:PORT, :PORT or the path of a Unix socket".to_owned()),
        port if port.bytes().all(|b| b.is_ascii_digit()) => Err(format!("write :{port} for a port")),
        tls if tls.ends_with(":ssl") => {
            Err("TLS is not served; let a proxy in front of Howdah speak it".to_owned())
        }
        host if host.starts_with('[') && is_path(host) => {
            Err(format!("write {host}:5000, with the port after the brackets"))
        }
        _ if is_path(address) => Ok(()),
        _ => port(address),
    }
}

fn port(address: &str) -> Result<(), String> {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
    if host.contains(':') && !host.starts_with('[') {
        return Err(format!("an IPv6 address stands in brackets: [{host}]:{port}"));
    }
    port.parse::<u16>().map(drop).map_err(|_| "ports end at 65535".to_owned())
}
