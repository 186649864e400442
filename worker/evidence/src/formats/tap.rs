//! Parses TAP 12 to 14: `ok`/`not ok`, `# SKIP`, `# TODO`, plans, `Bail out!`, YAML blocks.
//! Subtests are indented. Points of a subtest count as tests. Its summary point counts only if it
//! adds information of its own.

mod point;

use crate::formats::runner_problem;
use crate::limits::{
    ISSUES_MAX, LINE_BYTES_MAX, MESSAGE_BYTES_MAX, NOTES_MAX, SUBTESTS_DEPTH_MAX, SUBTESTS_HELD_MAX,
};
use crate::tally::{Parsed, Tally};
use crate::text;
use buildpool_protocol::evidence::{ReportIssue, TestStatus};
use point::{Point, Subtest, leaf, point_in};
use std::collections::HashSet;

/// Parses a report.
pub(crate) fn parse(bytes: &[u8]) -> (Parsed, Vec<ReportIssue>) {
    let mut reader = Reader { levels: vec![Level::default()], ..Reader::default() };
    for line in text::lossy(bytes).lines() {
        let end = line.floor_char_boundary(LINE_BYTES_MAX);
        reader.line(&line[..end]);
    }
    reader.finish()
}

#[derive(Default)]
struct Reader {
    tally: Tally,
    issues: Vec<ReportIssue>,
    notes: Vec<String>,
    /// The level of the stream, then the levels of the open subtests. Never empty.
    levels: Vec<Level>,
    stream: TapStream,
    /// Indentation of the point with an open YAML block.
    in_yaml: Option<usize>,
    /// Number of tests that wait for the summary point of their subtest.
    held: usize,
    /// Number of points of all levels.
    points: u64,
    /// Number of failures in the summary at the end, as Node and tape write it.
    counted_failures: u64,
    bailed: bool,
}

/// One of several consecutive streams, for example one per file of `prove`.
#[derive(Default)]
struct TapStream {
    /// The planned number of tests, and true if the plan came before the points.
    planned: Option<(u64, bool)>,
    seen: u64,
    /// True after the point with number 1. Points may come in any order.
    has_first: bool,
    /// Tests without a result in all streams so far. Only streams with the plan before the points
    /// are counted.
    missing: u64,
}

impl TapStream {
    fn plan(&mut self, planned: u64) {
        if self.planned.is_some() {
            self.end();
        }
        self.planned = Some((planned, self.seen == 0));
    }

    fn point(&mut self, number: Option<&str>) {
        if number == Some("1") && self.has_first {
            self.end();
        }
        self.has_first |= number == Some("1") || (number.is_none() && self.seen == 0);
        self.seen += 1;
    }

    fn end(&mut self) {
        if let Some((planned, true)) = self.planned {
            self.missing = self.missing.saturating_add(planned.saturating_sub(self.seen));
        }
        (self.planned, self.seen, self.has_first) = (None, 0, false);
    }

    fn is_whole(&self) -> bool {
        self.planned.is_some_and(|(planned, _)| planned == self.seen)
    }
}

/// Points with the same indentation.
#[derive(Default)]
struct Level {
    indent: usize,
    planned: Option<u64>,
    seen: u64,
    numbers: HashSet<String>,
    /// The last point. Details of it may follow.
    last: Option<Point>,
    /// A finished subtest that waits for its summary point.
    subtest: Option<Subtest>,
    /// Tests of this level, if it is a subtest.
    tests: Subtest,
}

impl Reader {
    fn line(&mut self, line: &str) {
        let trimmed = line.trim();
        let indent = line.len() - line.trim_start_matches(' ').len();
        if let Some(of_point) = self.in_yaml {
            // A block is indented. A block that was not closed ends at the first line that is not
            // indented.
            let is_inside =
                trimmed != "..." && (trimmed.is_empty() || line.starts_with('\t') || indent > of_point);
            if is_inside {
                return self.detail(line.get(of_point + 2..).unwrap_or(trimmed));
            }
            self.in_yaml = None;
            if trimmed == "..." {
                return;
            }
        }
        if trimmed == "---" && indent > self.level().indent && self.level().last.is_some() {
            self.in_yaml = Some(self.level().indent);
        } else if let Some(reason) = line.strip_prefix("Bail out!") {
            self.bailed = true;
            self.issue(format!("Bail out!{reason}"));
        } else if let Some(point) = point_in(line, indent) {
            self.point(indent, point);
        } else if let Some(plan) = line.get(indent..).and_then(|rest| rest.strip_prefix("1..")) {
            self.plan(indent, plan);
        } else if trimmed == "}" {
            self.close_opened(indent);
        } else if let Some(diagnostic) = trimmed.strip_prefix('#') {
            self.diagnostic(diagnostic);
        } else if indent > self.level().indent && self.has_failed_point() {
            // mocha indents its failure details but does not put them in a YAML block.
            let from = self.level().indent + 2;
            self.detail(line.get(from..).unwrap_or(trimmed));
        }
    }

