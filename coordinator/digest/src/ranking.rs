//! Ranks findings: likely causes first, then other errors, then findings that passing runs have
//! too.
//!
//! Confidence is the rule's certainty in percent. A location in the sources raises it a little. A
//! passed job, or the same finding in passing runs, lowers it a lot. It is always between 0.05 and
//! 0.99.

use crate::attempt_facts::History;
use crate::findings::{Findings, RawFinding};
use crate::hashing::Fnv;
use crate::limits::{MESSAGE_LINES_MAX, SORT_FIRST_MAX};
use crate::machine_faults;
use crate::reason::reason;
use crate::rules::{Fails, Kind, Role};
use buildpool_protocol::evidence::{Evidence, TestCase, TestReport, TestStatus};
use buildpool_protocol::report::{CrashReport, Location, Severity, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// Minimum certainty, in percent, of a finding that can be the cause.
const SURE_MIN: u8 = 70;
/// A warning with at least this recurrence gets its own line.
const UNUSUAL_RECURRENCE: u64 = 10;
/// Maximum number of linter remarks that become findings of a run that did not pass, next to its
/// errors.
const FEW_REMARKS: u64 = 12;
/// Maximum number of frequent warnings, and of first warnings, that become findings of a run that
/// did not pass.
const WARNING_FINDINGS_MAX: usize = 6;

/// A finding with its rank.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RankedFinding {
    pub(crate) id: String,
    pub(crate) signature: String,
    pub(crate) tier: u8,
    pub(crate) confidence: f64,
    pub(crate) also_in_passing: bool,
    pub(crate) found: RawFinding,
}

impl RankedFinding {
    /// Shortest description: the test, the location, or an empty text.
    pub(crate) fn key(&self) -> String {
        match (&self.found.test, &self.found.location) {
            (Some(test), _) => test.clone(),
            (None, Some(location)) => {
                let number =
                    |number: Option<u32>| number.map_or(String::new(), |number| format!(":{number}"));
                format!("{}{}{}", location.file, number(location.line), number(location.column))
            }
            (None, None) => String::new(),
        }
    }

    /// The finding on one line.
    pub(crate) fn headline(&self) -> String {
        headline(&self.found)
    }
}

/// Location and first line of a finding on one line. If that line only introduces the next one (`in function
/// 'main':`), the next line is appended.
pub(crate) fn headline(found: &RawFinding) -> String {
    let mut lines = found.lines.iter().skip(found.head).map(|line| line.trim());
    let mut line = lines.next().unwrap_or_default().to_owned();
    let announced = lines.find(|line| !line.is_empty()).filter(|_| line.ends_with(':'));
    line.extend(announced.into_iter().flat_map(|said| [" ", said]));
    if let Some(test) = found.test.as_ref().filter(|test| lacks_reason(&line, test)) {
        let reason = reason(found);
        if !reason.is_empty() {
            line = format!("{test}: {reason}");
        }
    }
    let line = crate::text::clip_chars(&line, 300);
    let place = |location: &Location| {
        let row = location.line.map_or(String::new(), |line| format!(":{line}"));
        format!("{}{row}", location.file)
    };
    match (&found.location, &found.test) {
        // The summary line is not the line with the test name.
        (Some(location), Some(test)) if found.head > 0 && !line.contains(test.as_str()) => {
            format!("{test}: {line} ({})", place(location))
        }
        (Some(location), _) if !line.contains(location.file.as_str()) => {
            format!("{line} ({})", place(location))
        }
        (_, Some(test)) if !line.contains(test.as_str()) => format!("{test}: {line}"),
        _ => line.into_owned(),
    }
}

/// Marks before the name of a failed test.
const STATUSES: &[&str] = &["", "FAILED", "ERROR", "FAIL", "FAIL:", "ERROR:", "●", "✖", "✘", "✕", "×"];

/// Returns true for a runner's summary line that contains only the test, or only the beginning of
/// the reason.
fn lacks_reason(line: &str, test: &str) -> bool {
    let Some((before, after)) = line.split_once(test) else { return begins_name(line, test) };
    let has_letters = |text: &str| text.chars().any(char::is_alphanumeric);
    let before = before.trim();
    let is_number =
        || before.strip_suffix(')').is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    let is_status = STATUSES.contains(&before) || is_number();
    is_status && (!has_letters(after) || after.trim_end().ends_with("..."))
}

