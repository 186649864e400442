//! What a call comes with, and what it can answer.

use super::ToolError;
use crate::client::{Client, ClientError};
use crate::gateway::Project;
use crate::pool::Pool;
use crate::progress::Reporter;
use crate::render::{Answer, Budget, BuildAnswer, Extras};
use buildpool_protocol::client_link::View;
use buildpool_protocol::ids::BuildId;
use buildpool_protocol::report::JobResult;
use buildpool_protocol::spec::{TemplateSpec, Verbosity};
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What stands before the id of a build, so that one word names a job or a build.
const BUILD_PREFIX: &str = "build-";

/// Everything that a call has beside its arguments.
pub(crate) struct Call {
    pub(crate) project: Arc<Project>,
    pub(crate) pool: Arc<Pool>,
    /// As the client calls itself; empty when it did not say.
    pub(crate) client_name: String,
    /// The longest that it may block.
    pub(crate) wait: Duration,
    /// How long until a task is given instead, where the client takes one.
    pub(crate) task_after: Option<Duration>,
    pub(crate) progress: Reporter,
    /// The trace that it is part of, where its client says so.
    pub(crate) trace: Option<String>,
    /// What it has submitted so far.
    pub(crate) submitted: Arc<Submitted>,
}

/// The jobs of a call, for who has to say that they go on.
#[derive(Debug, Default)]
pub(crate) struct Submitted(Mutex<Vec<String>>);

impl Submitted {
    pub(crate) fn add(&self, job: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(job.to_owned());
    }

    pub(crate) fn first(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).first().cloned()
    }
}

/// What a call answers.
#[derive(Debug)]
pub(crate) enum Reply {
    /// It is answered.
    Answer(Answer),
    /// It goes on as this job or build; for who takes tasks.
    Task(String),
}

impl Call {
    pub(crate) async fn client(&self) -> Result<Client, ToolError> {
        Ok(self.pool.client().await?)
    }

    pub(crate) fn budget(&self, verbosity: Verbosity) -> Budget {
        Budget::of(verbosity, &self.client_name)
    }

    /// For answers that no verbosity governs.
    pub(crate) fn list_budget(&self) -> Budget {
        Budget::of_lists(&self.client_name)
    }

    pub(crate) fn extras(&self, verbosity: Verbosity) -> Extras {
        let details = verbosity != Verbosity::Minimal;
        Extras { details, wait_secs: self.wait.as_secs(), ..Extras::default() }
    }

    /// The shorter of what is asked for and what the client can wait.
    pub(crate) fn wait_of(&self, asked_secs: Option<u64>, otherwise: Duration) -> Duration {
        asked_secs.map_or(otherwise, Duration::from_secs).min(self.wait)
    }
}

/// What to ask the pool for, so that the answer fits.
pub(crate) fn view(verbosity: Option<Verbosity>, template: Option<TemplateSpec>, budget: &Budget) -> View {
    View { verbosity, template, characters_max: Some(budget.digest_characters()) }
}

/// As calls name it.
pub(crate) fn build_name(build: BuildId) -> String {
    format!("{BUILD_PREFIX}{build}")
}

/// The build that a text names, if it names one.
pub(crate) fn build_id(text: &str) -> Option<BuildId> {
    text.strip_prefix(BUILD_PREFIX)?.parse().ok()
}

/// The jobs of a build as one answer, in the order in which they were submitted.
pub(crate) async fn manifest_of(
    client: &Client,
    build: BuildId,
    view: &View,
) -> Result<BuildAnswer, ClientError> {
    let limit = buildpool_protocol::limits::BUILD_JOBS_MAX as u32;
    let mut jobs = client.jobs(None, Some(build), limit).await?;
    // Ids are by time, so this is the order of the request.
    jobs.sort_by(|one, other| one.job_id.cmp(&other.job_id));
    let mut results = Vec::new();
    for job in jobs {
        results.push(client.job(&job.job_id, view.clone(), Duration::ZERO).await?);
    }
    Ok(build_answer(build, results))
}

pub(crate) fn build_answer(build: BuildId, jobs: Vec<JobResult>) -> BuildAnswer {
    BuildAnswer {
        request_id: build_name(build),
        has_own_id: true,
        timestamp: jiff::Zoned::now().strftime("%FT%T%:z").to_string(),
        jobs,
    }
}

/// Waits for several at once, in their order.
pub(crate) async fn all<T>(futures: impl IntoIterator<Item = impl Future<Output = T>>) -> Vec<T> {
    futures_util::future::join_all(futures).await
}
