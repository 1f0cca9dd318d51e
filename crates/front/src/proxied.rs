//! The client behind a proxy: a proxy that is trusted tells of it with each request. Without trust its fields change nothing.

use howdah_http1::{Fields, is_authority};
use howdah_proxied::Told;

use crate::config::Config;
use crate::request::Client;

/// Who has asked a proxy of ours, and for what host.
#[derive(Debug)]
pub(crate) struct Behind {
    pub(crate) client: Client,
    /// For HTTP_HOST, in place of the proxy's.
    pub(crate) host: Option<Vec<u8>>,
}

impl Behind {
    /// Reads it from the fields of a request. None where `proxy` is none that is trusted, or tells nothing.
    pub(crate) fn look(fields: &Fields<'_>, proxy: &Client, config: &Config) -> Option<Box<Self>> {
        if !proxy.trusted {
            return None;
        }
        let pairs = fields.clone().map(|field| (field.name, field.value));
        let told = config.proxy_fields.read(pairs, &config.trusted_proxies)?;
        let host = told.host.clone().filter(|host| is_authority(host));
        Some(Box::new(Self { client: client(&told, host.as_deref(), proxy), host }))
    }
}

/// What is not told is as the connection says. A port belongs to an address: that of the proxy is not the client's.
fn client(told: &Told, host: Option<&[u8]>, proxy: &Client) -> Client {
    let secure = told.secure.unwrap_or(proxy.secure);
    let by_scheme = || told.secure.map(|secure| if secure { 443 } else { 80 });
    Client {
        origin: proxy.origin.clone(),
        address: told.address.map_or_else(|| proxy.address.clone(), |address| address.to_string().into()),
        port: match (told.address, told.port) {
            (None, _) => proxy.port.clone(),
            (_, port) => port.map_or_else(Box::default, |port| port.to_string().into()),
        },
        secure,
        server_port: told.server_port.or_else(|| port_of(host?)).or_else(by_scheme).or(proxy.server_port),
        trusted: false,
        // That of the proxy says nothing of the client.
        tls: None,
        introduced: proxy.introduced.clone(),
    }
}

/// Of `host:port`, where a port is given.
fn port_of(host: &[u8]) -> Option<u16> {
    let digits = host.rsplit(|&byte| byte == b':').next().filter(|digits| digits.len() < host.len())?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use howdah_proxied::{Family, Trust};

    use super::*;
    use crate::sample;

    fn seen(fields: &str, proxy: &str, family: Family) -> String {
        let trusted_proxies = Trust::new(vec!["10.0.0.0/8".parse().unwrap(), "unix".parse().unwrap()]);
        let config = Config { proxy_fields: family, trusted_proxies, ..Config::default() };
        let mut client = sample::client(proxy);
        client.trusted = config.trusted_proxies.holds(proxy.parse().ok());
        let head = format!("GET / HTTP/1.1\r\nHost: inside\r\n{fields}\r\n\r\n");
        let behind = sample::with(&head, &client, |request| Behind::look(&request.fields, &client, &config));
        let Some(Behind { client, host }) = behind.map(|behind| *behind) else { return "nobody".to_owned() };
        let host = host.map_or_else(|| "-".to_owned(), |host| String::from_utf8(host).unwrap());
        let port = client.server_port.map_or_else(|| client.origin.port.clone(), |port| port.to_string());
        format!(
            "{}:{} {} {host} {port}",
            client.address,
            client.port,
            if client.secure { "https" } else { "http" }
        )
    }

    #[test]
    fn a_trusted_proxy_tells_of_the_client() {
        for (fields, behind) in [
            ("X-Forwarded-For: 192.0.2.1", "192.0.2.1: http - 5000"),
            ("X-Forwarded-For: 192.0.2.1:4711", "192.0.2.1:4711 http - 5000"),
            ("X-Forwarded-Proto: https", "10.0.0.1:40000 https - 443"),
            ("X-Forwarded-Proto: http", "10.0.0.1:40000 http - 80"),
            ("X-Forwarded-Host: a.example", "10.0.0.1:40000 http a.example 5000"),
            ("X-Forwarded-Host: a.example:81", "10.0.0.1:40000 http a.example:81 81"),
            ("X-Forwarded-Host: [::1]:81\r\nX-Forwarded-Port: 82", "10.0.0.1:40000 http [::1]:81 82"),
            ("X-Forwarded-Host: a b", "10.0.0.1:40000 http - 5000"),
            ("X-Forwarded-Host: a.example, evil/x", "10.0.0.1:40000 http - 5000"),
            (
                "X-Forwarded-For: 203.0.113.9, 192.0.2.1, 10.0.0.2\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: a.example",
                "192.0.2.1: https a.example 443",
            ),
            ("Forwarded: for=192.0.2.1;proto=https", "nobody"),
            ("Cookie: a", "nobody"),
        ] {
            assert_eq!(seen(fields, "10.0.0.1", Family::XForwarded), behind, "{fields}");
        }
        let forwarded = "Forwarded: for=\"192.0.2.1:80\";proto=https;host=a.example";
        assert_eq!(seen(forwarded, "10.0.0.1", Family::Forwarded), "192.0.2.1:80 https a.example 443");
        assert_eq!(seen("X-Forwarded-For: 192.0.2.1", "", Family::XForwarded), "192.0.2.1: http - 5000");
    }

    #[test]
    fn the_tls_of_a_proxy_says_nothing_of_its_client() {
        let config = Config::default();
        let proxy =
            Client { trusted: true, secure: true, tls: Some(Box::default()), ..sample::client("10.0.0.1") };
        let head = "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n";
        let behind = sample::with(head, &proxy, |request| Behind::look(&request.fields, &proxy, &config));
        assert!(behind.is_some_and(|behind| behind.client.secure && behind.client.tls.is_none()));
    }

    #[test]
    fn nobody_else_does() {
        for family in [Family::XForwarded, Family::Forwarded] {
            let fields = "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\nForwarded: for=192.0.2.1";
            assert_eq!(seen(fields, "192.0.2.7", family), "nobody");
        }
    }
}
