//! `get_finding_details`: returns one complete finding.

use super::arguments::Arguments;
use super::call::manifest_of;
use super::schema::{self, Effect};
use super::{Call, Reply, ToolError};
use crate::render;
use buildpool_client::{Client, ClientError};
use buildpool_protocol::client_link::View;
use buildpool_protocol::ids::BuildId;
use buildpool_protocol::{ErrorCode, Finding};
use rmcp::model::Tool;
use serde_json::json;

pub(super) fn listing() -> Tool {
    schema::tool(
        "get_finding_details",
        "Finding",
        "Returns one finding of a job or build, whole and uncompressed.",
        Effect::Reads,
        schema::input(
            json!({
                "job_id": schema::job_id(),
                "request_id": schema::described("Of a build, instead of job_id"),
                "finding_id": schema::described("As an answer lists it"),
            }),
            &["finding_id"],
        ),
        None,
    )
}

pub(super) async fn call(mut arguments: Arguments, call: &Call) -> Result<Reply, ToolError> {
    let finding = arguments.required_text("finding_id")?;
    let job = arguments.text("job_id")?;
    let request = arguments.text("request_id")?;
    if job.is_some() && request.is_some() {
        return Err(arguments
            .wrong("request_id", "can't be combined with `job_id`: each selects a job")
            .into());
    }
    let Some(place) = job.or(request) else {
        return Err(arguments.wrong("job_id", "is missing (`request_id` of a build is as good)").into());
    };
    arguments.finish()?;
    let client = call.client().await?;
    let finding = match BuildId::from_request_id(&place) {
        Some(build) => of_build(&client, build, &finding).await?,
        None => client.finding(&place, &finding).await?,
    };
    Ok(Reply::Answer(render::finding(finding, &call.list_budget())))
}

/// Returns a finding of a build: from the job that the manifest lists, with the counts over all
/// jobs. A finding that is not in the manifest is taken from the first job that has it.
pub(crate) async fn of_build(client: &Client, build: BuildId, finding: &str) -> Result<Finding, ClientError> {
    let manifest = manifest_of(client, build, &View::default()).await?;
    if let Some(listed) = render::listed(&manifest, finding) {
        let mut whole = client.finding(&listed.job, finding).await?;
        (whole.tier, whole.confidence) = (listed.tier, listed.confidence);
        whole.also_in_passing_jobs |= listed.also_in_passing_jobs;
        whole.recurrence = listed.recurrence.unwrap_or(whole.recurrence);
        return Ok(whole);
    }
    let mut missing = ClientError::Closed;
    for job in &manifest.jobs {
        match client.finding(&job.job_id, finding).await {
            Err(error) if error.code() == Some(ErrorCode::NotFound) => missing = error,
            found_or_failed => return found_or_failed,
        }
    }
    Err(missing)
}
