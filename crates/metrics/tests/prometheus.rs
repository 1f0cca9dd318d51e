//! The metrics, read by a strict parser of our own, and by promtool and the Python client where they are installed.

#![allow(clippy::unwrap_used, reason = "a test's panic is its report")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Output, Stdio};

use howdah_metrics::{Durations, Snapshot, metrics_page};

const OPEN: &[u8] = b"application/openmetrics-text; version=1.0.0, text/plain;q=0.5";

fn text(accept: &[u8], snapshot: &Snapshot) -> String {
    metrics_page(accept, snapshot).body
}

/// Samples by name with labels; checks the grammar on the way.
fn parse(text: &str) -> BTreeMap<String, f64> {
    let (mut samples, mut families, mut family) = (BTreeMap::new(), BTreeSet::new(), String::new());
    for line in text.lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["#", "EOF"] => assert!(text.ends_with("\n# EOF\n")),
            ["#", "HELP", name, ..] => {
                assert!(families.insert(name.to_owned()), "{name} comes twice");
                name.clone_into(&mut family);
            }
            ["#", "TYPE" | "UNIT", name, _] => assert_eq!(name, family),
            _ => {
                let (name, value) = line.rsplit_once(' ').unwrap();
                let bare = name.split('{').next().unwrap();
                assert!(bare.starts_with(&family), "{bare} is not of {family}");
                let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
                assert!(bare.bytes().all(is_plain), "{bare}");
                let value = value.parse().unwrap();
                assert!(samples.insert(name.to_owned(), value).is_none(), "{name} comes twice");
            }
        }
    }
    samples
}

#[test]
fn the_formats_have_their_types() {
    let snapshot = common::busy();
    assert_eq!(metrics_page(b"", &snapshot).content_type, "text/plain; version=0.0.4; charset=utf-8");
    assert_eq!(
        metrics_page(OPEN, &snapshot).content_type,
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    );
    assert!(!text(b"", &snapshot).contains("# EOF") && text(OPEN, &snapshot).ends_with("# EOF\n"));
}

