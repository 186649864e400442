//! TAP points, and the subtests that they summarize.

use crate::tally::TestRun;
use crate::text;
use buildpool_protocol::evidence::TestStatus;

/// A test point.
#[derive(Default)]
pub(super) struct Point {
    /// The number in the report.
    pub(super) number: Option<String>,
    /// Unique id within its level: `test 3`.
    pub(super) id: String,
    pub(super) name: String,
    pub(super) status: TestStatus,
    /// True for `# TODO`, with any result.
    is_todo: bool,
    /// Reason of `# SKIP` or `# TODO`.
    pub(super) reason: String,
    duration_secs: Option<f64>,
    /// Its YAML block, or the diagnostic lines after it.
    pub(super) detail: String,
    /// The subtest that this point summarizes.
    pub(super) subtest: Option<Subtest>,
    /// True if the line ends with `{`: the subtest follows.
    pub(super) opens: bool,
    /// True for a line that is only `ok`.
    pub(super) is_bare: bool,
}

/// Tests of a subtest, with names relative to it.
#[derive(Default)]
pub(super) struct Subtest {
    pub(super) runs: Vec<TestRun>,
    /// The mismatch of plan and points.
    pub(super) contradiction: Option<String>,
    /// `is_reported`: some tests were counted before the subtest ended, because the limit was reached.
    /// `has_reported_failure`: one of these tests failed.
    is_reported: bool,
    has_reported_failure: bool,
}

/// Maximum number of digits in the number of a point.
const NUMBER_DIGITS_MAX: usize = 20;

/// Parses a line as a point. An indented line must have a number or a dash, because it may be
/// output of the program.
pub(super) fn point_in(line: &str, indent: usize) -> Option<Point> {
    let line = line.get(indent..)?.trim_end();
    let (ok, rest) = match line.strip_prefix("not ok") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("ok")?),
    };
    if !rest.is_empty() && !rest.starts_with(' ') {
        return None;
    }
    let rest = rest.trim_start();
    if indent > 0 && !rest.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        return None;
    }
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number = rest.get(..digits).filter(|number| (1..=NUMBER_DIGITS_MAX).contains(&number.len()));
    let number = number.map(str::to_owned);
    let after = rest.get(digits..).unwrap_or("").trim_start();
    let opened = after.strip_suffix('{').filter(|before| before.is_empty() || before.ends_with(' '));
    let (after, duration_secs) = split_time(opened.unwrap_or(after));
    let (description, directive) = split_directive(after);
    let name = text::name(description.trim_start_matches("- ").trim());
    let upper = directive.to_ascii_uppercase();
    let is_todo = upper.starts_with("TODO");
    let (status, reason) = if upper.starts_with("SKIP") {
        let word = directive.split_whitespace().next().unwrap_or("");
        (TestStatus::Skipped, directive.get(word.len()..).unwrap_or("").trim())
    } else if is_todo && !ok {
        (TestStatus::ExpectedFailure, directive.get(4..).unwrap_or("").trim())
    } else if ok {
        (TestStatus::Passed, "")
    } else {
        (TestStatus::Failed, "")
    };
    let (opens, is_bare) = (opened.is_some(), ok && rest.is_empty());
    // mocha writes a dash if there is no reason.
    let reason = if reason == "-" { String::new() } else { reason.to_owned() };
    Some(Point { number, name, status, is_todo, reason, duration_secs, opens, is_bare, ..Point::default() })
}

/// Converts a point to a test run.
pub(super) fn leaf(point: Point) -> TestRun {
    let detail = point.detail.trim_end();
    let mut messages = if point.reason.is_empty() { vec![] } else { vec![point.reason.clone()] };
    let mut location = None;
    if point.status == TestStatus::Failed && !detail.is_empty() {
        let block = Block::of(detail);
        // Node's `location` is the start of the test. The stack contains the place of the failure.
        let stack = block.as_ref().and_then(|block| text::place_in(&block.stack, None));
        location = stack.or_else(|| text::place_in(detail, None));
        messages.push(block.map_or_else(|| detail.to_owned(), |block| block.message));
    }
    let told_ms = point.field("duration_ms").and_then(|ms| ms.parse::<f64>().ok());
    let duration_secs = point.duration_secs.or(told_ms.map(|ms| ms / 1_000.0));
    TestRun {
        name: point.name,
        within: point.id.into(),
        status: point.status,
        duration_secs,
        messages,
        location,
        ..TestRun::default()
    }
}

/// A failure as Node writes it: message and stack.
struct Block {
    message: String,
    stack: String,
}

