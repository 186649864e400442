//! First line of an answer: verdict, counts, time, command and job.

use super::{COMMAND_CHARS_MAX, TextForm};
use buildpool_protocol::outcome::CrashType;
use buildpool_protocol::report::{JobResult, JobState, TestCounts};
use buildpool_protocol::shown::{counted, thousands};
use std::fmt::Write;

/// The same above a complete log, which often begins with the command.
const COMMAND_CHARS_BESIDE_LOG: usize = 24;

/// First line: verdict, counts, time, command and job.
pub(super) fn headline(result: &JobResult, form: &TextForm<'_>) -> String {
    let mut out = match result.verdict {
        Some(verdict) => verdict.name().to_uppercase(),
        None => result.state.name().to_uppercase(),
    };
    let counts_failures = result.tests.as_ref().is_some_and(|tests| tests.failed > 0);
    let adds_nothing = match result.crash_type {
        CrashType::None | CrashType::Unknown | CrashType::Timeout | CrashType::Cancelled => true,
        CrashType::TestFailure => counts_failures,
        _ => false,
    };
    if !adds_nothing {
        let _ = write!(out, " ({})", result.crash_type.name());
    }
    let mut facts = Vec::new();
    if let Some(code) = result.exit_code.filter(|_| !result.success) {
        facts.push(format!("exit code {code}"));
    } else if let Some(signal) = &result.process_state.signal_name {
        facts.push(format!("{signal}{}", if result.process_state.core_dump { ", core dumped" } else { "" }));
    }
    if let Some(tests) = &result.tests {
        facts.push(test_words(tests));
    }
    if !facts.is_empty() {
        let _ = write!(out, ": {}", facts.join(", "));
    }
    if let Some(secs) = result.duration_secs {
        let _ = write!(out, "{} {secs:.1} s", if result.state == JobState::Done { " in" } else { " for" });
    }
    if !result.command.is_empty() {
        let is_beside_log = result.complete_log && !result.success && !form.details;
        let most = if is_beside_log { COMMAND_CHARS_BESIDE_LOG } else { COMMAND_CHARS_MAX };
        let _ = write!(out, " ({})", beginning(result.command.trim(), most));
    }
    if !result.job_id.is_empty() {
        let _ = write!(out, ", job {}", result.shown_id());
    }
    if let Some(worker) = result.worker.as_ref().filter(|_| form.worker && !result.success) {
        let _ = write!(out, " on {worker}");
    }
    out
}

/// Returns a text, or its beginning and a mark if it has more than `chars` characters.
fn beginning(text: &str, chars: usize) -> std::borrow::Cow<'_, str> {
    match text.char_indices().nth(chars) {
        Some(_) => text.chars().take(chars - 1).chain(['…']).collect::<String>().into(),
        None => text.into(),
    }
}

/// Formats counts: `1,203 tests`, `3 of 1,203 tests failed, 4 skipped`.
fn test_words(tests: &TestCounts) -> String {
    let mut out = match tests.failed {
        0 => counted(tests.total, "test"),
        failed => format!("{} of {} failed", thousands(failed), counted(tests.total, "test")),
    };
    if tests.skipped > 0 {
        let _ = write!(out, ", {} skipped", thousands(tests.skipped));
    }
    if tests.expected_failures > 0 {
        let _ = write!(out, ", {}", counted(tests.expected_failures, "expected failure"));
    }
    out
}
