//! Formats with a name.

use crate::compat::Compat;
use crate::field::Field;
use crate::format::Op;
use crate::needs::{Needs, Source};
use crate::parse::parse;
use crate::style::Style;
use crate::time::{Shape, Stamp};

/// Names that [`crate::compile`] takes instead of a format string.
pub const PRESETS: [&str; 4] = ["combined", "common", "ltsv", "json"];

/// A format for requests that took too long: where the time went, in microseconds.
pub const SLOW: &str =
    "%t \"%r\" %>s bytes=%O total=%D queue=%{queue}n run=%{run}n send=%{send}n worker=%P request=%L";

const COMMON: &str = r#"%h %l %u %t "%r" %>s %b"#;
const COMBINED: &str = r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-agent}i""#;

/// The labels that ltsv.org recommends; reqtime is in seconds.
const LTSV: &str = "host:%h\tident:%l\tuser:%u\ttime:%t\treq:%r\tstatus:%>s\tsize:%b\treferer:%{Referer}i\t\
                    ua:%{User-Agent}i\tvhost:%v\treqtime:";
const LTSV_REST: &str = "\tmethod:%m\turi:%U%q\tprotocol:%H";

/// The steps of a preset; none for a name that is none.
pub(crate) fn ops(name: &str, compat: Compat, needs: &mut Needs) -> Option<(Vec<Op>, Style)> {
    // The texts above are correct, which the tests show.
    let mut parsed = |format| parse(format, compat, needs).ok();
    match name {
        "common" => Some((parsed(COMMON)?, Style::Apache)),
        "combined" => Some((parsed(COMBINED)?, Style::Apache)),
        "ltsv" => {
            let mut ops = parsed(LTSV)?;
            ops.push(Op::Field(Field::Seconds, None));
            ops.extend(parsed(LTSV_REST)?);
            Some((ops, Style::Ltsv))
        }
        "json" => Some((json(needs), Style::Json)),
        _ => None,
    }
}

/// One object a line; members that have no value are null.
fn json(needs: &mut Needs) -> Vec<Op> {
    let mut ops = Vec::new();
    for (name, field) in json_members(needs) {
        let open = if ops.is_empty() { "{" } else { "," };
        ops.push(Op::Text(format!("{open}\"{name}\":").into_bytes().into()));
        ops.push(Op::Field(field, None));
    }
    ops.push(Op::Text((*b"}").into()));
    ops
}

fn json_members(needs: &mut Needs) -> [(&'static str, Field); 23] {
    [
        ("time", Field::Time(Stamp::new(false, Shape::Rfc3339))),
        ("client", Field::Client),
        ("user", Field::User(needs.add(Source::Environment, b"REMOTE_USER"))),
        ("host", Field::Host),
        ("method", Field::Method),
        ("target", Field::Target),
        ("protocol", Field::Protocol),
        ("status", Field::Status),
        ("size", Field::Body),
        ("bytes_in", Field::In),
        ("bytes_out", Field::Out),
        ("duration_us", Field::Duration(1000)),
        ("first_byte_us", Field::FirstByte),
        ("queue_us", Field::Queue),
        ("run_us", Field::Run),
        ("send_us", Field::Send),
        ("referer", Field::Value(needs.add(Source::RequestHeader, b"Referer"))),
        ("user_agent", Field::Value(needs.add(Source::RequestHeader, b"User-Agent"))),
        ("request_id", Field::RequestId),
        ("connection", Field::Connection),
        ("keepalive", Field::KeepAlive),
        ("pid", Field::Pid),
        ("unparsed", Field::Unparsed),
    ]
}