    fn has_failed_point(&mut self) -> bool {
        self.level().last.as_ref().is_some_and(|point| point.status == TestStatus::Failed)
    }

    fn level(&mut self) -> &mut Level {
        if self.levels.is_empty() {
            self.levels.push(Level::default());
        }
        let last = self.levels.len() - 1;
        &mut self.levels[last]
    }

    fn detail(&mut self, line: &str) {
        if let Some(point) = &mut self.level().last
            && point.detail.len() < MESSAGE_BYTES_MAX
        {
            point.detail.push_str(line);
            point.detail.push('\n');
        }
    }

    fn diagnostic(&mut self, text: &str) {
        let text = text.strip_prefix(' ').unwrap_or(text);
        let count =
            text.split_once(' ').and_then(|(word, count)| Some((word, count.trim().parse::<f64>().ok()?)));
        match count {
            Some(("fail", _)) if self.levels.len() == 1 => {
                let count = text.rsplit(' ').next().and_then(|count| count.parse::<u64>().ok());
                self.counted_failures = self.counted_failures.saturating_add(count.unwrap_or(0));
            }
            // Other lines of the summary.
            Some(_) if self.levels.len() == 1 => {}
            _ if text.starts_with("Subtest: ") => {}
            _ if self.has_failed_point() => self.detail(text),
            _ => {}
        }
    }

    fn plan(&mut self, indent: usize, plan: &str) {
        let digits = plan.split(|c: char| !c.is_ascii_digit()).next().unwrap_or("");
        let Ok(planned) = digits.parse::<u64>() else { return };
        // A plan may come before the first point of its subtest.
        self.go_to(indent);
        if self.levels.len() == 1 {
            self.stream.plan(planned);
        }
        let level = self.level();
        // Two consecutive streams have one plan each.
        level.planned = Some(level.planned.unwrap_or(0).saturating_add(planned));
    }

    fn point(&mut self, indent: usize, mut point: Point) {
        self.go_to(indent);
        let points = self.points;
        if self.levels.len() == 1 {
            // `prove -v` ends each file with a bare `ok` after all planned points.
            if point.is_bare && self.stream.is_whole() {
                return;
            }
            self.stream.point(point.number.as_deref());
        }
        let level = self.level();
        let subtest = level.subtest.take();
        self.settle_last();
        let level = self.level();
        level.seen += 1;
        let number = point.number.take().unwrap_or_else(|| level.seen.to_string());
        // TAP has no retries: each point is a separate test, even with an equal description.
        point.id = match level.numbers.insert(number.clone()) {
            true => format!("test {number}"),
            false => format!("point {}", points + 1),
        };
        if point.name.is_empty() {
            point.name = format!("test {number}");
        }
        point.subtest = subtest;
        level.last = Some(point);
        self.points += 1;
    }

    /// Makes the level of this indentation the innermost one.
    fn go_to(&mut self, indent: usize) {
        self.close_above(indent);
        if self.level().indent < indent && self.levels.len() < SUBTESTS_DEPTH_MAX {
            self.levels.push(Level { indent, ..Level::default() });
        }
    }

    /// Closes subtests that are indented deeper.
    fn close_above(&mut self, indent: usize) {
        while self.levels.len() > 1 && self.level().indent > indent {
            self.close_level();
        }
    }

    /// Closes the subtest that a point with a trailing `{` opened.
    fn close_opened(&mut self, indent: usize) {
        let opened =
            |level: &Level| level.indent == indent && level.last.as_ref().is_some_and(|point| point.opens);
        if self.levels.iter().any(opened) {
            self.close_above(indent);
        }
    }

    fn close_level(&mut self) {
        self.settle_last();
        let Some(level) = self.levels.pop() else { return };
        let mut tests = level.tests;
        if let Some(left) = level.subtest {
            tests.add(left);
        }
        tests.contradiction = tests.contradiction.take().or(contradiction(level.planned, level.seen));
        let around = self.level();
        match &mut around.last {
            // `ok 1 - name {` comes before the subtest that it summarizes.
            Some(point) if point.opens => point.subtest.get_or_insert_default().add(tests),
            _ => around.subtest.get_or_insert_default().add(tests),
        }
    }

