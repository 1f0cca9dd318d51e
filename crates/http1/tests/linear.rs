//! A head or body that comes byte by byte costs linear time (RFC 9112 has no say; slow clients do).

use std::time::{Duration, Instant};

use howdah_http1::{FieldStore, Limits, RequestDecoder};

#[test]
fn a_drip_fed_head_of_64_kib_is_cheap() {
    let mut head = b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec();
    for _ in 0..100 {
        head.extend_from_slice(format!("A: {}\r\n", "x".repeat(600)).as_bytes());
    }
    head.extend_from_slice(b"\r\n");
    let (mut decoder, mut store) = (RequestDecoder::new(&Limits::default()), FieldStore::new());
    let start = Instant::now();
    for len in 0..head.len() {
        assert!(decoder.decode(&head[..len], &mut store).unwrap().is_none());
    }
    assert!(decoder.decode(&head, &mut store).unwrap().is_some());
    // Quadratic would be 2 GB of scanning; this takes some milliseconds even in a debug build.
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}
