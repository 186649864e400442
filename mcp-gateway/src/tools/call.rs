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
use buildpool_protocol::{ErrorCode, LinkError};
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// After the wait for a job is over, the answer may take so long: the pool is asked how the job is. With what it takes to
/// say it, five seconds.
const ANSWER_WITHIN: Duration = Duration::from_millis(4_500);
/// A call that waits for no job may take so long: its pool may be starting, its files may be many. With what it takes to
/// say it, fifteen seconds.
const ANSWER_WITHIN_AT_LEAST: Duration = Duration::from_millis(14_500);

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
    /// Until then it may wait for a job.
    pub(crate) deadline: Instant,
    /// Until then it is answered, whatever the pool does.
    pub(crate) answer_by: Instant,
    pub(crate) progress: Arc<Reporter>,
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
    /// It goes on as this job or build, with what only this call knows of it; for who takes tasks.
    Task(String, Box<Extras>),
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

    /// A job as its submitter asked to see it, where nothing else is asked for: `result` is as by default.
    pub(crate) async fn as_asked(
        &self,
        client: &Client,
        result: JobResult,
        asked: Option<Verbosity>,
        template: Option<TemplateSpec>,
    ) -> Result<(Verbosity, JobResult), ClientError> {
        let wanted = asked.or(result.verbosity).unwrap_or_default();
        if asked.is_some() || wanted == Verbosity::default() {
            return Ok((wanted, result));
        }
        let view = view(Some(wanted), template, &self.budget(wanted));
        Ok((wanted, client.job(&result.job_id, view, Duration::ZERO).await?))
    }

    /// The same for the jobs of a build: as the first of them asked.
    pub(crate) async fn all_as_asked(
        &self,
        client: &Client,
        results: Vec<JobResult>,
        asked: Option<Verbosity>,
        template: Option<TemplateSpec>,
    ) -> Result<(Verbosity, Vec<JobResult>), ClientError> {
        let each = results.into_iter().map(|result| self.as_asked(client, result, asked, template.clone()));
        let each = all(each).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        let verbosity = each.first().map_or_else(Verbosity::default, |(verbosity, _)| *verbosity);
        Ok((verbosity, each.into_iter().map(|(_, result)| result).collect()))
    }

    /// From now on it may wait this long for a job, and then has to be answered soon.
    pub(crate) fn may_wait(&mut self, wait: Duration) {
        let now = Instant::now();
        self.deadline = now + wait;
        self.answer_by = now + answered_within(wait);
    }
}

/// How long a call takes at most that waits so long for a job.
pub(crate) fn answered_within(wait: Duration) -> Duration {
    (wait + ANSWER_WITHIN).max(ANSWER_WITHIN_AT_LEAST)
}

/// What to ask the pool for, so that the answer fits.
pub(crate) fn view(verbosity: Option<Verbosity>, template: Option<TemplateSpec>, budget: &Budget) -> View {
    View { verbosity, template, characters_max: Some(budget.digest_characters()) }
}

/// The jobs of a build, in the order in which they were submitted. Of none nothing could be said: neither that it passed nor that
/// it goes on.
pub(crate) async fn jobs_of(client: &Client, build: BuildId) -> Result<Vec<String>, ClientError> {
    let limit = buildpool_protocol::limits::BUILD_JOBS_MAX as u32;
    let jobs = client.jobs(None, Some(build), limit).await?;
    if jobs.is_empty() {
        let text = format!("no job of {} is known", build.request_id());
        return Err(ClientError::Refused(LinkError::new(ErrorCode::UnknownJob, text)));
    }
    let mut jobs: Vec<String> = jobs.into_iter().map(|job| job.job_id).collect();
    // Ids are by time, so this is the order of the request.
    jobs.sort();
    Ok(jobs)
}

/// The jobs of a build as one answer.
pub(crate) async fn manifest_of(
    client: &Client,
    build: BuildId,
    view: &View,
) -> Result<BuildAnswer, ClientError> {
    let jobs = jobs_of(client, build).await?;
    let results = all(jobs.iter().map(|job| client.job(job, view.clone(), Duration::ZERO))).await;
    Ok(build_answer(client, Some(build), results.into_iter().collect::<Result<_, _>>()?))
}

/// What `client` knows of these jobs. `build` is the one that has these and no others, if there is one.
pub(crate) fn build_answer(client: &Client, build: Option<BuildId>, jobs: Vec<JobResult>) -> BuildAnswer {
    BuildAnswer {
        url: build.map(|build| client.pool().url.page_of(build)),
        request_id: build.map(BuildId::request_id),
        timestamp: jiff::Zoned::now().strftime("%FT%T%:z").to_string(),
        jobs,
    }
}

/// Waits for several at once, in their order.
pub(crate) async fn all<T>(futures: impl IntoIterator<Item = impl Future<Output = T>>) -> Vec<T> {
    futures_util::future::join_all(futures).await
}
