//! Counts tests. Each test counts once, with its last result, independent of its number of runs.

use crate::limits::{
    ARGUMENTS_MAX, ATTACHMENTS_MAX, CASES_MAX, MESSAGES_MAX, PASSED_MAX, TESTS_MAX, UNFINISHED_MAX,
};
use crate::text;
use buildpool_protocol::evidence::{PassedTest, TestArguments, TestCase, TestReport, TestStatus};
use buildpool_protocol::report::Location;
use std::collections::HashMap;
use std::sync::Arc;

/// Up to this number of variants, a test is searched linearly. Most tests have one, and an index
/// would cost more than it saves.
const VARIANTS_FEW: usize = 8;

/// One run of one test.
#[derive(Clone, Debug, Default)]
pub(crate) struct TestRun {
    pub(crate) name: String,
    /// Holder that makes the name unique: its suites, its binary, its number.
    pub(crate) within: Arc<str>,
    pub(crate) display_name: Option<String>,
    pub(crate) status: TestStatus,
    pub(crate) duration_secs: Option<f64>,
    pub(crate) messages: Vec<String>,
    pub(crate) location: Option<Location>,
    pub(crate) arguments: Option<String>,
    /// Number of the device and configuration. Runs at different places are not retries of each
    /// other.
    pub(crate) place: u64,
    pub(crate) attachments: Vec<String>,
}

/// Last result of one set of arguments at one place.
#[derive(Clone, Debug)]
struct Variant {
    arguments: Option<String>,
    place: u64,
    status: TestStatus,
    runs: u32,
    failed_before: bool,
    messages: Vec<String>,
    location: Option<Location>,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    display_name: Option<String>,
    duration_secs: Option<f64>,
    variants: Vec<Variant>,
    /// Index into `variants`, used only if there are many.
    variant_of: HashMap<(Option<String>, u64), usize>,
    attachments: Vec<String>,
    /// Result of the whole test as reported by the tool, if it reports one.
    rolled_up: Option<TestStatus>,
}

/// A parsed report, and the result of every test for comparing reports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parsed {
    pub(crate) report: TestReport,
    pub(crate) statuses: HashMap<String, TestStatus>,
    /// Holder of each test, if it has one.
    pub(crate) holders: HashMap<String, Arc<str>>,
    pub(crate) notes: Vec<String>,
}

/// Collects runs of tests.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Name and holder of each test.
    names: Vec<(String, Arc<str>)>,
    entries: Vec<Entry>,
    index: HashMap<(String, Arc<str>), usize>,
    runs: u64,
    over: u64,
    unfinished: Vec<String>,
    unfinished_omitted: usize,
}

impl Tally {
    fn entry(&mut self, key: (String, Arc<str>)) -> Option<&mut Entry> {
        let at = match self.index.get(&key) {
            Some(at) => *at,
            None if self.names.len() >= TESTS_MAX => {
                self.over += 1;
                return None;
            }
            None => {
                self.names.push(key.clone());
                self.entries.push(Entry::default());
                self.index.insert(key, self.names.len() - 1);
                self.names.len() - 1
            }
        };
        self.entries.get_mut(at)
    }

    /// Adds a run. Runs of the same test must be added in the order in which they happened.
    pub(crate) fn record(&mut self, run: TestRun) {
        let name = text::name(&run.name);
        self.runs += 1;
        let key = (name.clone(), run.within);
        let Some(entry) = self.entry(key) else { return };
        if entry.display_name.is_none() {
            entry.display_name =
                run.display_name.map(|shown| text::name(&shown)).filter(|shown| *shown != name);
        }
        entry.duration_secs = run.duration_secs.filter(|secs| secs.is_finite() && *secs >= 0.0);
        for attachment in run.attachments {
            if entry.attachments.len() < ATTACHMENTS_MAX {
                entry.attachments.push(text::name(&attachment));
            }
        }
        let messages = run
            .messages
            .iter()
            .take(MESSAGES_MAX)
            .map(|message| text::message(&text::cause_first(message)))
            .collect();
        let fresh = Variant {
            arguments: run.arguments,
            place: run.place,
            status: run.status,
            runs: 1,
            failed_before: false,
            messages,
            location: run.location,
        };
        match entry.variant(&fresh) {
            Some(known) => known.run_again(fresh),
            None => entry.add(fresh),
        }
    }

    /// Sets the tool's own result of a whole test.
    pub(crate) fn roll_up(&mut self, name: &str, status: TestStatus) {
        if let Some(entry) = self.entry((text::name(name), Arc::default())) {
            entry.rolled_up = Some(status);
        }
    }

    /// Adds a test that started and did not end.
    pub(crate) fn unfinished(&mut self, name: &str) {
        if self.unfinished.len() < UNFINISHED_MAX {
            self.unfinished.push(text::name(name));
        } else {
            self.unfinished_omitted += 1;
        }
    }

