//! Errors of tools. The messages contain the next step for the caller.

use super::arguments::ArgumentError;
use buildpool_client::project::ChooseError;
use buildpool_client::{ClientError, chain};
use buildpool_protocol::ErrorCode;
use buildpool_protocol::spec::SpecError;
use std::path::PathBuf;

/// Limit on the text of an error, in bytes. Clients cut longer texts.
const TEXT_BYTES_MAX: usize = 8_000;

/// A failed call. A failed build is not a failed call.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    /// Invalid arguments.
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    /// No command for `run_tests` or `build` was found.
    #[error(transparent)]
    Choose(#[from] ChooseError),
    /// The directory can't be used.
    #[error("`cwd`: {} can't be used: {reason}", .path.display())]
    Directory { path: PathBuf, reason: String },
    /// A field of the job spec exceeds a limit.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The snapshot could not be taken.
    #[error("the working tree could not be taken: {0}")]
    Snapshot(String),
    /// The pool failed. If there is a job, it continues.
    #[error("{}", pool_text(.error, .job.as_deref()))]
    Pool { error: ClientError, job: Option<String> },
    /// The pool is older than `stdin`.
    #[error(
        "`stdin` is not supported by this pool: its coordinator is older. Write the input to a file of the working tree and read it in the command, as in `tool < input.txt`"
    )]
    NoStdin,
    /// Too many concurrent calls.
    #[error(
        "this gateway already serves as many calls as it may, for this caller or for all callers; try again later"
    )]
    Busy,
    /// The pool did not answer in time.
    #[error("{}", late_text(.job.as_deref()))]
    Late { job: Option<String> },
    /// There is no job yet at the end of the wait.
    #[error(
        "the wait ended before there was a job: connecting to the pool, or taking and sending the working tree, continues; the same call returns its job, or the reason of a failure"
    )]
    Starting,
    /// The caller cancelled the call.
    #[error("{}", cancelled_text(.job.as_deref()))]
    Cancelled { job: Option<String> },
}

impl From<ClientError> for ToolError {
    fn from(error: ClientError) -> Self {
        Self::Pool { error, job: None }
    }
}

impl ToolError {
    /// Returns the text for the caller, short enough for every client.
    pub(crate) fn text(&self) -> String {
        let mut text = crate::render::printable(&in_parameters(&self.to_string()));
        if text.len() > TEXT_BYTES_MAX {
            text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
            text.push('…');
        }
        text
    }
}

/// The command line and the tools share messages. A flag becomes the parameter of a tool; advice without one is left out.
const FLAGS: [(&str, &str); 6] = [
    ("--cwd", "`cwd`"),
    (", or raise the limit (--max-snapshot-mb)", ""),
    ("`--verbosity minimal`", "`verbosity` minimal"),
    ("`buildpool jobs` lists the known jobs", "list_jobs lists the known jobs"),
    ("`buildpool jobs` lists them", "list_jobs lists them"),
    // The advice below is the same.
    ("; `buildpool job ID` lists its findings", ""),
];

fn in_parameters(text: &str) -> String {
    FLAGS.iter().fold(text.to_owned(), |text, (flag, parameter)| text.replace(flag, parameter))
}

fn pool_text(error: &ClientError, job: Option<&str>) -> String {
    let goes_on =
        job.map_or_else(String::new, |job| format!(". Job {job} goes on: get_job {{\"job_id\":\"{job}\"}}"));
    format!("{}{goes_on}. {}", chain(error), advice(error))
}

fn late_text(job: Option<&str>) -> String {
    let goes_on = job.map_or_else(String::new, |job| {
        format!("; job {job} goes on, get_job {{\"job_id\":\"{job}\"}} asks again")
    });
    format!(
        "the pool did not answer in time{goes_on}. The same call may work later; `buildpool doctor` finds out more"
    )
}

fn cancelled_text(job: Option<&str>) -> String {
    match job {
        Some(job) => format!(
            "the request was cancelled; job {job} goes on: cancel_job {{\"job_id\":\"{job}\"}} ends it"
        ),
        None => "the request was cancelled before a job was submitted".to_owned(),
    }
}

/// Returns the next step for the caller.
fn advice(error: &ClientError) -> &'static str {
    match error.code() {
        Some(ErrorCode::Evicted) => "Its log is not kept any more; run it again to see its output",
        Some(ErrorCode::Ambiguous) => "Give more of the id",
        Some(ErrorCode::NotFound) => "get_job returns the state of a job and its findings with their ids",
        Some(ErrorCode::Unsatisfiable) => "worker_status names the workers and their labels",
        Some(ErrorCode::Unauthorized | ErrorCode::Forbidden) => {
            "A person has to give this gateway another token"
        }
        Some(_) if error.is_worth_a_retry() => "The same call may work later",
        Some(_) => "The same call will fail again",
        None if error.is_worth_a_retry() => {
            "No job was lost: jobs that were accepted go on. The same call may work later; `buildpool doctor` finds out more"
        }
        None => "A person has to look at it: `buildpool doctor` finds out more",
    }
}

#[cfg(test)]
mod tests {
    use super::ToolError;
    use buildpool_client::ClientError;
    use buildpool_client::snapshot::SnapshotError;
    use buildpool_protocol::error::{ErrorCode, LinkError};

    #[test]
    fn an_unknown_id_leads_to_a_tool_and_not_to_a_command() {
        for (code, message, expected) in [
            (
                ErrorCode::UnknownJob,
                "job `0`: no job is known by this id; `buildpool jobs` lists the known jobs",
                "list_jobs",
            ),
            (ErrorCode::Invalid, "job `x`: no id; `buildpool jobs` lists the known jobs", "list_jobs"),
            (
                ErrorCode::NotFound,
                "job 0 has no finding `f9`; `buildpool job ID` lists its findings",
                "get_job",
            ),
        ] {
            let text = ToolError::from(ClientError::Refused(LinkError::new(code, message))).text();
            assert!(text.contains(expected) && !text.contains("buildpool"), "{text}");
        }
    }

    #[test]
    fn an_error_names_parameters_and_no_flags() {
        let path = std::path::PathBuf::from("/p");
        for error in [
            SnapshotError::TooBroad { path: path.clone() },
            SnapshotError::NoWorkTree { path },
            SnapshotError::TooLarge { bytes: 2_000_000, guard: 1_000_000, largest: Vec::new() },
        ] {
            let text = ToolError::Snapshot(error.to_string()).text();
            assert!(!text.contains("--"), "{text}");
        }
    }
}
