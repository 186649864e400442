//! The log of a job: as bytes, as text in JSON, or as events.

use super::call::{FollowedPart, Following, REQUEST, ask, unexpected};
use super::document::Refused;
use super::forms::{JobText, LogCursor, LogPlace};
use super::problem::Problem;
use super::{Caller, Path, Query};
use crate::logtext;
use crate::store::each_chunk;
use axum::Json;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use buildpool_protocol::client_link::{Cursor, FromClient, LogAnswer, LogQuery, StreamChoice, ToClient};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::output::{CHUNK_HEADER_BYTES, ChunkKind, Gap};
use bytes::Bytes;
use futures_util::stream;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::Instant;
use utoipa::{IntoParams, ToSchema};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const EVENTS: &str = "text/event-stream";
const BYTES: &str = "text/plain";

/// The part of a log.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct LogParameters {
    /// Streams: `stdout`, `stderr`, `both` (default), or `interleaved` (one text in the order of the output).
    #[serde(default)]
    stream: Option<StreamChoice>,
    /// Only this many last lines: of each stream in JSON, of all requested output otherwise.
    tail: Option<u64>,
    /// `next_cursor` of an earlier answer. Only for JSON.
    #[param(value_type = Option<LogCursor>)]
    cursor: Option<String>,
    /// First line, from 0. Only for JSON.
    offset: Option<u64>,
    /// Maximum number of lines. Only for JSON.
    limit: Option<u64>,
    /// Only lines that match this regular expression. Only for JSON.
    grep: Option<String>,
    /// Lines of context around each match.
    #[param(minimum = 0, maximum = 100)]
    context: Option<u32>,
    /// Continues while the log grows, until the job is done. Only for bytes and events; events follow in any case.
    #[serde(default)]
    follow: bool,
    /// Number of the attempt; the newest if absent.
    #[param(minimum = 1)]
    attempt: Option<u32>,
}

/// A chunk of output, in an event `output`.
#[derive(Serialize, ToSchema)]
pub(super) struct Output {
    /// `stdout` or `stderr`.
    stream: &'static str,
    /// Position of the first byte in its stream.
    offset: u64,
    /// The bytes, if they are UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The bytes in base64, if they are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    /// Length of a gap in the log instead of bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    gap_bytes: Option<u64>,
}

/// Returns the log of a job.
///
/// `Accept` chooses the form. `text/plain` has the bytes as the process wrote them. `application/json` (default) has a
/// part of the log as text, up to 40,000 characters a stream, and the cursor of the rest. `text/event-stream` has one
/// event `output` a chunk, `attempt` before the output of a further attempt, and `end`; the id of an event continues a
/// broken connection as `Last-Event-ID`.
#[utoipa::path(get, operation_id = "get_job_log", path = "/jobs/{id}/logs", tag = "jobs",
    params(("id" = JobText, Path, description = "The id, or a unique prefix of it"), LogParameters,
        ("last-event-id" = Option<LogPlace>, Header, description = "Id of the last event that was received")),
    responses(
        (status = 200, content((LogAnswer = "application/json"), (String = "text/plain"), (Output = "text/event-stream"))),
        Refused))]
pub(super) async fn get(
    caller: Caller,
    Path(job): Path<String>,
    headers: HeaderMap,
    Query(wanted): Query<LogParameters>,
) -> Result<Response, Problem> {
    let last = headers.get(&LAST_EVENT_ID).and_then(|value| value.to_str().ok());
    let last = last.filter(|text| !text.is_empty());
    let cursor = last.map(str::parse::<Cursor>).transpose();
    let cursor = cursor.map_err(|error| Problem::invalid(format!("last-event-id: {error}")))?;
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let accepts = |media_type: &str| accept.split(',').any(|one| one.trim().starts_with(media_type));
    let stream = wanted.stream.unwrap_or_default();
    if !accepts(EVENTS) && !accepts(BYTES) {
        return text(&caller, job, stream, wanted).await;
    }
    let only_json = [
        ("cursor", wanted.cursor.is_some()),
        ("offset", wanted.offset.is_some()),
        ("limit", wanted.limit.is_some()),
        ("grep", wanted.grep.is_some()),
        ("context", wanted.context.is_some()),
    ];
    if let Some((field, _)) = only_json.iter().find(|(_, is_given)| *is_given) {
        return Err(Problem::unusable(LinkError::new(
            ErrorCode::Invalid,
            format!("{field}: valid only with `Accept: application/json`"),
        )));
    }
    let cursor = match wanted.tail {
        Some(lines) if cursor.is_none() => {
            caller.shared.rates.within(&caller.principal.name, Instant::now())?;
            let job = caller.shared.resolve(&caller.principal, &job)?;
            logtext::tail_start(
                &caller.shared,
                &caller.principal.name,
                job,
                wanted.attempt,
                lines,
                stream.only(),
            )
            .await
            .map_err(Problem::unusable)?
        }
        _ => cursor,
    };
    let follow = FromClient::Follow {
        request: REQUEST,
        job,
        cursor,
        attempt: wanted.attempt,
        to_end: !wanted.follow && !accepts(EVENTS),
        tail: None,
        stream,
    };
    let mut following = Following::begin(caller, follow).await?;
    // The first part shows if the job and the attempt exist, so it decides the status.
    let first = following.next().await.map_err(Problem::unusable)?;
    let reader = LogParts {
        following,
        stream,
        from: cursor,
        attempt: wanted.attempt,
        next: VecDeque::from([first]),
        is_over: false,
    };
    if accepts(EVENTS) {
        return Ok(Sse::new(events(reader)).keep_alive(KeepAlive::default()).into_response());
    }
    let plain = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    Ok((plain, Body::from_stream(bytes(reader))).into_response())
}

