//! `cancel_job`: the only tool that ends a job.

use super::arguments::Arguments;
use super::call::{all, build_answer, jobs_of, view};
use super::schema::{self, Effect};
use super::{Call, Reply, ToolError};
use crate::render::{self, Extras};
use buildpool_client::{Client, ClientError};
use buildpool_protocol::ids::BuildId;
use buildpool_protocol::limits;
use buildpool_protocol::report::{JobResult, JobState};
use buildpool_protocol::spec::Verbosity;
use rmcp::model::Tool;
use serde_json::json;
use std::time::Duration;

/// Maximum wait for the end of the processes.
const WAIT: Duration = Duration::from_secs(5);
/// Note for a job that takes longer.
const UNDER_WAY: &str = "a cancel is under way: the processes were told to end, and are killed when they do not; get_job with \
                         wait_secs says when they are gone";

pub(super) fn listing() -> Tool {
    schema::tool(
        "cancel_job",
        "Cancel",
        "Cancels a job or build and ends its processes.",
        Effect::Ends,
        schema::input(
            json!({"job_id": schema::job_id(), "reason": schema::described("For the record")}),
            &["job_id"],
        ),
        None,
    )
}

pub(super) async fn call(mut arguments: Arguments, call: &Call) -> Result<Reply, ToolError> {
    let job = arguments.required_text("job_id")?;
    let reason = arguments.text("reason")?.unwrap_or_default();
    if reason.len() > limits::TEXT_BYTES_MAX {
        let text = format!("has {} bytes; at most {} are valid", reason.len(), limits::TEXT_BYTES_MAX);
        return Err(arguments.wrong("reason", text).into());
    }
    arguments.finish()?;
    let client = call.client().await?;
    let budget = call.budget(Verbosity::Minimal);
    let view = view(Some(Verbosity::Minimal), None, &budget);
    let wait = WAIT.min(call.wait);
    let answer = match BuildId::from_request_id(&job) {
        Some(build) => {
            let jobs = cancel_build(&client, build, &reason).await?;
            let jobs: Vec<String> = jobs.into_iter().map(|job| job.job_id).collect();
            let results = all(jobs.iter().map(|job| client.job(job, view.clone(), wait))).await;
            let results: Vec<JobResult> = results.into_iter().collect::<Result<_, _>>()?;
            let extras = extras(call, &results);
            render::build(&build_answer(&client, Some(build), results), &extras, &budget)
        }
        None => {
            let cancelled = client.cancel(&job, &reason).await?;
            let result = client.job(&cancelled.job_id, view, wait).await?;
            let extras = extras(call, std::slice::from_ref(&result));
            render::job(result, &extras, &budget)
        }
    };
    Ok(Reply::Answer(answer))
}

/// Cancels all jobs of a build, without waiting for their end. Returns their states.
pub(crate) async fn cancel_build(
    client: &Client,
    build: BuildId,
    reason: &str,
) -> Result<Vec<JobResult>, ClientError> {
    let jobs = jobs_of(client, build).await?;
    all(jobs.iter().map(|job| client.cancel(job, reason))).await.into_iter().collect()
}

/// Returns the extras, with a note if a job has not ended yet.
fn extras(call: &Call, results: &[JobResult]) -> Extras {
    let mut extras = call.extras(Verbosity::Minimal);
    if results.iter().any(|result| result.state != JobState::Done) {
        extras.cancelling = true;
        extras.note = Some(UNDER_WAY.to_owned());
    }
    extras
}
