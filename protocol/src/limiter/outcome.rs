//! Limits of an outcome and its evidence.

use super::{Limited, Limiter};
use crate::evidence::{
    Evidence, MemoryEvidence, PassedTest, ReportIssue, TestArguments, TestCase, TestReport,
};
use crate::limits::{
    ARTIFACTS_MAX, EVIDENCE_LIST_MAX, EVIDENCE_TEXT_BYTES_MAX as TEXT, LOG_LENGTH_MAX, NAME_BYTES_MAX,
    PATH_BYTES_MAX, SETUP_COMMAND_BYTES_MAX, SETUP_LOG_BYTES_MAX, TESTS_COUNTED_MAX, TEXT_BYTES_MAX,
};
use crate::outcome::{EndReason, Ending, Outcome, Seal, SetupOutcome, StartFailure};
use crate::report::{ArtifactEntry, CrashReport, GapEntry, Location, Survivor, Termination, Usage};

impl Limited for Outcome {
    fn limit(&mut self, limiter: &mut Limiter) {
        let Self {
            ending,
            acted,
            started_at_ms,
            finished_at_ms,
            // The parser limits each duration.
            duration: _,
            seals,
            log_length,
            usage,
            survivors,
            leaked,
            gaps,
            evidence,
            artifacts,
            root,
            setup,
        } = self;
        ending.limit(limiter);
        if let Some(acted) = acted {
            acted.limit(limiter);
        }
        for time in started_at_ms.iter_mut().chain([finished_at_ms]) {
            limiter.time("outcome time", time);
        }
        for Seal { length, blake3 } in seals {
            limiter.number("seal length", length, LOG_LENGTH_MAX);
            limiter.name("seal", blake3, NAME_BYTES_MAX);
        }
        limiter.number("log_length", log_length, LOG_LENGTH_MAX);
        usage.limit(limiter);
        all("survivors", survivors, limiter);
        all("leaked", leaked, limiter);
        all("gaps", gaps, limiter);
        evidence.limit(limiter);
        limiter.list("artifacts", artifacts, ARTIFACTS_MAX);
        for artifact in artifacts {
            artifact.limit(limiter);
        }
        limiter.optional("root", root, PATH_BYTES_MAX);
        if let Some(SetupOutcome { command, ending, duration: _, log, log_bytes }) = setup {
            ending.limit(limiter);
            limiter.text("setup", command, SETUP_COMMAND_BYTES_MAX);
            limiter.text("setup log", log, SETUP_LOG_BYTES_MAX);
            limiter.number("setup log_bytes", log_bytes, LOG_LENGTH_MAX);
        }
    }
}

fn all<T: Limited>(field: &'static str, list: &mut Vec<T>, limiter: &mut Limiter) {
    limiter.list(field, list, EVIDENCE_LIST_MAX);
    for entry in list {
        entry.limit(limiter);
    }
}

impl Limited for Ending {
    fn limit(&mut self, limiter: &mut Limiter) {
        match self {
            Self::Exited { code } => {
                if !(0..=255).contains(code) {
                    limiter.refuse("exit code", &format!("{code} given; valid are 0 to 255"));
                }
            }
            Self::Signaled { signal, name, core_dump: _ } => {
                if !(0..=255).contains(signal) {
                    limiter.refuse("signal", &format!("{signal} given; valid are 0 to 255"));
                }
                limiter.text("signal name", name, NAME_BYTES_MAX);
            }
            Self::NotStarted(failure) => failure.limit(limiter),
            Self::Unobserved { reason } => limiter.text("reason", reason, TEXT),
        }
    }
}

impl Limited for StartFailure {
    fn limit(&mut self, limiter: &mut Limiter) {
        let (what, reason) = match self {
            Self::NotFound { program } => (Some(program), None),
            Self::NotExecutable { program, reason } => (Some(program), Some(reason)),
            Self::Directory { path, reason } => (Some(path), Some(reason)),
            Self::Workspace { reason } | Self::Resources { reason } => (None, Some(reason)),
        };
        for text in what.into_iter().chain(reason) {
            limiter.text("start failure", text, TEXT);
        }
    }
}

