//! Output of OUnit, a test framework for OCaml.

use crate::rules::{Count, Diagnostic, ERROR, Effect, Kind, Next, Rule, problem, set_place};
use crate::tally::Counts;
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("OUnit") };

/// The message, down to the rule below it.
fn message(so_far: &[String], line: &str) -> Next {
    if line.starts_with("-----") || line.starts_with("=====") {
        Next::Last
    } else if so_far.len() < 40 {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// Removes the place in OUnit's own log file and the frames of the library. What remains is the reason.
fn without_log(diagnostic: &mut Diagnostic) {
    let name = diagnostic.first().trim_start_matches("Error: ").trim_end_matches('.').to_owned();
    let is_own = |line: &&String| {
        line.contains(" in file \"") && !line.contains("/ounit") && !line.contains("\"stdlib")
    };
    let frame = diagnostic.lines.iter().find(is_own).cloned();
    diagnostic.lines.retain(|line| {
        let is_log =
            line.starts_with("File \"") && line.contains(".log\"") || line.ends_with(" (in the log).");
        let is_frame = line.contains(" in file \"src/lib/ounit") || line.contains(" in file \"stdlib.ml\"");
        let is_rule = line.starts_with("-----") || line.starts_with("=====");
        !is_log && !is_frame && !is_rule && !line.trim().is_empty()
    });
    let place = frame.as_deref().and_then(|frame| frame.split_once(" in file \"")).and_then(|(_, place)| {
        let (file, rest) = place.split_once('"')?;
        let line = rest.strip_prefix(", line ")?.split(',').next()?;
        Some(format!("{file}:{line}"))
    });
    let _placed = place.is_some_and(|place| set_place(diagnostic, &place));
    diagnostic.test = Some(name);
    diagnostic.head = Some(0);
}

const TOTAL: Count = |groups| {
    let failed = groups.number("failed").saturating_add(groups.number("errors"));
    let skipped = groups.number("skipped");
    let others = failed.saturating_add(skipped);
    Some(Counts { passed: groups.number("n").saturating_sub(others), failed, skipped, expected: 0 })
};

const RULES: &[Rule] = &[
    Rule {
        name: "ounit.failed",
        pattern: r"^Error: [^\s:]+:\d+(?::\S+)*\.$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 93).follow(message).owning().refine(without_log),
        )],
    },
    Rule {
        name: "ounit.total",
        pattern: r"^FAILED: Cases: \d+ Tried: (?P<n>\d+) Errors: (?P<errors>\d+) Failures: (?P<failed>\d+) Skip: +(?P<skipped>\d+) Todo: \d+ Timeouts: \d+\.$",
        effects: &[Effect::Session, Effect::Counts(TOTAL), Effect::Harmless, Effect::Summary],
    },
];
