//! Runners of JavaScript's tests: jest, vitest, mocha, uvu, jasmine, ava, node's own.

use super::javascript::js_place;
use super::{Act, Count, Draft, ERROR, Kind, Next, Rule, Sign, problem};
use crate::tally::Counts;
use crate::tool::ToolId;

/// Limit on lines that count as output of a vitest test.
const PRINTED_LINES_MAX: usize = 40;

/// A jest failure: from its bullet to the next one, or the suite's end.
fn jest(_: &[String], line: &str) -> Next {
    let trimmed = line.trim_start();
    let end = [
        "● ",
        "PASS ",
        "FAIL ",
        "Test Suites:",
        "Snapshot Summary",
        "Summary of all failing",
        "Tests: ",
        "A worker process has failed",
    ];
    if end.iter().any(|end| trimmed.starts_with(end)) && !trimmed.starts_with("● Console") {
        Next::Beyond
    } else if trimmed.is_empty() {
        Next::Maybe
    } else if line.starts_with("  ") {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// A vitest failure: up to the rule or the next heading.
fn vitest(so_far: &[String], line: &str) -> Next {
    let trimmed = line.trim_start();
    if trimmed.starts_with("⎯⎯")
        || trimmed.starts_with("FAIL ")
        || trimmed.starts_with("Test Files")
        || trimmed.starts_with("Tests:")
        || so_far.len() > 40
    {
        Next::Beyond
    } else if trimmed.is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

/// Output of a test, up to a blank line; vitest prints no blank line if the text has no line end.
fn printed(so_far: &[String], line: &str) -> Next {
    let trimmed = line.trim_start();
    let own = ["FAIL ", "✓ ", "❯ ", "× ", "⎯⎯", "Test Files ", "Tests ", "stdout | ", "stderr | "];
    if so_far.len() > PRINTED_LINES_MAX || own.iter().any(|own| trimmed.starts_with(own)) {
        Next::Beyond
    } else if trimmed.is_empty() {
        Next::Last
    } else {
        Next::Part
    }
}

/// A heading with a file and no test, `a.spec.mjs [ a.spec.mjs ]`, does not contain the error.
fn vitest_failure(draft: &mut Draft) {
    js_place(draft);
    if draft.test.as_deref().is_some_and(|test| !test.contains(" > ") && test.ends_with(" ]")) {
        draft.head = draft.lines.iter().position(|line| is_message(line));
    }
}

fn no_problem(draft: &mut Draft) {
    draft.spurious = true;
}

/// Numbered failures (mocha, ExUnit, RSpec): up to the next number or a line that is not indented.
pub(super) fn numbered(so_far: &[String], line: &str) -> Next {
    let trimmed = line.trim_start();
    let digits = trimmed.chars().take_while(char::is_ascii_digit).count();
    let ends = [
        ") ",
        " passing",
        " pending",
        " failing",
        " failed",
        " passed",
        " skipped",
        " flaky",
        " did not run",
        " interrupted",
        " error was not a part of any test",
        " errors were not a part of any test",
    ];
    let of_another_test =
        ["* test ", "* doctest ", "* property "].iter().any(|test| trimmed.starts_with(test));
    if of_another_test || digits > 0 && ends.iter().any(|end| trimmed[digits..].starts_with(end)) {
        Next::Beyond
    } else if trimmed.is_empty() {
        Next::Maybe
    } else if line.starts_with("  ") && so_far.len() < 80 {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// A failure of mocha: the lines of its message stand where the message has them, up to the stack.
fn mocha_lines(so_far: &[String], line: &str) -> Next {
    let next = numbered(so_far, line);
    let at_margin = !line.starts_with("  ") && !line.trim().is_empty();
    if next != Next::Beyond || !at_margin || so_far.len() >= 80 {
        return next;
    }
    let begun = so_far.iter().skip(1).any(|line| is_message(line));
    let is_frame = |line: &String| ["at ", "# "].iter().any(|frame| line.trim_start().starts_with(frame));
    if !begun || so_far.iter().any(is_frame) {
        Next::Beyond
    } else if line.starts_with(|c: char| c.is_alphanumeric()) {
        // Only the following text separates a message's next line from another program's output.
        Next::Maybe
    } else {
        Next::Part
    }
}

/// node's output for an exception: its message, which may have several lines and an excerpt, its stack and its own fields.
fn exception_lines(so_far: &[String], line: &str) -> Next {
    let is_frame = |line: &str| line.trim_start().starts_with("at ");
    let framed = so_far.iter().any(|line| is_frame(line));
    let ended = so_far.last().is_some_and(|last| last == "}" || is_frame(last) && !last.ends_with('{'));
    if so_far.len() > 40 || ended && !is_frame(line) {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else if framed || so_far.len() < 12 {
        // Only a stack separates a message's next lines from other output.
        if framed || is_frame(line) { Next::Part } else { Next::Maybe }
    } else {
        Next::Beyond
    }
}

/// The exception's own line stands first, or below the place in a file that cannot be read as a program.
fn exception(draft: &mut Draft) {
    js_place(draft);
    let said = draft.lines.first().and_then(|line| line.split_once(": ")).map(|(_, said)| said);
    let place = said.map(|said| said.trim_start_matches("file://").to_owned());
    let Some(place) = place.filter(|place| place.starts_with('/')) else { return };
    draft.head = draft.lines.iter().skip(1).position(|line| is_message(line)).map(|at| at + 1);
    if draft.file.is_none() {
        let _placed = super::set_place(draft, &place);
    }
}

/// A test of mocha's JSON, up to its error.
fn json_test(so_far: &[String], line: &str) -> Next {
    if line.trim_start().starts_with("\"err\": {}") || line.starts_with("    }") {
        Next::Last
    } else if so_far.len() > 40 {
        Next::Beyond
    } else {
        Next::Part
    }
}

/// A failure in a record of mocha's stream, as mocha would have printed it.
fn stream_failure(draft: &mut Draft) {
    let record = draft.lines.first().and_then(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let text = |key: &str| record.as_ref()?.get(1)?.get(key)?.as_str().map(str::to_owned);
    if let Some(said) = text("stack").or_else(|| text("err")) {
        draft.test = text("fullTitle").or(draft.test.take());
        draft.lines = draft.test.iter().cloned().chain(said.lines().map(str::to_owned)).collect();
        js_place(draft);
    }
}

/// The error as mocha would have printed it. Empty if there is no error.
fn json_failure(draft: &mut Draft) {
    let value = |key: &str| {
        let line = draft.lines.iter().find_map(|line| line.trim_start().strip_prefix(key))?;
        serde_json::from_str::<String>(line.trim_end_matches(',')).ok()
    };
    let Some(said) = value("\"stack\": ").or_else(|| value("\"message\": ")) else {
        draft.spurious = true;
        return;
    };
    draft.lines = draft.test.iter().cloned().chain(said.lines().map(str::to_owned)).collect();
    js_place(draft);
}

/// `AssertionError [ERR_ASSERTION]: no`, `Error: no`.
pub(super) fn is_message(line: &str) -> bool {
    let name = line.trim_start().split([':', ' ']).next().unwrap_or_default();
    (name.ends_with("Error") || name.ends_with("Exception")) && name.chars().all(char::is_alphanumeric)
}

const JEST: Count = |groups| {
    Some(Counts {
        passed: groups.number("passed"),
        failed: groups.number("failed"),
        skipped: groups.number("skipped") + groups.number("todo"),
        expected: groups.number("expected"),
    })
};

const FAILING: Count =
    |groups| Some(Counts { passed: 0, failed: groups.number("n"), skipped: 0, expected: 0 });
const PENDING: Count =
    |groups| Some(Counts { passed: 0, failed: 0, skipped: groups.number("n"), expected: 0 });
const PASSING: Count =
    |groups| Some(Counts { passed: groups.number("n"), failed: 0, skipped: 0, expected: 0 });

const MARKS: Count = |groups| {
    let (passed, total) = (groups.number("passed"), groups.number("n"));
    Some(Counts { passed, failed: total.saturating_sub(passed), skipped: 0, expected: 0 })
};

/// Lines above the location of an ava failure.
fn ava_title(line: &str) -> bool {
    let own = line.trim_start();
    own.is_empty() || line.starts_with("  ") && !line.starts_with("   ") && !own.starts_with(['─', '✔', '✘'])
}

/// A failure of ava, up to its stack, which ends it.
fn ava_lines(so_far: &[String], line: &str) -> Next {
    let own = line.trim_start();
    if own.is_empty() {
        Next::Maybe
    } else if so_far.len() > 60 || own.starts_with('─') || !line.starts_with("  ") {
        Next::Beyond
    } else if own.starts_with("› ") {
        Next::Last
    } else {
        Next::Part
    }
}

/// The name stands first; without it the line is a path that something printed.
fn ava_test(draft: &mut Draft) {
    while draft.lines.first().is_some_and(|line| line.trim().is_empty()) {
        draft.lines.remove(0);
    }
    let is_told = draft.lines.iter().any(|line| line.trim_start().starts_with("› "));
    let title = draft.lines.first().map(|line| line.trim().to_owned());
    draft.spurious = !is_told;
    draft.head = Some(0);
    draft.test = title.filter(|title| !title.contains(".test."));
    let outside = ["Uncaught exception in ", "Unhandled rejection in "];
    if draft.test.as_deref().is_some_and(|title| outside.iter().any(|words| title.starts_with(words))) {
        // A test of its file may have caused it, and which one is not known.
        draft.test = None;
        draft.head = draft.lines.iter().position(|line| is_message(line)).or(draft.head);
    }
}

/// jasmine's lines about a failure, which begin with a heading.
fn jasmine_lines(so_far: &[String], line: &str) -> Next {
    if so_far.len() == 1 && line.trim_end() != "  Message:" || so_far.len() > 40 {
        Next::Beyond
    } else {
        super::indented_or_blank(so_far, line)
    }
}

/// A numbered line without such a heading is not a failure.
fn jasmine(draft: &mut Draft) {
    draft.spurious = draft.lines.len() == 1;
    js_place(draft);
}

const SPECS: Count = |groups| {
    let (total, failed, skipped) = (groups.number("n"), groups.number("failed"), groups.number("skipped"));
    Some(Counts { passed: total.saturating_sub(failed + skipped), failed, skipped, expected: 0 })
};

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "jest.file",
        pattern: r"^ ?(?:FAIL|PASS) {1,2}(?:[^\s./]+ )?(?P<f>\S+\.[cm]?[jt]sx?)(?: \([\d.]+ m?s\))?(?: \([\d.]+ MB heap size\))?$",
        acts: &[Act::File, Act::Harmless, Act::AtWork(ToolId::Jest)],
    },
    Rule {
        name: "jest.console",
        pattern: r"^  console\.(?:log|error|warn|info|debug)$",
        acts: &[Act::AtWork(ToolId::Jest)],
    },
    Rule {
        name: "jest.exited",
        pattern: r"^\s*\xe2\x97\x8f +process\.exit called with ",
        acts: &[Act::Sign(Sign::Failure(ToolId::Jest))],
    },
    Rule {
        name: "jest.bullet",
        pattern: r"^\s*\xe2\x97\x8f (?P<t>.+)$",
        acts: &[Act::Problem(
            problem(ERROR, Kind::Test, 93).follow(jest).owning().in_file().refine(jest_console),
        )],
    },
    Rule {
        name: "jest.tests",
        pattern: r"^Tests:\s+(?:(?:(?P<failed>\d+) failed|(?P<skipped>\d+) skipped|(?P<todo>\d+) todo|(?P<passed>\d+) passed)(?:, )?)+(?:, )?\d+ total",
        acts: &[Act::Counts(ToolId::Jest, JEST), Act::Summary],
    },
    Rule { name: "jest.suites", pattern: r"^Test Suites: +\d+ ", acts: &[Act::Heading(ToolId::Jest)] },
    Rule { name: "jest.bad", pattern: r"^Test Suites: +[1-9]\d* failed", acts: &[Act::Amiss(ToolId::Jest)] },
    Rule {
        // Of jest, and of those that ask as istanbul does: nyc, c8, vitest. The tests may all have passed.
        name: "istanbul.short",
        pattern: r#"^(?:Jest: (?:Coverage for \w+ \([\d.]+%\) does not meet ".+" threshold \([\d.]+%\)|Uncovered count for \w+ \(\d+\) exceeds ".+" threshold \(\d+\)|".+" coverage threshold for \w+ \(-?[\d.]+%?\) not met: [\d.]+%?|Coverage data for .+ was not found\.)|ERROR: Coverage for \w+ \([\d.]+%\) does not meet (?:.+ )?threshold \([\d.]+%\)(?: for .+)?)$"#,
        acts: &[
            Act::Problem(problem(ERROR, Kind::Test, 88)),
            Act::Sign(Sign::Failure(ToolId::Coverage)),
            Act::Summary,
        ],
    },
    Rule {
        name: "vitest.heading",
        pattern: r"^\s*FAIL  (?P<t>\S.*)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 93).follow(vitest).owning().refine(vitest_failure))],
    },
    Rule {
        // Up to the next blank line a test's own output stands below it.
        name: "vitest.printed",
        pattern: r"^(?:stdout|stderr) \| \S+[._-](?:test|spec)\.[cm]?[jt]sx?(?: > .*)?$",
        acts: &[
            Act::Problem(problem(super::INFO, Kind::Test, 40).follow(printed).owning().refine(no_problem)),
            Act::Alone,
        ],
    },
    Rule {
        name: "vitest.tests",
        pattern: r"^\s*Tests  +(?:(?:(?P<failed>\d+) failed|(?P<passed>\d+) passed|(?P<expected>\d+) expected fail|(?P<skipped>\d+) skipped|(?P<todo>\d+) todo)(?: \| )?)+ \(\d+\)",
        acts: &[Act::Counts(ToolId::Vitest, JEST), Act::Summary],
    },
    Rule {
        name: "vitest.run",
        pattern: r"^\s*(?:RUN|DEV) +v\d",
        acts: &[Act::Sign(Sign::Begins(ToolId::Vitest))],
    },
    Rule { name: "vitest.files", pattern: r"^\s*Test Files  +\d+ ", acts: &[Act::Heading(ToolId::Vitest)] },
    Rule {
        name: "vitest.bad",
        pattern: r"^\s*Test Files  +[1-9]\d* failed",
        acts: &[Act::Amiss(ToolId::Vitest)],
    },
    Rule {
        name: "vitest.errors",
        pattern: r"^\s*(?:Errors  +[1-9]\d* errors?|Type Errors  +[1-9]\d* failed|Vitest caught \d+ unhandled errors? during the test run.*)$",
        acts: &[Act::Sign(Sign::Failure(ToolId::Vitest)), Act::Summary],
    },
    Rule {
        name: "mocha.numbered",
        pattern: r"^\s{1,4}(?P<n>\d+)\) (?P<t>\S.*)$",
        acts: &[Act::Problem(
            problem(ERROR, Kind::Test, 88)
                .follow(mocha_lines)
                .owning()
                .apart_after_blank()
                .refine(mocha_only),
        )],
    },
    Rule {
        name: "mocha.passed",
        pattern: r"^ {2,}\xe2\x9c[\x93\x94] \S",
        acts: &[Act::AtWork(ToolId::Mocha)],
    },
    Rule {
        name: "mocha.passing",
        pattern: r"^\s+(?P<n>\d+) passing \(",
        acts: &[Act::Counts(ToolId::Mocha, PASSING), Act::Summary],
    },
    Rule {
        name: "mocha.pending",
        pattern: r"^\s+(?P<n>[1-9]\d*) pending$",
        acts: &[Act::Adds(ToolId::Mocha, PENDING), Act::Summary],
    },
    Rule {
        name: "mocha.failing",
        pattern: r"^\s+(?P<n>[1-9]\d*) failing$",
        acts: &[Act::Adds(ToolId::Mocha, FAILING), Act::Summary],
    },
    Rule {
        // Of a file that it could not load. No test ran then, and no total follows.
        name: "mocha.exception",
        pattern: r"^(?: Exception during run:|\xe2\x9c\x96 ERROR:) (?P<m>\S.*)$",
        acts: &[
            Act::Problem(
                problem(ERROR, Kind::Runtime, 90).follow(exception_lines).owning().refine(exception),
            ),
            Act::Sign(Sign::Failure(ToolId::Mocha)),
            Act::Summary,
        ],
    },
    Rule {
        name: "mocha.no_files",
        pattern: r"^Error: No test files found: ",
        acts: &[Act::Sign(Sign::Failure(ToolId::Mocha)), Act::Summary],
    },
    Rule {
        name: "mocha.stream_failed",
        pattern: r#"^\["fail",\{"title":"(?:[^"\\]|\\.)*","fullTitle":"(?P<t>(?:[^"\\]|\\.)*)""#,
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 90).refine(stream_failure))],
    },
    Rule {
        name: "mocha.stream_end",
        pattern: r#"^\["end",\{"suites":\d+,"tests":\d+,"passes":(?P<passed>\d+),"pending":(?P<skipped>\d+),"failures":(?P<failed>\d+),"#,
        acts: &[
            Act::Session(ToolId::MochaJson),
            Act::Counts(ToolId::MochaJson, JEST),
            Act::Summary,
            Act::Harmless,
        ],
    },
    Rule {
        name: "uvu.marks",
        pattern: r"^(?:(?:\xe2\x80\xa2|\xe2\x9c\x98) )+ *\((?P<passed>\d+) / (?P<n>\d+)\)$",
        acts: &[Act::Session(ToolId::Uvu), Act::Counts(ToolId::Uvu, MARKS), Act::Summary],
    },
    Rule {
        name: "jest.json",
        pattern: r#"^\{"num[A-Z]\w+":\d+,.*"numFailedTests":[1-9]"#,
        acts: &[Act::Sign(Sign::Failure(ToolId::Jest)), Act::Harmless],
    },
    Rule {
        name: "mocha.json_stats",
        pattern: r#"^  "stats": \{$"#,
        acts: &[Act::Session(ToolId::MochaJson), Act::Partial(ToolId::MochaJson, JEST)],
    },
    Rule {
        name: "mocha.json_counts",
        pattern: r#"^    "(?:passes": (?P<passed>\d+)|failures": (?P<failed>\d+)|pending": (?P<skipped>\d+)),$"#,
        acts: &[Act::Adds(ToolId::MochaJson, JEST), Act::Harmless],
    },
    Rule {
        name: "mocha.json_test",
        pattern: r#"^      "fullTitle": "(?P<t>.*)",$"#,
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 88).follow(json_test).owning().refine(json_failure))],
    },
    Rule {
        name: "jasmine.failed",
        pattern: r"^\d+\) (?P<t>\S.*)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 92).follow(jasmine_lines).owning().refine(jasmine))],
    },
    Rule {
        name: "jasmine.summary",
        pattern: r"^(?P<n>\d+) specs?, (?P<failed>\d+) failures?(?:, (?P<skipped>\d+) pending specs?)?$",
        acts: &[Act::Session(ToolId::Jasmine), Act::Counts(ToolId::Jasmine, SPECS), Act::Summary],
    },
    Rule {
        // jasmine exits with 2 for it, however its specs ended.
        name: "jasmine.incomplete",
        pattern: r"^Incomplete: (?P<m>fit\(\) or fdescribe\(\) was found|No specs found)$",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Test, 88)),
            Act::Sign(Sign::Failure(ToolId::Jasmine)),
            Act::Summary,
        ],
    },
    Rule {
        // The files that it counts in TAP are not tests.
        name: "node_tap.total",
        pattern: r"^# \{ total: \d+(?:, (?:pass: (?P<passed>\d+)|fail: (?P<failed>\d+)|todo: (?P<todo>\d+)|skip: (?P<skipped>\d+)))* \}$",
        acts: &[Act::Session(ToolId::NodeTap), Act::Counts(ToolId::NodeTap, JEST), Act::Summary],
    },
    Rule {
        name: "node_test.heading",
        pattern: r"^\xe2\x9c\x96 failing tests:$",
        acts: &[Act::Harmless, Act::Alone],
    },
    Rule {
        name: "node_test.todo",
        pattern: r"^\s*\xe2\x9c\x96 .* \([\d.]+m?s\) # (?:TODO|SKIP|todo|skip).*",
        acts: &[
            Act::Problem(problem(super::INFO, Kind::Test, 50).follow(super::indented_or_blank).owning()),
            Act::Alone,
        ],
    },
    Rule {
        name: "node_test.failed",
        pattern: r"^\s*\xe2\x9c\x96 (?P<t>.+?) \([\d.]+m?s\)$",
        acts: &[
            Act::Problem(
                problem(ERROR, Kind::Test, 93).follow(super::indented_or_blank).owning().refine(node_test),
            ),
            Act::Sign(Sign::Failure(ToolId::NodeTest)),
            Act::Alone,
        ],
    },
    Rule {
        name: "ava.failed_line",
        pattern: r"^\s+(?:\xe2\x9c\x98|\xe2\x9c\x96|\xc3\x97) (?:\[fail\]: )?(?P<t>\S.*)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 84).follow(super::boxed).refine(listed))],
    },
    Rule {
        // Below the name of the test and a blank line.
        name: "ava.place",
        pattern: r"^  (?P<f>\S+\.[cm]?[jt]sx?):(?P<l>\d+)$",
        acts: &[Act::Problem(
            problem(ERROR, Kind::Test, 90).lead(ava_title).follow(ava_lines).owning().refine(ava_test),
        )],
    },
    Rule {
        name: "ava.counts",
        pattern: r"^\s+(?:(?P<failed>\d+) tests? (?:failed|remained pending after a timeout)|(?P<passed>\d+) tests? passed|(?P<skipped>\d+) tests? (?:skipped|todo)|(?P<expected>\d+) known failures?)$",
        acts: &[Act::Adds(ToolId::Ava, JEST)],
    },
    Rule {
        name: "ava.amiss",
        pattern: r"^  (?:[1-9]\d* (?:uncaught exceptions?|unhandled rejections?|hooks? failed)|(?:\xe2\x9c\x98|\xe2\x9c\x96|\xc3\x97) (?:No tests found in .*|Exiting due to process\.exit\(\) when running .*|Timed out while running tests|Internal error(?: when running .*)?|Error in shared worker|\S+\.[cm]?[jt]sx? exited (?:due to .*|with a non-zero exit code: \d+)|\d+ tests? remaining in .*))$",
        acts: &[Act::Amiss(ToolId::Ava), Act::Summary],
    },
    Rule {
        name: "ava.summary",
        pattern: r"^\s+(?P<n>\d+) (?:tests?|uncaught exceptions?|known failures?|unhandled rejections?)(?: (?:failed|passed|skipped|todo|remaining))?$",
        acts: &[Act::Summary],
    },
    Rule {
        name: "node_test.tests",
        pattern: r"^(?:# |\xe2\x84\xb9 )tests (?P<n>\d+)$",
        acts: &[Act::Session(ToolId::NodeTest), Act::Summary],
    },
    Rule {
        name: "node_test.pass",
        pattern: r"^(?:# |\xe2\x84\xb9 )pass (?P<n>\d+)$",
        acts: &[Act::Adds(ToolId::NodeTest, PASSING), Act::Summary],
    },
    Rule {
        name: "node_test.skipped",
        pattern: r"^(?:# |\xe2\x84\xb9 )(?:skipped|todo) (?P<n>[1-9]\d*)$",
        acts: &[Act::Adds(ToolId::NodeTest, PENDING)],
    },
    Rule {
        name: "node_test.fail",
        // A test that is cancelled did not end, or not in its time.
        pattern: r"^(?:# |\xe2\x84\xb9 )(?:fail|cancelled) (?P<n>[1-9]\d*)$",
        acts: &[Act::Adds(ToolId::NodeTest, FAILING), Act::Summary],
    },
];

