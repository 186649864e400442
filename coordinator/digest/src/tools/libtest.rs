//! Output of cargo test.

use super::compiler::DIED;
use crate::records::{Event, RecordFormat, failed_test};
use crate::rules::{
    Diagnostic, ERROR, Effect, FAILS_WITHOUT_TESTS, Indicator, Kind, Next, Rule, SORTS, TestEvent, pointed,
    problem, set_place,
};
use crate::tally::Counts;
use crate::tool::{ReportFormat, Tool, ToolId};
use serde::Deserialize;

pub(super) const TOOL: Tool = Tool {
    runs_tests: true,
    runs_no_tests: &["bench"],
    build_report: Some(ReportFormat { name: "cargo_json", has_priority: false }),
    panics_are_failed_tests: true,
    program: Some(ToolId::Cargo),
    announces_in_common_words: true,
    runs_them_itself: true,
    shares_names_among_parts: true,
    shares_format: true,
    rules: RULES,
    records: &[RecordFormat { name: "libtest.record", beginnings: BEGINNINGS, read: record }],
    ..Tool::named("cargo test")
};

/// Bytes with which records of `--format json` begin.
const BEGINNINGS: &[&[u8]] = &[br#"{"type":"#, br#"{ "type":"#];

/// A record of `--format json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Record {
    #[serde(rename = "type")]
    kind: String,
    event: String,
    name: String,
    stdout: String,
    test_count: u64,
    passed: u64,
    failed: u64,
    ignored: u64,
}

fn record(line: &[u8]) -> Option<Vec<Event>> {
    let record: Record = serde_json::from_slice(line).ok()?;
    let test = |event| Event::Test(ToolId::CargoTest, record.name.clone(), event);
    Some(match (record.kind.as_str(), record.event.as_str()) {
        ("suite", "started") => vec![Event::Planned(ToolId::CargoTest, record.test_count)],
        ("suite", "ok" | "failed") => {
            let Record { event, passed, failed, ignored: skipped, .. } = record;
            let text = format!("test result: {event}. {passed} passed; {failed} failed; {skipped} ignored");
            vec![Event::Total(ToolId::CargoTest, Counts { passed, failed, skipped, expected: 0 }, text)]
        }
        ("test", _) if record.name.is_empty() => return None,
        ("test", "started") => vec![test(TestEvent::Started)],
        ("test", "ok") => vec![test(TestEvent::Passed)],
        ("test", "ignored") => vec![test(TestEvent::Skipped)],
        ("test", "failed") if record.stdout.is_empty() => {
            let problem = problem(ERROR, Kind::Test, 90).bare();
            vec![test(TestEvent::Failed), failed_test(problem, &record.name, "")]
        }
        ("test", "failed") => {
            let problem = problem(ERROR, Kind::Test, 95).refine(panicked);
            vec![test(TestEvent::Failed), failed_test(problem, &record.name, &record.stdout)]
        }
        _ => return None,
    })
}

/// A test's captured output: up to the next one's, or the list of failures.
fn captured(_: &[String], line: &str) -> Next {
    if line.starts_with("---- ")
        || line == "failures:"
        || line.starts_with("test result: ")
        || line == "successes:"
    {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

pub(super) fn panicked(diagnostic: &mut Diagnostic) {
    for line in &diagnostic.lines {
        let place =
            line.split_once("panicked at ").or_else(|| line.split_once("did not panic as expected at "));
        let Some((_, place)) = place else { continue };
        // Since 1.73 the place follows directly; before, it came after the quoted message.
        let place = place.rsplit(", ").next().unwrap_or(place).trim_end_matches(':');
        let mut parts = place.rsplitn(3, ':');
        if let (Some(column), Some(row), Some(file)) = (parts.next(), parts.next(), parts.next())
            && let (Ok(column), Ok(row)) = (column.parse(), row.parse())
        {
            diagnostic.file = Some(file.to_owned());
            diagnostic.line = Some(row);
            diagnostic.column = Some(column);
        }
        return;
    }
}

/// An example in documentation may fail to compile. Its name has the file and its first line.
fn of_example(diagnostic: &mut Diagnostic) {
    panicked(diagnostic);
    pointed(diagnostic);
    let place = diagnostic.test.as_deref().and_then(|test| {
        let (file, rest) =
            test.split_once(" - ").filter(|(file, _)| file.ends_with(".rs") || file.ends_with(".md"))?;
        let line = rest.rsplit_once("(line ")?.1.strip_suffix(')')?;
        Some(format!("{file}:{line}"))
    });
    if let (None, Some(place)) = (&diagnostic.file, place) {
        let _placed = set_place(diagnostic, &place);
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "libtest.died",
        pattern: concat!(
            r"^test (?P<t>\S.*?) \.\.\. (?P<sig>",
            shell_words!(),
            r")(?:: \d+)?(?: \(core dumped\))?$"
        ),
        effects: &[
            Effect::Test(TestEvent::Started),
            Effect::Problem(DIED),
            Effect::Crash(Indicator::Died("")),
        ],
    },
    Rule {
        name: "libtest.session",
        pattern: r"^running (?P<n>\d+) tests?$",
        effects: &[Effect::Session, Effect::Announces],
    },
    Rule {
        name: "libtest.captured",
        pattern: r"^---- (?P<t>.+?) (?:stdout|stderr) ----$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 95).follow(captured).owning().refine(of_example),
        )],
    },
    Rule {
        name: "libtest.failed",
        pattern: r"^test (?P<t>.+?)(?: - should panic)? \.\.\. FAILED$",
        effects: &[Effect::Test(TestEvent::Failed), Effect::Problem(problem(ERROR, Kind::Test, 90).bare())],
    },
    Rule {
        name: "libtest.passed",
        pattern: r"^test (?P<t>.+?) \.\.\. ok$",
        effects: &[Effect::Test(TestEvent::Passed)],
    },
    Rule {
        name: "libtest.ignored",
        pattern: r"^test (?P<t>.+?) \.\.\. ignored(?:, .*)?$",
        effects: &[Effect::Test(TestEvent::Skipped)],
    },
    Rule {
        name: "libtest.running",
        // Of a test that printed the beginning of a line, or died, the rest is another's word.
        pattern: r"^test (?P<t>\S.*?) \.\.\. (?:$|error: )",
        effects: &[Effect::Test(TestEvent::Started)],
    },
    Rule {
        // The filter selects no test of this program.
        name: "libtest.filtered",
        pattern: r"^test result: ok\. 0 passed; 0 failed; 0 ignored; 0 measured; [1-9]\d* filtered out",
        effects: &[FAILS_WITHOUT_TESTS],
    },
    Rule {
        name: "libtest.ok",
        pattern: r"^test result: ok\. (?P<passed>\d+) passed; (?P<failed>\d+) failed; (?P<skipped>\d+) ignored",
        effects: &[Effect::Counts(SORTS)],
    },
    Rule {
        // Inside the output of another program.
        name: "libtest.indented",
        pattern: r"^\s+test result: FAILED\. \d+ passed; ",
        effects: &[Effect::Failure],
    },
    Rule {
        name: "libtest.result",
        pattern: r"^test result: FAILED\. (?P<passed>\d+) passed; (?P<failed>\d+) failed; (?P<skipped>\d+) ignored",
        effects: &[Effect::Counts(SORTS), Effect::Summary],
    },
];
