//! `buildpool man DIR`

use crate::arguments::{Arguments, ManArguments};
use crate::failure::{Failure, REFUSED};
use clap::CommandFactory;
use std::process::ExitCode;

/// Writes a page for the program and one for each subcommand. Existing files are replaced.
pub(crate) fn run(arguments: &ManArguments) -> Result<ExitCode, Failure> {
    let directory = &arguments.directory;
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Arguments::command(), directory))
        .map_err(|error| {
            let operation = format!("the manual pages can't be written into {}", directory.display());
            Failure::while_doing(REFUSED, operation, &error)
        })?;
    Ok(ExitCode::SUCCESS)
}
