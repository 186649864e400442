//! Output of uvu.

use crate::rules::{Count, Effect, Rule};
use crate::tally::Counts;
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("uvu") };

const MARKS: Count = |groups| {
    let (passed, total) = (groups.number("passed"), groups.number("n"));
    Some(Counts { passed, failed: total.saturating_sub(passed), skipped: 0, expected: 0 })
};

const RULES: &[Rule] = &[Rule {
    name: "uvu.marks",
    pattern: r"^(?:(?:\xe2\x80\xa2|\xe2\x9c\x98) )+ *\((?P<passed>\d+) / (?P<n>\d+)\)$",
    effects: &[Effect::Session, Effect::Counts(MARKS), Effect::Summary],
}];
