//! The digest of a whole attempt: verdict, findings in tiers, and the bounded text that answers are made of.

mod case;

use crate::claims::Claims;
use crate::command::Command;
use crate::digester::{Gathered, Options, SummaryLine};
use crate::evidence;
use crate::facts::Facts;
use crate::found::{Finds, Found};
use crate::loading;
use crate::machine;
use crate::noise::is_noise;
use crate::reports::{self, believed_tests};
use crate::rules::Kind;
use crate::signs::{Seen, Signs};
use crate::tally::Family;
use crate::template::Capture;
use crate::text::{TailLine, clip_chars, front_length};
use crate::tier::{self, Ranked};
use crate::transcript::Ends;
use crate::verdict::{self, Ruling};
use crate::view::counted;
use buildpool_protocol::outcome::{Acted, CrashType, Ending, ProcessState};
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::{
    Cause, CrashIndicators, CrashReport, EvidenceRange, Finding, GapEntry, Severity, Survivor, TestCounts,
    Verdict,
};
use buildpool_protocol::spec::Purpose;
use case::{CaseParts, OwnedCase, build_case, failure_of};

/// Everything about an attempt that does not depend on how much of it is shown, and the bounded text to show.
#[derive(Debug)]
pub struct Digest {
    /// What the job means to its submitter.
    pub verdict: Verdict,
    /// Only for `passed`.
    pub success: bool,
    /// The process's own, if it exited by itself.
    pub exit_code: Option<i32>,
    /// From the wait status.
    pub process_state: ProcessState,
    /// The command itself died of a signal that the pool did not send.
    pub process_crashed: bool,
    /// What kind of bad end.
    pub crash_type: CrashType,
    /// Why, in a sentence.
    pub cause: Option<Cause>,
    /// Signs in the log.
    pub crash_indicators: CrashIndicators,
    /// Crash files.
    pub crash_reports: Vec<CrashReport>,
    /// Why there is no crash report although something crashed.
    pub crash_report_absence: Option<String>,
    /// Nothing explains a bad end, or a good end hides a bad one.
    pub silent_failure: bool,
    /// The tool's own counts.
    pub tests: Option<TestCounts>,
    /// Tests that passed only after they failed.
    pub flaky_tests: u64,
    /// Every finding that was kept, whole, likeliest cause first.
    pub findings: Vec<Finding>,
    /// Different errors in the log, kept or not.
    pub errors_total: u64,
    /// Different warnings in the log, kept or not.
    pub warnings_total: u64,
    /// Warnings that are not findings, each once.
    pub warnings: Vec<String>,
    /// Processes that could not be ended.
    pub survivors: Vec<Survivor>,
    /// Holes in the log.
    pub gaps: Vec<GapEntry>,
    /// Where report and log differ, what could not be read, why there is no crash report.
    pub notes: Vec<String>,
    /// Why this verdict.
    pub explanation: Explanation,
    pub(crate) claims: Claims,
    pub(crate) ranked: Vec<Ranked>,
    pub(crate) options: Options,
    pub(crate) summary: Vec<SummaryLine>,
    pub(crate) capture: Option<Capture>,
    pub(crate) tails: [Vec<TailLine>; 2],
    /// Raw output, of a passed job only.
    pub(crate) ends: Option<[Ends; 2]>,
    /// The lines of a short log.
    pub(crate) whole: Option<Vec<String>>,
    pub(crate) counts: [(u64, u64); 2],
}

/// The rule, the line and the evidence behind a verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The row of the table in `docs/endings.md`.
    pub rule: &'static str,
    /// The line of the log that decided, if one did.
    pub line: Option<String>,
    /// What was taken into account, a sentence each.
    pub evidence: Vec<String>,
}

impl Digest {
    /// The command failed, or did not come to its end in time, and the likeliest cause is not its fault.
    pub fn is_infrastructure(&self) -> bool {
        matches!(self.explanation.rule, "code_infrastructure" | "acted_timeout_held")
    }

