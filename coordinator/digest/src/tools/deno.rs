//! Output of deno test.

use crate::rules::{Act, Rule, SORTS};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("deno test") };

const RULES: &[Rule] = &[Rule {
    name: "deno.summary",
    pattern: r"^(?:ok|FAILED) \| (?P<passed>\d+) passed(?: \([^)]*\))? \| (?P<failed>\d+) failed(?: \([^)]*\))?(?: \| (?P<skipped>\d+) ignored)?",
    acts: &[Act::Session(ToolId::Deno), Act::Counts(ToolId::Deno, SORTS), Act::Summary],
}];
