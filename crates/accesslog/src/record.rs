//! What the front knows of a response at its end.

/// How the connection stands once the response is done: `%X`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConnectionState {
    /// It was gone before the response was whole: `X`.
    Aborted,
    /// It may serve another request: `+`.
    KeepAlive,
    /// It is closed after this response: `-`.
    #[default]
    Close,
}

/// One request and its response. Slices are as received, unescaped; empty ones print as `-` where Apache would have
/// no value. Times are nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The first line of a request that could not be parsed, without its line end; empty for all others, whose `%r`
    /// is put together from method, target and protocol.
    pub line: &'a [u8],
    /// Method; empty when the request could not be parsed.
    pub method: &'a [u8],
    /// Request target as sent.
    pub target: &'a [u8],
    /// The whole path, percent-decoded: SCRIPT_NAME and PATH_INFO.
    pub path: &'a [u8],
    /// The part of `path` that is PATH_INFO.
    pub path_info: &'a [u8],
    /// Query without its `?`.
    pub query: &'a [u8],
    /// `HTTP/1.1` and the like.
    pub protocol: &'a [u8],
    /// Status sent; 0 when none was.
    pub status: u16,
    /// Bytes of the response's body that were sent, without transfer framing.
    pub body_bytes: u64,
    /// Bytes received for this request: head, framing and body.
    pub bytes_in: u64,
    /// Bytes sent for it: interim responses, head, framing and body.
    pub bytes_out: u64,
    /// Unix time of the request's first byte.
    pub begin: u64,
    /// From `begin` to the last byte written.
    pub duration: u64,
    /// From `begin` to the response's first byte; none if there was none.
    pub first_byte: Option<u64>,
    /// How long the request waited for a worker; none if it never was in the queue.
    pub queue: Option<u64>,
    /// How long the worker was busy with it.
    pub run: Option<u64>,
    /// From the response's first byte to its last.
    pub send: Option<u64>,
    /// Address of the client, perhaps as a trusted proxy told it; empty for a Unix socket.
    pub client: &'a [u8],
    /// Port of the client; 0 for none.
    pub client_port: u16,
    /// Address of the connection's other end.
    pub peer: &'a [u8],
    /// Address of this end.
    pub local: &'a [u8],
    /// Port of this end; 0 for a Unix socket.
    pub local_port: u16,
    /// The server's configured name: SERVER_NAME.
    pub server_name: &'a [u8],
    /// The server's configured port: SERVER_PORT.
    pub server_port: u16,
    /// Host of the request, with its port if it has one; empty if it names none.
    pub host: &'a [u8],
    /// How many requests this connection has served before this one.
    pub keepalive: u64,
    /// How the connection stands now.
    pub connection: ConnectionState,
    /// Process id of the worker; 0 when no worker was involved.
    pub pid: u32,
    /// Thread id of the worker; 0 likewise.
    pub tid: u64,
    /// Index of the worker, which outlives its process.
    pub worker: Option<u32>,
    /// Load of the application that served it.
    pub generation: u32,
    /// X-Request-Id.
    pub request_id: &'a [u8],
    /// What [`crate::Needs`] asked for.
    pub values: &'a dyn Values,
}

/// The fields, trailers and variables that a format needs, by their number in [`crate::Needs`].
///
/// [`crate::Kept`] is a ready one; a front that still has the request in memory can look there instead.
pub trait Values: std::fmt::Debug {
    /// The value, or none if the message or the environment has none. [`crate::Kept::offer`] says what becomes of
    /// several fields of one name.
    fn value(&self, need: usize) -> Option<&[u8]>;
}

/// For formats that need none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoValues;

impl Values for NoValues {
    fn value(&self, _need: usize) -> Option<&[u8]> {
        None
    }
}

impl Default for Record<'_> {
    fn default() -> Self {
        Self {
            line: b"",
            method: b"",
            target: b"",
            path: b"",
            path_info: b"",
            query: b"",
            protocol: b"",
            status: 0,
            body_bytes: 0,
            bytes_in: 0,
            bytes_out: 0,
            begin: 0,
            duration: 0,
            first_byte: None,
            queue: None,
            run: None,
            send: None,
            client: b"",
            client_port: 0,
            peer: b"",
            local: b"",
            local_port: 0,
            server_name: b"",
            server_port: 0,
            host: b"",
            keepalive: 0,
            connection: ConnectionState::Close,
            pid: 0,
            tid: 0,
            worker: None,
            generation: 0,
            request_id: b"",
            values: &NoValues,
        }
    }
}