    /// Counts the last point of the innermost level. All its details are known now.
    fn settle_last(&mut self) {
        let Some(mut point) = self.level().last.take() else { return };
        let mut tests = Subtest::default();
        let mut is_test = !point.is_empty_suite();
        if let Some(subtest) = point.subtest.take() {
            self.compare(&point, &subtest);
            is_test = point.is_test_beside(&subtest);
            tests = subtest.under(&point);
        }
        match (is_test, self.levels.len()) {
            (false, 2..) => {}
            (true, 2..) if self.held < SUBTESTS_HELD_MAX => {
                self.held += 1;
                tests.push(leaf(point));
            }
            (true, 2..) => {
                let run = leaf(point);
                tests.add_result(&run);
                self.tally.record(run);
            }
            (_, _) => {
                let own = is_test.then(|| leaf(point));
                self.record(tests);
                own.into_iter().for_each(|run| self.tally.record(run));
                return;
            }
        }
        self.level().tests.add(tests);
    }

    /// Reports contradictions between a point and the subtest that it summarizes.
    fn compare(&mut self, point: &Point, subtest: &Subtest) {
        if let Some(contradiction) = subtest.contradiction.as_deref() {
            self.issue(format!("subtest {}: {contradiction}", point.name));
        }
        if let Some(cause) = point.own_cause(subtest) {
            self.issue(format!("{}: {cause}", point.name));
        }
        if point.status == TestStatus::Passed && subtest.has_failed() && self.notes.len() < NOTES_MAX {
            self.notes.push(format!("{} is ok, and a test in it failed", text::name(&point.name)));
        }
    }

    fn record(&mut self, tests: Subtest) {
        self.held = self.held.saturating_sub(tests.runs.len());
        tests.runs.into_iter().for_each(|run| self.tally.record(run));
    }

    fn issue(&mut self, message: String) {
        if self.issues.len() >= ISSUES_MAX {
            return;
        }
        self.issues.push(runner_problem(&message, None));
    }

    fn finish(mut self) -> (Parsed, Vec<ReportIssue>) {
        self.close_above(0);
        self.settle_last();
        let level = self.levels.pop().unwrap_or_default();
        let mut cut = None;
        if let Some(left) = level.subtest {
            cut = Some("a subtest has no point that sums it up; the report may be cut short".to_owned());
            self.record(left);
        }
        self.stream.end();
        if let Some(contradiction) = contradiction(level.planned, level.seen) {
            self.issue(contradiction);
            let planned = level.planned.unwrap_or(0);
            for number in level.seen.saturating_add(1)..=planned.min(level.seen.saturating_add(200)) {
                self.tally.unfinished(&format!("test {number}"));
            }
        }
        if contradiction(level.planned, level.seen).is_none() && self.stream.missing > 0 {
            // The totals match because another stream has more points than it planned.
            let tests = text::counted(self.stream.missing, "test has", "tests have");
            self.issue(format!("of several streams, one breaks off: {tests} no result"));
        }
        if level.planned.is_none() && !self.bailed {
            cut = cut.or_else(|| Some("there is no plan; the report may be cut short".to_owned()));
        }
        let mut parsed = self.tally.finish("tap");
        // AVA counts `todo` tests as failures.
        let listed = parsed.report.failed + parsed.report.expected_failures;
        if self.counted_failures > listed {
            let counted = self.counted_failures;
            let counted = text::counted(counted, "failure", "failures");
            cut = cut.or_else(|| Some(format!("the report counts {counted} and lists {listed}")));
        }
        parsed.notes.append(&mut self.notes);
        parsed.notes.extend(cut.clone());
        parsed.report.cut = cut;
        (parsed, self.issues)
    }
}

/// Returns a message if the plan and the number of points differ.
fn contradiction(planned: Option<u64>, seen: u64) -> Option<String> {
    let planned = planned.filter(|planned| *planned != seen)?;
    let tests = text::counted(planned, "test was", "tests were");
    Some(if planned > seen {
        format!(
            "{tests} planned, {}",
            text::counted(planned - seen, "of them has no result", "of them have no result")
        )
    } else {
        format!("{tests} planned, and {}", text::counted(seen, "has a result", "have a result"))
    })
}

#[cfg(test)]
mod tests;
