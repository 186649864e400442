//! `buildpool backup DIR`, `buildpool restore DIR`

use crate::arguments::{BackupArguments, DataPlace, Form, RestoreArguments};
use crate::commands::{coordinator, token};
use crate::failure::{Failure, REFUSED};
use crate::terminal;
use buildpool_coordinator::Config;
use buildpool_coordinator::backup;
use buildpool_coordinator::store::BackedUp;
use buildpool_protocol::shown::counted;
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

/// Limit on tokens that `restore` lists.
const TOKENS_SHOWN_MAX: usize = 20;

pub(crate) fn create(arguments: &BackupArguments) -> Result<ExitCode, Failure> {
    let data = config_of(&arguments.place)?.data_dir;
    let done =
        backup::create(&data, &arguments.directory).map_err(|error| Failure::from_error(REFUSED, &error))?;
    show(&done, &arguments.directory, arguments.form)
}

pub(crate) fn restore(arguments: &RestoreArguments) -> Result<ExitCode, Failure> {
    let config = config_of(&arguments.place)?;
    let data = &config.data_dir;
    let done =
        backup::restore(&arguments.directory, data).map_err(|error| Failure::from_error(REFUSED, &error))?;
    warn_of_tokens(&config)?;
    show(&done, data, arguments.form)
}

/// Warns that tokens which were revoked after the backup are valid again.
fn warn_of_tokens(config: &Config) -> Result<(), Failure> {
    let data = &config.data_dir;
    let tokens = token::open(config)?.list().map_err(|error| Failure::from_error(REFUSED, &error))?;
    let now = jiff::Timestamp::now();
    let in_force: Vec<_> = tokens.iter().filter(|token| token::is_in_force(token, now)).collect();
    if in_force.is_empty() {
        return Ok(());
    }
    let shown = in_force.iter().take(TOKENS_SHOWN_MAX);
    let shown: Vec<_> =
        shown.map(|token| format!("{} ({}, {})", token.name, token.role.name(), token.id)).collect();
    let rest = match in_force.len() - shown.len() {
        0 => String::new(),
        rest => format!(" and {rest} more (`buildpool token list --data-dir {}`)", data.display()),
    };
    terminal::warn(&format!(
        "these tokens count as in the backup, one that was revoked since then too: {}{rest}; end it again by `buildpool token revoke ID --data-dir {}`",
        shown.join(", "),
        data.display()
    ));
    Ok(())
}

fn config_of(place: &DataPlace) -> Result<Config, Failure> {
    let config = coordinator::configuration_of(place)?;
    match &config.store.url {
        None => Ok(config),
        Some(url) => {
            let objects = config.store.objects.as_ref().map_or_else(String::new, ToString::to_string);
            let text = format!(
                "the records are in {url}, not in a data directory; first `pg_dump --format=custom --file=pool.dump '{url}'`, then copy {objects} with your provider's tools, or enable versioning of the bucket; to restore: `pg_restore --clean --if-exists --dbname='{url}' pool.dump` while no coordinator runs"
            );
            Err(Failure::new(REFUSED, text))
        }
    }
}

fn show(done: &BackedUp, into: &Path, form: Form) -> Result<ExitCode, Failure> {
    if done.incomplete > 0 {
        let logs = counted(done.incomplete, "log");
        terminal::warn(&format!("{logs} could not be read completely"));
    }
    if form.json {
        terminal::print_json(&json!({
            "directory": into, "jobs": done.jobs, "logs": done.logs, "incomplete": done.incomplete,
        }))?;
    } else {
        let (jobs, logs) = (counted(done.jobs, "job"), counted(done.logs, "log file"));
        terminal::print(&format!("{jobs} and {logs} in {}\n", into.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
