//! Reports of UVM. The simulator exits with 0 after errors.

use crate::rules::{Effect, Fails, Kind, Level, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { runs_tests: true, rules: RULES, ..Tool::named("UVM") };

const RULES: &[Rule] = &[
    Rule {
        name: "uvm.error",
        pattern: r"^(?:# (?:KERNEL: )?)?UVM_(?P<s>ERROR|FATAL) (?:(?P<f>[^\s()]+)\((?P<l>\d+)\) )?@ [^:]+: (?P<m>.*)$",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Test, 92).fails(Fails::Always))],
    },
    Rule {
        name: "uvm.count",
        pattern: r"^(?:# (?:KERNEL: )?)?UVM_(?:ERROR|FATAL) : +[1-9]\d*$",
        effects: &[Effect::Failure, Effect::Summary],
    },
];
