//! Digest of a complete attempt: verdict, ranked findings, and the bounded text for answers.

mod verdict_input;

use crate::answer_text::counted;
use crate::attempt_facts::Facts;
use crate::command::Command;
use crate::corrections::Corrections;
use crate::digester::{Gathered, Options, SummaryLine};
use crate::findings::{Findings, RawFinding};
use crate::load_failures;
use crate::machine_faults;
use crate::markers::{MarkerLine, Markers};
use crate::noise::is_noise;
use crate::prompts;
use crate::ranking::{self, Ranked};
use crate::reports::{self, TestResult, believed_tests};
use crate::rules::{Kind, Role};
use crate::standing_error;
use crate::template::Capture;
use crate::text::{TailLine, clip_chars, front_length};
use crate::tool::ToolId;
use crate::transcript::StreamEnds;
use crate::verdict::{self, Decision, Row};
use buildpool_protocol::outcome::{Acted, CrashType, Ending, ProcessState};
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::{
    Cause, CrashIndicators, CrashReport, EvidenceRange, Finding, GapEntry, Severity, Survivor, TestCounts,
    Verdict,
};
use buildpool_protocol::spec::Purpose;
use verdict_input::{CaseParts, OwnedCase, build_case, failure_of};

/// Data about an attempt for answers of any length, and the bounded text to show.
#[derive(Debug)]
pub struct Digest {
    /// Verdict of the job.
    pub verdict: Verdict,
    /// True only for the verdict `passed`.
    pub success: bool,
    /// Exit code of the process, if it exited by itself.
    pub exit_code: Option<i32>,
    /// State of the process, from the wait status.
    pub process_state: ProcessState,
    /// The command was killed by a signal that the pool did not send.
    pub process_crashed: bool,
    /// Type of the crash or failure.
    pub crash_type: CrashType,
    /// Reason of the verdict, in one sentence.
    pub cause: Option<Cause>,
    /// Crash signs in the log.
    pub crash_indicators: CrashIndicators,
    /// Crash reports from files.
    pub crash_reports: Vec<CrashReport>,
    /// Reason why a crash has no crash report.
    pub crash_report_absence: Option<String>,
    /// True if nothing explains a failure, or if exit code 0 hides a failure.
    pub silent_failure: bool,
    /// Test counts, from reports or from the log.
    pub tests: Option<TestCounts>,
    /// Results of the tests that are known by name. Taken out before the digest is kept.
    pub test_results: Vec<TestResult>,
    /// Number of tests that passed only after a failure.
    pub flaky_tests: u64,
    /// All kept findings, in full, most likely cause first.
    pub findings: Vec<Finding>,
    /// Number of different errors in the log, kept or not.
    pub errors_total: u64,
    /// Number of different warnings in the log, kept or not.
    pub warnings_total: u64,
    /// Warnings that are not findings, each once.
    pub warnings: Vec<String>,
    /// Processes that could not be terminated.
    pub survivors: Vec<Survivor>,
    /// Gaps in the log.
    pub gaps: Vec<GapEntry>,
    /// Notes: differences between report and log, unreadable files, reasons for missing crash
    /// reports.
    pub notes: Vec<String>,
    /// Explanation of the verdict.
    pub explanation: Explanation,
    /// The command failed or timed out, most likely because of the infrastructure.
    is_infrastructure: bool,
    pub(crate) corrections: Corrections,
    pub(crate) ranked: Vec<Ranked>,
    pub(crate) options: Options,
    pub(crate) summary: Vec<SummaryLine>,
    pub(crate) capture: Option<Capture>,
    pub(crate) tails: [Vec<TailLine>; 2],
    /// Raw output, of a passed job only.
    pub(crate) ends: Option<[StreamEnds; 2]>,
    /// First lines of each stream, of a job that did not pass.
    pub(crate) heads: [Vec<String>; 2],
    /// Lines of a short log, complete.
    pub(crate) whole: Option<Vec<String>>,
    pub(crate) counts: [(u64, u64); 2],
}

/// The rule, the line and the evidence behind a verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Row of the table in `docs/endings.md`.
    pub rule: &'static str,
    /// Line of the log that decided the verdict, if one did.
    pub line: Option<String>,
    /// Evidence that was considered, one sentence each.
    pub evidence: Vec<String>,
}

