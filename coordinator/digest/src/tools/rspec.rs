//! Output of rspec.

use crate::rules::{Count, Diagnostic, ERROR, Effect, Fails, Kind, Marker, Next, Rule, problem};
use crate::tally::Counts;
use crate::tool::{Announced, Tool, ToolId};

pub(super) const TOOL: Tool =
    Tool { always_totals: true, announces: Some(Announced::ByHeading), rules: RULES, ..Tool::named("rspec") };

const EXAMPLES: Count = |groups| {
    let (total, skipped) = (groups.number("n"), groups.number("pending"));
    // A failure outside of examples is not a failure of an example.
    let failed = groups.number("failed") + groups.number("errors");
    let passed = total.saturating_sub(failed + skipped);
    Some(Counts { passed, failed: failed + groups.number("outside"), skipped, expected: 0 })
};

/// An error outside of examples: up to the next such message or the run's last lines.
fn outside(so_far: &[String], line: &str) -> Next {
    let ends = ["An error occurred ", "Run options:", "Finished in ", "No examples found", "Randomized with"];
    if ends.iter().any(|end| line.starts_with(end)) || so_far.len() > 20 {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

/// A frame of a backtrace is not a failed example.
fn no_frame(diagnostic: &mut Diagnostic) {
    diagnostic.spurious = diagnostic.test.as_deref().is_some_and(|test| test.starts_with("in "));
}

const RULES: &[Rule] = &[
    Rule {
        name: "rspec.rerun",
        pattern: r"^rspec (?P<f>\./[^\s:]+):(?P<l>\d+) # (?P<t>\S.*)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 90).bare()), Effect::Summary],
    },
    Rule {
        // A line of the documentation format. The list at the end has the full name.
        name: "rspec.line_failed",
        pattern: r"^ +\S.* \(FAILED - \d+\)$",
        effects: &[Effect::Marker(Marker::Failure(ToolId::RSpec))],
    },
    Rule {
        name: "rspec.list",
        pattern: r"^(?P<f>\S+_spec\.rb):(?P<l>\d+):(?P<t>\S.*)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 88).refine(no_frame).fails(Fails::Never))],
    },
    Rule {
        name: "rspec.reruns",
        pattern: r"^Run options: include \{:?last_run_status(?:=>|: )\x22failed\x22\}",
        effects: &[Effect::RerunsFailed(ToolId::RSpec)],
    },
    Rule {
        name: "rspec.outside",
        pattern: r"^An error occurred (?:while loading (?P<f>\S+?)\.|in an? .* hook\.?|outside of examples\.?)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 92).follow(outside).owning())],
    },
    Rule {
        name: "rspec.finished",
        pattern: r"^Finished in [\d.]+ ",
        effects: &[Effect::Heading(ToolId::RSpec)],
    },
    Rule {
        name: "rspec.summary",
        pattern: r"^(?P<n>\d+) examples?, (?P<failed>\d+) failures?(?:, (?P<errors>\d+) errors?\b[^,]*)?(?:, (?P<pending>\d+) pending)?(?:, (?P<outside>\d+) errors?\b.*)?$",
        effects: &[Effect::Counts(ToolId::RSpec, EXAMPLES), Effect::Summary],
    },
];
