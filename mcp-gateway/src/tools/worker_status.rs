//! `worker_status`: returns the workers with their labels, slots and jobs.

use super::arguments::Arguments;
use super::schema::{self, Effect};
use super::{Call, Reply, ToolError};
use crate::render;
use rmcp::model::Tool;
use serde_json::json;

pub(super) fn listing() -> Tool {
    schema::tool(
        "worker_status",
        "Workers",
        "Lists the workers: labels, slots, running jobs.",
        Effect::Reads,
        schema::input(json!({}), &[]),
        None,
    )
}

pub(super) async fn call(arguments: Arguments, call: &Call) -> Result<Reply, ToolError> {
    arguments.finish()?;
    let workers = call.client().await?.workers().await?;
    call.project.saw_workers(&workers);
    Ok(Reply::Answer(render::workers(&workers, &call.list_budget())))
}
