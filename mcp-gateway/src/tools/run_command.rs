//! `run_command`: any command.

use super::arguments::Arguments;
use super::schema::{self, Choices, Detail, Effect};
use super::{Call, Reply, ToolError, run};
use buildpool_protocol::limits::STDIN_TEXT_BYTES_MAX;
use buildpool_protocol::spec::Purpose;
use bytes::Bytes;
use rmcp::model::Tool;
use serde_json::json;

pub(super) fn listing(choices: &Choices, detail: Detail) -> Tool {
    schema::tool(
        "run_command",
        "Run command",
        "Runs a shell command on the uncommitted working tree and returns the verdict, errors with file:line, and \
         output. If it runs longer than wait_secs, returns state=running and a job_id: call get_job.",
        Effect::Runs,
        schema::run_input(
            choices,
            detail,
            json!({
                "command": schema::described("For sh -c"),
                "stdin": schema::described("Standard input, at most 1 MiB"),
            }),
            &["command"],
            true,
        ),
        schema::job_output(),
    )
}

pub(super) async fn call(mut arguments: Arguments, call: &Call) -> Result<Reply, ToolError> {
    let command = arguments.required_text("command")?;
    let stdin = arguments.text("stdin")?;
    if let Some(text) = stdin.as_ref().filter(|text| text.len() > STDIN_TEXT_BYTES_MAX) {
        let reason = format!(
            "has {} bytes; at most {STDIN_TEXT_BYTES_MAX} (1 MiB) are valid. Write longer input to a file of the working tree \
             and read it in the command, as in `tool < input.txt`",
            text.len()
        );
        return Err(arguments.wrong("stdin", reason).into());
    }
    let options = run::Options::take(arguments, call)?;
    let directory = options.directory.clone();
    let task = run::Task {
        command,
        directory,
        reports: Vec::new(),
        chosen: None,
        purpose: Purpose::Command,
        filter: None,
        stdin: stdin.map(Bytes::from),
    };
    run::run(call, options, task).await
}
