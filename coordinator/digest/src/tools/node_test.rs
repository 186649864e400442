//! Output of node --test.

use super::mocha::{WORKER_DIED, js_place};
use crate::rules::{Diagnostic, ERROR, Effect, Kind, Next, Rule, SORTS, problem};
use crate::tool::{Includes, Tool, ToolId};

pub(super) const TOOL: Tool = Tool {
    runs_tests: true,
    selections: &["--test-name-pattern"],
    program: Some(ToolId::Node),
    begins_in_silence: true,
    one_total: true,
    includes: Includes::Only(ToolId::Tap),
    rules: RULES,
    ..Tool::named("node --test")
};

/// Lines of node's output about a test file that it could not load, up to its version.
fn node_comment(so_far: &[String], line: &str) -> Next {
    if !line.starts_with('#') || so_far.len() > 20 {
        Next::Beyond
    } else if line.starts_with("# Node.js v") {
        Next::Last
    } else {
        Next::Part
    }
}

/// Such output has a line with the error; without one it is a comment.
fn node_not_loaded(diagnostic: &mut Diagnostic) {
    let says = |line: &String| line.strip_prefix("# ").is_some_and(is_error_of_node);
    diagnostic.head = diagnostic.lines.iter().position(says);
    diagnostic.spurious = diagnostic.head.is_none();
    // The loader threw it: the first frame of the project has the place.
    if diagnostic.file.as_deref().is_some_and(|file| file.starts_with("node:")) {
        (diagnostic.file, diagnostic.line) = (None, None);
        let lines = diagnostic.lines.clone();
        let bare = |line: &String| line.strip_prefix("# ").unwrap_or(line).to_owned();
        diagnostic.lines = lines.iter().map(bare).collect();
        js_place(diagnostic);
        diagnostic.lines = lines;
    }
}

/// `SyntaxError: …`, `Error [ERR_MODULE_NOT_FOUND]: …`.
fn is_error_of_node(text: &str) -> bool {
    text.split_once(':').is_some_and(|(name, _)| {
        let name = name.split(' ').next().unwrap_or_default();
        name.ends_with("Error") && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// A line without further lines below it shows only that the test failed.
fn node_test(diagnostic: &mut Diagnostic) {
    let mut below = diagnostic.lines.iter().skip(1).map(|line| line.trim()).filter(|line| !line.is_empty());
    diagnostic.bare = below.all(|line| line == "'test failed'");
    js_place(diagnostic);
    if diagnostic.bare && diagnostic.lines.len() > 1 {
        // node could not load the file, and has printed the reason above.
        diagnostic.kind = Some(Kind::Consequence);
    }
}

const RULES: &[Rule] = &[
    Rule {
        // In the YAML of a file with a dead process.
        name: "node_test.file_died",
        pattern: r"^\s+signal: '(?P<sig>SIG(?:ABRT|BUS|FPE|ILL|KILL|SEGV|SYS|TRAP))'$",
        effects: &[Effect::Within("exitCode: ~", &WORKER_DIED)],
    },
    Rule {
        name: "node_test.not_loaded",
        pattern: r"^# (?P<f>(?:/|file:///)\S+\.[cm]?[jt]sx?|node:\S+):(?P<l>\d+)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Build, 93).follow(node_comment).owning().refine(node_not_loaded),
        )],
    },
    Rule {
        name: "node_test.heading",
        pattern: r"^\xe2\x9c\x96 failing tests:$",
        effects: &[Effect::Harmless, Effect::Alone],
    },
    Rule {
        name: "node_test.todo",
        pattern: r"^\s*\xe2\x9c\x96 .* \([\d.]+m?s\) # (?:TODO|SKIP|todo|skip).*",
        effects: &[
            Effect::Problem(
                problem(crate::rules::INFO, Kind::Test, 50).follow(crate::rules::indented_or_blank).owning(),
            ),
            Effect::Alone,
        ],
    },
    Rule {
        name: "node_test.failed",
        pattern: r"^\s*\xe2\x9c\x96 (?P<t>.+?) \([\d.]+m?s\)$",
        effects: &[
            Effect::Problem(
                problem(ERROR, Kind::Test, 93)
                    .follow(crate::rules::indented_or_blank)
                    .owning()
                    .refine(node_test),
            ),
            Effect::Failure,
            Effect::Alone,
        ],
    },
    Rule {
        name: "node_test.tests",
        pattern: r"^(?:# |\xe2\x84\xb9 )tests (?P<n>\d+)$",
        effects: &[Effect::Session, Effect::Summary],
    },
    Rule {
        name: "node_test.pass",
        pattern: r"^(?:# |\xe2\x84\xb9 )pass (?P<passed>\d+)$",
        effects: &[Effect::Adds(SORTS), Effect::Summary],
    },
    Rule {
        name: "node_test.skipped",
        pattern: r"^(?:# |\xe2\x84\xb9 )(?:skipped|todo) (?P<skipped>[1-9]\d*)$",
        effects: &[Effect::Adds(SORTS)],
    },
    Rule {
        name: "node_test.fail",
        // A test that is cancelled did not end, or not in its time.
        pattern: r"^(?:# |\xe2\x84\xb9 )(?:fail|cancelled) (?P<failed>[1-9]\d*)$",
        effects: &[Effect::Adds(SORTS), Effect::Summary],
    },
];
