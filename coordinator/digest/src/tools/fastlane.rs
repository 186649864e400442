//! Output of fastlane.

use crate::rules::{Effect, Marker, Rule};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("fastlane") };

const RULES: &[Rule] = &[Rule {
    name: "fastlane.failed",
    pattern: r"^fastlane finished with errors$",
    effects: &[Effect::Marker(Marker::Failure(ToolId::Fastlane)), Effect::Summary],
}];
