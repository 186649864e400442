//! Output of bloop, the build server for Scala.

use crate::rules::{Diagnostic, Effect, Kind, Level, Next, RUNS, Rule, SORTS, problem};
use crate::tool::{Includes, Tool, ToolId};
use buildpool_protocol::report::Severity;

pub(super) const TOOL: Tool =
    Tool { drives: true, includes: Includes::AllOthers, rules: RULES, ..Tool::named("bloop") };

/// The message below a place, each line behind the same mark.
fn marked_lines(so_far: &[String], line: &str) -> Next {
    let mark = so_far.first().and_then(|head| head.get(..3)).unwrap_or_default();
    let is_part = line.strip_prefix(mark).is_some_and(|text| text.starts_with("     "));
    if is_part && so_far.len() < 30 { Next::Part } else { Next::Beyond }
}

/// The message is the line below the place.
fn below(diagnostic: &mut Diagnostic) {
    if diagnostic.first().starts_with("[W]") {
        diagnostic.severity = Some(Severity::Warning);
    }
    diagnostic.head = Some(1).filter(|head| *head < diagnostic.lines.len());
}

const RULES: &[Rule] = &[
    Rule { name: "bloop.compiled", pattern: r"^Compiled [\w-]+ \(\d+ms\)$", effects: &[RUNS] },
    Rule {
        name: "bloop.place",
        pattern: r"^\[[EW]\] \[[EW]\d+\] (?P<f>[^\s:]+):(?P<l>\d+)(?::(?P<c>\d+))?$",
        effects: &[Effect::Problem(
            problem(Level::Is(Severity::Error), Kind::Build, 93).follow(marked_lines).owning().refine(below),
        )],
    },
    Rule {
        name: "bloop.failed",
        pattern: r"^\[E\] Failed to compile '.*'$",
        effects: &[Effect::Failure, Effect::Summary, Effect::Harmless],
    },
    Rule {
        name: "bloop.total",
        pattern: r"^\d+ tests?, (?P<passed>\d+) passed(?:, (?P<failed>\d+) failed)?(?:, (?P<skipped>\d+) (?:ignored|skipped))?$",
        effects: &[
            Effect::IfKnown(ToolId::Bloop),
            Effect::Counts(SORTS),
            Effect::Summary,
            Effect::Harmless,
            Effect::Alone,
        ],
    },
    Rule {
        // The failed suites follow.
        name: "bloop.suites",
        pattern: r"^(?:[1-9]\d* failed|Failed:)$",
        effects: &[Effect::IfKnown(ToolId::Bloop), Effect::Failure, Effect::Harmless],
    },
];
