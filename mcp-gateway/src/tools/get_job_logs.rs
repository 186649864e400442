//! `get_job_logs`: returns a part of a job's output, also while it runs.

use super::arguments::Arguments;
use super::schema::{self, Effect};
use super::{Call, Reply, ToolError};
use crate::render::{self, LogCall};
use buildpool_protocol::client_link::{LogCursor, LogQuery, StreamChoice};
use rmcp::model::Tool;
use serde_json::{Map, Value, json};
use std::str::FromStr;

/// Limit on the lines that one call requests.
const LINES_MAX: u64 = 100_000;
/// Minimum space for log text in an answer, in characters.
const TEXT_CHARS_MIN: usize = 2_000;
/// Limit on context lines around a match.
const CONTEXT_MAX: u64 = 100;

pub(super) fn listing() -> Tool {
    schema::tool(
        "get_job_logs",
        "Logs",
        "Returns the log of a job, also while it runs. Call get_job first, then grep or tail.",
        Effect::Reads,
        schema::input(
            json!({
                "job_id": schema::job_id(),
                "stream": {"enum": ["stdout", "stderr", "both", "interleaved"], "default": "both"},
                "tail": schema::integer("Last lines"),
                "cursor": schema::described("Next page"),
                "offset": schema::integer("First line, from 0"),
                "limit": schema::integer("Lines from offset"),
                "grep": schema::described("Regex: only matching lines"),
                "context": schema::integer("Lines around each match; default 0"),
            }),
            &["job_id"],
        ),
        None,
    )
}

/// A [`StreamChoice`] with an error that lists the valid values.
struct Stream(StreamChoice);

impl FromStr for Stream {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(match text {
            "stdout" => StreamChoice::Stdout,
            "stderr" => StreamChoice::Stderr,
            "both" => StreamChoice::Both,
            "interleaved" => StreamChoice::Interleaved,
            other => {
                return Err(format!(
                    "{other:?} is not a stream; valid are stdout, stderr, both, interleaved"
                ));
            }
        }))
    }
}

pub(super) async fn call(mut arguments: Arguments, call: &Call) -> Result<Reply, ToolError> {
    let job = arguments.required_text("job_id")?;
    let stream = arguments.word::<Stream>("stream")?.map(|stream| stream.0).unwrap_or_default();
    let grep = arguments.text("grep")?.filter(|grep| !grep.is_empty());
    let context = arguments.number("context", 0, CONTEXT_MAX)?.unwrap_or(0);
    let mut query = LogQuery {
        job,
        stream,
        tail: arguments.number("tail", 1, LINES_MAX)?,
        cursor: arguments.word::<LogCursor>("cursor")?,
        offset: arguments.number("offset", 0, u64::MAX)?,
        limit: arguments.number("limit", 1, LINES_MAX)?,
        grep,
        context: u32::try_from(context).unwrap_or_default(),
        ..LogQuery::default()
    };
    let starts = [query.tail.is_some(), query.cursor.is_some(), query.offset.is_some()];
    if starts.into_iter().filter(|is_given| *is_given).count() > 1 {
        return Err(arguments
            .wrong("tail", "can't be combined with `cursor` or `offset`: each sets the start")
            .into());
    }
    let too_long = arguments
        .wrong("grep", "or `job_id` is so long that the answer, which repeats it, has no room for text");
    arguments.finish()?;
    let budget = call.list_budget();
    let is_tail =
        query.cursor.is_none() && query.offset.is_none() && query.limit.is_none() && query.grep.is_none();
    let is_tail = is_tail || query.tail.is_some();
    let mut log_call = LogCall { again: again(&query), is_tail };
    let room = log_call.room(stream, &budget);
    if room < TEXT_CHARS_MIN {
        return Err(too_long.into());
    }
    // Both streams share the client's limit. A pool that does not support a shared limit uses half
    // of it for each stream.
    query.characters_together = Some(room);
    query.characters_max = Some(if stream == StreamChoice::Both { room / 2 } else { room });
    let client = call.client().await?;
    let answer = client.logs(query).await?;
    log_call.again.insert("job_id".to_owned(), json!(answer.shown_id()));
    Ok(Reply::Answer(render::logs(answer, &log_call, &budget)))
}

/// Returns the arguments that the next call repeats.
fn again(query: &LogQuery) -> Map<String, Value> {
    let mut arguments = Map::from_iter([("job_id".to_owned(), json!(query.job))]);
    let mut repeat = |name: &str, value: Value| arguments.insert(name.to_owned(), value);
    if query.stream != StreamChoice::Both {
        repeat("stream", json!(query.stream));
    }
    if let Some(grep) = &query.grep {
        repeat("grep", json!(grep));
        if query.context > 0 {
            repeat("context", json!(query.context));
        }
    }
    if let Some(limit) = query.limit {
        repeat("limit", json!(limit));
    }
    arguments
}
