//! A request written by `RequestWriter`, read back as a worker reads it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's panic is its report")]

use howdah_wire::request::{Full, MAX_FIELDS, RequestWriter};
use howdah_wire::{FieldRecord, RequestReader, RequestRecord, Span};

const AREA: usize = 16 * 1024;

/// An area aligned as a slot is.
#[repr(align(128))]
struct Area([u8; AREA]);

fn area() -> Box<Area> {
    Box::new(Area([0; AREA]))
}

fn text(area: &Area, span: Span) -> String {
    String::from_utf8_lossy(&area.0[span.offset as usize..(span.offset + span.length) as usize]).into_owned()
}

fn record(area: &Area) -> RequestRecord {
    // SAFETY: the area is aligned and starts with the stored record; any bytes are a valid RequestRecord.
    unsafe { area.0.as_ptr().cast::<RequestRecord>().read_unaligned() }
}

fn fields(area: &Area) -> Vec<(String, String)> {
    let record = record(area);
    let at = |index: u32| size_of::<RequestRecord>() + index as usize * size_of::<FieldRecord>();
    (0..record.fields)
        .map(|index| {
            // SAFETY: the table lies in the area; any bytes are a valid FieldRecord.
            let field = unsafe { area.0[at(index)..].as_ptr().cast::<FieldRecord>().read_unaligned() };
            (text(area, field.name), text(area, field.value))
        })
        .collect()
}

fn written(lines: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut area = area();
    let mut writer = RequestWriter::new(&mut area.0);
    for (name, value) in lines {
        writer.field(name.as_bytes(), value.as_bytes()).unwrap();
    }
    writer.finish();
    fields(&area)
}

#[test]
fn names_take_the_form_of_the_env() {
    for (name, key) in [
        ("Accept", "HTTP_ACCEPT"),
        ("x-forwarded-for", "HTTP_X_FORWARDED_FOR"),
        ("CONTENT-TYPE", "CONTENT_TYPE"),
        ("content-language", "HTTP_CONTENT_LANGUAGE"),
        ("sec-ch-ua!#$%&'*+.^`|~9", "HTTP_SEC_CH_UA!#$%&'*+.^`|~9"),
    ] {
        assert_eq!(written(&[(name, "v")]), [(key.to_owned(), "v".to_owned())]);
    }
}

/// RFC 9110 5.3: repeated lines are one list; RFC 9113 8.2.3: cookies are joined with a semicolon.
#[test]
fn repeated_fields_are_joined_in_order() {
    let joined = |lines: &[(&str, &str)]| written(lines).remove(0).1;
    assert_eq!(joined(&[("Accept", "a"), ("accept", "b"), ("ACCEPT", "c")]), "a, b, c");
    assert_eq!(joined(&[("Cookie", "a=1"), ("Cookie", "b=2")]), "a=1; b=2");
    assert_eq!(joined(&[("Accept", "a"), ("Host", "h"), ("Accept", "b"), ("Host", "i")]), "a, b");
    assert_eq!(joined(&[("Accept", ""), ("Accept", "b")]), ", b");
}

