//! Output of test runners.

use super::compiler::DIED;
use crate::rules::{
    ERROR, Effect, FAILS_WITHOUT_TESTS, FATAL, Indicator, Kind, NO_TESTS, RUNS, Rule, problem,
};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("test runners") };

const RULES: &[Rule] = &[
    Rule {
        name: "runner.restarted",
        pattern: r"^\s*Restarting after unexpected exit, crash, or test timeout(?: in (?P<t>[^;]+?)\.?)?\s*(?:;|$)",
        effects: &[
            Effect::Problem(problem(FATAL, Kind::Crash, 92)),
            Effect::Crash(Indicator::RestartedAfterCrash),
            Effect::Of(ToolId::Xcodebuild, &[RUNS]),
        ],
    },
    Rule {
        name: "runner.crashed",
        pattern: r"^.*(?:[Tt]est runner .{0,80}crashed|The test runner (?:crashed|hung|exited|timed out)|Testing failed.{0,80}crashed|Test crashed with signal)",
        effects: &[
            Effect::Problem(problem(FATAL, Kind::Crash, 92)),
            Effect::Crash(Indicator::TestRunnerCrashed),
        ],
    },
    Rule {
        name: "runner.process_crashed",
        pattern: r"^.*Test process crashed",
        effects: &[
            Effect::Problem(problem(FATAL, Kind::Crash, 90)),
            Effect::Crash(Indicator::TestProcessCrashed),
        ],
    },
    Rule {
        name: "runner.early_exit",
        pattern: r"^.*(?:Early unexpected exit|operation never finished bootstrapping)",
        effects: &[Effect::Problem(problem(FATAL, Kind::Crash, 90)), Effect::Crash(Indicator::EarlyExit)],
    },
    Rule {
        name: "runner.never_began",
        pattern: r"^.*(?:Test runner never began executing tests|never began testing)",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Infrastructure, 88)),
            Effect::Crash(Indicator::NeverBeganTesting),
        ],
    },
    Rule {
        name: "runner.bundle",
        pattern: r"^.*(?:Failed to load the test bundle|The bundle .{0,200} couldn.{1,3}t be loaded)",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Build, 88)),
            Effect::Crash(Indicator::BundleLoadFailed),
        ],
    },
    Rule {
        name: "runner.error",
        pattern: r"^(?:.*\S+ \(\d+\)|\s*\S+) encountered an error \((?P<m>.*)",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Infrastructure, 80)),
            Effect::Crash(Indicator::RunnerError),
        ],
    },
    Rule {
        name: "runner.connection",
        pattern: r"^.*(?:Connection interrupted|Connection with the remote side was unexpectedly closed|lost connection to (?:the )?test ?manager|Lost connection to testmanagerd)",
        effects: &[Effect::Crash(Indicator::ConnectionInterrupted)],
    },
    Rule {
        // The marks of the tests before it stand on the same line.
        name: "progress.died",
        pattern: concat!(
            r"^(?:\S+\.(?:py|rb|[cm]?[jt]sx?|php|exs|lua|pl|t|bats) )?[.FEsxXu]*[.FEX](?:[\w./-]+: (?:line )?\d+: +\d+ +)?(?P<sig>",
            shell_words!(),
            r")(?:: \d+)?(?: +\(core dumped\).*| {2,}.*)?$"
        ),
        effects: &[Effect::Problem(DIED), Effect::Crash(Indicator::Died(""))],
    },
    Rule {
        // Before the rule for runners that succeed without tests.
        name: "runner.fails_without_tests",
        pattern: r"^(?:No (?:related )?tests? (?:files? )?found, exiting with code [1-9]|NO TESTS RAN$|(?:Error: )?No test files found: |Error: No tests found\.?$|Paths given to .mix test. did not match any |The --only option was given to .mix test. but no test was executed$|> No tests found for given|Could not find '\S+\.[cm]?[jt]sx?'$)",
        effects: &[FAILS_WITHOUT_TESTS, Effect::Summary],
    },
    Rule {
        name: "runner.no_tests",
        pattern: r"^(?:\[(?:INFO|WARNING|ERROR)\] )?(?:No tests? (?:files? )?found(?:,| related| for given|\.|$)|No tests to run|No suitable tests defined\.|No tests (?:were )?(?:executed|found|matched)|No (?:test|spec) files (?:were )?found|No matching test cases were run|No test (?:is available in|matches the given))",
        effects: &[NO_TESTS, Effect::Summary],
    },
];
