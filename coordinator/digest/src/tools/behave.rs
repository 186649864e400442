//! Output of behave and Behat.

use crate::rules::{Diagnostic, ERROR, Effect, Kind, Rule, SORTS, indented, problem, set_place};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { runs_tests: true, rules: RULES, ..Tool::named("behave") };

/// A step of behave: `Then the result is 7 # features/steps/s.py:8`.
fn is_step(line: &str) -> bool {
    let words = ["Given ", "When ", "Then ", "And ", "But ", "* "];
    line.contains(" # ") && words.iter().any(|word| line.trim_start().starts_with(word))
}

/// The place of the failed step's code. The steps above it are not part of the message.
fn step_place(diagnostic: &mut Diagnostic) {
    let steps = diagnostic.lines.iter().take_while(|line| is_step(line)).count();
    diagnostic.lines.drain(..steps.saturating_sub(1));
    diagnostic.head = Some(steps.min(1));
    let place = diagnostic.lines.first().and_then(|line| Some(line.rsplit_once(" # ")?.1.to_owned()));
    diagnostic.spurious = place.is_none();
    let _placed = place.is_some_and(|place| set_place(diagnostic, &place));
}

const RULES: &[Rule] = &[
    Rule {
        name: "behave.failed",
        pattern: r"^\s+(?P<f>\S+\.feature):(?P<l>\d+)  (?P<t>\S.*)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 88))],
    },
    Rule {
        name: "behave.summary",
        pattern: r"^(?P<passed>\d+) scenarios? passed, (?P<failed>\d+) failed,(?: (?P<errors>\d+) errors?,)? (?P<skipped>\d+) skipped",
        effects: &[Effect::Session, Effect::Counts(SORTS), Effect::Summary],
    },
    Rule {
        name: "behave.assertion",
        pattern: r"^ +(?:ASSERT FAILED|Assertion Failed): (?P<m>.*)$",
        effects: &[
            Effect::Problem(
                problem(ERROR, Kind::Test, 93).lead(is_step).follow(indented).owning().refine(step_place),
            ),
            Effect::Failure,
        ],
    },
    Rule {
        name: "behat.message",
        pattern: r"^ {6}(?P<m>Failed asserting that .*|\S.* \((?:[A-Z]\w*\\)*\w*(?:Exception|Error)\))$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 92).lead(is_step).follow(indented).refine(step_place),
        )],
    },
    Rule {
        name: "behave.undefined",
        pattern: r"^ +raise (?:StepN|N)otImplementedError\(u?[\x22\x27](?:STEP: )?(?:Given|When|Then) ",
        effects: &[Effect::Failure],
    },
];