#[test]
fn the_values_are_those_of_the_snapshot() {
    for accept in [&b""[..], OPEN] {
        let samples = parse(&text(accept, &common::busy()));
        let cases = [
            (r#"howdah_build_info{version="Howdah/0.1.0",perl="v5.36.0",name="bookshop"}"#, 1.0),
            ("howdah_ready", 1.0),
            ("howdah_response_spool_bytes", 12_345_678.0),
            ("howdah_response_spool_limit_bytes", f64::from(1 << 30)),
            ("howdah_generation", 7.0),
            (r#"howdah_requests_total{method="GET",class="2xx"}"#, 88_123_456.0),
            (r#"howdah_requests_total{method="PUT",class="2xx"}"#, 0.0),
            (r#"howdah_request_failures_total{cause="queue_full"}"#, 28.0),
            ("howdah_sent_bytes_total", 912_345_678_901.0),
            (r#"howdah_request_duration_seconds_bucket{le="+Inf"}"#, 10_000.0),
            ("howdah_request_duration_seconds_count", 10_000.0),
            (r#"howdah_connections{state="writing"}"#, 12.0),
            ("howdah_connections_limit", 18_876.0),
            ("howdah_connections_dismissed_total", 77.0),
            ("howdah_http2_connections_total", 9.0),
            ("howdah_http2_streams_total", 99.0),
            ("howdah_queue_depth", 3.0),
            ("howdah_queue_depth_max", 188.0),
            ("howdah_queue_oldest_seconds", 0.25),
            ("howdah_saturated", 0.0),
            ("howdah_saturated_seconds_total", 42.0),
            (r#"howdah_workers{state="idle"}"#, 4.0),
            ("howdah_workers_target", 12.0),
            (r#"howdah_worker_memory_bytes{worker="0"}"#, 38_000_000.0),
            ("howdah_worker_spawns_total", 9688.0),
            (r#"howdah_worker_exits_total{cause="crash"}"#, 4.0),
            (r#"howdah_reloads_total{result="failed"}"#, 1.0),
            ("howdah_segment_replacements_total", 2.0),
            (r#"howdah_access_log_lines_total{result="written"}"#, 96_088_201.0),
        ];
        for (name, expected) in cases {
            assert_eq!(samples.get(name), Some(&expected), "{name}");
        }
        assert!(samples.len() < 250, "{} series", samples.len());
    }
}

#[test]
fn pools_have_a_label_where_there_are_several() {
    let samples = parse(&text(OPEN, &common::several()));
    for (name, expected) in [
        ("howdah_ready", 1.0),
        (r#"howdah_generation{pool="/"}"#, 7.0),
        (r#"howdah_generation{pool="/wiki"}"#, 2.0),
        (r#"howdah_queue_depth{pool="/wiki"}"#, 4.0),
        (r#"howdah_queue_depth_max{pool="/wiki"}"#, 9.0),
        ("howdah_queue_depth_recent_max", 19.0),
        (r#"howdah_queue_limit{pool="/wiki"}"#, 100.0),
        (r#"howdah_queue_oldest_seconds{pool="/wiki"}"#, 2.5),
        (r#"howdah_saturated{pool="/"}"#, 0.0),
        (r#"howdah_saturated{pool="/wiki"}"#, 1.0),
        (r#"howdah_saturated_seconds_total{pool="/wiki"}"#, 7.0),
        (r#"howdah_workers{pool="/wiki",state="draining"}"#, 1.0),
        (r#"howdah_workers_target{pool="/wiki"}"#, 2.0),
        (r#"howdah_worker_memory_bytes{pool="/",worker="0"}"#, 38_000_000.0),
        (r#"howdah_worker_spawns_total{pool="/wiki"}"#, 5.0),
        (r#"howdah_worker_exits_total{pool="/",cause="crash"}"#, 4.0),
        (r#"howdah_reloads_total{pool="/wiki",result="done"}"#, 1.0),
        (r#"howdah_reforks_total{pool="/",result="done"}"#, 3.0),
        (r#"howdah_segment_replacements_total{pool="/"}"#, 2.0),
        ("howdah_connections_limit", 18_876.0),
    ] {
        assert_eq!(samples.get(name), Some(&expected), "{name}");
    }
    assert!(!text(OPEN, &common::busy()).contains("pool="), "a single one needs none");
}

#[test]
fn buckets_grow_and_their_bounds_are_exact() {
    let mut snapshot = common::busy();
    let mut durations = common::one_slow();
    durations.record(2_500_000);
    durations.record(2_500_001);
    snapshot.requests.duration = Durations::from(&durations);
    let samples = parse(&text(b"", &snapshot));
    let bucket = |le: &str| samples[&format!("howdah_request_duration_seconds_bucket{{le=\"{le}\"}}")];
    let bounds = ["0.0001", "0.001", "0.0025", "0.005", "1.0", "50.0", "+Inf"];
    assert_eq!(bounds.map(bucket), [0.0, 0.0, 1.0, 2.0, 2.0, 2.0, 3.0]);
    assert!((samples["howdah_request_duration_seconds_sum"] - 200.005_000_001).abs() < 1e-9);
}

/// Runs a program on `input`; none when there is no such program.
fn run(program: &str, arguments: &[&str], input: &str) -> Option<Output> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().ok()?;
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    Some(child.wait_with_output().unwrap())
}

#[test]
fn promtool_has_nothing_to_say() {
    for snapshot in [common::busy(), common::several(), common::fresh(), common::hostile("\\\"\n}")] {
        let Some(output) = run("promtool", &["check", "metrics"], &text(b"", &snapshot)) else {
            eprintln!("skipped: promtool is not installed (apt-get install prometheus)");
            return;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}

/// Debian's python3 sees Debian's packages, others may not.
const PYTHON: &str = "/usr/bin/python3";
const READ: &str = "
import sys
try:
    from prometheus_client.parser import text_string_to_metric_families as classic
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
except ImportError:
    sys.exit(42)
text = sys.stdin.read()
parse = openmetrics if text.endswith('# EOF\\n') else classic
for family in parse(text):
    for sample in family.samples:
        print(family.type, family.unit, sample.name, float(sample.value))
";

#[test]
fn the_python_client_reads_both_formats() {
    for (accept, info) in [(&b""[..], "gauge  howdah_build_info 1.0"), (OPEN, "info  howdah_build_info 1.0")]
    {
        for snapshot in [common::busy(), common::hostile("\\\"\n}")] {
            let output = run(PYTHON, &["-c", READ], &text(accept, &snapshot));
            let Some(output) = output.filter(|output| output.status.code() != Some(42)) else {
                eprintln!("skipped: no prometheus_client (apt-get install python3-prometheus-client)");
                return;
            };
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(said.contains(info), "{said}");
            assert!(said.contains("howdah_request_duration_seconds_count 10000.0"), "{said}");
        }
    }
}

#[test]
fn the_dashboard_asks_for_metrics_that_there_are() {
    let dashboard = include_str!("../../../deploy/grafana-howdah.json");
    let parsed: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    assert!(parsed["panels"].as_array().unwrap().len() > 15);
    let samples = parse(&text(b"", &common::busy()));
    let there: BTreeSet<_> = samples.keys().map(|name| name.split('{').next().unwrap()).collect();
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let asked: BTreeSet<_> =
        dashboard.split(|c| !is_part(c)).filter(|word| word.starts_with("howdah_")).collect();
    assert!(asked.len() > 15, "{asked:?}");
    assert!(asked.is_subset(&there), "{:?}", asked.difference(&there));
}
