//! TAP 12 to 14: `ok`/`not ok`, `# SKIP`, `# TODO`, plans, `Bail out!`, YAML blocks. Subtests are indented; the line that
//! sums one up stands for it.

use crate::limits::{LINE_BYTES_MAX, MESSAGE_BYTES_MAX};
use crate::tally::{Parsed, Tally, TestRun};
use crate::text;
use buildpool_protocol::evidence::{ReportIssue, TestStatus};
use buildpool_protocol::report::Severity;
use std::collections::HashSet;

/// Parses a report.
pub(crate) fn parse(bytes: &[u8]) -> (Parsed, Vec<ReportIssue>) {
    let mut reader = Reader::default();
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
    last: Option<TestRun>,
    in_yaml: bool,
    detail: String,
    planned: Option<u64>,
    seen: u64,
    numbers: HashSet<String>,
    bailed: bool,
}

impl Reader {
    fn line(&mut self, line: &str) {
        let trimmed = line.trim();
        if self.in_yaml {
            // A block is indented; one that was not closed ends with the first line that is not.
            self.in_yaml = trimmed != "..." && (trimmed.is_empty() || line.starts_with([' ', '\t']));
            if self.in_yaml && self.detail.len() < MESSAGE_BYTES_MAX {
                self.detail.push_str(line.strip_prefix("  ").unwrap_or(line));
                self.detail.push('\n');
            }
            if self.in_yaml || trimmed == "..." {
                return;
            }
        }
        if trimmed == "---" && line.starts_with(' ') && self.last.is_some() {
            self.in_yaml = true;
        } else if let Some(reason) = line.strip_prefix("Bail out!") {
            self.bailed = true;
            self.issue(format!("Bail out!{reason}"));
        } else if let Some(rest) = line.strip_prefix("not ok") {
            self.result(false, rest);
        } else if let Some(rest) = line.strip_prefix("ok") {
            self.result(true, rest);
        } else if let Some(plan) = line.strip_prefix("1..") {
            let digits = plan.split(|c: char| !c.is_ascii_digit()).next().unwrap_or("");
            self.planned = digits.parse().ok();
        } else if let Some(diagnostic) = trimmed.strip_prefix('#')
            && self.last.as_ref().is_some_and(|run| run.status == TestStatus::Failed)
            && self.detail.len() < MESSAGE_BYTES_MAX
        {
            self.detail.push_str(diagnostic.strip_prefix(' ').unwrap_or(diagnostic));
            self.detail.push('\n');
        }
    }

    fn result(&mut self, ok: bool, rest: &str) {
        if !rest.is_empty() && !rest.starts_with(' ') {
            return;
        }
        self.close();
        self.seen += 1;
        let rest = rest.trim_start();
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number = rest
            .get(..digits)
            .filter(|number| !number.is_empty())
            .map_or(self.seen.to_string(), str::to_owned);
        let (description, directive) = split_directive(rest.get(digits..).unwrap_or("").trim_start());
        let description = description.trim_start_matches("- ").trim();
        let upper = directive.to_ascii_uppercase();
        let (status, reason) = if upper.starts_with("SKIP") {
            let word = directive.split_whitespace().next().unwrap_or("");
            (TestStatus::Skipped, directive.get(word.len()..).unwrap_or("").trim())
        } else if upper.starts_with("TODO") && !ok {
            (TestStatus::ExpectedFailure, directive.get(4..).unwrap_or("").trim())
        } else if ok {
            (TestStatus::Passed, "")
        } else {
            (TestStatus::Failed, "")
        };
        let name = if description.is_empty() { format!("test {number}") } else { description.to_owned() };
        let messages = if reason.is_empty() { vec![] } else { vec![reason.to_owned()] };
        // TAP has no reruns: each point is a test of its own, whatever its description.
        let within = match self.numbers.insert(number.clone()) {
            true => format!("test {number}"),
            false => format!("point {}", self.seen),
        };
        self.last = Some(TestRun { name, within: within.into(), status, messages, ..TestRun::default() });
    }

