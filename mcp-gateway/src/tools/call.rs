//! The context of a call, and its reply.

use super::ToolError;
use crate::gateway::Project;
use crate::pool::Pool;
use crate::progress::Reporter;
use crate::render::{Answer, Budget, BuildAnswer, Extras};
use buildpool_client::{Client, ClientError};
use buildpool_protocol::client_link::View;
use buildpool_protocol::ids::BuildId;
use buildpool_protocol::report::JobResult;
use buildpool_protocol::spec::{TemplateSpec, Verbosity};
use buildpool_protocol::{ErrorCode, LinkError};
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Time for the answer after the wait for a job is over, including a query of the job's state. The
/// whole answer then takes at most five seconds.
const ANSWER_WITHIN: Duration = Duration::from_millis(4_500);
/// Time for a call that does not wait for a job, including the start of the pool and the read of
/// many files. The whole answer then takes at most fifteen seconds.
const ANSWER_WITHIN_AT_LEAST: Duration = Duration::from_millis(14_500);

/// The context of a call.
pub(crate) struct Call {
    pub(crate) project: Arc<Project>,
    pub(crate) pool: Arc<Pool>,
    /// Name that the client reports; empty if it reports no name.
    pub(crate) client_name: String,
    /// Maximum blocking time of the call.
    pub(crate) wait: Duration,
    /// Time after which the call returns a task, if the client supports tasks.
    pub(crate) task_after: Option<Duration>,
    /// End of the wait for a job.
    pub(crate) deadline: Instant,
    /// Deadline of the answer, even if the pool does not respond.
    pub(crate) answer_by: Instant,
    pub(crate) progress: Arc<Reporter>,
    /// Trace id from the client, if any.
    pub(crate) trace: Option<String>,
    /// Jobs that the call has submitted so far.
    pub(crate) submitted: Arc<Submitted>,
}

/// The jobs of a call, for messages that they continue.
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

/// Reply of a call.
#[derive(Debug)]
pub(crate) enum Reply {
    /// An answer.
    Answer(Answer),
    /// A job or build that continues as a task: its id and the notes of the call. Only for clients
    /// that support tasks.
    Task(String, Box<Extras>),
}

impl Call {
    pub(crate) async fn client(&self) -> Result<Client, ToolError> {
        Ok(self.pool.client().await?)
    }

    pub(crate) fn budget(&self, verbosity: Verbosity) -> Budget {
        Budget::of(verbosity, &self.client_name)
    }

    /// Returns the budget of answers without a verbosity.
    pub(crate) fn list_budget(&self) -> Budget {
        Budget::of_lists(&self.client_name)
    }

    pub(crate) fn extras(&self, verbosity: Verbosity) -> Extras {
        let details = verbosity != Verbosity::Minimal;
        let one_worker = self.pool.is_local();
        Extras { details, one_worker, wait_secs: self.wait.as_secs(), ..Extras::default() }
    }

    /// Returns a job with the verbosity of its submitter, unless `requested` overrides it. `result` has
    /// the default verbosity.
    pub(crate) async fn with_verbosity(
        &self,
        client: &Client,
        result: JobResult,
        requested: Option<Verbosity>,
        template: Option<TemplateSpec>,
    ) -> Result<(Verbosity, JobResult), ClientError> {
        let wanted = requested.or(result.verbosity).unwrap_or_default();
        if requested.is_some() || wanted == Verbosity::default() {
            return Ok((wanted, result));
        }
        let view = view(Some(wanted), template, &self.budget(wanted));
        Ok((wanted, client.job(&result.job_id, view, Duration::ZERO).await?))
    }

    /// Returns the jobs of a build, with the verbosity of the first one.
    pub(crate) async fn all_with_verbosity(
        &self,
        client: &Client,
        results: Vec<JobResult>,
        requested: Option<Verbosity>,
        template: Option<TemplateSpec>,
    ) -> Result<(Verbosity, Vec<JobResult>), ClientError> {
        let each = results
            .into_iter()
            .map(|result| self.with_verbosity(client, result, requested, template.clone()));
        let each = all(each).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        let verbosity = each.first().map_or_else(Verbosity::default, |(verbosity, _)| *verbosity);
        Ok((verbosity, each.into_iter().map(|(_, result)| result).collect()))
    }

    /// Sets the maximum wait for a job, and the deadline of the answer after it.
    pub(crate) fn may_wait(&mut self, wait: Duration) {
        let now = Instant::now();
        self.deadline = now + wait;
        self.answer_by = now + answered_within(wait);
    }
}

/// Returns the maximum duration of a call with this wait for a job.
pub(crate) fn answered_within(wait: Duration) -> Duration {
    (wait + ANSWER_WITHIN).max(ANSWER_WITHIN_AT_LEAST)
}

/// Returns the view to request from the pool, so that both forms of the answer fit.
pub(crate) fn view(verbosity: Option<Verbosity>, template: Option<TemplateSpec>, budget: &Budget) -> View {
    View { verbosity, template, characters_max: Some(budget.pool_characters()), for_json: false }
}

/// Returns the jobs of a build, in the order of their submission. Fails if there are no jobs: an
/// empty list could mean success or no result yet.
pub(crate) async fn jobs_of(client: &Client, build: BuildId) -> Result<Vec<String>, ClientError> {
    let limit = buildpool_protocol::limits::BUILD_JOBS_MAX as u32;
    let jobs = client.jobs(None, Some(build), limit).await?;
    if jobs.is_empty() {
        let text = format!("no job of {} is known", build.request_id());
        return Err(ClientError::Refused(LinkError::new(ErrorCode::UnknownJob, text)));
    }
    let mut jobs: Vec<String> = jobs.into_iter().map(|job| job.job_id).collect();
    // Ids sort by time, so this is the order of the request.
    jobs.sort();
    Ok(jobs)
}

/// Returns the jobs of a build as one answer.
pub(crate) async fn manifest_of(
    client: &Client,
    build: BuildId,
    view: &View,
) -> Result<BuildAnswer, ClientError> {
    let jobs = jobs_of(client, build).await?;
    let results = all(jobs.iter().map(|job| client.job(job, view.clone(), Duration::ZERO))).await;
    Ok(build_answer(client, Some(build), results.into_iter().collect::<Result<_, _>>()?))
}

/// Returns the answer about these jobs. `build` is the build with exactly these jobs, if there is
/// one.
pub(crate) fn build_answer(client: &Client, build: Option<BuildId>, jobs: Vec<JobResult>) -> BuildAnswer {
    BuildAnswer {
        url: build.map(|build| client.pool().url.page_of(build)),
        request_id: build.map(BuildId::request_id),
        timestamp: jiff::Zoned::now().strftime("%FT%T%:z").to_string(),
        jobs,
    }
}

/// Waits for several futures concurrently. Returns their results in order.
pub(crate) async fn all<T>(futures: impl IntoIterator<Item = impl Future<Output = T>>) -> Vec<T> {
    futures_util::future::join_all(futures).await
}
