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

/// Smallest change of a duration that is shown, in percent.
const TREND_SHOWN_PERCENT: f64 = 10.0;

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
    let named = [
        ("project", arguments.project.as_deref()),
        ("branch", arguments.branch.as_deref()),
        ("worker", arguments.worker.as_deref()),
        ("cursor", cursor),
    ];
    for (name, value) in named {
        if let Some(value) = value {
            path.push_str(&format!("&{name}={}", query_value(value)));
        }
    }
    path
}

fn table(tests: &[Value]) -> String {
    let mut table = Table::new(["TEST", "STATE", "FAILED", "TIME", "TREND", "SINCE", "PROJECT", "COMMAND"]);
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
            trend(test).into(),
            since.into(),
            text("project").into(),
            text("command").into(),
        ]);
    }
    table.text()
}

/// Returns the change of the duration in percent, if it is more than noise.
fn trend(test: &Value) -> String {
    let change = test["duration_trend"].as_f64().map_or(0.0, |ratio| (ratio - 1.0) * 100.0);
    if change.abs() < TREND_SHOWN_PERCENT { String::new() } else { format!("{change:+.0} %") }
}

fn state(test: &Value) -> Cell {
    match (test["flaky"].as_bool(), test["failing_since"].is_object()) {
        (Some(true), true) => Cell::coloured("flaky, failing", Colour::Red),
        (Some(true), false) => Cell::coloured("flaky", Colour::Yellow),
        (_, true) => Cell::coloured("failing", Colour::Red),
        (_, false) => Cell::coloured("passing", Colour::Green),
    }
}
