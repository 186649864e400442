//! What one pattern matches is one report: surefire and others write a file a class, retries a file an attempt.

use crate::limits::{CASES_MAX, UNFINISHED_MAX};
use crate::merge::{Weighed, word};
use crate::text;
use buildpool_protocol::evidence::TestStatus;
use std::path::{Path, PathBuf};

/// Tests that a remark names.
const NAMES_SHOWN: usize = 5;

/// One file of a pattern.
pub(crate) struct Part {
    pub(crate) path: PathBuf,
    /// Milliseconds since 1970.
    pub(crate) written_at_ms: i64,
    pub(crate) weighed: Weighed,
}

/// A test that two files tell of: its name, its result in the earlier and in the later one.
type Twice = (String, TestStatus, TestStatus);

/// Reports with what they tell twice taken out, and remarks. A later file of the same directory that tells of the same
/// tests is a later attempt at them, whose results count.
pub(crate) fn joined(mut parts: Vec<Part>, pattern: &str) -> (Vec<Weighed>, Vec<String>) {
    parts.sort_by_key(|part| part.written_at_ms);
    let mut notes = Vec::new();
    let mut directories: Vec<(PathBuf, u64, Weighed)> = Vec::new();
    for Part { path, weighed: next, .. } in parts {
        let directory = path.parent().unwrap_or(Path::new("")).to_owned();
        let same =
            directories.iter_mut().find(|(known, _, weighed)| *known == directory && is_one(weighed, &next));
        match same {
            Some((_, files, weighed)) => {
                *files += 1;
                absorb(weighed, next, true, &mut notes);
            }
            None => directories.push((directory, 1, next)),
        }
    }
    let mut out: Vec<(u64, Weighed)> = Vec::new();
    for (_, files, next) in directories {
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

fn is_one(known: &Weighed, next: &Weighed) -> bool {
    known.report.format == next.report.format && next.report.format != "xcresult"
}

/// Whether a name says which test it is: cargo's and TAP's do not, without the file they stand in.
fn has_whole_names(weighed: &Weighed) -> bool {
    !matches!(weighed.report.format.as_str(), "cargo_json" | "tap")
}

fn absorb(into: &mut Weighed, next: Weighed, same_directory: bool, notes: &mut Vec<String>) {
    let mut twice: Vec<Twice> = next
        .statuses
        .iter()
        .filter_map(|(name, later)| Some((name.clone(), *into.statuses.get(name)?, *later)))
        .collect();
    twice.sort_by(|a, b| a.0.cmp(&b.0));
    let smaller = into.statuses.len().min(next.statuses.len());
    let is_attempt = same_directory && has_whole_names(into) && twice.len() * 2 >= smaller;
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
            "is in several files and counts once, with its last result"
        } else {
            "has one name in several files and is counted in each"
        };
        notes.push(format!("a test {told}: {}{more}", shown.join(", ")));
    }
    if is_attempt {
        twice.iter().for_each(|twice| take_back(into, twice));
    }
    add(into, next, is_attempt);
}

/// Takes an earlier result of a test out of the counts; what made it fail before it passed stays.
fn take_back(into: &mut Weighed, (name, earlier, later): &Twice) {
    let report = &mut into.report;
    let count = match earlier {
        TestStatus::Passed => &mut report.passed,
        TestStatus::Failed => &mut report.failed,
        TestStatus::Skipped => &mut report.skipped,
        TestStatus::ExpectedFailure => &mut report.expected_failures,
    };
    *count = count.saturating_sub(1);
    let at = report.cases.iter().position(|case| case.name == *name);
    let was_flaky = at.is_some_and(|at| report.cases[at].flaky);
    report.flaky = report.flaky.saturating_sub(u64::from(was_flaky));
    let is_flaky = *later == TestStatus::Passed && (was_flaky || *earlier == TestStatus::Failed);
    report.flaky += u64::from(is_flaky);
    match at {
        Some(at) if is_flaky => {
            let case = &mut report.cases[at];
            (case.status, case.flaky, case.runs) = (TestStatus::Passed, true, case.runs.saturating_add(1));
        }
        Some(at) => drop(report.cases.remove(at)),
        None if *earlier == TestStatus::Failed => {
            report.cases_omitted = report.cases_omitted.saturating_sub(1);
        }
        None => {}
    }
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
    report.unfinished.retain(|name| !(is_attempt && next.statuses.contains_key(name)));
    report.unfinished.append(&mut other.unfinished);
    report.unfinished.truncate(UNFINISHED_MAX);
    // A later attempt at all tests makes up for what the earlier one left out.
    let has_all =
        !into.statuses.is_empty() && into.statuses.keys().all(|name| next.statuses.contains_key(name));
    let is_made_up_for = is_attempt && has_all;
    report.cut = report.cut.take().filter(|_| !is_made_up_for).or(other.cut);
    for (name, status) in next.statuses {
        // Where a name stands for several tests, a failure of any of them is what is compared.
        let known = into.statuses.entry(name).or_insert(status);
        if is_attempt || status == TestStatus::Failed {
            *known = status;
        }
    }
}