    fn close(&mut self) {
        self.in_yaml = false;
        let detail = std::mem::take(&mut self.detail);
        let Some(mut run) = self.last.take() else { return };
        let detail = detail.trim_end();
        if run.status == TestStatus::Failed && !detail.is_empty() {
            run.location = text::place_in(detail, None);
            run.messages.push(detail.to_owned());
        }
        self.tally.record(run);
    }

    fn issue(&mut self, message: String) {
        self.issues.push(ReportIssue {
            path: String::new(),
            severity: Severity::Error,
            message: text::message(&message),
            location: None,
            category: None,
            advice: None,
        });
    }

    fn finish(mut self) -> (Parsed, Vec<ReportIssue>) {
        self.close();
        if let Some(planned) = self.planned
            && planned > self.seen
        {
            let missing = planned - self.seen;
            self.issue(format!("{planned} tests were planned, {missing} of them have no result"));
            for number in self.seen.saturating_add(1)..=planned.min(self.seen.saturating_add(200)) {
                self.tally.unfinished(&format!("test {number}"));
            }
        }
        let mut parsed = self.tally.finish("tap");
        if self.planned.is_none() && !self.bailed {
            parsed.notes.push("there is no plan; the report may be cut short".to_owned());
        }
        (parsed, self.issues)
    }
}

/// Description and directive; an escaped `\#` belongs to the description.
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

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "TAP version 13\n1..6\nok 1 - good\nnot ok 2 - bad # not a directive\n  ---\n  message: boom\n  at: t/a.js:3:4\n  ...\nok 3 - other # SKIP no network\nnot ok 4 later # TODO not done\n    ok 1 - inner\n    not ok 2 - inner bad\nok 5 - outer \\# SKIP\n";

    #[test]
    fn results_directives_and_the_plan_are_read() {
        let (parsed, issues) = parse(REPORT.as_bytes());
        let report = parsed.report;
        assert_eq!((report.passed, report.failed, report.skipped, report.expected_failures), (2, 1, 1, 1));
        assert_eq!(report.unfinished, ["test 6"]);
        assert_eq!(report.cases[0].name, "bad # not a directive");
        assert_eq!(report.cases[0].messages, ["message: boom\nat: t/a.js:3:4"]);
        assert_eq!(report.cases[0].location.as_ref().and_then(|place| place.line), Some(3));
        assert!(issues[0].message.contains("1 of them"));
    }

    #[test]
    fn points_of_one_description_are_tests_of_their_own() {
        // As tape writes it: the description is the assertion's.
        let tape = "TAP version 13\n# adds\nok 1 should be strictly equal\nnot ok 2 should be strictly equal\n  ---\n    operator: equal\n    expected: 4\n    actual:   5\n    at: Test.<anonymous> (/w/a.js:6:7)\n  ...\nok 3 should be strictly equal\n\n1..3\n# tests 3\n# pass  2\n# fail  1\n";
        let (parsed, _) = parse(tape.as_bytes());
        let report = parsed.report;
        assert_eq!((report.passed, report.failed, report.flaky), (2, 1, 0));
        assert_eq!(report.cases[0].name, "should be strictly equal (test 2)");
        assert!(report.cases[0].messages[0].contains("actual:   5"));
        // Two streams, one after the other.
        let (parsed, _) = parse(b"1..1\nnot ok 1 - a\n1..1\nok 1 - a\n");
        assert_eq!((parsed.report.passed, parsed.report.failed), (1, 1));
    }

    #[test]
    fn a_block_that_is_not_closed_ends_with_its_indentation() {
        let (parsed, _) = parse(b"ok 1\n  ---\n  x: 1\n\n  y: 2\nnot ok 2\nnot ok 3\n1..3\n");
        assert_eq!((parsed.report.passed, parsed.report.failed), (1, 2));
    }

    #[test]
    fn a_bail_out_is_an_issue() {
        let (_, issues) = parse(b"1..2\nok 1\nBail out! no database\n");
        assert_eq!(issues[0].message, "Bail out! no database");
    }
}
