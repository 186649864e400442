//! Output of MSVC.

use super::c::indented_no_head;
use crate::rules::{Effect, Kind, Level, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("MSVC") };

const RULES: &[Rule] = &[
    Rule {
        name: "msvc",
        pattern: r"^(?:\d+>)?\s*(?P<f>(?:[A-Za-z]:)?[^:(]+?)\s?\((?P<l>\d+)(?:,(?P<c>\d+))?(?:,\d+,\d+)?\)\s?: (?P<s>[Ff]atal [Ee]rror|[Ee]rror|[Ww]arning|[Nn]ote|[Ii]nfo|[Mm]essage|[Rr]emark)\b(?P<m>.*)",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Build, 90).follow(indented_no_head))],
    },
    Rule {
        name: "msvc.linker",
        pattern: r"^(?:\d+>)?\s*[\w .\-/\\:]+ : (?P<s>fatal error|error|warning) [A-Z]+\d+: (?P<m>.*)",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Build, 90))],
    },
];
