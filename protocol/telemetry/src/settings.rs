//! Variables of the OpenTelemetry specification that the exporter itself does not read.

use std::time::Duration;

/// Variable in which a program inherits a W3C `traceparent`, by the OpenTelemetry specification.
pub const ENVIRONMENT_VARIABLE: &str = "TRACEPARENT";

/// Variables that turn traces on.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// Variables with the protocol.
const PROTOCOLS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
/// The default protocol.
const HTTP_PROTOBUF: &str = "http/protobuf";
/// Variables with the limit on one request, in milliseconds.
const TIMEOUTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"];

/// Limits of the queue (Batch Span Processor).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Queue {
    /// Spans in the queue. Further ones are dropped.
    pub(crate) spans_max: usize,
    /// Spans in one request.
    pub(crate) batch_max: usize,
    /// Longest time that a span waits for others.
    pub(crate) delay: Duration,
}

/// Returns the variable that turns traces on. `read` returns the value of a variable.
pub(crate) fn endpoint(read: impl Fn(&str) -> Option<String>) -> Option<&'static str> {
    let is_disabled = read("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let is_none = read("OTEL_TRACES_EXPORTER").is_some_and(|value| value.trim() == "none");
    if is_disabled || is_none {
        return None;
    }
    ENDPOINTS.into_iter().find(|name| read(name).is_some_and(|value| !value.trim().is_empty()))
}

/// Returns true for OTLP over gRPC. Another value than the valid ones selects the default of the specification.
pub(crate) fn is_grpc(read: impl Fn(&str) -> Option<String>) -> bool {
    let given =
        PROTOCOLS.into_iter().find_map(|name| Some((name, read(name).filter(|text| !text.is_empty())?)));
    match given.as_ref().map(|(name, value)| (*name, value.trim())) {
        Some((_, "grpc")) => true,
        Some((_, HTTP_PROTOBUF)) | None => false,
        Some((name, other)) => {
            tracing::warn!(
                "{name}: `{}` is not supported; valid are `grpc` and `{HTTP_PROTOBUF}`. Using `{HTTP_PROTOBUF}`",
                other.escape_debug()
            );
            false
        }
    }
}

/// Returns the limit on one request.
pub(crate) fn timeout(read: impl Fn(&str) -> Option<String>) -> Duration {
    let given = TIMEOUTS.into_iter().find_map(|name| read(name)?.trim().parse().ok());
    Duration::from_millis(given.unwrap_or(10_000))
}

/// Returns the limits of the queue. An invalid value is replaced by the default, as the specification requires.
pub(crate) fn queue(read: impl Fn(&str) -> Option<String>) -> Queue {
    let number = |name: &str, default: usize, most: usize| {
        let value = read(name).and_then(|value| value.trim().parse::<usize>().ok());
        value.filter(|value| (1..=most).contains(value)).unwrap_or(default)
    };
    let spans_max = number("OTEL_BSP_MAX_QUEUE_SIZE", 2_048, 1 << 16);
    Queue {
        spans_max,
        batch_max: number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512, 1 << 16).min(spans_max),
        delay: Duration::from_millis(number("OTEL_BSP_SCHEDULE_DELAY", 5_000, 3_600_000) as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::{endpoint, is_grpc, queue};
    use std::time::Duration;

    fn given<'a>(variables: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        move |name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn only_an_endpoint_turns_traces_on() {
        let url = "http://127.0.0.1:4318";
        assert_eq!(endpoint(given(&[])), None);
        assert_eq!(endpoint(given(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")])), None);
        let both = [("OTEL_EXPORTER_OTLP_ENDPOINT", url), ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", url)];
        assert_eq!(endpoint(given(&both)), Some("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"));
        let disabled = [("OTEL_EXPORTER_OTLP_ENDPOINT", url), ("OTEL_SDK_DISABLED", "True")];
        assert_eq!(endpoint(given(&disabled)), None);
        let none = [("OTEL_EXPORTER_OTLP_ENDPOINT", url), ("OTEL_TRACES_EXPORTER", "none")];
        assert_eq!(endpoint(given(&none)), None);
    }

    #[test]
    fn the_protocol_of_traces_comes_first_and_http_is_the_default() {
        assert!(!is_grpc(given(&[])));
        assert!(is_grpc(given(&[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")])));
        let both = [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
        ];
        assert!(!is_grpc(given(&both)));
        assert!(!is_grpc(given(&[("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")])));
    }

    #[test]
    fn a_batch_is_never_larger_than_the_queue() {
        let given = [
            ("OTEL_BSP_MAX_QUEUE_SIZE", "100"),
            ("OTEL_BSP_SCHEDULE_DELAY", "20"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "x"),
        ];
        let queue = queue(self::given(&given));
        assert_eq!((queue.spans_max, queue.batch_max, queue.delay), (100, 100, Duration::from_millis(20)));
    }
}
