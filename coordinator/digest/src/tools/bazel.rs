//! Output of bazel test.

use super::compiler::{CHILD_DIED, DIED};
use crate::rules::{Act, Count, ERROR, Kind, Rule, Sign, TestEvent, indented, problem};
use crate::tally::Counts;
use crate::tool::{Tool, ToolId};

pub(super) const TEST: Tool =
    Tool { program: Some(ToolId::Bazel), by_test: true, counts_targets: true, ..Tool::named("bazel test") };

pub(super) const TOOL: Tool = Tool { drives: true, rules: RULES, ..Tool::named("bazel") };

const BAZEL: Count = |groups| {
    let failed = groups.number("failed") + groups.number("failed2");
    let skipped = groups.number("skipped");
    Some(Counts { passed: groups.number("passed"), failed, skipped, expected: 0 })
};

const RULES: &[Rule] = &[
    Rule {
        name: "bazel.action_died",
        pattern: concat!(r"^ERROR: .* failed: \((?P<sig>", words!(), r")\): "),
        acts: &[Act::Problem(DIED), CHILD_DIED],
    },
    Rule {
        name: "bazel.server_died",
        pattern: r"^Server terminated abruptly \(error code: ",
        acts: &[Act::Problem(DIED), CHILD_DIED],
    },
    Rule {
        name: "bazel.target",
        pattern: r"^INFO: Analyzed target (?P<u>\S+) \(",
        acts: &[Act::Unit(ToolId::Bazel)],
    },
    Rule {
        name: "bazel.output",
        pattern: r"^={20} Test output for (?P<t>@?@?\w*//[^\s:]*:[^\s:]+)(?: \(.*\))?:$",
        acts: &[Act::TargetOutput],
    },
    Rule {
        name: "bazel.test_passed",
        pattern: r"^(?P<t>@?@?\w*//\S+)\s+(?:\(cached\) )?PASSED(?: in .*)?$",
        acts: &[Act::Test(ToolId::BazelTest, TestEvent::Passed)],
    },
    Rule {
        name: "bazel.test_failed",
        pattern: r"^(?P<t>@?@?\w*//\S+)\s+(?:FAILED|TIMEOUT)(?: in .*)?$",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Test, 88).follow(indented).bare()),
            Act::Test(ToolId::BazelTest, TestEvent::Failed),
            Act::Sign(Sign::Failure(ToolId::Bazel)),
        ],
    },
    Rule {
        name: "bazel.executed",
        pattern: r"^Executed \d+ out of (?P<n>\d+) tests?: (?:(?P<passed>\d+) tests? pass(?:es)?|(?P<failed>\d+) fails?(?: to build| locally| remotely)?)(?:,? (?:and )?(?:(?P<failed2>\d+) fails?(?: to build| locally| remotely)?|(?P<skipped>\d+) (?:was|were) skipped))*\.",
        acts: &[Act::Session(ToolId::BazelTest), Act::Counts(ToolId::BazelTest, BAZEL), Act::Summary],
    },
    Rule {
        name: "bazel.error",
        pattern: r"^ERROR: (?P<f>/[^\s:]+):(?P<l>\d+):(?P<c>\d+): (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 84))],
    },
    Rule {
        name: "bazel.bad",
        pattern: r"^(?:INFO|ERROR|FAILED): Build did NOT complete successfully",
        acts: &[Act::Sign(Sign::Failure(ToolId::Bazel)), Act::Summary, Act::Harmless],
    },
    Rule {
        name: "bazel.good",
        pattern: r"^INFO: Build completed successfully",
        acts: &[Act::Sign(Sign::Success(ToolId::Bazel)), Act::Summary],
    },
];
