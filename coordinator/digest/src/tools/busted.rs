//! Output of busted.

use crate::rules::{Diagnostic, ERROR, Effect, Kind, Next, Rule, SORTS, problem, set_place};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { runs_tests: true, rules: RULES, ..Tool::named("busted") };

/// busted's message is above its last line, which names the test.
fn busted_lead(line: &str) -> bool {
    !line.starts_with('[')
}

/// The lines below `Failure → a_spec.lua @ 3`, up to a blank one.
fn busted_lines(so_far: &[String], line: &str) -> Next {
    if line.trim().is_empty() || so_far.len() > 30 { Next::Beyond } else { Next::Part }
}

/// The test's name is the next line. The message begins below it, with the place of the failed assertion.
fn busted_name(diagnostic: &mut Diagnostic) {
    diagnostic.spurious = diagnostic.lines.len() < 3;
    diagnostic.test = diagnostic.lines.get(1).map(|name| name.trim().to_owned());
    if let Some(message) = diagnostic.lines.get(2).cloned() {
        diagnostic.head = Some(2);
        let _placed = message.split_once(": ").is_some_and(|(place, _)| set_place(diagnostic, place));
    }
}

const RULES: &[Rule] = &[
    Rule {
        // busted prints in GoogleTest's form, with sorts of its own.
        name: "busted.gtest_begun",
        pattern: r"^\[==========\] Running tests from scanned files\.$",
        effects: &[Effect::Of(ToolId::GoogleTest, &[Effect::Session])],
    },
    Rule {
        name: "busted.gtest_failed",
        pattern: r"^\[  (?:FAILED |ERROR  ) \] (?P<t>(?P<f>\S+) @ (?P<l>\d+): .*?) \([\d.]+ ms\)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 92).lead(busted_lead))],
    },
    Rule {
        name: "busted.gtest_sorts",
        pattern: r"^\[ (?: ERROR  |SKIPPED ) \] (?:(?P<skipped>\d+) tests?|(?P<errors>\d+) errors?), listed below:$",
        effects: &[Effect::Of(ToolId::GoogleTest, &[Effect::Adds(SORTS)])],
    },
    Rule {
        name: "busted.failed",
        pattern: r"^(?:Failure|Error) (?:\xe2\x86\x92|->) (?P<f>\S.*?) @ (?P<l>\d+)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 93).follow(busted_lines).owning().refine(busted_name),
        )],
    },
    Rule {
        name: "busted.summary",
        pattern: r"^(?P<passed>\d+) success(?:es)? / (?P<failed>\d+) failures? / (?P<errors>\d+) errors? / (?P<skipped>\d+) pending",
        effects: &[Effect::Session, Effect::Counts(SORTS), Effect::Summary],
    },
];
