//! `get_job`: how a job or a build is, now or when it is done.

use super::arguments::Arguments;
use super::call::{build_id, view};
use super::schema::{self, Choices, Detail, Effect};
use super::{Call, Reply, ToolError, manifest_of, run};
use crate::client::Client;
use crate::render;
use buildpool_protocol::client_link::{Progress, View};
use buildpool_protocol::ids::BuildId;
use buildpool_protocol::limits;
use buildpool_protocol::report::{JobResult, JobState};
use buildpool_protocol::spec::Verbosity;
use rmcp::model::Tool;
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// While it waits, progress is told this often.
const SLICE: Duration = Duration::from_secs(5);

pub(super) fn listing(choices: &Choices, detail: Detail) -> Tool {
    schema::tool(
        "get_job",
        "Job",
        "Result or progress of a job or build; waits up to wait_secs. Kept 14 days.",
        Effect::Reads,
        schema::input(
            json!({
                "job_id": schema::text(),
                "verbosity": schema::verbosity(),
                "template": schema::template(choices, detail),
                "wait_secs": schema::integer(),
            }),
            &["job_id"],
        ),
        schema::job_output(),
    )
}

pub(super) async fn call(mut arguments: Arguments, call: &Call) -> Result<Reply, ToolError> {
    let job = arguments.required_text("job_id")?;
    let verbosity: Option<Verbosity> = arguments.word("verbosity")?;
    let template = arguments.text("template")?;
    let template = run::named_template(&arguments, call, template)?;
    let wait = call.wait_of(arguments.number("wait_secs", 0, limits::TIMEOUT_MAX.as_secs())?, Duration::ZERO);
    arguments.finish()?;
    let budget = call.budget(verbosity.unwrap_or_default());
    let view = view(verbosity, template, &budget);
    let client = call.client().await?;
    let deadline = Instant::now() + wait;
    tokio::select! {
        reply = answer(call, &client, &job, view, deadline) => reply,
        () = call.progress.run() => Err(ToolError::Cancelled { job: Some(job.clone()) }),
    }
}

async fn answer(
    call: &Call,
    client: &Client,
    job: &str,
    view: View,
    deadline: Instant,
) -> Result<Reply, ToolError> {
    let verbosity = view.verbosity.unwrap_or_default();
    let (budget, extras) = (call.budget(verbosity), call.extras(verbosity));
    let answer = match build_id(job) {
        Some(build) => {
            let answer = build_when_done(call, client, build, &view, deadline).await?;
            render::build(&answer, &extras, &budget)
        }
        None => {
            let result = job_when_done(call, client, 0, job, &view, deadline).await?;
            render::job(result, &extras, &budget)
        }
    };
    Ok(Reply::Answer(answer))
}

/// The job when it is done or the time is over; progress while it waits.
async fn job_when_done(
    call: &Call,
    client: &Client,
    index: usize,
    job: &str,
    view: &View,
    deadline: Instant,
) -> Result<JobResult, ToolError> {
    loop {
        let wait = deadline.saturating_duration_since(Instant::now()).min(SLICE);
        let result = client.job(job, view.clone(), wait).await?;
        if result.state == JobState::Done || deadline <= Instant::now() {
            return Ok(result);
        }
        call.progress.tell(index, progress_of(&result));
    }
}

async fn build_when_done(
    call: &Call,
    client: &Client,
    build: BuildId,
    view: &View,
    deadline: Instant,
) -> Result<render::BuildAnswer, ToolError> {
    let answer = manifest_of(client, build, view).await?;
    if answer.jobs.is_empty() {
        return Err(ToolError::UnknownBuild { build: answer.request_id });
    }
    if deadline <= Instant::now() || answer.jobs.iter().all(|job| job.state == JobState::Done) {
        return Ok(answer);
    }
    for (index, job) in answer.jobs.iter().enumerate() {
        job_when_done(call, client, index, &job.job_id, view, deadline).await?;
    }
    Ok(manifest_of(client, build, view).await?)
}

fn progress_of(result: &JobResult) -> Progress {
    Progress {
        state: result.state,
        waiting: result.waiting.clone(),
        connected: result.connected,
        worker: result.worker.clone(),
        errors: result.tier_1_findings.len() as u64,
        tests_done: result.tests.as_ref().map_or(0, |tests| tests.total),
        ..Progress::default()
    }
}
