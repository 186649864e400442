//! Errors of tools. The messages contain the next step for the caller.

use super::arguments::ArgumentError;
use buildpool_client::project::ChooseError;
use buildpool_client::{ClientError, chain};
use buildpool_protocol::ErrorCode;
use buildpool_protocol::spec::SpecError;
use std::fmt;
use std::path::PathBuf;

/// Limit on the text of an error, in bytes. Clients cut longer texts.
const TEXT_BYTES_MAX: usize = 8_000;

/// A failed call. A failed build is not a failed call.
#[derive(Debug)]
pub(crate) enum ToolError {
    /// Invalid arguments.
    Argument(ArgumentError),
    /// No command for `run_tests` or `build` was found.
    Choose(ChooseError),
    /// The directory can't be used.
    Directory { path: PathBuf, reason: String },
    /// A field of the job spec exceeds a limit.
    Spec(SpecError),
    /// The snapshot could not be taken.
    Snapshot(String),
    /// The pool failed. If there is a job, it continues.
    Pool { error: ClientError, job: Option<String> },
    /// The pool is older than `stdin`.
    NoStdin,
    /// Too many concurrent calls.
    Busy,
    /// The pool did not answer in time.
    Late { job: Option<String> },
    /// There is no job yet at the end of the wait.
    Starting,
    /// The caller cancelled the call.
    Cancelled { job: Option<String> },
}

impl From<ArgumentError> for ToolError {
    fn from(error: ArgumentError) -> Self {
        Self::Argument(error)
    }
}

impl From<ChooseError> for ToolError {
    fn from(error: ChooseError) -> Self {
        Self::Choose(error)
    }
}

impl From<SpecError> for ToolError {
    fn from(error: SpecError) -> Self {
        Self::Spec(error)
    }
}

impl From<ClientError> for ToolError {
    fn from(error: ClientError) -> Self {
        Self::Pool { error, job: None }
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argument(error) => error.fmt(f),
            Self::Choose(error) => error.fmt(f),
            Self::Directory { path, reason } => {
                write!(f, "`cwd`: {} can't be used: {reason}", path.display())
            }
            Self::Spec(error) => error.fmt(f),
            Self::Snapshot(reason) => write!(f, "the working tree could not be taken: {reason}"),
            Self::Pool { error, job } => {
                f.write_str(&chain(error))?;
                if let Some(job) = job {
                    write!(f, ". Job {job} goes on: get_job {{\"job_id\":\"{job}\"}}")?;
                }
                write!(f, ". {}", advice(error))
            }
            Self::NoStdin => f.write_str(
                "`stdin` is not supported by this pool: its coordinator is older. Write the input to a file of the working \
                 tree and read it in the command, as in `tool < input.txt`",
            ),
            Self::Busy => f.write_str(
                "as many calls are under way already as this gateway takes, of this caller or of all; try again later",
            ),
            Self::Late { job } => {
                f.write_str("the pool did not answer in time")?;
                if let Some(job) = job {
                    write!(f, "; job {job} goes on, get_job {{\"job_id\":\"{job}\"}} asks again")?;
                }
                f.write_str(". The same call may work later; `buildpool doctor` finds out more")
            }
            Self::Starting => f.write_str(
                "the time is over before there is a job: reaching the pool, or taking and sending the working tree, goes on; \
                 the same call finds its job, or what went wrong",
            ),
            Self::Cancelled { job: Some(job) } => {
                write!(
                    f,
                    "the request was cancelled; job {job} goes on: cancel_job {{\"job_id\":\"{job}\"}} ends it"
                )
            }
            Self::Cancelled { job: None } => {
                f.write_str("the request was cancelled before a job was submitted")
            }
        }
    }
}

impl std::error::Error for ToolError {}

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
const FLAGS: [(&str, &str); 3] = [
    ("--cwd", "`cwd`"),
    (", or raise the limit (--max-snapshot-mb)", ""),
    ("`--verbosity minimal`", "`verbosity` minimal"),
];

fn in_parameters(text: &str) -> String {
    FLAGS.iter().fold(text.to_owned(), |text, (flag, parameter)| text.replace(flag, parameter))
}

/// Returns the next step for the caller.
fn advice(error: &ClientError) -> &'static str {
    match error.code() {
        Some(ErrorCode::UnknownJob) => "list_jobs names the jobs that are known",
        Some(ErrorCode::Evicted) => "Its log is not kept any more; run it again to see its output",
        Some(ErrorCode::Ambiguous) => "Give more of the id",
        Some(ErrorCode::Unsatisfiable) => "worker_status names the workers and their labels",
        Some(ErrorCode::NotFound) => "get_job lists the findings of a job with their ids",
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
    use buildpool_client::snapshot::SnapshotError;

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
