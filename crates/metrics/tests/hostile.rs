//! Whatever a client puts into a request, a page stays what it is.

mod common;

use howdah_metrics::{Snapshot, metrics_page, printable, status_page};
use proptest::prelude::*;

/// Tags of a page whose strings are all empty: no text may add one.
fn tags(html: &str) -> usize {
    html.matches('<').count()
}

fn page(query: &str, text: &str) -> String {
    page_of(query, &common::hostile(text))
}

fn page_of(query: &str, snapshot: &Snapshot) -> String {
    status_page(query.as_bytes(), snapshot).body
}

const ATTACKS: [&str; 7] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "'onmouseover='alert(1)",
    "</title></style></script><svg/onload=alert(1)>",
    "&lt;script&gt;&#x3c;",
    "javascript:alert(1)",
    "{{constructor}}${7*7}<!--",
];

#[test]
fn no_text_becomes_markup() {
    let harmless = page("", "x");
    for attack in ATTACKS {
        let html = page("", attack);
        assert_eq!(tags(&html), tags(&harmless), "{attack}");
        assert_eq!(html.matches("<script>").count(), 1);
        let quotes = |html: &str| html.matches('"').count();
        assert_eq!(quotes(&html), quotes(&harmless), "{attack}");
        assert_eq!(html.matches('\'').count(), harmless.matches('\'').count(), "{attack}");
    }
}

#[test]
fn no_text_forges_a_line() {
    let attack = "x\nTotal Accesses: 9\r\nBusyWorkers: 0";
    let auto = page("auto", attack);
    assert_eq!(auto.lines().count(), 41);
    assert_eq!(auto.lines().filter(|line| line.starts_with("BusyWorkers:")).count(), 1);
    let lite = page("lite", attack);
    assert_eq!(lite.lines().count(), 20);
    assert!(lite.lines().skip(8).all(|line| line.split(' ').count() == 8), "{lite}");
    let metrics = metrics_page(b"", &common::hostile(attack)).body;
    assert!(metrics.lines().all(|line| line.starts_with('#') || line.starts_with("howdah_")), "{metrics}");
}

#[test]
fn no_number_of_another_process_is_too_much() {
    let mut snapshot = common::several();
    for pool in &mut snapshot.pools {
        pool.workers.list[0].index = u32::MAX;
        (pool.workers.target, pool.workers.capacity) = (u32::MAX, u32::MAX);
        (pool.queue.depth, pool.lifecycle.spawns) = (u64::MAX, u64::MAX);
    }
    let document = page_of("json", &snapshot);
    let value: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!(value["queue"]["depth"].as_u64(), Some(u64::MAX));
    assert!(value["scoreboard"].as_str().unwrap().len() <= 2 << 16);
}

proptest! {
    // A page is long.
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_bytes_in_any_shape(bytes in proptest::collection::vec(any::<u8>(), 1..60), raw in ".{1,60}") {
        let harmless = tags(&page("", "x"));
        for text in [printable(&bytes), raw] {
            prop_assert_eq!(tags(&page("", &text)), harmless);
            for query in ["json", "json=lite"] {
                let value: serde_json::Value = serde_json::from_str(&page(query, &text)).unwrap();
                prop_assert!(value.is_object());
            }
            let auto = page("auto", &text);
            prop_assert_eq!(auto.split('\n').count(), 42);
        }
    }

    #[test]
    fn printable_text_has_no_control_characters(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(!printable(&bytes).chars().any(char::is_control));
    }
}
