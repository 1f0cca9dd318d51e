//! What is fuzzed: each function takes any bytes and panics when a promise is broken.
//!
//! `fuzz_targets/` holds one binary per function, for libFuzzer; the comparison itself is the one
//! that the property tests of the codec use.

pub mod accesslog;
pub mod answer;
pub mod cgi;
pub mod http2;
pub mod tls;
pub mod words;

#[path = "../../crates/http1/tests/common/transcript.rs"]
#[allow(dead_code, unreachable_pub)]
mod transcript;
mod grammar;
pub mod proxied;

use howdah_http1::{Framing, Limits};
use transcript::{Event, Request, transcript};

/// Tight enough that short inputs reach every bound.
const TIGHT: Limits = Limits { request_line: 64, head: 200, fields: 4, body: 64 };

/// A stream of requests, after two bytes that choose limits and splits.
///
/// # Panics
/// When a split changes the events, or when a head that was passed breaks the grammar, or a rule whose check can be
/// written in one line, or when what it says is said otherwise by the head that is made of it.
pub fn http1(data: &[u8]) {
    let [options, seed, stream @ ..] = data else { return };
    let limits = if options & 1 == 0 { Limits::default() } else { TIGHT };
    let whole = transcript(stream, &limits, []);
    assert_eq!(whole, transcript(stream, &limits, cuts(stream.len(), *seed)), "a split changes the events");
    assert_eq!(
        whole,
        transcript(stream, &limits, 0..stream.len().min(600)),
        "single bytes change the events"
    );
    if let Some(Event::Head(request)) = whole.first() {
        grammar::check(stream, request);
    }
    for event in &whole {
        match event {
            Event::Head(request) => {
                check_head(request, &limits);
                grammar::check_anew(request, &limits);
            }
            Event::Body(content) => assert!(content.len() as u64 <= limits.body),
            Event::Reject(reject) => {
                assert!(matches!(reject.status, 400 | 413 | 414 | 417 | 431 | 501 | 505))
            }
            Event::NeedMore => {}
        }
    }
}

/// Ascending positions from a small linear congruential generator.
fn cuts(len: usize, seed: u8) -> Vec<usize> {
    let mut state = u32::from(seed);
    let steps = std::iter::from_fn(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some((state >> 24) as usize % 37)
    });
    let sums = steps.scan(0, |sum, step| {
        *sum += step;
        Some(*sum)
    });
    sums.take_while(|&cut| cut < len).take(1000).collect()
}

fn check_head(request: &Request, limits: &Limits) {
    assert!(request.len <= limits.head && request.fields.len() <= limits.fields + 1);
    assert!(request.target.len() <= limits.request_line);
    assert!(!request.target.contains(|c: char| !c.is_ascii_graphic() || c == '#'));
    assert!(request.path.is_empty() || request.path.starts_with('/'));
    assert!(request.path_and_query == "*" || request.path_and_query.starts_with(&request.path));
    for (name, value) in &request.fields {
        assert!(
            !name.is_empty()
                && !name.contains(['_', ' ', ':'])
                && !name.eq_ignore_ascii_case("transfer-encoding")
        );
        assert!(!value.contains(['\r', '\n', '\0']) && value.trim_matches([' ', '\t']) == value);
    }
    let hosts: Vec<_> = request.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("host")).collect();
    assert!(hosts.len() <= 1 && hosts.iter().all(|(_, value)| *value == request.authority));
    assert!(!matches!(request.framing, Framing::Length(length) if length > limits.body));
    assert!(!request.expect_continue || request.framing != Framing::None);
}
