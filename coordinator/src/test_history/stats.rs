//! Facts about one test, from its stored results.

use std::collections::HashMap;

/// Result of a test in one run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TestOutcome {
    Passed,
    Failed,
    Skipped,
    /// It failed first, and passed when the tool ran it again in the same job.
    PassedLater,
}

impl TestOutcome {
    /// Returns the number that the table stores.
    pub(super) const fn code(self) -> i64 {
        match self {
            Self::Passed => 0,
            Self::Failed => 1,
            Self::Skipped => 2,
            Self::PassedLater => 3,
        }
    }

    /// Returns the result with this number. An unknown number is a skipped test, which states nothing.
    pub(super) const fn of_code(code: i64) -> Self {
        match code {
            0 => Self::Passed,
            1 => Self::Failed,
            3 => Self::PassedLater,
            _ => Self::Skipped,
        }
    }

    /// Returns the name in answers.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Passed | Self::PassedLater => "passed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// A stored result.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Point {
    /// The job, as the bytes of its id.
    pub(crate) job: [u8; 16],
    /// End of the job, in milliseconds since 1970.
    pub(crate) at_ms: i64,
    pub(crate) outcome: TestOutcome,
    pub(crate) duration_ms: Option<i64>,
    /// Id of the snapshot. `None` for a job in place: its files are not known.
    pub(crate) tree: Option<String>,
    pub(crate) worker: String,
    pub(crate) branch: Option<String>,
    /// True if a later run of the same command passed without this test.
    pub(crate) is_past: bool,
}

/// Failures in runs of unchanged trees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flaky {
    pub(crate) failed: u64,
    /// Runs of trees that were tested more than once.
    pub(crate) runs: u64,
}

impl Flaky {
    /// Returns the sentence for an answer.
    pub(crate) fn sentence(self, test: &str) -> String {
        let Self { failed, runs } = self;
        format!("flaky: `{test}` failed in {failed} of the last {runs} runs of unchanged trees")
    }
}

/// Facts about a test from its stored results.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Stats {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) flaky: Option<Flaky>,
    /// Job and time of the first failure since it passed last, if its newest result is a failure.
    pub(crate) failing_since: Option<([u8; 16], i64)>,
    pub(crate) last_failed_ms: Option<i64>,
    /// Percentiles of the durations, in milliseconds.
    pub(crate) p50_ms: Option<i64>,
    pub(crate) p90_ms: Option<i64>,
    /// Median of the newest durations divided by the median of the older ones.
    pub(crate) trend: Option<f64>,
}

/// Durations that are the newest ones of a trend. As many older ones are needed.
const TREND_NEWEST: usize = 5;

/// Returns how the durations of a test change; they are in order of time. `None` if there are too few, or if they are too
/// short to be compared.
fn trend(durations: &[i64]) -> Option<f64> {
    let (older, newest) = durations.split_at_checked(durations.len().checked_sub(TREND_NEWEST)?)?;
    let median = |part: &[i64]| {
        let mut sorted = part.to_vec();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    };
    let before = median(older).filter(|before| *before > 0 && older.len() >= TREND_NEWEST)?;
    Some(median(newest)? as f64 / before as f64)
}

impl Stats {
    /// Computes the facts from results, oldest first.
    pub(crate) fn from_points(points: &[Point]) -> Self {
        let mut stats = Self { flaky: flaky(points), ..Self::default() };
        let mut durations: Vec<i64> = points.iter().filter_map(|point| point.duration_ms).collect();
        stats.trend = trend(&durations);
        durations.sort_unstable();
        let percentile = |part: usize| {
            let last = durations.len().checked_sub(1)?;
            durations.get((last * part).div_ceil(100)).copied()
        };
        (stats.p50_ms, stats.p90_ms) = (percentile(50), percentile(90));
        for point in points {
            match point.outcome {
                TestOutcome::Skipped => {}
                TestOutcome::Passed | TestOutcome::PassedLater => {
                    stats.passed += 1;
                    stats.failing_since = None;
                }
                TestOutcome::Failed => {
                    stats.failed += 1;
                    stats.last_failed_ms = Some(point.at_ms);
                    if !point.is_past {
                        stats.failing_since.get_or_insert((point.job, point.at_ms));
                    }
                }
            }
        }
        stats
    }
}

