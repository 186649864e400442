//! Output of HTMLHint.

use crate::rules::{Diagnostic, Effect, Kind, Level, Next, Rule, problem};
use crate::tool::{Apart, Tool};

pub(super) const TOOL: Tool =
    Tool { apart: Apart::Always, lints: true, rules: RULES, ..Tool::named("htmlhint") };

/// The message with a caret below the excerpt.
fn caret(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("^ ").filter(|said| said.ends_with(')'))
}

fn below(so_far: &[String], line: &str) -> Next {
    if so_far.len() == 1 && caret(line).is_some() { Next::Last } else { Next::Beyond }
}

fn says_below(diagnostic: &mut Diagnostic) {
    let said = diagnostic.lines.get(1).and_then(|line| caret(line)).map(str::to_owned);
    diagnostic.spurious = said.is_none();
    if let Some(said) = said {
        diagnostic.lines = vec![said];
    }
}

const RULES: &[Rule] = &[
    Rule { name: "htmlhint.file", pattern: r"^ {3}(?P<f>[^\s:]+\.\w{1,10})$", effects: &[Effect::File] },
    Rule {
        name: "htmlhint.row",
        pattern: r"^ {6}L(?P<l>\d+) \|",
        effects: &[Effect::Problem(
            problem(Level::Remark, Kind::Lint, 86).follow(below).in_file().refine(says_below),
        )],
    },
    Rule {
        name: "htmlhint.total",
        pattern: r"^Scanned \d+ files?, found [1-9]\d* errors? in .*",
        effects: &[Effect::Failure, Effect::Summary, Effect::Harmless],
    },
];
