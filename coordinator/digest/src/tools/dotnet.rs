//! Output of dotnet test.

use super::compiler::DIED;
use crate::rules::{
    Diagnostic, ERROR, Effect, FATAL, Kind, Marker, Next, Rule, TOTAL, always, indented, problem,
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
    let other = ["  Passed ", "  Skipped ", "  Failed "].iter().any(|start| line.starts_with(start));
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

const RULES: &[Rule] = &[
    Rule {
        name: "dotnet.host",
        pattern: r"^\s*(?:The [Aa]ctive [Tt]est [Rr]un (?:was aborted\. Reason: (?:Test host process crashed|Unable to communicate)|Aborted because the host process exited unexpectedly)|Reason: Test host process crashed)",
        effects: &[Effect::Problem(DIED), Effect::WorkerDied],
    },
    Rule {
        name: "dotnet.summary",
        pattern: r"^(?:(?:Failed!|Passed!|Skipped!)\s+- Failed:\s+(?P<failed>\d+), Passed:\s+\d+, Skipped:\s+(?P<skipped>\d+), Total:\s+(?P<n>\d+)(?:, Duration: .* - (?P<t>\S+\.dll(?: \(\S+\))?)$)?|Test summary: total: (?P<n2>\d+), failed: (?P<errors>\d+), succeeded: \d+, skipped: (?P<skipped2>\d+))",
        effects: &[
            Effect::Session(ToolId::DotnetTest),
            Effect::Part(ToolId::DotnetTest),
            Effect::Counts(ToolId::DotnetTest, TOTAL),
            Effect::Summary,
        ],
    },
    Rule {
        name: "dotnet.exception",
        pattern: r"^Unhandled [Ee]xception[.:] (?P<m>.*)",
        effects: &[Effect::Problem(
            problem(FATAL, Kind::Runtime, 93).follow(stack).refine(after_in).ended(always),
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
        effects: &[Effect::Marker(Marker::Failure(ToolId::Build)), Effect::Summary],
    },
    Rule {
        name: "dotnet.built",
        pattern: r"^Build succeeded\.$",
        effects: &[Effect::Marker(Marker::Success(ToolId::Dotnet)), Effect::Summary],
    },
];
