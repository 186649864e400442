//! The history of tests.

use super::document::Refused;
use super::forms::{JobText, TestCursor};
use super::problem::Problem;
use super::{Caller, Query};
use crate::app_state::{internal, rfc3339};
use crate::test_history::{HistoryQuery, Point, Position, Scope, Test};
use axum::Json;
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::ids::JobId;
use buildpool_protocol::limits::NAME_BYTES_MAX;
use buildpool_protocol::spec::Reads;
use serde::{Deserialize, Serialize};
use std::time::Instant;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

/// Default and maximum number of tests in an answer.
const TESTS_LISTED: u32 = 50;
const TESTS_LISTED_MAX: u32 = 200;
/// Newest results that an answer shows of each test.
const RESULTS_SHOWN: usize = 20;
/// Maximum length of the name of a project, a branch or a worker, in bytes.
const NAMES_BYTES_MAX: usize = 8 * NAME_BYTES_MAX;

/// Which tests a list has. Several conditions must all hold.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct TestFilter {
    /// Only tests that passed and failed with the same tree, most failures first.
    #[serde(default)]
    flaky: bool,
    /// Only tests with a known duration, slowest first.
    #[serde(default)]
    slow: bool,
    /// Only tests whose newest result is a failure, newest failure first.
    #[serde(default)]
    failing: bool,
    /// Only tests of this project.
    project: Option<String>,
    /// Only results of this branch, as a snapshot named it.
    branch: Option<String>,
    /// Only results of this worker, by name.
    worker: Option<String>,
    /// `next_cursor` of an earlier answer to the same filter.
    #[param(value_type = Option<TestCursor>)]
    cursor: Option<String>,
    /// Maximum number of tests.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<u32>,
}

/// A part of the list of tests.
#[derive(Serialize, ToSchema)]
pub(super) struct Tests {
    tests: Vec<TestSummary>,
    /// `cursor` of the next part. Absent at the end of the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// A test of a command in a project.
#[derive(Serialize, ToSchema)]
pub(super) struct TestSummary {
    project: String,
    command: String,
    /// Name of the test, as its tool prints it.
    test: String,
    /// Stored results, at most 100.
    runs: u64,
    passed: u64,
    failed: u64,
    /// It passed and failed with the same tree, or passed only when its tool ran it again.
    flaky: bool,
    /// Failures in the runs of trees that were tested more than once.
    #[serde(skip_serializing_if = "Option::is_none")]
    flaky_failed: Option<u64>,
    /// Number of these runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    flaky_runs: Option<u64>,
    /// First failure since it passed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    failing_since: Option<Since>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_failed_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_p50_secs: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_p90_secs: Option<f64>,
    /// Median of the newest 5 durations divided by the median of the older ones: above 1 it became slower. Absent with
    /// fewer than 10 durations.
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_trend: Option<f64>,
    /// Newest results, newest last, at most 20.
    history: Vec<TestRunSummary>,
}

/// A job and its end.
#[derive(Serialize, ToSchema)]
pub(super) struct Since {
    #[schema(value_type = JobText)]
    job_id: String,
    at: String,
}

/// Result of a test in a job.
#[derive(Serialize, ToSchema)]
pub(super) struct TestRunSummary {
    #[schema(value_type = JobText)]
    job_id: String,
    at: String,
    /// `passed`, `failed` or `skipped`.
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_secs: Option<f64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    worker: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    branch: Option<String>,
}

fn job_id(bytes: [u8; 16]) -> String {
    JobId::from_uuid(Uuid::from_bytes(bytes)).to_string()
}

fn secs(ms: i64) -> f64 {
    ms as f64 / 1000.0
}

impl From<&Point> for TestRunSummary {
    fn from(point: &Point) -> Self {
        Self {
            job_id: job_id(point.job),
            at: rfc3339(point.at_ms),
            result: point.outcome.name(),
            duration_secs: point.duration_ms.map(secs),
            worker: point.worker.clone(),
            branch: point.branch.clone(),
        }
    }
}

impl From<Test> for TestSummary {
    fn from(Test { project, command, name, stats, points }: Test) -> Self {
        let first = points.len().saturating_sub(RESULTS_SHOWN);
        Self {
            project,
            command,
            test: name,
            runs: points.len() as u64,
            passed: stats.passed,
            failed: stats.failed,
            flaky: stats.flaky.is_some(),
            flaky_failed: stats.flaky.map(|flaky| flaky.failed),
            flaky_runs: stats.flaky.map(|flaky| flaky.runs),
            failing_since: stats
                .failing_since
                .map(|(job, at_ms)| Since { job_id: job_id(job), at: rfc3339(at_ms) }),
            last_failed_at: stats.last_failed_ms.map(rfc3339),
            duration_p50_secs: stats.p50_ms.map(secs),
            duration_p90_secs: stats.p90_ms.map(secs),
            duration_trend: stats.trend,
            history: points.iter().skip(first).map(TestRunSummary::from).collect(),
        }
    }
}

fn position(text: &str) -> Result<Position, Problem> {
    let parts = text
        .split_once(':')
        .and_then(|(value, test)| Some(Position { value: value.parse().ok()?, test: test.parse().ok()? }));
    parts.ok_or_else(|| {
        Problem::invalid(format!(
            "cursor: `{}` is not a `next_cursor` of an earlier answer",
            text.escape_debug()
        ))
    })
}

/// Lists tests with their last results, the most recently run first.
///
/// Results belong to a test by project, command and name. A token that reads its own jobs only gets the results of these.
#[utoipa::path(get, path = "/tests", tag = "tests", operation_id = "list_tests", params(TestFilter),
    responses((status = 200, body = Tests), Refused))]
pub(super) async fn list(caller: Caller, Query(filter): Query<TestFilter>) -> Result<Json<Tests>, Problem> {
    let TestFilter { flaky, slow, failing, project, branch, worker, cursor, limit } = filter;
    let limit = limit.unwrap_or(TESTS_LISTED);
    if !(1..=TESTS_LISTED_MAX).contains(&limit) {
        return Err(Problem::invalid(format!("limit: {limit}; valid are 1 to {TESTS_LISTED_MAX}")));
    }
    for (field, text) in [("project", &project), ("branch", &branch), ("worker", &worker)] {
        if let Some(length) = text.as_ref().map(String::len).filter(|length| *length > NAMES_BYTES_MAX) {
            let text = format!("{field}: {length} bytes; at most {NAMES_BYTES_MAX} are valid");
            return Err(Problem::invalid(text));
        }
    }
    let after = cursor.as_deref().map(position).transpose()?;
    caller.shared.rates.within(&caller.principal.name, Instant::now())?;
    let permit = caller.shared.request_limits.list(&caller.principal.name).await;
    let submitter = match caller.principal.only.reads {
        Reads::All => None,
        Reads::Own => Some(caller.principal.name.clone()),
    };
    let scope = Scope { submitter, branch, worker };
    let wanted = HistoryQuery { flaky, slow, failing, project, scope, after, limit: limit as usize };
    let tests = caller.shared.tests.clone();
    let read = tokio::task::spawn_blocking(move || {
        // The work goes on if its request is given up, and keeps the permit.
        let _permit = permit;
        tests.list(&wanted)
    })
    .await;
    let ended = || LinkError::new(ErrorCode::Unavailable, "the coordinator is shutting down; try again");
    let (tests, next) = read.map_err(|_| ended())?.map_err(internal)?;
    Ok(Json(Tests {
        tests: tests.into_iter().map(TestSummary::from).collect(),
        next_cursor: next.map(|Position { value, test }| format!("{value}:{test}")),
    }))
}
