//! `build`: builds the project with a detected or configured command.

use super::arguments::Arguments;
use super::schema::{self, Choices, Detail, Effect};
use super::{Call, Reply, ToolError, run};
use buildpool_client::project::Goal;
use rmcp::model::Tool;
use serde_json::json;

pub(super) fn listing(choices: &Choices, detail: Detail) -> Tool {
    let more = json!({
        "target": schema::described("Package, target or scheme"),
        "release": schema::flag("Optimized; default false"),
        "command": schema::described("Default: detected or configured"),
    });
    schema::tool(
        "build",
        "Build",
        "Builds the project and returns the errors with file:line. Parameters as in run_command.",
        Effect::Runs,
        schema::run_input(choices, detail, more, &[], false),
        schema::job_output(),
    )
}

pub(super) async fn call(mut arguments: Arguments, call: &Call) -> Result<Reply, ToolError> {
    let target = arguments.text("target")?.filter(|target| !target.is_empty());
    let release = arguments.flag("release")?;
    let command = arguments.text("command")?.filter(|command| !command.trim().is_empty());
    if (target.is_some() || release) && command.is_some() {
        let reason = "can't be combined with `target` or `release`; put them into the command";
        return Err(arguments.wrong("command", reason).into());
    }
    let options = run::Options::take(arguments, call)?;
    let task =
        run::Task::of(call, &options, command, Goal::Build { target: target.as_deref(), release }).await?;
    run::run(call, options, task).await
}
