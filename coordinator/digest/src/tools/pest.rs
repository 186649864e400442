//! Output of pest.

use crate::rules::{Effect, Rule, SORTS};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("pest") };

const RULES: &[Rule] = &[Rule {
    name: "pest.summary",
    pattern: r"^\s+Tests:\s+(?:(?:(?P<failed>\d+) failed|(?P<skipped>\d+) (?:skipped|incomplete|todos?|risky)|(?P<passed>\d+) passed|\d+ warnings?)(?:, )?)+ \(\d+ assertions?\)",
    effects: &[Effect::Session(ToolId::PhpUnit), Effect::Counts(ToolId::PhpUnit, SORTS), Effect::Summary],
}];
