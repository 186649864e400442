//! Joins the files of one report pattern into one report. surefire and others write one file per
//! class, retries write one file per attempt.

use crate::attempt::Attempt;
use crate::limits::{CASES_MAX, UNFINISHED_MAX};
use crate::merge::{Weighed, word};
use crate::text;
use buildpool_protocol::evidence::{TestCase, TestReport, TestStatus};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Limit on the test names in a note.
const NAMES_SHOWN: usize = 5;

/// One file of a pattern.
pub(crate) struct Part {
    pub(crate) path: PathBuf,
    /// Modification time, in milliseconds since 1970.
    pub(crate) written_at_ms: i64,
    /// Hash of the content. `None` if another run could have written the same content.
    pub(crate) content: Option<u64>,
    pub(crate) weighed: Weighed,
}

impl Part {
    fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    fn attempt(&self) -> Attempt {
        Attempt::in_name(&self.path.file_name().unwrap_or_default().to_string_lossy())
    }

    fn is_beside(&self, other: &Self) -> bool {
        self.directory() == other.directory() && is_one(&self.weighed, &other.weighed)
    }
}

/// A test in two files: name, result in the earlier file, result in the later file.
type Twice = (String, TestStatus, TestStatus);

/// A file and the later attempts at its tests.
struct Attempts {
    last: Attempt,
    /// True if more attempts may follow.
    is_open: bool,
    files: u64,
    part: Part,
}

/// Joins reports, removes results that occur twice, and returns notes. Only a file with an attempt
/// word in its name is an attempt at another file's tests. Files of a build matrix can look equal.
/// The results of an attempt replace the results of that one file.
pub(crate) fn joined(mut parts: Vec<Part>, pattern: &str) -> (Vec<Weighed>, Vec<String>) {
    parts.sort_by(|a, b| (a.written_at_ms, &a.path).cmp(&(b.written_at_ms, &b.path)));
    let mut notes = Vec::new();
    let mut each: Vec<Attempts> = Vec::new();
    for (files, attempt, next) in named(without_copies(parts)) {
        let earlier = each.iter_mut().find(|earlier| {
            let is_next = earlier.is_open && attempt.follows(&earlier.last);
            // A file written earlier cannot be an attempt at a later file.
            is_next
                && earlier.part.written_at_ms <= next.written_at_ms
                && is_of_same_tests(&earlier.part, &next)
        });
        match earlier {
            Some(earlier) => {
                earlier.files += files;
                earlier.last = attempt;
                earlier.part.written_at_ms = next.written_at_ms;
                absorb(&mut earlier.part.weighed, next.weighed, true, &mut notes);
            }
            None => each.push(Attempts { is_open: attempt.is_first(), last: attempt, files, part: next }),
        }
    }
    each.sort_by_key(|attempts| attempts.part.written_at_ms);
    let mut out: Vec<(u64, Weighed)> = Vec::new();
    for Attempts { files, part: Part { weighed: next, .. }, .. } in each {
        match out.iter_mut().find(|(_, weighed)| is_one(weighed, &next)) {
            Some((known, weighed)) => {
                *known += files;
                absorb(weighed, next, false, &mut notes);
            }
            None => out.push((files, next)),
        }
    }
    for (files, weighed) in out.iter_mut().filter(|(files, _)| *files > 1) {
        weighed.report.path = format!("{} ({files} files)", text::name(pattern));
    }
    let notes = notes.into_iter().map(|note| format!("{}: {note}", text::name(pattern))).collect();
    (out.into_iter().map(|(_, weighed)| weighed).collect(), notes)
}

/// Removes equal files of one directory and counts them. Attempts are kept, because their name
/// already marks the repetition.
fn without_copies(parts: Vec<Part>) -> Vec<(u64, Attempt, Part)> {
    let mut out: Vec<(u64, Attempt, Part)> = Vec::new();
    for next in parts {
        let attempt = next.attempt();
        let copied = out.iter_mut().find(|(_, known_attempt, known)| {
            known.content.is_some()
                && known.content == next.content
                && (known_attempt.number, attempt.number) == (None, None)
                && known.is_beside(&next)
                && has_whole_names(&known.weighed)
                && known.weighed.statuses == next.weighed.statuses
        });
        match copied {
            Some((files, ..)) => *files += 1,
            None => out.push((1, attempt, next)),
        }
    }
    out
}

