//! Output of Unity, the test framework for C, and of Unity, the engine.

use crate::rules::{ERROR, Effect, Fails, Kind, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Unity") };

pub(super) const ENGINE: Tool = Tool { rules: ENGINE_RULES, ..Tool::named("Unity engine") };

const RULES: &[Rule] = &[Rule {
    name: "unity.failed",
    pattern: r"^(?P<f>[^\s:]+):(?P<l>\d+):(?P<t>\w+):FAIL(?::(?P<m>.*))?$",
    effects: &[Effect::Problem(problem(ERROR, Kind::Test, 93))],
}];

const ENGINE_RULES: &[Rule] = &[Rule {
    // The editor may end with 0 nevertheless.
    name: "unity.build_failed",
    pattern: r"^(?P<m>(?:Scripts have compiler errors\.|Error building Player(?: because|:) .*|Build Finished, Result: (?:Failure|Cancelled)\.))$",
    effects: &[Effect::Problem(problem(ERROR, Kind::Build, 62).fails(Fails::Always))],
}];
