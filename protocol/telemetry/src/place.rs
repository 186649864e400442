//! The place of a span in its trace: ids, and whether the trace is recorded.

use crate::exporter;
use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator};

/// Separates the ids that this crate derives from other uses of the same hash.
const DERIVED: &str = "buildpool span id v1";

/// The ids of a span and of its parent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    pub(crate) context: SpanContext,
    pub(crate) parent: SpanId,
    pub(crate) is_parent_remote: bool,
}

impl Place {
    /// Returns a new place below a W3C `traceparent`. Without a valid one, the place begins a new trace.
    pub fn below(traceparent: Option<&str>) -> Self {
        let ids = RandomIdGenerator::default();
        Self::remote(traceparent, ids.new_trace_id(), ids.new_span_id())
    }

    /// Returns the place of a part of a job below a W3C `traceparent`. `job` is the id of the job. All programs, and each
    /// restart, get the same place. Without a valid `traceparent`, the id of the job is the id of the trace.
    pub fn of_job(traceparent: Option<&str>, job: [u8; 16], part: &str) -> Self {
        Self::remote(traceparent, TraceId::from_bytes(job), derived(job, part))
    }

    fn remote(traceparent: Option<&str>, trace: TraceId, span: SpanId) -> Self {
        let parent = traceparent.and_then(parse);
        let trace = parent.as_ref().map_or(trace, SpanContext::trace_id);
        let sampled = exporter::samples(parent.as_ref(), trace);
        let flags = if sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
        Self {
            context: SpanContext::new(trace, span, flags, false, TraceState::default()),
            parent: parent.as_ref().map_or(SpanId::INVALID, SpanContext::span_id),
            is_parent_remote: parent.is_some(),
        }
    }

    /// Returns a new place below this one.
    #[must_use]
    pub fn child(&self) -> Self {
        self.with_child(RandomIdGenerator::default().new_span_id())
    }

    /// Returns the place of a part of a job below this one, as [`Place::of_job`].
    #[must_use]
    pub fn part(&self, job: [u8; 16], part: &str) -> Self {
        self.with_child(derived(job, part))
    }

    fn with_child(&self, span: SpanId) -> Self {
        let (trace, flags) = (self.context.trace_id(), self.context.trace_flags());
        Self {
            context: SpanContext::new(trace, span, flags, false, TraceState::default()),
            parent: self.context.span_id(),
            is_parent_remote: false,
        }
    }

    /// Returns the W3C `traceparent` that continues the trace below this place.
    pub fn traceparent(&self) -> String {
        let context = &self.context;
        format!("00-{}-{}-{:02x}", context.trace_id(), context.span_id(), context.trace_flags().to_u8())
    }
}

fn derived(job: [u8; 16], part: &str) -> SpanId {
    let hash = blake3::Hasher::new_derive_key(DERIVED).update(&job).update(part.as_bytes()).finalize();
    let mut id = [0; 8];
    id.copy_from_slice(&hash.as_bytes()[..8]);
    SpanId::from_bytes(id)
}

/// Parses a `traceparent` (<https://www.w3.org/TR/trace-context/>). A later version may have more fields.
fn parse(text: &str) -> Option<SpanContext> {
    let mut fields = text.split('-');
    let mut field = |length: usize| {
        let is_hex = |field: &&str| field.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        fields.next().filter(|field| field.len() == length).filter(is_hex)
    };
    let version = field(2).filter(|version| *version != "ff")?;
    let trace = TraceId::from_hex(field(32)?).ok()?;
    let span = SpanId::from_hex(field(16)?).ok()?;
    let flags = u8::from_str_radix(field(2)?, 16).ok()?;
    if version == "00" && fields.next().is_some() {
        return None;
    }
    let flags = TraceFlags::new(flags) & TraceFlags::SAMPLED;
    let context = SpanContext::new(trace, span, flags, true, TraceState::default());
    context.is_valid().then_some(context)
}

#[cfg(test)]
mod tests {
    use super::{Place, parse};

    const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_job_has_the_same_place_after_each_restart() {
        let place = Place::of_job(Some(CALLER), [7; 16], "queue 1");
        assert_eq!(place, Place::of_job(Some(CALLER), [7; 16], "queue 1"));
        assert_ne!(
            place.context.span_id(),
            Place::of_job(Some(CALLER), [7; 16], "queue 2").context.span_id()
        );
        assert_ne!(
            place.context.span_id(),
            Place::of_job(Some(CALLER), [8; 16], "queue 1").context.span_id()
        );
        assert_eq!(place.parent.to_string(), "b7ad6b7169203331");
        assert!(place.traceparent().starts_with("00-0af7651916cd43dd8448eb211c80319c-"));
        let own = Place::of_job(None, [7; 16], "job");
        assert!(own.traceparent().starts_with(&format!("00-{}-", "07".repeat(16))));
        assert_eq!(own.part([7; 16], "queue 1").context.span_id(), place.context.span_id());
    }

    #[test]
    fn only_a_valid_traceparent_continues_a_trace() {
        assert!(parse(CALLER).is_some());
        assert!(parse(&CALLER.replacen("00", "cc", 1).replace("-01", "-01-more")).is_some());
        for wrong in [
            "",
            "00",
            &CALLER.replacen("00", "ff", 1),
            &format!("{CALLER}-more"),
            &CALLER.to_uppercase(),
            &format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)),
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        ] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}
