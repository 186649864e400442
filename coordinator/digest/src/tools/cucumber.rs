//! Output of cucumber.

use crate::rules::{Act, Count, ERROR, Kind, Rule, SORTS, Sign, problem};
use crate::tally::Counts;
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("cucumber") };

/// cucumber has several sorts of those that did not run.
const SCENARIOS: Count = |groups| {
    let skipped = groups.number("skipped") + groups.number("undefined") + groups.number("pending");
    SORTS(groups).map(|counts| Counts { skipped, ..counts })
};

const RULES: &[Rule] = &[
    Rule {
        name: "cucumber.failed",
        pattern: r"^cucumber (?:.* )?(?P<f>\S+\.feature):(?P<l>\d+)(?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 90))],
    },
    Rule {
        name: "cucumber.summary",
        pattern: r"^\d+ scenarios? \((?:(?:(?P<failed>\d+) failed|(?P<errors>\d+) ambiguous|(?P<skipped>\d+) skipped|(?P<undefined>\d+) undefined|(?P<pending>\d+) pending|(?P<passed>\d+) passed)(?:, )?)+\)$",
        acts: &[Act::Session(ToolId::Cucumber), Act::Counts(ToolId::Cucumber, SCENARIOS), Act::Summary],
    },
    Rule {
        // With only skipped tests it was a dry run, which ends well.
        name: "cucumber.bad",
        pattern: r"^\d+ scenarios? \((?:[1-9]\d* undefined\)|.*\b[1-9]\d* undefined, .*\b(?:pending|passed)\))$",
        acts: &[Act::Sign(Sign::Failure(ToolId::Cucumber))],
    },
];
