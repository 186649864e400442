//! Output of Robot Framework.

use super::places::worded;
use crate::rules::{Diagnostic, ERROR, Effect, Kind, Next, Role, Rule, SORTS, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool {
    runs_tests: true,
    commands: &["robot", "pabot"],
    nests_totals: true,
    rules: RULES,
    ..Tool::named("Robot Framework")
};

/// Up to the rule that ends a test.
fn robot_lines(so_far: &[String], line: &str) -> Next {
    if line.starts_with("---") || line.starts_with("===") || line.contains("| FAIL |") || so_far.len() > 12 {
        Next::Beyond
    } else {
        Next::Part
    }
}

/// A message of Robot's dotted output: up to the next rule.
fn robot_dotted(so_far: &[String], line: &str) -> Next {
    let is_result = ["PASS:", "FAIL:", "SKIP:", "XFAIL:", "ERROR:"].iter().any(|word| line.starts_with(word));
    let is_rule = line.len() > 60 && line.bytes().all(|byte| matches!(byte, b'-' | b'='));
    match (is_rule, is_result || so_far.len() > 12) {
        (true, _) => Next::Last,
        (false, true) => Next::Beyond,
        (false, false) => Next::Maybe,
    }
}

/// Removes the rule below the message.
fn without_rule(diagnostic: &mut Diagnostic) {
    if diagnostic.lines.len() > 1 {
        diagnostic.lines.pop();
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "robot.error",
        pattern: r"^\[ ERROR \] (?P<m>\S.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 80).refine(worded).role(Role::Vague))],
    },
    Rule {
        name: "robot.dotted",
        pattern: r"^FAIL: (?P<t>[^\s():][^():]*)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 92).follow(robot_dotted).refine(without_rule))],
    },
    Rule {
        name: "robot.failed",
        pattern: r"^(?P<t>\S.*?) +\| FAIL \|$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 92).follow(robot_lines))],
    },
    Rule {
        name: "robot.summary",
        pattern: r"^\d+ tests?, (?P<passed>\d+) passed, (?P<failed>\d+) failed(?:, (?P<skipped>\d+) skipped)?$",
        effects: &[Effect::Counts(SORTS), Effect::Summary],
    },
    Rule {
        // Each suite has a total before the one that it is in; this ends them all.
        name: "robot.output",
        pattern: r"^Output: {2}\S.*\.xml$",
        effects: &[Effect::Session],
    },
];
