//! Jobs: submit, list, get, cancel, retry, findings.

use super::call::{self, REQUEST, ask, unexpected};
use super::document::{JobResultSchema, Refused};
use super::forms::{BuildText, FindingText, JobText, ListCursor, Name, RequestKey};
use super::new_job::NewJob;
use super::problem::Problem;
use super::{BASE, Caller, JsonBody, Path, Query, repeated};
use axum::Json;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use buildpool_protocol::client_link::{
    FromClient, JobCursor, JobQuery, JobSummary, Role, SubmitMessage, ToClient, View,
};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::ids::JobId;
use buildpool_protocol::limits::STDIN_TEXT_BYTES_MAX;
use buildpool_protocol::outcome::Seal;
use buildpool_protocol::report::{Finding, FindingSummary, JobResult, JobState, Verdict};
use buildpool_protocol::spec::{Verbosity, is_trace_context};
use buildpool_protocol::stdin::Stdin;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

/// Header of a request that must not take effect twice
/// (<https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/>).
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Header with the trace that the job continues.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Maximum length of an idempotency key.
const REQUEST_KEY_BYTES_MAX: usize = 255;

/// Default number of jobs in a list.
const JOBS_LISTED: u32 = 100;

/// Longest wait for the end of a job, in seconds.
const WAIT_SECS_MAX: u32 = 3_600;

/// Which jobs a list has.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct JobFilter {
    /// State of the job.
    state: Option<JobState>,
    /// Verdict of a finished job.
    verdict: Option<Verdict>,
    /// Name of the submitter.
    submitter: Option<String>,
    /// Name of the worker of its newest attempt.
    worker: Option<String>,
    /// A label that it requests: `KEY`, or `KEY=VALUE`.
    label: Option<String>,
    /// Text that its command contains.
    command: Option<String>,
    /// Text that its project contains.
    project: Option<String>,
    /// The build that it belongs to: `build-ID`.
    #[param(value_type = Option<BuildText>)]
    build: Option<String>,
    /// Created at this time or later (RFC 3339).
    #[param(format = "date-time")]
    since: Option<String>,
    /// Created before this time (RFC 3339).
    #[param(format = "date-time")]
    until: Option<String>,
    /// `next_cursor` of an earlier answer.
    #[param(value_type = Option<ListCursor>)]
    cursor: Option<String>,
    /// Maximum number of jobs.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// A part of the list of jobs, newest first.
#[derive(Serialize, ToSchema)]
pub(super) struct Jobs {
    jobs: Vec<JobSummary>,
    /// `cursor` of the next part. Absent at the end of the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// How a result is shown.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Shown {
    /// Amount of detail; that of the job if absent.
    verbosity: Option<Verbosity>,
    /// Waits for the end of the job, at most this many seconds.
    #[param(minimum = 0, maximum = 3600)]
    wait_secs: Option<u32>,
}

/// Why a job is cancelled.
#[derive(Deserialize, ToSchema, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Cancel {
    /// The result shows it.
    reason: String,
}

/// How a job is repeated.
#[derive(Deserialize, ToSchema, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Retry {
    /// Name of the worker that runs the new job. Any that fits if absent.
    #[schema(value_type = Option<Name>)]
    worker: Option<String>,
}

/// Findings of a job.
#[derive(Serialize, ToSchema)]
pub(super) struct Findings {
    /// Likely causes.
    tier_1_findings: Vec<Finding>,
    /// Other findings, one line each.
    other_findings: Vec<FindingSummary>,
}

fn time(field: &str, text: Option<&str>) -> Result<Option<i64>, Problem> {
    let parse = |text: &str| {
        let wrong = |error| {
            Problem::invalid(format!(
                "{field}: `{}` is not a time of RFC 3339, as in 2026-11-24T08:00:00Z: {error}",
                text.escape_debug()
            ))
        };
        text.parse::<jiff::Timestamp>().map(jiff::Timestamp::as_millisecond).map_err(wrong)
    };
    text.map(parse).transpose()
}

/// Lists jobs, newest first.
#[utoipa::path(get, operation_id = "list_jobs", path = "/jobs", tag = "jobs", params(JobFilter),
    responses((status = 200, body = Jobs), Refused))]
pub(super) async fn list(caller: Caller, Query(filter): Query<JobFilter>) -> Result<Json<Jobs>, Problem> {
    let cursor = filter.cursor.as_deref().map(|text| {
        let wrong = |error| Problem::invalid(format!("cursor: `{}`: {error}", text.escape_debug()));
        text.parse::<JobCursor>().map_err(wrong)
    });
    let query = JobQuery {
        state: filter.state,
        verdict: filter.verdict,
        build: filter.build.as_deref().map(super::pool::build_id).transpose()?,
        submitter: filter.submitter,
        worker: filter.worker,
        label: filter.label,
        command: filter.command,
        project: filter.project,
        since_ms: time("since", filter.since.as_deref())?,
        until_ms: time("until", filter.until.as_deref())?,
        cursor: cursor.transpose()?,
    };
    let limit = super::listed("limit", filter.limit.unwrap_or(JOBS_LISTED))?;
    match call::jobs(&caller, query, limit).await? {
        ToClient::Jobs { jobs, next_cursor, .. } => {
            Ok(Json(Jobs { jobs, next_cursor: next_cursor.map(|cursor| cursor.to_string()) }))
        }
        _ => Err(unexpected().into()),
    }
}

