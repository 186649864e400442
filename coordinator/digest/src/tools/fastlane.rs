//! Output of fastlane.

use crate::rules::{Effect, Rule};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("fastlane") };

const RULES: &[Rule] = &[Rule {
    name: "fastlane.failed",
    pattern: r"^fastlane finished with errors$",
    effects: &[Effect::Failure, Effect::Summary],
}];
