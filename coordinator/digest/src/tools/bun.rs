//! Output of bun test.

use crate::rules::{
    BEGINS, Diagnostic, ERROR, Effect, FAILS_WITHOUT_TESTS, Kind, Next, RUNS, Rule, SORTS, problem, set_place,
};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool =
    Tool { runs_tests: true, reports_its_end: true, rules: RULES, ..Tool::named("bun test") };

/// The lines of an error, up to the line that names its test.
fn up_to_test(so_far: &[String], line: &str) -> Next {
    if line.starts_with("(fail) ") {
        Next::Last
    } else if line.starts_with("(pass) ") || line.starts_with("error: ") || so_far.len() > 40 {
        Next::Beyond
    } else if line.starts_with([' ', '+', '-'])
        || line.starts_with("Expected")
        || line.starts_with("Received")
    {
        Next::Part
    } else {
        Next::Maybe
    }
}

/// The test is named below, and the place is the first frame. Without a test it is an error of a program.
fn of_test(diagnostic: &mut Diagnostic) {
    let test = diagnostic.lines.last().and_then(|line| line.strip_prefix("(fail) ")).map(str::to_owned);
    let frames = diagnostic.lines.iter().filter_map(|line| line.trim_start().strip_prefix("at "));
    let places: Vec<String> = frames
        .map(|frame| frame.rsplit(['(', ' ']).next().unwrap_or_default().trim_end_matches(')').to_owned())
        .collect();
    let _found = places.iter().any(|place| set_place(diagnostic, place));
    if let Some(test) = test {
        let name =
            test.rsplit_once(" [").filter(|(_, time)| time.ends_with("s]")).map_or(&*test, |(name, _)| name);
        diagnostic.test = Some(name.to_owned());
        diagnostic.kind = Some(Kind::Test);
    }
}

const RULES: &[Rule] = &[
    Rule {
        // The last line of a program that ended with an exception. `bun --version` prints the number alone.
        name: "bun.version",
        pattern: r"^Bun v\d+\.\d+\.\d+\S* \([A-Z]\w+ \w+\)$",
        effects: &[Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "bun.error",
        pattern: r"^(?:error|[A-Z]\w*Error): (?P<m>\S.*)",
        effects: &[
            Effect::IfKnown(ToolId::Bun),
            Effect::Problem(problem(ERROR, Kind::Runtime, 88).follow(up_to_test).owning().refine(of_test)),
        ],
    },
    Rule { name: "bun.begun", pattern: r"^bun test v\d+\.\d+\.\d+ \([0-9a-f]+\)$", effects: &[RUNS, BEGINS] },
    Rule {
        name: "bun.counts",
        pattern: r"^ (?:(?P<passed>\d+) pass|(?P<failed>\d+) fail|(?P<skipped>\d+) (?:skip|todo))$",
        effects: &[Effect::Adds(SORTS), Effect::Summary],
    },
    Rule {
        name: "bun.bailed_out",
        pattern: r"^Bailed out after \d+ failures?$",
        effects: &[Effect::IfKnown(ToolId::Bun), Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "bun.failed",
        pattern: r"^\(fail\) (?P<t>.*?)(?: \[[\d.]+ ?m?s\])?$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 88))],
    },
    Rule {
        name: "bun.none",
        pattern: r"^(?:error: regex .* matched 0 tests\.|The following filters did not match any test files:$)",
        effects: &[Effect::Harmless, FAILS_WITHOUT_TESTS, Effect::Summary],
    },
];
