//! Output of deno test.

use crate::rules::{Effect, Rule, SORTS};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("deno test") };

const RULES: &[Rule] = &[Rule {
    name: "deno.summary",
    pattern: r"^(?:ok|FAILED) \| (?P<passed>\d+) passed(?: \([^)]*\))? \| (?P<failed>\d+) failed(?: \([^)]*\))?(?: \| (?P<skipped>\d+) ignored)?",
    effects: &[
        Effect::Harmless,
        Effect::Session(ToolId::Deno),
        Effect::Counts(ToolId::Deno, SORTS),
        Effect::Summary,
    ],
}];
