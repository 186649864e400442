//! Output of flutter test.

use crate::rules::{
    Diagnostic, ERROR, Effect, Kind, Next, Rule, SORTS, indented_or_blank, problem, set_place, up_to_rule,
};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { runs_tests: true, rules: RULES, ..Tool::named("flutter test") };

/// Up to the rule that closes a report.
fn in_rules(so_far: &[String], line: &str) -> Next {
    up_to_rule("════════", so_far, line)
}

/// The first frame outside of packages: `test/a_test.dart 9:5  main.<fn>`.
fn in_project(diagnostic: &mut Diagnostic) {
    let place = diagnostic.lines.iter().find_map(|line| {
        let mut words = line.split_whitespace();
        let (file, place) = (words.next()?, words.next()?);
        let is_own = file.ends_with(".dart") && !file.starts_with("package:") && !file.starts_with("dart:");
        is_own.then(|| format!("{file}:{place}"))
    });
    let _placed = place.is_some_and(|place| set_place(diagnostic, &place));
}

const RULES: &[Rule] = &[
    Rule {
        name: "flutter.counts",
        pattern: r"^\d\d:\d\d \+(?P<passed>\d+)(?: ~(?P<skipped>\d+))?(?: -(?P<failed>\d+))?: ",
        effects: &[Effect::Partial(SORTS)],
    },
    Rule {
        name: "flutter.exception",
        pattern: r"^(?:\xe2\x95\x90){2}\xe2\x95\xa1 EXCEPTION CAUGHT BY .*",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 94).follow(in_rules).owning())],
    },
    Rule {
        name: "flutter.failed",
        pattern: r"^\d\d:\d\d \+\d+(?: ~\d+)? -\d+: (?P<t>.*) \[E\]$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 93).follow(indented_or_blank).refine(in_project),
        )],
    },
    Rule {
        name: "flutter.bad",
        pattern: r"^\d\d:\d\d \+\d+(?: ~\d+)?(?: -\d+)?: Some tests failed\.",
        effects: &[Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "flutter.good",
        pattern: r"^\d\d:\d\d \+[1-9]\d*(?: ~\d+)?: All (?:other )?tests passed!",
        effects: &[Effect::Success, Effect::Summary],
    },
];
