//! A request as a script will see it, by itself: the worker that has claimed a slot copies it from there, once.

/// See the module. Bytes are as the front has checked them: no CR, LF or NUL in fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// REQUEST_METHOD.
    pub method: Vec<u8>,
    /// REQUEST_URI: the target as it was sent.
    pub uri: Vec<u8>,
    /// The whole path, percent-decoded, with the mount at its beginning.
    pub path: Vec<u8>,
    /// QUERY_STRING, not decoded.
    pub query: Vec<u8>,
    /// SERVER_PROTOCOL.
    pub protocol: Vec<u8>,
    /// The server's name where the request has no Host.
    pub server_name: Vec<u8>,
    /// SERVER_PORT.
    pub server_port: Vec<u8>,
    /// REMOTE_ADDR.
    pub remote_addr: Vec<u8>,
    /// REMOTE_PORT.
    pub remote_port: Vec<u8>,
    /// It came by https.
    pub https: bool,
    /// Fields under their names as variables: `HTTP_HOST`, `CONTENT_TYPE`, `CONTENT_LENGTH`.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
    /// Bytes of the body.
    pub body_length: u64,
}

impl Request {
    /// The value of a field, by its name as a variable.
    #[must_use]
    pub fn field(&self, name: &[u8]) -> Option<&[u8]> {
        self.fields.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_slice())
    }
}