/// Returns true for a number and the first part of the test's name: `2) sum`.
fn begins_name(line: &str, test: &str) -> bool {
    let own = line.split_once(") ").filter(|(number, _)| number.bytes().all(|byte| byte.is_ascii_digit()));
    own.is_some_and(|(_, name)| !name.is_empty() && test.starts_with(name))
}

/// Rank of a kind as a cause. A smaller rank is more likely.
const fn kind_rank(kind: Kind) -> u8 {
    match kind {
        Kind::Crash => 0,
        Kind::Build => 1,
        Kind::Infrastructure => 2,
        Kind::Test => 3,
        Kind::Runtime => 4,
        Kind::Lint => 5,
        Kind::Consequence => 9,
    }
}

/// All findings, and the possible causes among them in order.
pub(crate) struct Ranking {
    pub(crate) findings: Findings,
    /// Most likely cause first.
    pub(crate) ranked: Vec<RankedFinding>,
}

impl Ranking {
    /// Ranks the findings.
    pub(crate) fn new(findings: Findings) -> Self {
        Self { ranked: rank(&findings), findings }
    }

    /// Adds errors and ranks again.
    pub(crate) fn with(mut self, errors: impl IntoIterator<Item = RawFinding>) -> Self {
        self.findings.errors.extend(errors);
        Self::new(self.findings)
    }

    /// Returns true if a finding is a likely cause.
    pub(crate) fn has_cause(&self) -> bool {
        self.ranked.iter().any(|ranked| ranked.tier == 1)
    }
}

/// Ranks all possible causes, most likely first. Warnings and remarks count only if there is no
/// error.
fn rank(findings: &Findings) -> Vec<RankedFinding> {
    let any_error = findings.errors.iter().any(|found| found.kind != Kind::Consequence);
    let mut list: Vec<&RawFinding> = findings.errors.iter().collect();
    if !any_error {
        list.extend(&findings.warnings);
        let fails = findings.remarks.iter().any(|found| found.fails == Fails::Always);
        if fails || findings.warnings.is_empty() || findings.remarks_total > findings.warnings_total {
            list.extend(&findings.remarks);
        }
    }
    let sure = list.iter().any(|found| found.sure >= SURE_MIN && found.kind != Kind::Consequence);
    let machine = machine_faults::first_failure(findings);
    let follows =
        |found: &RawFinding| found.kind == Kind::Consequence || machine_faults::is_echo(found, machine);
    // A program that prints a second traceback had caught the first exception.
    let last_trace = list.iter().filter(|found| found.role == Role::Trace).map(|found| found.order).max();
    list.sort_by_cached_key(|found| {
        let weak = sure && found.sure < SURE_MIN;
        let was_caught = found.role == Role::Trace && Some(found.order) < last_trace;
        let vague = is_vague(found);
        let kind = if vague { Kind::Runtime } else { found.kind };
        // Programs can print such errors and continue, so the last one is more likely to be the
        // cause.
        let order = if vague { u64::MAX - found.order } else { found.order };
        (follows(found), weak, kind_rank(kind), vague, was_caught, order)
    });
    if list.iter().all(|found| found.remark) {
        // With remarks only, the first ones of each sort come first.
        let mut sorts: BTreeMap<u64, u32> = BTreeMap::new();
        let (first, again): (Vec<&RawFinding>, Vec<&RawFinding>) = list.into_iter().partition(|found| {
            let count = sorts.entry(found.sort()).or_default();
            *count += 1;
            *count <= SORT_FIRST_MAX
        });
        list = first.into_iter().chain(again).collect();
    }
    let mut ids = BTreeSet::new();
    list.into_iter()
        .map(|found| {
            let signature = found.signature();
            let consequence = follows(found) || sure && found.sure < SURE_MIN || found.role == Role::Unknown;
            RankedFinding {
                id: unique_id(signature, &mut ids),
                signature: format!("{signature:016x}"),
                tier: if consequence { 2 } else { 1 },
                confidence: 0.0,
                also_in_passing: false,
                found: found.clone(),
            }
        })
        .collect()
}

