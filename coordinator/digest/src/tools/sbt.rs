//! Output of sbt.

use crate::rules::{ERROR, Effect, Kind, Level, Next, Role, Rule, SORTS, problem};
use crate::tool::{Includes, Tool};

pub(super) const TOOL: Tool =
    Tool { drives: true, includes: Includes::AllOthers, rules: RULES, ..Tool::named("sbt") };

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
        name: "sbt.at_work",
        pattern: r"^\[info\] (?:welcome to sbt |loading (?:settings|project definition|global plugins) )",
        effects: &[Effect::AtWork],
    },
    Rule { name: "sbt.failed", pattern: r"^\[error\] Total time: ", effects: &[Effect::Failure] },
    Rule {
        name: "sbt.chatter",
        pattern: r"^\[error\] (?:(?:one|two|three|four|\d+) errors? found|Total time: )",
        effects: &[Effect::Harmless],
    },
    Rule {
        name: "sbt.total",
        pattern: r"^\[(?:error|info)\] (?:Failed|Passed|Error): Total (?P<n>\d+), Failed (?P<failed>\d+), Errors (?P<errors>\d+), Passed (?P<passed>\d+)(?:, (?:Skipped|Ignored) (?P<skipped>\d+))?",
        effects: &[Effect::Session, Effect::Counts(SORTS), Effect::Harmless, Effect::Summary],
    },
    Rule {
        name: "sbt.task",
        pattern: r"^\[error\] \([^()]* / [^()]*\) (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 60)), Effect::Failure],
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
        effects: &[Effect::Success, Effect::Summary],
    },
];
