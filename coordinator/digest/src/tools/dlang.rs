//! Output of D's runtime and of dub.

use crate::rules::{ERROR, Effect, Kind, Next, Role, Rule, always, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool =
    Tool { commands: &["dub", "dmd", "ldc2", "rdmd"], rules: RULES, ..Tool::named("dub") };

/// The rule below the message, and the frames.
fn frames(so_far: &[String], line: &str) -> Next {
    let is_rule = line.len() >= 10 && line.bytes().all(|byte| byte == b'-');
    let is_frame = line.ends_with(']') && line.contains(" [0x");
    if (is_rule || is_frame) && so_far.len() < 60 { Next::Part } else { Next::Beyond }
}

const RULES: &[Rule] = &[
    Rule {
        name: "dlang.thrown",
        pattern: r"^(?:[a-zA-Z_]\w*\.)+[A-Z]\w*@(?P<f>[^\s()@]+\.d)\((?P<l>\d+)\)(?:: (?P<m>.*))?$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Runtime, 92).follow(frames).owning().role(Role::Trace).ended(always),
        )],
    },
    Rule {
        name: "dlang.unittest",
        pattern: r"^(?P<f>[^\s()]+\.d)\((?P<l>\d+)\): \[unittest\] (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 92))],
    },
    Rule {
        name: "dlang.modules",
        pattern: r"^[1-9]\d*/\d+ modules FAILED unittests$",
        effects: &[Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "dub.program",
        pattern: r"^(?:Error )?Program exited with code -?\d+$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 50)), Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "dub.package",
        pattern: r"^No (?:package manifest \(dub\.json or dub\.sdl\) was found in|valid root package found - aborting\.)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 85))],
    },
];
