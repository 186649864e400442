//! Output of Scala.

use crate::rules::{Effect, Kind, Level, Next, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Scala") };

/// The excerpt and the explanation, each line marked like the head.
fn scala3_lines(so_far: &[String], line: &str) -> Next {
    let marked = so_far.first().is_some_and(|head| head.starts_with('['));
    let body = if marked { line.split_once("] ").map_or("", |(_, body)| body) } else { line };
    let numbered = body.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
    if numbered.starts_with('|') && so_far.len() < 40 { Next::Part } else { Next::Beyond }
}

const RULES: &[Rule] = &[Rule {
    name: "scala3",
    pattern: r"^(?:\[(?P<s>error|warn)\] )?-- (?:\[E\d+\] )?(?P<m>.*?): (?P<f>[^\s:]+):(?P<l>\d+):(?P<c>\d+) -*$",
    effects: &[Effect::Problem(problem(Level::Word, Kind::Build, 94).follow(scala3_lines).owning())],
}];
