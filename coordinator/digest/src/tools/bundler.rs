//! Output of bundler.

use crate::rules::{Act, Draft, ERROR, Kind, Rule, Sign, indented_or_blank, paragraph, problem, set_place};
use crate::tool::{Apart, Tool, ToolId};

pub(super) const TOOL: Tool =
    Tool { apart: Apart::Always, builds: true, rules: RULES, ..Tool::named("bundler") };

/// The place that stands below the message: `    src/a.js:1:7:`.
fn esbuild_place(draft: &mut Draft) {
    let lines: Vec<String> = draft.lines.iter().skip(1).filter(|line| line.ends_with(':')).cloned().collect();
    if lines.iter().any(|line| set_place(draft, line)) {
        draft.kind = Some(Kind::Build);
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "bundler.failed",
        pattern: r"^error during build:$",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Build, 88).follow(paragraph).owning()),
            Act::Sign(Sign::Failure(ToolId::Bundler)),
        ],
    },
    Rule {
        // Without the sign the line may be of any log; its location and its total show that esbuild failed.
        name: "bundler.plain_error",
        pattern: r"^X \[ERROR\] (?P<m>.*)",
        acts: &[Act::Problem(
            problem(ERROR, Kind::Runtime, 80).follow(indented_or_blank).refine(esbuild_place),
        )],
    },
    Rule {
        name: "bundler.error",
        pattern: r"^(?:\xe2\x9c\x98|\xe2\x9c\x96) \[ERROR\] (?P<m>.*)",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Build, 92).follow(indented_or_blank).refine(esbuild_place)),
            Act::Sign(Sign::Failure(ToolId::Bundler)),
        ],
    },
];