/// Rules whose cause states that no test ran, so that no note repeats it.
const RULES_OF_NO_TESTS: [Row; 5] =
    [Row::CodeNoTests, Row::CodeNoneSelected, Row::ZeroNoTests, Row::ZeroNoneSelected, Row::ZeroTestsMissed];

impl Digest {
    /// Returns true if the command failed or timed out and the most likely cause is the
    /// infrastructure.
    pub fn is_infrastructure(&self) -> bool {
        self.is_infrastructure
    }

    pub(crate) fn new(gathered: Gathered, facts: &Facts) -> Self {
        let Gathered {
            options,
            mut findings,
            keyword_lines,
            missing_total,
            tally,
            mut markers,
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
        markers.heed(&command, tally.failed_apart());
        let ended_badly = facts.ending.as_ref().map(|_| !exited_zero(facts));
        markers.complete(|family| tally.knows(family), ended_badly, last_text);
        if exited_zero(facts) || !markers.runs.build_failed() {
            findings.take_back_build_errors();
        }
        findings.drop_told_in_full();
        if facts.acted.is_some() {
            findings.drop_echo_of_stacks();
        }
        machine_faults::attribute(&mut findings);
        let files = load_failures::attribute(&mut findings);
        findings.take_back_words(0, markers.failed_total);
        findings.mark_flaky(|test| tally.is_flaky(test));
        ranking::add_reports(&mut findings, &facts.evidence);
        gaps.extend(facts.gaps.iter().filter(|gap| !gaps.contains(gap)).cloned().collect::<Vec<_>>());
        let (tests, report) = believed_tests(&tally, facts);
        // A report already excludes files that could not be loaded.
        let tests =
            tests.and_then(|tests| load_failures::without(tests, if report.is_none() { files } else { 0 }));
        let tests_note = tests.clone().filter(|_| report.is_some());
        let collapsed = collapsed(tests.as_ref(), facts);
        let unfinished = reports::unfinished(&tally, facts);
        let mut ranked = ranking::rank(&findings, facts.ending.is_some());
        let bad_end = facts.ending.as_ref().is_some_and(|ending| *ending != Ending::Exited { code: 0 });
        let is_failure = bad_end || facts.ending.is_none() && markers.standing_failure(false).is_some();
        if is_failure && ranked.iter().all(|ranked| ranked.tier > 1) {
            findings.errors.extend(keyword_lines.into_found());
            findings.errors.extend(above_consequence(&findings));
            ranked = ranking::rank(&findings, facts.ending.is_some());
        }
        let case = build_case(&CaseParts {
            facts,
            tally: &tally,
            findings: &findings,
            ranked: &ranked,
            markers: &markers,
            tests: tests.as_ref(),
            report: report.as_deref(),
            unfinished,
            running_test: tally
                .latest_running()
                .map(str::to_owned)
                .or_else(|| reports::first_unfinished(facts)),
            standing_error: exited_zero(facts)
                .then(|| standing_error::standing_error(&findings, &ranked, &markers.runs, &command))
                .flatten(),
            has_pipe: command.has_pipe(),
            without_total: missing_total.result(&command, options.purpose == Purpose::Tests),
            action_left: markers.runs.action_left(command.xcodebuild_action()),
            collapsed,
            tests_missed: command
                .tests_asked_of_maven()
                .filter(|_| tests.as_ref().is_none_or(|tests| tests.total == 0))
                .filter(|_| tally.has_parts_without_tests(ToolId::Surefire))
                .map(str::to_owned),
            failures_are_past: tally.failures_are_past(),
            last_line: last_line(&tails),
            is_test_run: options.purpose == Purpose::Tests || command.runs_tests(),
            selects_tests: command.selects_tests()
                || options.purpose == Purpose::Tests && command.names_files(),
        });
        let mut decision = verdict::decide(&case.as_case(facts, &markers));
        prompts::explain(&mut decision.cause, decision.verdict, &tails);
        let mut crash_indicators = markers.indicators();
        crash_indicators.tests_unfinished = unfinished > 0;
        crash_indicators.test_count_collapsed = collapsed.is_some();
        let verdict = decision.verdict;
        // The runner's own error is the finding, if it printed one.
        let is_found = decision.rule == Row::CodeNoTests && !findings.errors.is_empty();
        if let (Row::CodeNoTests | Row::CodeNoneSelected, Some(seen), false) =
            (decision.rule, &markers.no_tests, is_found)
        {
            findings.errors.push(no_tests(seen));
            ranked = ranking::rank(&findings, facts.ending.is_some());
        }
        let ranked = ranking::tiers(ranked, &findings, verdict, &facts.history);
        let warnings = ranking::unranked_warnings(&findings, &ranked);
        let corrections = Corrections::new(
            &markers,
            &decision,
            tests_note.as_ref(),
            tally.counts().as_ref(),
            &facts.evidence,
        );
        let explanation = explain(&decision, &case, facts, &markers, tests.as_ref(), unfinished);
        let is_ruled = RULES_OF_NO_TESTS.contains(&decision.rule);
        let no_tests = case.no_tests.as_ref().filter(|_| !is_ruled);
        let no_tests = no_tests.map(|(source, _)| source.as_str());
        let is_built = options.purpose != Purpose::Tests || decision.crash_type != CrashType::BuildFailure;
        let notes = reports::notes(&tally, tests_note.as_ref(), facts, verdict, no_tests, is_built);
        let state_word = verdict.name();
        let listed = ranked.iter().map(|ranked| finding(ranked, &options.job, state_word)).collect();
        let process_state = facts.ending.as_ref().map(ProcessState::from).unwrap_or_default();
        Self {
            verdict,
            success: verdict == Verdict::Passed,
            exit_code: exit_code(facts.ending.as_ref()),
            process_crashed: process_state.signaled && facts.acted.is_none(),
            process_state,
            crash_type: decision.crash_type,
            silent_failure: silent(verdict, facts, &ranked, &markers, &decision),
            cause: decision.cause,
            crash_indicators,
            crash_reports: facts.evidence.crash_reports.clone(),
            crash_report_absence: facts.evidence.crash_report_absence.clone(),
            tests,
            test_results: reports::results(&tally, facts),
            flaky_tests: reports::flaky(&tally, facts),
            findings: listed,
            errors_total: findings.errors_total,
            warnings_total: findings.warnings_total,
            warnings,
            survivors: facts.survivors.clone(),
            gaps,
            notes,
            explanation,
            is_infrastructure: matches!(decision.rule, Row::CodeInfrastructure | Row::ActedTimeoutHeld),
            corrections,
            ranked,
            options,
            summary,
            capture,
            tails,
            heads: match verdict {
                Verdict::Passed => Default::default(),
                _ => [ends[0].first_lines(), ends[1].first_lines()],
            },
            ends: Some(ends).filter(|_| verdict == Verdict::Passed),
            whole,
            counts,
        }
    }

    /// Returns a finding, complete and uncompressed, by its id or a unique prefix of it.
    pub fn finding(&self, id: &str) -> Option<Finding> {
        if let Some(exact) = self.findings.iter().find(|finding| finding.id == id) {
            return Some(exact.clone());
        }
        let mut matching =
            self.findings.iter().filter(|finding| !id.is_empty() && finding.id.starts_with(id));
        matching.next().filter(|_| matching.next().is_none()).cloned()
    }

    /// Returns ids of the findings that are stable across runs of the same command. Stored with a
    /// passing run, they identify irrelevant findings in later runs.
    pub fn signatures(&self) -> Vec<String> {
        self.ranked.iter().map(|ranked| ranked.signature.clone()).collect()
    }

    /// Explains the verdict in lines for a person.
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

/// Certainty, in percent, of a line above a line that only reports a failure.
const ABOVE_SURE: u8 = 70;

/// Returns the lines above the first line that only reports a failure. The last of them is likely
/// to contain the reason.
fn above_consequence(findings: &Findings) -> Option<RawFinding> {
    let follows = findings.errors.iter().find(|found| found.kind == Kind::Consequence)?;
    let only =
        findings.errors.iter().all(|found| found.kind == Kind::Consequence || found.role == Role::Unknown);
    let line = follows.pre.last().filter(|_| only)?;
    let known = findings.errors.iter().any(|found| found.lines.iter().any(|known| known == line));
    let from = follows.from.saturating_sub(line.len() as u64 + 1);
    (!known).then(|| RawFinding {
        lines: follows.pre.clone(),
        head: follows.pre.len() - 1,
        stream: follows.stream,
        from,
        to: follows.from,
        order: follows.order.saturating_sub(1),
        ..RawFinding::new("generic.above", Kind::Runtime, Severity::Error, ABOVE_SURE)
    })
}

/// Certainty, in percent, of a runner's message that it found no tests.
const NO_TESTS_SURE: u8 = 88;

/// Finding for a run that failed because it had no tests.
fn no_tests(seen: &MarkerLine<()>) -> RawFinding {
    RawFinding {
        lines: vec![seen.line.clone()],
        stream: Some(seen.stream),
        from: seen.from,
        to: seen.from + seen.line.len() as u64,
        order: seen.order,
        ..RawFinding::new("runner.no_tests", Kind::Test, Severity::Error, NO_TESTS_SURE)
    }
}

/// Maximum length of an output line in a cause, in characters.
const LAST_LINE_CHARS_MAX: usize = 200;

/// Last meaningful line of the output. stderr has priority.
fn last_line(tails: &[Vec<TailLine>; 2]) -> Option<String> {
    let of = |stream: Stream| {
        let lines = || tails[stream.index()].iter().rev().map(own_text).filter(|line| !line.is_empty());
        let last = lines().find(|line| !is_noise(line.as_bytes())).or_else(|| lines().next());
        last.map(|line| clip_chars(line, LAST_LINE_CHARS_MAX).into_owned())
    };
    of(Stream::Stderr).or_else(|| of(Stream::Stdout))
}

/// Returns a line without time stamps and task names.
fn own_text(line: &TailLine) -> &str {
    line.text.get(front_length(line.text.as_bytes())..).unwrap_or_default().trim()
}

fn exited_zero(facts: &Facts) -> bool {
    facts.ending == Some(Ending::Exited { code: 0 })
}

/// Returns the number of tests now and before, if there are far fewer than in the last good run:
/// less than half, and at least ten fewer.
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

fn silent(
    verdict: Verdict,
    facts: &Facts,
    ranked: &[Ranked],
    markers: &Markers,
    decision: &Decision,
) -> bool {
    let good_end = matches!(facts.ending, Some(Ending::Exited { code: 0 })) && facts.acted.is_none();
    if good_end {
        return verdict != Verdict::Passed || decision.rule == Row::ZeroFailedBefore;
    }
    let unexplained = ranked.iter().all(|ranked| ranked.found.severity > Severity::Error)
        && markers.runs.last().is_none()
        && markers.crashes.is_empty()
        && facts.evidence.crash_reports.is_empty()
        && !facts.evidence.memory.as_ref().is_some_and(|memory| memory.oom_killed);
    let unexplained =
        unexplained && !matches!(decision.rule, Row::CodeRemarks | Row::CodeNoTests | Row::CodeNoneSelected);
    let bad = matches!(verdict, Verdict::Failed | Verdict::Crashed)
        && !matches!(facts.ending, Some(Ending::NotStarted(_)));
    bad && unexplained && decision.line.is_none()
}

fn explain(
    decision: &Decision,
    case: &OwnedCase,
    facts: &Facts,
    markers: &Markers,
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
    if let Some(success) = &markers.success {
        evidence.push(format!(
            "{} said success at {} byte {}: {}",
            success.what,
            success.stream,
            success.from,
            success.line.trim()
        ));
    }
    if let Some(failure) = failure_of(markers, facts) {
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
    Explanation { rule: decision.rule.name(), line: decision.line.clone(), evidence }
}

const fn acted_word(acted: &Acted) -> &'static str {
    match acted {
        Acted::Timeout { .. } => "timeout",
        Acted::IdleTimeout { .. } => "idle timeout",
        Acted::Cancelled { .. } => "cancelled",
        Acted::Drained => "drained",
        Acted::CutOff => "cut off from the coordinator",
        Acted::Fenced => "a newer attempt was granted",
        Acted::DiskLimit { .. } => "the limit on disk space",
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
