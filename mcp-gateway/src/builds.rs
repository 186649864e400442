//! Builds for the command line: the same manifest as for agents, with command lines as next calls.

use crate::render::{self, Budget, Extras};
use crate::tools::{cancel_build, jobs_of, manifest_of, of_build, view};
use buildpool_client::{Client, ClientError};
use buildpool_protocol::ids::BuildId;
use buildpool_protocol::report::{Finding, JobResult};
use buildpool_protocol::spec::{TemplateSpec, Verbosity};

/// The answer about a build, in both forms.
#[derive(Clone, PartialEq, Debug)]
pub struct Manifest {
    /// `request_id`, `build`, `jobs`, `tier_1_findings`, `other_findings` and derived fields.
    pub structured: serde_json::Value,
    /// The same as text for users.
    pub text: String,
}

/// Returns a new build id.
pub fn new_id() -> BuildId {
    BuildId::from_uuid(uuid::Uuid::now_v7())
}

/// Returns the request id of a build. Its prefix distinguishes it from job ids.
pub fn name(build: BuildId) -> String {
    build.request_id()
}

/// Returns the build of a request id, or `None` if the text is not one.
pub fn named(text: &str) -> Option<BuildId> {
    BuildId::from_request_id(text)
}

/// Returns one manifest of all jobs of a build, within the verbosity's budget.
///
/// # Errors
/// If the pool can't be reached, or has no job of the build.
pub async fn manifest(
    client: &Client,
    build: BuildId,
    verbosity: Verbosity,
    template: Option<TemplateSpec>,
) -> Result<Manifest, ClientError> {
    let budget = Budget::of(verbosity, "");
    let answer = manifest_of(client, build, &view(Some(verbosity), template, &budget)).await?;
    let extras = Extras { on_terminal: true, ..Extras::default() };
    let answer = render::build(&answer, &extras, &budget);
    Ok(Manifest { structured: answer.structured, text: answer.text })
}

/// Returns a finding from the first job of the build that has it.
///
/// # Errors
/// If the pool can't be reached, or no job of the build has the finding.
pub async fn finding(client: &Client, build: BuildId, finding: &str) -> Result<Finding, ClientError> {
    of_build(client, build, finding).await
}

/// Returns the ids of the build's jobs, in the order of the request.
///
/// # Errors
/// If the pool can't be reached, or has no job of the build.
pub async fn jobs(client: &Client, build: BuildId) -> Result<Vec<String>, ClientError> {
    jobs_of(client, build).await
}

/// Cancels all jobs of the build and returns their states. A finished job does not change.
///
/// # Errors
/// If the pool can't be reached, or has no job of the build.
pub async fn cancel(client: &Client, build: BuildId, reason: &str) -> Result<Vec<JobResult>, ClientError> {
    cancel_build(client, build, reason).await
}
