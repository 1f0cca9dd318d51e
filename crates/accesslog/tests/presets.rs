//! The presets that are not Apache's: LTSV and JSON, and the slow-request format.

mod common;

use std::collections::BTreeMap;

use common::show;
use howdah_accesslog::{Compat, PRESETS, Record, SLOW, compile};
use serde_json::{Value, json};

#[test]
fn ltsv_has_the_labels_that_ltsv_org_recommends() {
    let line = show("ltsv", Compat::Apache, |_| {});
    let fields: BTreeMap<_, _> = line.split('\t').filter_map(|field| field.split_once(':')).collect();
    let expected = [
        ("host", "192.0.2.7"),
        ("ident", "-"),
        ("user", "ann"),
        ("req", r#"GET /app/caf%C3%A9?q=1%20" HTTP/1.1"#),
        ("status", "200"),
        ("size", "1000"),
        ("referer", r#"http://x/"q""#),
        ("ua", r"curl/8\\1"),
        ("vhost", "app.example"),
        ("reqtime", "2.345678"),
        ("method", "GET"),
        ("uri", r#"/app/caf\xc3\xa9?q=1%20""#),
        ("protocol", "HTTP/1.1"),
    ];
    for (label, value) in expected {
        assert_eq!(fields.get(label), Some(&value), "{label} of {line}");
    }
    assert!(fields["time"].contains("/Oct/2026:"), "{line}");
    assert_eq!(fields.len(), expected.len() + 1);
}

#[test]
fn json_is_typed() {
    let line = show("json", Compat::Apache, |_| {});
    let mut value: Value = serde_json::from_str(&line).unwrap();
    let time = value["time"].take();
    assert!(time.as_str().unwrap().starts_with("2026-10-2"), "{time}");
    assert!(time.as_str().unwrap().contains(":05.012345"), "{time}");
    let expected = json!({
        "time": null, "client": "192.0.2.7", "user": "ann", "host": "WWW.Example.org:8443", "method": "GET",
        "target": "/app/caf%C3%A9?q=1%20\"", "protocol": "HTTP/1.1", "status": 200, "size": 1000,
        "bytes_in": 300, "bytes_out": 1200, "duration_us": 2_345_678, "first_byte_us": 1500,
        "queue_us": 250, "run_us": 1100, "send_us": 900, "referer": "http://x/\"q\"", "user_agent": "curl/8\\1",
        "request_id": "req-1", "connection": "+", "keepalive": 3, "pid": 4321, "unparsed": null,
    });
    assert_eq!(value, expected);
}

#[test]
fn json_says_null_for_what_is_not_there() {
    let line =
        show("json", Compat::Apache, |record| *record = Record { line: b"\x16\xff", ..Record::default() });
    let value: Value = serde_json::from_str(&line).unwrap();
    for member in ["client", "user", "method", "status", "first_byte_us", "referer", "pid"] {
        assert_eq!(value[member], Value::Null, "{member}");
    }
    assert_eq!(value["unparsed"], "\u{16}\u{fffd}");
}

#[test]
fn every_preset_and_the_slow_format_compile() {
    for name in PRESETS.into_iter().chain([SLOW]) {
        for compat in [Compat::Apache, Compat::Plack] {
            assert!(compile(name, compat).is_ok(), "{name}");
        }
    }
    let slow = show(SLOW, Compat::Apache, |_| {});
    assert!(
        slow.ends_with("200 total=2345678 queue=250 run=1100 send=900 worker=4321 request=req-1"),
        "{slow}"
    );
}
