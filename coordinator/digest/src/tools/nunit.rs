//! Output of NUnit's console.

use crate::rules::{Count, Diagnostic, ERROR, Effect, Kind, Next, Rule, problem, set_place};
use crate::tally::Counts;
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool {
    commands: &["nunit-console", "nunit3-console", "nunit-console4"],
    runs_tests: true,
    rules: RULES,
    ..Tool::named("NUnit")
};

/// The message and the stack, up to the next failure.
fn message(so_far: &[String], line: &str) -> Next {
    let is_next = line.split_once(") ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
    let is_heading = ["Tests Not Run", "Errors and Failures", "Run Settings", "Test Run Summary"];
    if is_next || is_heading.iter().any(|heading| line.starts_with(heading)) || so_far.len() > 40 {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

/// The place is the first frame with a file.
fn placed(diagnostic: &mut Diagnostic) {
    let place = diagnostic.lines.iter().find_map(|line| {
        let (_, place) = line.rsplit_once(" in ")?;
        let place = place.trim().replace(":line ", ":");
        (!place.starts_with('<') && place.contains(".cs:")
            || place.contains(".fs:")
            || place.contains(".vb:"))
        .then_some(place)
    });
    let _placed = place.is_some_and(|place| set_place(diagnostic, &place));
    diagnostic.head = (diagnostic.lines.len() > 1).then_some(1);
}

/// The line below adds the tests that did not run.
const OF_VERSION_2: Count = |groups| {
    let failed = groups.number("failed").saturating_add(groups.number("errors"));
    Some(Counts { passed: groups.number("n").saturating_sub(failed), failed, skipped: 0, expected: 0 })
};

const OF_VERSION_3: Count = |groups| {
    Some(Counts {
        passed: groups.number("passed"),
        failed: groups.number("failed"),
        skipped: groups.number("skipped").saturating_add(groups.number("skipped2")),
        expected: 0,
    })
};

const RULES: &[Rule] = &[
    Rule {
        name: "nunit.failed",
        pattern: r"^\d+\) (?:Test )?(?:Failure|Error|Failed|Invalid) : (?P<t>\S.*)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 93).follow(message).owning().refine(placed))],
    },
    Rule {
        name: "nunit.total_2",
        pattern: r"^Tests run: (?P<n>\d+), Errors: (?P<errors>\d+), Failures: (?P<failed>\d+), Inconclusive: \d+, Time: ",
        effects: &[Effect::Session, Effect::Counts(OF_VERSION_2), Effect::Harmless, Effect::Summary],
    },
    Rule {
        name: "nunit.total_3",
        pattern: r"^  Test Count: \d+, Passed: (?P<passed>\d+), Failed: (?P<failed>\d+), (?:Warnings: \d+, )?Inconclusive: (?P<skipped2>\d+), Skipped: (?P<skipped>\d+)$",
        effects: &[Effect::Session, Effect::Counts(OF_VERSION_3), Effect::Harmless, Effect::Summary],
    },
    Rule {
        name: "nunit.result",
        pattern: r"^  Overall result: Failed$",
        effects: &[Effect::Failure, Effect::Harmless, Effect::Summary],
    },
];
