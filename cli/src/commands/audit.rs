//! `buildpool audit`

use super::token::{files, open};
use crate::arguments::AuditArguments;
use crate::failure::{Failure, REFUSED};
use crate::settings;
use crate::terminal::{self, one_line, table::Table};
use buildpool_protocol::client_link::AuditEntry;
use std::process::ExitCode;

pub(crate) fn run(arguments: &AuditArguments) -> Result<ExitCode, Failure> {
    super::block_on(async {
        let entries = match files(&arguments.place)? {
            None => settings::connect_to_running(&arguments.place.pool).await?.audit(arguments.limit).await?,
            Some(config) => open(&config)?
                .audit_tail(arguments.limit)
                .map_err(|error| Failure::from_error(REFUSED, &error))?,
        };
        if arguments.form.json {
            terminal::print_json(&entries)?;
        } else {
            terminal::print(&table(&entries))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Formats one line for each entry; line breaks in entries are removed.
fn table(entries: &[AuditEntry]) -> String {
    let mut table = Table::new(["WHEN", "WHO", "FROM", "WHAT", "ON", "DETAIL"]);
    for entry in entries {
        table.row([
            entry.at.as_str().into(),
            one_line(&entry.actor).into(),
            one_line(entry.peer.as_deref().unwrap_or_default()).into(),
            one_line(&entry.action).into(),
            one_line(&entry.subject).into(),
            one_line(&entry.detail).into(),
        ]);
    }
    table.text()
}
