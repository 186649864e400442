//! Progress notifications. They are sent only to clients that sent a token: each with a larger
//! number, at most one per second, at least one in 15 seconds, and no more after the answer.

use buildpool_protocol::JobState;
use buildpool_protocol::client_link::Progress;
use buildpool_protocol::shown::{counted, output_line, thousands};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RoleServer};
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Minimum interval between notifications.
const APART: Duration = Duration::from_secs(1);
/// Maximum interval between notifications. Clients time out silent calls.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// A shorter silence is not mentioned, in seconds.
const SILENT_SECS: u64 = 5;

/// Sends progress notifications.
pub(crate) struct Reporter {
    to: Option<(Peer<RoleServer>, ProgressToken)>,
    started: Instant,
    jobs: Mutex<Vec<Progress>>,
    /// Current stage before the call has a job.
    stage: Mutex<&'static str>,
    changed: Notify,
}

impl Reporter {
    /// Creates a reporter. Without a token it sends nothing.
    pub(crate) fn new(to: Option<(Peer<RoleServer>, ProgressToken)>) -> Self {
        let changed = Notify::new();
        // Send a first notification at once, so that a call shorter than the heartbeat is not
        // silent.
        changed.notify_one();
        Self {
            to,
            started: Instant::now(),
            jobs: Mutex::default(),
            stage: Mutex::new("asking the pool"),
            changed,
        }
    }

    /// Sets the stage before the call has a job.
    pub(crate) fn stage(&self, stage: &'static str) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = stage;
        self.changed.notify_one();
    }

    /// Records the progress of one of the call's jobs.
    pub(crate) fn record(&self, index: usize, progress: Progress) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if jobs.len() <= index {
            jobs.resize_with(index + 1, Progress::default);
        }
        // The silence alone is not a change: the heartbeat reports it.
        let is_same = jobs[index] == Progress { silent_secs: jobs[index].silent_secs, ..progress.clone() };
        jobs[index] = progress;
        if !is_same {
            self.changed.notify_one();
        }
    }

    /// Returns the last recorded progress of one of the call's jobs.
    pub(crate) fn last(&self, index: usize) -> Progress {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.get(index).cloned().unwrap_or_default()
    }

    /// Sends notifications until it is dropped.
    pub(crate) async fn run(&self) {
        let Some((peer, token)) = &self.to else { return std::future::pending().await };
        let mut last = self.started;
        loop {
            // A notification is due after a change or after the heartbeat.
            let _due = tokio::time::timeout_at(last + HEARTBEAT, self.changed.notified()).await;
            tokio::time::sleep_until(last + APART).await;
            last = Instant::now();
            let elapsed = last.duration_since(self.started);
            let notification = ProgressNotificationParam::new(token.clone(), elapsed.as_secs_f64())
                .with_message(self.message(elapsed));
            if peer.notify_progress(notification).await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    fn message(&self, elapsed: Duration) -> String {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        match jobs.as_slice() {
            [] => {
                let stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
                format!("{stage}, {} s", elapsed.as_secs())
            }
            [job] => format!("{}, {} s", sentence(job), elapsed.as_secs()),
            jobs => {
                let done = jobs.iter().filter(|job| job.state == JobState::Done).count();
                let current: Vec<String> =
                    jobs.iter().filter(|job| job.state != JobState::Done).take(3).map(sentence).collect();
                format!(
                    "{done} of {} done; {}, {} s",
                    counted(jobs.len() as u64, "job"),
                    current.join("; "),
                    elapsed.as_secs()
                )
            }
        }
    }
}

/// Formats the progress of a job: `running on mini-3: 3 errors so far, 412 of 1,204 tests`.
fn sentence(job: &Progress) -> String {
    let mut text = job.state.name().to_owned();
    if let Some(worker) = &job.worker {
        let _ = write!(text, " on {worker}");
        if !job.connected {
            text.push_str(" (out of reach, the job goes on)");
        }
    }
    if let Some(waiting) = &job.waiting {
        let _ = write!(text, ": {}", waiting.reason);
    }
    let mut so_far = Vec::new();
    if job.errors > 0 {
        so_far.push(format!("{} so far", counted(job.errors, "error")));
    }
    match job.tests_total {
        Some(total) => so_far.push(format!("{} of {}", thousands(job.tests_done), counted(total, "test"))),
        None if job.tests_done > 0 => so_far.push(counted(job.tests_done, "test")),
        None => {}
    }
    if job.lines > 0 {
        so_far.push(counted(job.lines, "line"));
    }
    so_far.extend(job.running_test.as_ref().map(|test| format!("test `{test}`")));
    so_far.extend(
        job.silent_secs.filter(|secs| *secs >= SILENT_SECS).map(|secs| format!("silent for {secs} s")),
    );
    if !so_far.is_empty() {
        let _ = write!(text, ": {}", so_far.join(", "));
    }
    if job.state == JobState::Running && !job.text.is_empty() {
        let _ = write!(text, "; last line: {}", output_line(&job.text));
    }
    crate::render::one_line(&text)
}

#[cfg(test)]
mod tests {
    use super::sentence;
    use buildpool_protocol::JobState;
    use buildpool_protocol::client_link::Progress;

    #[test]
    fn live_findings_are_one_sentence() {
        let mut job = Progress {
            state: JobState::Running,
            worker: Some("mini-3".into()),
            connected: true,
            errors: 3,
            tests_done: 412,
            tests_total: Some(1_204),
            ..Progress::default()
        };
        assert_eq!(sentence(&job), "running on mini-3: 3 errors so far, 412 of 1,204 tests");
        job.running_test = Some("suite::slow".into());
        job.silent_secs = Some(42);
        job.text = "waiting".into();
        assert!(
            sentence(&job).ends_with("1,204 tests, test `suite::slow`, silent for 42 s; last line: waiting")
        );
        job.connected = false;
        assert!(sentence(&job).contains("out of reach"));
    }
}
