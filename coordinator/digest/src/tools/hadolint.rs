//! Output of hadolint.

use crate::rules::{Diagnostic, Effect, Fails, Kind, Level, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { lints: true, rules: RULES, ..Tool::named("hadolint") };

/// It fails after each remark except those about style.
fn fails_below_style(diagnostic: &mut Diagnostic) {
    if !diagnostic.after_place().contains(" style: ") {
        diagnostic.fails = Fails::Always;
    }
}

const RULES: &[Rule] = &[Rule {
    name: "hadolint",
    pattern: r"^(?P<f>[^\s:]+):(?P<l>\d+) (?P<k>[A-Z]{2,4}\d{3,5}) (?P<s>error|warning|info|style): (?P<m>.*)",
    effects: &[Effect::Problem(problem(Level::Word, Kind::Lint, 90).refine(fails_below_style))],
}];
