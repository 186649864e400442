//! Lines of XCTest and Swift Testing as xcbeautify and xcpretty print them.

use crate::rules::{Diagnostic, ERROR, Effect, Kind, Next, Role, Rule, TestEvent, problem, set_place};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("xcbeautify") };

/// The place and the excerpt that xcpretty prints below a failure at the end.
fn excerpt(so_far: &[String], line: &str) -> Next {
    let is_open = so_far.iter().any(|line| line.trim() == "```");
    match line.trim() {
        "```" if is_open => Next::Last,
        "" if !is_open => Next::Beyond,
        _ if line.starts_with("  ") && so_far.len() < 12 => Next::Part,
        _ => Next::Beyond,
    }
}

/// The place is on the line below the message.
fn placed_below(diagnostic: &mut Diagnostic) {
    let place = diagnostic.lines.get(1).map(|line| line.trim().to_owned());
    diagnostic.spurious = !place.is_some_and(|place| set_place(diagnostic, &place));
}

const RULES: &[Rule] = &[
    Rule {
        name: "xcbeautify.issue",
        pattern: concat!(
            r"^ {2,}(?:\xe2\x9a\xa0(?:\xef\xb8\x8f)?|\[!\]) +Test (?P<t>\x22(?:[^\x22\\]|\\.)*\x22|`[^`]+`\([^)]*\)|[^\s\x22`]+\([^)]*\))",
            r" recorded an issue(?: with \d+ argument\S*)?(?: at (?P<f>[^:]+):(?P<l>\d+):(?P<c>\d+): (?P<m>.*))?"
        ),
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 95))],
    },
    Rule {
        name: "xcbeautify.swift_failed",
        pattern: concat!(
            r"^(?: {2,}(?:\xe2\x9c\x96|\xe2\x9c\x97|\[x\]) |::error ::)(?P<t>\x22(?:[^\x22\\]|\\.)*\x22|`[^`]+`\([^)]*\)|[^\s\x22`]+\([^)]*\))",
            r"(?: with \d+ test cases?)? \([\d.]+ seconds\) \d+ issue\(s\)$"
        ),
        effects: &[
            Effect::Of(ToolId::SwiftTesting, &[Effect::Test(TestEvent::Failed)]),
            Effect::Problem(problem(ERROR, Kind::Test, 90).bare()),
        ],
    },
    Rule {
        name: "xcbeautify.test_failed",
        pattern: r"^ {2,}(?:\xe2\x9c\x96|\xe2\x9c\x97|\[x\]) (?P<t>test\w*), (?P<m>\S.*)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 93))],
    },
    Rule {
        name: "xcpretty.listed",
        pattern: r"^  (?P<t>\w+), (?P<m>\S.*)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 94).follow(excerpt).bare().refine(placed_below).role(Role::Listed),
        )],
    },
];
