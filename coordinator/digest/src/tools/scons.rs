//! Output of scons.

use crate::rules::{BEGINS, ERROR, Effect, Kind, Rule, problem};
use crate::tool::{Apart, Tool, ToolId};

pub(super) const TOOL: Tool = Tool {
    apart: Apart::WithoutCode,
    builds: true,
    reports_its_end: true,
    rules: RULES,
    ..Tool::named("scons")
};

pub(super) const TARGET: Tool =
    Tool { apart: Apart::WithoutCode, builds: true, ..Tool::named("a target of scons,") };

const RULES: &[Rule] = &[
    Rule {
        name: "scons.error",
        pattern: r"^scons: \*\*\* (?P<m>.*)",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Consequence, 40)),
            Effect::Of(ToolId::SconsTarget, &[Effect::Failure]),
            Effect::Summary,
        ],
    },
    Rule {
        // An SConstruct may call `Exit(0)` while scons reads it, and then scons prints no more.
        name: "scons.begun",
        pattern: r"^scons: (?:Building|Cleaning) targets \.\.\.$",
        effects: &[BEGINS],
    },
    Rule {
        name: "scons.ended_badly",
        pattern: r"^scons: (?:building terminated because of errors|done building targets \(errors occurred during build\))\.$",
        effects: &[Effect::Failure, Effect::Summary],
    },
    Rule {
        // With `-i` it prints this for any result of the targets, so it cancels its own failures.
        name: "scons.ended",
        pattern: r"^scons: done (?:building|cleaning) targets\.$",
        effects: &[Effect::Success, Effect::Summary],
    },
];
