//! For tests: what is said to the log.

use std::fmt::{Debug, Write};
use std::sync::{Arc, LazyLock, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Metadata, Subscriber};

/// As long as there is one subscriber, tracing asks the thread that comes to a line first whether anybody hears it, and lets that count
/// for all: a test would miss what another one has said before. So there are always two.
static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Heard(Arc::default())));

/// What `act` says to the log: of each line its level, its words, and its fields.
pub(crate) fn heard(act: impl FnOnce()) -> Vec<String> {
    LazyLock::force(&ANOTHER);
    let lines = Arc::new(Mutex::new(Vec::new()));
    tracing::subscriber::with_default(Heard(Arc::clone(&lines)), act);
    let lines = lines.lock().expect("nobody has panicked");
    lines.clone()
}

struct Heard(Arc<Mutex<Vec<String>>>);

impl Subscriber for Heard {
    fn enabled(&self, about: &Metadata<'_>) -> bool {
        about.target().starts_with("howdah_front")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line { words: event.metadata().level().to_string(), fields: String::new() };
        event.record(&mut line);
        self.0.lock().expect("nobody has panicked").push(line.words + &line.fields);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Line {
    words: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = match field.name() {
            "message" => write!(self.words, " {value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_a_deaf_thread_has_said_first_is_heard() {
        let say = || tracing::warn!("here");
        let lines = heard(|| {
            std::thread::spawn(say).join().expect("it says so");
            say();
        });
        assert_eq!(lines, ["WARN here"]);
    }
}
