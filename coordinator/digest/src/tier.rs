//! Findings ranked: likely causes first, then other errors, then what passing runs have too.
//!
//! Confidence is the rule's own certainty (in percent), a little more with a place in the sources, much less when passing
//! runs have the same finding or the job passed; never below 0.05 nor above 0.99.

use crate::facts::History;
use crate::found::{Finds, Fnv, Found};
use crate::limits::{MESSAGE_LINES_MAX, SORT_FIRST_MAX};
use crate::machine;
use crate::rules::Kind;
use buildpool_protocol::evidence::{Evidence, TestCase, TestReport, TestStatus};
use buildpool_protocol::report::{CrashReport, Location, Severity, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// A rule this sure, in percent, may name the cause.
const SURE_MIN: u8 = 70;
/// The rule of exceptions that nothing caught, or that something printed.
const TRACE: &str = "python.traceback";
/// Rules of lines that begin with a word which any program may print.
const VAGUE: &[&str] = &[
    "generic.severity",
    "generic.tool_severity",
    "generic.word",
    "js.error",
    "rust.error",
    "nix.error",
    "pip.error",
    "sbt.error",
];
/// The rule of lines that no recogniser knows. It never makes a likely cause.
const WORD: &str = "generic.word";
/// A warning that repeats this often is worth a line of its own.
const UNUSUAL_RECURRENCE: u64 = 10;
/// The rule of problems outside tests that report files name.
pub(crate) const REPORT_ISSUE: &str = "report.issue";
/// So many remarks of linters are findings of a run that did not pass, beside its errors. More are chatter.
const FEW_REMARKS: u64 = 12;
/// Warnings that become findings of a run that did not pass, of each sort.
const WARNING_FINDINGS_MAX: usize = 6;

/// A finding with its place among the others.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ranked {
    pub(crate) id: String,
    pub(crate) signature: String,
    pub(crate) tier: u8,
    pub(crate) confidence: f64,
    pub(crate) also_in_passing: bool,
    pub(crate) found: Found,
}

impl Ranked {
    /// What it is about in the fewest words: the test or the place, or nothing.
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

    /// Place and first line in one sentence, not longer than a line. Of a line that only announces what is wrong, `in function
    /// 'main':`, with the next one.
    pub(crate) fn headline(&self) -> String {
        let mut lines = self.found.lines.iter().skip(self.found.head).map(|line| line.trim());
        let mut line = lines.next().unwrap_or_default().to_owned();
        let announced = lines.find(|line| !line.is_empty()).filter(|_| line.ends_with(':'));
        line.extend(announced.into_iter().flat_map(|said| [" ", said]));
        let line = crate::text::clip_chars(&line, 300);
        let place = |location: &Location| {
            let row = location.line.map_or(String::new(), |line| format!(":{line}"));
            format!("{}{row}", location.file)
        };
        match (&self.found.location, &self.found.test) {
            // The line that says it in short is not the one that names the test.
            (Some(location), Some(test)) if self.found.head > 0 && !line.contains(test.as_str()) => {
                format!("{test}: {line} ({})", place(location))
            }
            (Some(location), _) if !line.contains(location.file.as_str()) => {
                format!("{line} ({})", place(location))
            }
            (_, Some(test)) if !line.contains(test.as_str()) => format!("{test}: {line}"),
            _ => line.into_owned(),
        }
    }
}

/// Order of kinds as causes.
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

