//! Metrics in the OpenMetrics text format. Counters are updated by events; gauges are read on
//! request.
//!
//! No label has a value that a submitter chooses, so the number of series does not grow with use. Names of workers and
//! the labels that workers offer have a maximum number of series.

use crate::app_state::{AppState, VERSION, wall_ms};
use crate::store::{AttemptEnding, JobRecord, meter};
use buildpool_pool::WorkerView;
use buildpool_telemetry::Counts;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Media type of the response.
pub(crate) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Maximum number of workers with series of their own.
const WORKER_SERIES_MAX: usize = 1_000;
/// From 50 ms to about 7 hours: queue times and run times of jobs.
const JOB_BUCKETS: (f64, f64, u16) = (0.05, 2.5, 15);
/// From 1 ms to about 2 minutes: time to finish a digest.
const DIGEST_BUCKETS: (f64, f64, u16) = (0.001, 3.0, 11);

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ByVerdict {
    verdict: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ByState {
    state: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ByLabel {
    label: String,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ByWorker {
    worker: String,
}

/// All metrics.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    queued: Histogram,
    ran: Histogram,
    digested: Histogram,
    done: Family<ByVerdict, Counter>,
    lost_attempts: Counter,
    pub(crate) log_bytes: Counter,
    pub(crate) snapshot_bytes: Counter,
    pub(crate) artifact_bytes: Counter,
    pub(crate) worker_connections: Counter,
    pub(crate) client_connections: Counter,
    pub(crate) refused: Counter,
    pub(crate) tests_dropped: Counter,
    spans_sent: Counter,
    spans_dropped: Counter,
    jobs: Family<ByState, Gauge>,
    workers: Family<ByState, Gauge>,
    slots: Family<ByState, Gauge>,
    clients: Gauge,
    queued_jobs: Family<ByLabel, Gauge>,
    oldest_wait: Family<ByLabel, Gauge>,
    worker_up: Family<ByWorker, Gauge>,
    worker_busy: Family<ByWorker, Gauge>,
    worker_slots: Family<ByWorker, Gauge>,
    worker_disk: Family<ByWorker, Gauge>,
    started: Gauge,
    resident: Gauge,
    descriptors: Gauge,
    free_bytes: Gauge,
    ready: Gauge,
    leader: Gauge,
    leader_epoch: Gauge,
    lease_age: Gauge<f64, AtomicU64>,
}

impl Default for Metrics {
    fn default() -> Self {
        let histogram = |(start, factor, length)| Histogram::new(exponential_buckets(start, factor, length));
        let mut metrics = Self {
            registry: Registry::default(),
            queued: histogram(JOB_BUCKETS),
            ran: histogram(JOB_BUCKETS),
            digested: histogram(DIGEST_BUCKETS),
            done: Family::default(),
            lost_attempts: Counter::default(),
            log_bytes: Counter::default(),
            snapshot_bytes: Counter::default(),
            artifact_bytes: Counter::default(),
            worker_connections: Counter::default(),
            client_connections: Counter::default(),
            refused: Counter::default(),
            tests_dropped: Counter::default(),
            spans_sent: Counter::default(),
            spans_dropped: Counter::default(),
            jobs: Family::default(),
            workers: Family::default(),
            slots: Family::default(),
            clients: Gauge::default(),
            queued_jobs: Family::default(),
            oldest_wait: Family::default(),
            worker_up: Family::default(),
            worker_busy: Family::default(),
            worker_slots: Family::default(),
            worker_disk: Family::default(),
            started: Gauge::default(),
            resident: Gauge::default(),
            descriptors: Gauge::default(),
            free_bytes: Gauge::default(),
            ready: Gauge::default(),
            leader: Gauge::default(),
            leader_epoch: Gauge::default(),
            lease_age: Gauge::default(),
        };
        metrics.registry = metrics.register();
        metrics.started.set(wall_ms() / 1000);
        metrics
    }
}

impl Metrics {
    fn register(&self) -> Registry {
        let mut all = Registry::with_prefix("buildpool");
        let seconds = || Unit::Seconds;
        all.register_with_unit(
            "job_queue",
            "From submit to the grant that counted",
            seconds(),
            self.queued.clone(),
        );
        all.register_with_unit("job_run", "How long a job's process ran", seconds(), self.ran.clone());
        all.register_with_unit(
            "store_request",
            "Time of one request to a shared store",
            seconds(),
            meter::TIMES.clone(),
        );
        all.register("store_errors", "Requests to a shared store that failed", meter::ERRORS.clone());
        all.register("leader", "1 while this coordinator leads", self.leader.clone());
        all.register("leader_epoch", "Number of its leadership", self.leader_epoch.clone());
        let help = "Time since the lease was renewed";
        all.register_with_unit("lease_age", help, seconds(), self.lease_age.clone());
        all.register_with_unit(
            "digest",
            "From the end of a log to its verdict",
            seconds(),
            self.digested.clone(),
        );
        all.register("jobs_done", "Jobs that reached an end", self.done.clone());
        all.register(
            "attempts_lost",
            "Attempts that were lost with their worker",
            self.lost_attempts.clone(),
        );
        all.register_with_unit(
            "log_stored",
            "Output that came from workers",
            Unit::Bytes,
            self.log_bytes.clone(),
        );
        all.register_with_unit(
            "snapshot_received",
            "Snapshots that came from clients",
            Unit::Bytes,
            self.snapshot_bytes.clone(),
        );
        all.register_with_unit(
            "artifact_received",
            "Artifacts that came from workers",
            Unit::Bytes,
            self.artifact_bytes.clone(),
        );
        all.register(
            "worker_connections",
            "Connections of workers, the first and all later ones",
            self.worker_connections.clone(),
        );
        all.register("client_connections", "Connections of clients", self.client_connections.clone());
        all.register(
            "connections_refused",
            "Connections without a token that allows them",
            self.refused.clone(),
        );
        all.register(
            "test_runs_dropped",
            "Jobs whose test results are not in the history, because its queue was full",
            self.tests_dropped.clone(),
        );
        all.register("spans_sent", "Spans that the OpenTelemetry receiver accepted", self.spans_sent.clone());
        all.register(
            "spans_dropped",
            "Spans that are lost, because their queue was full or the receiver did not accept them",
            self.spans_dropped.clone(),
        );
        all.register("jobs", "Jobs that are not over", self.jobs.clone());
        all.register("workers", "Known workers", self.workers.clone());
        all.register("slots", "Slots of connected workers", self.slots.clone());
        all.register("clients", "Connected clients", self.clients.clone());
        all.register_with_unit(
            "disk_free",
            "Room on the disk of the data directory",
            Unit::Bytes,
            self.free_bytes.clone(),
        );
        all.register("queued_jobs", "Waiting jobs by requested label", self.queued_jobs.clone());
        all.register_with_unit(
            "queue_oldest",
            "Longest wait of a waiting job by requested label",
            seconds(),
            self.oldest_wait.clone(),
        );
        all.register("worker_up", "1 while the worker is connected", self.worker_up.clone());
        all.register("worker_busy_slots", "Slots of the worker that are in use", self.worker_busy.clone());
        all.register("worker_slots", "Slots of the worker", self.worker_slots.clone());
        all.register_with_unit(
            "worker_disk_free",
            "Free disk space that the worker reported last",
            Unit::Bytes,
            self.worker_disk.clone(),
        );
        let build: Vec<(&str, &str)> = vec![("version", VERSION)];
        all.register("build", "Version of the coordinator", Info::new(build));
        let process = all.sub_registry_with_prefix("process");
        process.register_with_unit(
            "start_time",
            "Start of the coordinator, since 1970",
            seconds(),
            self.started.clone(),
        );
        process.register_with_unit(
            "resident_memory",
            "Memory of the coordinator; 0 where the system does not have /proc",
            Unit::Bytes,
            self.resident.clone(),
        );
        process.register("open_descriptors", "Open descriptors of the coordinator", self.descriptors.clone());
        all.register("ready", "1 while new jobs are accepted", self.ready.clone());
        all
    }

    /// Counts a finished job.
    pub(crate) fn job_done(&self, record: &JobRecord) {
        let Some(done) = &record.done else { return };
        self.done.get_or_create(&ByVerdict { verdict: done.verdict.name() }).inc();
        let lost = |how: &AttemptEnding| matches!(how, AttemptEnding::Lost { .. });
        let lost =
            record.attempts.iter().filter(|attempt| attempt.ended.as_ref().is_some_and(|end| lost(&end.how)));
        self.lost_attempts.inc_by(lost.count() as u64);
        let counted = record.attempts.iter().find(|attempt| Some(attempt.number) == done.attempt);
        if let Some(attempt) = counted {
            let waited = attempt.granted_at_ms.saturating_sub(record.created_at_ms);
            self.queued.observe(Duration::from_millis(u64::try_from(waited).unwrap_or(0)).as_secs_f64());
        }
        if let Some(ms) = done.duration_ms {
            self.ran.observe(Duration::from_millis(ms).as_secs_f64());
        }
    }

    /// Records the duration of a digest.
    pub(crate) fn digested(&self, took: Duration) {
        self.digested.observe(took.as_secs_f64());
    }

    /// Returns all series with their current values.
    pub(crate) async fn text(&self, shared: &AppState) -> String {
        self.read_gauges(shared).await;
        let mut out = String::new();
        // Writing to a `String` can't fail.
        let _ = text::encode(&mut out, &self.registry);
        out
    }

    async fn read_queues(&self, shared: &AppState) {
        let (queues, now) = (shared.runtime.queues().await, wall_ms());
        // Labels without a waiting job have no series.
        self.queued_jobs.clear();
        self.oldest_wait.clear();
        for (label, queue) in queues {
            let by = ByLabel { label };
            self.queued_jobs.get_or_create(&by).set(i64::try_from(queue.jobs).unwrap_or(i64::MAX));
            self.oldest_wait.get_or_create(&by).set(now.saturating_sub(queue.since_ms).max(0) / 1000);
        }
    }

    /// Spans are counted where they are sent. A counter only grows.
    fn read_spans(&self) {
        let Counts { sent, dropped } = buildpool_telemetry::counts();
        self.spans_sent.inc_by(sent.saturating_sub(self.spans_sent.get()));
        self.spans_dropped.inc_by(dropped.saturating_sub(self.spans_dropped.get()));
    }

    fn read_workers(&self, workers: &[WorkerView]) {
        for family in [&self.worker_up, &self.worker_busy, &self.worker_slots, &self.worker_disk] {
            family.clear();
        }
        for worker in workers.iter().take(WORKER_SERIES_MAX) {
            let by = ByWorker { worker: worker.record.name.clone() };
            self.worker_up.get_or_create(&by).set(i64::from(worker.connected));
            self.worker_busy.get_or_create(&by).set(i64::from(worker.busy));
            self.worker_slots.get_or_create(&by).set(i64::from(worker.record.slots));
            if let Some(free) = worker.disk_free_bytes {
                self.worker_disk.get_or_create(&by).set(i64::try_from(free).unwrap_or(i64::MAX));
            }
        }
    }

    fn read_process(&self) {
        let resident = crate::memory::resident_bytes().and_then(|bytes| i64::try_from(bytes).ok());
        self.resident.set(resident.unwrap_or(0));
        let open = std::fs::read_dir("/dev/fd").map_or(0, Iterator::count);
        self.descriptors.set(i64::try_from(open).unwrap_or(i64::MAX));
    }

    async fn read_gauges(&self, shared: &AppState) {
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let set = |family: &Family<ByState, Gauge>, state, number: usize| {
            family.get_or_create(&ByState { state }).set(count(number));
        };
        if let Some(leadership) = &shared.leadership {
            self.leader.set(i64::from(leadership.holds()));
            self.leader_epoch.set(leadership.epoch());
            self.lease_age.set(leadership.lease_age().as_secs_f64());
        }
        let jobs = shared.runtime.load().await;
        set(&self.jobs, "queued", jobs.queued);
        set(&self.jobs, "preparing", jobs.preparing);
        set(&self.jobs, "running", jobs.running);
        set(&self.jobs, "sealing", jobs.sealing);
        let workers = shared.runtime.workers().await;
        let connected = || workers.iter().filter(|worker| worker.connected);
        let idle_for_a_reason =
            |draining: bool| connected().filter(move |worker| worker.draining == draining);
        set(&self.workers, "away", workers.len() - connected().count());
        set(&self.workers, "draining", idle_for_a_reason(true).count());
        let quarantined = idle_for_a_reason(false).filter(|worker| worker.quarantined.is_some()).count();
        set(&self.workers, "quarantined", quarantined);
        set(&self.workers, "ready", idle_for_a_reason(false).count() - quarantined);
        let busy: usize = connected().map(|worker| worker.busy as usize).sum();
        let slots: usize = connected().map(|worker| worker.record.slots as usize).sum();
        set(&self.slots, "busy", busy);
        set(&self.slots, "free", slots.saturating_sub(busy));
        self.read_queues(shared).await;
        self.read_workers(&workers);
        self.read_process();
        self.read_spans();
        self.clients.set(count(shared.connections.clients()));
        let free = shared.logs.free_bytes().unwrap_or_default();
        self.free_bytes.set(i64::try_from(free).unwrap_or(i64::MAX));
        self.ready.set(i64::from(shared.refuses_jobs().is_none()));
    }
}
