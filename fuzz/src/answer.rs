//! The head of a response that an application writes by itself: it means one thing, however it comes.

use howdah_http1::{Answer, fields};

/// # Panics
/// When a head is found in less than all of it, or what was found is not lines that are fields.
pub fn answer(data: &[u8]) {
    let verdict = Answer::read(data);
    let Ok(Some(answer)) = verdict else { return };
    assert!((100..1000).contains(&answer.status) && data[..answer.len].ends_with(b"\r\n\r\n"));
    assert_eq!(Answer::read(&data[..answer.len]), verdict, "what is behind it changes it");
    for cut in 0..answer.len {
        assert_eq!(Answer::read(&data[..cut]), Ok(None), "cut at {cut}");
    }
    let lines = answer.lines.split_inclusive(|&byte| byte == b'\n');
    assert_eq!(lines.clone().count(), fields(answer.lines).count(), "a line is no field, or two");
    for (line, (name, value)) in lines.zip(fields(answer.lines)) {
        assert!(line.starts_with(name) && line.ends_with(b"\r\n") && !name.is_empty());
        assert!(!value.iter().any(|byte| b"\r\n\0".contains(byte)), "a value that could be two");
    }
    let _ = answer.body_length();
}