/// All that may be a cause, likeliest first. Warnings and remarks are only asked when there is no error.
pub(crate) fn rank(finds: &Finds, _has_ending: bool) -> Vec<Ranked> {
    let any_error = finds.errors.iter().any(|found| found.kind != Kind::Consequence);
    let mut list: Vec<&Found> = finds.errors.iter().collect();
    if !any_error {
        list.extend(&finds.warnings);
        if finds.warnings.is_empty() || finds.remarks_total > finds.warnings_total {
            list.extend(&finds.remarks);
        }
    }
    let sure = list.iter().any(|found| found.sure >= SURE_MIN && found.kind != Kind::Consequence);
    let machine = machine::first_failure(finds);
    let follows = |found: &Found| found.kind == Kind::Consequence || machine::is_echo(found, machine);
    // A program that printed another trace after one had caught that.
    let last_trace = list.iter().filter(|found| found.rule == TRACE).map(|found| found.order).max();
    list.sort_by_key(|found| {
        let weak = sure && found.sure < SURE_MIN;
        let was_caught = found.rule == TRACE && Some(found.order) < last_trace;
        let vague = is_vague(found);
        let kind = if vague { Kind::Runtime } else { found.kind };
        // Of errors that any program may print and go on, the last one is likelier to have ended it.
        let order = if vague { u64::MAX - found.order } else { found.order };
        (follows(found), weak, kind_rank(kind), vague, was_caught, order)
    });
    if list.iter().all(|found| found.remark) {
        // A flood of remarks: some of each sort before all of any.
        let mut sorts: BTreeMap<u64, u32> = BTreeMap::new();
        let (first, again): (Vec<&Found>, Vec<&Found>) = list.into_iter().partition(|found| {
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
            let consequence = follows(found) || sure && found.sure < SURE_MIN || found.rule == WORD;
            Ranked {
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

/// A line that begins with a word such as `error:`, and names neither a place nor a test.
fn is_vague(found: &Found) -> bool {
    found.location.is_none() && found.test.is_none() && found.lines.len() == 1 && VAGUE.contains(&found.rule)
}

/// Eight characters of the signature, made unique in this job.
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

/// Sets tiers and confidence, given the verdict and what passing runs had.
pub(crate) fn tiers(
    mut ranked: Vec<Ranked>,
    finds: &Finds,
    verdict: Verdict,
    history: &History,
) -> Vec<Ranked> {
    let passed = verdict == Verdict::Passed;
    if passed {
        // Nothing failed, so nothing is a cause; warnings are listed as warnings.
        ranked.retain(|ranked| {
            ranked.found.severity <= Severity::Error && !ranked.found.remark && ranked.found.rule != WORD
        });
    }
    if !passed {
        add_warnings(&mut ranked, finds);
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
    ranked
}

/// Adds to the findings of a run that did not pass: its first warnings, and what repeats unusually, as one finding each.
fn add_warnings(ranked: &mut Vec<Ranked>, finds: &Finds) {
    let mut taken: BTreeSet<u64> = ranked.iter().map(|ranked| ranked.found.order).collect();
    let mut ids: BTreeSet<String> = ranked.iter().map(|ranked| ranked.id.clone()).collect();
    let mut add = |found: &Found, recurrence: u64| {
        if !taken.insert(found.order) {
            return;
        }
        let signature = found.signature();
        let mut found = found.clone();
        found.recurrence = recurrence;
        ranked.push(Ranked {
            id: unique_id(signature, &mut ids),
            signature: format!("{signature:016x}"),
            tier: 2,
            confidence: 0.0,
            also_in_passing: false,
            found,
        });
    };
    let mut groups: BTreeMap<String, (&Found, u64)> = BTreeMap::new();
    for found in finds.warnings.iter().chain(&finds.remarks) {
        let group = groups.entry(found.without_place()).or_insert((found, 0));
        group.1 += found.recurrence;
    }
    let mut unusual: Vec<(&Found, u64)> =
        groups.into_values().filter(|(_, recurrence)| *recurrence >= UNUSUAL_RECURRENCE).collect();
    unusual.sort_by_key(|(found, _)| found.order);
    for (found, recurrence) in unusual.into_iter().take(WARNING_FINDINGS_MAX) {
        add(found, recurrence);
    }
    for found in finds.warnings.iter().take(WARNING_FINDINGS_MAX) {
        add(found, found.recurrence);
    }
    if finds.remarks_total <= FEW_REMARKS {
        let of_linters = finds.remarks.iter().filter(|found| found.kind == Kind::Lint);
        of_linters.for_each(|found| add(found, found.recurrence));
    }
}

/// Warnings that are not among the findings, each once.
pub(crate) fn unranked_warnings(finds: &Finds, ranked: &[Ranked]) -> Vec<String> {
    let shown: BTreeSet<u64> = ranked.iter().map(|ranked| ranked.found.order).collect();
    finds
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

/// How sure a report is, in percent.
const REPORT_SURE: u8 = 97;

/// Adds what report files say and the log does not.
pub(crate) fn add_reports(finds: &mut Finds, evidence: &Evidence) {
    let told = told_by_log(finds, evidence);
    let mut order = u64::MAX / 2;
    let mut add = |path: &str, found: Found| {
        order += 1;
        finds.add(Found { report: Some(path.to_owned()), order, ..found });
    };
    for (at, (report, case)) in failed_cases(evidence).enumerate() {
        if told.contains(&at) {
            continue;
        }
        let mut lines = message_lines(case);
        if lines.is_empty() {
            lines.push(format!("{} failed", case.name));
        }
        let found = Found::new("report.test", Kind::Test, Severity::Error, REPORT_SURE);
        let (test, location) = (Some(case.name.clone()), case.location.clone());
        add(&report.path, Found { lines, test, location, beside: beside(case), ..found });
    }
    for issue in &evidence.issues {
        let kind = match issue.category.as_deref() {
            Some("infrastructure") => Kind::Infrastructure,
            Some("tests") => Kind::Test,
            _ => Kind::Build,
        };
        let found = Found::new(REPORT_ISSUE, kind, issue.severity, REPORT_SURE);
        let lines = issue.message.lines().map(str::to_owned).collect();
        let beside = issue.advice.iter().cloned().collect();
        add(&issue.path, Found { lines, location: issue.location.clone(), beside, ..found });
    }
    for crash in &evidence.crash_reports {
        let mut lines = vec![format!(
            "{} crashed{}",
            crash.process_name,
            crash.signal.as_deref().map_or(String::new(), |signal| format!(" with {signal}"))
        )];
        lines.extend(crash.message.iter().flat_map(|message| message.lines().map(str::to_owned)));
        lines.extend(crash.top_frames.iter().take(10).map(|frame| format!("  {frame}")));
        let found = Found::new("report.crash", Kind::Crash, Severity::Fatal, REPORT_SURE);
        add(&crash.file_path, Found { lines, location: place_of(crash), ..found });
    }
}

/// Where a process crashed: the place that its last words begin with, else that of its first frame with one.
fn place_of(crash: &CrashReport) -> Option<Location> {
    let words = crash.message.iter().flat_map(|message| message.lines());
    let said = words.filter_map(|line| line.split_once(": ")).find_map(|(place, _)| place_in(place));
    let frames = crash.top_frames.iter().filter_map(|frame| frame.strip_suffix(')')?.rsplit_once(" ("));
    said.or_else(|| frames.filter_map(|(_, place)| place_in(place)).next())
}

/// `App/Model.swift:42`
fn place_in(text: &str) -> Option<Location> {
    let (file, line) = text.rsplit_once(':')?;
    let line = line.parse().ok()?;
    let is_file = file.rsplit('/').next().is_some_and(|name| name.contains('.'));
    is_file.then(|| Location { file: file.to_owned(), line: Some(line), column: None })
}

/// Failed tests of the reports that are believed.
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

/// What a report tells of a failed test beside its messages.
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

/// Which failed tests of the reports the log names as well, by their order; each finding of the log is one test's. What the log
/// leaves out of them, message or place, is put in.
fn told_by_log(finds: &mut Finds, evidence: &Evidence) -> BTreeSet<usize> {
    let mut by_name: BTreeMap<&str, Vec<(usize, &TestCase)>> = BTreeMap::new();
    for (at, (_, case)) in failed_cases(evidence).enumerate() {
        by_name.entry(last_name(&case.name)).or_default().push((at, case));
    }
    let mut told = BTreeSet::new();
    for found in &mut finds.errors {
        let Some(test) = found.test.as_deref() else { continue };
        let Some(same) = by_name.get(last_name(test)) else { continue };
        let Some((at, case)) = likest(test, &found.lines, same) else { continue };
        told.insert(at);
        let lines = message_lines(case);
        let known = |line: &str| found.lines.iter().any(|known| known.contains(line));
        let is_told = lines.iter().map(|line| line.trim()).any(|line| !line.is_empty() && known(line));
        if !is_told && (found.bare || found.lines.len() == 1) {
            found.lines.extend(lines.into_iter().take(MESSAGE_LINES_MAX));
        }
        found.beside.extend(beside(case));
        if found.location.is_none() {
            found.location.clone_from(&case.location);
        }
    }
    told
}

/// The one of these tests that has most words of its name in common with a test, and of several the one whose message the log
/// has; none where that does not tell either.
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

/// Those of which a count is the greatest.
fn most<'c>(
    cases: &[(usize, &'c TestCase)],
    count: impl Fn(&TestCase) -> usize,
) -> Vec<(usize, &'c TestCase)> {
    let counted: Vec<_> = cases.iter().map(|found| (count(found.1), *found)).collect();
    let most = counted.iter().map(|(count, _)| *count).max();
    counted.into_iter().filter(|(count, _)| Some(*count) == most).map(|(_, found)| found).collect()
}

/// The part of a test's name that all tools agree on: its last word, without arguments and what holds the test.
pub(crate) fn last_name(test: &str) -> &str {
    let bare = test.split_once(" (").map_or(test, |(bare, _)| bare);
    // A module that pytest could not import is a file in its log and none in its report.
    let bare = bare.strip_suffix(".py").unwrap_or(bare);
    bare.trim_end_matches([')', '(', ']']).rsplit(['/', '.', ' ', ':']).next().unwrap_or(bare)
}