/// Orders attempts. A file with only an attempt word as name is an attempt at the one file next to
/// it that shares a test. If several files share a test, the file stays separate.
fn named(mut parts: Vec<(u64, Attempt, Part)>) -> Vec<(u64, Attempt, Part)> {
    for at in 0..parts.len() {
        let (_, attempt, part) = &parts[at];
        if !attempt.of.is_empty() {
            continue;
        }
        let has_test = |other: &Part| {
            let mut names = part.weighed.statuses.keys();
            part.is_beside(other) && names.any(|name| other.weighed.statuses.contains_key(name))
        };
        let others = parts.iter().filter(|(_, other, known)| !other.of.is_empty() && has_test(known));
        let others: BTreeSet<&str> = others.map(|(_, other, _)| other.of.as_str()).collect();
        if let (1, Some(of)) = (others.len(), others.first()) {
            let of = (*of).to_owned();
            parts[at].1.of = of;
        }
    }
    parts.sort_by_key(|(_, attempt, _)| attempt.number);
    parts
}

fn is_one(known: &Weighed, next: &Weighed) -> bool {
    known.report.format == next.report.format && next.report.format != "xcresult"
}

/// Returns true if test names are unique without the file name. Names of cargo and TAP are not.
fn has_whole_names(weighed: &Weighed) -> bool {
    !matches!(weighed.report.format.as_str(), "cargo_json" | "tap")
}

/// Returns true if two files of one directory contain the same tests.
fn is_of_same_tests(earlier: &Part, next: &Part) -> bool {
    let (known, later) = (&earlier.weighed, &next.weighed);
    let twice = later.statuses.keys().filter(|name| known.statuses.contains_key(*name));
    // Shards with different suite names contain different tests, even if the test names are equal.
    let (twice, is_one_suite) =
        twice.fold((0, true), |(count, is_one), name| (count + 1, is_one && known.is_same(later, name)));
    let smaller = known.statuses.len().min(later.statuses.len());
    earlier.is_beside(next) && has_whole_names(known) && is_one_suite && twice * 2 >= smaller
}

fn absorb(into: &mut Weighed, mut next: Weighed, is_attempt: bool, notes: &mut Vec<String>) {
    let mut twice: Vec<Twice> = next
        .statuses
        .iter()
        .filter_map(|(name, later)| Some((name.clone(), *into.statuses.get(name)?, *later)))
        .collect();
    twice.sort_by(|a, b| a.0.cmp(&b.0));
    let differing: Vec<&Twice> = twice.iter().filter(|(_, earlier, later)| earlier != later).collect();
    if !differing.is_empty() {
        let shown: Vec<String> = differing
            .iter()
            .take(NAMES_SHOWN)
            .map(|(name, earlier, later)| format!("{name} ({}, then {})", word(*earlier), word(*later)))
            .collect();
        let more = differing.len() - shown.len();
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let told = if is_attempt {
            "is in several attempts and counts once, as failed where it did not pass after it failed, else with its last result"
        } else {
            "has one name in several files and is counted in each"
        };
        notes.push(format!("a test {told}: {}{more}", shown.join(", ")));
    }
    if is_attempt {
        if makes_up_for(into, &next) {
            into.report.cut = None;
        }
        let ran = |name: &String| next.statuses.get(name).copied().is_some_and(has_run);
        into.report.unfinished.retain(|name| !ran(name));
        twice.iter().for_each(|twice| take_back(into, &mut next, twice));
    }
    add(into, next, is_attempt);
}

/// Returns true if a test was executed. A skipped test gives no information.
const fn has_run(status: TestStatus) -> bool {
    matches!(status, TestStatus::Passed | TestStatus::Failed)
}

