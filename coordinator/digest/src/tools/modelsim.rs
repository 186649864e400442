//! Output of ModelSim.

use crate::rules::{Effect, Kind, Level, Next, Rule, indented, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("ModelSim") };

/// Where a simulator's message comes from: `** while parsing`, `** at`.
fn modelsim_lines(so_far: &[String], line: &str) -> Next {
    let body = line.strip_prefix("# ").unwrap_or(line);
    if body.starts_with("** at ") || body.starts_with("** while ") {
        Next::Part
    } else {
        indented(so_far, body)
    }
}

const RULES: &[Rule] = &[Rule {
    name: "modelsim",
    pattern: r"^(?:# )?\*\* (?P<s>Error|Warning|Fatal|Note)(?: \([^)]*\))?: (?P<m>.*)",
    effects: &[Effect::Problem(problem(Level::Word, Kind::Build, 88).follow(modelsim_lines))],
}];
