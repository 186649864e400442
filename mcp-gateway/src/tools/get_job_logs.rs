//! `get_job_logs`: a part of what a job wrote, also while it runs.

use super::arguments::Arguments;
use super::schema::{self, Effect};
use super::{Call, Reply, ToolError};
use crate::render;
use buildpool_protocol::client_link::{Cursor, LogQuery, StreamChoice};
use rmcp::model::Tool;
use serde_json::{Map, Value, json};
use std::str::FromStr;

/// Most lines that one call asks for.
const LINES_MAX: u64 = 100_000;
/// Most lines around a match.
const CONTEXT_MAX: u64 = 100;

pub(super) fn listing() -> Tool {
    schema::tool(
        "get_job_logs",
        "Job logs",
        "A job's log. Try get_job first; prefer grep or tail.",
        Effect::Reads,
        schema::input(
            json!({
                "job_id": schema::text(),
                "stream": {"type": "string", "enum": ["stdout", "stderr", "both", "interleaved"]},
                "tail": schema::integer(),
                "cursor": schema::text(),
                "offset": schema::integer(),
                "limit": schema::integer(),
                "grep": schema::described("Regex"),
                "context": schema::integer(),
            }),
            &["job_id"],
        ),
        None,
    )
}

/// A word for [`StreamChoice`] that says what is valid.
struct Stream(StreamChoice);

impl FromStr for Stream {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(match text {
            "stdout" => StreamChoice::Stdout,
            "stderr" => StreamChoice::Stderr,
            "both" => StreamChoice::Both,
            "interleaved" => StreamChoice::Interleaved,
            other => return Err(format!("{other:?} is none; valid are stdout, stderr, both, interleaved")),
        }))
    }
}

pub(super) async fn call(mut arguments: Arguments, call: &Call) -> Result<Reply, ToolError> {
    let job = arguments.required_text("job_id")?;
    let stream = arguments.word::<Stream>("stream")?.map(|stream| stream.0).unwrap_or_default();
    let grep = arguments.text("grep")?.filter(|grep| !grep.is_empty());
    let context = arguments.number("context", 0, CONTEXT_MAX)?.unwrap_or(0);
    let mut query = LogQuery {
        job: job.clone(),
        stream,
        tail: arguments.number("tail", 1, LINES_MAX)?,
        cursor: arguments.word::<Cursor>("cursor")?,
        offset: arguments.number("offset", 0, u64::MAX)?,
        limit: arguments.number("limit", 1, LINES_MAX)?,
        grep: grep.clone(),
        context: u32::try_from(context).unwrap_or_default(),
        ..LogQuery::default()
    };
    let starts = [query.tail.is_some(), query.cursor.is_some(), query.offset.is_some()];
    if starts.into_iter().filter(|is_given| *is_given).count() > 1 {
        return Err(arguments
            .wrong("tail", "can't be given together with `cursor` or `offset`: each says where to begin")
            .into());
    }
    arguments.finish()?;
    // Two streams share what the client takes.
    let characters = render::logs_characters(&call.client_name);
    query.characters_max = Some(if stream == StreamChoice::Both { characters / 2 } else { characters });
    let client = call.client().await?;
    let answer = client.logs(query).await?;
    Ok(Reply::Answer(render::logs(answer, &again(&job, stream, grep, context), &call.list_budget())))
}

/// The arguments that the next call repeats.
fn again(job: &str, stream: StreamChoice, grep: Option<String>, context: u64) -> Map<String, Value> {
    let mut arguments = Map::from_iter([("job_id".to_owned(), json!(job))]);
    if stream != StreamChoice::Both {
        arguments.insert("stream".to_owned(), json!(stream));
    }
    if let Some(grep) = grep {
        arguments.insert("grep".to_owned(), json!(grep));
        if context > 0 {
            arguments.insert("context".to_owned(), json!(context));
        }
    }
    arguments
}
