//! Each shape of the status, field by field.

#![allow(clippy::unwrap_used, reason = "a test's panic is its report")]

mod common;

use std::collections::BTreeSet;

use howdah_metrics::{Label, Snapshot, State, WorkerState, metrics_page, status_page};
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
        ("CompiledTemplates", "200"),
        ("UpgradedConns", "5"),
        ("UpgradedConnsLimit", "11"),
        ("UpgradedConnsTotal", "808"),
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
    let ours = "Scoreboard: \nCompiledTemplates: 0\nUpgradedConns: 0\nUpgradedConnsLimit: 0\nUpgradedConnsTotal: 0\n";
    assert!(text.contains("\nReqPerSec: 0\n") && text.ends_with(ours), "{text}");
}

#[test]
fn trouble_is_told_in_words() {
    let mut snapshot = common::busy();
    snapshot.pools[0].trouble = Some("the <zygote> is dead".into());
    assert!(body("", &snapshot).contains("<span class=\"bad\">the &lt;zygote&gt; is dead</span>"));
    assert_eq!(parsed("json", &snapshot)["trouble"], json!("the <zygote> is dead"));
    snapshot.access_log.as_mut().unwrap().trouble = Some("access log |a<b: it ended".into());
    assert!(body("", &snapshot).contains("access log |a&lt;b: it ended"));
    assert_eq!(parsed("json", &snapshot)["access_log"]["trouble"], json!("access log |a<b: it ended"));
    let trouble = Some("slow-request log /full: no space".to_owned());
    snapshot.slow_log = Some(howdah_metrics::Lines { written: 7, dropped: 2, trouble });
    let page = body("", &snapshot);
    assert!(
        page.contains("slow-request log /full: no space") && page.contains("slow-request log lines dropped")
    );
    assert_eq!(parsed("json", &snapshot)["slow_log"]["dropped"], json!(2));
    snapshot.error_log.trouble = Some("error log /full: no space".to_owned());
    assert!(body("", &snapshot).contains("error log /full: no space"));
    assert_eq!(parsed("json", &snapshot)["error_log"]["trouble"], json!("error log /full: no space"));
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
        ("/templates", json!(200)),
        ("/server/listeners/1", json!("unix:/run/bookshop")),
        ("/times/loaded", json!(1_792_777_805.25)),
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
        ("/pools/0/name", json!("/")),
        ("/pools/0/application", json!("shop.psgi")),
        ("/pools/0/zygote", json!(4110)),
        ("/pools/0/reloading", json!(false)),
        ("/pools/0/state", json!("ready")),
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
fn a_single_pool_is_what_stands_above_it() {
    let value = parsed("json", &common::busy());
    let pool = &value["pools"][0];
    for name in ["state", "trouble", "generation", "templates", "queue", "upgrades", "workers", "lifecycle"] {
        assert_eq!(value[name], pool[name], "{name}");
    }
}

#[test]
fn above_several_pools_stands_what_they_are_together() {
    let value = parsed("json", &common::several());
    let queue = json!({"depth": 7, "limit": 1124, "peak": 197, "oldest_seconds": 2.5, "saturated": true,
                       "saturated_seconds": 42.0});
    for (pointer, expected) in [
        ("/state", json!("ready")),
        ("/trouble", json!("/wiki: the zygote is dead")),
        ("/generation", json!(7)),
        ("/templates", json!(203)),
        ("/queue", queue),
        ("/upgrades", json!({"open": 6, "limit": 12, "total": 812, "refused": 2})),
        ("/scoreboard", json!("W_WW_W_GWSG_............GG_.")),
        ("/workers/target", json!(14)),
        ("/workers/capacity", json!(28)),
        ("/workers/list/12/pid", json!(4200)),
        ("/lifecycle/spawns", json!(9693)),
        ("/pools/1/name", json!("/wiki")),
        ("/pools/1/state", json!("failing")),
        ("/pools/1/trouble", json!("the zygote is dead")),
        ("/pools/1/zygote", json!(null)),
        ("/pools/1/reloading", json!(true)),
        ("/pools/1/templates", json!(3)),
        ("/pools/1/queue/depth", json!(4)),
        ("/pools/1/workers/list/0/state", json!("draining")),
    ] {
        assert_eq!(value.pointer(pointer), Some(&expected), "{pointer}");
    }
    let auto = body("auto", &common::several());
    for line in [
        "ParentServerConfigGeneration: 7",
        "BusyWorkers: 5",
        "GracefulWorkers: 4",
        "IdleWorkers: 5",
        "Processes: 15",
        "Scoreboard: W_WW_W_GWSG_............GG_.",
        "CompiledTemplates: 203",
        "UpgradedConns: 6",
    ] {
        assert!(auto.lines().any(|found| found == line), "{line} is not in\n{auto}");
    }
    assert_eq!(parsed("json=lite", &common::several())["stats"].as_array().unwrap().len(), 15);
}

#[test]
fn the_document_can_be_read_back() {
    for snapshot in [common::busy(), common::several(), common::fresh(), common::hostile("<\"\u{202e}>\n")] {
        let read: Snapshot = serde_json::from_str(&body("json", &snapshot)).unwrap();
        assert!(same(&parsed("json", &read), &parsed("json", &snapshot)));
        for shape in ["auto", "json=lite", "lite"] {
            assert_eq!(body(shape, &read), body(shape, &snapshot), "{shape}");
        }
    }
}

/// But for the last digit of a fraction.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len() && one.keys().all(|key| same(&one[key], &other[key]))
        }
        (Value::Number(one), Value::Number(other)) if one.is_f64() => {
            let [one, other] = [one, other].map(|number| number.as_f64().unwrap());
            (one - other).abs() <= one.abs() * 1e-12
        }
        _ => one == other,
    }
}

