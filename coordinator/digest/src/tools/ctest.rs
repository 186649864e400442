//! Output of ctest.

use crate::rules::{
    Count, Diagnostic, ERROR, Effect, FAILS_WITHOUT_TESTS, FATAL, Indicator, Kind, Next, Rule, TOTAL,
    TestEvent, problem,
};
use crate::tally::Counts;
use crate::tool::{Includes, Tool, ToolId};

pub(super) const TOOL: Tool = Tool {
    drives: true,
    includes: Includes::AllOthers,
    runs_tests: true,
    selections: &["-R", "--tests-regex"],
    totals_begin: true,
    shares_names_among_parts: true,
    rules: RULES,
    ..Tool::named("ctest")
};

fn list(_: &[String], line: &str) -> Next {
    if line.starts_with([' ', '\t']) && !line.trim().is_empty() { Next::Part } else { Next::Beyond }
}

const ONE_SKIPPED: Count = |_| Some(Counts { passed: 0, failed: 0, skipped: 1, expected: 0 });

/// A ctest line names the signal of a test program.
fn ctest_name(diagnostic: &mut Diagnostic) {
    if let Some(test) = &mut diagnostic.test {
        *test = test.trim_end_matches([' ', '.']).to_owned();
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "ctest.project",
        pattern: r"^Test project (?P<t>\S.*)$",
        effects: &[Effect::Heading, Effect::Own(|line| line.part())],
    },
    Rule {
        name: "ctest.begun",
        pattern: r"^\s+Start\s+\d+: (?P<t>\S.*)$",
        effects: &[Effect::IfKnown(ToolId::CTest), Effect::Test(TestEvent::Started)],
    },
    Rule {
        name: "ctest.passed",
        pattern: r"^\s*(?:\d+/\d+ )?Test\s+#\d+: (?P<t>\S.*?) \.*\s*Passed ",
        effects: &[Effect::Test(TestEvent::Passed)],
    },
    Rule {
        name: "ctest.not_run",
        pattern: r"^\s*(?:\d+/\d+ )?Test\s+#\d+: (?P<t>\S.*?) \.*\s*\*\*\*(?:Skipped|Not Run \(Disabled\))",
        effects: &[Effect::Test(TestEvent::Skipped)],
    },
    Rule {
        name: "ctest.crashed",
        pattern: r"^\s*(?:\d+/\d+ )?Test\s+#\d+: (?P<t>.+?) \.*\s?\*\*\*Exception: *(?P<m>SegFault|SEGFAULT)",
        effects: &[
            Effect::Problem(problem(FATAL, Kind::Crash, 93).refine(ctest_name)),
            Effect::Crash(Indicator::ChildDied("SIGSEGV")),
        ],
    },
    Rule {
        name: "ctest.aborted",
        pattern: r"^\s*(?:\d+/\d+ )?Test\s+#\d+: (?P<t>.+?) \.*\s?\*\*\*Exception: *(?:(?:Child|Subprocess) (?:aborted|killed|terminated)|Illegal|Numerical|Bus error|Other)",
        effects: &[
            Effect::Problem(problem(FATAL, Kind::Crash, 93).refine(ctest_name)),
            Effect::Crash(Indicator::ChildDied("")),
        ],
    },
    Rule {
        name: "ctest.failed",
        pattern: r"^\s*(?:\d+/\d+ )?Test\s+#\d+: (?P<t>.+?) \.*\s*\*\*\*(?:Failed|Timeout|Not Run *(?:[\d.]+ sec)?$|Exception)",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Test, 88).refine(ctest_name)),
            Effect::Test(TestEvent::Failed),
        ],
    },
    Rule {
        name: "ctest.list",
        pattern: r"^The following tests FAILED:",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 80).follow(list)), Effect::Failure],
    },
    Rule {
        name: "ctest.summary",
        pattern: r"^\d+% tests passed(?:, (?P<failed>\d+) tests? failed)? out of (?P<n>\d+)",
        effects: &[Effect::Session, Effect::Counts(TOTAL), Effect::Summary],
    },
    Rule {
        name: "ctest.skipped",
        pattern: r"^\s+\d+ - (?P<t>\S+) \(Skipped\)$",
        effects: &[Effect::Own(|line| line.moves(ONE_SKIPPED))],
    },
    Rule {
        name: "ctest.disabled",
        pattern: r"^\s+\d+ - (?P<t>\S+) \(Disabled\)$",
        effects: &[Effect::Adds(ONE_SKIPPED)],
    },
    Rule {
        name: "ctest.advice",
        pattern: "^Use \"--rerun-failed --output-on-failure\" ",
        effects: &[Effect::Harmless],
    },
    Rule {
        name: "ctest.errors",
        pattern: r"^Errors while running CTest$",
        effects: &[Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "ctest.none",
        pattern: r"^No tests were found!!!$",
        effects: &[FAILS_WITHOUT_TESTS, Effect::Summary],
    },
];
