//! The web page of the pool: workers, queued and running jobs, and results.
//!
//! The page contains no data itself. It requests data with a token, like any client. It only reads,
//! and reading a result here does not count as delivery.

use super::queries::{self, Page};
use super::router::{Authenticated, READERS, Sender, authenticate, refuse};
use crate::auth::Principal;
use crate::logtext;
use crate::result;
use crate::runtime::Wanted;
use crate::shared::{Shared, VERSION};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderName, header};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json, Router};
use buildpool_protocol::client_link::{JobQuery, LogCursor, LogQuery, Progress, StreamChoice, View};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::ids::BuildId;
use buildpool_protocol::limits::JOBS_PAGE_MAX;
use buildpool_protocol::report::{JobResult, JobState};
use buildpool_protocol::spec::Verbosity;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Instant;

/// Default number of jobs in a list.
const JOBS_LISTED: u32 = 100;

/// Content security policy: loads nothing from other origins, sends nothing to them, and forbids
/// embedding in other pages.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const PROTECTION: [(HeaderName, &str); 4] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
];

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/", get(|| file("text/html; charset=utf-8", include_str!("page/page.html"))))
        .route("/page.js", get(|| file("text/javascript; charset=utf-8", include_str!("page/page.js"))))
        .route("/page.css", get(|| file("text/css; charset=utf-8", include_str!("page/page.css"))))
        .route("/v1/page/pool", get(pool))
        .route("/v1/page/jobs/{job}", get(job))
        .route("/v1/page/jobs/{job}/log", get(log))
        .layer(map_response(async |response: Response| (PROTECTION, response).into_response()))
}

async fn file(media_type: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, media_type)], text).into_response()
}

/// Query parameters of a list of jobs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    state: Option<JobState>,
    build: Option<String>,
    limit: Option<u32>,
}

/// Query parameters for a part of a log: the last lines, the lines after a cursor, or else all
/// lines from the first. Without `attempt`, the newest one is used.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    attempt: Option<u32>,
    tail: Option<u64>,
    cursor: Option<LogCursor>,
}

#[derive(Serialize)]
struct Pool {
    version: &'static str,
    /// Reason why no new job is accepted now.
    refuses_jobs: Option<String>,
    workers: Vec<buildpool_protocol::client_link::WorkerSummary>,
    jobs: Vec<buildpool_protocol::client_link::JobSummary>,
    /// Whether older jobs exist.
    has_more: bool,
}

#[derive(Serialize)]
struct Job {
    result: JobResult,
    /// Present until the job has ended.
    progress: Option<Progress>,
}

async fn pool(
    State(shared): State<Arc<Shared>>,
    sender: Sender,
    listed: Result<Query<Listed>, QueryRejection>,
) -> Response {
    answer(&shared, &sender, async |principal| {
        let Query(listed) = listed.map_err(invalid)?;
        let build = listed.build.as_deref().map(build).transpose()?;
        let limit = listed.limit.unwrap_or(JOBS_LISTED).clamp(1, JOBS_PAGE_MAX as u32);
        let query = JobQuery { state: listed.state, build, ..JobQuery::default() };
        let wanted = Wanted { query, limit: limit as usize };
        let _turn = shared.turns.list(&principal.name).await;
        let Page { jobs, next_cursor } = queries::jobs(&shared, &principal, wanted).await?;
        // An empty list would be wrong for an unknown build: it could mean success or no result
        // yet.
        if let (Some(build), None, true) = (build, listed.state, jobs.is_empty()) {
            let text = format!("no job of {} is known", build.request_id());
            return Err(LinkError::new(ErrorCode::UnknownJob, text));
        }
        Ok(Pool {
            version: VERSION,
            refuses_jobs: shared.refuses_jobs().map(|why| why.message),
            workers: queries::workers(&shared, &principal, 0).await?.0,
            jobs,
            has_more: next_cursor.is_some(),
        })
    })
    .await
}

async fn job(State(shared): State<Arc<Shared>>, sender: Sender, Path(job): Path<String>) -> Response {
    answer(&shared, &sender, async |principal| {
        let job = shared.resolve(&principal, &job)?;
        let Some(live) = shared.runtime.live(job).await else {
            let view = View { verbosity: Some(Verbosity::Normal), ..View::default() };
            let finished = shared.finished(job)?;
            return Ok(Job { result: queries::rendered(&shared, &finished, &view).await, progress: None });
        };
        let progress = Some(result::progress(&live, &shared.connections));
        Ok(Job { result: queries::live(&shared, &live).await, progress })
    })
    .await
}

async fn log(
    State(shared): State<Arc<Shared>>,
    sender: Sender,
    Path(job): Path<String>,
    part: Result<Query<Part>, QueryRejection>,
) -> Response {
    answer(&shared, &sender, async |principal| {
        let Query(Part { attempt, tail, cursor }) = part.map_err(invalid)?;
        let offset = (tail.is_none() && cursor.is_none()).then_some(0);
        let stream = StreamChoice::Interleaved;
        let job = shared.resolve(&principal, &job)?;
        logtext::answer(
            &shared,
            job,
            &LogQuery { attempt, stream, tail, cursor, offset, ..LogQuery::default() },
        )
        .await
    })
    .await
}

/// Answers a request if its token may read and the rate limit allows it.
async fn answer<T: Serialize>(
    shared: &Shared,
    sender: &Sender,
    read: impl AsyncFnOnce(Principal) -> Result<T, LinkError>,
) -> Response {
    let allowed = authenticate(shared, sender, &READERS).and_then(|principal| {
        shared.rates.within(&principal.name, Instant::now())?;
        Ok(principal)
    });
    let answered = match allowed {
        Ok(principal) => read(principal).await,
        Err(error) if error.code == ErrorCode::Unauthorized => return refuse(&error),
        Err(error) => Err(error),
    };
    let response = match answered {
        Ok(value) => Json(value).into_response(),
        Err(error) => refuse(&error),
    };
    (Extension(Authenticated), response).into_response()
}

/// Parses the id of a build.
pub(super) fn build(text: &str) -> Result<BuildId, LinkError> {
    BuildId::from_request_id(text).ok_or_else(|| {
        let text = format!("build: `{}` is no build; valid is build-ID", text.escape_debug());
        LinkError::new(ErrorCode::Invalid, text)
    })
}

fn invalid(rejection: QueryRejection) -> LinkError {
    LinkError::new(ErrorCode::Invalid, rejection.body_text())
}
