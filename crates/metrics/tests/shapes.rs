//! Each shape of the status, field by field.

#![allow(clippy::unwrap_used, reason = "a test's panic is its report")]

mod common;

use howdah_metrics::{Snapshot, State, status_page};
use serde_json::{Value, json};

fn body(query: &str, snapshot: &Snapshot) -> String {
    status_page(query.as_bytes(), snapshot).body
}

fn parsed(query: &str, snapshot: &Snapshot) -> Value {
    serde_json::from_str(&body(query, snapshot)).unwrap()
}

#[test]
fn auto_has_apaches_keys_in_apaches_order() {
    let page = status_page(b"auto", &common::busy());
    assert_eq!((page.content_type, page.refresh), ("text/plain; charset=utf-8", None));
    let mut lines = page.body.lines();
    assert_eq!(lines.next(), Some("web1.example.org"));
    let pairs: Vec<_> = lines.map(|line| line.split_once(": ").unwrap()).collect();
    let expected = [
        ("ServerVersion", "Howdah/0.1.0"),
        ("ServerMPM", "howdah"),
        ("Server Built", "2026-11-21T10:00:00"),
        ("CurrentTime", ""),
        ("RestartTime", ""),
        ("ParentServerConfigGeneration", "7"),
        ("ParentServerMPMGeneration", "6"),
        ("ServerUptimeSeconds", "273785"),
        ("ServerUptime", "3 days 4 hours 3 minutes 5 seconds"),
        ("Load1", "1.32"),
        ("Load5", "0.98"),
        ("Load15", "0.77"),
        ("Total Accesses", "96088201"),
        ("Total kBytes", "890962577"),
        ("Total Duration", ""),
        ("CPUUser", "812.4"),
        ("CPUSystem", "640.2"),
        ("CPUChildrenUser", "9100.7"),
        ("CPUChildrenSystem", "402.1"),
        ("CPULoad", "4.00146"),
        ("Uptime", "273785"),
        ("ReqPerSec", "350.962"),
        ("BytesPerSec", "3332344"),
        ("BytesPerReq", "9494.88"),
        ("DurationPerReq", ""),
        ("BusyWorkers", "5"),
        ("GracefulWorkers", "2"),
        ("IdleWorkers", "4"),
        ("Processes", "12"),
        ("Stopping", "2"),
        ("ConnsTotal", "241"),
        ("ConnsAsyncWaitIO", "4"),
        ("ConnsAsyncWriting", "12"),
        ("ConnsAsyncKeepAlive", "211"),
        ("ConnsAsyncClosing", "2"),
        ("Scoreboard", "W_WW_W_GWSG_............"),
    ];
    assert_eq!(pairs.iter().map(|pair| pair.0).collect::<Vec<_>>(), expected.map(|pair| pair.0));
    for ((name, value), (_, expected)) in
        pairs.iter().zip(expected).filter(|(_, expected)| !expected.1.is_empty())
    {
        assert_eq!(*value, expected, "{name}");
    }
}

#[test]
fn auto_of_a_fresh_server_has_numbers_everywhere() {
    let text = body("auto", &common::fresh());
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    assert!(text.contains("\nReqPerSec: 0\n") && text.ends_with("Scoreboard: \n"), "{text}");
}

#[test]
fn trouble_is_told_in_words() {
    let mut snapshot = common::busy();
    snapshot.pools[0].trouble = Some("the <zygote> is dead".into());
    assert!(body("", &snapshot).contains("<span class=\"bad\">the &lt;zygote&gt; is dead</span>"));
    assert_eq!(parsed("json", &snapshot)["trouble"], json!("the <zygote> is dead"));
}

