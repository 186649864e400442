//! `buildpool coordinator migrate`

use super::configuration;
use crate::arguments::MigrateArguments;
use crate::failure::{Failure, REFUSED, USAGE};
use crate::terminal;
use buildpool_coordinator::migrate::{self, Moved};
use buildpool_coordinator::store::{ObjectsUrl, Server, StoreUrl};
use serde_json::{Map, json};
use std::path::Path;
use std::process::ExitCode;

pub(super) fn run(arguments: &MigrateArguments) -> Result<ExitCode, Failure> {
    let config = configuration(arguments.config.as_deref(), arguments.from_data_dir.clone())?;
    let given = arguments.objects.as_deref().map(str::parse::<ObjectsUrl>).transpose();
    let objects = given
        .map_err(|reason| Failure::new(USAGE, format!("--objects: {reason}")))?
        .or(config.store.objects.clone())
        .ok_or_else(|| {
            Failure::new(USAGE, "--objects: missing; name the shared objects, as s3://BUCKET/PREFIX")
        })?;
    let moved = if let Some(directory) = arguments.to.strip_prefix("file://") {
        let server = config.store.server().map_err(|error| Failure::from_error(USAGE, &error))?;
        let server = server.ok_or_else(|| {
            Failure::new(
                USAGE,
                "--config: missing, or the file has no `store.url`; a move to a directory needs it as its source",
            )
        })?;
        migrate::to_directory(&server, &objects, Path::new(directory))
    } else {
        let url: StoreUrl = arguments.to.parse().map_err(|error| {
            Failure::new(
                USAGE,
                format!("--to: {error}; valid are postgres://USER@HOST/DATABASE and file:///DIRECTORY"),
            )
        })?;
        let url = url.with_password(config.store.password_file.as_deref());
        let server = url.and_then(Server::new).map_err(|error| Failure::from_error(USAGE, &error))?;
        migrate::to_server(&config.data_dir, &server, &objects)
    };
    show(&moved.map_err(|error| Failure::from_error(REFUSED, &error))?, arguments)
}

fn show(moved: &Moved, arguments: &MigrateArguments) -> Result<ExitCode, Failure> {
    let Moved { rows, objects, bytes, damaged_logs } = moved;
    let damaged: Vec<String> = damaged_logs.iter().map(ToString::to_string).collect();
    if arguments.form.json {
        let rows: Map<String, serde_json::Value> =
            rows.iter().map(|(table, rows)| (table.clone(), (*rows).into())).collect();
        terminal::print_json(
            &json!({ "rows": rows, "objects": objects, "bytes": bytes, "damaged_logs": damaged }),
        )?;
    } else {
        let total: u64 = rows.iter().map(|(_, rows)| rows).sum();
        let text = format!(
            "moved and compared: {total} rows in {} tables, {objects} objects with {bytes} bytes\n",
            rows.len()
        );
        terminal::print(&text)?;
        if !damaged.is_empty() {
            let text = format!(
                "{} logs are shorter than their records state, so they stay in the source: {}\n",
                damaged.len(),
                damaged.join(" ")
            );
            terminal::print(&text)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
