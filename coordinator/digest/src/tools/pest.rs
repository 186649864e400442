//! Output of pest.

use crate::rules::{Diagnostic, ERROR, Effect, Kind, Next, Problem, RUNS, Rule, SORTS, problem, set_place};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("pest") };

/// The message, the place and the excerpt, up to the next test or the total.
fn below(so_far: &[String], line: &str) -> Next {
    let text = line.trim_start();
    let ends = text.starts_with("FAILED  ") || text.starts_with("────") || text.starts_with("Tests: ");
    if ends || so_far.len() > 60 {
        Next::Beyond
    } else if text.is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

/// The class of the exception stands at the end of the line with the name.
fn failed(diagnostic: &mut Diagnostic) {
    let lines = diagnostic.lines.iter();
    let places: Vec<String> =
        lines.filter_map(|line| line.trim_start().strip_prefix("at ")).map(str::to_owned).collect();
    let _found = places.iter().any(|place| set_place(diagnostic, place));
    if let Some(test) = &mut diagnostic.test {
        *test = test.split("   ").next().unwrap_or_default().trim().to_owned();
    }
    diagnostic.head =
        diagnostic.lines.iter().skip(1).position(|line| !line.trim().is_empty()).map(|at| at + 1);
}

const FAILED: Problem = problem(ERROR, Kind::Test, 93).follow(below).owning().refine(failed);

const RULES: &[Rule] = &[
    Rule {
        name: "pest.failed",
        pattern: r"^ {1,3}FAILED {2}(?P<t>[A-Z]\w*(?:\\\w+)+ > \S.*)",
        effects: &[Effect::Problem(FAILED)],
    },
    Rule {
        // The class has no namespace, so other programs print such lines too.
        name: "pest.failed_class",
        pattern: r"^ {1,3}FAILED {2}(?P<t>[A-Z]\w* > \S.*)",
        effects: &[Effect::IfKnown(ToolId::PhpUnit), Effect::Problem(FAILED)],
    },
    Rule {
        // The heading of a class, above its tests.
        name: "pest.class",
        pattern: r"^ {1,3}FAIL {2}[A-Z]\w*(?:\\\w+)+$",
        effects: &[Effect::Of(ToolId::PhpUnit, &[RUNS]), Effect::Harmless, Effect::Alone],
    },
    Rule {
        name: "pest.summary",
        pattern: r"^\s+Tests:\s+(?:(?:(?P<failed>\d+) failed|(?P<skipped>\d+) (?:skipped|incomplete|todos?|risky)|(?P<passed>\d+) passed|\d+ warnings?)(?:, )?)+ \(\d+ assertions?\)",
        effects: &[Effect::Of(ToolId::PhpUnit, &[Effect::Session, Effect::Counts(SORTS)]), Effect::Summary],
    },
];
