//! The log of a job by line numbers.

use super::document::Refused;
use super::forms::JobText;
use super::problem::Problem;
use super::{Caller, Path, Query};
use crate::logtext::{self, LINES_MAX, Line};
use axum::Json;
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::JobState;
use serde::{Deserialize, Serialize};
use std::time::Instant;
use utoipa::{IntoParams, ToSchema};

/// Default number of lines in an answer.
const LINES_LISTED: u32 = 500;
/// Limit on the number of offsets in a request.
const OFFSETS_MAX: usize = 100;

/// Which lines an answer has.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Range {
    /// Number of the attempt; the newest if absent.
    #[param(minimum = 1)]
    attempt: Option<u32>,
    /// First line, from 1. If absent, the last lines.
    #[param(minimum = 1)]
    from: Option<u64>,
    /// Maximum number of lines; 0 returns only the number of all lines.
    #[param(minimum = 0, maximum = 2000)]
    count: Option<u32>,
    /// Byte offsets in a stream, `stdout:OFFSET` or `stderr:OFFSET`, separated by commas, at most 100: `places` has the
    /// line of each.
    #[param(value_type = Option<Offsets>)]
    at: Option<String>,
}

/// Byte offsets in streams.
#[derive(ToSchema)]
#[schema(value_type = String, pattern = "^(stdout|stderr):[0-9]{1,15}(,(stdout|stderr):[0-9]{1,15}){0,99}$")]
pub(super) struct Offsets(#[expect(dead_code, reason = "only its schema is used")] String);

/// Lines of a log.
#[derive(Serialize, ToSchema)]
pub(super) struct Lines {
    /// State of the job. The log of a job that is not done may grow.
    state: JobState,
    /// Number of the attempt; 0 if no attempt has begun.
    attempt: u32,
    /// Number of all lines of the log.
    total: u64,
    /// Number of the first line in `lines`, from 1.
    from: u64,
    /// The lines, both streams in the order of the output.
    lines: Vec<Line>,
    /// The line of each offset in `at`; null if the log has no such byte.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    places: Vec<Option<u64>>,
}

/// The parameters of a search.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Search {
    /// Number of the attempt; the newest if absent.
    #[param(minimum = 1)]
    attempt: Option<u32>,
    /// A regular expression, as for `grep` of `logs`; `(?i)` at its begin ignores case.
    grep: String,
}

/// Lines that match a pattern.
#[derive(Serialize, ToSchema)]
pub(super) struct Found {
    /// State of the job. The log of a job that is not done may grow.
    state: JobState,
    /// Number of the attempt; 0 if no attempt has begun.
    attempt: u32,
    /// Number of all lines of the log.
    total: u64,
    /// Number of matching lines.
    count: u64,
    /// Their numbers, from 1, at most the first 10,000.
    lines: Vec<u64>,
}

/// Returns lines of a log by their numbers.
///
/// A line has bytes of one stream: it ends with its newline, or where the other stream continues. An answer has at most
/// 1 MiB of text, so it may have fewer lines than requested.
#[utoipa::path(get, operation_id = "get_job_lines", path = "/jobs/{id}/lines", tag = "jobs",
    params(("id" = JobText, Path, description = "The id, or a unique prefix of it"), Range),
    responses((status = 200, body = Lines), Refused))]
pub(super) async fn get(
    caller: Caller,
    Path(job): Path<String>,
    Query(range): Query<Range>,
) -> Result<Json<Lines>, Problem> {
    caller.shared.rates.within(&caller.principal.name, Instant::now())?;
    let count = range.count.unwrap_or(LINES_LISTED);
    if count > LINES_MAX {
        return Err(Problem::invalid(format!("count: {count}; valid are 0 to {LINES_MAX}")));
    }
    if range.from == Some(0) {
        return Err(Problem::invalid("from: 0; the first line is 1".to_owned()));
    }
    let offsets = range.at.as_deref().map(offsets).transpose()?.unwrap_or_default();
    let job = caller.shared.resolve(&caller.principal, &job)?;
    let read = move |index: &logtext::LineIndex, reader: &mut _, total: u64| {
        let from = range.from.map_or(total.saturating_sub(count.into()), |from| from - 1);
        let lines = if count > 0 && from < total { index.lines(reader, from, count)? } else { Vec::new() };
        let places = offsets.iter().map(|(stream, offset)| index.line_at(reader, *stream, *offset));
        Ok((from + 1, lines, places.collect::<Result<Vec<_>, _>>()?))
    };
    let (log, (from, lines, places)) =
        logtext::numbered(&caller.shared, &caller.principal.name, job, range.attempt, read).await?;
    Ok(Json(Lines {
        state: log.state,
        attempt: log.attempt,
        total: log.total,
        from: from.max(1),
        lines,
        places: places.into_iter().map(|line| line.map(|line| line + 1)).collect(),
    }))
}

/// Searches a log, and returns the numbers of the lines that match.
#[utoipa::path(get, operation_id = "search_job_lines", path = "/jobs/{id}/matches", tag = "jobs",
    params(("id" = JobText, Path, description = "The id, or a unique prefix of it"), Search),
    responses((status = 200, body = Found), Refused))]
pub(super) async fn search(
    caller: Caller,
    Path(job): Path<String>,
    Query(Search { attempt, grep }): Query<Search>,
) -> Result<Json<Found>, Problem> {
    caller.shared.rates.within(&caller.principal.name, Instant::now())?;
    let job = caller.shared.resolve(&caller.principal, &job)?;
    let (log, found) = logtext::matching(&caller.shared, &caller.principal.name, job, attempt, &grep)
        .await
        .map_err(Problem::unusable)?;
    Ok(Json(Found {
        state: log.state,
        attempt: log.attempt,
        total: log.total,
        count: found.count,
        lines: found.lines,
    }))
}

fn offsets(text: &str) -> Result<Vec<(Stream, u64)>, Problem> {
    let wrong = || {
        let text = text.escape_debug();
        Problem::invalid(format!(
            "at: `{text}`; valid are up to {OFFSETS_MAX} of `stdout:OFFSET` and `stderr:OFFSET`, separated by commas"
        ))
    };
    let parse = |one: &str| {
        let (stream, offset) = one.split_once(':')?;
        let stream = Stream::ALL.into_iter().find(|known| known.name() == stream)?;
        Some((stream, offset.parse().ok()?))
    };
    let all: Option<Vec<_>> = text.split(',').take(OFFSETS_MAX + 1).map(parse).collect();
    all.filter(|all| all.len() <= OFFSETS_MAX).ok_or_else(wrong)
}
