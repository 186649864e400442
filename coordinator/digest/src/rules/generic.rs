//! Shapes that many tools share, for those that no other table knows. All anchored: a word in the middle of a sentence
//! means nothing.

use super::{Act, Kind, Level, Rule, indented, problem};

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "generic.place_severity",
        pattern: r"^\s*(?P<f>(?:[A-Za-z]:)?[^\s:(][^:(\t]*?)(?::(?P<l>\d+)(?::(?P<c>\d+))?|\((?P<l2>\d+)(?:,\s?(?P<c2>\d+))?\))(?::| -)? {0,2}\[?(?P<s>[Ff]atal(?: [Ee]rror)?|FATAL|[Ee]rror|ERROR|[Ww]arning|WARN(?:ING)?|[Ii]nfo|INFO|[Nn]ote|NOTE|style|CRITICAL)\]?(?:\[[\w-]+\])?(?P<m>[: ].*)",
        acts: &[Act::Problem(problem(Level::Word, Kind::Lint, 85).follow(indented))],
    },
    Rule {
        name: "generic.severity",
        pattern: r"^\[?(?P<s>ERROR|Error|error|FATAL|Fatal|fatal|CRITICAL|Critical)\]?(?: \[[^\]]*\])?:? (?P<m>.*)",
        acts: &[Act::Problem(problem(Level::Word, Kind::Runtime, 60).follow(indented))],
    },
];
