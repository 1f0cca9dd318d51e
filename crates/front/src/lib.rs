//! The front: owns every client connection, from accept to the last byte. A request walks down and back:
//!
//! ```text
//! orders      the door: starts a front thread, gives it orders
//! thread      puts everything together; wake-ups are batched around the event loop's sleep
//! accept      lets clients in, and gives each connection its task
//! introduction   the PROXY protocol: whose connection it is
//! gate        TLS handshakes, a few at a time
//! h1          HTTP/1: bytes become requests, responses become bytes; one exchange at a time
//! h2          HTTP/2: frames become requests, responses become frames; many exchanges at a time
//! redirect    another path of the server answers, where a CGI script names one
//! delivery    a response that grows, or comes from a file, on its way to the client
//! linger      the end of a connection whose client may still be sending
//! upload      a request body on its way, and where it lies
//! server      what all connections of a thread share
//! turns       whose large body is sent
//! route       whose request it is
//! pages       handler: status, metrics and health, answered by the server itself; who may see them
//! app         handler: an application, whose workers run the request
//! response    what handlers yield: head and body
//! request_record   a request in the form in which a slot holds it
//! slots       this thread's slots in an application's segment: queue, wake-ups, responses, recovery
//! exchange    one request and its response under way; where everybody leaves what they have for it
//! relay       a connection joined with an application that has taken it, where it cannot have the descriptor
//! outflow     what clients have not taken yet, how slowly they take it, where that lies
//! transport   what carries the bytes of a connection
//! doors       who comes in, who has to leave, the end of a thread that drains
//! room, idle  a connection that rests makes room
//! waiting     threads that wait for disks, in the place of this one
//! timers      every connection's deadline
//! record      the end of an exchange: access log, slow log, metrics
//! sharing     which front thread has a connection
//! proxied     the client behind a proxy, as far as that is trusted
//! request     a head as handlers see it; request_id: X-Request-Id, taken over or made
//! fault       why there is no answer, and what follows from that
//! ```
//!
//! and below that what stands alone. Everybody gets what they need as arguments, from `thread`; what lives as long as a
//! front thread does is borrowed for good.
#![forbid(unsafe_code)]

#[cfg(test)]
mod sample;

mod orders;
mod thread;
mod accept;
mod introduction;
mod gate;
mod h1;
mod h2;
mod redirect;
mod delivery;
mod linger;
mod upload;
mod server;
mod turns;
mod route;
mod pages;
mod share_cpu;
mod lookout;
mod app;
mod response;
mod request_record;
mod slots;
mod exchange;
mod relay;
mod outflow;
mod transport;
mod doors;
mod room;
mod idle;
mod waiting;
mod timers;
mod record;
mod sharing;
mod proxied;
mod request;
mod request_id;
mod fault;
mod reports;
mod capacity;
mod config;
mod listen;
mod address;
mod clock;
mod repeated;
mod others;

pub use address::{Address, AddressError, ListenOptions, Serves};
pub use app::{PoolSetup, Rush, Upgrades};
pub use capacity::{Capacity, PAGE_CONNECTIONS, Permit};
pub use config::Config;
pub use howdah_http1::Limits;
pub use listen::{ListenError, Listener};
pub use orders::{Front, runtime};
pub use outflow::{Stock, try_spool};
pub use pages::{Answer, OwnPage, OwnPages, PagePath, Question};
pub use record::{AccessLog, SlowLog};
pub use repeated::{Again, Repeated};
pub use reports::{Damaged, Loss, Overdue, WorkerAnswer};
pub use sharing::Sharing;
pub use thread::Setup;
