//! `buildpool cancel ID`

use crate::arguments::CancelArguments;
use crate::failure::Failure;
use crate::settings;
use crate::terminal;
use buildpool_gateway::builds;
use buildpool_protocol::report::{JobResult, JobState};
use buildpool_protocol::spec::Verbosity;
use std::process::ExitCode;

pub(crate) fn run(arguments: &CancelArguments) -> Result<ExitCode, Failure> {
    super::block_on(async {
        let client = settings::connect(&arguments.pool).await?;
        if let Some(build) = builds::named(&arguments.id) {
            let results = builds::cancel(&client, build, &arguments.reason).await?;
            if arguments.form.json {
                let manifest = builds::manifest(&client, build, Verbosity::default(), None).await?;
                terminal::print_json(&manifest.structured)?;
            } else {
                terminal::print(&results.iter().map(line).collect::<String>())?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        let result = client.cancel(&arguments.id, &arguments.reason).await?;
        if arguments.form.json {
            terminal::print_json(&result.to_json())?;
        } else {
            terminal::print(&line(&result))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn line(result: &JobResult) -> String {
    let job = result.shown_id();
    match result.verdict {
        Some(verdict) => format!("job {job} is done: {verdict}\n"),
        None if result.state == JobState::Queued => format!("job {job} leaves the queue\n"),
        None => format!("job {job} is being cancelled\n"),
    }
}
