//! Output of forge test, the test runner of Foundry.

use crate::rules::{ERROR, Effect, Kind, Rule, SORTS, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool =
    Tool { runs_tests: true, commands: &["forge test"], rules: RULES, ..Tool::named("forge test") };

const RULES: &[Rule] = &[
    Rule {
        name: "foundry.suite",
        pattern: r"^(?:Ran|Running) \d+ tests? for (?P<f>[^\s:]+\.sol):\S+$",
        effects: &[Effect::File, Effect::AtWork],
    },
    Rule {
        name: "foundry.failed",
        pattern: r"^\[FAIL(?:[.:] (?:Reason: )?(?P<m>.*))?\] (?P<t>\w+\(.*?\)) \((?:gas|runs): .*\)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 94).in_file())],
    },
    Rule {
        name: "foundry.total",
        pattern: r"^Ran \d+ test suites?(?: in \S+(?: \(.*\))?)?: (?P<passed>\d+) tests? passed, (?P<failed>\d+) failed, (?P<skipped>\d+) skipped \(\d+ total tests?\)$",
        effects: &[Effect::Session, Effect::Counts(SORTS), Effect::Summary],
    },
    Rule {
        name: "foundry.failing",
        pattern: r"^Encountered (?:a total of )?[1-9]\d* failing tests?\b",
        effects: &[Effect::Failure, Effect::Summary, Effect::Harmless],
    },
];