impl Limited for EndReason {
    fn limit(&mut self, limiter: &mut Limiter) {
        match self {
            Self::Timeout { after: _, held } => {
                if let Some(held) = held {
                    held.limit(limiter);
                }
            }
            Self::Cancelled { by, reason } => {
                limiter.text("cancelled by", by, TEXT_BYTES_MAX);
                limiter.text("cancel reason", reason, TEXT_BYTES_MAX);
            }
            Self::OutputLimit { reason } => limiter.text("output limit", reason, TEXT),
            Self::DiskLimit { used_bytes, limit_bytes } => {
                for bytes in [used_bytes, limit_bytes] {
                    limiter.number("disk", bytes, i64::MAX.unsigned_abs());
                }
            }
            Self::IdleTimeout { after: _ } | Self::Drained | Self::CutOff | Self::Fenced => {}
        }
    }
}

impl Limited for Usage {
    fn limit(&mut self, limiter: &mut Limiter) {
        let Self { user_secs, system_secs, max_rss_bytes } = self;
        limiter.seconds("user_secs", user_secs);
        limiter.seconds("system_secs", system_secs);
        limiter.number("max_rss_bytes", max_rss_bytes, LOG_LENGTH_MAX);
    }
}

impl Limited for Survivor {
    fn limit(&mut self, limiter: &mut Limiter) {
        let Self { pid: _, command } = self;
        limiter.text("process", command, TEXT_BYTES_MAX);
    }
}

impl Limited for GapEntry {
    fn limit(&mut self, limiter: &mut Limiter) {
        let Self { stream: _, offset, bytes, reason } = self;
        limiter.number("gap offset", offset, LOG_LENGTH_MAX);
        limiter.number("gap bytes", bytes, LOG_LENGTH_MAX);
        limiter.text("gap reason", reason, TEXT_BYTES_MAX);
    }
}

impl Limited for ArtifactEntry {
    fn limit(&mut self, limiter: &mut Limiter) {
        let Self { path, bytes, blake3, executable: _ } = self;
        limiter.name("artifact", path, PATH_BYTES_MAX);
        limiter.number("artifact bytes", bytes, LOG_LENGTH_MAX);
        limiter.name("artifact checksum", blake3, NAME_BYTES_MAX);
    }
}

impl Limited for Evidence {
    fn limit(&mut self, limiter: &mut Limiter) {
        if limiter.shortens && self.unread.is_none() {
            self.unread = self.failures_beyond(EVIDENCE_LIST_MAX, EVIDENCE_LIST_MAX);
        }
        let Self { crash_reports, crash_report_absence, test_reports, issues, memory, notes, unread } = self;
        all("crash_reports", crash_reports, limiter);
        limiter.optional("crash_report_absence", crash_report_absence, TEXT);
        all("test_reports", test_reports, limiter);
        all("issues", issues, limiter);
        if let Some(memory) = memory {
            memory.limit(limiter);
        }
        limiter.texts("notes", notes, EVIDENCE_LIST_MAX, TEXT);
        limiter.optional("unread", unread, TEXT);
    }
}

impl Limited for CrashReport {
    fn limit(&mut self, limiter: &mut Limiter) {
        let Self {
            process_name,
            process_path,
            pid: _,
            exception_type,
            signal,
            termination,
            timestamp,
            file_path,
            top_frames,
            message,
            matched_by,
        } = self;
        limiter.text("process_name", process_name, TEXT_BYTES_MAX);
        limiter.text("file_path", file_path, PATH_BYTES_MAX);
        limiter.optional("process_path", process_path, PATH_BYTES_MAX);
        for text in [exception_type, signal, timestamp, matched_by] {
            limiter.optional("crash report", text, TEXT_BYTES_MAX);
        }
        if let Some(Termination { namespace, code: _, indicator }) = termination {
            limiter.optional("termination", namespace, TEXT_BYTES_MAX);
            limiter.optional("termination", indicator, TEXT);
        }
        limiter.texts("top_frames", top_frames, EVIDENCE_LIST_MAX, TEXT);
        limiter.optional("crash message", message, TEXT);
    }
}

