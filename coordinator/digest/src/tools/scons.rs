//! Output of scons.

use crate::rules::{Act, ERROR, Kind, Rule, Sign, problem};
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
        acts: &[
            Act::Problem(problem(ERROR, Kind::Consequence, 40)),
            Act::Sign(Sign::Failure(ToolId::SconsTarget)),
            Act::Summary,
        ],
    },
    Rule {
        name: "scons.begun",
        pattern: r"^scons: (?:Reading SConscript files|Building targets|Cleaning targets) \.\.\.$",
        acts: &[Act::Sign(Sign::Begins(ToolId::Scons))],
    },
    Rule {
        name: "scons.ended_badly",
        pattern: r"^scons: (?:building terminated because of errors|done building targets \(errors occurred during build\))\.$",
        acts: &[Act::Sign(Sign::Failure(ToolId::Scons)), Act::Summary],
    },
    Rule {
        // With `-i` it prints this for any result of the targets, so it cancels its own failures.
        name: "scons.ended",
        pattern: r"^(?:scons: done (?:building|cleaning) targets\.|usage: scons \[OPTIONS\].*)$",
        acts: &[Act::Sign(Sign::Success(ToolId::Scons)), Act::Summary],
    },
];