/// Returns true if a later attempt covers everything that the earlier, incomplete report may have
/// left out. It must contain all tests, not only the failed ones, and must execute them.
fn makes_up_for(earlier: &Weighed, next: &Weighed) -> bool {
    let has_all = earlier.statuses.keys().all(|name| next.statuses.contains_key(name));
    let is_of_all = earlier.statuses.values().any(|status| *status == TestStatus::Passed);
    let is_run = |(name, status): (&String, &TestStatus)| {
        has_run(*status) || earlier.statuses.get(name) == Some(status)
    };
    has_all && is_of_all && next.statuses.iter().all(is_run)
}

/// Removes the result of a repeated test that does not count. That is the earlier result, but a
/// failure stays unless the test passed later. The messages of a failure before a pass are kept.
fn take_back(into: &mut Weighed, next: &mut Weighed, (name, earlier, later): &Twice) {
    if *earlier == TestStatus::Failed && !has_run(*later) {
        take_out(&mut next.report, name, *later);
        next.statuses.remove(name);
        return;
    }
    let report = &mut into.report;
    let case = take_out(report, name, *earlier);
    let was_flaky = case.as_ref().is_some_and(|case| case.flaky);
    if *later == TestStatus::Passed && (was_flaky || *earlier == TestStatus::Failed) {
        // The test is flaky only once, even if the later report also marks it as flaky.
        let again = take_flaky(&mut next.report, name);
        let runs = again.as_ref().map_or(1, |again| again.runs);
        report.flaky += 1;
        report.cases.extend(case.map(|case| TestCase {
            status: TestStatus::Passed,
            flaky: true,
            runs: case.runs.saturating_add(runs),
            ..case
        }));
    }
}

fn take_flaky(report: &mut TestReport, name: &str) -> Option<TestCase> {
    let at = report.cases.iter().position(|case| case.flaky && case.name == name)?;
    report.flaky = report.flaky.saturating_sub(1);
    Some(report.cases.remove(at))
}

/// Removes a test from a report.
fn take_out(report: &mut TestReport, name: &str, status: TestStatus) -> Option<TestCase> {
    let count = match status {
        TestStatus::Passed => &mut report.passed,
        TestStatus::Failed => &mut report.failed,
        TestStatus::Skipped => &mut report.skipped,
        TestStatus::ExpectedFailure => &mut report.expected_failures,
    };
    *count = count.saturating_sub(1);
    let at = report.cases.iter().position(|case| case.name == name);
    let case = at.map(|at| report.cases.remove(at));
    match &case {
        Some(case) => report.flaky = report.flaky.saturating_sub(u64::from(case.flaky)),
        None if status == TestStatus::Failed => report.cases_omitted = report.cases_omitted.saturating_sub(1),
        None => {}
    }
    case
}

fn add(into: &mut Weighed, next: Weighed, is_attempt: bool) {
    let (report, mut other) = (&mut into.report, next.report);
    report.passed += other.passed;
    report.failed += other.failed;
    report.skipped += other.skipped;
    report.expected_failures += other.expected_failures;
    report.flaky += other.flaky;
    report.runs += other.runs;
    report.cases_omitted += other.cases_omitted;
    report.cases.append(&mut other.cases);
    report.cases.sort_by_key(|case| (case.status != TestStatus::Failed, !case.flaky));
    report.cases_omitted += report.cases.len().saturating_sub(CASES_MAX) as u64;
    report.cases.truncate(CASES_MAX);
    report.passed_tests.append(&mut other.passed_tests);
    report.unfinished.append(&mut other.unfinished);
    report.unfinished.truncate(UNFINISHED_MAX);
    report.cut = report.cut.take().or(other.cut);
    into.holders.extend(next.holders);
    for (name, status) in next.statuses {
        // If a name belongs to several tests, a failure of any of them is kept for comparison.
        let known = into.statuses.entry(name).or_insert(status);
        if is_attempt || status == TestStatus::Failed {
            *known = status;
        }
    }
}