    /// Returns the report. The caller sets its path.
    pub(crate) fn finish(self, format: &str) -> Parsed {
        let mut report = TestReport { format: format.to_owned(), runs: self.runs, ..TestReport::default() };
        report.unfinished = self.unfinished;
        let mut notes = Vec::new();
        if self.unfinished_omitted > 0 {
            notes.push(format!("{} more tests started and have no result", self.unfinished_omitted));
        }
        if self.over > 0 {
            notes.push(format!("more than {TESTS_MAX} tests; {} runs of others are not counted", self.over));
        }
        let mut statuses = HashMap::with_capacity(self.names.len());
        let mut holders = HashMap::new();
        let mut cases = Vec::new();
        let names = distinguished(self.names);
        for ((name, within), entry) in names.into_iter().zip(self.entries) {
            if entry.variants.is_empty() && entry.rolled_up.is_none() {
                continue;
            }
            let status = entry.status();
            let flaky = status == TestStatus::Passed && entry.flaky();
            match status {
                TestStatus::Passed => report.passed += 1,
                TestStatus::Failed => report.failed += 1,
                TestStatus::Skipped => report.skipped += 1,
                TestStatus::ExpectedFailure => report.expected_failures += 1,
            }
            report.flaky += u64::from(flaky);
            if flaky || status != TestStatus::Passed {
                let case = entry.into_case(name.clone(), status, flaky);
                if status != TestStatus::Skipped || !case.messages.is_empty() {
                    cases.push(case);
                }
            } else if report.passed_tests.len() < PASSED_MAX {
                let duration_secs = entry.duration_secs;
                report.passed_tests.push(PassedTest { name: name.clone(), duration_secs });
            }
            if !within.is_empty() {
                holders.insert(name.clone(), within);
            }
            statuses.insert(name, status);
        }
        cases.sort_by_key(|case| order(case.status, case.flaky));
        report.cases_omitted = cases.len().saturating_sub(CASES_MAX) as u64;
        cases.truncate(CASES_MAX);
        report.cases = cases;
        Parsed { report, statuses, holders, notes }
    }
}

/// Returns unique names: the holder is added only if several tests share the name.
fn distinguished(names: Vec<(String, Arc<str>)>) -> Vec<(String, Arc<str>)> {
    let mut holders: HashMap<&str, u32> = HashMap::with_capacity(names.len());
    for (name, _) in &names {
        *holders.entry(name).or_default() += 1;
    }
    let shared: Vec<bool> = names.iter().map(|(name, _)| holders[name.as_str()] > 1).collect();
    let shown = |((name, within), shared): ((String, Arc<str>), bool)| {
        let shown = if shared && !within.is_empty() { format!("{name} ({within})") } else { name };
        (shown, within)
    };
    names.into_iter().zip(shared).map(shown).collect()
}

/// Returns the sort order of cases. Failures come first, so that the limit drops other cases.
const fn order(status: TestStatus, flaky: bool) -> u8 {
    match status {
        TestStatus::Failed => 0,
        TestStatus::Passed if flaky => 1,
        TestStatus::ExpectedFailure => 2,
        TestStatus::Skipped => 3,
        TestStatus::Passed => 4,
    }
}

impl Variant {
    fn run_again(&mut self, next: Self) {
        self.runs = self.runs.saturating_add(1);
        self.failed_before |= self.status == TestStatus::Failed;
        self.status = next.status;
        // Keep the messages of a failure before a pass: they explain a flaky test.
        if next.status != TestStatus::Passed || !next.messages.is_empty() {
            self.messages = next.messages;
            self.location = next.location.or(self.location.take());
        }
    }

    fn flaky(&self) -> bool {
        self.status == TestStatus::Passed && self.failed_before
    }
}

impl Entry {
    fn variant(&mut self, like: &Variant) -> Option<&mut Variant> {
        if self.variants.len() > VARIANTS_FEW {
            let at = *self.variant_of.get(&(like.arguments.clone(), like.place))?;
            return self.variants.get_mut(at);
        }
        self.variants.iter_mut().find(|known| known.place == like.place && known.arguments == like.arguments)
    }

    fn add(&mut self, fresh: Variant) {
        self.variants.push(fresh);
        if self.variants.len() > VARIANTS_FEW {
            for at in self.variant_of.len()..self.variants.len() {
                let key = (self.variants[at].arguments.clone(), self.variants[at].place);
                self.variant_of.insert(key, at);
            }
        }
    }

    /// Returns the status of the whole test. Any failed variant makes it failed, otherwise any
    /// passed variant makes it passed.
    fn status(&self) -> TestStatus {
        if let Some(status) = self.rolled_up {
            return status;
        }
        let any = |status| self.variants.iter().any(|variant| variant.status == status);
        [TestStatus::Failed, TestStatus::Passed, TestStatus::ExpectedFailure, TestStatus::Skipped]
            .into_iter()
            .find(|status| any(*status))
            .unwrap_or_default()
    }