async fn text(
    caller: &Caller,
    job: String,
    stream: StreamChoice,
    wanted: LogParameters,
) -> Result<Response, Problem> {
    let LogParameters { tail, offset, limit, grep, context, attempt, .. } = wanted;
    let cursor = wanted.cursor.as_deref().map(str::parse).transpose();
    let query = LogQuery {
        job,
        attempt,
        stream,
        tail,
        cursor: cursor.map_err(|error| Problem::invalid(format!("cursor: {error}")))?,
        offset,
        limit,
        grep,
        context: context.unwrap_or_default(),
        ..LogQuery::default()
    };
    match ask(caller, FromClient::Logs { request: REQUEST, query }).await.map_err(Problem::unusable)? {
        ToClient::Logs { logs, .. } => Ok(Json(LogAnswer { short_id: None, ..*logs }).into_response()),
        _ => Err(unexpected().into()),
    }
}

/// Reads a followed log part by part.
struct LogParts {
    following: Following,
    stream: StreamChoice,
    /// Start of the requested part. Its chunk may begin earlier.
    from: Option<Cursor>,
    /// Attempt of the current chunks, if it is known.
    attempt: Option<u32>,
    next: VecDeque<FollowedPart>,
    is_over: bool,
}

impl LogParts {
    async fn next(&mut self) -> Option<Result<FollowedPart, LinkError>> {
        if self.is_over {
            return None;
        }
        let part = match self.next.pop_front() {
            Some(part) => Ok(part),
            None => self.following.next().await,
        };
        self.is_over = matches!(part, Ok(FollowedPart::End(_)) | Err(_));
        if matches!(part, Ok(FollowedPart::Attempt(_))) {
            self.from = None;
        }
        Some(part)
    }

    /// Returns the bytes at the beginning of the chunk at this position that are not requested.
    fn before_start(&self, position: u64) -> usize {
        self.from.filter(|from| from.position == position).map_or(0, |from| from.within as usize)
    }
}

/// Returns the selected bytes. A gap in the log is a line that states its length.
fn bytes(reader: LogParts) -> impl stream::Stream<Item = Result<Bytes, LinkError>> {
    stream::unfold(reader, async |mut reader| {
        let part = reader.next().await?;
        let bytes = part.map(|part| match part {
            FollowedPart::Chunks { position, bytes } => selected(&reader, position, &bytes),
            FollowedPart::Attempt(_) | FollowedPart::End(_) => Bytes::new(),
        });
        Some((bytes, reader))
    })
}

fn selected(reader: &LogParts, position: u64, chunks: &[u8]) -> Bytes {
    let mut text = Vec::with_capacity(chunks.len());
    let _all: ControlFlow<()> = each_chunk(chunks, |at, header, payload| {
        let before = reader.before_start(position + at as u64);
        match header.kind {
            _ if !reader.stream.wants(header.stream) => {}
            ChunkKind::Data => text.extend_from_slice(payload.get(before..).unwrap_or_default()),
            ChunkKind::Gap => {
                let missing = missing_bytes(payload);
                let line = format!("\n[buildpool: {missing} bytes of the log are missing here]\n");
                text.extend_from_slice(line.as_bytes());
            }
        }
        ControlFlow::Continue(())
    });
    text.into()
}

/// Returns the length of a gap.
fn missing_bytes(payload: &[u8]) -> u64 {
    serde_json::from_slice::<Gap>(payload).map_or(0, |gap| gap.missing_bytes)
}

/// Returns one event for each chunk.
fn events(reader: LogParts) -> impl stream::Stream<Item = Result<Event, axum::Error>> {
    let state = (reader, VecDeque::<Result<Event, axum::Error>>::new());
    stream::unfold(state, async |(mut reader, mut ready)| {
        while ready.is_empty() {
            match reader.next().await? {
                Ok(FollowedPart::Attempt(attempt)) => {
                    reader.attempt = Some(attempt);
                    ready.push_back(Ok(Event::default().event("attempt").data(attempt.to_string())));
                }
                Ok(FollowedPart::End(cursor)) => {
                    ready.push_back(Ok(Event::default().event("end").id(cursor.to_string()).data("")));
                }
                Ok(FollowedPart::Chunks { position, bytes }) => {
                    ready.extend(outputs(&reader, position, &bytes));
                }
                Err(error) => ready.push_back(Event::default().event("error").json_data(&error)),
            }
        }
        ready.pop_front().map(|event| (event, (reader, ready)))
    })
}

fn outputs(reader: &LogParts, position: u64, chunks: &[u8]) -> Vec<Result<Event, axum::Error>> {
    let mut events = Vec::new();
    let _all: ControlFlow<()> = each_chunk(chunks, |at, header, payload| {
        if reader.stream.wants(header.stream) {
            let before = reader.before_start(position + at as u64).min(payload.len());
            let after = position + (at + CHUNK_HEADER_BYTES + payload.len()) as u64;
            let payload = &payload[before..];
            let text = std::str::from_utf8(payload).ok().filter(|_| header.kind == ChunkKind::Data);
            let is_binary = text.is_none() && header.kind == ChunkKind::Data;
            let output = Output {
                stream: header.stream.name(),
                offset: header.offset + before as u64,
                text: text.map(str::to_owned),
                base64: is_binary.then(|| BASE64_STANDARD.encode(payload)),
                gap_bytes: (header.kind == ChunkKind::Gap).then(|| missing_bytes(payload)),
            };
            let attempt = reader.attempt.unwrap_or(header.attempt.number);
            let cursor = Cursor { attempt, position: after, within: 0 };
            events.push(Event::default().event("output").id(cursor.to_string()).json_data(&output));
        }
        ControlFlow::Continue(())
    });
    events
}
