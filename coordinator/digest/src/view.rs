//! An answer as text, for people and for agents that read text: the verdict first, then why, then the rest.

use buildpool_protocol::report::{
    Cause, Finding, HIDDEN_TESTS_HEADING, JobResult, JobState, Omission, Severity,
};

/// The text of an answer. The same for every client; derived from the result alone.
pub fn text(result: &JobResult) -> String {
    let mut out = String::new();
    head(result, &mut out);
    let (hidden, told): (Vec<_>, Vec<_>) =
        result.tier_1_findings.iter().partition(|finding| finding.is_hidden_test());
    for finding in told {
        expanded(finding, &mut out);
    }
    if !hidden.is_empty() {
        out.push_str(HIDDEN_TESTS_HEADING);
        out.push('\n');
    }
    for finding in hidden {
        expanded(finding, &mut out);
    }
    for finding in &result.other_findings {
        out.push_str(&format!("{} {}\n", finding.id, finding.message));
    }
    section(&mut out, "", result.filtered_output.as_deref());
    if result.warnings.count > 0 {
        out.push_str(&counted(result.warnings.count, "warning"));
        out.push('\n');
        for warning in &result.warnings.shown {
            indent(warning, "  ", &mut out);
        }
    }
    section(&mut out, "stderr:", result.stderr.as_deref());
    section(&mut out, "stdout:", result.stdout.as_deref());
    tail(result, &mut out);
    out
}

fn head(result: &JobResult, out: &mut String) {
    match result.verdict {
        Some(verdict) => out.push_str(verdict.name()),
        None => out.push_str(result.state.name()),
    }
    if let Some(code) = result.exit_code {
        out.push_str(&format!(" (exit code {code})"));
    } else if let Some(signal) = &result.process_state.signal_name {
        out.push_str(&format!(" ({signal})"));
    }
    if let Some(secs) = result.duration_secs {
        out.push_str(&format!(" in {secs:.1} s"));
    }
    if !result.job_id.is_empty() {
        out.push_str(&format!(", job {}", result.job_id));
        if let Some(worker) = &result.worker {
            out.push_str(&format!(" on {worker}"));
        }
    }
    out.push('\n');
    let told =
        result.tier_1_findings.first().and_then(|finding| finding.message.lines().next()).map(str::trim);
    let told = told.filter(|line| line.len() > 20 && result.exit_code.is_some_and(|code| code != 0));
    // Only the cause names the test that ran.
    let is_told = |cause: &Cause| {
        told.is_some_and(|line| cause.text.ends_with(line) && !cause.text.contains(" while `"))
    };
    if let Some(cause) = result.cause.as_ref().filter(|cause| !is_told(cause)) {
        out.push_str(&cause.text);
        out.push('\n');
    }
    if let Some(reason) = &result.fallback {
        out.push_str(&format!("fallback: {reason}\n"));
    }
    if let Some(waiting) = &result.waiting {
        let place = waiting.position.map(|position| format!(", position {position}")).unwrap_or_default();
        let estimate = waiting.estimate_secs.map(|secs| format!(", begins in about {secs} s"));
        out.push_str(&format!("waiting: {}{place}{}\n", waiting.reason, estimate.unwrap_or_default()));
    }
    if result.state == JobState::Running && !result.connected {
        out.push_str("its worker cannot be reached at the moment; the job goes on\n");
    }
    if let Some(tests) = &result.tests {
        let mut parts = vec![format!("{} passed", tests.passed)];
        for (count, words) in [
            (tests.failed, format!("{} failed", tests.failed)),
            (tests.skipped, format!("{} skipped", tests.skipped)),
            (tests.expected_failures, counted(tests.expected_failures, "expected failure")),
        ] {
            if count > 0 {
                parts.push(words);
            }
        }
        out.push_str(&format!("tests: {} of {} ({})\n", parts.join(", "), tests.total, tests.source));
    }
    for earlier in &result.earlier_attempts {
        out.push_str(&format!(
            "attempt {} on {} did not count: {}\n",
            earlier.attempt, earlier.worker, earlier.reason
        ));
    }
    for report in &result.crash_reports {
        out.push_str(&format!("crash report: {} ({})\n", report.file_path, report.process_name));
    }
}

/// What stands before a finding's message: its id, and test, place and severity where the message does not say them.
pub(crate) fn lead(finding: &Finding) -> String {
    let mut out = format!("{} ", finding.id);
    if let Some(test) = &finding.test
        && !finding.message.contains(test.as_str())
    {
        out.push_str(&format!("{test}: "));
    }
    if let Some(location) = &finding.location {
        let row = location.line.map_or(String::new(), |line| format!(":{line}"));
        let place = format!("{}{row}", location.file);
        if !finding.message.contains(location.file.as_str()) {
            out.push_str(&format!("{place}: "));
        }
    }
    if finding.severity == Severity::Warning && !finding.message.to_ascii_lowercase().contains("warn") {
        out.push_str("warning: ");
    }
    out
}

fn expanded(finding: &Finding, out: &mut String) {
    let mut lines = finding.message.lines();
    let first = lines.next().unwrap_or_default();
    for line in &finding.pre_context {
        out.push_str(&format!("  | {line}\n"));
    }
    out.push_str(&lead(finding));
    out.push_str(first);
    if finding.recurrence > 1 {
        out.push_str(&format!(" (×{})", finding.recurrence));
    }
    if finding.also_in_passing_jobs {
        out.push_str(" (also in passing runs)");
    }
    out.push('\n');
    for line in lines {
        out.push_str(&format!("  {line}\n"));
    }
    for line in &finding.post_context {
        out.push_str(&format!("  | {line}\n"));
    }
}

fn section(out: &mut String, title: &str, text: Option<&str>) {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return };
    if !title.is_empty() {
        out.push_str(title);
        out.push('\n');
    }
    out.push_str(text);
    out.push('\n');
}

fn indent(text: &str, by: &str, out: &mut String) {
    for line in text.lines() {
        out.push_str(by);
        out.push_str(line);
        out.push('\n');
    }
}

/// So many of something: `1 line`, `2 lines`.
pub(crate) fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// What was cut, in words: `231 lines of stdout`, `1 other finding`.
fn cut(omission: &Omission) -> String {
    let lines = counted(omission.lines, "line");
    match omission.what.as_str() {
        "stdout" | "stderr" => format!("{lines} of {}", omission.what),
        "filtered_output" => format!("{lines} of the filtered output"),
        list => counted(omission.lines, &list.trim_end_matches('s').replace('_', " ")),
    }
}

fn tail(result: &JobResult, out: &mut String) {
    for note in &result.notes {
        out.push_str(&format!("note: {note}\n"));
    }
    for gap in &result.gaps {
        out.push_str(&format!(
            "gap: {} of {} missing at {}: {}\n",
            counted(gap.bytes, "byte"),
            gap.stream,
            gap.offset,
            gap.reason
        ));
    }
    for survivor in &result.survivors {
        out.push_str(&format!("still running: {} (pid {})\n", survivor.command, survivor.pid));
    }
    if !result.omitted.is_empty() {
        let cuts: Vec<String> =
            result.omitted.iter().map(|omission| format!("{}: `{}`", cut(omission), omission.get)).collect();
        out.push_str(&format!("not shown: {}\n", cuts.join("; ")));
    }
    for next in &result.next {
        out.push_str(&format!("next: {next}\n"));
    }
}