/// Returns true for a line such as `error: …` without a location or a test.
fn is_vague(found: &RawFinding) -> bool {
    found.location.is_none()
        && found.test.is_none()
        && found.lines.len() == 1
        && matches!(found.role, Role::Vague | Role::Unknown)
}

/// Returns an id of eight characters from the signature, unique in this job.
fn unique_id(signature: u64, taken: &mut BTreeSet<String>) -> String {
    let mut hasher = Fnv(signature);
    loop {
        let id = format!("f{:07x}", hasher.0 >> 36);
        if taken.insert(id.clone()) {
            return id;
        }
        hasher.text("again");
    }
}

/// Sets tiers and confidence from the verdict and the history of passing runs.
pub(crate) fn tiers(ranking: Ranking, verdict: Verdict, history: &History) -> Ranking {
    let Ranking { findings, mut ranked } = ranking;
    let passed = verdict == Verdict::Passed;
    if passed {
        // The job passed, so nothing is a cause. Warnings have their own list.
        ranked.retain(|ranked| {
            ranked.found.severity <= Severity::Error
                && !ranked.found.remark
                && ranked.found.role != Role::Unknown
        });
    }
    if !passed {
        add_warnings(&mut ranked, &findings);
    }
    for ranked in &mut ranked {
        ranked.also_in_passing = history.passing_signatures.contains(&ranked.signature);
        if ranked.also_in_passing {
            ranked.tier = 3;
        } else if passed {
            ranked.tier = 2;
        }
        let mut score = f64::from(ranked.found.sure) / 100.0;
        score += if ranked.found.location.is_some() || ranked.found.test.is_some() { 0.03 } else { 0.0 };
        score -= if ranked.also_in_passing { 0.4 } else { 0.0 };
        score -= if passed { 0.3 } else { 0.0 };
        ranked.confidence = (score.clamp(0.05, 0.99) * 100.0).round() / 100.0;
    }
    ranked.sort_by_key(|ranked| ranked.tier);
    Ranking { findings, ranked }
}

/// Adds the first warnings and unusually frequent ones to the findings of a run that did not pass.
/// Each is one finding.
fn add_warnings(ranked: &mut Vec<RankedFinding>, findings: &Findings) {
    let mut taken: BTreeSet<u64> = ranked.iter().map(|ranked| ranked.found.order).collect();
    let mut ids: BTreeSet<String> = ranked.iter().map(|ranked| ranked.id.clone()).collect();
    let mut add = |found: &RawFinding, recurrence: u64| {
        if !taken.insert(found.order) {
            return;
        }
        let signature = found.signature();
        let mut found = found.clone();
        found.recurrence = recurrence;
        ranked.push(RankedFinding {
            id: unique_id(signature, &mut ids),
            signature: format!("{signature:016x}"),
            tier: 2,
            confidence: 0.0,
            also_in_passing: false,
            found,
        });
    };
    let mut groups: BTreeMap<&str, (&RawFinding, u64)> = BTreeMap::new();
    for found in findings.warnings.iter().chain(&findings.remarks) {
        let group = groups.entry(found.without_place()).or_insert((found, 0));
        group.1 += found.recurrence;
    }
    let mut unusual: Vec<(&RawFinding, u64)> =
        groups.into_values().filter(|(_, recurrence)| *recurrence >= UNUSUAL_RECURRENCE).collect();
    unusual.sort_by_key(|(found, _)| found.order);
    for (found, recurrence) in unusual.into_iter().take(WARNING_FINDINGS_MAX) {
        add(found, recurrence);
    }
    for found in findings.warnings.iter().take(WARNING_FINDINGS_MAX) {
        add(found, found.recurrence);
    }
    if findings.remarks_total <= FEW_REMARKS {
        let of_linters = findings.remarks.iter().filter(|found| found.kind == Kind::Lint);
        of_linters.for_each(|found| add(found, found.recurrence));
    }
}

