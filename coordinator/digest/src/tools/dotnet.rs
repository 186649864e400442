//! Output of dotnet test.

use super::compiler::DIED;
use crate::rules::{
    Diagnostic, ERROR, Effect, FAILS_WITHOUT_TESTS, FATAL, Fails, Kind, Next, RUNS, Rule, SORTS, TOTAL,
    always, indented, problem,
};
use crate::tool::{Tool, ToolId};

pub(super) const TEST: Tool = Tool {
    runs_tests: true,
    selections: &["--filter"],
    program: Some(ToolId::Dotnet),
    drives: true,
    ..Tool::named("dotnet test")
};

pub(super) const TOOL: Tool = Tool { drives: true, rules: RULES, ..Tool::named("dotnet") };

pub(super) const BUILD: Tool = Tool::named("build");

/// A stack in the words of .NET, Elixir or Lua: indented lines, its heading included.
pub(super) fn stack(so_far: &[String], line: &str) -> Next {
    if line.starts_with("stack traceback:") { Next::Part } else { indented(so_far, line) }
}

/// Up to the blank line that ends the report of one test.
fn report(so_far: &[String], line: &str) -> Next {
    let other = ["  Passed ", "  Skipped ", "  Failed ", "Failed!  - ", "Passed!  - "]
        .iter()
        .any(|start| line.starts_with(start));
    if other || line.trim().is_empty() || so_far.len() > 40 { Next::Beyond } else { Next::Part }
}

/// `in F:line N` of .NET, `in F on line N` and `in F:N` of PHP.
pub(super) fn after_in(diagnostic: &mut Diagnostic) {
    for line in &diagnostic.lines {
        let Some((_, place)) = line.rsplit_once(" in ") else { continue };
        let place = place.replace(" on line ", ":").replace(":line ", ":");
        if let Some(found) = crate::rules::place(&place) {
            (diagnostic.file, diagnostic.line, diagnostic.column) = found;
            return;
        }
    }
}

/// Mono has the exception on the next line.
fn unhandled(so_far: &[String], line: &str) -> Next {
    if so_far.len() == 1 && so_far[0].ends_with(':') && !line.starts_with(' ') && line.contains("Exception") {
        Next::Part
    } else {
        stack(so_far, line)
    }
}

fn after_heading(diagnostic: &mut Diagnostic) {
    after_in(diagnostic);
    let is_below = diagnostic.first().ends_with(':')
        && diagnostic.lines.get(1).is_some_and(|line| !line.starts_with(' '));
    diagnostic.head = is_below.then_some(1);
}

const RULES: &[Rule] = &[
    Rule {
        name: "dotnet.host",
        pattern: r"^\s*(?:The [Aa]ctive [Tt]est [Rr]un (?:was aborted\. Reason: (?:Test host process crashed|Unable to communicate)|Aborted because the host process exited unexpectedly)|Reason: Test host process crashed)",
        effects: &[Effect::Problem(DIED), Effect::WorkerDied],
    },
    Rule {
        name: "dotnet.at_work",
        pattern: r"^(?:\s*Determining projects to restore\.\.\.$|Test run for \S.* \(\.NET\w+,Version=v[\d.]+\)$|Starting test execution, please wait\.\.\.$)",
        effects: &[Effect::Of(ToolId::DotnetTest, &[Effect::AtWork])],
    },
    Rule {
        name: "dotnet.summary",
        pattern: r"^(?:(?:Failed!|Passed!|Skipped!)\s+- Failed:\s+(?P<failed>\d+), Passed:\s+\d+, Skipped:\s+(?P<skipped>\d+), Total:\s+(?P<n>\d+)(?:, Duration: .* - (?P<t>\S+\.dll(?: \(\S+\))?)$)?|Test summary: total: (?P<n2>\d+), failed: (?P<errors>\d+), succeeded: \d+, skipped: (?P<skipped2>\d+))",
        effects: &[
            Effect::Of(
                ToolId::DotnetTest,
                &[Effect::Session, Effect::Own(|line| line.part()), Effect::Counts(TOTAL)],
            ),
            Effect::Summary,
        ],
    },
    Rule {
        name: "dotnet.none_matched",
        pattern: r"^No test matches the given testcase filter ",
        effects: &[FAILS_WITHOUT_TESTS, Effect::Summary],
    },
    Rule {
        // Of Microsoft.Testing.Platform, as are the next five.
        name: "dotnet.platform_test",
        pattern: r"^failed (?P<t>\S.*?) \((?:\d+h )?(?:\d+m )?(?:\d+s )?[\d.]+m?s\)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 93).follow(indented).refine(after_in))],
    },
    Rule {
        name: "dotnet.platform_end",
        pattern: r"^Test run summary: (?:Passed!|Failed!|Zero tests ran|Aborted)",
        effects: &[Effect::Of(ToolId::DotnetTest, &[RUNS]), Effect::Summary],
    },
    Rule {
        name: "dotnet.platform_bad",
        pattern: r"^Test run summary: (?:Failed!|Aborted)",
        effects: &[Effect::Of(ToolId::DotnetTest, &[Effect::Failure])],
    },
    Rule {
        name: "dotnet.platform_none",
        pattern: r"^Test run summary: Zero tests ran",
        effects: &[FAILS_WITHOUT_TESTS],
    },
    Rule {
        name: "dotnet.platform_failed",
        pattern: r"^  failed: (?P<failed>\d+)$",
        effects: &[
            Effect::IfKnown(ToolId::DotnetTest),
            Effect::Of(ToolId::DotnetTest, &[Effect::Session, Effect::Counts(SORTS)]),
            Effect::Harmless,
        ],
    },
    Rule {
        name: "dotnet.platform_others",
        pattern: r"^  (?:succeeded: (?P<passed>\d+)|skipped: (?P<skipped>\d+))$",
        effects: &[
            Effect::IfKnown(ToolId::DotnetTest),
            Effect::Of(ToolId::DotnetTest, &[Effect::Adds(SORTS)]),
        ],
    },
    Rule {
        name: "dotnet.no_sdk",
        pattern: r"^(?:The command could not be loaded, possibly because:|A compatible \.NET SDK was not found\.)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Infrastructure, 88).fails(Fails::Always))],
    },
    Rule {
        name: "dotnet.exception",
        pattern: r"^Unhandled [Ee]xception[.:](?: (?P<m>.*)|$)",
        effects: &[Effect::Problem(
            problem(FATAL, Kind::Runtime, 93).follow(unhandled).refine(after_heading).ended(always),
        )],
    },
    Rule {
        name: "dotnet.failed",
        pattern: r"^\s+Failed (?P<t>\S.*) \[[<\d.,]+ ?m?s\]$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 93).follow(report).owning().refine(after_in))],
    },
    Rule {
        name: "dotnet.build",
        pattern: r"^Build (?:FAILED\.?|failed(?: with \d+ (?:error|warning).*| in [\d.]+.*|[.!])?)$",
        effects: &[Effect::Of(ToolId::Build, &[Effect::Failure]), Effect::Summary],
    },
    Rule {
        name: "dotnet.built",
        pattern: r"^Build succeeded\.$",
        effects: &[Effect::Success, Effect::Summary],
    },
    Rule {
        name: "dotnet.none_compatible",
        pattern: r"^\s+A compatible \.NET SDK was not found\.$",
        effects: &[Effect::Failure],
    },
];
