//! The tasks extension, answered from the pool's records: a task is a job or a build, so it outlives gateways.

use crate::client::ClientError;
use crate::handler::{answered, pool_error};
use crate::render;
use crate::tools::{Call, build_id, manifest_of, view};
use buildpool_protocol::report::{JobResult, JobState, Verdict};
use buildpool_protocol::spec::Verbosity;
use buildpool_protocol::{ErrorCode, LinkError, limits};
use rmcp::ErrorData as McpError;
use rmcp::model::{CallToolResult, DetailedTask, Task, TaskPayload, TaskStatus};
use std::time::Duration;

/// How often a client should ask, in milliseconds.
const POLL_MS: u64 = 2_000;
/// How long a task can be asked for: as long as logs are kept.
const TTL_MS: u64 = limits::RETENTION_AGE.as_secs() * 1_000;

/// The task for a job or build that was just submitted.
pub(crate) async fn created(call: &Call, id: &str) -> Result<Task, ClientError> {
    Ok(look(call, id).await?.task)
}

/// How a task is.
pub(crate) async fn get(call: &Call, id: &str) -> Result<DetailedTask, McpError> {
    look(call, id).await.map_err(|error| pool_error(&error))
}

/// Cancels the jobs of a task.
pub(crate) async fn cancel(call: &Call, id: &str) -> Result<(), McpError> {
    let cancel = async {
        let client = call.pool.client().await?;
        let jobs = match build_id(id) {
            Some(build) => {
                let jobs = client.jobs(None, Some(build), limits::BUILD_JOBS_MAX as u32).await?;
                jobs.into_iter().map(|job| job.job_id).collect()
            }
            None => vec![id.to_owned()],
        };
        for job in jobs {
            client.cancel(&job, "the task was cancelled").await?;
        }
        Ok::<(), ClientError>(())
    };
    cancel.await.map_err(|error| pool_error(&error))
}

async fn look(call: &Call, id: &str) -> Result<DetailedTask, ClientError> {
    let client = call.pool.client().await?;
    let minimal = call.budget(Verbosity::default());
    let view = view(None, None, &minimal);
    match build_id(id) {
        Some(build) => {
            let answer = manifest_of(&client, build, &view).await?;
            if answer.jobs.is_empty() {
                let text = format!("no job of {id} is known");
                return Err(ClientError::Refused(LinkError::new(ErrorCode::UnknownJob, text)));
            }
            let jobs: Vec<&JobResult> = answer.jobs.iter().collect();
            let is_done = jobs.iter().all(|job| job.state == JobState::Done);
            let is_cancelled = is_done && jobs.iter().any(|job| job.verdict == Some(Verdict::Cancelled));
            let task = task(id, jobs.first().copied());
            let result = || answered(render::build(&answer, &call.extras(Verbosity::default()), &minimal));
            Ok(detailed(task, is_done, is_cancelled, result))
        }
        None => {
            let result = client.job(id, view, Duration::ZERO).await?;
            let task = task(id, Some(&result));
            let is_cancelled = result.verdict == Some(Verdict::Cancelled);
            let is_done = result.state == JobState::Done;
            Ok(detailed(task, is_done, is_cancelled, || {
                answered(render::job(result, &call.extras(Verbosity::default()), &minimal))
            }))
        }
    }
}

fn task(id: &str, job: Option<&JobResult>) -> Task {
    let created = job.and_then(|job| job.created_at.clone()).unwrap_or_default();
    let updated = job.and_then(|job| job.finished_at.clone().or(job.started_at.clone()));
    let message = job
        .map(|job| render::one_line(&format!("{}: {}", job.state.name(), job.command)))
        .unwrap_or_default();
    Task::new(id, TaskStatus::Working, created.clone(), updated.unwrap_or(created))
        .with_status_message(message)
        .with_ttl_ms(TTL_MS)
        .with_poll_interval_ms(POLL_MS)
}

/// A failed build is a completed task: the call did what it was asked.
fn detailed(
    task: Task,
    is_done: bool,
    is_cancelled: bool,
    result: impl FnOnce() -> CallToolResult,
) -> DetailedTask {
    let payload = if is_cancelled {
        TaskPayload::Cancelled
    } else if is_done {
        match serde_json::to_value(result()) {
            Ok(serde_json::Value::Object(result)) => TaskPayload::Completed { result },
            Ok(_) | Err(_) => TaskPayload::Completed { result: Default::default() },
        }
    } else {
        TaskPayload::Working
    };
    DetailedTask::new(task, payload)
}
