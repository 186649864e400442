//! Output of Swift Testing.

use crate::rules::{Count, ERROR, Effect, Kind, Next, Rule, TOTAL, TestEvent, problem};
use crate::tally::Counts;
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { totals_only: true, rules: RULES, ..Tool::named("Swift Testing") };

/// How many failed is known from their own lines; that some did is known here.
const SWIFT_RUN_FAILED: Count = |groups| {
    let total = groups.number("n");
    Some(Counts { passed: total.saturating_sub(1), failed: total.min(1), skipped: 0, expected: 0 })
};

/// The detail lines that Swift Testing prints under an issue.
fn details(_: &[String], line: &str) -> Next {
    let trimmed = line.trim_start();
    let detail =
        trimmed.starts_with('↳') || trimmed.starts_with('\u{1002c0}') || trimmed.starts_with('\u{10105b}');
    let continued = line.starts_with("  ") && !trimmed.is_empty();
    if detail || continued { Next::Part } else { Next::Beyond }
}

const RULES: &[Rule] = &[
    Rule {
        name: "swift_testing.started",
        pattern: r"^(?:\xe2\x97\x87|\xf4\x80\x9f\x88|\xf4\x80\x80\x80|>) +Test (?P<t>\x22(?:[^\x22\\]|\\.)*\x22|`[^`]+`\([^)]*\)|[^\s\x22`]+\([^)]*\)) started\.$",
        effects: &[Effect::Test(TestEvent::Started)],
    },
    Rule {
        name: "swift_testing.passed",
        pattern: r"^(?:\xe2\x9c\x94|\xf4\x81\x81\x9b|\xe2\x9c\x93) +Test (?P<t>\x22(?:[^\x22\\]|\\.)*\x22|`[^`]+`\([^)]*\)|[^\s\x22`]+\([^)]*\))(?: with \d+ test cases?)? passed after ",
        effects: &[Effect::Test(TestEvent::Passed)],
    },
    Rule {
        name: "swift_testing.failed",
        pattern: r"^(?:\xe2\x9c\x98|\xf4\x80\xa2\x84|\xe2\x9c\x96|\xf4\x80\x80\xb3) +Test (?P<t>\x22(?:[^\x22\\]|\\.)*\x22|`[^`]+`\([^)]*\)|[^\s\x22`]+\([^)]*\))(?: with \d+ test cases?)? failed after [\d.]+ seconds",
        effects: &[Effect::Test(TestEvent::Failed), Effect::Problem(problem(ERROR, Kind::Test, 90).bare())],
    },
    Rule {
        name: "swift_testing.skipped",
        pattern: r"^(?:\xe2\x9e\x9c|\xe2\x86\xb7|\xf4\x80\x99\x9f|\xf4\x81\x99\x8d) +Test (?P<t>\x22(?:[^\x22\\]|\\.)*\x22|`[^`]+`\([^)]*\)|[^\s\x22`]+\([^)]*\)) skipped",
        effects: &[Effect::Test(TestEvent::Skipped)],
    },
    Rule {
        name: "swift_testing.known_issue",
        pattern: r"^(?:\xe2\x9c\x98|\xc3\x97|\xf4\x80\xa2\x84) +Test (?P<t>\x22(?:[^\x22\\]|\\.)*\x22|`[^`]+`\([^)]*\)|[^\s\x22`]+\([^)]*\)) (?:with .*? )?recorded a known issue",
        effects: &[Effect::Harmless],
    },
    Rule {
        name: "swift_testing.expected",
        pattern: r"^\S+ +Test (?P<t>\x22(?:[^\x22\\]|\\.)*\x22|`[^`]+`\([^)]*\)|[^\s\x22`]+\([^)]*\)) passed after .* with \d+ known issues?",
        effects: &[Effect::Test(TestEvent::ExpectedFailure)],
    },
    Rule {
        name: "swift_testing.issue",
        pattern: r"^(?:\xe2\x9c\x98|\xf4\x80\xa2\x84|\xe2\x9c\x96|\xf4\x80\x80\xb3) +Test (?P<t>\x22(?:[^\x22\\]|\\.)*\x22|`[^`]+`\([^)]*\)|[^\s\x22`]+\([^)]*\)) (?:with \d+ argument.*? )?recorded an issue(?: with \d+ arguments?.*?)?(?: at (?P<f>[^:]+):(?P<l>\d+):(?P<c>\d+))?: (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 95).follow(details))],
    },
    Rule {
        name: "swift_testing.suite",
        pattern: r"^(?:\xe2\x9c\x98|\xf4\x80\xa2\x84) +Suite (?P<t>.+?) failed after",
        effects: &[Effect::Harmless],
    },
    Rule {
        name: "swift_testing.run_passed",
        pattern: r"^(?:::error ::|\S+ +)?Test run with (?P<n>\d+) tests?(?: in \d+ suites?)? passed after",
        effects: &[Effect::Partial(TOTAL), Effect::Session, Effect::Success, Effect::Summary],
    },
    Rule {
        name: "swift_testing.run_failed",
        pattern: r"^(?:::error ::|\S+ +)?Test run with (?P<n>\d+) tests?(?: in \d+ suites?)? failed after",
        effects: &[Effect::Partial(SWIFT_RUN_FAILED), Effect::Session, Effect::Failure, Effect::Summary],
    },
];