/// Warnings that are not findings, each once.
pub(crate) fn unranked_warnings(ranking: &Ranking) -> Vec<String> {
    let Ranking { findings, ranked } = ranking;
    let shown: BTreeSet<u64> = ranked.iter().map(|ranked| ranked.found.order).collect();
    findings
        .warnings
        .iter()
        .filter(|found| !shown.contains(&found.order))
        .map(|found| {
            let times =
                if found.recurrence > 1 { format!(" (×{})", found.recurrence) } else { String::new() };
            format!("{}{times}", found.message())
        })
        .collect()
}

/// Certainty of a finding from a report, in percent.
const REPORT_SURE: u8 = 97;

/// Adds findings from report files that the log does not contain.
pub(crate) fn with_reports(mut findings: Findings, evidence: &Evidence) -> Findings {
    let told = told_by_log(&mut findings, evidence);
    let mut order = u64::MAX / 2;
    let mut add = |path: &str, found: RawFinding| {
        order += 1;
        findings.add(RawFinding { report: Some(path.to_owned()), order, ..found });
    };
    for (at, (report, case)) in failed_cases(evidence).enumerate() {
        if told.contains(&at) {
            continue;
        }
        let mut lines = message_lines(case);
        if lines.is_empty() {
            lines.push(format!("{} failed", case.name));
        }
        let found = RawFinding::new("report.test", Kind::Test, Severity::Error, REPORT_SURE);
        let (test, location) = (Some(case.name.clone()), case.location.clone());
        add(&report.path, RawFinding { lines, test, location, beside: beside(case), ..found });
    }
    for issue in &evidence.issues {
        let kind = match issue.category.as_deref() {
            Some("infrastructure") => Kind::Infrastructure,
            Some("tests") => Kind::Test,
            _ => Kind::Build,
        };
        let found = RawFinding {
            role: Role::ReportIssue,
            ..RawFinding::new("report.issue", kind, issue.severity, REPORT_SURE)
        };
        let lines = issue.message.lines().map(str::to_owned).collect();
        let beside = issue.advice.iter().cloned().collect();
        add(&issue.path, RawFinding { lines, location: issue.location.clone(), beside, ..found });
    }
    for crash in &evidence.crash_reports {
        let mut lines = vec![format!(
            "{} crashed{}",
            crash.process_name,
            crash.signal.as_deref().map_or(String::new(), |signal| format!(" with {signal}"))
        )];
        lines.extend(crash.message.iter().flat_map(|message| message.lines().map(str::to_owned)));
        lines.extend(crash.top_frames.iter().take(10).map(|frame| format!("  {frame}")));
        let found = RawFinding::new("report.crash", Kind::Crash, Severity::Fatal, REPORT_SURE);
        add(&crash.file_path, RawFinding { lines, location: place_of(crash), ..found });
    }
    findings
}

/// Location of a crash: from its message, otherwise from the first frame with a location.
fn place_of(crash: &CrashReport) -> Option<Location> {
    let words = crash.message.iter().flat_map(|message| message.lines());
    let said = words.filter_map(|line| line.split_once(": ")).find_map(|(place, _)| place_in(place));
    let frames = crash.top_frames.iter().filter_map(|frame| frame.strip_suffix(')')?.rsplit_once(" ("));
    said.or_else(|| frames.filter_map(|(_, place)| place_in(place)).next())
}

/// Parses a location such as `App/Model.swift:42`.
fn place_in(text: &str) -> Option<Location> {
    let (file, line) = text.rsplit_once(':')?;
    let line = line.parse().ok()?;
    let is_file = file.rsplit('/').next().is_some_and(|name| name.contains('.'));
    is_file.then(|| Location { file: file.to_owned(), line: Some(line), column: None })
}

/// Failed tests of the reports that are not superseded.
fn failed_cases(evidence: &Evidence) -> impl Iterator<Item = (&TestReport, &TestCase)> {
    let believed = evidence.test_reports.iter().filter(|report| report.superseded_by.is_none());
    believed.flat_map(|report| {
        let failed = report.cases.iter().filter(|case| case.status == TestStatus::Failed);
        failed.map(move |case| (report, case))
    })
}

fn message_lines(case: &TestCase) -> Vec<String> {
    case.messages.iter().flat_map(|message| message.lines().map(str::to_owned)).collect()
}

