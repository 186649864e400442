//! The queue of spans, and the thread that sends them.
//!
//! The thread has a runtime of its own. So a receiver that is slow or away delays neither a job nor a connection.

use crate::http::Client;
use crate::settings::{self, Queue};
use opentelemetry::trace::{SpanContext, SpanKind, TraceContextExt, TraceId};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{ExporterBuildError, Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::{Config, SamplingDecision, ShouldSample, SpanData, SpanExporter as _};
use std::env;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, mpsc as std_mpsc};
use std::thread;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

/// Limit on the time to send the rest at the end of the process.
const LAST_BATCHES_WITHIN: Duration = Duration::from_secs(2);

/// Namespace of the service names of all programs.
const NAMESPACE: &str = "buildpool";

static TRACER: RwLock<Option<Tracer>> = RwLock::new(None);
static IS_ON: AtomicBool = AtomicBool::new(false);
static SENT: AtomicU64 = AtomicU64::new(0);
static DROPPED: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
struct Tracer {
    queue: mpsc::Sender<SpanData>,
    sampler: Box<dyn ShouldSample>,
}

/// Spans of this process since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Spans that the receiver accepted.
    pub sent: u64,
    /// Spans that are lost: the queue was full, or the receiver did not accept them.
    pub dropped: u64,
}

/// Returns the number of spans that were sent and dropped.
pub fn counts() -> Counts {
    Counts { sent: SENT.load(Ordering::Relaxed), dropped: DROPPED.load(Ordering::Relaxed) }
}

/// Returns true if spans are sent to a receiver.
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// Error of [`start`].
#[derive(thiserror::Error, Debug)]
pub enum StartError {
    /// A variable has an invalid value.
    #[error("{variable}: no traces can be sent: {source}")]
    Settings {
        /// The variable that turned traces on.
        variable: &'static str,
        /// The reason.
        source: ExporterBuildError,
    },
    /// The system refused a thread.
    #[error("no thread to send traces can be started: {0}")]
    Thread(#[from] io::Error),
}

/// Sends the remaining spans when it is dropped, for at most two seconds.
#[must_use = "spans are sent until this value is dropped"]
#[derive(Debug)]
pub struct Telemetry {
    ended: Option<std_mpsc::Receiver<()>>,
}

/// Starts to send spans if the environment names an endpoint. `service` is the default of `OTEL_SERVICE_NAME`.
///
/// # Errors
/// [`StartError`]. The process can go on without traces.
pub fn start(service: &'static str) -> Result<Telemetry, StartError> {
    let read = |name: &str| env::var(name).ok();
    let Some(variable) = settings::endpoint(read) else { return Ok(Telemetry { ended: None }) };
    let queue = settings::queue(read);
    let (sender, receiver) = mpsc::channel(queue.spans_max);
    let (started, outcome) = std_mpsc::sync_channel(1);
    let (finished, ended) = std_mpsc::sync_channel(1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let resource = resource(service);
    thread::Builder::new().name("telemetry".into()).spawn(move || {
        runtime.block_on(async {
            // A gRPC channel belongs to the runtime in which it is made.
            match exporter(&resource) {
                Ok(exporter) => {
                    let _ = started.send(Ok(()));
                    export(&exporter, receiver, queue).await;
                }
                Err(error) => drop(started.send(Err(error))),
            }
        });
        let _ = finished.send(());
    })?;
    match outcome.recv() {
        Ok(Ok(())) => {}
        Ok(Err(source)) => return Err(StartError::Settings { variable, source }),
        Err(error) => return Err(StartError::Thread(io::Error::other(error))),
    }
    let tracer = Tracer { queue: sender, sampler: Config::default().sampler };
    *TRACER.write().unwrap_or_else(PoisonError::into_inner) = Some(tracer);
    IS_ON.store(true, Ordering::Relaxed);
    Ok(Telemetry { ended: Some(ended) })
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        let Some(ended) = self.ended.take() else { return };
        IS_ON.store(false, Ordering::Relaxed);
        // The thread ends after it has emptied a queue without a sender.
        drop(TRACER.write().unwrap_or_else(PoisonError::into_inner).take());
        // A receiver that takes longer loses the rest: a command must not wait for it.
        let _ = ended.recv_timeout(LAST_BATCHES_WITHIN);
    }
}

fn exporter(resource: &Resource) -> Result<SpanExporter, ExporterBuildError> {
    let read = |name: &str| env::var(name).ok();
    let mut exporter = match settings::is_grpc(read) {
        true => SpanExporter::builder().with_tonic().build()?,
        false => SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_http_client(Client { timeout: settings::timeout(read) })
            .build()?,
    };
    exporter.set_resource(resource);
    Ok(exporter)
}

/// Returns the attributes of this process. The user's variables come before the defaults.
fn resource(service: &'static str) -> Resource {
    let defaults = [
        KeyValue::new("service.name", service),
        KeyValue::new("service.namespace", NAMESPACE),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("process.pid", i64::from(std::process::id())),
    ];
    let resource = Resource::builder_empty()
        .with_attributes(defaults)
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_detector(Box::new(EnvResourceDetector::new()));
    match env::var("OTEL_SERVICE_NAME") {
        Ok(name) if !name.is_empty() => resource.with_service_name(name).build(),
        _ => resource.build(),
    }
}

async fn export(exporter: &SpanExporter, mut queue: mpsc::Receiver<SpanData>, limits: Queue) {
    while let Some(first) = queue.recv().await {
        let until = Instant::now() + limits.delay;
        let mut batch = vec![first];
        while batch.len() < limits.batch_max
            && let Ok(Some(span)) = timeout_at(until, queue.recv()).await
        {
            batch.push(span);
        }
        let spans = batch.len() as u64;
        match exporter.export(batch).await {
            Ok(()) => drop(SENT.fetch_add(spans, Ordering::Relaxed)),
            Err(error) => {
                DROPPED.fetch_add(spans, Ordering::Relaxed);
                tracing::warn!(spans, %error, "the OpenTelemetry receiver did not accept spans; they are dropped");
            }
        }
    }
}

/// Puts a span into the queue.
pub(crate) fn send(span: SpanData) {
    let tracer = TRACER.read().unwrap_or_else(PoisonError::into_inner);
    let is_queued = tracer.as_ref().is_some_and(|tracer| tracer.queue.try_send(span).is_ok());
    if !is_queued {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns true if the spans of a trace are sent. The decision depends only on the parent and on the trace.
pub(crate) fn samples(parent: Option<&SpanContext>, trace: TraceId) -> bool {
    let tracer = TRACER.read().unwrap_or_else(PoisonError::into_inner);
    let Some(tracer) = tracer.as_ref() else { return parent.is_some_and(SpanContext::is_sampled) };
    let context = parent.map(|parent| Context::new().with_remote_span_context(parent.clone()));
    let result = tracer.sampler.should_sample(context.as_ref(), trace, "", &SpanKind::Internal, &[], &[]);
    result.decision == SamplingDecision::RecordAndSample
}
