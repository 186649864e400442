//! Output of sbt.

use crate::rules::{ERROR, Effect, Kind, Level, Marker, Next, Role, Rule, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { drives: true, rules: RULES, ..Tool::named("sbt") };

fn sbt_lines(_: &[String], line: &str) -> Next {
    let rest = line.strip_prefix("[error] ").or_else(|| line.strip_prefix("[warn] "));
    match rest {
        Some(rest) if rest.starts_with([' ', '\t']) || rest.trim_start().starts_with('^') => Next::Part,
        Some(rest) if rest.contains(':') && rest.starts_with('/') => Next::Beyond,
        _ => Next::Beyond,
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "sbt.chatter",
        pattern: r"^\[error\] (?:(?:one|two|three|four|\d+) errors? found|Total time: )",
        effects: &[Effect::Harmless],
    },
    Rule {
        name: "sbt.task",
        pattern: r"^\[error\] \([^()]* / [^()]*\) (?P<m>.*)",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Consequence, 60)),
            Effect::Marker(Marker::Failure(ToolId::Sbt)),
        ],
    },
    Rule {
        name: "sbt",
        pattern: r"^\[(?P<s>error|warn)\] (?P<f>[^\s:]+):(?P<l>\d+)(?::(?P<c>\d+))?: (?P<m>.*)",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Build, 93).follow(sbt_lines))],
    },
    Rule {
        name: "sbt.error",
        pattern: r"^\[error\] (?P<m>\S.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 65).role(Role::Vague))],
    },
    Rule {
        name: "sbt.success",
        pattern: r"^\[success\] Total time",
        effects: &[Effect::Marker(Marker::Success(ToolId::Sbt)), Effect::Summary],
    },
];
