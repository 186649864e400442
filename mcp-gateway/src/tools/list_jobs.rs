//! `list_jobs`: returns the newest jobs.

use super::arguments::Arguments;
use super::schema::{self, Effect};
use super::{Call, Reply, ToolError};
use crate::render::{self, JobsQuery};
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
    // Request one more job, to find out whether there are more.
    let page = (limit + 1).min(limits::JOBS_PAGE_MAX as u64);
    let query = JobQuery { state, cursor, ..JobQuery::default() };
    let mut jobs = client.query_jobs(query, u32::try_from(page).unwrap_or(u32::MAX)).await?;
    // A list of the greatest length may end exactly with its page: then the next one is empty.
    let has_more = jobs.len() as u64 > limit || page == limit && jobs.len() as u64 == limit;
    jobs.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    let query = JobsQuery { state, limit, has_more };
    Ok(Reply::Answer(render::jobs(&jobs, &query, &call.list_budget())))
}
