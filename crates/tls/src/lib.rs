//! TLS without sockets: certificates and which of them a client gets, sessions that turn bytes into bytes, and the
//! tickets by which clients resume. The front does the reading and writing; the program says where the files are.
//!
//! ```text
//! acceptor   settings and files become what new sessions use; exchanged as a whole at a reload
//! session    one connection: records in, plain bytes out, and the other way round
//! facts      what a handshake has settled, as the env and the access log call it
//! trusted    whose client certificates are believed
//! challenges what an authority is shown while a certificate is ordered
//! store      the certificate for a name
//! pair       a certificate and its key, read and checked
//! file       a file, or a pipe within a time
//! x509       what stands in a certificate
//! provider   what does the arithmetic, by processor
//! tickets    the keys of all tickets: one set for all threads, handed to the process that replaces this one
//! error      what is wrong with a file, and the way out
//! ```
#![forbid(unsafe_code)]

mod acceptor;
mod session;
mod facts;
mod trusted;
mod store;
mod challenges;
mod pair;
mod file;
mod x509;
mod provider;
mod tickets;
mod error;

pub use acceptor::{Acceptor, Certificate, ClientCertificates, Least, Settings, check, look};
pub use challenges::{ACME_TLS, Challenges};
pub use error::Error;
pub use facts::Facts;
pub use file::read_file;
pub use session::{Broken, OVERHEAD, Opened, Session, Unsealed};
