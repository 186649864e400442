//! Output of cucumber.

use crate::rules::{Diagnostic, ERROR, Effect, Kind, Next, Rule, SORTS, problem, set_place};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { runs_tests: true, rules: RULES, ..Tool::named("cucumber") };

/// The first frame: `./features/steps.rb:1:in …`
fn step_place(diagnostic: &mut Diagnostic) {
    let frame = |line: &String| Some(line.trim().split_once(":in ")?.0.to_owned());
    let places: Vec<String> = diagnostic.lines.iter().filter_map(frame).collect();
    diagnostic.spurious = !places.iter().any(|place| set_place(diagnostic, place));
}

fn frames(so_far: &[String], line: &str) -> Next {
    if line.starts_with("      ") && so_far.len() < 20 { Next::Part } else { Next::Beyond }
}

const RULES: &[Rule] = &[
    Rule {
        name: "cucumber.step",
        pattern: r"^ {4,8}(?P<m>\S.* \((?:[A-Z]\w*::)*[A-Z]\w*(?:Error|Failure|Exception)\))$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 92).follow(frames).refine(step_place))],
    },
    Rule {
        name: "cucumber.failed",
        pattern: r"^cucumber (?:.* )?(?P<f>\S+\.feature):(?P<l>\d+)(?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 90))],
    },
    Rule {
        name: "cucumber.summary",
        pattern: r"^\d+ scenarios? \((?:(?:(?P<failed>\d+) failed|(?P<errors>\d+) ambiguous|(?P<skipped>\d+) skipped|(?P<skipped2>\d+) undefined|(?P<skipped3>\d+) pending|(?P<passed>\d+) passed)(?:, )?)+\)$",
        effects: &[Effect::Session, Effect::Counts(SORTS), Effect::Summary],
    },
    Rule {
        // With only skipped tests it was a dry run, which ends well.
        name: "cucumber.bad",
        pattern: r"^\d+ scenarios? \((?:[1-9]\d* undefined\)|.*\b[1-9]\d* undefined, .*\b(?:pending|passed)\))$",
        effects: &[Effect::Failure],
    },
];
