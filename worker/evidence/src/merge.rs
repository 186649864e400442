//! Decides the precedence of several reports. A result bundle has priority over other reports.
//! Within the same rank, the report with more failures has priority, then the report with more
//! tests. A lower report with the same tests does not add to the counts. Its differences become
//! notes. Tests that only the lower report contains stay counted and listed.

use crate::limits::PASSED_MAX;
use buildpool_protocol::evidence::{TestReport, TestStatus};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Limit on the differences shown per pair of reports.
const DISAGREEMENTS_SHOWN: usize = 5;

/// A report and the result of every test in it.
pub(crate) struct Weighed {
    pub(crate) report: TestReport,
    pub(crate) statuses: HashMap<String, TestStatus>,
    /// The holder of each test (suite or binary), if it has one.
    pub(crate) holders: HashMap<String, Arc<str>>,
}

impl Weighed {
    /// Returns true if a test of this name is the same test in both reports. If both formats
    /// support holders, the holders must be equal.
    pub(crate) fn is_same(&self, other: &Self, name: &str) -> bool {
        let comparable = self.report.format == other.report.format && self.report.format == "junit";
        !comparable || self.holders.get(name) == other.holders.get(name)
    }

    fn failed(&self) -> usize {
        self.statuses.values().filter(|status| **status == TestStatus::Failed).count()
    }
}

/// Orders reports by precedence, marks superseded ones and returns notes about differences.
pub(crate) fn weigh(mut reports: Vec<Weighed>) -> (Vec<TestReport>, Vec<String>) {
    // A report without failures must not hide a failure of the same tests. The order of the
    // arguments must not matter either.
    reports.sort_by_cached_key(|weighed| {
        let Weighed { report, statuses, .. } = weighed;
        (rank(&report.format), Reverse(weighed.failed()), Reverse(statuses.len()), report.path.clone())
    });
    let mut notes = Vec::new();
    for at in 1..reports.len() {
        let (before, rest) = reports.split_at_mut(at);
        let Some(later) = rest.first_mut() else { break };
        let believed = before.iter().filter(|earlier| earlier.report.superseded_by.is_none());
        for earlier in believed {
            let same_format = rank(&earlier.report.format) == rank(&later.report.format);
            let pairs = pairs(earlier, later, same_format);
            // Within one rank, the report with precedence may be a part of the other.
            let smaller = if same_format { earlier.statuses.len() } else { usize::MAX };
            if pairs.is_empty() || pairs.len() * 2 < later.statuses.len().min(smaller) {
                continue;
            }
            notes.extend(disagreement(earlier, later, &pairs));
            let others = only_in(later, earlier, same_format);
            let mut unfinished = std::mem::take(&mut later.report.unfinished);
            unfinished.retain(|name| !has(earlier, later, name));
            later.report.unfinished = unfinished;
            if others.is_empty() {
                later.report.superseded_by = Some(earlier.report.path.clone());
                break;
            }
            notes.push(format!(
                "{} of the {} tests in {} are also in {}, which is believed on them; the others are counted",
                later.statuses.len() - others.len(),
                later.statuses.len(),
                later.report.path,
                earlier.report.path
            ));
            keep(later, &others);
        }
    }
    nothing_in(&mut reports);
    reports.iter_mut().for_each(list_passed);
    (reports.into_iter().map(|weighed| weighed.report).collect(), notes)
}

/// Keeps the listed tests that passed in the end, each once. A superseded report lists no tests.
fn list_passed(Weighed { report, statuses, .. }: &mut Weighed) {
    let mut passed = std::mem::take(&mut report.passed_tests);
    if report.superseded_by.is_some() {
        return;
    }
    let mut listed: HashSet<String> = report.cases.iter().map(|case| case.name.clone()).collect();
    passed.retain(|test| {
        statuses.get(&test.name) == Some(&TestStatus::Passed) && listed.insert(test.name.clone())
    });
    passed.truncate(PASSED_MAX);
    report.passed_tests = passed;
}

/// Marks JUnit reports as incomplete if no report contains a test. A requested report should
/// contain tests, so an empty one is not proof of a pass.
fn nothing_in(reports: &mut [Weighed]) {
    if reports.iter().any(|weighed| !weighed.statuses.is_empty() || !weighed.report.unfinished.is_empty()) {
        return;
    }
    for Weighed { report, .. } in reports.iter_mut().filter(|weighed| weighed.report.format == "junit") {
        report.cut.get_or_insert_with(|| format!("{}: there is no test in it", report.path));
    }
}

