//! Output of Scala.

use crate::rules::{Diagnostic, Effect, Fails, Kind, Level, Next, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Scala") };

/// The excerpt and the explanation, each line marked like the head.
fn scala3_lines(so_far: &[String], line: &str) -> Next {
    let marked = so_far.first().is_some_and(|head| head.starts_with('['));
    let body = if marked { line.split_once("] ").map_or("", |(_, body)| body) } else { line };
    let numbered = body.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
    if numbered.starts_with('|') && so_far.len() < 40 { Next::Part } else { Next::Beyond }
}

/// scalastyle accepts warnings. An error about a whole file has no line.
fn fails_for_error(diagnostic: &mut Diagnostic) {
    if diagnostic.first().starts_with("error ") {
        diagnostic.fails = Fails::Always;
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "scalastyle",
        pattern: r"^(?P<s>error|warning) file=(?P<f>\S+) message=(?P<m>.*?)(?: line=(?P<l>\d+)(?: column=(?P<c>\d+))?)?$",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Lint, 90).refine(fails_for_error))],
    },
    Rule {
        name: "scala3",
        pattern: r"^(?:\[(?P<s>error|warn)\] )?-- (?:\[E\d+\] )?(?P<m>.*?): (?P<f>[^\s:]+):(?P<l>\d+):(?P<c>\d+) -*$",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Build, 94).follow(scala3_lines).owning())],
    },
];
