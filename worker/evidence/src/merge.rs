//! Which of several reports is believed: a result bundle before any other report, and of two of one rank the one that names
//! more tests. A report of the same tests is not added to the counts, and what it says otherwise is told.

use buildpool_protocol::evidence::{TestReport, TestStatus};
use std::collections::HashMap;

/// Shown of each pair of reports.
const DISAGREEMENTS_SHOWN: usize = 5;

/// A report and every test's result in it.
pub(crate) struct Weighed {
    pub(crate) report: TestReport,
    pub(crate) statuses: HashMap<String, TestStatus>,
}

/// Orders reports by belief, marks those that are superseded, and says where two disagree.
pub(crate) fn weigh(mut reports: Vec<Weighed>) -> (Vec<TestReport>, Vec<String>) {
    reports.sort_by_key(|weighed| (rank(&weighed.report.format), usize::MAX - weighed.statuses.len()));
    let mut notes = Vec::new();
    for at in 1..reports.len() {
        let (before, rest) = reports.split_at_mut(at);
        let Some(later) = rest.first_mut() else { break };
        let believed = before.iter().filter(|earlier| earlier.report.superseded_by.is_none());
        for earlier in believed {
            let same_format = rank(&earlier.report.format) == rank(&later.report.format);
            let pairs = pairs(earlier, later, same_format);
            if later.statuses.is_empty() || pairs.len() * 2 < later.statuses.len() {
                continue;
            }
            later.report.superseded_by = Some(earlier.report.path.clone());
            notes.extend(disagreement(earlier, later, &pairs));
            break;
        }
    }
    (reports.into_iter().map(|weighed| weighed.report).collect(), notes)
}

fn rank(format: &str) -> u8 {
    u8::from(format != "xcresult")
}

type Pair = (String, TestStatus, TestStatus);

/// Tests that both name. Tools of one kind spell a test alike; a result bundle and a JUnit report made from it share only
/// the last part of the name.
fn pairs(earlier: &Weighed, later: &Weighed, same_format: bool) -> Vec<Pair> {
    if same_format {
        let named = later.statuses.iter();
        return named
            .filter_map(|(name, theirs)| Some((name.clone(), *earlier.statuses.get(name)?, *theirs)))
            .collect();
    }
    let shown = display_names(&earlier.report);
    let known = by_last_part(&earlier.statuses, &shown);
    let found = by_last_part(&later.statuses, &[]);
    later
        .statuses
        .iter()
        .filter_map(|(name, theirs)| {
            let key = last_part(name);
            let ours = (*known.get(key)?)?;
            // Twice the same last part on either side: which is which cannot be told.
            (*found.get(key)?)?;
            Some((name.clone(), ours, *theirs))
        })
        .collect()
}

fn display_names(report: &TestReport) -> Vec<(String, TestStatus)> {
    report.cases.iter().filter_map(|case| Some((case.display_name.clone()?, case.status))).collect()
}

fn by_last_part<'a>(
    statuses: &'a HashMap<String, TestStatus>,
    more: &'a [(String, TestStatus)],
) -> HashMap<&'a str, Option<TestStatus>> {
    let mut map: HashMap<&str, Option<TestStatus>> = HashMap::new();
    let named = statuses.iter().map(|(name, status)| (last_part(name), *status));
    for (key, status) in named.chain(more.iter().map(|(name, status)| (name.as_str(), *status))) {
        map.entry(key).and_modify(|known| *known = None).or_insert(Some(status));
    }
    map
}

/// `Suite/test()` and `Module.Suite.test` both end in `test`.
fn last_part(name: &str) -> &str {
    let bare = name.split_once('(').map_or(name, |(bare, _)| bare);
    bare.rsplit(['/', '.', ':']).next().unwrap_or(bare)
}

fn disagreement(earlier: &Weighed, later: &Weighed, pairs: &[Pair]) -> Option<String> {
    let mut differing: Vec<_> = pairs.iter().filter(|(_, ours, theirs)| ours != theirs).collect();
    if differing.is_empty() {
        return None;
    }
    differing.sort_by(|a, b| a.0.cmp(&b.0));
    let shown: Vec<String> = differing
        .iter()
        .take(DISAGREEMENTS_SHOWN)
        .map(|(name, ours, theirs)| format!("{name} ({} and {})", word(*ours), word(*theirs)))
        .collect();
    let more = differing.len().saturating_sub(shown.len());
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    Some(format!(
        "{} and {} disagree on {} tests, the first is believed: {}{more}",
        earlier.report.path,
        later.report.path,
        differing.len(),
        shown.join(", ")
    ))
}

const fn word(status: TestStatus) -> &'static str {
    match status {
        TestStatus::Passed => "passed",
        TestStatus::Failed => "failed",
        TestStatus::Skipped => "skipped",
        TestStatus::ExpectedFailure => "expected failure",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weighed(path: &str, format: &str, tests: &[(&str, TestStatus)]) -> Weighed {
        let report = TestReport { path: path.into(), format: format.into(), ..TestReport::default() };
        Weighed {
            report,
            statuses: tests.iter().map(|(name, status)| ((*name).to_owned(), *status)).collect(),
        }
    }

    #[test]
    fn a_bundle_supersedes_the_report_made_from_it_and_disagreement_is_told() {
        let (reports, notes) = weigh(vec![
            weighed(
                "j.xml",
                "junit",
                &[("M.S.testA", TestStatus::Passed), ("M.S.testB", TestStatus::Passed)],
            ),
            weighed(
                "r.xcresult",
                "xcresult",
                &[("S/testA()", TestStatus::Passed), ("S/testB()", TestStatus::Failed)],
            ),
            weighed("server.xml", "junit", &[("py.test_x", TestStatus::Passed)]),
        ]);
        let told: Vec<_> =
            reports.iter().map(|report| (report.path.as_str(), report.superseded_by.as_deref())).collect();
        assert_eq!(told, [("r.xcresult", None), ("j.xml", Some("r.xcresult")), ("server.xml", None)]);
        assert_eq!(
            notes,
            [
                "r.xcresult and j.xml disagree on 1 tests, the first is believed: M.S.testB (failed and passed)"
            ]
        );
    }

    #[test]
    fn reports_of_different_tests_are_both_believed() {
        let (reports, notes) = weigh(vec![
            weighed("a.xml", "junit", &[("A.one", TestStatus::Passed)]),
            weighed("b.xml", "junit", &[("B.one", TestStatus::Failed)]),
        ]);
        assert!(reports.iter().all(|report| report.superseded_by.is_none()));
        assert!(notes.is_empty());
    }
}
