//! Output of shUnit2.

use crate::rules::{Diagnostic, ERROR, Effect, Fails, Kind, Rule, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { runs_tests: true, rules: RULES, ..Tool::named("shUnit2") };

/// The name of a test above its results.
fn is_name(line: &str) -> bool {
    line.starts_with("test") && line.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn named(diagnostic: &mut Diagnostic) {
    if is_name(diagnostic.first()) {
        diagnostic.test = Some(diagnostic.first().to_owned());
        diagnostic.head = Some(1);
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "shunit2.failed",
        pattern: r"^ASSERT:(?P<m>.+)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 92).lead(is_name).refine(named).fails(Fails::Always),
        )],
    },
    Rule { name: "shunit2.ran", pattern: r"^Ran \d+ tests?\.$", effects: &[Effect::AtWork, Effect::Summary] },
    Rule {
        name: "shunit2.bad",
        pattern: r"^FAILED \((?:failures=\d+)?,?(?:skipped=\d+)?\)$",
        effects: &[Effect::IfKnown(ToolId::ShUnit2), Effect::Failure, Effect::Summary],
    },
];
