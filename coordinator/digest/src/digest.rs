//! Digest of a complete attempt: verdict, ranked findings, and the bounded text for answers.

mod causes;
mod classified;
mod explanation;
mod verdict_input;

use crate::attempt_facts::Facts;
use crate::bad_end::bad_end;
use crate::contradicted::contradicted_claim;
use crate::digester::{Gathered, Options, SummaryLine};
use crate::markers::Markers;
use crate::noise::is_noise;
use crate::prompts;
use crate::ranking::{self, RankedFinding};
use crate::reports::{self, TestResult};
use crate::rules::Kind;
use crate::template::Capture;
use crate::text::{TailLines, clip_chars, front_length};
use crate::tool::ToolId;
use crate::transcript::StreamEnds;
use crate::verdict::{self, Decision, TestEvidence, VerdictInput, VerdictRow};
use buildpool_protocol::outcome::{CrashType, Ending, ProcessState};
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::{
    Cause, CrashIndicators, CrashReport, EvidenceRange, Finding, GapEntry, Severity, Survivor, TestCounts,
    Verdict,
};
use buildpool_protocol::spec::Purpose;
use causes::{causes, with_missing_tests};
use classified::classified;
pub use explanation::Explanation;
use explanation::explanation;
use verdict_input::{error_evidence, log_result, test_evidence};

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
    /// Crash indicators in the log.
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
    pub(crate) ranked: Vec<RankedFinding>,
    pub(crate) options: Options,
    pub(crate) summary: Vec<SummaryLine>,
    pub(crate) capture: Option<Capture>,
    pub(crate) tails: [TailLines; 2],
    /// Raw output, of a passed job only.
    pub(crate) ends: Option<[StreamEnds; 2]>,
    /// First lines of each stream, of a job that did not pass.
    pub(crate) heads: [Vec<String>; 2],
    /// Lines of a short log, complete.
    pub(crate) whole: Option<Vec<String>>,
    pub(crate) counts: [(u64, u64); 2],
}

impl Digest {
    /// Returns true if the command failed or timed out and the most likely cause is the
    /// infrastructure.
    pub fn is_infrastructure(&self) -> bool {
        self.is_infrastructure
    }

