//! Output of cargo.

use crate::records::{Event, RecordFormat};
use crate::rules::{ERROR, Effect, Kind, Rule, problem};
use crate::tool::{Apart, Tool, ToolId};
use serde::Deserialize;

pub(super) const TOOL: Tool = Tool {
    apart: Apart::Always,
    builds: true,
    rules: RULES,
    records: &[RecordFormat { name: "cargo.record", beginnings: &[br#"{"reason":"#], read: record }],
    ..Tool::named("cargo")
};

pub(super) const BUILD: Tool = Tool { program: Some(ToolId::Cargo), ..Tool::named("cargo build") };

/// A record of `--message-format json`.
#[derive(Debug, Deserialize)]
struct Record {
    reason: String,
    message: Option<Message>,
}

/// A compiler's message with its text.
#[derive(Debug, Deserialize)]
struct Message {
    rendered: Option<String>,
}

fn record(line: &[u8]) -> Option<Vec<Event>> {
    let Record { reason, message } = serde_json::from_slice(line).ok()?;
    match reason.as_str() {
        "compiler-message" => Some(message?.rendered.map(Event::Text).into_iter().collect()),
        "compiler-artifact" | "build-script-executed" => Some(Vec::new()),
        _ => None,
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "cargo.unit",
        pattern: r"^\s+(?:Compiling|Checking|Documenting) (?P<u>\S+) v\d",
        effects: &[Effect::Own(|line| line.works_on(ToolId::CargoBuild))],
    },
    Rule {
        name: "cargo.failed_unit",
        pattern: r"^error: could not (?:compile|document) `(?P<u>[^`]+)`",
        effects: &[Effect::Own(|line| line.fails_at(ToolId::CargoBuild))],
    },
    Rule {
        // The total of the tests has this information too.
        name: "cargo.test_failed",
        pattern: r"^error: test failed, to rerun(?P<m>.*)",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Consequence, 50)),
            Effect::Of(ToolId::CargoTest, &[Effect::Own(|line| line.fails_too())]),
            Effect::Summary,
        ],
    },
    Rule {
        name: "cargo.refused",
        pattern: r"^error: (?:no matching package named |failed to (?:select a version|get `|load manifest|parse manifest|resolve|load source)|could not find `Cargo\.toml`|no such command: )",
        effects: &[Effect::Failure],
    },
    Rule {
        name: "cargo.could_not_compile",
        pattern: r"^error: (?:could not compile|aborting due to|test run failed|\d+ targets? failed|doctest failed|process didn't exit)(?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 50)), Effect::Failure, Effect::Summary],
    },
    Rule {
        // nextest repeats the command that cargo ran for it.
        name: "cargo.command_exited",
        pattern: r"^error: command `[^`]*\bcargo[^`]*` exited with code \d+$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 50)), Effect::Alone],
    },
    Rule {
        name: "cargo.finished",
        pattern: r"^\s+Finished (?:`|dev|release|test|bench|\w+ \[)(?P<m>.*)",
        effects: &[Effect::Of(ToolId::CargoBuild, &[Effect::Success]), Effect::Summary],
    },
    Rule {
        name: "cargo.json_finished",
        pattern: r#"^\{"reason":"build-finished","success":true\}$"#,
        effects: &[Effect::Of(ToolId::CargoBuild, &[Effect::Success])],
    },
    Rule {
        name: "cargo.json_failed",
        pattern: r#"^\{"reason":"build-finished","success":false\}$"#,
        effects: &[Effect::Failure],
    },
    Rule {
        name: "cargo.running",
        pattern: r"^\s+(?P<t>Running (?:unittests |tests/|benches/|`).*|Doc-tests \S+)$",
        effects: &[
            Effect::Of(ToolId::Nextest, &[Effect::Own(|line| line.over(false))]),
            Effect::Of(ToolId::CargoTest, &[Effect::Heading, Effect::Own(|line| line.part())]),
        ],
    },
    Rule {
        // Below the number of targets that failed.
        name: "cargo.failed_target",
        pattern: r"^ {4}`--(?:lib|doc|(?:test|bin|example|bench) \S+)`$",
        effects: &[Effect::Failure],
    },
];
