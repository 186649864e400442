//! Output of bats or ExUnit.

use crate::rules::{Count, Diagnostic, ERROR, Effect, Kind, NO_TESTS, Next, Rule, TestEvent, problem};
use crate::tally::Counts;
use crate::tool::{Includes, Tool, ToolId};

pub(super) const TOOL: Tool = Tool {
    runs_tests: true,
    commands: &["bats", "mix test"],
    includes: Includes::Only(ToolId::Tap),
    rules: RULES,
    ..Tool::named("bats or ExUnit")
};

fn bats_lines(_: &[String], line: &str) -> Next {
    if line.starts_with("   ") && !line.trim().is_empty() { Next::Part } else { Next::Beyond }
}

const BATS: Count = |groups| {
    let total = groups.number("n") + groups.number("doctests") + groups.number("properties");
    // Those that were invalid could not be set up; those that were excluded are in the total and did not run.
    let failed = groups.number("failed") + groups.number("invalid");
    let skipped = groups.number("skipped");
    let others = failed + skipped + groups.number("excluded");
    Some(Counts { passed: total.saturating_sub(others), failed, skipped, expected: 0 })
};

pub(super) fn place(diagnostic: &mut Diagnostic) {
    for line in &diagnostic.lines[1..] {
        let trimmed = line.trim_start().trim_start_matches("# ");
        let mut parts = trimmed.splitn(3, ':');
        if let (Some(file), Some(row)) = (parts.next(), parts.next())
            && file.contains('.')
            && !file.contains([' ', '(', '"'])
            && let Ok(row) = row.trim_end_matches(')').parse()
        {
            diagnostic.file = Some(file.to_owned());
            diagnostic.line = Some(row);
            return;
        }
    }
    diagnostic.spurious = diagnostic.lines.len() == 1;
}

/// Numbered failures (mocha, ExUnit, RSpec): up to the next number or a line that is not indented.
pub(super) fn numbered(so_far: &[String], line: &str) -> Next {
    let trimmed = line.trim_start();
    let digits = trimmed.chars().take_while(char::is_ascii_digit).count();
    let ends = [
        ") ",
        " passing",
        " pending",
        " failing",
        " failed",
        " passed",
        " skipped",
        " flaky",
        " did not run",
        " interrupted",
        " error was not a part of any test",
        " errors were not a part of any test",
    ];
    let of_another_test =
        ["* test ", "* doctest ", "* property "].iter().any(|test| trimmed.starts_with(test));
    if of_another_test || digits > 0 && ends.iter().any(|end| trimmed[digits..].starts_with(end)) {
        Next::Beyond
    } else if trimmed.is_empty() {
        Next::Maybe
    } else if line.starts_with("  ") && so_far.len() < 80 {
        Next::Part
    } else {
        Next::Beyond
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "bats.failed",
        pattern: r"^ (?:\xe2\x9c\x97) (?P<t>.+)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 88).follow(bats_lines))],
    },
    Rule {
        name: "bats.summary",
        pattern: r"^(?:(?P<doctests>\d+) doctests?, )?(?:(?P<properties>\d+) propert(?:y|ies), )?(?P<n>\d+) tests?, (?P<failed>\d+) failures?(?:, (?P<excluded>\d+) excluded)?(?:, (?P<invalid>\d+) invalid)?(?:, (?P<skipped>\d+) skipped)?(?: \(\d+ excluded\))?(?: in .*)?$",
        effects: &[Effect::Session, Effect::Counts(BATS), Effect::Summary],
    },
    Rule {
        name: "exunit.numbered",
        pattern: r"^\s{2}\d+\) (?P<t>test .+ \(.+\))$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 94).follow(numbered).owning().refine(place))],
    },
    Rule {
        name: "exunit.invalid",
        pattern: r"^\s{2}\d+\) (?P<t>\S+): failure on setup_all callback, .+$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 94).follow(numbered).owning().refine(place))],
    },
    Rule {
        name: "exunit.none",
        pattern: r#"^(?:All tests have been excluded\.|The --only option was given to "mix test" but no test was executed)$"#,
        effects: &[NO_TESTS, Effect::Summary],
    },
    Rule {
        name: "exunit.begun",
        pattern: r"^  \* (?P<t>(?:test|doctest|property) .+?) \[L#\d+\]$",
        effects: &[Effect::Test(TestEvent::Started)],
    },
    Rule {
        name: "exunit.ended",
        pattern: r"^  \* (?P<t>(?:test|doctest|property) .+?) \((?:[\d.]+ms|skipped|excluded)\)(?: \[L#\d+\])?$",
        effects: &[Effect::Test(TestEvent::Ended)],
    },
    Rule {
        name: "bats.failed_command",
        pattern: r"^# {3}`.*\x27 failed(?: with status \d+)?$",
        effects: &[Effect::Failure],
    },
];
