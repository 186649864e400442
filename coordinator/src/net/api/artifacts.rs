//! Artifacts of a job.

use super::document::Refused;
use super::forms::{FileBytes, JobText};
use super::problem::Problem;
use super::{Caller, Path, call};
use crate::transfer;
use axum::Json;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use buildpool_protocol::client_link::View;
use buildpool_protocol::error::ErrorCode;
use buildpool_protocol::report::ArtifactEntry;
use serde::Serialize;
use std::time::{Duration, Instant};
use tower::ServiceExt;
use tower_http::services::ServeFile;
use utoipa::ToSchema;

/// Artifacts of a job.
#[derive(Serialize, ToSchema)]
pub(super) struct Artifacts {
    artifacts: Vec<ArtifactEntry>,
}

/// Lists the artifacts of a job.
#[utoipa::path(get, operation_id = "list_artifacts", path = "/jobs/{id}/artifacts", tag = "artifacts",
    params(("id" = JobText, Path, description = "The id, or a unique prefix of it")),
    responses((status = 200, body = Artifacts), Refused))]
pub(super) async fn list(caller: Caller, Path(id): Path<String>) -> Result<Json<Artifacts>, Problem> {
    let result = call::job(&caller, id, View::default(), Duration::ZERO).await?;
    Ok(Json(Artifacts { artifacts: result.artifacts }))
}

/// Returns the bytes of an artifact. `Range` selects a part of it.
#[utoipa::path(get, operation_id = "get_artifact", path = "/jobs/{id}/artifacts/{path}", tag = "artifacts",
    params(("id" = JobText, Path, description = "The id, or a unique prefix of it"),
        ("path" = String, Path, description = "The path, as listed")),
    responses(
        (status = 200, content_type = "application/octet-stream", body = FileBytes),
        (status = 206, description = "The part that `Range` selects", content_type = "application/octet-stream",
            body = FileBytes),
        (status = 416, description = "`Range` selects nothing", content_type = "application/problem+json", body = super::problem::Details),
        Refused))]
pub(super) async fn get(
    caller: Caller,
    Path((job, path)): Path<(String, String)>,
    mut request: Request,
) -> Result<Response, Problem> {
    caller.shared.rates.within(&caller.principal.name, Instant::now())?;
    let job = caller.shared.resolve(&caller.principal, &job)?;
    let file = transfer::artifact_file(&caller.shared, job, &path)?;
    if request.headers().get(header::RANGE).is_some_and(|range| !is_one_range(range)) {
        request.headers_mut().remove(header::RANGE);
    }
    let range = request.headers().get(header::RANGE).cloned();
    let served = ServeFile::new(file).oneshot(request).await;
    let mut response = served.unwrap_or_else(|error| match error {}).into_response();
    if response.status() == StatusCode::RANGE_NOT_SATISFIABLE {
        let whole = response.headers().get(header::CONTENT_RANGE);
        let problem = out_of_range(range.as_ref(), whole);
        let whole = whole.map(|whole| [(header::CONTENT_RANGE, whole.clone())]);
        return Ok((whole, problem).into_response());
    }
    if response.status().is_success() {
        // The bytes come from a job, so a browser must not take them for a page.
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    }
    Ok(response)
}

/// Returns true for a `Range` with one range of bytes. Others are ignored, as RFC 9110 (14.2) requires for an unknown unit
/// and allows for several ranges, for a malformed one, and for numbers with leading zeros.
fn is_one_range(range: &HeaderValue) -> bool {
    let Some((from, to)) = range.to_str().ok().and_then(|text| text.strip_prefix("bytes=")?.split_once('-'))
    else {
        return false;
    };
    let is_number = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_digit()) && (text.len() == 1 || !text.starts_with('0'))
    };
    let is_reversed = matches!((from.parse::<u64>(), to.parse::<u64>()), (Ok(from), Ok(to)) if from > to);
    is_number(from) && is_number(to) && !(from.is_empty() && to.is_empty()) && !is_reversed
}

/// Returns the problem of a `Range` that selects nothing. `whole` is the header with the length of the file: `bytes */LENGTH`.
fn out_of_range(range: Option<&HeaderValue>, whole: Option<&HeaderValue>) -> Problem {
    let text = |value: Option<&HeaderValue>| {
        value.and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    let (range, whole) = (text(range), text(whole));
    let length = whole.rsplit('/').next().unwrap_or_default();
    Problem::new(
        StatusCode::RANGE_NOT_SATISFIABLE,
        ErrorCode::Invalid,
        format!(
            "range: `{}`: the artifact has {length} bytes; valid is bytes=FROM-TO below that",
            range.escape_debug()
        ),
    )
}
