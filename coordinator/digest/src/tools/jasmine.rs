//! Output of jasmine.

use super::mocha::js_place;
use crate::rules::{Diagnostic, ERROR, Effect, Kind, Next, Rule, TOTAL, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { runs_tests: true, rules: RULES, ..Tool::named("jasmine") };

/// jasmine's lines about a failure, which begin with a heading.
fn jasmine_lines(so_far: &[String], line: &str) -> Next {
    if so_far.len() == 1 && line.trim_end() != "  Message:" || so_far.len() > 40 {
        Next::Beyond
    } else {
        crate::rules::indented_or_blank(so_far, line)
    }
}

/// A numbered line without such a heading is not a failure.
fn jasmine(diagnostic: &mut Diagnostic) {
    diagnostic.spurious = diagnostic.lines.len() == 1;
    js_place(diagnostic);
}

const RULES: &[Rule] = &[
    Rule {
        name: "jasmine.failed",
        pattern: r"^\d+\) (?P<t>\S.*)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 92).follow(jasmine_lines).owning().refine(jasmine),
        )],
    },
    Rule {
        name: "jasmine.summary",
        pattern: r"^(?P<n>\d+) specs?, (?P<failed>\d+) failures?(?:, (?P<skipped>\d+) pending specs?)?$",
        effects: &[Effect::Session, Effect::Counts(TOTAL), Effect::Summary],
    },
    Rule {
        // jasmine exits with 2 for it, however its specs ended.
        name: "jasmine.incomplete",
        pattern: r"^Incomplete: (?P<m>fit\(\) or fdescribe\(\) was found|No specs found)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 88)), Effect::Failure, Effect::Summary],
    },
];
