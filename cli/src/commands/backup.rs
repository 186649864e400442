//! `buildpool backup DIR`, `buildpool restore DIR`

use crate::arguments::{BackupArguments, DataPlace, Form, RestoreArguments};
use crate::commands::coordinator;
use crate::failure::{Failure, REFUSED};
use crate::terminal;
use buildpool_coordinator::backup;
use buildpool_coordinator::store::BackedUp;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) fn create(arguments: &BackupArguments) -> Result<ExitCode, Failure> {
    let data = data_of(&arguments.place)?;
    let done = backup::create(&data, &arguments.directory).map_err(|error| Failure::of(REFUSED, &error))?;
    show(&done, &arguments.directory, arguments.form)
}

pub(crate) fn restore(arguments: &RestoreArguments) -> Result<ExitCode, Failure> {
    let data = data_of(&arguments.place)?;
    let done = backup::restore(&arguments.directory, &data).map_err(|error| Failure::of(REFUSED, &error))?;
    show(&done, &data, arguments.form)
}

fn data_of(place: &DataPlace) -> Result<PathBuf, Failure> {
    coordinator::data_directory(place.config.as_deref(), place.data_dir.clone())
}

fn show(done: &BackedUp, into: &Path, form: Form) -> Result<ExitCode, Failure> {
    if done.incomplete > 0 {
        terminal::warn(&format!("{} logs could not be read to their ends", done.incomplete));
    }
    if form.json {
        terminal::print_json(&json!({
            "directory": into, "jobs": done.jobs, "logs": done.logs, "incomplete": done.incomplete,
        }))?;
    } else {
        terminal::print(&format!("{} jobs and {} log files in {}\n", done.jobs, done.logs, into.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
