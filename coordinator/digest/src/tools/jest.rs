//! Output of jest.

use super::compiler::DIED;
use super::mocha::{WORKER_DIED, js_place};
use super::vitest::report_of;
use crate::records::RecordFormat;
use crate::rules::{Diagnostic, ERROR, Effect, Kind, Next, Rule, SORTS, problem};
use crate::tool::{Announced, Apart, Includes, Tool, ToolId};

pub(super) const TOOL: Tool = Tool {
    runs_tests: true,
    selections: &["-t", "--testNamePattern"],
    apart: Apart::Always,
    announces: Some(Announced::ByHeading),
    one_total: true,
    rules: RULES,
    records: &[RecordFormat {
        name: "jest.report",
        beginnings: &[br#"{"numFailedTestSuites":"#],
        read: |line| report_of(ToolId::JestJson, " › ", line),
    }],
    ..Tool::named("jest")
};

/// Its report, which it prints below its usual output.
pub(super) const JSON: Tool = Tool {
    program: Some(ToolId::Jest),
    reports_as: Some(ToolId::Jest),
    includes: Includes::Only(ToolId::Jest),
    ..Tool::named("jest")
};

/// A jest failure: from its bullet to the next one, or the suite's end.
fn jest(_: &[String], line: &str) -> Next {
    let trimmed = line.trim_start();
    let end = [
        "● ",
        "PASS ",
        "FAIL ",
        "Test Suites:",
        "Snapshot Summary",
        "Summary of all failing",
        "Tests: ",
        "A worker process has failed",
    ];
    if end.iter().any(|end| trimmed.starts_with(end)) && !trimmed.starts_with("● Console") {
        Next::Beyond
    } else if trimmed.is_empty() {
        Next::Maybe
    } else if line.starts_with("  ") {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// A bullet that is console output or a heading of the summary is no failure.
pub(super) fn jest_console(diagnostic: &mut Diagnostic) {
    let first = diagnostic.first().trim_start().trim_start_matches("● ").to_owned();
    let heading = diagnostic.test.as_deref().unwrap_or(&first);
    diagnostic.spurious =
        heading.starts_with("Console") || heading.starts_with("Deprecation") || diagnostic.lines.len() == 1;
    if heading == "Test suite failed to run" {
        diagnostic.test = None;
        diagnostic.head =
            diagnostic.lines.iter().skip(1).position(|line| !line.trim().is_empty()).map(|at| at + 1);
    }
    js_place(diagnostic);
    // Below a file that it could not parse, jest prints advice and the frames of its parser.
    let details = diagnostic.lines.iter().position(|line| line.trim() == "Details:");
    if let Some(at) = details.filter(|_| diagnostic.lines.iter().any(|line| line.contains(CANNOT_PARSE))) {
        diagnostic.lines.drain(1.min(at)..=at);
        diagnostic.lines.retain(|line| !is_foreign_frame(line));
        diagnostic.head =
            diagnostic.lines.iter().skip(1).position(|line| !line.trim().is_empty()).map(|at| at + 1);
    }
    if diagnostic.line.is_none() {
        super::places::reread(diagnostic);
    }
}

/// First words of jest's message for a file that it could not parse.
const CANNOT_PARSE: &str = "encountered an unexpected token";

/// Returns true for a frame of a stack in a dependency.
fn is_foreign_frame(line: &str) -> bool {
    let text = line.trim_start();
    text.starts_with("at ") && (line.contains("node_modules") || line.contains("<anonymous>)"))
}

const RULES: &[Rule] = &[
    Rule {
        name: "jest.worker",
        pattern: r"^\s*(?:Error: )?(?:A jest worker process \(pid=\d+\) was terminated by another process: signal=(?P<sig>SIG[A-Z]+)|Jest worker encountered \d+ child process exceptions)",
        effects: &[Effect::Problem(DIED), WORKER_DIED],
    },
    Rule {
        name: "jest.file",
        pattern: r"^ ?(?:FAIL|PASS) {1,2}(?:[^\s./]+ )?(?P<f>\S+\.[cm]?[jt]sx?)(?: \([\d.]+ m?s\))?(?: \([\d.]+ MB heap size\))?$",
        effects: &[Effect::File, Effect::Harmless, Effect::AtWork],
    },
    Rule {
        name: "jest.console",
        pattern: r"^  console\.(?:log|error|warn|info|debug)$",
        effects: &[Effect::AtWork],
    },
    Rule {
        name: "jest.exited",
        pattern: r"^\s*\xe2\x97\x8f +process\.exit called with ",
        effects: &[Effect::Failure],
    },
    Rule {
        name: "jest.bullet",
        // With two blanks it names the handle that keeps jest from exiting, which is no failure.
        pattern: r"^\s*\xe2\x97\x8f (?P<t>\S.*| (?:process\.exit called with|\xe2\x80\xba) .*)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 93).follow(jest).owning().in_file().refine(jest_console),
        )],
    },
    Rule {
        name: "jest.tests",
        pattern: r"^Tests:\s+(?:(?:(?P<failed>\d+) failed|(?P<skipped>\d+) skipped|(?P<skipped2>\d+) todo|(?P<passed>\d+) passed)(?:, )?)+(?:, )?\d+ total",
        effects: &[Effect::Counts(SORTS), Effect::Summary],
    },
    Rule { name: "jest.suites", pattern: r"^Test Suites: +\d+ ", effects: &[Effect::Heading] },
    Rule {
        name: "jest.bad",
        pattern: r"^Test Suites: +[1-9]\d* failed",
        effects: &[Effect::Own(|line| line.tally.other_failure(line.tool)), Effect::Failure],
    },
    Rule {
        // Of jest, and of those that ask as istanbul does: nyc, c8, vitest. The tests may all have passed.
        name: "istanbul.short",
        pattern: r#"^(?:Jest: (?:Coverage for \w+ \([\d.]+%\) does not meet ".+" threshold \([\d.]+%\)|Uncovered count for \w+ \(\d+\) exceeds ".+" threshold \(\d+\)|".+" coverage threshold for \w+ \(-?[\d.]+%?\) not met: [\d.]+%?|Coverage data for .+ was not found\.)|ERROR: Coverage for \w+ \([\d.]+%\) does not meet (?:.+ )?threshold \([\d.]+%\)(?: for .+)?)$"#,
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Test, 88)),
            Effect::Of(ToolId::Coverage, &[Effect::Failure]),
            Effect::Summary,
        ],
    },
];
