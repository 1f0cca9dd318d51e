//! The table of directives: letter and argument in, [`Field`] out.

use crate::compat::Compat;
use crate::field::Field;
use crate::needs::{Needs, Source};
use crate::time::{Shape, Stamp, check_strftime};

const MICRO: u64 = 1000;
const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// What is between `%` and the next text.
#[derive(Debug)]
pub(crate) struct Directive<'f> {
    /// `s`, `^FB` and so on.
    pub(crate) name: &'f str,
    /// The inside of the braces.
    pub(crate) argument: Option<&'f str>,
}

impl Directive<'_> {
    /// The field that this directive prints, or what is wrong with it.
    pub(crate) fn field(&self, compat: Compat, needs: &mut Needs) -> Result<Field, String> {
        let plack = compat == Compat::Plack;
        Ok(match self.name {
            "h" | "a" if self.argument == Some("c") => Field::Peer,
            "h" | "a" => Field::Client,
            "A" => Field::Local,
            "l" | "f" | "R" => Field::Nothing,
            "L" if self.argument == Some("c") => Field::Nothing,
            "L" => Field::RequestId,
            "u" => {
                let need = needs.add(Source::Environment, b"REMOTE_USER");
                if plack { Field::ValueIfAny(need) } else { Field::User(need) }
            }
            "t" => Field::Time(self.stamp(plack)?),
            "r" => Field::Line,
            "m" => Field::Method,
            "U" if plack => Field::PathInfo,
            "U" => Field::Path,
            "q" if plack => Field::QueryIfAny,
            "q" => Field::Query,
            "H" => Field::Protocol,
            "s" => Field::Status,
            "b" if !plack => Field::BodyOrDash,
            "b" | "B" => Field::Body,
            "I" => Field::In,
            "O" => Field::Out,
            "S" => Field::Both,
            "D" => Field::Duration(MICRO),
            "T" => Field::Duration(self.unit()?),
            "v" => Field::ServerName,
            "V" if plack => Field::Host,
            "V" => Field::HostName,
            "p" => self.port()?,
            "P" => self.process()?,
            "X" => Field::Connection,
            "k" => Field::KeepAlive,
            "^FB" => Field::FirstByte,
            "n" => self.note()?,
            "C" => {
                let need = needs.add(Source::RequestHeader, b"Cookie");
                Field::Cookie(need, self.wanted()?.as_bytes().into())
            }
            "i" | "o" | "e" | "^ti" | "^to" => self.value(plack, needs)?,
            // Of all that Apache's modules have there, mod_ssl's.
            "x" if self.argument.is_some_and(|name| name.starts_with("SSL_")) => self.value(plack, needs)?,
            name => return Err(unknown(name)),
        })
    }

    fn value(&self, plack: bool, needs: &mut Needs) -> Result<Field, String> {
        let name = self.wanted()?;
        let source = match self.name {
            "i" => Source::RequestHeader,
            "o" => Source::ResponseHeader,
            "^ti" => Source::RequestTrailer,
            "^to" => Source::ResponseTrailer,
            "x" => Source::Tls,
            _ => Source::Environment,
        };
        let need = needs.add(source, name.as_bytes());
        Ok(match source {
            _ if plack => Field::ValueIfAny(need),
            Source::ResponseHeader if name.eq_ignore_ascii_case("content-type") => Field::MediaType(need),
            _ => Field::Value(need),
        })
    }

    /// The argument of a directive that is nothing without one.
    fn wanted(&self) -> Result<&str, String> {
        let missing = || format!("%{0} needs a name, as in %{{NAME}}{0}", self.name);
        self.argument.filter(|argument| !argument.is_empty()).ok_or_else(missing)
    }

    fn stamp(&self, plack: bool) -> Result<Stamp, String> {
        let argument = self.argument.unwrap_or_default();
        let (end, argument) = match argument.split_once(':') {
            Some(("begin", rest)) => (false, rest),
            Some(("end", rest)) => (true, rest),
            _ if argument == "begin" => (false, ""),
            _ if argument == "end" => (true, ""),
            _ => (plack, argument),
        };
        Ok(Stamp::new(end, shape(argument, plack)?))
    }

    fn unit(&self) -> Result<u64, String> {
        match self.argument.unwrap_or_default().to_ascii_lowercase().as_str() {
            "" | "s" => Ok(SECOND),
            "ms" => Ok(MILLI),
            "us" => Ok(MICRO),
            other => Err(format!("%{{{other}}}T has no such unit; there are s, ms and us")),
        }
    }

    fn port(&self) -> Result<Field, String> {
        match self.argument.unwrap_or_default().to_ascii_lowercase().as_str() {
            "" | "canonical" => Ok(Field::ServerPort),
            "local" => Ok(Field::LocalPort),
            "remote" => Ok(Field::ClientPort),
            other => Err(format!("%{{{other}}}p is no port; there are canonical, local and remote")),
        }
    }

    fn process(&self) -> Result<Field, String> {
        match self.argument.unwrap_or_default().to_ascii_lowercase().as_str() {
            "" | "pid" => Ok(Field::Pid),
            "tid" => Ok(Field::Tid),
            "hextid" => Ok(Field::HexTid),
            other => Err(format!("%{{{other}}}P is none of pid, tid and hextid")),
        }
    }

    /// Apache's modules leave notes on a request; the front leaves these, and `-` stands for all others.
    fn note(&self) -> Result<Field, String> {
        Ok(match self.wanted()? {
            "queue" => Field::Queue,
            "run" => Field::Run,
            "send" => Field::Send,
            "worker" => Field::Worker,
            "generation" => Field::Generation,
            "request-id" => Field::RequestId,
            _ => Field::Nothing,
        })
    }
}

fn shape(argument: &str, plack: bool) -> Result<Shape, String> {
    Ok(match argument {
        "" => Shape::Common,
        "sec" => Shape::Count { unit: SECOND },
        "msec" => Shape::Count { unit: MILLI },
        "usec" => Shape::Count { unit: MICRO },
        "msec_frac" => Shape::Fraction { unit: MILLI, digits: 3 },
        "usec_frac" => Shape::Fraction { unit: MICRO, digits: 6 },
        format => {
            check_strftime(format.as_bytes()).map_err(|error| format!("%{{{format}}}t: {error}"))?;
            Shape::Strftime { format: format.as_bytes().into(), brackets: plack }
        }
    })
}

fn unknown(name: &str) -> String {
    format!("there is no directive %{name}; write %% for a percent sign, or one of those in docs/logging.md")
}
