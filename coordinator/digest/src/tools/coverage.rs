//! Output of coverage.

use super::pytest::{common_name, last_place};
use crate::rules::{Diagnostic, ERROR, Effect, Fails, Join, Kind, Next, Rule, problem};
use crate::tool::{Apart, Tool, ToolId};

pub(super) const TOOL: Tool = Tool {
    apart: Apart::Always,
    judges_by_itself: true,
    host: Some(ToolId::Pytest),
    rules: RULES,
    ..Tool::named("coverage")
};

/// The test at which a worker died, of which the section names only the file.
fn died_at(diagnostic: &mut Diagnostic) {
    let test = diagnostic.lines.iter().find_map(|line| {
        let (worker, rest) = line.split_once(" crashed while running '")?;
        worker.starts_with("worker '").then(|| rest.split('\'').next().map(str::to_owned)).flatten()
    });
    diagnostic.test = test.or(diagnostic.test.take());
}

fn block(diagnostic: &mut Diagnostic) {
    last_place(diagnostic);
    died_at(diagnostic);
    diagnostic.join = diagnostic.test.as_deref().map(|test| Join::Block(common_name(test)));
}

/// A section of pytest's failures: up to the next heading or rule.
fn section(_: &[String], line: &str) -> Next {
    let rule = |mark: &str| line.starts_with(mark) && line.ends_with(mark);
    if rule("====")
        || rule("____") && line.contains(' ') && !line.starts_with("_ _")
        || rule("!!!!")
        || rule("―――")
    {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "coverage.heading",
        pattern: r"^_+ coverage: platform .* _+$",
        effects: &[Effect::Harmless],
    },
    Rule {
        name: "pytest.section",
        pattern: r"^(?:_{3,}|(?:\xe2\x80\x95){3,}) (?:ERROR (?:collecting|at (?:setup|teardown) of) )?(?P<t>\S.*?) (?:_{3,}|(?:\xe2\x80\x95){3,})$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 94).follow(section).owning().refine(block))],
    },
    Rule {
        // Its tests may all have passed.
        name: "coverage.short",
        pattern: r"^(?:FAIL Required test coverage of [\d.]+% not reached\.|(?:ERROR: )?Coverage failure: total of [\d.]+ is less than fail-under=[\d.]+$).*",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 88)), Effect::Failure, Effect::Summary],
    },
    Rule {
        // Stryker's versions for JavaScript, .NET and Scala.
        name: "coverage.mutants",
        pattern: r"^(?:\[?[\d:]+ (?:WRN|ERR)\] |(?:[\d:]+ )?\(\d+\) (?:ERROR|WARN) \S+ |\[(?:error|warn)\] )?(?:Final mutation score (?:is below threshold break\b|[\d.]+ under breaking threshold)|Mutation score below threshold!).*",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Test, 88).fails(Fails::Always)),
            Effect::Failure,
            Effect::Summary,
        ],
    },
    Rule {
        name: "coverage.reached",
        pattern: r"^Required test coverage of [\d.]+% reached\. Total coverage: ",
        effects: &[Effect::Own(|line| line.markers.runs.takes_back(line.tool))],
    },
];
