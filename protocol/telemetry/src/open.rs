//! A call that ends with its process.

use crate::exporter;
use crate::place::Place;
use crate::span::Span;
use opentelemetry::Value;
use opentelemetry::trace::SpanKind;
use std::borrow::Cow;
use std::time::{Instant, SystemTime};

/// A span that ends when it is dropped. Without a receiver, it only passes the caller's `traceparent` on.
#[derive(Debug)]
pub struct OpenSpan {
    inherited: Option<String>,
    open: Option<Box<Open>>,
}

#[derive(Debug)]
struct Open {
    place: Place,
    name: Cow<'static, str>,
    kind: SpanKind,
    started_at: SystemTime,
    started: Instant,
    attributes: Vec<(&'static str, Value)>,
    failure: Option<(String, String)>,
}

impl OpenSpan {
    /// Begins a span below a W3C `traceparent`, or a new trace.
    pub fn begin(name: impl Into<Cow<'static, str>>, kind: SpanKind, traceparent: Option<&str>) -> Self {
        let open = exporter::is_on().then(|| Open::new(Place::below(traceparent), name.into(), kind));
        Self { inherited: traceparent.map(str::to_owned), open }
    }

    /// Begins a span below this one.
    #[must_use]
    pub fn child(&self, name: impl Into<Cow<'static, str>>, kind: SpanKind) -> Self {
        let open = self.open.as_ref().map(|open| Open::new(open.place.child(), name.into(), kind));
        Self { inherited: self.inherited.clone(), open }
    }

    /// Returns the W3C `traceparent` that continues the trace below this span.
    pub fn traceparent(&self) -> Option<String> {
        match &self.open {
            Some(open) => Some(open.place.traceparent()),
            None => self.inherited.clone(),
        }
    }

    /// Adds an attribute.
    pub fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        if let Some(open) = &mut self.open {
            open.attributes.push((key, value.into()));
        }
    }

    /// Marks the span as failed. `kind` is one of few words, and `text` is for a person.
    pub fn fail(&mut self, kind: &str, text: &str) {
        if let Some(open) = &mut self.open {
            open.failure = Some((kind.to_owned(), text.to_owned()));
        }
    }
}

impl Open {
    fn new(place: Place, name: Cow<'static, str>, kind: SpanKind) -> Box<Self> {
        Box::new(Self {
            place,
            name,
            kind,
            started_at: SystemTime::now(),
            started: Instant::now(),
            attributes: Vec::new(),
            failure: None,
        })
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        let Some(open) = self.open.take() else { return };
        let ended_at = open.started_at + open.started.elapsed();
        let mut span = Span::between(&open.place, open.name, open.started_at, ended_at).kind(open.kind);
        for (key, value) in open.attributes {
            span = span.with(key, value);
        }
        if let Some((kind, text)) = open.failure {
            span = span.failed(kind, text);
        }
        span.record();
    }
}