/// Submits a job. A repeated request with the same `Idempotency-Key` creates no second job.
#[utoipa::path(post, operation_id = "submit_job", path = "/jobs", tag = "jobs", request_body = NewJob,
    params(("idempotency-key" = Option<RequestKey>, Header,
            description = "The same key of the same token is the same job; another body with the key is refused"),
        ("traceparent" = Option<String>, Header, description = "The trace that the job continues (W3C Trace Context)")),
    responses(
        (status = 201, description = "The job is stored", body = JobResultSchema, headers(("location" = String))),
        (status = 200, description = "An earlier request with this key had created it", body = JobResultSchema),
        Refused))]
pub(super) async fn submit(
    caller: Caller,
    headers: HeaderMap,
    JsonBody(mut job): JsonBody<NewJob>,
) -> Result<Response, Problem> {
    // The code of the link refuses the submit of a reader, so nothing is stored for it.
    let stdin = job.stdin.take().filter(|_| caller.principal.role != Role::Read);
    if let Some(length) = stdin.as_ref().map(String::len).filter(|length| *length > STDIN_TEXT_BYTES_MAX) {
        return Err(Problem::invalid(format!(
            "stdin: {length} bytes; at most {STDIN_TEXT_BYTES_MAX} are valid"
        )));
    }
    let mut submit = Box::new(job.message(&caller, key(&headers)?, trace(&headers)).await?);
    let Some(text) = stdin else {
        let (job, status) = submitted(&caller, submit).await?;
        return state(&caller, job, status).await;
    };
    let (inputs, new) = (caller.shared.inputs.clone(), submit.job);
    submit.spec.stdin = Some(Stdin { seal: Some(stored(&caller, new, &text)?) });
    let answer = submitted(&caller, submit).await;
    if !matches!(answer, Ok((job, _)) if job == new) {
        inputs.discard(new);
    }
    let (job, status) = answer?;
    state(&caller, job, status).await
}

/// Submits a job, or finds the one that an earlier request with the same key and the same body created.
async fn submitted(caller: &Caller, submit: Box<SubmitMessage>) -> Result<(JobId, StatusCode), Problem> {
    let sent = submit.client_request_id.clone().map(|key| (key, submit.spec.clone()));
    let (job, status) = created(caller, FromClient::Submit { request: REQUEST, submit }).await?;
    if let Some((key, spec)) = sent.filter(|_| status == StatusCode::OK) {
        repeated::check(caller, &key, job, &spec).await?;
    }
    Ok((job, status))
}

/// Stores the standard input of a job.
fn stored(caller: &Caller, job: JobId, text: &str) -> Result<Seal, LinkError> {
    let (inputs, submitter) = (&caller.shared.inputs, &caller.principal.name);
    let full = |reason| LinkError::new(ErrorCode::Exhausted, format!("stdin: {reason}"));
    inputs.has_room(submitter, text.len() as u64).map_err(full)?;
    tokio::task::block_in_place(|| inputs.store(job, submitter, text)).map_err(|error| {
        tracing::error!(%job, %error, "the standard input of a job can't be stored");
        let text = format!("the coordinator can't store the standard input: {error}; see its log");
        LinkError::new(ErrorCode::Internal, text)
    })
}

/// Returns the caller's trace. An invalid header begins a new trace, as its specification requires
/// (<https://www.w3.org/TR/trace-context/>).
fn trace(headers: &HeaderMap) -> Option<String> {
    let mut values = headers.get_all(TRACEPARENT).iter();
    let only = values.next().filter(|_| values.next().is_none())?;
    only.to_str().ok().filter(|text| is_trace_context(text)).map(str::to_owned)
}

