//! Output of Crystal.

use super::compiler::DIED;
use crate::rules::{
    Diagnostic, ERROR, Effect, FATAL, Indicator, Kind, Next, Rule, always, indented, problem, set_place,
};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { runs_tests: true, rules: RULES, ..Tool::named("crystal spec") };

/// The place is the first frame outside the library.
fn raised(diagnostic: &mut Diagnostic) {
    let place = diagnostic.lines.iter().find_map(|line| own_frame(line)).map(str::to_owned);
    let _placed = place.is_some_and(|place| set_place(diagnostic, &place));
}

/// The place in a frame: `from src/a.cr:3:6 in 'add'`.
pub(super) fn own_frame(line: &str) -> Option<&str> {
    let place = line.trim_start().strip_prefix("from ")?.split(' ').next()?;
    let is_foreign = place.contains("/crystal/") || place.starts_with("lib/") || place.contains("/lib/");
    (place.contains(".cr:") && !is_foreign).then_some(place)
}

/// Addresses of the program.
fn addresses(_: &[String], line: &str) -> Next {
    if line.starts_with("[0x") { Next::Part } else { Next::Beyond }
}

const RULES: &[Rule] = &[
    Rule {
        name: "crystal.raised",
        pattern: r"^Unhandled exception(?: in spawn)?: (?P<m>\S.* \([A-Z]\w*(?:::\w+)*\))$",
        effects: &[Effect::Problem(
            problem(FATAL, Kind::Runtime, 90).follow(indented).refine(raised).ended(always),
        )],
    },
    Rule {
        name: "crystal.died",
        pattern: r"^Invalid memory access \(signal (?P<sig>\d+)\) at address 0x",
        effects: &[Effect::Problem(DIED.follow(addresses).owning()), Effect::Crash(Indicator::Died(""))],
    },
    Rule {
        name: "crystal.rerun",
        pattern: r"^crystal spec (?P<f>[^\s:]+\.cr):(?P<l>\d+) # (?P<t>\S.*)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 90).bare()), Effect::Failure],
    },
    Rule {
        name: "crystal.unformatted",
        pattern: r"^formatting '(?P<f>[^']+)' produced changes$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Lint, 88).fails(crate::rules::Fails::Always))],
    },
];
