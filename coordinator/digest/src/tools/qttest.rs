//! Output of QtTest.

use crate::rules::{Diagnostic, ERROR, Effect, Fails, Kind, Rule, SORTS, indented, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { runs_tests: true, rules: RULES, ..Tool::named("QtTest") };

/// `   Loc: [../tests/tst_a.cpp(19)]`.
fn location(diagnostic: &mut Diagnostic) {
    let place = |line: &String| {
        let (file, line) = line.trim().strip_prefix("Loc: [")?.strip_suffix(")]")?.rsplit_once('(')?;
        Some((file.to_owned(), line.parse::<u32>().ok().filter(|line| *line > 0)?))
    };
    if let Some((file, line)) = diagnostic.lines.iter().find_map(place) {
        (diagnostic.file, diagnostic.line) = (Some(file), Some(line));
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "qttest.failed",
        pattern: r"^(?:FAIL!|XPASS|QFATAL) +: (?P<t>\w+::\w+\(.*?\))(?: (?P<m>.*))?$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 94).follow(indented).owning().refine(location).fails(Fails::Always),
        )],
    },
    Rule {
        name: "qttest.total",
        pattern: r"^Totals: (?P<passed>\d+) passed, (?P<failed>\d+) failed, (?P<skipped>\d+) skipped(?:, \d+ blacklisted)?(?:, \d+ms)?$",
        effects: &[Effect::Session, Effect::Counts(SORTS), Effect::Summary],
    },
];
