//! `buildpool cancel ID`

use crate::arguments::CancelArguments;
use crate::failure::Failure;
use crate::settings;
use crate::terminal;
use buildpool_protocol::report::JobState;
use std::process::ExitCode;

pub(crate) fn run(arguments: &CancelArguments) -> Result<ExitCode, Failure> {
    super::block_on(async {
        let client = settings::connect(&arguments.pool).await?;
        let result = client.cancel(&arguments.id, &arguments.reason).await?;
        if arguments.form.json {
            terminal::print_json(&result)?;
        } else {
            let text = match result.verdict {
                Some(verdict) => format!("job {} is done: {verdict}\n", result.job_id),
                None if result.state == JobState::Queued => {
                    format!("job {} leaves the queue\n", result.job_id)
                }
                None => format!("job {} is being cancelled\n", result.job_id),
            };
            terminal::print(&text)?;
        }
        Ok(ExitCode::SUCCESS)
    })
}
