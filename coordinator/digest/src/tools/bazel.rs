//! Output of bazel test.

use super::compiler::{CHILD_DIED, DIED};
use crate::rules::{ERROR, Effect, Kind, Rule, SORTS, TestEvent, indented, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TEST: Tool = Tool {
    runs_tests: true,
    program: Some(ToolId::Bazel),
    by_test: true,
    counts_targets: true,
    ..Tool::named("bazel test")
};

pub(super) const TOOL: Tool = Tool { drives: true, rules: RULES, ..Tool::named("bazel") };

const RULES: &[Rule] = &[
    Rule {
        name: "bazel.at_work",
        pattern: r"^(?:Starting local Bazel server and connecting to it|Computing main repo mapping:|Loading: *$|INFO: (?:Invocation ID: |Analyzed \d+ targets \())",
        effects: &[Effect::AtWork],
    },
    Rule {
        name: "bazel.action_died",
        pattern: concat!(r"^ERROR: .* failed: \((?P<sig>", words!(), r")\): "),
        effects: &[Effect::Problem(DIED), CHILD_DIED],
    },
    Rule {
        name: "bazel.server_died",
        pattern: r"^Server terminated abruptly \(error code: ",
        effects: &[Effect::Problem(DIED), CHILD_DIED],
    },
    Rule {
        name: "bazel.target",
        pattern: r"^INFO: Analyzed target (?P<u>\S+) \(",
        effects: &[Effect::AtWork, Effect::Own(|line| line.works_on(ToolId::Bazel))],
    },
    Rule {
        name: "bazel.output",
        pattern: r"^={20} Test output for (?P<t>@?@?\w*//[^\s:]*:[^\s:]+)(?: \(.*\))?:$",
        effects: &[Effect::Own(|line| line.tally.opens_target(&line.text("t")))],
    },
    Rule {
        name: "bazel.test_passed",
        pattern: r"^(?P<t>@?@?\w*//\S+)\s+(?:\(cached\) )?PASSED(?: in .*)?$",
        effects: &[Effect::Of(ToolId::BazelTest, &[Effect::Test(TestEvent::Passed)])],
    },
    Rule {
        name: "bazel.test_failed",
        pattern: r"^(?P<t>@?@?\w*//\S+)\s+(?:FAILED|TIMEOUT)(?: in .*)?$",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Test, 88).follow(indented).bare()),
            Effect::Of(ToolId::BazelTest, &[Effect::Test(TestEvent::Failed)]),
            Effect::Failure,
        ],
    },
    Rule {
        name: "bazel.executed",
        pattern: r"^Executed \d+ out of (?P<n>\d+) tests?: (?:(?P<passed>\d+) tests? pass(?:es)?|(?P<failed>\d+) fails?(?: to build| locally| remotely)?)(?:,? (?:and )?(?:(?P<failed2>\d+) fails?(?: to build| locally| remotely)?|(?P<skipped>\d+) (?:was|were) skipped))*\.",
        effects: &[Effect::Of(ToolId::BazelTest, &[Effect::Session, Effect::Counts(SORTS)]), Effect::Summary],
    },
    Rule {
        name: "bazel.error",
        pattern: r"^ERROR: (?P<f>/[^\s:]+):(?P<l>\d+):(?P<c>\d+): (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 84))],
    },
    Rule {
        name: "bazel.target_failed",
        pattern: r"^Target (?P<t>@?@?\w*//\S+) failed to build$",
        effects: &[Effect::Failure, Effect::Summary, Effect::Harmless],
    },
    Rule {
        name: "bazel.bad",
        pattern: r"^(?:INFO|ERROR|FAILED): Build did NOT complete successfully",
        effects: &[Effect::Failure, Effect::Summary, Effect::Harmless],
    },
    Rule {
        name: "bazel.good",
        pattern: r"^INFO: Build completed successfully",
        effects: &[Effect::Success, Effect::Summary],
    },
];
