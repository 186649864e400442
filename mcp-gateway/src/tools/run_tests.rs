//! `run_tests`: tests the project with a detected or configured command.

use super::arguments::Arguments;
use super::schema::{self, Choices, Detail, Effect};
use super::{Call, Reply, ToolError, run};
use buildpool_client::project::Goal;
use rmcp::model::Tool;
use serde_json::json;

pub(super) fn listing(choices: &Choices, detail: Detail) -> Tool {
    let more = json!({
        "filter": schema::described("Test name, as failed_tests has it"),
        "command": schema::described("Default: detected or configured"),
    });
    schema::tool(
        "run_tests",
        "Run tests",
        "Runs the project's tests and returns the counts and each failed test with its cause. Parameters as in run_command.",
        Effect::Runs,
        schema::run_input(choices, detail, more, &[], false),
        schema::job_output(),
    )
}

pub(super) async fn call(mut arguments: Arguments, call: &Call) -> Result<Reply, ToolError> {
    let filter = arguments.text("filter")?.filter(|filter| !filter.is_empty());
    let command = arguments.text("command")?.filter(|command| !command.trim().is_empty());
    if filter.is_some() && command.is_some() {
        return Err(arguments
            .wrong("filter", "goes with the detected command only; put it into `command`")
            .into());
    }
    let options = run::Options::take(arguments, call)?;
    let task = run::Task::of(call, &options, command, Goal::Test { filter: filter.as_deref() }).await?;
    run::run(call, options, task).await
}
