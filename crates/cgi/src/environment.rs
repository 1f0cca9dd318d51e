//! A request and a script become meta-variables (RFC 3875 4.1, and those that scripts of Apache rely on) and arguments.
//!
//! What the request says wins over what the operator gives, as with Apache's SetEnv: a variable of `--cgi-env` is for what no
//! request has. A field whose name is more than letters, digits and hyphens becomes no variable.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::net::IpAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::place::Script;
use crate::request::Request;
use crate::spec::Spec;

const SOFTWARE: &str = concat!("Howdah/", env!("CARGO_PKG_VERSION"));
/// PATH where the server has none.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// They are for the server (4.1.18), unless the operator passes them on.
const SECRETS: [&str; 2] = ["HTTP_AUTHORIZATION", "HTTP_PROXY_AUTHORIZATION"];
/// Programs take the first for the proxy that they are to use, and the others are said under other names.
const NEVER: [&str; 3] = ["HTTP_PROXY", "HTTP_CONTENT_LENGTH", "HTTP_CONTENT_TYPE"];
/// What a request may have beside `HTTP_*`: of its body, and where it was before a local redirect.
const OTHERS: [&str; 4] = ["CONTENT_LENGTH", "CONTENT_TYPE", "REDIRECT_STATUS", "REDIRECT_URL"];
/// What is active in a shell. The words of a query have a backslash before it (RFC 3875 7.2).
const ACTIVE: &[u8] = b"&;`'\"|*?~<>^()[]{}$\\\n\xff";

type Variables = BTreeMap<Vec<u8>, Vec<u8>>;

/// What is the same for every request of a mount.
#[derive(Debug)]
pub struct Environment {
    fixed: Variables,
    /// Without a slash at its end.
    document_root: Vec<u8>,
    /// Of [`SECRETS`], those that are none here.
    told: Vec<String>,
}

impl Environment {
    /// Takes from the specification, and from the environment of this process what is to be passed on.
    #[must_use]
    pub fn new(spec: &Spec) -> Self {
        Self::with(spec, |name| std::env::var_os(name).map(OsStringExt::into_vec))
    }

    fn with(spec: &Spec, own: impl Fn(&str) -> Option<Vec<u8>>) -> Self {
        let mut fixed = Variables::new();
        let mut put = |name: &str, value: Vec<u8>| drop(fixed.insert(name.into(), value));
        put("PATH", own("PATH").unwrap_or_else(|| PATH.into()));
        for name in &spec.pass {
            own(name).into_iter().for_each(|value| put(name, value));
        }
        spec.env.iter().for_each(|(name, value)| put(name, value.clone()));
        let document_root = spec.document_root.as_os_str().as_bytes().to_vec();
        put("DOCUMENT_ROOT", document_root.clone());
        put("GATEWAY_INTERFACE", b"CGI/1.1".to_vec());
        put("SERVER_SOFTWARE", SOFTWARE.into());
        let document_root = document_root.strip_suffix(b"/").unwrap_or(&document_root).to_vec();
        Self { fixed, document_root, told: spec.pass.clone() }
    }

    /// Name and value of what is the same for every request.
    pub fn lasting(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.fixed.iter().map(|(name, value)| (OsStr::from_bytes(name), OsStr::from_bytes(value)))
    }

    /// `NAME=VALUE` for one request, by name: the whole environment of its process.
    #[must_use]
    pub fn variables(&self, request: &Request, script: &Script) -> Vec<CString> {
        let mut all = self.fixed.clone();
        let of_fields = request.fields.iter().filter(|(name, _)| self.is_for_scripts(name));
        all.extend(of_fields.cloned());
        let mut put = |name: &str, value: &[u8]| drop(all.insert(name.into(), value.to_vec()));
        of_request(request, &mut put);
        put("SCRIPT_NAME", &script.name);
        put("SCRIPT_FILENAME", script.filename.as_os_str().as_bytes());
        if !script.path_info.is_empty() {
            put("PATH_INFO", &script.path_info);
            put("PATH_TRANSLATED", &[self.document_root.as_slice(), &script.path_info].concat());
        }
        // A NUL would end what is before it.
        all.into_iter().filter_map(|(name, value)| CString::new([name, value].join(&b'=')).ok()).collect()
    }