impl Block {
    fn of(detail: &str) -> Option<Self> {
        let mut fields: Vec<(&str, Vec<&str>)> = Vec::new();
        let indent = detail.len() - detail.trim_start_matches(' ').len();
        for line in detail.lines().map(|line| line.get(indent..).unwrap_or_default()) {
            match (line.split_once(':').filter(|_| !line.starts_with(' ')), fields.last_mut()) {
                (Some((name, value)), _) => fields.push((name, vec![value.trim()])),
                (None, Some((_, lines))) => lines.push(line.strip_prefix("  ").unwrap_or(line)),
                (None, None) => {}
            }
        }
        let text = |name: &str| {
            let (_, lines) = fields.iter().find(|(field, _)| *field == name)?;
            let (first, rest) = lines.split_first()?;
            let is_block = first.starts_with('|') && !rest.is_empty();
            let text = if is_block { rest.join("\n") } else { first.trim_matches(['\'', '"']).to_owned() };
            Some(text.trim_end().to_owned())
        };
        // vitest nests the message in `error`.
        let nested_message =
            fields.iter().find(|(field, _)| *field == "error").into_iter().flat_map(|(_, lines)| lines);
        let nested = nested_message.filter_map(|line| line.trim_start().strip_prefix("message: ")).next();
        if let Some(nested_message) = nested {
            let message = format!("{}\n{}", nested_message.trim_matches(['\'', '"']), detail.trim_end());
            return Some(Self { message, stack: text("at").unwrap_or_default() });
        }
        let (Some(error), Some(_)) = (text("error"), text("duration_ms")) else { return None };
        let is_new = |name: &&str| !["error", "duration_ms", "type", "stack"].contains(name);
        let others = fields.iter().map(|(name, _)| *name).filter(is_new);
        let others: Vec<String> =
            others.filter_map(|name| Some(format!("{name}: {}", text(name)?))).collect();
        let stack = text("stack").unwrap_or_default();
        let parts = [error, others.join("\n"), stack.clone()];
        let message: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        Some(Self { message: message.join("\n"), stack })
    }
}

impl Point {
    /// Returns a top-level field of the point's YAML block, as Node writes it.
    fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.detail.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        values.next().map(|value| value.trim_matches(['\'', '"']))
    }

    fn is_suite(&self) -> bool {
        self.field("type") == Some("suite")
    }

    /// Returns true for a suite of Node that did not fail. It is not a test.
    pub(super) fn is_empty_suite(&self) -> bool {
        self.is_suite() && self.status != TestStatus::Failed
    }

    /// Returns true if the summary point of a subtest also counts as a test. This applies to a Node
    /// test with subtests, and to a failed point without a failed subtest.
    pub(super) fn is_test_beside(&self, subtest: &Subtest) -> bool {
        let is_node_test = self.field("duration_ms").is_some() && !self.is_suite();
        let is_unexplained = self.status == TestStatus::Failed && !subtest.has_failed();
        subtest.is_empty() || is_node_test || is_unexplained
    }

    /// Returns the cause if a Node suite failed for a reason other than its tests: a hook.
    pub(super) fn own_cause(&self, subtest: &Subtest) -> Option<&str> {
        let kind = self.field("failureType").filter(|kind| *kind != "subtestsFailed")?;
        let is_reported = self.is_test_beside(subtest) || self.status != TestStatus::Failed;
        (!is_reported).then(|| self.field("error").unwrap_or(kind))
    }
}

impl Subtest {
    pub(super) fn push(&mut self, run: TestRun) {
        self.runs.push(run);
    }

    pub(super) fn add(&mut self, mut other: Self) {
        self.runs.append(&mut other.runs);
        self.contradiction = self.contradiction.take().or(other.contradiction);
        self.is_reported |= other.is_reported;
        self.has_reported_failure |= other.has_reported_failure;
    }

    /// Records that a test of this subtest was already counted.
    pub(super) fn add_result(&mut self, run: &TestRun) {
        self.is_reported = true;
        self.has_reported_failure |= run.status == TestStatus::Failed;
    }

    fn is_empty(&self) -> bool {
        self.runs.is_empty() && !self.is_reported
    }

    pub(super) fn has_failed(&self) -> bool {
        self.has_reported_failure || self.runs.iter().any(|run| run.status == TestStatus::Failed)
    }

    /// Returns the tests with names below the summary point. A failure below a `TODO` point becomes
    /// an expected failure. Node is an exception, because it counts these failures.
    pub(super) fn under(mut self, point: &Point) -> Self {
        let is_todo = point.is_todo && point.field("duration_ms").is_none();
        for run in &mut self.runs {
            run.name = text::name(&format!("{} > {}", point.name, run.name));
            let inner = run.within.strip_prefix("test ").unwrap_or(&run.within);
            run.within = format!("{}.{inner}", point.id).into();
            if is_todo && run.status == TestStatus::Failed {
                run.status = TestStatus::ExpectedFailure;
            }
        }
        self
    }
}

/// Splits off `# time=1.5ms`, which is not part of the name. Returns the rest and the time in
/// seconds.
fn split_time(text: &str) -> (&str, Option<f64>) {
    let found = text.rsplit_once("# time=").and_then(|(before, time)| {
        let ms = time.trim().strip_suffix("ms")?.parse::<f64>().ok()?;
        Some((before.trim_end(), Some(ms / 1_000.0)))
    });
    found.unwrap_or((text, None))
}

/// Splits a line into description and directive. An escaped `\#` belongs to the description.
fn split_directive(text: &str) -> (&str, &str) {
    let mut from = 0;
    while let Some(found) = text.get(from..).and_then(|rest| rest.find('#')) {
        let at = from + found;
        let escaped = text.get(..at).is_some_and(|before| before.ends_with('\\'));
        let directive = text.get(at + 1..).unwrap_or("").trim_start();
        let upper = directive.get(..4).unwrap_or("").to_ascii_uppercase();
        if !escaped && (upper == "SKIP" || upper == "TODO") {
            return (text.get(..at).unwrap_or(""), directive);
        }
        from = at + 1;
    }
    (text, "")
}
