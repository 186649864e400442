//! Output of rspec.

use crate::records::{Event, RecordFormat};
use crate::rules::{Count, Diagnostic, ERROR, Effect, Fails, Kind, Marker, Next, Rule, problem};
use crate::tally::Counts;
use crate::tool::{Announced, Tool, ToolId};
use serde::Deserialize;

pub(super) const TOOL: Tool = Tool {
    runs_tests: true,
    selections: &["--example"],
    bare_names_after: Some(b"Randomized with seed "),
    always_totals: true,
    announces: Some(Announced::ByHeading),
    rules: RULES,
    records: &[RecordFormat { name: "rspec.report", beginnings: &[br#"{"version":""#], read: report }],
    ..Tool::named("rspec")
};

/// Report of `--format json`.
#[derive(Debug, Deserialize)]
struct Report {
    examples: Vec<Example>,
    summary: Summary,
    summary_line: String,
}

#[derive(Debug, Deserialize)]
struct Example {
    full_description: String,
    file_path: String,
    line_number: u32,
    exception: Option<Exception>,
}

#[derive(Debug, Deserialize)]
struct Exception {
    message: String,
}

#[derive(Debug, Deserialize)]
struct Summary {
    example_count: u64,
    failure_count: u64,
    pending_count: u64,
    #[serde(default)]
    errors_outside_of_examples_count: u64,
}

fn report(line: &[u8]) -> Option<Vec<Event>> {
    let Report { examples, summary, summary_line } = serde_json::from_slice(line).ok()?;
    let failed = examples.into_iter().filter_map(|example| {
        let message = example.exception?.message;
        let test = example.full_description.split_whitespace().collect::<Vec<_>>().join(" ");
        let message = message.lines().filter(|line| !line.trim().is_empty()).map(|line| format!("  {line}"));
        Some(Event::Problem(
            problem(ERROR, Kind::Test, 88),
            Box::new(Diagnostic {
                lines: std::iter::once(test.clone()).chain(message).collect(),
                test: Some(test),
                file: Some(example.file_path),
                line: Some(example.line_number),
                ..Diagnostic::default()
            }),
        ))
    });
    let Summary { example_count, failure_count, pending_count, errors_outside_of_examples_count } = summary;
    let counts = Counts {
        passed: example_count.saturating_sub(failure_count).saturating_sub(pending_count),
        failed: failure_count.saturating_add(errors_outside_of_examples_count),
        skipped: pending_count,
        expected: 0,
    };
    let planned = std::iter::once(Event::Planned(ToolId::RSpec, example_count));
    Some(planned.chain(failed).chain([Event::Total(ToolId::RSpec, counts, summary_line)]).collect())
}

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
        effects: &[Effect::Own(|line| line.tally.reruns_failed(ToolId::RSpec))],
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