fn rank(format: &str) -> u8 {
    u8::from(format != "xcresult")
}

/// Returns true if the earlier report contains this test of the later one.
fn has(earlier: &Weighed, later: &Weighed, name: &str) -> bool {
    earlier.statuses.contains_key(name) && earlier.is_same(later, name)
}

type Pair = (String, TestStatus, TestStatus);

/// Returns the tests that both reports contain. Tools of one format use the same names. A result
/// bundle and a JUnit report made from it share only the last part of the name.
fn pairs(earlier: &Weighed, later: &Weighed, same_format: bool) -> Vec<Pair> {
    if same_format {
        let named = later.statuses.iter().filter(|(name, _)| earlier.is_same(later, name));
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
            // If a last part occurs twice on either side, the tests cannot be matched.
            (*found.get(key)?)?;
            Some((name.clone(), ours, *theirs))
        })
        .collect()
}

/// Returns the tests of the later report that the earlier one does not contain. If only last parts
/// can match, tests without a failure count as contained. The earlier report may list them under a
/// display name.
fn only_in(later: &Weighed, earlier: &Weighed, same_format: bool) -> HashSet<String> {
    let names = later.statuses.iter();
    if same_format {
        let missing = names.filter(|(name, _)| !has(earlier, later, name));
        return missing.map(|(name, _)| name.clone()).collect();
    }
    let shown = display_names(&earlier.report);
    let ours = earlier.statuses.iter().map(|(name, status)| (name, *status));
    let ours = ours.chain(shown.iter().map(|(name, status)| (name, *status)));
    // For each last part in the earlier report: true if a test with it failed.
    let mut known: HashMap<&str, bool> = HashMap::new();
    for (name, status) in ours {
        *known.entry(last_part(name)).or_default() |= status == TestStatus::Failed;
    }
    let single = by_last_part(&later.statuses, &[]);
    let is_missing = |name: &str| {
        let key = last_part(name);
        // Ambiguous names count as contained. A failure without any failed counterpart belongs to
        // another test.
        known.get(key).is_none_or(|failed| !failed && single.get(key).is_none_or(Option::is_none))
    };
    let failed = names.filter(|(_, status)| **status == TestStatus::Failed);
    failed.filter(|(name, _)| is_missing(name)).map(|(name, _)| name.clone()).collect()
}

/// Removes all tests except `names` from a report.
fn keep(weighed: &mut Weighed, names: &HashSet<String>) {
    weighed.statuses.retain(|name, _| names.contains(name));
    let count = |wanted| weighed.statuses.values().filter(|status| **status == wanted).count() as u64;
    let report = &mut weighed.report;
    report.passed = count(TestStatus::Passed);
    report.failed = count(TestStatus::Failed);
    report.skipped = count(TestStatus::Skipped);
    report.expected_failures = count(TestStatus::ExpectedFailure);
    report.runs = names.len() as u64;
    report.cases.retain(|case| names.contains(&case.name));
    report.flaky = report.cases.iter().filter(|case| case.flaky).count() as u64;
    let listed = report.cases.iter().filter(|case| case.status == TestStatus::Failed).count() as u64;
    report.cases_omitted = report.failed.saturating_sub(listed);
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

/// Returns the last part of a test name: `Suite/test()` and `Module.Suite.test` both end in `test`.
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
        "{} and {} disagree on {} {}, the first is believed: {}{more}",
        earlier.report.path,
        later.report.path,
        differing.len(),
        if differing.len() == 1 { "test" } else { "tests" },
        shown.join(", ")
    ))
}