impl Limited for TestReport {
    fn limit(&mut self, limiter: &mut Limiter) {
        let Self {
            path,
            format,
            passed,
            failed,
            skipped,
            expected_failures,
            cases,
            cases_omitted,
            unfinished,
            flaky,
            runs,
            destinations,
            superseded_by,
            cut,
            passed_tests,
        } = self;
        limiter.text("report", path, PATH_BYTES_MAX);
        limiter.text("report format", format, NAME_BYTES_MAX);
        for count in [passed, failed, skipped, expected_failures, cases_omitted, flaky, runs] {
            limiter.number("tests", count, TESTS_COUNTED_MAX);
        }
        if limiter.shortens {
            let beyond = cases.len().saturating_sub(EVIDENCE_LIST_MAX);
            *cases_omitted = cases_omitted.saturating_add(beyond as u64).min(TESTS_COUNTED_MAX);
        }
        all("test cases", cases, limiter);
        limiter.texts("unfinished", unfinished, EVIDENCE_LIST_MAX, TEXT);
        limiter.texts("destinations", destinations, EVIDENCE_LIST_MAX, TEXT);
        limiter.optional("superseded_by", superseded_by, PATH_BYTES_MAX);
        limiter.optional("cut", cut, TEXT);
        all("passed tests", passed_tests, limiter);
    }
}

impl Limited for PassedTest {
    fn limit(&mut self, limiter: &mut Limiter) {
        let Self { name, duration_secs } = self;
        limiter.text("test", name, TEXT);
        if let Some(seconds) = duration_secs {
            limiter.seconds("duration_secs", seconds);
        }
    }
}

impl Limited for TestCase {
    fn limit(&mut self, limiter: &mut Limiter) {
        let Self {
            name,
            status: _,
            duration_secs,
            messages,
            location,
            runs: _,
            flaky: _,
            display_name,
            arguments,
            attachments,
        } = self;
        limiter.text("test", name, TEXT);
        if let Some(seconds) = duration_secs {
            limiter.seconds("duration_secs", seconds);
        }
        limiter.texts("test messages", messages, EVIDENCE_LIST_MAX, TEXT);
        limit_location(location, limiter);
        limiter.optional("display_name", display_name, TEXT);
        all("test arguments", arguments, limiter);
        limiter.texts("attachments", attachments, EVIDENCE_LIST_MAX, TEXT);
    }
}

impl Limited for TestArguments {
    fn limit(&mut self, limiter: &mut Limiter) {
        let Self { arguments, status: _, runs: _, flaky: _, messages } = self;
        limiter.text("test arguments", arguments, TEXT);
        limiter.texts("test messages", messages, EVIDENCE_LIST_MAX, TEXT);
    }
}

impl Limited for ReportIssue {
    fn limit(&mut self, limiter: &mut Limiter) {
        let Self { path, severity: _, message, location, category, advice } = self;
        limiter.text("report", path, PATH_BYTES_MAX);
        limiter.text("issue", message, TEXT);
        limit_location(location, limiter);
        limiter.optional("issue category", category, NAME_BYTES_MAX);
        limiter.optional("issue advice", advice, TEXT);
    }
}

fn limit_location(location: &mut Option<Location>, limiter: &mut Limiter) {
    if let Some(Location { file, line: _, column: _ }) = location {
        limiter.text("location", file, PATH_BYTES_MAX);
    }
}

impl Limited for MemoryEvidence {
    fn limit(&mut self, limiter: &mut Limiter) {
        let Self { oom_killed: _, limit_bytes, peak_bytes, source, victim, kills_nearby } = self;
        for bytes in [limit_bytes, peak_bytes].into_iter().flatten().chain([kills_nearby]) {
            limiter.number("memory", bytes, i64::MAX.unsigned_abs());
        }
        limiter.text("memory source", source, NAME_BYTES_MAX);
        limiter.optional("memory victim", victim, TEXT_BYTES_MAX);
    }
}
