//! Output of package managers.

use super::compiler::{CHILD_DIED, DIED};
use crate::rules::{
    Diagnostic, ERROR, Effect, Fails, Kind, Next, Rule, drawn, indented, indented_or_blank, is_drawing,
    problem,
};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("package managers") };

/// Failures of builds of packages, before rules for any line that begins with `error: `.
pub(super) const BUILDS: Tool = Tool { rules: BUILD_RULES, ..Tool::named("package builds") };

/// uv draws a frame, others indent.
fn unsolved(so_far: &[String], line: &str) -> Next {
    if is_drawing(line) { Next::Part } else { indented_or_blank(so_far, line) }
}

/// The causes below an error of uv since 0.10, one in each line: `  cause: dns error`.
fn causes(so_far: &[String], line: &str) -> Next {
    let is_cause = line.starts_with("  cause: ") || line.starts_with("  Caused by: ");
    if (is_cause || line.starts_with("    ")) && so_far.len() < 20 { Next::Part } else { Next::Beyond }
}

/// Other programs log that a request failed and go on.
fn caused(diagnostic: &mut Diagnostic) {
    if diagnostic.lines.len() == 1 && diagnostic.first().contains("Request failed after ") {
        (diagnostic.kind, diagnostic.fails) = (Some(Kind::Runtime), Fails::BySeverity);
    }
}

/// The output of the failed step, in a drawn frame.
fn output(so_far: &[String], line: &str) -> Next {
    if line.trim() == "[end of output]" { Next::Last } else { drawn(so_far, line) }
}

/// The last line of the output says why the step failed.
fn last_line(diagnostic: &mut Diagnostic) {
    let end = diagnostic.lines.iter().position(|line| line.trim() == "[end of output]");
    let head = end.and_then(|end| diagnostic.lines[..end].iter().rposition(|line| !line.trim().is_empty()));
    diagnostic.head = head.filter(|head| *head > 2);
}

/// The reasons below uv's error, up to a line at the margin.
fn explained(so_far: &[String], line: &str) -> Next {
    let is_reason = line.starts_with("  ╰─▶ ") || line.starts_with("  ├─▶ ") || line.starts_with("  │");
    if line.trim().is_empty() {
        Next::Maybe
    } else if (is_reason || line.starts_with("      ")) && so_far.len() < 30 {
        Next::Part
    } else {
        Next::Beyond
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "packages.step",
        pattern: r"^\s*\xc3\x97 (?P<m>\S.* did not run successfully\.)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Build, 90).follow(output).owning().refine(last_line).fails(Fails::Always),
        )],
    },
    Rule {
        // As uv has it.
        name: "packages.uv",
        pattern: r"^ {2}\xc3\x97 (?P<m>(?:No solution found when resolving|Failed to (?:build|download|fetch|install|parse|prepare|read|resolve)) .*)",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Build, 88).follow(explained).owning().fails(Fails::Always),
        )],
    },
    Rule {
        name: "packages.script_died",
        pattern: r#"^(?:npm (?:ERR!|error) signal |(?:error |.*ELIFECYCLE\S* +|\[\S+\] )?Command failed with signal "?)(?P<sig>SIG[A-Z]+)\b"#,
        effects: &[Effect::Problem(DIED), CHILD_DIED],
    },
    Rule {
        name: "packages.dpkg",
        pattern: r"^dpkg: error processing (?:archive|package) (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 90).follow(indented))],
    },
    Rule {
        name: "packages.dpkg_failed",
        pattern: r"^E: (?P<m>Sub-process \S+ (?:returned an error code|exited unexpectedly|received signal).*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 60).fails(Fails::Always))],
    },
    Rule {
        name: "packages.unsolved",
        pattern: r"^(?:\xc3\x97 No solution found |PackagesNotFoundError: |ResolvePackageNotFound: |Because .*(?:version solving failed|requirements are unsatisfiable)|Could not find (?:gem|compatible versions) )(?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 88).follow(unsolved).fails(Fails::Always))],
    },
    Rule {
        // A later command may install what is missing.
        name: "packages.apt",
        pattern: r"^E: (?P<m>[A-Z].*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 88).follow(unsolved))],
    },
    Rule {
        name: "packages.pod",
        pattern: r"^\[!\] (?:CocoaPods could not find compatible versions|Unable to (?:find a specification|satisfy)|Invalid .Podfile|No .Podfile. found|Error installing )(?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 88).follow(unsolved).fails(Fails::Always))],
    },
    Rule {
        name: "packages.bang",
        pattern: r"^\[!\] (?P<m>[A-Z].*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 80).follow(indented))],
    },
];

const BUILD_RULES: &[Rule] = &[
    Rule {
        name: "packages.rpm",
        pattern: r"^error: (?P<m>(?:Bad exit status from .*|Installed \(but unpackaged\) file\(s\) found:|Failed build dependencies:))$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 86).follow(indented).fails(Fails::Always))],
    },
    Rule {
        name: "packages.uv_error",
        pattern: r"^error: (?P<m>(?:No solution found when resolving|Request failed after \d+ retries|Failed to (?:build|download|fetch|parse|prepare|read|resolve|spawn): ?[`/]|Failed to install: \S+\.whl).*)",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Build, 88).follow(causes).owning().refine(caused).fails(Fails::Always),
        )],
    },
    Rule {
        // As bun has it.
        name: "packages.bun",
        pattern: r#"^error: (?P<m>(?:No version matching .* found for specifier|Script not found "|Workspace dependency ").*)"#,
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 88).fails(Fails::Always))],
    },
    Rule {
        name: "packages.bun_unresolved",
        pattern: r"^error: \S+@\S+ failed to resolve$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 60).fails(Fails::Always))],
    },
];