pub(crate) const fn word(status: TestStatus) -> &'static str {
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
            holders: HashMap::new(),
        }
    }

    #[test]
    fn the_order_of_the_arguments_decides_nothing() {
        use TestStatus::{Failed, Passed};
        let good = || weighed("good.xml", "junit", &[("a", Passed), ("b", Passed)]);
        let bad = || weighed("bad.xml", "junit", &[("a", Passed), ("b", Failed)]);
        for reports in [vec![good(), bad()], vec![bad(), good()]] {
            let (reports, notes) = weigh(reports);
            assert_eq!(reports[0].path, "bad.xml");
            assert_eq!(reports[1].superseded_by.as_deref(), Some("bad.xml"));
            assert!(notes[0].contains("b (failed and passed)"), "{notes:?}");
        }
    }

    #[test]
    fn a_failure_is_believed_before_any_number_of_tests_that_passed() {
        use TestStatus::{Failed, Passed};
        let most = [("a", Passed), ("b", Passed), ("c", Passed), ("d", Passed), ("e", Passed)];
        let whole = || weighed("whole.xml", "junit", &most);
        let part = || weighed("part.xml", "junit", &[("a", Failed), ("b", Passed)]);
        for reports in [vec![whole(), part()], vec![part(), whole()]] {
            let (reports, notes) = weigh(reports);
            assert_eq!((reports[0].path.as_str(), &reports[0].superseded_by), ("part.xml", &None));
            assert_eq!((reports[1].passed, reports[1].failed, &reports[1].superseded_by), (3, 0, &None));
            assert!(notes[0].contains("a (failed and passed)"), "{notes:?}");
        }
        let failing = weighed("part.xml", "junit", &[("a", Failed), ("b", Failed)]);
        let (reports, _) = weigh(vec![weighed("one.xml", "junit", &[("a", Failed)]), failing]);
        assert_eq!(reports[1].superseded_by.as_deref(), Some("part.xml"));
    }

    #[test]
    fn reports_without_a_test_do_not_pass_for_whole_unless_others_have_some() {
        let empty = || weighed("empty.xml", "junit", &[]);
        let (reports, _) = weigh(vec![empty()]);
        assert_eq!(reports[0].cut.as_deref(), Some("empty.xml: there is no test in it"));
        let (reports, _) = weigh(vec![empty(), weighed("b.xml", "junit", &[("a", TestStatus::Passed)])]);
        assert!(reports.iter().all(|report| report.cut.is_none()), "{reports:?}");
        let (reports, _) = weigh(vec![weighed("build.xcresult", "xcresult", &[])]);
        assert_eq!(reports[0].cut, None, "a build leaves one as well");
    }

    #[test]
    fn tests_of_one_name_in_suites_of_two_names_are_two() {
        use TestStatus::{Failed, Passed};
        let shard = |path: &str, suite: &str, status| {
            let holders = [("a".to_owned(), Arc::from(suite)), ("b".to_owned(), Arc::from(suite))].into();
            Weighed { holders, ..weighed(path, "junit", &[("a", Passed), ("b", status)]) }
        };
        let (reports, notes) =
            weigh(vec![shard("1.xml", "shard 1", Passed), shard("2.xml", "shard 2", Failed)]);
        assert!(reports.iter().all(|report| report.superseded_by.is_none()), "{notes:?}");
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
            ["r.xcresult and j.xml disagree on 1 test, the first is believed: M.S.testB (failed and passed)"]
        );
    }

    #[test]
    fn tests_that_only_the_superseded_report_has_stay_counted() {
        use TestStatus::{Failed, Passed};
        let four = [("t1", Passed), ("t2", Passed), ("x3", Failed), ("x4", Failed)];
        let five = [("t1", Passed), ("t2", Passed), ("t3", Passed), ("t4", Passed), ("x5", Failed)];
        let (reports, notes) =
            weigh(vec![weighed("a.xml", "junit", &five), weighed("b.xml", "junit", &four)]);
        assert_eq!((reports[1].failed, reports[1].passed, &reports[1].superseded_by), (1, 2, &None));
        assert_eq!(
            notes,
            [
                "2 of the 5 tests in a.xml are also in b.xml, which is believed on them; the others are counted"
            ]
        );
        let template = [("S/testExample()", Passed), ("S/testPerformanceExample()", Passed)];
        let copy =
            [("M.S.testExample", Passed), ("M.S.testPerformanceExample", Passed), ("M.S.testOther", Failed)];
        let (reports, _) =
            weigh(vec![weighed("r.xcresult", "xcresult", &template), weighed("j.xml", "junit", &copy)]);
        assert_eq!((reports[1].failed, &reports[1].superseded_by), (1, &None));
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
