//! What one pattern matches is one report: surefire and others write a file a class, retries a file an attempt.

use crate::attempt::Attempt;
use crate::limits::{CASES_MAX, UNFINISHED_MAX};
use crate::merge::{Weighed, word};
use crate::text;
use buildpool_protocol::evidence::{TestCase, TestReport, TestStatus};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Tests that a remark names.
const NAMES_SHOWN: usize = 5;

/// One file of a pattern.
pub(crate) struct Part {
    pub(crate) path: PathBuf,
    /// Milliseconds since 1970.
    pub(crate) written_at_ms: i64,
    /// Equal where the contents are; none where another run might have written the same.
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

/// A test that two files tell of: its name, its result in the earlier and in the later one.
type Twice = (String, TestStatus, TestStatus);

/// A file and the attempts at its tests that came after it.
struct Attempts {
    last: Attempt,
    /// Whether others may follow.
    is_open: bool,
    files: u64,
    part: Part,
}

/// Reports with what they tell twice taken out, and remarks. Only a file whose name says so is an attempt at the tests of
/// another one: the files of a matrix look alike. Its results count in place of that one file's.
pub(crate) fn joined(mut parts: Vec<Part>, pattern: &str) -> (Vec<Weighed>, Vec<String>) {
    parts.sort_by(|a, b| (a.written_at_ms, &a.path).cmp(&(b.written_at_ms, &b.path)));
    let mut notes = Vec::new();
    let mut each: Vec<Attempts> = Vec::new();
    for (files, attempt, next) in named(without_copies(parts)) {
        let earlier = each.iter_mut().find(|earlier| {
            let is_next = earlier.is_open && attempt.follows(&earlier.last);
            // An attempt that was written first is none at what came after it.
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

/// Files with how many of them are equal, in one directory. Names of attempts say themselves what they repeat.
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

/// Attempts in their order. A name that says nothing else is an attempt at the one file beside it that has a test of it; at
/// which one cannot be told where several have.
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

/// Whether a name says which test it is: cargo's and TAP's do not, without the file they stand in.
fn has_whole_names(weighed: &Weighed) -> bool {
    !matches!(weighed.report.format.as_str(), "cargo_json" | "tap")
}

/// Whether two files of one directory tell of the same tests.
fn is_of_same_tests(earlier: &Part, next: &Part) -> bool {
    let (known, later) = (&earlier.weighed, &next.weighed);
    let twice = later.statuses.keys().filter(|name| known.statuses.contains_key(*name));
    // Shards that name their suites differently tell of tests of their own, whatever these are called.
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

/// Whether a test did what it is there for: what was skipped tells nothing of it.
const fn has_run(status: TestStatus) -> bool {
    matches!(status, TestStatus::Passed | TestStatus::Failed)
}

/// Whether a later attempt tells of all that the earlier one left out: it is none at the failed tests alone, and runs whatever it
/// has.
fn makes_up_for(earlier: &Weighed, next: &Weighed) -> bool {
    let has_all = earlier.statuses.keys().all(|name| next.statuses.contains_key(name));
    let is_of_all = earlier.statuses.values().any(|status| *status == TestStatus::Passed);
    let is_run = |(name, status): (&String, &TestStatus)| {
        has_run(*status) || earlier.statuses.get(name) == Some(status)
    };
    has_all && is_of_all && next.statuses.iter().all(is_run)
}

/// Takes out of the counts the one result of a test that does not count: the earlier one, but a failure stays unless the
/// test passed later. What made it fail before it passed stays.
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
        // It is flaky once, also where the later one says so of its own runs.
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

/// Takes a test out of a report.
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
    report.unfinished.append(&mut other.unfinished);
    report.unfinished.truncate(UNFINISHED_MAX);
    report.cut = report.cut.take().or(other.cut);
    into.holders.extend(next.holders);
    for (name, status) in next.statuses {
        // Where a name stands for several tests, a failure of any of them is what is compared.
        let known = into.statuses.entry(name).or_insert(status);
        if is_attempt || status == TestStatus::Failed {
            *known = status;
        }
    }
}
