//! `get_job`: returns the state of a job or build, now or when it is done.

use super::arguments::Arguments;
use super::call::{all, build_answer, jobs_of, view};
use super::schema::{self, Choices, Detail, Effect};
use super::{Call, Reply, ToolError, run};
use crate::pictures;
use crate::render::{self, Answer};
use buildpool_client::Client;
use buildpool_protocol::client_link::{Progress, View};
use buildpool_protocol::ids::BuildId;
use buildpool_protocol::limits;
use buildpool_protocol::report::JobResult;
use buildpool_protocol::spec::Verbosity;
use rmcp::model::Tool;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

pub(super) fn listing(choices: &Choices, detail: Detail) -> Tool {
    schema::tool(
        "get_job",
        "Job",
        "Returns the result of a job or build, or its progress if it is not done after wait_secs.",
        Effect::Reads,
        schema::input(
            json!({
                "job_id": schema::job_id(),
                "verbosity": schema::verbosity(),
                "template": schema::template(choices, detail),
                "show_artifacts": schema::show_artifacts(),
                "wait_secs": schema::integer("Seconds to wait for the end; default 0"),
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
    let show_artifacts = arguments.flag("show_artifacts")?;
    let template = run::named_template(&arguments, &call.project.templates(), template)?;
    // Checked only; the call's deadline is already derived from it.
    arguments.number("wait_secs", 0, limits::TIMEOUT_MAX.as_secs())?;
    arguments.finish()?;
    let first = verbosity.unwrap_or_default();
    let view = view(Some(first), template.clone(), &call.budget(first));
    let client = call.client().await?;
    let until = call.answer_by;
    let mut pictures = Vec::new();
    let answer = match BuildId::from_request_id(&job) {
        Some(build) => {
            let results = build_when_done(call, &client, build, &view).await?;
            let (verbosity, results) = call.all_with_verbosity(&client, results, verbosity, template).await?;
            if show_artifacts {
                pictures = pictures::of(&client, &results, until).await;
            }
            let answer = build_answer(&client, Some(build), results);
            render::build(&answer, &call.extras(verbosity), &call.budget(verbosity))
        }
        None => {
            let result = job_when_done(call, &client, 0, &job, &view).await?;
            let (verbosity, result) = call.with_verbosity(&client, result, verbosity, template).await?;
            if show_artifacts {
                pictures = pictures::of(&client, std::slice::from_ref(&result), until).await;
            }
            render::job(result, &call.extras(verbosity), &call.budget(verbosity))
        }
    };
    Ok(Reply::Answer(Answer { pictures, ..answer }))
}

/// Returns the job when it is done or the wait is over. Reports progress meanwhile.
async fn job_when_done(
    call: &Call,
    client: &Client,
    index: usize,
    job: &str,
    view: &View,
) -> Result<JobResult, ToolError> {
    let wait = call.deadline.saturating_duration_since(Instant::now());
    let (to, mut updates) = watch::channel(Progress::default());
    let mut request = std::pin::pin!(client.job_with_progress(job, view.clone(), wait, to));
    loop {
        tokio::select! {
            result = &mut request => return Ok(result?),
            Ok(()) = updates.changed() => call.progress.record(index, updates.borrow_and_update().clone()),
        }
    }
}

async fn build_when_done(
    call: &Call,
    client: &Client,
    build: BuildId,
    view: &View,
) -> Result<Vec<JobResult>, ToolError> {
    let jobs = jobs_of(client, build).await?;
    let results = jobs.iter().enumerate().map(|(index, job)| job_when_done(call, client, index, job, view));
    all(results).await.into_iter().collect()
}
