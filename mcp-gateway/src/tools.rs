//! The ten tools, one per file: their listing and their calls.

mod arguments;
mod build;
mod call;
mod cancel_job;
mod error;
mod file_listing;
mod get_finding_details;
mod get_job;
mod get_job_logs;
mod list_jobs;
mod list_templates;
mod run;
mod run_command;
mod run_tests;
mod schema;
mod share;
mod source;
mod worker_status;

pub(crate) use arguments::whole_number;
pub(crate) use call::{Call, Reply, answered_within, build_answer, jobs_of, manifest_of, view};
pub(crate) use cancel_job::cancel_build;
pub(crate) use error::ToolError;
pub(crate) use file_listing::Listings;
pub(crate) use get_finding_details::of_build;
pub(crate) use schema::Choices;

use arguments::Arguments;
use rmcp::model::{JsonObject, Tool};
use schema::Detail;

/// Limit on the encoded list of all tools, in bytes. Each client puts the list into its model's
/// context.
const LISTING_BYTES_MAX: usize = 8_000;
/// The text around the tools, in the protocol revision with the longest one.
const FRAME: &str = r#"{"resultType":"complete","tools":,"ttlMs":0,"cacheScope":"private"}"#;

/// Returns the list of all tools, with as many of the choices as fit.
pub(crate) fn listing(choices: &Choices) -> Vec<Tool> {
    let with = |detail| Name::ALL.map(|name| name.listing(choices, detail)).to_vec();
    let fits = |tools: &Vec<Tool>| {
        serde_json::to_string(tools).is_ok_and(|text| text.len() + FRAME.len() <= LISTING_BYTES_MAX)
    };
    Detail::ALL.into_iter().map(with).find(fits).unwrap_or_else(|| with(Detail::Least))
}

/// A tool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Name {
    RunCommand,
    RunTests,
    Build,
    GetJob,
    GetJobLogs,
    GetFindingDetails,
    ListJobs,
    CancelJob,
    WorkerStatus,
    ListTemplates,
}

impl Name {
    /// In the order of the list.
    pub(crate) const ALL: [Self; 10] = [
        Self::RunCommand,
        Self::RunTests,
        Self::Build,
        Self::GetJob,
        Self::GetJobLogs,
        Self::GetFindingDetails,
        Self::ListJobs,
        Self::CancelJob,
        Self::WorkerStatus,
        Self::ListTemplates,
    ];

    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::RunCommand => "run_command",
            Self::RunTests => "run_tests",
            Self::Build => "build",
            Self::GetJob => "get_job",
            Self::GetJobLogs => "get_job_logs",
            Self::GetFindingDetails => "get_finding_details",
            Self::ListJobs => "list_jobs",
            Self::CancelJob => "cancel_job",
            Self::WorkerStatus => "worker_status",
            Self::ListTemplates => "list_templates",
        }
    }

    pub(crate) fn of(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.text() == text)
    }

    /// Returns true if the tool changes nothing.
    pub(crate) const fn is_read_only(self) -> bool {
        match self {
            Self::RunCommand | Self::RunTests | Self::Build | Self::CancelJob => false,
            Self::GetJob
            | Self::GetJobLogs
            | Self::GetFindingDetails
            | Self::ListJobs
            | Self::WorkerStatus
            | Self::ListTemplates => true,
        }
    }

    /// Returns true if the tool runs a job and waits for its end.
    pub(crate) const fn runs(self) -> bool {
        matches!(self, Self::RunCommand | Self::RunTests | Self::Build)
    }

    /// Returns the list entry of the tool.
    fn listing(self, choices: &Choices, detail: Detail) -> Tool {
        match self {
            Self::RunCommand => run_command::listing(choices, detail),
            Self::RunTests => run_tests::listing(choices, detail),
            Self::Build => build::listing(choices, detail),
            Self::GetJob => get_job::listing(choices, detail),
            Self::GetJobLogs => get_job_logs::listing(),
            Self::GetFindingDetails => get_finding_details::listing(),
            Self::ListJobs => list_jobs::listing(),
            Self::CancelJob => cancel_job::listing(),
            Self::WorkerStatus => worker_status::listing(),
            Self::ListTemplates => list_templates::listing(),
        }
    }

    /// Returns an example of valid arguments.
    const fn example(self) -> &'static str {
        match self {
            Self::RunCommand => r#"{"command":"cargo clippy","verbosity":"normal"}"#,
            Self::RunTests => r#"{"filter":"parser","verbosity":"minimal"}"#,
            Self::Build => r#"{"release":true,"labels":["os=macos"]}"#,
            Self::GetJob => r#"{"job_id":"0198c0de","wait_secs":50}"#,
            Self::GetJobLogs => r#"{"job_id":"0198c0de","grep":"error","context":2}"#,
            Self::GetFindingDetails => r#"{"job_id":"0198c0de","finding_id":"f1"}"#,
            Self::ListJobs => r#"{"state":"running","limit":20}"#,
            Self::CancelJob => r#"{"job_id":"0198c0de","reason":"not needed"}"#,
            Self::WorkerStatus | Self::ListTemplates => "{}",
        }
    }

    /// Runs the tool.
    pub(crate) async fn call(self, given: Option<JsonObject>, call: &Call) -> Result<Reply, ToolError> {
        let arguments = Arguments::new(given, self.example());
        match self {
            Self::RunCommand => run_command::call(arguments, call).await,
            Self::RunTests => run_tests::call(arguments, call).await,
            Self::Build => build::call(arguments, call).await,
            Self::GetJob => get_job::call(arguments, call).await,
            Self::GetJobLogs => get_job_logs::call(arguments, call).await,
            Self::GetFindingDetails => get_finding_details::call(arguments, call).await,
            Self::ListJobs => list_jobs::call(arguments, call).await,
            Self::CancelJob => cancel_job::call(arguments, call).await,
            Self::WorkerStatus => worker_status::call(arguments, call).await,
            Self::ListTemplates => list_templates::call(arguments, call),
        }
    }
}

#[cfg(test)]
mod tests;