/// Extra lines about a failed test from a report, in addition to its messages.
fn beside(case: &TestCase) -> Vec<String> {
    let failed = case.arguments.iter().filter(|set| set.status == TestStatus::Failed);
    let sets: Vec<&str> = failed.map(|set| set.arguments.as_str()).collect();
    let mut lines = Vec::new();
    if !sets.is_empty() {
        lines.push(format!("failed with arguments: {}", sets.join("; ")));
    }
    if case.runs > 1 && case.arguments.is_empty() {
        lines.push(format!("run {} times", case.runs));
    }
    if !case.attachments.is_empty() {
        lines.push(format!("attached: {}", case.attachments.join(", ")));
    }
    lines
}

/// Maximum number of lines of a failure in the log that a report completes. Gradle prints the test, and the exception
/// without its message.
const TERSE_LINES_MAX: usize = 3;

/// Indices of the failed tests in reports that the log also contains. Each finding of the log
/// belongs to one test. Adds a missing message or location from the report.
fn told_by_log(findings: &mut Findings, evidence: &Evidence) -> BTreeSet<usize> {
    let mut by_name: BTreeMap<&str, Vec<(usize, &TestCase)>> = BTreeMap::new();
    for (at, (_, case)) in failed_cases(evidence).enumerate() {
        by_name.entry(last_name(&case.name)).or_default().push((at, case));
    }
    let mut told = BTreeSet::new();
    for found in &mut findings.errors {
        let Some(test) = found.test.as_deref() else { continue };
        let Some(same) = by_name.get(last_name(test)) else { continue };
        let Some((at, case)) = likest(test, &found.lines, same) else { continue };
        told.insert(at);
        let lines = message_lines(case);
        let known = |line: &str| found.lines.iter().any(|known| known.contains(line));
        let is_told = lines.iter().map(|line| line.trim()).any(|line| !line.is_empty() && known(line));
        if !is_told && (found.bare || found.lines.len() <= TERSE_LINES_MAX) {
            found.lines.extend(lines.into_iter().take(MESSAGE_LINES_MAX));
        }
        found.beside.extend(beside(case));
        if found.location.is_none() {
            found.location.clone_from(&case.location);
        }
    }
    told
}

/// Returns the case whose name shares the most words with `test`. If several match, the message in
/// the log decides. Returns None if that is also ambiguous.
fn likest<'c>(test: &str, said: &[String], cases: &[(usize, &'c TestCase)]) -> Option<(usize, &'c TestCase)> {
    let words = |name: &str| -> BTreeSet<String> {
        let words = name.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let wanted = words(test);
    let common = |case: &TestCase| words(&case.name).intersection(&wanted).count();
    let named = most(cases, common);
    let lines = |case: &TestCase| {
        let lines: BTreeSet<&str> = case.messages.iter().flat_map(|message| message.lines()).collect();
        let told =
            |line: &&&str| !line.trim().is_empty() && said.iter().any(|said| said.contains(line.trim()));
        lines.iter().filter(told).count()
    };
    match named.as_slice() {
        [found] => Some(*found),
        several => match most(several, lines).as_slice() {
            [found] => Some(*found),
            _ => None,
        },
    }
}

/// Returns the cases with the greatest count.
fn most<'c>(
    cases: &[(usize, &'c TestCase)],
    count: impl Fn(&TestCase) -> usize,
) -> Vec<(usize, &'c TestCase)> {
    let counted: Vec<_> = cases.iter().map(|found| (count(found.1), *found)).collect();
    let most = counted.iter().map(|(count, _)| *count).max();
    counted.into_iter().filter(|(count, _)| Some(*count) == most).map(|(_, found)| found).collect()
}

/// Last part of a test's name, on which all tools agree, without arguments and enclosing names.
pub(crate) fn last_name(test: &str) -> &str {
    let bare = test.split_once(" (").map_or(test, |(bare, _)| bare);
    // A module that pytest could not import is a file in the log, but not in the report.
    let bare = bare.strip_suffix(".py").unwrap_or(bare);
    bare.trim_end_matches([')', '(', ']']).rsplit(['/', '.', ' ', ':']).next().unwrap_or(bare)
}
