//! One listener as `--listen` and `--status-listen` take it: an address, and behind commas what is said of it alone.
//!
//! `/run/app.sock,mode=0660,backlog=512,:8080` names two. `WORD=VALUE` without a slash and a colon is no address, nor is
//! `proxy-protocol`, so the text itself tells options from addresses.

use std::borrow::Cow;
use std::fmt;

use howdah_front::Address;

use super::values::{Mode, whole};

/// The option without a value.
const PROXY_PROTOCOL: &str = "proxy-protocol";

/// A listener. What it does not say is left to --socket-mode and --backlog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) address: Address,
    /// It was said to speak TLS.
    pub(crate) tls: bool,
    /// Permissions of its file.
    pub(crate) mode: Option<Mode>,
    /// Connections waiting in the kernel.
    pub(crate) backlog: Option<u16>,
    /// Connections begin with a PROXY header.
    pub(crate) proxy_protocol: bool,
}

/// All that one value of an option names.
#[derive(Debug, Clone)]
pub(crate) struct Several(pub(crate) Vec<Named>);

/// As clap wants it.
pub(super) fn several(text: &str) -> Result<Several, String> {
    let mut all: Vec<Named> = Vec::new();
    for part in text.split(',') {
        match (option(part), all.last_mut()) {
            (None, _) => {
                let (tls, part) = secured(part);
                all.push(Named { tls, ..address(&part)?.into() });
            }
            (Some((name, value)), Some(last)) => last.set(name, value)?,
            (Some(_), None) => return Err(format!("{part} belongs behind an address, as in ADDR,{part}")),
        }
    }
    Ok(Several(all))
}

/// Name and value, of what is no address.
fn option(part: &str) -> Option<(&str, &str)> {
    if part == PROXY_PROTOCOL {
        return Some((part, ""));
    }
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
    let is_word = |name: &str| !name.is_empty() && name.bytes().all(fits);
    part.split_once('=').filter(|(name, _)| is_word(name) && !part.contains(['/', ':']))
}

impl From<Address> for Named {
    fn from(address: Address) -> Self {
        Self { address, tls: false, mode: None, backlog: None, proxy_protocol: false }
    }
}

impl Named {
    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let twice = match name {
            "mode" => self.mode.replace(value.parse()?).is_some(),
            "backlog" => self.backlog.replace(whole(1..=65535)(value)?).is_some(),
            PROXY_PROTOCOL if value.is_empty() => std::mem::replace(&mut self.proxy_protocol, true),
            _ => {
                return Err(format!(
                    "a listener has no option {name}: there are mode=MODE, backlog=N and proxy-protocol"
                ));
            }
        };
        if twice {
            return Err(format!("{name} is said twice of {}", self.address));
        }
        if self.mode.is_some() && !matches!(self.address, Address::Unix(_)) {
            return Err(format!("mode is for a Unix socket that has a file, which {} is not", self.address));
        }
        Ok(())
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.tls { "tls:" } else { "" }, self.address)?;
        self.mode.map_or(Ok(()), |mode| write!(f, ",mode={mode}"))?;
        self.backlog.map_or(Ok(()), |backlog| write!(f, ",backlog={backlog}"))?;
        if self.proxy_protocol { write!(f, ",{PROXY_PROTOCOL}") } else { Ok(()) }
    }
}

/// Whether an address is to speak TLS, and without the word for that: our own, Starman's and hypnotoad's.
fn secured(text: &str) -> (bool, Cow<'_, str>) {
    let own = text.strip_prefix("tls:").or_else(|| text.strip_suffix(":ssl"));
    if let Some(rest) = own {
        return (true, rest.into());
    }
    let Some(rest) = text.strip_prefix("https://") else { return (false, text.into()) };
    let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let has_port = place.parse::<Address>().is_ok_and(|address| !matches!(address, Address::Unix(_)));
    (true, if has_port { place.into() } else { format!("{place}:443").into() })
}

/// The front's notation, and a word for those who come with hypnotoad's or nginx's.
fn address(text: &str) -> Result<Address, String> {
    if ["tls", "ssl"].iter().any(|word| text.eq_ignore_ascii_case(word)) {
        return Err(format!("'{text}' is no address: a listener that speaks TLS is written as tls:ADDR"));
    }
    if let Some((scheme, rest)) = text.split_once("://").filter(|(scheme, _)| *scheme != "unix") {
        return Err(format!("a listener has no {scheme}://, write {}", without_scheme(scheme, rest)));
    }
    text.parse().map_err(|error: howdah_front::AddressError| error.to_string())
}

/// What the URL of a listener means in our notation.
fn without_scheme(scheme: &str, rest: &str) -> String {
    let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if scheme.ends_with("+unix") {
        return format!("unix:{}", place.replace("%2F", "/").replace("%2f", "/"));
    }
    match place.parse::<Address>() {
        Ok(Address::Any(port)) => format!(":{port}"),
        Ok(_) => place.to_owned(),
        Err(_) if format!("{place}:80").parse::<Address>().is_ok() => format!("{place}:80"),
        Err(_) => "HOST:PORT, :PORT or a path".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_stand_behind_the_listener_that_they_are_for() {
        for (text, shown) in [
            (":80", ":80"),
            (":80,[::1]:81", ":80 [::1]:81"),
            ("/run/a,mode=660", "/run/a,mode=0660"),
            ("unix:/run/a,mode=0660,backlog=512,:80", "/run/a,mode=0660,backlog=512 :80"),
            (":80,backlog=1,/run/a,mode=0", ":80,backlog=1 /run/a,mode=0000"),
            ("unix:@a,backlog=65535", "unix:@a,backlog=65535"),
            (
                ":80,proxy-protocol,/run/a,mode=660,proxy-protocol",
                ":80,proxy-protocol /run/a,mode=0660,proxy-protocol",
            ),
            ("./proxy-protocol", "./proxy-protocol"),
            // Addresses, whatever they look like.
            ("./mode=660", "./mode=660"),
            ("unix:mode=660", "mode=660"),
            ("/run/a,/mode=660", "/run/a /mode=660"),
        ] {
            let named = several(text).unwrap().0;
            assert_eq!(named.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "), shown, "{text}");
        }
    }

    #[test]
    fn options_that_make_no_sense_are_refused_with_the_way_out() {
        for (text, part) in [
            ("mode=660", "belongs behind an address"),
            ("mode=660,/run/a", "ADDR,mode=660"),
            ("/run/a,mode=rw", "octal"),
            ("/run/a,mode=", "octal"),
            ("/run/a,backlog=0", "from 1 to 65535"),
            ("/run/a,backlog=70000", "from 1 to 65535"),
            ("/run/a,mode=660,mode=600", "mode is said twice of /run/a"),
            ("/run/a,owner=www", "no option owner: there are mode=MODE, backlog=N and proxy-protocol"),
            (":80,proxy-protocol=on", "there are mode=MODE"),
            (":80,proxy-protocol,proxy-protocol", "proxy-protocol is said twice of :80"),
            ("proxy-protocol", "belongs behind an address"),
            (":80,mode=660", "which :80 is not"),
            ("unix:@a,mode=660", "which unix:@a is not"),
            ("/run/a,,:80", "cannot listen on ''"),
            (":443,ssl", "written as tls:ADDR"),
            (":443,TLS", "written as tls:ADDR"),
        ] {
            let error = several(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
