//! Output of Erlang.

use super::compiler::DIED;
use crate::rules::{Effect, Indicator, Next, Rule};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Erlang") };

/// The line about the dump, below a blank one.
fn up_to_dump(so_far: &[String], line: &str) -> Next {
    if line.starts_with("Crash dump is being written to: ") {
        Next::Last
    } else if line.trim().is_empty() && so_far.len() < 3 {
        Next::Maybe
    } else {
        Next::Beyond
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "erlang.boot",
        pattern: r"^(?:init terminating in do_boot|Runtime terminating during boot) \((?P<m>.*)",
        effects: &[Effect::Problem(DIED.follow(up_to_dump).owning()), Effect::Crash(Indicator::FatalError)],
    },
    Rule {
        name: "erlang.dump",
        pattern: r"^Crash dump is being written to: (?P<m>.*)",
        effects: &[Effect::Problem(DIED), Effect::Crash(Indicator::FatalError)],
    },
];