    fn flaky(&self) -> bool {
        self.variants.iter().any(Variant::flaky)
    }

    fn into_case(self, name: String, status: TestStatus, flaky: bool) -> TestCase {
        let mut case = TestCase {
            name,
            status,
            duration_secs: self.duration_secs,
            display_name: self.display_name,
            flaky,
            attachments: self.attachments,
            ..TestCase::default()
        };
        for variant in &self.variants {
            case.runs = case.runs.saturating_add(variant.runs);
            let telling = if flaky { variant.flaky() } else { variant.status == status };
            if !telling {
                continue;
            }
            case.location = case.location.or_else(|| variant.location.clone());
            for message in &variant.messages {
                if case.messages.len() < MESSAGES_MAX && !case.messages.contains(message) {
                    case.messages.push(message.clone());
                }
            }
        }
        case.arguments = self
            .variants
            .into_iter()
            .filter(|variant| variant.status != TestStatus::Passed || variant.flaky())
            .filter_map(|variant| {
                Some(TestArguments {
                    flaky: variant.flaky(),
                    arguments: text::name(variant.arguments.as_deref()?),
                    status: variant.status,
                    runs: variant.runs,
                    messages: variant.messages,
                })
            })
            .take(ARGUMENTS_MAX)
            .collect();
        case
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str, status: TestStatus, message: &str) -> TestRun {
        let messages = if message.is_empty() { vec![] } else { vec![message.to_owned()] };
        TestRun { name: name.into(), status, messages, ..TestRun::default() }
    }

    #[test]
    fn a_test_counts_once_with_its_last_result() {
        let mut tally = Tally::default();
        for (name, status, message) in [
            ("flaky", TestStatus::Failed, "first"),
            ("flaky", TestStatus::Passed, ""),
            ("bad", TestStatus::Failed, "one"),
            ("bad", TestStatus::Failed, "two"),
            ("good", TestStatus::Passed, ""),
            ("later bad", TestStatus::Passed, ""),
            ("later bad", TestStatus::Failed, "x"),
            ("no", TestStatus::Skipped, "no network"),
            ("silent skip", TestStatus::Skipped, ""),
        ] {
            tally.record(run(name, status, message));
        }
        let report = tally.finish("junit").report;
        assert_eq!((report.passed, report.failed, report.skipped, report.flaky), (2, 2, 2, 1));
        assert_eq!(report.runs, 9);
        let names: Vec<_> =
            report.cases.iter().map(|case| (case.name.as_str(), case.runs, case.flaky)).collect();
        assert_eq!(names, [("bad", 2, false), ("later bad", 2, false), ("flaky", 2, true), ("no", 1, false)]);
        assert_eq!(report.cases[0].messages, ["two"]);
        assert_eq!(report.cases[2].messages, ["first"]);
    }

    #[test]
    fn tests_that_share_a_name_are_told_apart_by_what_holds_them() {
        let mut tally = Tally::default();
        for (within, status) in
            [("a", TestStatus::Failed), ("b", TestStatus::Passed), ("a", TestStatus::Failed)]
        {
            tally.record(TestRun { within: within.into(), ..run("it works", status, "m") });
        }
        tally.record(TestRun { within: "a".into(), ..run("alone", TestStatus::Failed, "m") });
        let parsed = tally.finish("junit");
        assert_eq!((parsed.report.passed, parsed.report.failed), (1, 2));
        let names: Vec<_> = parsed.report.cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names, ["it works (a)", "alone"]);
        assert_eq!(parsed.statuses.get("it works (b)"), Some(&TestStatus::Passed));
    }

    #[test]
    fn one_bad_set_of_arguments_makes_a_test_fail() {
        let mut tally = Tally::default();
        for (arguments, status) in
            [("1", TestStatus::Passed), ("2", TestStatus::Failed), ("1", TestStatus::Passed)]
        {
            tally.record(TestRun { arguments: Some(arguments.into()), ..run("t", status, "m") });
        }
        let report = tally.finish("xcresult").report;
        assert_eq!((report.passed, report.failed), (0, 1));
        assert_eq!(report.cases[0].arguments.len(), 1);
        assert_eq!(report.cases[0].arguments[0].arguments, "2");
        assert_eq!(report.cases[0].runs, 3);
    }

    #[test]
    fn failures_survive_the_limit() {
        let mut tally = Tally::default();
        for number in 0..CASES_MAX {
            tally.record(run(&format!("skip {number}"), TestStatus::Skipped, "why"));
        }
        tally.record(run("bad", TestStatus::Failed, "m"));
        let report = tally.finish("tap").report;
        assert_eq!(report.cases.len(), CASES_MAX);
        assert_eq!(report.cases[0].name, "bad");
        assert_eq!(report.cases_omitted, 1);
        assert_eq!(report.skipped, CASES_MAX as u64);
    }
}
