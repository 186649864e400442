//! Output of Julia.

use super::compiler::DIED;
use crate::rules::{
    Diagnostic, ERROR, Effect, Indicator, Kind, Next, Rule, SORTS, always, indented, problem, set_place,
};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Julia") };

/// The stack trace, up to a blank line.
fn trace(so_far: &[String], line: &str) -> Next {
    let is_part = line == "Stacktrace:"
        || line.starts_with([' ', '-'])
        || line.starts_with("in expression starting at ");
    if is_part && so_far.len() < 40 { Next::Part } else { Next::Beyond }
}

/// The first frame outside of Julia and its packages.
fn raised(diagnostic: &mut Diagnostic) {
    let place = diagnostic.lines.iter().find_map(|line| {
        let place = line
            .trim_start()
            .strip_prefix("@ ")
            .or_else(|| line.strip_prefix("in expression starting at "))?;
        let place = place.split(' ').next().unwrap_or_default();
        let is_own = place.contains(".jl:")
            && !place.starts_with("./")
            && !place.contains("/stdlib/")
            && !place.contains("/.julia/");
        is_own.then(|| place.to_owned())
    });
    let _placed = place.is_some_and(|place| set_place(diagnostic, &place));
}

const RULES: &[Rule] = &[
    Rule {
        name: "julia.total",
        pattern: r"^ERROR: (?:LoadError: )?Some tests did not pass: (?P<passed>\d+) passed, (?P<failed>\d+) failed, (?P<errors>\d+) errored, (?P<expected>\d+) broken\.$",
        effects: &[Effect::Session, Effect::Counts(SORTS), Effect::Harmless, Effect::Summary],
    },
    Rule {
        name: "julia.package_failed",
        pattern: r"^ERROR: Package \S+ errored during testing",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 50)), Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "julia.raised",
        pattern: r"^ERROR: (?:LoadError: )?(?P<m>[A-Z]\w*(?:Error|Exception)\b.*)",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Runtime, 90).follow(trace).owning().refine(raised).ended(always),
        )],
    },
    Rule {
        name: "julia.signal",
        pattern: r"^(?:\[\d+\] )?signal (?:\((?P<sig>\d+)(?:\.\d+)?\)|\d+ \([\d-]+\)): [A-Z]",
        effects: &[Effect::Problem(DIED.follow(crate::rules::one_more)), Effect::Crash(Indicator::Died(""))],
    },
    Rule {
        name: "julia.failed",
        pattern: r"^(?P<t>\S.*): (?:Test Failed|Error During Test) at (?P<f>\S+):(?P<l>\d+)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 93).follow(indented))],
    },
];
