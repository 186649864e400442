//! Output of fastlane.

use crate::rules::{Act, Rule, Sign};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("fastlane") };

const RULES: &[Rule] = &[Rule {
    name: "fastlane.failed",
    pattern: r"^fastlane finished with errors$",
    acts: &[Act::Sign(Sign::Failure(ToolId::Fastlane)), Act::Summary],
}];