    pub(crate) fn new(gathered: Gathered, facts: &Facts) -> Self {
        let Gathered {
            options,
            mut finds,
            doubtful,
            tally,
            mut signs,
            summary,
            capture,
            mut gaps,
            tails,
            ends,
            whole,
            counts,
            last_text,
        } = gathered;
        let command = Command::new(&options.command);
        signs.heed(&command, tally.failed_apart());
        let ended_badly = facts.ending.as_ref().map(|_| !exited_zero(facts));
        signs.complete(|family| tally.knows(family), ended_badly, last_text);
        if exited_zero(facts) || !signs.runs.build_failed() {
            finds.take_back_build_errors();
        }
        finds.drop_told_in_full();
        machine::attribute(&mut finds);
        let files = loading::attribute(&mut finds);
        finds.take_back_words(0, signs.failed_total);
        finds.mark_flaky(|test| tally.is_flaky(test));
        tier::add_reports(&mut finds, &facts.evidence);
        gaps.extend(facts.gaps.iter().filter(|gap| !gaps.contains(gap)).cloned().collect::<Vec<_>>());
        let (tests, report) = believed_tests(&tally, facts);
        // A report counts by itself what could not be loaded.
        let tests = tests.and_then(|tests| loading::without(tests, if report.is_none() { files } else { 0 }));
        let tests_note = tests.clone().filter(|_| report.is_some());
        let collapsed = collapsed(tests.as_ref(), facts);
        let unfinished = reports::unfinished(&tally, facts);
        let mut ranked = tier::rank(&finds, facts.ending.is_some());
        let bad_end = facts.ending.as_ref().is_some_and(|ending| *ending != Ending::Exited { code: 0 });
        let is_failure = bad_end || facts.ending.is_none() && signs.standing_failure(false).is_some();
        if is_failure && ranked.iter().all(|ranked| ranked.tier > 1) {
            finds.errors.extend(doubtful.into_found());
            finds.errors.extend(above_consequence(&finds));
            ranked = tier::rank(&finds, facts.ending.is_some());
        }
        let case = build_case(&CaseParts {
            facts,
            tally: &tally,
            finds: &finds,
            ranked: &ranked,
            signs: &signs,
            tests: tests.as_ref(),
            report: report.as_deref(),
            unfinished,
            running_test: tally
                .latest_running()
                .map(str::to_owned)
                .or_else(|| reports::first_unfinished(facts)),
            standing_error: exited_zero(facts)
                .then(|| evidence::standing_error(&finds, &ranked, &signs.runs, &command))
                .flatten(),
            has_pipe: command.has_pipe(),
            action_left: signs.runs.action_left(command.xcodebuild_action()),
            collapsed,
            tests_missed: command
                .tests_asked_of_maven()
                .filter(|_| tests.as_ref().is_none_or(|tests| tests.total == 0))
                .filter(|_| tally.has_parts_without_tests(Family::Maven))
                .map(str::to_owned),
            failures_are_past: tally.failures_are_past(),
            last_line: last_line(&tails),
            is_test_run: options.purpose == Purpose::Tests,
        });
        let ruling = verdict::decide(&case.as_case(facts, &signs));
        let mut crash_indicators = signs.indicators();
        crash_indicators.tests_unfinished = unfinished > 0;
        crash_indicators.test_count_collapsed = collapsed.is_some();
        let verdict = ruling.verdict;
        if let ("code_no_tests", Some(seen)) = (ruling.rule, &signs.no_tests) {
            finds.errors.push(no_tests(seen));
            ranked = tier::rank(&finds, facts.ending.is_some());
        }
        let ranked = tier::tiers(ranked, &finds, verdict, &facts.history);
        let warnings = tier::unranked_warnings(&finds, &ranked);
        let claims =
            Claims::new(&signs, &ruling, tests_note.as_ref(), tally.counts().as_ref(), &facts.evidence);
        let explanation = explain(&ruling, &case, facts, &signs, tests.as_ref(), unfinished);
        let is_ruled = matches!(ruling.rule, "code_no_tests" | "zero_no_tests");
        let no_tests = case.no_tests.as_ref().filter(|_| !is_ruled);
        let no_tests = no_tests.map(|(source, _)| source.as_str());
        let notes = reports::notes(&tally, tests_note.as_ref(), facts, verdict, no_tests);
        let state_word = verdict.name();
        let findings = ranked.iter().map(|ranked| finding(ranked, &options.job, state_word)).collect();
        let process_state = facts.ending.as_ref().map(ProcessState::from).unwrap_or_default();
        Self {
            verdict,
            success: verdict == Verdict::Passed,
            exit_code: exit_code(facts.ending.as_ref()),
            process_crashed: process_state.signaled && facts.acted.is_none(),
            process_state,
            crash_type: ruling.crash_type,
            silent_failure: silent(verdict, facts, &ranked, &signs, &ruling),
            cause: ruling.cause,
            crash_indicators,
            crash_reports: facts.evidence.crash_reports.clone(),
            crash_report_absence: facts.evidence.crash_report_absence.clone(),
            tests,
            flaky_tests: reports::flaky(&tally, facts),
            findings,
            errors_total: finds.errors_total,
            warnings_total: finds.warnings_total,
            warnings,
            survivors: facts.survivors.clone(),
            gaps,
            notes,
            explanation,
            claims,
            ranked,
            options,
            summary,
            capture,
            tails,
            ends: Some(ends).filter(|_| verdict == Verdict::Passed),
            whole,
            counts,
        }
    }

