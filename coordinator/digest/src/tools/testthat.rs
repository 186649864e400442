//! Output of testthat.

use super::gotestsum::text_lines;
use crate::rules::{ERROR, Effect, Kind, Rule, SORTS, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("testthat") };

const RULES: &[Rule] = &[
    Rule {
        name: "testthat.failed",
        pattern: r"^(?:\xe2\x94\x80)+ (?:Failure|Error) \((?:'?(?P<f>[^\s:']+):(?P<l>\d+)(?::(?P<c>\d+))?'?|\?\?\?)\): (?P<t>.*?)[ \xe2\x94\x80]*$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 93).follow(text_lines).owning())],
    },
    Rule {
        name: "testthat.summary",
        pattern: r"^\[ FAIL (?P<failed>\d+) \| WARN \d+ \| SKIP (?P<skipped>\d+) \| PASS (?P<passed>\d+) \]",
        effects: &[Effect::Counts(SORTS), Effect::Summary],
    },
];