#[test]
fn json_has_the_documented_names() {
    let value = parsed("json", &common::busy());
    let cases = [
        ("/server/version", json!("Howdah/0.1.0")),
        ("/state", json!("ready")),
        ("/ready", json!(true)),
        ("/trouble", json!(null)),
        ("/generation", json!(7)),
        ("/uptime_seconds", json!(273_785.0)),
        ("/requests/total", json!(96_088_201)),
        ("/requests/by_class/5xx", json!(28_513)),
        ("/requests/by_class_and_method/2xx/POST", json!(3_210_987)),
        ("/requests/failures/queue_full", json!(28)),
        ("/recent/requests", json!(1234.6)),
        ("/recent/queue_peak", json!(19)),
        (
            "/queue",
            json!({"depth": 3, "limit": 1024, "peak": 188, "oldest_seconds": 0.25, "saturated": false,
                   "saturated_seconds": 42.0}),
        ),
        ("/connections/open", json!(241)),
        ("/connections/limit", json!(18_876)),
        ("/connections/by_state/idle", json!(211)),
        ("/scoreboard", json!("W_WW_W_GWSG_............")),
        ("/workers/target", json!(12)),
        ("/workers/list/3/pid", json!(4129)),
        ("/workers/list/3/state", json!("busy")),
        ("/workers/list/3/request/client", json!("192.0.2.3")),
        ("/workers/list/1/request", json!(null)),
        ("/lifecycle/exits/max_requests", json!(9588)),
        ("/fronts/1/requests", json!(47_988_001)),
        ("/access_log/dropped", json!(0)),
        ("/history/queue/0", json!(2)),
    ];
    for (pointer, expected) in cases {
        if pointer.starts_with("/history") {
            assert!(value.pointer(pointer).unwrap().is_u64(), "{pointer}");
        } else {
            assert_eq!(value.pointer(pointer), Some(&expected), "{pointer}");
        }
    }
    assert_eq!(value["history"]["requests"].as_array().unwrap().len(), 300);
}

#[test]
fn lite_json_is_that_of_serverstatus_lite() {
    let value = parsed("json=lite", &common::busy());
    for (name, expected) in [
        ("Uptime", "1792509420"),
        ("TotalAccesses", "96088201"),
        ("TotalKbytes", "912345678"),
        ("BusyWorkers", "7"),
        ("IdleWorkers", "5"),
    ] {
        assert_eq!(value[name], expected, "{name}");
    }
    let stat = json!({
        "pid": 4126, "status": "A", "remote_addr": "2001:db8::7:1", "host": "shop.example.org", "method": "POST",
        "uri": "/checkout", "protocol": "HTTP/1.1", "ss": 2,
    });
    assert_eq!(value["stats"][2], stat);
    assert_eq!((&value["stats"][1]["status"], &value["stats"][1]["uri"]), (&json!("_"), &json!(null)));
}

#[test]
fn lite_text_is_that_of_serverstatus_lite() {
    let text = body("lite", &common::busy());
    let lines: Vec<_> = text.lines().collect();
    let expected = [
        "ServerUptime: 3 days, 4 hours, 3 minutes, 5 seconds",
        "Uptime: 1792509420",
        "Total Accesses: 96088201",
        "Total kBytes: 912345678",
        "BusyWorkers: 7",
        "IdleWorkers: 5",
        "--",
        "pid status remote_addr host method uri protocol ss",
    ];
    assert_eq!(lines[..8], expected);
    assert_eq!(lines[9], "4123 _");
    assert_eq!(lines[10], "4126 A 2001:db8::7:1 shop.example.org POST /checkout HTTP/1.1 2");
    assert_eq!(lines.len(), 20);
}

#[test]
fn html_says_what_a_person_looks_for() {
    let page = status_page(b"", &common::busy());
    assert_eq!(page.content_type, "text/html; charset=utf-8");
    for text in [
        "<title>bookshop – Howdah</title>",
        "data-refresh=\"2\"",
        ">ready<",
        "<td class=\"cut\">2001:db8::7:1</td>",
        "<b>POST</b> /checkout",
        "slow very",
        "prefers-color-scheme",
    ] {
        assert!(page.body.contains(text), "{text}");
    }
    assert!(!page.body.contains("http-equiv"));
    assert_eq!(page.body.matches("<svg class=\"chart\"").count(), 6);
}

#[test]
fn html_obeys_refresh_and_notable() {
    let text = body("refresh=7&notable", &common::busy());
    assert!(text.contains("data-refresh=\"7\"") && text.contains("http-equiv=\"refresh\" content=\"7\""));
    assert!(!text.contains("<section id=\"workers\"") && text.contains("<section id=\"board\""));
    assert_eq!(status_page(b"auto&refresh=7", &common::busy()).refresh, Some(7));
}

#[test]
fn html_of_a_fresh_server_has_no_nonsense() {
    let text = body("", &common::fresh());
    assert!(text.contains("There is no worker.") && text.contains(">starting<"));
    assert!(!text.contains("NaN") && !text.contains(">inf"), "{text}");
}

#[test]
fn readiness_follows_the_state() {
    let states = [State::Starting, State::Ready, State::Reloading, State::Draining, State::Failing];
    assert_eq!(states.map(State::is_ready), [false, true, true, false, false]);
}