    /// A finding, whole and uncompressed, by its id or a unique beginning of it.
    pub fn finding(&self, id: &str) -> Option<Finding> {
        if let Some(exact) = self.findings.iter().find(|finding| finding.id == id) {
            return Some(exact.clone());
        }
        let mut matching =
            self.findings.iter().filter(|finding| !id.is_empty() && finding.id.starts_with(id));
        matching.next().filter(|_| matching.next().is_none()).cloned()
    }

    /// What identifies the findings across runs of the same command: kept with a passing run, they tell later which
    /// findings say nothing.
    pub fn signatures(&self) -> Vec<String> {
        self.ranked.iter().map(|ranked| ranked.signature.clone()).collect()
    }

    /// Why this verdict, in lines for a person.
    pub fn explain(&self) -> String {
        let mut out = format!("verdict: {} (rule `{}`)\n", self.verdict, self.explanation.rule);
        if let Some(cause) = &self.cause {
            out.push_str(&format!("cause: {}\n", cause.text));
        }
        if let Some(line) = &self.explanation.line {
            out.push_str(&format!("decided by the line: {}\n", line.trim()));
        }
        for evidence in &self.explanation.evidence {
            out.push_str(&format!("- {evidence}\n"));
        }
        for ranked in &self.ranked {
            let place = match (&ranked.found.report, ranked.found.stream) {
                (Some(report), _) => report.clone(),
                (None, Some(stream)) => format!("{stream} bytes {}..{}", ranked.found.from, ranked.found.to),
                (None, None) => "evidence".to_owned(),
            };
            out.push_str(&format!(
                "finding {} tier {} confidence {:.2}: rule `{}`, {place}: {}\n",
                ranked.id,
                ranked.tier,
                ranked.confidence,
                ranked.found.rule,
                ranked.found.lines.first().map_or("", String::as_str)
            ));
        }
        out
    }
}

/// How sure a line is, in percent, that stands above a line which only says that something failed.
const ABOVE_SURE: u8 = 70;