#[test]
fn joining_leaves_the_other_fields_alone() {
    let fields = written(&[("A", "1"), ("B", "2"), ("A", "3"), ("C", "4"), ("A", "5")]);
    let expected = [("HTTP_A", "1, 3, 5"), ("HTTP_B", "2"), ("HTTP_C", "4")];
    assert_eq!(fields, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

/// More names than the writer has bits to tell them apart.
#[test]
fn each_of_many_names_is_found_again_and_no_other() {
    let names: Vec<String> =
        (0..MAX_FIELDS - 1).map(|i| format!("Name-{i}")).chain(["TE".to_owned()]).collect();
    let lines = |value| names.iter().map(move |name| (name.as_str(), value));
    let fields = written(&lines("1").chain(lines("2")).collect::<Vec<_>>());
    let key = |name: &String| format!("HTTP_{}", name.to_uppercase().replace('-', "_"));
    let expected: Vec<_> = names.iter().map(|name| (key(name), "1, 2".to_owned())).collect();
    assert_eq!(fields, expected);
}

/// A worker that writes where it should not may do so while the front writes.
#[test]
fn a_table_that_is_overwritten_meanwhile_ends_no_front() {
    for (word, bytes) in (0..4).flat_map(|word| [(word, [0xff; 4]), (word, 16_000_u32.to_ne_bytes())]) {
        let mut area = area();
        let memory = area.0.as_mut_ptr();
        // SAFETY: all of the area, which is used by no other name while the writer lives.
        let mut writer = RequestWriter::new(unsafe { std::slice::from_raw_parts_mut(memory, AREA) });
        writer.field(b"Accept", b"a").unwrap();
        let place = memory.wrapping_add(size_of::<RequestRecord>() + word * 4);
        // SAFETY: a word of the table, within the area.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
        let _ = writer.field(b"Accept", b"b");
        writer.finish();
        let reader = RequestReader::new(&area.0);
        assert!(reader.variables().all(|(name, value)| name.len() < AREA && value.len() < AREA));
    }
}

#[test]
fn variables_keep_their_name() {
    let mut area = area();
    let mut writer = RequestWriter::new(&mut area.0);
    let value = writer.variable(b"CONTENT_LENGTH", b"12").unwrap();
    writer.finish();
    assert_eq!(fields(&area), [("CONTENT_LENGTH".to_owned(), "12".to_owned())]);
    assert_eq!(RequestReader::new(&area.0).text(value), b"12", "by the place that was given");
}

#[test]
fn the_record_is_stored_whole() {
    let mut area = area();
    let mut writer = RequestWriter::new(&mut area.0);
    for (put, bytes) in [(0, "GET"), (1, "/a%20b?q"), (2, "/a b"), (3, "q"), (4, "HTTP/1.1")] {
        let span = writer.put(bytes.as_bytes()).unwrap();
        let record = &mut writer.record;
        *[&mut record.method, &mut record.uri, &mut record.path, &mut record.query, &mut record.protocol]
            [put] = span;
    }
    writer.record.body_length = 5_000_000_000;
    writer.record.flags = 9;
    writer.finish();
    let record = record(&area);
    assert_eq!(text(&area, record.method), "GET");
    assert_eq!(text(&area, record.uri), "/a%20b?q");
    assert_eq!(text(&area, record.path), "/a b");
    assert_eq!(text(&area, record.query), "q");
    assert_eq!(text(&area, record.protocol), "HTTP/1.1");
    assert_eq!((record.body_length, record.flags, record.fields), (5_000_000_000, 9, 0));
}

#[test]
fn what_identifies_a_request_is_read_back() {
    let mut area = area();
    let mut writer = RequestWriter::new(&mut area.0);
    for (put, bytes) in ["GET", "/a%20b?q", "/a b", "q", "HTTP/1.1", "192.0.2.7"].into_iter().enumerate() {
        let span = writer.put(bytes.as_bytes()).unwrap();
        let RequestRecord { method, uri, path, query, protocol, remote_addr, .. } = &mut writer.record;
        *[method, uri, path, query, protocol, remote_addr][put] = span;
    }
    writer.field(b"Host", b"a").unwrap();
    writer.field(b"Accept", b"b").unwrap();
    writer.finish();
    let reader = RequestReader::new(&area.0);
    assert_eq!(
        (reader.method(), reader.uri(), reader.protocol()),
        (&b"GET"[..], &b"/a%20b?q"[..], &b"HTTP/1.1"[..])
    );
    assert_eq!(
        (reader.path(), reader.query(), reader.remote_addr()),
        (&b"/a b"[..], &b"q"[..], &b"192.0.2.7"[..])
    );
    assert_eq!(
        [&b"HTTP_HOST"[..], b"HTTP_ACCEPT", b"HTTP_X"].map(|name| reader.field(name)),
        [Some(&b"a"[..]), Some(b"b"), None]
    );
}

#[test]
fn the_part_in_use_ends_with_the_last_field_or_the_record_s_last_string() {
    for (last_field, end) in [(None, "remote port"), (Some("value"), "value")] {
        let mut area = area();
        let mut writer = RequestWriter::new(&mut area.0);
        writer.record.remote_port = writer.put(b"remote port").unwrap();
        if let Some(value) = last_field {
            writer.field(b"A", b"").unwrap();
            writer.field(b"B", value.as_bytes()).unwrap();
        }
        writer.put(b"the body").unwrap();
        writer.finish();
        assert!(RequestReader::new(&area.0).used().ends_with(end.as_bytes()), "{end}");
    }
    let nonsense = [0xff; 200];
    assert_eq!(RequestReader::new(&nonsense).used(), nonsense, "never more than there is");
}

#[test]
fn a_string_too_long_is_refused_and_nothing_is_written_behind_the_area() {
    let mut area = area();
    let mut writer = RequestWriter::new(&mut area.0);
    let room = writer.room();
    assert_eq!(writer.put(&vec![b'x'; room + 1]), Err(Full));
    assert_eq!(writer.put(&vec![b'x'; room]).unwrap().length as usize, room);
    assert_eq!(writer.field(b"A", b""), Err(Full));
}

#[test]
fn a_join_without_room_is_refused() {
    let mut area = area();
    let mut writer = RequestWriter::new(&mut area.0);
    writer.field(b"A", &vec![b'x'; 8000]).unwrap();
    writer.field(b"B", b"y").unwrap();
    assert_eq!(writer.field(b"A", b"z"), Err(Full));
}

#[test]
fn one_field_too_many_is_refused() {
    let mut area = area();
    let mut writer = RequestWriter::new(&mut area.0);
    for index in 0..MAX_FIELDS {
        writer.field(format!("x-{index}").as_bytes(), b"").unwrap();
    }
    assert_eq!(writer.field(b"one-more", b""), Err(Full));
    assert_eq!(writer.field(b"X-1", b"joined"), Ok(()));
}
