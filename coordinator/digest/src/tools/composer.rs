//! Output of Composer and of other programs with Symfony's console.

use crate::rules::{Diagnostic, ERROR, Effect, Fails, Kind, Level, Next, Rule, indented_or_blank, problem};
use crate::tool::{Apart, Tool};

pub(super) const TOOL: Tool = Tool { apart: Apart::Always, rules: RULES, ..Tool::named("composer") };

/// `composer validate --strict`, which fails for warnings too.
pub(super) const STRICT: Tool = Tool {
    commands: &["composer --strict"],
    lints: true,
    rules: STRICT_RULES,
    ..Tool::named("composer validate")
};

/// The lists below the line of `composer validate`.
fn remarks(so_far: &[String], line: &str) -> Next {
    let is_remark =
        ["- ", "# ", "See https://", "strict errors "].iter().any(|start| line.starts_with(start));
    if is_remark && so_far.len() < 30 { Next::Part } else { Next::Beyond }
}

/// The message is the first error. Without a list of errors, there are only warnings.
fn invalid(diagnostic: &mut Diagnostic) {
    let is_heading = |line: &String| line.starts_with("# ") && line.ends_with(" errors");
    diagnostic.head = diagnostic.lines.iter().position(is_heading).map(|at| at + 1);
    diagnostic.spurious = diagnostic.head.is_none();
}

/// The message is the first warning.
fn warned(diagnostic: &mut Diagnostic) {
    diagnostic.head = diagnostic.lines.iter().position(|line| line.starts_with("- "));
}

/// The indented message, up to the usage of the command.
fn exception(so_far: &[String], line: &str) -> Next {
    if line.trim().is_empty() {
        Next::Maybe
    } else if line.starts_with("  ") && so_far.len() < 20 {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// The message is the first line with text, or the one below the name of the exception.
fn said(diagnostic: &mut Diagnostic) {
    for line in &mut diagnostic.lines {
        line.truncate(line.trim_end().len());
    }
    let is_message = |line: &&String| !line.is_empty() && !line.trim().starts_with('[');
    let message = diagnostic.lines.iter().skip(1).find(is_message);
    diagnostic.head = message.and_then(|message| diagnostic.lines.iter().position(|line| line == message));
    diagnostic.spurious = diagnostic.head.is_none();
}

const RULES: &[Rule] = &[
    Rule {
        name: "composer.exception",
        pattern: r"^In (?P<f>\S+\.php) line (?P<l>\d+):$",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Runtime, 90).follow(exception).owning().refine(said)),
            Effect::Failure,
        ],
    },
    Rule {
        name: "composer.unsolved",
        pattern: r"^Your requirements could not be resolved(?P<m>.*)",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Build, 90).follow(indented_or_blank)),
            Effect::Failure,
        ],
    },
    Rule {
        name: "composer.advice",
        pattern: r"^Read <https://getcomposer\.org/doc/articles/troubleshooting\.md> for further common problems\.$",
        effects: &[Effect::Failure],
    },
    Rule {
        // `composer validate` exits with 2.
        name: "composer.invalid",
        pattern: r"^(?P<f>\S+) is (?:invalid, the following errors/warnings were found:|valid for simple usage with Composer but has|valid but your composer\.lock has some errors)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Lint, 88).follow(remarks).refine(invalid).fails(Fails::Always),
        )],
    },
    Rule {
        name: "composer.script",
        pattern: r"^Script \S.* handling the (?P<t>\S+) event returned with error code \d+$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 70)), Effect::Failure, Effect::Summary],
    },
];

const STRICT_RULES: &[Rule] = &[Rule {
    name: "composer.warnings",
    pattern: r"^\S+ is valid, but with a few warnings$",
    effects: &[Effect::Problem(problem(Level::Remark, Kind::Lint, 80).follow(remarks).refine(warned))],
}];
