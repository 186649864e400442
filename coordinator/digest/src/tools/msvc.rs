//! Output of MSVC.

use super::c::indented_no_head;
use crate::rules::{Diagnostic, Effect, Fails, Kind, Level, Next, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("MSVC") };

/// An error of the build tool itself, such as `LINK : fatal error LNK1104: …`, ends the build.
fn without_a_line(diagnostic: &mut Diagnostic) {
    if !diagnostic.first().contains(" : warning ") {
        diagnostic.fails = Fails::Always;
    }
    // The count of the symbols above.
    if diagnostic.first().contains(" error LNK1120: ") {
        diagnostic.kind = Some(Kind::Consequence);
    }
}

/// Indented lines of a message. .NET's terminal logger indents the messages themselves.
fn message(so_far: &[String], line: &str) -> Next {
    let is_next = ["): error ", "): warning ", "): info ", ": error ", ": warning "];
    if is_next.iter().any(|word| line.contains(word)) { Next::Beyond } else { indented_no_head(so_far, line) }
}

const RULES: &[Rule] = &[
    Rule {
        name: "msvc",
        pattern: r"^(?:\d+>)?\s*(?P<f>(?:[A-Za-z]:)?[^:(]+?)\s?\((?P<l>\d+)(?:,(?P<c>\d+))?(?:,\d+,\d+)?\)\s?: (?P<s>[Ff]atal [Ee]rror|[Ee]rror|[Ww]arning|[Nn]ote|[Ii]nfo|[Mm]essage|[Rr]emark)\b(?P<m>.*)",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Build, 90).follow(message))],
    },
    Rule {
        name: "msvc.linker",
        pattern: r"^(?:\d+>)?\s*(?:[\w .\-/\\:()]+ |CSC|VBC|FSC|MSBUILD): (?P<s>fatal error|error|warning) [A-Z]+\d+: (?P<m>.*)",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Build, 90).refine(without_a_line))],
    },
];