/// The lines above the first of the lines that say only that something failed: the last of them is likely to say why.
fn above_consequence(finds: &Finds) -> Option<Found> {
    let follows = finds.errors.iter().find(|found| found.kind == Kind::Consequence)?;
    let only =
        finds.errors.iter().all(|found| found.kind == Kind::Consequence || found.rule == "generic.word");
    let line = follows.pre.last().filter(|_| only)?;
    let known = finds.errors.iter().any(|found| found.lines.iter().any(|known| known == line));
    let from = follows.from.saturating_sub(line.len() as u64 + 1);
    (!known).then(|| Found {
        lines: follows.pre.clone(),
        head: follows.pre.len() - 1,
        stream: follows.stream,
        from,
        to: follows.from,
        order: follows.order.saturating_sub(1),
        ..Found::new("generic.above", Kind::Runtime, Severity::Error, ABOVE_SURE)
    })
}

/// How sure the word of a runner is that it found no tests, in percent.
const NO_TESTS_SURE: u8 = 88;

/// That there were no tests, where that is why the run failed.
fn no_tests(seen: &Seen<()>) -> Found {
    Found {
        lines: vec![seen.line.clone()],
        stream: Some(seen.stream),
        from: seen.from,
        to: seen.from + seen.line.len() as u64,
        order: seen.order,
        ..Found::new("runner.no_tests", Kind::Test, Severity::Error, NO_TESTS_SURE)
    }
}

/// Longest line of the output that a cause ends with, in characters.
const LAST_LINE_CHARS_MAX: usize = 200;

/// The last line of the output that says something; of what went to stderr if there is any.
fn last_line(tails: &[Vec<TailLine>; 2]) -> Option<String> {
    let of = |stream: Stream| {
        let lines = || tails[stream.index()].iter().rev().map(own_text).filter(|line| !line.is_empty());
        let last = lines().find(|line| !is_noise(line.as_bytes())).or_else(|| lines().next());
        last.map(|line| clip_chars(line, LAST_LINE_CHARS_MAX).into_owned())
    };
    of(Stream::Stderr).or_else(|| of(Stream::Stdout))
}

/// A line without stamps and names of tasks.
fn own_text(line: &TailLine) -> &str {
    line.text.get(front_length(line.text.as_bytes())..).unwrap_or_default().trim()
}

fn exited_zero(facts: &Facts) -> bool {
    facts.ending == Some(Ending::Exited { code: 0 })
}

/// Far fewer tests than in the last good run: less than half, and at least ten fewer.
fn collapsed(tests: Option<&TestCounts>, facts: &Facts) -> Option<(u64, u64)> {
    let before = facts.history.last_good_tests?;
    let now = tests.map_or(0, |tests| tests.total);
    (now.saturating_mul(2) < before && before - now >= 10).then_some((now, before))
}

fn exit_code(ending: Option<&Ending>) -> Option<i32> {
    match ending? {
        Ending::Exited { code } => Some(*code),
        Ending::NotStarted(failure) => failure.exit_code(),
        Ending::Signaled { .. } | Ending::Unobserved { .. } => None,
    }
}

fn silent(verdict: Verdict, facts: &Facts, ranked: &[Ranked], signs: &Signs, ruling: &Ruling) -> bool {
    let good_end = matches!(facts.ending, Some(Ending::Exited { code: 0 })) && facts.acted.is_none();
    if good_end {
        return verdict != Verdict::Passed || ruling.rule == "zero_failed_before";
    }
    let unexplained = ranked.iter().all(|ranked| ranked.found.severity > Severity::Error)
        && signs.runs.last().is_none()
        && signs.crashes.is_empty()
        && facts.evidence.crash_reports.is_empty()
        && !facts.evidence.memory.as_ref().is_some_and(|memory| memory.oom_killed);
    let unexplained = unexplained && !matches!(ruling.rule, "code_remarks" | "code_no_tests");
    let bad = matches!(verdict, Verdict::Failed | Verdict::Crashed)
        && !matches!(facts.ending, Some(Ending::NotStarted(_)));
    bad && unexplained && ruling.line.is_none()
}