fn key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get(&IDEMPOTENCY_KEY) else { return Ok(None) };
    // `to_str` alone would also allow spaces and tabs.
    let is_valid = |text: &&str| {
        (1..=REQUEST_KEY_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    let text = value.to_str().ok().filter(is_valid).ok_or_else(|| {
        let text =
            format!("idempotency-key: 1 to {REQUEST_KEY_BYTES_MAX} visible ASCII characters are valid");
        Problem::invalid(text)
    })?;
    Ok(Some(text.to_owned()))
}

/// Sends a message that creates a job, and answers with the state of the job.
async fn accepted(caller: &Caller, message: FromClient) -> Result<Response, Problem> {
    let (job, status) = created(caller, message).await?;
    state(caller, job, status).await
}

/// Sends a message that creates a job. Returns the job, and whether it is a new one as status.
async fn created(caller: &Caller, message: FromClient) -> Result<(JobId, StatusCode), Problem> {
    match ask(caller, message).await.map_err(Problem::unusable)? {
        ToClient::Accepted { job, reattached: false, .. } => Ok((job, StatusCode::CREATED)),
        ToClient::Accepted { job, .. } => Ok((job, StatusCode::OK)),
        _ => Err(unexpected().into()),
    }
}

/// Answers with the state of a job that was submitted.
async fn state(caller: &Caller, job: JobId, status: StatusCode) -> Result<Response, Problem> {
    let result = call::job(caller, job.to_string(), View::default(), Duration::ZERO).await?;
    let location = [(header::LOCATION, format!("{BASE}/jobs/{job}"))];
    Ok((status, location, Json(result.to_json())).into_response())
}

/// Returns the state and result of a job.
#[utoipa::path(get, operation_id = "get_job", path = "/jobs/{id}", tag = "jobs",
    params(("id" = JobText, Path, description = "The id, or a unique prefix of it"), Shown),
    responses((status = 200, body = JobResultSchema), Refused))]
pub(super) async fn get(
    caller: Caller,
    Path(id): Path<String>,
    Query(shown): Query<Shown>,
) -> Result<Response, Problem> {
    let wait = shown.wait_secs.unwrap_or_default();
    if wait > WAIT_SECS_MAX {
        return Err(Problem::invalid(format!("wait_secs: {wait}; valid are 0 to {WAIT_SECS_MAX}")));
    }
    let view = View { verbosity: shown.verbosity, ..View::default() };
    let result = call::job(&caller, id, view, Duration::from_secs(wait.into())).await?;
    Ok(Json(result.to_json()).into_response())
}

/// Cancels a job. A finished job does not change.
#[utoipa::path(post, operation_id = "cancel_job", path = "/jobs/{id}/cancel", tag = "jobs", request_body = Option<Cancel>,
    params(("id" = JobText, Path, description = "The id, or a unique prefix of it")),
    responses((status = 200, body = JobResultSchema), Refused))]
pub(super) async fn cancel(
    caller: Caller,
    Path(id): Path<String>,
    JsonBody(Cancel { reason }): JsonBody<Cancel>,
) -> Result<Response, Problem> {
    match ask(&caller, FromClient::Cancel { request: REQUEST, job: id, reason }).await? {
        ToClient::Job { result, .. } => Ok(Json(result.to_json()).into_response()),
        _ => Err(unexpected().into()),
    }
}

/// Submits the command and the files of a job again, as a new job.
#[utoipa::path(post, operation_id = "retry_job", path = "/jobs/{id}/retry", tag = "jobs", request_body = Option<Retry>,
    params(("id" = JobText, Path, description = "The id, or a unique prefix of it"),
        ("idempotency-key" = Option<RequestKey>, Header, description = "The same key of the same token is the same job")),
    responses(
        (status = 201, description = "The new job is stored", body = JobResultSchema, headers(("location" = String))),
        (status = 200, description = "An earlier request with this key had created it", body = JobResultSchema),
        Refused))]
pub(super) async fn retry(
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    JsonBody(Retry { worker }): JsonBody<Retry>,
) -> Result<Response, Problem> {
    let (new, client_request_id) = (JobId::from_uuid(Uuid::now_v7()), key(&headers)?);
    accepted(&caller, FromClient::Retry { request: REQUEST, job: id, new, client_request_id, worker }).await
}

/// Returns the findings of a job.
#[utoipa::path(get, operation_id = "list_findings", path = "/jobs/{id}/findings", tag = "jobs",
    params(("id" = JobText, Path, description = "The id, or a unique prefix of it"), Shown),
    responses((status = 200, body = Findings), Refused))]
pub(super) async fn findings(
    caller: Caller,
    Path(id): Path<String>,
    Query(shown): Query<Shown>,
) -> Result<Json<Findings>, Problem> {
    let verbosity = Some(shown.verbosity.unwrap_or(Verbosity::Normal));
    let view = View { verbosity, for_json: true, ..View::default() };
    let JobResult { tier_1_findings, other_findings, .. } =
        call::job(&caller, id, view, Duration::ZERO).await?;
    Ok(Json(Findings { tier_1_findings, other_findings }))
}

/// Returns a finding of a finished job, whole and uncompressed.
#[utoipa::path(get, operation_id = "get_finding", path = "/jobs/{id}/findings/{finding}", tag = "jobs",
    params(("id" = JobText, Path, description = "The id, or a unique prefix of it"), ("finding" = FindingText, Path)),
    responses((status = 200, body = Finding), Refused))]
pub(super) async fn finding(
    caller: Caller,
    Path((job, finding)): Path<(String, String)>,
) -> Result<Json<Finding>, Problem> {
    match ask(&caller, FromClient::Finding { request: REQUEST, job, finding }).await? {
        ToClient::Finding { finding, .. } => Ok(Json(*finding)),
        _ => Err(unexpected().into()),
    }
}
