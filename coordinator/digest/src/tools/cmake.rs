//! Output of cmake.

use crate::rules::{ERROR, Effect, Kind, Next, Rule, WARNING, indented_or_blank, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("cmake") };

fn cmake_lines(so_far: &[String], line: &str) -> Next {
    if line.starts_with("Call Stack") { Next::Part } else { indented_or_blank(so_far, line) }
}

const RULES: &[Rule] = &[
    Rule {
        name: "cmake.error",
        pattern: r"^CMake Error(?: at (?P<f>[^:]+):(?P<l>\d+))?.*",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 93).follow(cmake_lines)), Effect::Failure],
    },
    Rule {
        name: "cmake.warning",
        pattern: r"^CMake (?:Deprecation )?Warning(?: \(dev\))?(?: at (?P<f>[^:]+):(?P<l>\d+))?.*",
        effects: &[Effect::Problem(problem(WARNING, Kind::Build, 50).follow(cmake_lines))],
    },
    Rule {
        name: "cmake.incomplete",
        pattern: r"^(?:-- Configuring incomplete, errors occurred!|CMake Generate step failed)",
        effects: &[Effect::Failure, Effect::Summary],
    },
];
