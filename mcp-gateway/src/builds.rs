//! A build as the command line asks for it: the manifest that agents get, with command lines as the next calls.

use crate::client::{Client, ClientError};
use crate::render::{self, Budget, Extras};
use crate::tools::{cancel_build, jobs_of, manifest_of, of_build, view};
use buildpool_protocol::ids::BuildId;
use buildpool_protocol::report::{Finding, JobResult};
use buildpool_protocol::spec::{TemplateSpec, Verbosity};

/// What is known of a build, in both forms.
#[derive(Clone, PartialEq, Debug)]
pub struct Manifest {
    /// `request_id`, `build`, `jobs`, `tier_1_findings`, `other_findings` and what follows from them.
    pub structured: serde_json::Value,
    /// The same for a person.
    pub text: String,
}

/// A new build's number.
pub fn new_id() -> BuildId {
    BuildId::from_uuid(uuid::Uuid::now_v7())
}

/// The name under which a build is asked for: one word names a job or a build.
pub fn name(build: BuildId) -> String {
    build.request_id()
}

/// The build that a text names, if it names one.
pub fn named(text: &str) -> Option<BuildId> {
    BuildId::from_request_id(text)
}

/// One manifest over the jobs of a build, within the verbosity's budget.
///
/// # Errors
/// When the pool can't be asked, or knows no job of the build.
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

/// A finding of the first job of the build that has it.
///
/// # Errors
/// When the pool can't be asked, or no job of the build has it.
pub async fn finding(client: &Client, build: BuildId, finding: &str) -> Result<Finding, ClientError> {
    of_build(client, build, finding).await
}

/// Returns the ids of the build's jobs, in the order of the request.
///
/// # Errors
/// When the pool can't be asked, or knows no job of the build.
pub async fn jobs(client: &Client, build: BuildId) -> Result<Vec<String>, ClientError> {
    jobs_of(client, build).await
}

/// Asks for the end of all its jobs: how each is then. One that is done stays as it is.
///
/// # Errors
/// When the pool can't be asked, or knows no job of the build.
pub async fn cancel(client: &Client, build: BuildId, reason: &str) -> Result<Vec<JobResult>, ClientError> {
    cancel_build(client, build, reason).await
}
