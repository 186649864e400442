//! Output of GUT and gdUnit4, test frameworks for Godot.

use crate::rules::{Diagnostic, ERROR, Effect, Kind, Next, Rule, SORTS, TOTAL, indented, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: GUT, ..Tool::named("GUT") };

pub(super) const GDUNIT: Tool = Tool { rules: GDUNIT_RULES, ..Tool::named("gdUnit4") };

/// The name of a test above its results.
fn is_name(line: &str) -> bool {
    line.starts_with("* test")
}

fn named(diagnostic: &mut Diagnostic) {
    let name = diagnostic.first().strip_prefix("* ").map(str::to_owned);
    if name.is_some() {
        diagnostic.head = Some(1);
    }
    diagnostic.test = name;
}

/// gdUnit4's report below the name of the test.
fn report(so_far: &[String], line: &str) -> Next {
    let is_next = ["  Statistics: ", "Run Test Suite: "].iter().any(|start| line.starts_with(start))
        || line.ends_with("ms") && line.contains(" > ");
    if is_next || !line.starts_with("  ") || so_far.len() > 20 { Next::Beyond } else { Next::Part }
}

const GUT: &[Rule] = &[
    Rule {
        name: "gut.begun",
        pattern: r"^(?:\* test\w*|= Run Summary|-+ Totals -+|Totals)$",
        effects: &[Effect::AtWork],
    },
    Rule {
        name: "gut.failed",
        pattern: r"^ {4,8}(?:FAILED|\[Failed\]): +(?P<m>\S.*)",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 92).lead(is_name).follow(indented).refine(named),
        )],
    },
    Rule {
        name: "gut.counts",
        pattern: r"^ *(?:Passing tests +(?P<passed>\d+)|Failing tests +(?P<failed>\d+)|(?:Risky/)?Pending:? +(?P<skipped>\d+))$",
        effects: &[Effect::IfKnown(ToolId::Gut), Effect::Adds(SORTS), Effect::Summary],
    },
];

const GDUNIT_RULES: &[Rule] = &[
    Rule {
        name: "gdunit.failed",
        pattern: r"^ {2}(?P<t>\w+ > \w+(?:[:(].*)?) +FAILED +\d+m?s$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 92).follow(report))],
    },
    Rule {
        name: "gdunit.total",
        pattern: r"^Overall Summary: +(?P<n>\d+) tests? cases \| (?P<errors>\d+) errors \| (?P<failed>\d+) failures \| \d+ flaky \| (?P<skipped>\d+) skipped \| \d+ orphans \|",
        effects: &[Effect::Session, Effect::Counts(TOTAL), Effect::Summary],
    },
];
