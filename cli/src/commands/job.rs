//! `buildpool job ID`

use crate::arguments::JobArguments;
use crate::failure::Failure;
use crate::settings;
use crate::terminal;
use buildpool_protocol::client_link::View;
use std::process::ExitCode;

pub(crate) fn run(arguments: &JobArguments) -> Result<ExitCode, Failure> {
    super::block_on(async {
        let client = settings::connect(&arguments.pool).await?;
        let view = View { verbosity: arguments.verbosity, ..View::default() };
        let result = client.job(&arguments.id, view, arguments.wait).await?;
        if arguments.form.json {
            terminal::print_json(&result)?;
        } else {
            terminal::print(&buildpool_digest::text(&result))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}
