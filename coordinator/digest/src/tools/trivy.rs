//! Output of trivy. It exits with 0 after vulnerabilities, unless an option says otherwise.

use crate::rules::{Effect, Fails, Kind, Level, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("trivy") };

const RULES: &[Rule] = &[Rule {
    name: "trivy.row",
    pattern: r"^(?:\||\xe2\x94\x82) (?P<m>.*?\b(?P<k>CVE-\d{4}-\d+|GHSA-[\w-]+) +(?:\||\xe2\x94\x82) (?P<s>UNKNOWN|LOW|MEDIUM|HIGH|CRITICAL) .*)$",
    effects: &[Effect::Problem(problem(Level::Word, Kind::Lint, 90).fails(Fails::Never))],
}];