    fn is_for_scripts(&self, name: &[u8]) -> bool {
        let is_among = |names: &[&str]| names.iter().any(|other| name == other.as_bytes());
        let is_variable = name.iter().all(|&byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_'));
        let is_told = || self.told.iter().any(|other| name == other.as_bytes());
        let known = is_variable && (name.starts_with(b"HTTP_") || is_among(&OTHERS));
        known && !is_among(&NEVER) && (!is_among(&SECRETS) || is_told())
    }
}

fn of_request(request: &Request, put: &mut impl FnMut(&str, &[u8])) {
    let address = std::str::from_utf8(&request.server_name).ok().and_then(|name| name.parse::<IpAddr>().ok());
    put("QUERY_STRING", &request.query);
    put("REMOTE_ADDR", &request.remote_addr);
    // Nobody looks names up: this may stand for one.
    put("REMOTE_HOST", &request.remote_addr);
    put("REQUEST_METHOD", &request.method);
    put("REQUEST_SCHEME", if request.https { b"https" } else { b"http" });
    put("REQUEST_URI", &request.uri);
    put("SERVER_NAME", &server_name(request));
    put("SERVER_PORT", &request.server_port);
    put("SERVER_PROTOCOL", protocol(request));
    let optional = [
        ("HTTPS", request.https.then_some(&b"on"[..])),
        ("REMOTE_PORT", Some(request.remote_port.as_slice()).filter(|port| !port.is_empty())),
        ("SERVER_ADDR", address.map(|_| request.server_name.as_slice())),
        ("UNIQUE_ID", request.field(b"HTTP_X_REQUEST_ID")),
    ];
    for (name, value) in optional {
        value.into_iter().for_each(|value| put(name, value));
    }
}

/// With two numbers (4.1.16), also where the protocol itself has given up the second.
fn protocol(request: &Request) -> &[u8] {
    if request.protocol == b"HTTP/2" { b"HTTP/2.0" } else { &request.protocol }
}

/// The host that the client names, without its port; else where it was received.
fn server_name(request: &Request) -> Vec<u8> {
    let host = request.field(b"HTTP_HOST").filter(|host| !host.is_empty()).unwrap_or(&request.server_name);
    let address =
        host.iter().position(|&byte| byte == b']').filter(|_| host[0] == b'[').map_or(0, |end| end + 1);
    let port = host[address..].iter().position(|&byte| byte == b':').map(|colon| address + colon);
    // An IPv6 address without brackets is no host and port.
    let several = host[address..].iter().filter(|&&byte| byte == b':').count() > 1;
    host[..port.filter(|_| !several).unwrap_or(host.len())].to_ascii_lowercase()
}

/// The words of an indexed query (RFC 3875 4.4), decoded; none if it has a `=`, or cannot be decoded.
#[must_use]
pub fn arguments(request: &Request) -> Vec<CString> {
    let query = &request.query;
    let reads = request.method == b"GET" || request.method == b"HEAD";
    if !reads || query.is_empty() || query.contains(&b'=') {
        return Vec::new();
    }
    query.split(|&byte| byte == b'+').map(word).collect::<Option<_>>().unwrap_or_default()
}

fn word(mut text: &[u8]) -> Option<CString> {
    let mut word = Vec::with_capacity(text.len());
    while let Some((&byte, mut rest)) = text.split_first() {
        let mut byte = byte;
        if byte == b'%' {
            let (digits, behind) = rest.split_at_checked(2)?;
            let digits =
                std::str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_hexdigit))?;
            (byte, rest) = (u8::from_str_radix(digits, 16).ok()?, behind);
        }
        if ACTIVE.contains(&byte) {
            word.push(b'\\');
        }
        word.push(byte);
        text = rest;
    }
    CString::new(word).ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::place::Version;

    fn spec() -> Spec {
        let env = [("A", "one"), ("HTTPS", "maybe"), ("REQUEST_METHOD", "MINE"), ("PATH_INFO", "/mine")];
        Spec {
            document_root: "/srv/www/".into(),
            env: env.map(|(name, value)| (name.into(), value.into())).to_vec(),
            pass: vec!["TZ".into(), "NOT_THERE".into()],
            ..Spec::default()
        }
    }

    fn own(name: &str) -> Option<Vec<u8>> {
        let known = [("PATH", "/bin"), ("TZ", "UTC"), ("HOME", "/root"), ("HTTP_AUTHORIZATION", "ours")];
        known.iter().find(|(other, _)| *other == name).map(|(_, value)| value.as_bytes().to_vec())
    }

    fn script(path_info: &str) -> Script {
        Script {
            filename: "/srv/cgi/a.cgi".into(),
            directory: Path::new("/srv/cgi").into(),
            name: b"/cgi-bin/a.cgi".to_vec(),
            path_info: path_info.into(),
            version: Version { file: (0, 0), size: 0, modified: (0, 0) },
            perl: None,
            nph: false,
        }
    }

    fn request(fields: &[(&str, &str)]) -> Request {
        Request {
            method: b"GET".to_vec(),
            uri: b"/cgi-bin/a.cgi/b%20c?d=e".to_vec(),
            path: b"/cgi-bin/a.cgi/b c".to_vec(),
            query: b"d=e".to_vec(),
            protocol: b"HTTP/1.1".to_vec(),
            server_name: b"192.0.2.1".to_vec(),
            server_port: b"8080".to_vec(),
            remote_addr: b"198.51.100.7".to_vec(),
            remote_port: b"4321".to_vec(),
            fields: fields
                .iter()
                .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
                .collect(),
            ..Request::default()
        }
    }

    fn variables(spec: &Spec, request: &Request, path_info: &str) -> Vec<String> {
        let all = Environment::with(spec, own).variables(request, &script(path_info));
        all.into_iter().map(|variable| variable.into_string().unwrap()).collect()
    }

    #[test]
    fn a_script_has_these_variables_and_no_others() {
        let fields = [("HTTP_HOST", "Shop.example:80"), ("HTTP_X_REQUEST_ID", "me"), ("HTTP_ACCEPT", "*/*")];
        let expected = [
            "A=one",
            "DOCUMENT_ROOT=/srv/www/",
            "GATEWAY_INTERFACE=CGI/1.1",
            "HTTPS=maybe",
            "HTTP_ACCEPT=*/*",
            "HTTP_HOST=Shop.example:80",
            "HTTP_X_REQUEST_ID=me",
            "PATH=/bin",
            "PATH_INFO=/b c",
            "PATH_TRANSLATED=/srv/www/b c",
            "QUERY_STRING=d=e",
            "REMOTE_ADDR=198.51.100.7",
            "REMOTE_HOST=198.51.100.7",
            "REMOTE_PORT=4321",
            "REQUEST_METHOD=GET",
            "REQUEST_SCHEME=http",
            "REQUEST_URI=/cgi-bin/a.cgi/b%20c?d=e",
            "SCRIPT_FILENAME=/srv/cgi/a.cgi",
            "SCRIPT_NAME=/cgi-bin/a.cgi",
            "SERVER_ADDR=192.0.2.1",
            "SERVER_NAME=shop.example",
            "SERVER_PORT=8080",
            "SERVER_PROTOCOL=HTTP/1.1",
            &format!("SERVER_SOFTWARE=Howdah/{}", env!("CARGO_PKG_VERSION")),
            "TZ=UTC",
            "UNIQUE_ID=me",
        ];
        assert_eq!(variables(&spec(), &request(&fields), "/b c"), expected);
    }

    #[test]
    fn what_the_request_has_decides_what_there_is() {
        let plain = Spec { document_root: "/srv/www".into(), ..Spec::default() };
        let secure = Request { https: true, ..request(&[]) };
        let second = Request { protocol: b"HTTP/2".to_vec(), ..request(&[]) };
        let unix = Request { remote_port: Vec::new(), server_name: b"box".to_vec(), ..request(&[]) };
        // The request, what there is of it, and what there is not.
        for (request, path_info, there, missing) in [
            (request(&[]), "", "SERVER_NAME=192.0.2.1", "PATH_INFO"),
            (request(&[]), "", "REQUEST_SCHEME=http", "PATH_TRANSLATED"),
            (request(&[]), "/", "PATH_TRANSLATED=/srv/www/", "CONTENT_LENGTH"),
            (secure.clone(), "", "HTTPS=on", "UNIQUE_ID"),
            (secure, "", "REQUEST_SCHEME=https", "CONTENT_TYPE"),
            (second, "", "SERVER_PROTOCOL=HTTP/2.0", "HTTPS"),
            (unix.clone(), "", "SERVER_NAME=box", "SERVER_ADDR"),
            (unix, "", "QUERY_STRING=d=e", "REMOTE_PORT"),
            (request(&[("CONTENT_LENGTH", "0")]), "", "CONTENT_LENGTH=0", "HTTP_CONTENT_LENGTH"),
            (request(&[("CONTENT_TYPE", "a/b")]), "", "CONTENT_TYPE=a/b", "AUTH_TYPE"),
            (request(&[("REDIRECT_URL", "/a")]), "", "REDIRECT_URL=/a", "REDIRECT_STATUS"),
            (request(&[("HTTP_PROXY", "evil")]), "", "PATH=/bin", "HTTP_PROXY"),
            (request(&[("HTTP_AUTHORIZATION", "x")]), "", "PATH=/bin", "HTTP_AUTHORIZATION"),
            (request(&[("HTTP_PROXY_AUTHORIZATION", "x")]), "", "PATH=/bin", "HTTP_PROXY_AUTHORIZATION"),
            (request(&[("HTTP_X.Y", "x")]), "", "PATH=/bin", "HTTP_X.Y"),
            (request(&[("LD_PRELOAD", "x")]), "", "PATH=/bin", "LD_PRELOAD"),
            (request(&[("HTTP_COOKIE", "a\0b")]), "", "PATH=/bin", "HTTP_COOKIE"),
        ] {
            let all = variables(&plain, &request, path_info);
            assert!(all.iter().any(|variable| variable == there), "{there}: {all:?}");
            let begins = |variable: &String| variable.starts_with(&format!("{missing}="));
            assert!(!all.iter().any(begins), "{missing}: {all:?}");
        }
    }

    #[test]
    fn secrets_are_passed_on_only_where_that_is_asked_for() {
        for name in SECRETS {
            let spec = Spec { pass: vec![name.into()], ..Spec::default() };
            let all = variables(&spec, &request(&[(name, "theirs")]), "");
            assert!(all.contains(&format!("{name}=theirs")), "{all:?}");
        }
    }

    #[test]
    fn the_server_is_called_what_the_client_calls_it() {
        for (host, name) in [
            ("example.org", "example.org"),
            ("Example.ORG:8080", "example.org"),
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
            ("::1", "::1"),
            ("192.0.2.7:80", "192.0.2.7"),
            ("", "192.0.2.1"),
            (":80", ""),
            ("]", "]"),
            ("[", "["),
        ] {
            let found = server_name(&request(&[("HTTP_HOST", host)]));
            assert_eq!(String::from_utf8(found).unwrap(), name, "{host}");
        }
    }

    #[test]
    fn an_indexed_query_is_words() {
        for (method, query, expected) in [
            ("GET", "", &[][..]),
            ("GET", "one", &["one"]),
            ("HEAD", "one+two%20three", &["one", "two three"]),
            ("GET", "a+", &["a", ""]),
            ("GET", "a%3Db", &["a=b"]),
            ("GET", "a+b=c", &[]),
            ("POST", "one", &[]),
            ("GET", "one+%zz", &[]),
            ("GET", "one+%4", &[]),
            ("GET", "one+%00", &[]),
            ("GET", "-d+$(id)%3B%60", &["-d", "\\$\\(id\\)\\;\\`"]),
        ] {
            let request = Request { method: method.into(), query: query.into(), ..Request::default() };
            let words: Vec<_> =
                arguments(&request).into_iter().map(|word| word.into_string().unwrap()).collect();
            assert_eq!(words, expected, "{method} {query}");
        }
    }
}
