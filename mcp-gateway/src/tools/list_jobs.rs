//! `list_jobs`: returns the newest jobs.

use super::arguments::Arguments;
use super::schema::{self, Effect};
use super::{Call, Reply, ToolError};
use crate::render::{self, JobsQuery, JobsRest};
use buildpool_client::JobsPage;
use buildpool_protocol::client_link::{JobCursor, JobQuery};
use buildpool_protocol::{JobState, limits};
use rmcp::model::Tool;
use serde_json::json;
use std::str::FromStr;

/// Default number of jobs.
const LIMIT: u64 = 20;
const STATES: [JobState; 5] =
    [JobState::Queued, JobState::Preparing, JobState::Running, JobState::Sealing, JobState::Done];

pub(super) fn listing() -> Tool {
    schema::tool(
        "list_jobs",
        "Jobs",
        "Lists jobs, the newest first.",
        Effect::Reads,
        schema::input(
            json!({
                "state": {"enum": STATES.map(JobState::name), "description": "Default: all"},
                "limit": schema::integer("Jobs; default 20"),
                "cursor": schema::described("Next page"),
            }),
            &[],
        ),
        None,
    )
}

/// A [`JobState`] with an error that lists the valid values.
struct State(JobState);

impl FromStr for State {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let state = STATES.into_iter().find(|state| state.name() == text);
        state.map(Self).ok_or_else(|| {
            format!("{text:?} is not a state; valid are {}", STATES.map(JobState::name).join(", "))
        })
    }
}

pub(super) async fn call(mut arguments: Arguments, call: &Call) -> Result<Reply, ToolError> {
    let state = arguments.word::<State>("state")?.map(|state| state.0);
    let limit = arguments.number("limit", 1, limits::JOBS_PAGE_MAX as u64)?.unwrap_or(LIMIT);
    let cursor = arguments.word::<JobCursor>("cursor")?;
    arguments.finish()?;
    let client = call.client().await?;
    let query = JobQuery { state, cursor, ..JobQuery::default() };
    // Request one more job, to find out whether there are more.
    let one_more = u32::try_from(limit + 1).unwrap_or(u32::MAX);
    let JobsPage { mut jobs, next_cursor } = client.query_jobs(query, one_more).await?;
    let rest = match next_cursor {
        _ if jobs.len() as u64 > limit => JobsRest::Older,
        Some(cursor) => JobsRest::NotSearched(cursor),
        None => JobsRest::Nothing,
    };
    jobs.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    let query = JobsQuery { state, limit, rest };
    Ok(Reply::Answer(render::jobs(&jobs, &query, &call.list_budget())))
}
