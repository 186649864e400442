//! `list_templates`: returns the output filters, built-in ones and those of the project.

use super::arguments::Arguments;
use super::schema::{self, Effect};
use super::{Call, Reply, ToolError};
use crate::render;
use rmcp::model::Tool;
use serde_json::json;

pub(super) fn listing() -> Tool {
    schema::tool(
        "list_templates",
        "Templates",
        "Lists the output filters that `template` takes.",
        Effect::Reads,
        schema::input(json!({}), &[]),
        None,
    )
}

pub(super) fn call(arguments: Arguments, call: &Call) -> Result<Reply, ToolError> {
    arguments.finish()?;
    let templates = call.project.templates();
    let file = templates.file().map(|file| file.display().to_string());
    let answer =
        render::templates(templates.list(), file.as_deref(), &templates.problems(), &call.list_budget());
    Ok(Reply::Answer(answer))
}
