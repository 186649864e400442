//! `buildpool tests`

use super::jobs::ago;
use crate::arguments::TestsArguments;
use crate::durations;
use crate::failure::Failure;
use crate::settings;
use crate::terminal::table::{Cell, Table};
use crate::terminal::{self, Colour, one_line};
use buildpool_client::query_value;
use serde::Deserialize;
use serde_json::Value;
use std::process::ExitCode;
use std::time::Duration;

/// Maximum number of tests in one answer of the coordinator.
const PAGE_TESTS: u32 = 200;

/// A part of the list.
#[derive(Deserialize)]
struct Page {
    tests: Vec<Value>,
    next_cursor: Option<String>,
}

pub(crate) fn run(arguments: &TestsArguments) -> Result<ExitCode, Failure> {
    super::block_on(async {
        let api = settings::api_of_running(&arguments.pool)?;
        let mut tests: Vec<Value> = Vec::new();
        let mut cursor = None;
        let is_cut = loop {
            let wanted = (arguments.limit as usize).saturating_sub(tests.len()).min(PAGE_TESTS as usize);
            let page: Page = api.get(&query(arguments, wanted, cursor.as_deref())).await?;
            tests.extend(page.tests);
            cursor = page.next_cursor;
            if cursor.is_none() || tests.len() >= arguments.limit as usize {
                break cursor.is_some();
            }
        };
        if arguments.form.json {
            terminal::print_json(&tests)?;
        } else {
            if is_cut {
                let (limit, more) = (arguments.limit, arguments.limit.saturating_mul(2));
                terminal::warn(&format!("the first {limit}; `--limit {more}` shows more"));
            }
            terminal::print(&table(&tests))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn query(arguments: &TestsArguments, limit: usize, cursor: Option<&str>) -> String {
    let flags = [("flaky", arguments.flaky), ("slow", arguments.slow), ("failing", arguments.failing)];
    let flags = flags.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| format!("&{name}=true"));
    let mut path = format!("/tests?limit={limit}{}", flags.collect::<String>());
    if let Some(project) = &arguments.project {
        path.push_str(&format!("&project={}", query_value(project)));
    }
    if let Some(cursor) = cursor {
        path.push_str(&format!("&cursor={}", query_value(cursor)));
    }
    path
}

fn table(tests: &[Value]) -> String {
    let mut table = Table::new(["TEST", "STATE", "FAILED", "TIME", "SINCE", "PROJECT", "COMMAND"]);
    for test in tests {
        let text = |name: &str| one_line(test[name].as_str().unwrap_or_default());
        let count = |name: &str| test[name].as_u64().unwrap_or_default();
        let time = test["duration_p90_secs"].as_f64().map_or(String::new(), |secs| {
            durations::show(Duration::try_from_secs_f64(secs).unwrap_or_default())
        });
        let since = test["failing_since"]["at"].as_str().map_or(String::new(), ago);
        table.row([
            text("test").into(),
            state(test),
            format!("{}/{}", count("failed"), count("runs")).into(),
            time.into(),
            since.into(),
            text("project").into(),
            text("command").into(),
        ]);
    }
    table.text()
}

fn state(test: &Value) -> Cell {
    match (test["flaky"].as_bool(), test["failing_since"].is_object()) {
        (Some(true), true) => Cell::coloured("flaky, failing", Colour::Red),
        (Some(true), false) => Cell::coloured("flaky", Colour::Yellow),
        (_, true) => Cell::coloured("failing", Colour::Red),
        (_, false) => Cell::coloured("passing", Colour::Green),
    }
}