fn explain(
    ruling: &Ruling,
    case: &OwnedCase,
    facts: &Facts,
    signs: &Signs,
    tests: Option<&TestCounts>,
    unfinished: u64,
) -> Explanation {
    let mut evidence = Vec::new();
    evidence.push(match &facts.ending {
        None => "no wait status: only a log".to_owned(),
        Some(Ending::Exited { code }) => format!("wait status: exited with {code}"),
        Some(Ending::Signaled { name, core_dump, .. }) => {
            format!("wait status: died of {name}{}", if *core_dump { ", core dumped" } else { "" })
        }
        Some(Ending::NotStarted(_)) => "the command was not started".to_owned(),
        Some(Ending::Unobserved { reason }) => format!("no wait status: {reason}"),
    });
    if let Some(acted) = &facts.acted {
        evidence.push(format!("the pool acted: {}", acted_word(acted)));
    }
    if let Some(success) = &signs.success {
        evidence.push(format!(
            "{} said success at {} byte {}: {}",
            success.what,
            success.stream,
            success.from,
            success.line.trim()
        ));
    }
    if let Some(failure) = failure_of(signs, facts) {
        evidence.push(format!(
            "{} said failure at {} byte {}: {}",
            failure.what,
            failure.stream,
            failure.from,
            failure.line.trim()
        ));
    }
    for seen in &case.crashes {
        evidence.push(format!(
            "crash sign {:?} at {} byte {}: {}",
            seen.what,
            seen.stream,
            seen.from,
            seen.line.trim()
        ));
    }
    if let Some(tests) = tests {
        evidence.push(format!(
            "tests: {} passed, {} failed, {} skipped, {}, from {}",
            tests.passed,
            tests.failed,
            tests.skipped,
            counted(tests.expected_failures, "expected failure"),
            tests.source
        ));
    }
    if unfinished > 0 {
        evidence.push(format!("tests that began or were announced and never ended: {unfinished}"));
    }
    if let Some((now, before)) = case.collapsed {
        evidence.push(format!("{}, {before} in the last good run", counted(now, "test")));
    }
    for report in &facts.evidence.crash_reports {
        evidence.push(format!("crash report of {}: {}", report.process_name, report.file_path));
    }
    if let Some(absence) = &facts.evidence.crash_report_absence {
        evidence.push(format!("no crash report: {absence}"));
    }
    if let Some(memory) = &case.out_of_memory {
        evidence.push(format!("killed for memory: {memory}"));
    }
    Explanation { rule: ruling.rule, line: ruling.line.clone(), evidence }
}

const fn acted_word(acted: &Acted) -> &'static str {
    match acted {
        Acted::Timeout { .. } => "timeout",
        Acted::IdleTimeout { .. } => "idle timeout",
        Acted::Cancelled { .. } => "cancelled",
        Acted::Drained => "drained",
        Acted::CutOff => "cut off from the coordinator",
        Acted::Fenced => "a newer attempt was granted",
        Acted::OutputLimit { .. } => "the output's limit",
    }
}

fn finding(ranked: &Ranked, job: &str, state: &str) -> Finding {
    let found = &ranked.found;
    Finding {
        id: ranked.id.clone(),
        tier: ranked.tier,
        message: found.message(),
        severity: found.severity,
        confidence: ranked.confidence,
        job: job.to_owned(),
        job_state: state.to_owned(),
        recurrence: found.recurrence,
        also_in_passing_jobs: ranked.also_in_passing,
        location: found.location.clone(),
        test: found.test.clone(),
        stream: found.stream,
        evidence: EvidenceRange { from: found.from, to: found.to, report: found.report.clone() },
        category: (found.kind == Kind::Infrastructure).then(|| "infrastructure".to_owned()),
        pre_context: found.pre.clone(),
        post_context: found.post.clone(),
    }
}
