//! Traces of jobs for OpenTelemetry receivers.
//!
//! [`start`] reads the variables of the OpenTelemetry specification. Without an endpoint, spans cost nothing and go nowhere.
//! There are two kinds of spans:
//!
//! - [`Span`]: a phase of a job. Its times come from the stored record of the job, and its id is derived from the id of the
//!   job. So a restart of the program that sends it changes neither.
//! - [`OpenSpan`]: a call that ends with its process. It is sent when it is dropped.
//!
//! The limits of this crate: a queue of spans is bounded, and a span that finds it full is dropped and counted ([`counts`]).

mod exporter;
mod http;
mod open;
mod place;
mod settings;
mod span;

pub use exporter::{Counts, StartError, Telemetry, counts, is_on, start};
pub use open::OpenSpan;
pub use opentelemetry::trace::SpanKind;
pub use opentelemetry::{KeyValue, Value};
pub use place::Place;
pub use settings::ENVIRONMENT_VARIABLE;
pub use span::Span;
