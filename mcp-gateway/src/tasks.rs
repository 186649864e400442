//! The MCP tasks extension, answered from the pool's records. A task is a job or a build, so it
//! outlives gateways.

use crate::handler::{answered, pool_error};
use crate::render::{self, Extras};
use crate::tools::{Call, ToolError, build_answer, jobs_of, manifest_of, view};
use buildpool_client::ClientError;
use buildpool_protocol::ids::BuildId;
use buildpool_protocol::limits;
use buildpool_protocol::report::{JobResult, JobState, Verdict};
use buildpool_protocol::spec::Verbosity;
use rmcp::ErrorData as McpError;
use rmcp::model::{CallToolResult, DetailedTask, Task, TaskPayload, TaskStatus};
use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Suggested polling interval for clients, in milliseconds.
const POLL_MS: u64 = 2_000;
/// Limit on remembered tasks.
const REMEMBERED_MAX: usize = 1_000;
/// Lifetime of a task in milliseconds: as long as logs are kept.
const TTL_MS: u64 = limits::RETENTION_AGE.as_secs() * 1_000;

/// Returns the task for a job or build that was just submitted.
pub(crate) async fn created(call: &Call, id: &str, extras: Extras) -> Result<Task, ToolError> {
    let looked = tokio::time::timeout_at(call.answer_by, look(call, id, extras)).await;
    Ok(looked.map_err(|_| ToolError::Late { job: Some(id.to_owned()) })??.task)
}

/// Returns the state of a task.
pub(crate) async fn get(call: &Call, id: &str, extras: Extras) -> Result<DetailedTask, McpError> {
    in_time(call, look(call, id, extras)).await
}

/// Runs a request about a task, with the deadline of a call.
async fn in_time<T>(
    call: &Call,
    request: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, McpError> {
    match tokio::time::timeout_at(call.answer_by, request).await {
        Ok(answer) => answer.map_err(|error| pool_error(&error)),
        Err(_) => {
            // It is unknown whether the job exists.
            Err(McpError::internal_error(ToolError::Late { job: None }.to_string(), None))
        }
    }
}

/// Cancels the jobs of a task.
pub(crate) async fn cancel(call: &Call, id: &str) -> Result<(), McpError> {
    let cancel = async {
        let client = call.pool.client().await?;
        let jobs = match BuildId::from_request_id(id) {
            Some(build) => jobs_of(&client, build).await?,
            None => vec![id.to_owned()],
        };
        for job in jobs {
            client.cancel(&job, "the task was cancelled").await?;
        }
        Ok::<(), ClientError>(())
    };
    in_time(call, cancel).await
}

/// Returns the state of a task and the answer of its call, with the verbosity and notes of that
/// call.
async fn look(call: &Call, id: &str, known: Extras) -> Result<DetailedTask, ClientError> {
    let client = call.pool.client().await?;
    let first = Verbosity::default();
    let view = view(Some(first), None, &call.budget(first));
    let extras = |verbosity| Extras {
        chosen: known.chosen,
        note: known.note,
        reattached: known.reattached,
        by_request_id: known.by_request_id,
        ..call.extras(verbosity)
    };
    match BuildId::from_request_id(id) {
        Some(build) => {
            let manifest = manifest_of(&client, build, &view).await?;
            let is_cancelled = manifest.is_cancelled();
            let jobs = manifest.jobs;
            let is_done = jobs.iter().all(|job| job.state == JobState::Done);
            // The first job that waits or runs states what the build waits for.
            let task = task(id, jobs.iter().find(|job| job.state != JobState::Done).or(jobs.first()));
            let (verbosity, jobs) = call.all_with_verbosity(&client, jobs, None, None).await?;
            let answer = build_answer(&client, Some(build), jobs);
            let result = || answered(render::build(&answer, &extras(verbosity), &call.budget(verbosity)));
            Ok(detailed(task, is_done, is_cancelled, result))
        }
        None => {
            let result = client.job(id, view, Duration::ZERO).await?;
            // Use the id of the pool, because the requested id may be a prefix.
            let task = task(&result.job_id, Some(&result));
            let is_cancelled = result.verdict == Some(Verdict::Cancelled);
            let is_done = result.state == JobState::Done;
            let (verbosity, result) = call.with_verbosity(&client, result, None, None).await?;
            Ok(detailed(task, is_done, is_cancelled, || {
                answered(render::job(result, &extras(verbosity), &call.budget(verbosity)))
            }))
        }
    }
}

/// Notes of calls that became tasks. They are not in the pool's records, and answers are complete
/// without them.
#[derive(Debug, Default)]
pub(crate) struct Remembered(Mutex<VecDeque<(String, Extras)>>);

impl Remembered {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(String, Extras)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, id: &str, extras: Extras) {
        let mut all = self.lock();
        all.push_back((id.to_owned(), extras));
        if all.len() > REMEMBERED_MAX {
            all.pop_front();
        }
    }

    pub(crate) fn of(&self, id: &str) -> Extras {
        self.lock()
            .iter()
            .rev()
            .find(|(known, _)| known == id)
            .map(|(_, extras)| extras.clone())
            .unwrap_or_default()
    }
}

fn task(id: &str, job: Option<&JobResult>) -> Task {
    let created = job.and_then(|job| job.created_at.clone()).unwrap_or_default();
    let updated = job.and_then(|job| job.finished_at.clone().or(job.started_at.clone()));
    let message = job.map(message).unwrap_or_default();
    Task::new(id, TaskStatus::Working, created.clone(), updated.unwrap_or(created))
        .with_status_message(message)
        .with_ttl_ms(TTL_MS)
        .with_poll_interval_ms(POLL_MS)
}

/// State of a job, with the reason if it waits, and its command.
fn message(job: &JobResult) -> String {
    let waits = job.waiting.as_ref().map(|waiting| format!(" ({})", render::reason(&waiting.reason)));
    format!("{}{}: {}", job.state.name(), waits.unwrap_or_default(), render::short(&job.command))
}

/// A failed build is a completed task: the call itself succeeded.
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
