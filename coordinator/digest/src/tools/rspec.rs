//! Output of rspec.

use crate::records::{Event, RecordFormat};
use crate::rules::{Count, Diagnostic, ERROR, Effect, Fails, Kind, Next, Rule, problem, set_place};
use crate::tally::Counts;
use crate::tool::{Announced, Tool, ToolId};
use serde::Deserialize;
use serde_json::Value;

pub(super) const TOOL: Tool = Tool {
    runs_tests: true,
    selections: &["--example"],
    bare_names_after: Some(b"Randomized with seed "),
    always_totals: true,
    one_total: true,
    announces: Some(Announced::ByHeading),
    rules: RULES,
    records: &[RecordFormat { name: "rspec.report", beginnings: &[br#"{"version":""#], read: report }],
    ..Tool::named("rspec")
};

/// Report of `--format json`.
#[derive(Debug, Deserialize)]
struct Report {
    /// Values, because a field of one example may be null.
    examples: Vec<Value>,
    summary: Summary,
    summary_line: String,
    /// Errors outside of examples, as in the other formats.
    #[serde(default)]
    messages: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Summary {
    example_count: u64,
    failure_count: u64,
    pending_count: u64,
    #[serde(default)]
    errors_outside_of_examples_count: u64,
}

/// The problem of an example that failed.
fn failure(example: &Value) -> Option<Event> {
    let exception = example.get("exception")?.as_object()?;
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let name = text(example.get("full_description")).or_else(|| text(example.get("id")));
    let test = name.map(|name| name.split_whitespace().collect::<Vec<_>>().join(" "));
    let message = text(exception.get("message")).or_else(|| text(exception.get("class"))).unwrap_or_default();
    let message = message.lines().filter(|line| !line.trim().is_empty()).map(|line| format!("  {line}"));
    let line = example.get("line_number").and_then(Value::as_u64);
    Some(Event::Problem(
        problem(ERROR, Kind::Test, 88),
        Box::new(Diagnostic {
            lines: test.clone().into_iter().chain(message).collect(),
            test,
            file: text(example.get("file_path")),
            line: line.and_then(|line| line.try_into().ok()),
            ..Diagnostic::default()
        }),
    ))
}

fn report(line: &[u8]) -> Option<Vec<Event>> {
    let Report { examples, summary, summary_line, messages } = serde_json::from_slice(line).ok()?;
    let failed = examples.iter().filter_map(failure);
    let Summary { example_count, failure_count, pending_count, errors_outside_of_examples_count } = summary;
    let counts = Counts {
        passed: example_count.saturating_sub(failure_count).saturating_sub(pending_count),
        failed: failure_count.saturating_add(errors_outside_of_examples_count),
        skipped: pending_count,
        expected: 0,
    };
    let planned = std::iter::once(Event::Planned(ToolId::RSpec, example_count));
    let messages = messages.into_iter().map(Event::Text);
    Some(
        planned
            .chain(messages)
            .chain(failed)
            .chain([Event::Total(ToolId::RSpec, counts, summary_line)])
            .collect(),
    )
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

/// The place is the first frame of the project, or the one in the message of a syntax error.
fn outside_place(diagnostic: &mut Diagnostic) {
    let is_foreign = |place: &str| place.contains("/gems/") || place.contains("/lib/ruby/");
    let frame = |line: &String| Some(line.trim_start().strip_prefix("# ")?.split(":in ").next()?.to_owned());
    let syntax = |line: &String| Some(line.trim_start().split_once(": syntax error")?.0.to_owned());
    let places: Vec<String> = [diagnostic.lines.iter().filter_map(syntax).next()]
        .into_iter()
        .flatten()
        .chain(diagnostic.lines.iter().filter_map(frame))
        .filter(|place| !is_foreign(place))
        .collect();
    let _placed = places.iter().any(|place| set_place(diagnostic, place));
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
        effects: &[Effect::Failure],
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
        pattern: r"^An error occurred (?:while loading (?P<f>\S+?)\.(?: - Did you mean\?)?|in an? .* hook\.?|outside of examples\.?)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 92).follow(outside).owning().refine(outside_place),
        )],
    },
    Rule { name: "rspec.finished", pattern: r"^Finished in [\d.]+ ", effects: &[Effect::Heading] },
    Rule {
        name: "rspec.summary",
        pattern: r"^(?P<n>\d+) examples?, (?P<failed>\d+) failures?(?:, (?P<errors>\d+) errors?\b[^,]*)?(?:, (?P<pending>\d+) pending)?(?:, (?P<outside>\d+) errors?\b.*)?$",
        effects: &[Effect::Counts(EXAMPLES), Effect::Summary],
    },
];
