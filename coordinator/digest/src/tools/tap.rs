//! Output of TAP.

use crate::machines::MatchedLine;
use crate::rules::{Diagnostic, ERROR, Effect, INFO, Kind, Next, Problem, Rule, TestEvent, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool =
    Tool { by_test: true, names_repeat: true, numbers_tests: true, rules: RULES, ..Tool::named("TAP") };

/// A TAP failure's YAML block up to `...`, or `#` diagnostics.
pub(super) fn tap_lines(so_far: &[String], line: &str) -> Next {
    let trimmed = line.trim_start();
    if so_far.get(1).is_some_and(|line| line.trim() == "---") {
        return if trimmed == "..." { Next::Last } else { crate::rules::indented_or_blank(so_far, line) };
    }
    if trimmed.starts_with('#') && !trimmed.starts_with("# tests ")
        || line.starts_with("  ") && !trimmed.is_empty()
    {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// Messages of node and others in YAML. The failure of a test because of an inner test is reported by the inner one.
pub(super) fn tap_place(diagnostic: &mut Diagnostic) {
    for line in &diagnostic.lines {
        let Some((key, value)) = line.trim().split_once(": ") else { continue };
        let value = value.trim_matches(['\'', '"']);
        let value =
            value.rsplit_once(" (").map_or(value, |(_, place)| place.trim_end_matches(')')).to_owned();
        if key == "location" || key == "at" {
            let _placed = crate::rules::set_place(diagnostic, &value);
            break;
        }
    }
    let says = |text: &str| diagnostic.lines.iter().any(|line| line.trim() == text);
    // node could not load the file, and has printed the reason above.
    let is_of_file = says("error: 'test failed'") && says("failureType: 'testCodeFailure'");
    let died = diagnostic.lines.iter().any(|line| line.trim().starts_with("signal: 'SIG"));
    if is_of_file && !died || diagnostic.lines.iter().any(|line| line.contains("'subtestsFailed'")) {
        diagnostic.kind = Some(Kind::Consequence);
    }
    if diagnostic.file.is_none() {
        super::places::worded(diagnostic);
    }
}

/// An expected failure with its message.
const TODO: Problem = problem(INFO, Kind::Test, 50).follow(tap_lines).owning();

fn planned(line: &mut MatchedLine<'_>) {
    if line.body == b"1..0" {
        line.markers.found_no_tests(line.marker(()));
    }
    line.tally.plan(line.tool, line.groups.number("n"));
    line.standing = line.tally.planned(line.tool);
}

const RULES: &[Rule] = &[
    Rule { name: "tap.plan", pattern: r"^1\.\.(?P<n>\d+)(?: #.*)?$", effects: &[Effect::Own(planned)] },
    Rule {
        name: "tap.version",
        pattern: r"^TAP version \d+$",
        effects: &[Effect::Of(ToolId::NodeTest, &[Effect::AtWork]), Effect::AtWork],
    },
    Rule {
        name: "tap.bail",
        pattern: r"^\s*Bail out!(?: +(?P<m>.*))?$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 90)), Effect::Failure],
    },
    Rule {
        // Perl's Test::More, where too few tests ran or the program ended after them.
        name: "tap.unplanned",
        pattern: r"^# Looks like (?P<m>you planned \d+ tests? but ran \d+|your test exited with \d+ .*)\.?$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 88)), Effect::Failure],
    },
    Rule {
        name: "tap.todo",
        pattern: r"^not ok\b(?: (?P<k>\d+))?(?: -)? ?(?P<t>.*?) ?# *(?i:todo)\b",
        effects: &[Effect::Test(TestEvent::ExpectedFailure), Effect::Problem(TODO), Effect::Alone],
    },
    Rule {
        name: "tap.todo_inside",
        pattern: r"^ +not ok\b(?: \d+)?(?: -)? ?(?P<t>.*?) ?# *(?i:todo)\b",
        effects: &[Effect::Problem(TODO), Effect::Alone],
    },
    Rule {
        name: "tap.skip",
        pattern: r"^ok\b(?: (?P<k>\d+))?(?: -)? ?(?P<t>.*?) ?# *(?i:skip)",
        effects: &[Effect::Test(TestEvent::Skipped), Effect::Alone],
    },
    Rule {
        // cmocka's line for a skipped test. Other tools print `ok` for one, without a name after the word.
        name: "tap.cmocka_skip",
        pattern: r"^not ok (?P<k>\d+) # SKIP (?P<t>\w+)$",
        effects: &[Effect::Test(TestEvent::Skipped), Effect::Alone],
    },
    Rule {
        name: "tap.not_ok",
        pattern: r"^not ok (?:(?P<k>\d+)(?: -)? ?)?(?P<t>.*?)(?: # .*)?$",
        effects: &[
            Effect::Test(TestEvent::Failed),
            Effect::Problem(problem(ERROR, Kind::Test, 90).follow(tap_lines).refine(tap_place)),
            Effect::Failure,
        ],
    },
    Rule {
        name: "tap.not_ok_inside",
        pattern: r"^ +not ok \d+(?: -)? (?P<t>.*?)(?: # .*)?$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 90).follow(tap_lines).refine(tap_place))],
    },
    Rule {
        name: "tap.ok",
        pattern: r"^ok (?:(?P<k>\d+)(?: -)? ?|- )(?P<t>.*?)(?: # .*)?$",
        effects: &[Effect::Test(TestEvent::Passed)],
    },
];
