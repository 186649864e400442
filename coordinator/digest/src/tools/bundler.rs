//! Output of bundler.

use crate::rules::{
    Diagnostic, ERROR, Effect, Fails, Kind, Next, Rule, indented_or_blank, paragraph, problem, set_place,
};
use crate::tool::{Apart, Tool};

pub(super) const TOOL: Tool =
    Tool { apart: Apart::Always, builds: true, rules: RULES, ..Tool::named("bundler") };

/// The place that stands below the message: `    src/a.js:1:7:`.
fn esbuild_place(diagnostic: &mut Diagnostic) {
    let lines: Vec<String> =
        diagnostic.lines.iter().skip(1).filter(|line| line.ends_with(':')).cloned().collect();
    if lines.iter().any(|line| set_place(diagnostic, line)) {
        diagnostic.kind = Some(Kind::Build);
    }
}

/// The message of the plugin. `Build failed with 1 error:` announces it below a blank line.
fn below(so_far: &[String], line: &str) -> Next {
    let announced = so_far.get(1).is_some_and(|first| first.ends_with(':'));
    if !announced {
        paragraph(so_far, line)
    } else if so_far.len() > 40 || line.starts_with("    at ") {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else if line.starts_with([' ', '[']) || crate::rules::is_drawing(line) || so_far.len() < 4 {
        Next::Part
    } else {
        Next::Beyond
    }
}

fn framed(diagnostic: &mut Diagnostic) {
    crate::rules::pointed(diagnostic);
    let head = diagnostic.lines.iter().position(|line| line.starts_with('[') || line.contains("rror: "));
    diagnostic.head = head.filter(|_| diagnostic.lines.get(1).is_some_and(|first| first.ends_with(':')));
}

/// The excerpt that Metro draws below its message, with the place of the import.
fn metro_excerpt(so_far: &[String], line: &str) -> Next {
    let is_row = line.contains(" | ") && line.starts_with([' ', '>']);
    if (is_row || line.starts_with("     ")) && so_far.len() < 12 { Next::Part } else { Next::Beyond }
}

fn metro_row(diagnostic: &mut Diagnostic) {
    let row = diagnostic.lines.iter().find_map(|line| line.strip_prefix('>')?.split_once(" | "));
    diagnostic.line = row.and_then(|(number, _)| number.trim().parse().ok());
}

const RULES: &[Rule] = &[
    Rule {
        // Metro, of React Native.
        name: "bundler.metro",
        pattern: r#"^(?:Error: |error: )?(?P<m>Unable to resolve (?:module )?"[^"]+" from )"(?P<f>[^"]+)""#,
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Build, 90).follow(metro_excerpt).refine(metro_row).fails(Fails::Always),
        )],
    },
    Rule {
        name: "bundler.metro_failed",
        pattern: r"^(?:Android|iOS|Web|Server|\S{1,4}) Bundling failed \d+ms\b",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 60)), Effect::Failure],
    },
    Rule {
        name: "bundler.failed",
        pattern: r"^error during build:$",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Build, 88).follow(below).owning().refine(framed)),
            Effect::Failure,
        ],
    },
    Rule {
        // Without the sign the line may be of any log; its location and its total show that esbuild failed.
        name: "bundler.plain_error",
        pattern: r"^X \[ERROR\] (?P<m>.*)",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Runtime, 80).follow(indented_or_blank).refine(esbuild_place),
        )],
    },
    Rule {
        name: "bundler.error",
        pattern: r"^(?:\xe2\x9c\x98|\xe2\x9c\x96) \[ERROR\] (?P<m>.*)",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Build, 92).follow(indented_or_blank).refine(esbuild_place)),
            Effect::Failure,
        ],
    },
];
