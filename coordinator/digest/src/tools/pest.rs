//! Output of pest.

use crate::rules::{Count, Effect, Rule};
use crate::tally::Counts;
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("pest") };

const PEST: Count = |groups| {
    let (passed, failed) = (groups.number("passed"), groups.number("failed"));
    Some(Counts { passed, failed, skipped: groups.number("skipped"), expected: 0 })
};

const RULES: &[Rule] = &[Rule {
    name: "pest.summary",
    pattern: r"^\s+Tests:\s+(?:(?:(?P<failed>\d+) failed|(?P<skipped>\d+) (?:skipped|incomplete|todos?|risky)|(?P<passed>\d+) passed|\d+ warnings?)(?:, )?)+ \(\d+ assertions?\)",
    effects: &[Effect::Session(ToolId::PhpUnit), Effect::Counts(ToolId::PhpUnit, PEST), Effect::Summary],
}];
