//! From the program's own events to lines of the log.

use std::fmt;

use jiff::Timestamp;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::line::{Message, Source};
use super::look::Look;
use super::outlet::write;
use crate::options::logs::Level;

/// Takes events and writes lines.
pub(super) struct Events {
    pub(super) look: Look,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Events {
    /// What is said within a span bears the span's fields: whose supervisor it is that speaks.
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut words = Words::default();
        attributes.record(&mut words);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(words);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut words = Words::default();
        event.record(&mut words);
        for span in context.event_scope(event).into_iter().flatten() {
            let extensions = span.extensions();
            words.fields.extend(extensions.get::<Words>().into_iter().flat_map(|span| span.fields.clone()));
        }
        let level = level(*event.metadata().level());
        let text = words.message.as_bytes();
        let mut lines = Vec::new();
        let message =
            Message { time: Timestamp::now(), level, source: &Source::Front, text, fields: &words.fields };
        self.look.render(&message, &mut lines);
        write(&lines);
    }
}

fn level(level: tracing::Level) -> Level {
    match level {
        tracing::Level::ERROR => Level::Error,
        tracing::Level::WARN => Level::Warn,
        tracing::Level::INFO => Level::Info,
        _ => Level::Debug,
    }
}

#[derive(Default)]
struct Words {
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl Words {
    fn take(&mut self, field: &Field, value: String) {
        if field.name() == "message" {
            self.message = value;
        } else {
            self.fields.push((field.name(), value));
        }
    }
}

impl Visit for Words {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.take(field, format!("{value:?}"));
    }
}
