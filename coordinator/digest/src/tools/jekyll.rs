//! Output of Jekyll.

use crate::rules::{Diagnostic, ERROR, Effect, Fails, Kind, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("jekyll") };

/// `Liquid syntax error (line 3): … in index.md`.
fn in_source(diagnostic: &mut Diagnostic) {
    let first = diagnostic.first().trim_end().to_owned();
    let file = first.rsplit_once(" in ").map(|(_, file)| file);
    diagnostic.file = file.filter(|file| file.contains('.') && !file.contains(' ')).map(str::to_owned);
    let line = first.split_once("(line ").and_then(|(_, rest)| rest.split(')').next()?.parse().ok());
    diagnostic.line = line.filter(|_| diagnostic.file.is_some());
}

/// `YAML Exception reading /w/_config.yml: (<unknown>): mapping values are not allowed … at line 2 column 5`.
fn in_yaml(diagnostic: &mut Diagnostic) {
    let first = diagnostic.first().to_owned();
    let after = |word: &str| -> Option<u32> {
        let (_, rest) = first.rsplit_once(word)?;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    diagnostic.line = after(" line ").filter(|_| diagnostic.file.is_some());
    diagnostic.column = after(" column ").filter(|_| diagnostic.line.is_some());
}

const RULES: &[Rule] = &[
    Rule {
        name: "jekyll.liquid",
        pattern: r"^\s*Liquid Exception: (?P<m>\S.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 93).refine(in_source))],
    },
    Rule {
        // It goes on, with the exit code 0.
        name: "jekyll.front_matter",
        pattern: r"^\s*YAML Exception reading (?P<f>[^\s:]+): (?P<m>\S.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 90).refine(in_yaml).fails(Fails::Never))],
    },
    Rule {
        name: "jekyll.gave_up",
        pattern: r"^jekyll \d[\d.]* \| Error: +(?P<m>\S.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 86).fails(Fails::Always))],
    },
];