#[test]
fn a_server_of_another_version_can_be_read() {
    let older = json!({"pools": [{"workers": {"list": [{"pid": 7}]}}]});
    let read: Snapshot = serde_json::from_value(older).unwrap();
    assert_eq!((read.pools[0].workers.list[0].pid, read.state()), (7, State::Starting));
    let newer =
        json!({"tides": 1, "requests": {"by_class": {"2xx": 5, "6xx": 1}}, "pools": [{"moon": "full"}]});
    let read: Snapshot = serde_json::from_value(newer).unwrap();
    assert_eq!(read.requests.by_class.sum(), 5);
}

#[test]
fn a_workers_state_has_one_name_in_every_shape() {
    let expected = [
        (WorkerState::Starting, "starting", 'S'),
        (WorkerState::Idle, "idle", '_'),
        (WorkerState::Busy, "busy", 'W'),
        (WorkerState::Draining, "draining", 'G'),
        (WorkerState::Leaving, "leaving", 'G'),
    ];
    assert_eq!(WorkerState::ALL.len(), expected.len());
    let docs = [include_str!("../../../docs/status.md"), include_str!("../../../docs/metrics.md")];
    let style = include_str!("../assets/status.css");
    for (state, name, letter) in expected {
        let mut snapshot = common::busy();
        snapshot.pools[0].workers.list.truncate(1);
        snapshot.pools[0].workers.list[0].state = state;
        assert_eq!((state.name(), state.letter()), (name, letter));
        assert_eq!(parsed("json", &snapshot)["pools"][0]["workers"]["list"][0]["state"], json!(name));
        assert!(body("auto", &snapshot).contains(&format!("Scoreboard: {letter}.")), "{name}");
        assert!(body("notable", &snapshot).contains(&format!("title=\"worker 0: {name}\"")), "{name}");
        assert!(
            body("", &snapshot).contains(&format!("<span class=\"state {name}\">{name}</span>")),
            "{name}"
        );
        let metrics = metrics_page(b"", &snapshot).body;
        assert!(metrics.contains(&format!("\nhowdah_workers{{state=\"{name}\"}} 1\n")), "{name}");
        let words = |text: &'static str| text.split(|c: char| !c.is_ascii_lowercase());
        assert!(docs.map(words).into_iter().all(|mut words| words.any(|word| word == name)), "{name}");
        assert!(
            state == WorkerState::Idle || style.contains(&format!(".board .{name}")),
            "{name} has a colour"
        );
    }
}

#[test]
fn a_pool_is_named_where_there_is_another() {
    let names = |snapshot: &Snapshot| {
        let page = body("", snapshot);
        let shown = ["<th scope=\"col\">Pool</th>", "<td>/wiki</td>", "worker 0 of /: busy", ">Pools<"];
        let missing = shown.into_iter().filter(|text| !page.contains(text));
        (missing.collect::<BTreeSet<_>>().len(), page.contains("generation 7"))
    };
    assert_eq!(names(&common::busy()), (4, true), "nowhere, and its generation stands for all");
    assert_eq!(names(&common::several()), (0, false), "everywhere");
}

#[test]
fn templates_are_told_where_there_are_any() {
    let told = |snapshot: &Snapshot| {
        let page = body("", snapshot);
        (page.contains("templates compiled before the fork"), page.contains(">templates<"))
    };
    assert_eq!(told(&common::fresh()), (false, false));
    assert_eq!(told(&common::busy()), (true, false));
    assert_eq!(told(&common::several()), (true, true), "and of each pool");
}

#[test]
fn a_server_serves_as_long_as_one_of_its_pools_does() {
    use State::{Draining, Failing, Ready, Reloading, Starting};
    for (states, together) in [
        (&[][..], Starting),
        (&[Ready, Ready], Ready),
        (&[Ready, Failing], Ready),
        (&[Starting, Reloading, Ready], Reloading),
        (&[Starting, Failing], Failing),
        (&[Starting, Starting], Starting),
        (&[Draining, Draining], Draining),
    ] {
        assert_eq!(State::together(states.iter().copied()), together, "{states:?}");
    }
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
