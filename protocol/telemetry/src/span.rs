//! A phase of a job that has ended.

use crate::exporter;
use crate::place::Place;
use opentelemetry::trace::{SpanKind, Status};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Name of the instrumentation scope of all spans.
const SCOPE: &str = "buildpool";
/// Maximum length of the text of an attribute, in characters. Commands can be long.
const TEXT_CHARS_MAX: usize = 1_000;

/// A span with all its times.
#[derive(Debug)]
pub struct Span(SpanData);

impl Span {
    /// Returns a span from one time to another, in milliseconds since 1970. Two clocks can differ: a span never ends before
    /// it begins.
    pub fn new(place: &Place, name: impl Into<Cow<'static, str>>, from_ms: i64, to_ms: i64) -> Self {
        Self::between(place, name, time(from_ms), time(to_ms.max(from_ms)))
    }

    pub(crate) fn between(
        place: &Place,
        name: impl Into<Cow<'static, str>>,
        start_time: SystemTime,
        end_time: SystemTime,
    ) -> Self {
        Self(SpanData {
            span_context: place.context.clone(),
            parent_span_id: place.parent,
            parent_span_is_remote: place.is_parent_remote,
            span_kind: SpanKind::Internal,
            name: name.into(),
            start_time,
            end_time,
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: InstrumentationScope::builder(SCOPE)
                .with_version(env!("CARGO_PKG_VERSION"))
                .build(),
        })
    }

    /// Sets the kind. The default is [`SpanKind::Internal`].
    #[must_use]
    pub fn kind(mut self, kind: SpanKind) -> Self {
        self.0.span_kind = kind;
        self
    }

    /// Adds an attribute. A long text is cut.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl Into<Value>) -> Self {
        self.0.attributes.push(KeyValue::new(key, cut(value.into())));
        self
    }

    /// Adds an attribute if it has a value.
    #[must_use]
    pub fn with_some(self, key: &'static str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Marks the span as failed. `kind` is one of few words, and `text` is for a person.
    #[must_use]
    pub fn failed(mut self, kind: impl Into<Value>, text: impl Into<String>) -> Self {
        self.0.status = Status::error(text.into());
        self.with("error.type", kind)
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the start and the end.
    pub fn times(&self) -> (SystemTime, SystemTime) {
        (self.0.start_time, self.0.end_time)
    }

    /// Sends the span, if its trace is sampled. Never blocks: if the queue is full, the span is dropped and counted.
    pub fn record(self) {
        if self.0.span_context.is_sampled() {
            exporter::send(self.0);
        }
    }
}

fn time(ms: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

fn cut(value: Value) -> Value {
    match &value {
        Value::String(text) => match text.as_str().char_indices().nth(TEXT_CHARS_MAX) {
            Some((end, _)) => text.as_str()[..end].to_owned().into(),
            None => value,
        },
        _ => value,
    }
}
