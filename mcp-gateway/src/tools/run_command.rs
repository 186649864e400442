//! `run_command`: any command.

use super::arguments::Arguments;
use super::schema::{self, Choices, Effect};
use super::{Call, Reply, ToolError, run};
use rmcp::model::Tool;
use serde_json::json;

pub(super) fn listing(choices: &Choices) -> Tool {
    schema::tool(
        "run_command",
        "Run command",
        "Run a shell command on the build pool with the working tree as it is. Gives verdict, findings and a short digest; \
         after wait_secs a job_id for get_job.",
        Effect::Runs,
        schema::run_input(choices, json!({"command": schema::text()}), &["command"], true),
        schema::job_output(),
    )
}

pub(super) async fn call(mut arguments: Arguments, call: &Call) -> Result<Reply, ToolError> {
    let command = arguments.required_text("command")?;
    let options = run::Options::take(arguments, call)?;
    let directory = options.directory.clone();
    let task = run::Task { command, directory, reports: Vec::new(), chosen: None };
    run::run(call, options, task).await
}