/// A bullet that is console output or a heading of the summary is no failure.
fn jest_console(draft: &mut Draft) {
    let heading = draft.test.as_deref().unwrap_or_default();
    draft.spurious =
        heading.starts_with("Console") || heading.starts_with("Deprecation") || draft.lines.len() == 1;
    if heading == "Test suite failed to run" {
        draft.test = None;
        draft.head = draft.lines.iter().skip(1).position(|line| !line.trim().is_empty()).map(|at| at + 1);
    }
    js_place(draft);
}

/// A line without further lines below it shows only that the test failed.
fn node_test(draft: &mut Draft) {
    let mut below = draft.lines.iter().skip(1).map(|line| line.trim()).filter(|line| !line.is_empty());
    draft.bare = below.all(|line| line == "'test failed'");
    js_place(draft);
    if draft.bare && draft.lines.len() > 1 {
        // node could not load the file, and has printed the reason above.
        draft.kind = Some(Kind::Consequence);
    }
}

/// A numbered line without anything under it is a line of a spec report, not the failure's own block.
fn mocha_only(draft: &mut Draft) {
    // RSpec's text under a pending example begins like a comment.
    let next = draft.lines.iter().skip(1).map(|line| line.trim()).find(|line| !line.is_empty());
    let pending = next.is_some_and(|next| next.starts_with("# "));
    // In a spec report a test that is skipped may come next.
    let skipped = next.is_some_and(|next| next.starts_with("- "));
    // So may the next suite, or a line of another test.
    let deep = |line: &str| line.len() - line.trim_start().len();
    let heading = draft.lines.first().map_or(0, |line| deep(line));
    let mut below = draft.lines.iter().skip(1).filter(|line| !line.trim().is_empty());
    let told = below.any(|line| deep(line) > heading);
    draft.spurious = !told || pending || skipped;
    js_place(draft);
    if let Some(name) = mocha_name(&draft.lines) {
        draft.test = Some(name);
    }
    if let Some(test) = &mut draft.test {
        // Playwright's heading ends with a rule, and begins with the place of the test.
        test.truncate(test.trim_end_matches(['─', ' ']).len());
    }
    // RSpec's frames look like comments.
    let frame =
        draft.lines.iter().find_map(|line| line.trim_start().strip_prefix("# ./")?.split_once(":in "));
    if let (None, Some((place, _))) = (&draft.file, frame) {
        let place = format!("./{place}");
        let _placed = super::set_place(draft, &place);
    }
    let named = draft.test.as_deref().and_then(|test| test.split(" › ").next()).map(str::to_owned);
    if let (None, Some(place)) = (&draft.file, named) {
        let _placed = place.ends_with(|c: char| c.is_ascii_digit()) && super::set_place(draft, &place);
    }
}

/// Full name of a test of mocha, as its option `--grep` matches it: the suites and the test, one a
/// line. The last one ends with a colon, and a blank line follows.
fn mocha_name(lines: &[String]) -> Option<String> {
    let end = lines.iter().position(|line| line.trim().is_empty())?;
    let (_, first) = lines.first()?.split_once(") ")?;
    let parts: Vec<&str> =
        std::iter::once(first).chain(lines[1..end].iter().map(|line| line.trim())).collect();
    let name = parts.join(" ");
    (parts.len() > 1).then(|| name.strip_suffix(':').map(str::to_owned))?
}

/// A line of a list names a failed test; the error is elsewhere.
fn listed(draft: &mut Draft) {
    super::pointed(draft);
    draft.bare = draft.lines.len() == 1;
    if draft.bare && draft.test.as_deref().is_some_and(|test| test.ends_with('.')) {
        // A sentence is no name.
        (draft.test, draft.kind, draft.bare) = (None, Some(Kind::Runtime), false);
    }
    if let Some(test) = &mut draft.test
        && let Some((name, time)) = test.rsplit_once(' ')
        && time.ends_with('s')
        && time.starts_with(|c: char| c.is_ascii_digit())
    {
        *test = name.to_owned();
    }
}