/// Counts the failures in trees that were tested more than once, if a tree has a failure and a pass.
fn flaky(points: &[Point]) -> Option<Flaky> {
    let mut trees: HashMap<&str, (u64, u64)> = HashMap::new();
    // A test that passed when it was run again in the same job is flaky without a second job.
    let (mut later, mut is_flaky) = (0, false);
    for point in points {
        let known = point.tree.as_deref().map(|tree| trees.entry(tree).or_default());
        match (point.outcome, known) {
            (TestOutcome::Skipped, _) | (TestOutcome::Passed | TestOutcome::Failed, None) => {}
            (TestOutcome::Passed, Some((passed, _))) => *passed += 1,
            (TestOutcome::Failed, Some((_, failed))) => *failed += 1,
            (TestOutcome::PassedLater, _) => {
                later += 1;
                is_flaky = true;
            }
        }
    }
    let (mut failed, mut runs) = (later, later);
    for (passes, failures) in trees.into_values().filter(|(passes, failures)| passes + failures > 1) {
        is_flaky |= passes > 0 && failures > 0;
        failed += failures;
        runs += passes + failures;
    }
    is_flaky.then_some(Flaky { failed, runs })
}

#[cfg(test)]
mod tests {
    use super::{Flaky, Point, Stats, TestOutcome, trend};
    use TestOutcome::{Failed, Passed, PassedLater, Skipped};

    fn points(results: &[(TestOutcome, Option<&str>)]) -> Vec<Point> {
        let point = |(number, (outcome, tree)): (usize, &(TestOutcome, Option<&str>))| Point {
            job: [u8::try_from(number).unwrap(); 16],
            at_ms: number as i64 * 10,
            outcome: *outcome,
            duration_ms: Some(number as i64),
            tree: tree.map(str::to_owned),
            worker: "mini".into(),
            branch: None,
            is_past: false,
        };
        results.iter().enumerate().map(point).collect()
    }

    #[test]
    fn a_test_is_flaky_when_one_tree_gave_both_results() {
        let a = Some("a");
        let fixed = Stats::from_points(&points(&[(Failed, a), (Failed, a), (Passed, Some("b"))]));
        assert_eq!((fixed.flaky, fixed.failing_since), (None, None), "a change mended it");
        let same = Stats::from_points(&points(&[
            (Passed, a),
            (Failed, a),
            (Skipped, a),
            (Passed, a),
            (Failed, Some("b")),
        ]));
        assert_eq!(same.flaky, Some(Flaky { failed: 1, runs: 3 }), "tree b was tested once");
        assert_eq!(
            Stats::from_points(&points(&[(Passed, None), (Failed, None)])).flaky,
            None,
            "nothing is known of the files"
        );
        let again = Stats::from_points(&points(&[(PassedLater, None), (Passed, None)]));
        assert_eq!((again.flaky, again.passed), (Some(Flaky { failed: 1, runs: 1 }), 2));
    }

    #[test]
    fn a_test_fails_since_its_first_failure_after_a_pass() {
        let mut all =
            points(&[(Failed, None), (Passed, None), (Failed, None), (Skipped, None), (Failed, None)]);
        let stats = Stats::from_points(&all);
        assert_eq!((stats.failing_since, stats.last_failed_ms), (Some(([2; 16], 20)), Some(40)));
        assert_eq!((stats.p50_ms, stats.p90_ms), (Some(2), Some(4)));
        all.iter_mut().for_each(|point| point.is_past = true);
        assert_eq!(Stats::from_points(&all).failing_since, None);
    }

    #[test]
    fn a_trend_compares_the_newest_durations_with_the_older_ones() {
        assert_eq!(trend(&[10, 10, 10, 10, 10, 20, 20, 20, 20, 20]), Some(2.0));
        assert_eq!(
            trend(&[20, 20, 20, 20, 900, 20, 20, 10, 10, 10]),
            Some(0.5),
            "one slow run is not a trend"
        );
        assert_eq!(trend(&[10, 10, 10, 10, 20, 20, 20, 20, 20]), None, "too few");
        assert_eq!(trend(&[0; 20]), None);
        assert_eq!(trend(&[]), None);
    }
}
