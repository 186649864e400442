//! Output of hadolint.

use crate::rules::{Act, Draft, Fails, Kind, Level, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { lints: true, rules: RULES, ..Tool::named("hadolint") };

/// It fails after each remark except those about style.
fn fails_below_style(draft: &mut Draft) {
    if !draft.after_place().contains(" style: ") {
        draft.fails = Fails::Always;
    }
}

const RULES: &[Rule] = &[Rule {
    name: "hadolint",
    pattern: r"^(?P<f>[^\s:]+):(?P<l>\d+) (?P<k>[A-Z]{2,4}\d{3,5}) (?P<s>error|warning|info|style): (?P<m>.*)",
    acts: &[Act::Problem(problem(Level::Word, Kind::Lint, 90).refine(fails_below_style))],
}];
