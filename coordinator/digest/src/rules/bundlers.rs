//! Bundlers and formatters of JavaScript: webpack, rollup, vite, esbuild, terser, prettier.

use super::{Act, Draft, ERROR, Kind, Rule, Sign, WARNING, indented_or_blank, paragraph, problem, set_place};
use crate::tool::ToolId;

/// The place that stands below the message: `    src/a.js:1:7:`.
fn esbuild_place(draft: &mut Draft) {
    let lines: Vec<String> = draft.lines.iter().skip(1).filter(|line| line.ends_with(':')).cloned().collect();
    if lines.iter().any(|line| set_place(draft, line)) {
        draft.kind = Some(Kind::Build);
    }
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "webpack.error",
        pattern: r"^ERROR in (?P<f>\S+?)(?:[ :](?P<l>\d+):(?P<c>\d+).*)?$",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 93).follow(paragraph))],
    },
    Rule {
        name: "webpack.compiled",
        pattern: r"^webpack(?: [\d.]+)? compiled with (?P<n>[1-9]\d*) errors?",
        acts: &[Act::Sign(Sign::Failure(ToolId::Webpack)), Act::Summary],
    },
    Rule {
        name: "webpack.compiled_ok",
        pattern: r"^webpack(?: [\d.]+)? compiled (?:successfully|with \d+ warnings?)",
        acts: &[Act::Sign(Sign::Success(ToolId::Webpack)), Act::Summary],
    },
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
    Rule {
        name: "terser.error",
        pattern: r"^Parse error at (?P<f>[^\s:]+):(?P<l>\d+),(?P<c>\d+)$",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Build, 92).follow(paragraph).owning()),
            Act::Sign(Sign::Failure(ToolId::Bundler)),
        ],
    },
    Rule {
        name: "prettier.found",
        pattern: r"^\[(?:warn|error)\] (?P<m>Code style issues .*|\S+: SyntaxError.*|No files matching.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Lint, 88)), Act::Sign(Sign::Failure(ToolId::Prettier))],
    },
    Rule {
        name: "prettier.file",
        pattern: r"^\[warn\] (?P<f>\S+\.\w+)$",
        acts: &[Act::Problem(problem(WARNING, Kind::Lint, 60))],
    },
];