    /// Makes the digest in stages: each takes values of the stages before it and returns a new one.
    /// `docs/digest.md` has a diagram.
    pub(crate) fn new(log: Gathered, facts: &Facts) -> Self {
        let (options, tally) = (&log.options, &log.tally);
        let command = log.command;
        let is_test_job = options.purpose == Purpose::Tests;
        let markers = log.markers.resolved(&command, tally, facts, log.last_text);
        let classified = classified(log.findings, &markers, tally, facts);
        let tests = test_evidence(
            &classified,
            tally,
            &markers,
            log.missing_total.result(&command, is_test_job),
            &command,
            is_test_job,
            facts,
        );
        let ranking = causes(classified.findings, log.keyword_lines, &markers, facts);
        // A command that only reads prints the crashes of other runs.
        let crashes = if facts.exited_zero() && command.only_reads() {
            Vec::new()
        } else {
            markers.standing_crashes(facts.exited_zero())
        };
        let last_line = last_line(&log.tails);
        let input = VerdictInput {
            ending: facts.ending.as_ref(),
            acted: facts.acted.as_ref(),
            failed_setup: facts.failed_setup.as_ref(),
            memory: facts.evidence.memory.as_ref(),
            crash_report: facts.evidence.crash_reports.first(),
            crashes: &crashes,
            log: log_result(&markers, &crashes, facts),
            errors: error_evidence(
                &ranking,
                &tests,
                &markers,
                facts,
                &command,
                (log.last_text, log.last_statement),
            ),
            tests,
            action_left: ToolId::all().find_map(|tool| (tool.missing_result)(&log.machines, &command)),
            cut_short: markers.runs.cut_short().filter(|tool| !command.names_any(tool.may_end_early)),
            unreported: command.hidden_runner(),
            bad_end: (command.may_hide_last_exit_code() && !command.only_reads())
                .then(|| bad_end(&log.tails, command.has_pipe()))
                .flatten(),
            has_pipe: command.has_pipe(),
            tools: markers.tools.clone(),
            last_line: last_line.as_deref(),
        };
        let decision = prompts::explained(verdict::decide(&input), &log.tails);
        let explanation = explanation(&decision, &input, facts);
        let TestEvidence { counts: tests, report, unfinished, collapsed, none: no_tests, .. } = input.tests;
        let ranking = with_missing_tests(ranking, &decision, &markers);
        let ranking = ranking::tiers(ranking, decision.verdict, &facts.history);
        let in_report = tests.as_ref().filter(|_| report.is_some());
        let in_log = tally.counts();
        let claim = contradicted_claim(&markers, &decision, in_report, in_log.as_ref(), &facts.evidence);
        let no_tests = no_tests.map(|(source, _)| source).filter(|_| !decision.rule.is_of_no_tests());
        let is_built = !is_test_job || decision.crash_type != CrashType::BuildFailure;
        let mut notes =
            reports::notes(tally, in_report, facts, decision.verdict, no_tests.as_deref(), is_built);
        notes.splice(0..0, claim);
        let mut crash_indicators = markers.indicators();
        crash_indicators.tests_unfinished = unfinished > 0;
        crash_indicators.test_count_collapsed = collapsed.is_some();
        let process_state = facts.ending.as_ref().map(ProcessState::from).unwrap_or_default();
        let is_passed = decision.verdict == Verdict::Passed;
        let new_gaps = facts.gaps.iter().filter(|gap| !log.gaps.contains(gap));
        Self {
            verdict: decision.verdict,
            success: is_passed,
            exit_code: exit_code(facts.ending.as_ref()),
            process_crashed: process_state.signaled && facts.acted.is_none(),
            process_state,
            crash_type: decision.crash_type,
            silent_failure: silent(facts, &ranking.ranked, &markers, &decision),
            crash_indicators,
            crash_reports: facts.evidence.crash_reports.clone(),
            crash_report_absence: facts.evidence.crash_report_absence.clone(),
            test_results: reports::results(tally, facts),
            flaky_tests: reports::flaky(tally, facts),
            findings: ranking
                .ranked
                .iter()
                .map(|ranked| finding(ranked, &options.job, decision.verdict.name()))
                .collect(),
            errors_total: ranking.findings.errors_total,
            warnings_total: ranking.findings.warnings_total,
            warnings: ranking::unranked_warnings(&ranking),
            survivors: facts.survivors.clone(),
            gaps: log.gaps.iter().chain(new_gaps).cloned().collect(),
            notes,
            explanation,
            is_infrastructure: matches!(
                decision.rule,
                VerdictRow::CodeInfrastructure | VerdictRow::ActedTimeoutHeld
            ),
            cause: decision.cause,
            tests,
            ranked: ranking.ranked,
            summary: log.summary,
            capture: log.capture,
            heads: if is_passed {
                Default::default()
            } else {
                log.ends.each_ref().map(StreamEnds::first_lines)
            },
            ends: Some(log.ends).filter(|_| is_passed),
            tails: log.tails,
            whole: log.whole,
            counts: log.counts,
            options: log.options,
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

/// Maximum length of an output line in a cause, in characters.
const LAST_LINE_CHARS_MAX: usize = 200;

/// Lines at the end of which one may be meaningful.
const LAST_LINES_MAX: usize = 1_000;

/// Last meaningful line of the output, without its time stamp and the name of its task. stderr has priority.
fn last_line(tails: &[TailLines; 2]) -> Option<String> {
    let of = |stream: Stream| {
        let own =
            |line: String| line.get(front_length(line.as_bytes())..).unwrap_or_default().trim().to_owned();
        let lines = || {
            tails[stream.index()].backwards().take(LAST_LINES_MAX).map(own).filter(|line| !line.is_empty())
        };
        let last = lines().find(|line| !is_noise(line.as_bytes())).or_else(|| lines().next());
        last.map(|line| clip_chars(&line, LAST_LINE_CHARS_MAX).into_owned())
    };
    of(Stream::Stderr).or_else(|| of(Stream::Stdout))
}

fn exit_code(ending: Option<&Ending>) -> Option<i32> {
    match ending? {
        Ending::Exited { code } => Some(*code),
        Ending::NotStarted(failure) => failure.exit_code(),
        Ending::Signaled { .. } | Ending::Unobserved { .. } => None,
    }
}

fn silent(facts: &Facts, ranked: &[RankedFinding], markers: &Markers, decision: &Decision) -> bool {
    let verdict = decision.verdict;
    let good_end = matches!(facts.ending, Some(Ending::Exited { code: 0 })) && facts.acted.is_none();
    if good_end {
        return verdict != Verdict::Passed || decision.rule == VerdictRow::ZeroFailedBefore;
    }
    let unexplained = ranked.iter().all(|ranked| ranked.found.severity > Severity::Error)
        && markers.runs.last().is_none()
        && markers.crashes.is_empty()
        && facts.evidence.crash_reports.is_empty()
        && !facts.evidence.memory.as_ref().is_some_and(|memory| memory.oom_killed);
    let unexplained = unexplained
        && !matches!(
            decision.rule,
            VerdictRow::CodeRemarks | VerdictRow::CodeNoTests | VerdictRow::CodeNoneSelected
        );
    let bad = matches!(verdict, Verdict::Failed | Verdict::Crashed)
        && !matches!(facts.ending, Some(Ending::NotStarted(_)));
    bad && unexplained && decision.line.is_none()
}

fn finding(ranked: &RankedFinding, job: &str, state: &str) -> Finding {
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
