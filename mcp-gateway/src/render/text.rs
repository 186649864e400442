//! The text of the answer about a job. A line that begins with a bar is the job's, each other is ours.

use super::UNTRUSTED;
use super::job::{Extras, untrusted_fields};
use buildpool_protocol::report::{
    CrashReport, Finding, HIDDEN_TESTS_HEADING, JobResult, JobState, Location, Omission,
};
use std::fmt::{Display, Write};

/// Lines under way.
#[derive(Default)]
pub(super) struct Page {
    text: String,
}

impl Page {
    /// One of our lines.
    pub(super) fn line(&mut self, line: impl Display) {
        // Writing to a String can't fail.
        let _ = writeln!(self.text, "{line}");
    }

    /// Lines of the job.
    pub(super) fn quote(&mut self, text: &str) {
        self.quote_as("| ", text);
    }

    pub(super) fn quote_as(&mut self, bar: &str, text: &str) {
        for line in text.split('\n') {
            self.line(format_args!("{}", format!("{bar}{line}").trim_end()));
        }
    }

    pub(super) fn list(&mut self, title: &str, entries: &[String]) {
        if !entries.is_empty() {
            self.line(title);
            entries.iter().for_each(|entry| self.line(format_args!("- {entry}")));
        }
    }

    /// The same for what the job named.
    pub(super) fn quoted(&mut self, title: &str, entries: &[String]) {
        if !entries.is_empty() {
            self.line(title);
            entries.iter().for_each(|entry| self.quote(entry));
        }
    }

    /// What was left out, and what gets it.
    pub(super) fn omitted(&mut self, cuts: &[Omission]) {
        let said = |cut: &Omission| {
            let count = format!("{}: {} lines, {} bytes", cut.what, cut.lines, cut.bytes);
            if cut.get.is_empty() { count } else { format!("{count}: {}", cut.get) }
        };
        self.list("omitted:", &cuts.iter().map(said).collect::<Vec<_>>());
    }

    pub(super) fn done(self) -> String {
        self.text.trim_end().to_owned()
    }
}

/// The whole text.
pub(super) fn job(result: &JobResult, extras: &Extras) -> String {
    let mut page = Page::default();
    head(&mut page, result);
    facts(&mut page, result, extras);
    let untrusted = untrusted_fields(result);
    if !untrusted.is_empty() {
        page.line(format_args!(
            "untrusted: {} {UNTRUSTED}; each such line begins with a bar",
            untrusted.join(", ")
        ));
    }
    let (hidden, told): (Vec<_>, Vec<_>) =
        result.tier_1_findings.iter().partition(|finding| finding.is_hidden_test());
    for (index, finding) in told.iter().chain(&hidden).enumerate() {
        if index == told.len() {
            page.line(HIDDEN_TESTS_HEADING);
        }
        self::finding(&mut page, &format!("{}.", index + 1), finding, &result.job_id);
    }
    result.crash_reports.iter().for_each(|report| crash_report(&mut page, report));
    if !result.other_findings.is_empty() {
        page.line("other findings:");
        for finding in &result.other_findings {
            let of =
                if finding.job == result.job_id { String::new() } else { format!(", job {}", finding.job) };
            let about = format_args!(
                "- {} ({}, tier {}, confidence {}{of})",
                finding.id,
                json_word(&finding.severity),
                finding.tier,
                finding.confidence
            );
            page.line(about);
            page.quote(&finding.message);
        }
    }
    if !result.warnings.shown.is_empty() {
        page.line("warnings:");
        result.warnings.shown.iter().for_each(|warning| page.quote(warning));
    }
    if !result.notes.is_empty() {
        page.line("notes:");
        result.notes.iter().for_each(|note| page.quote(note));
    }
    for (name, text) in
        [("stderr", &result.stderr), ("stdout", &result.stdout), ("filtered_output", &result.filtered_output)]
    {
        if let Some(text) = text.as_deref().filter(|text| !text.is_empty()) {
            page.line(format_args!("{name}:"));
            page.quote(text);
        }
    }
    tail(&mut page, result);
    page.done()
}

/// The first line: what it means. The second: which job.
fn head(page: &mut Page, result: &JobResult) {
    let mut words = match result.verdict {
        Some(verdict) => verdict.name().to_uppercase(),
        None => result.state.name().to_uppercase(),
    };
    let crash = json_word(&result.crash_type);
    if crash != "none" {
        let _ = write!(words, " ({crash})");
    }
    if let Some(code) = result.exit_code {
        let _ = write!(words, ", exit code {code}");
    }
    if let (Some(name), Some(number)) = (&result.process_state.signal_name, result.process_state.signal) {
        let dumped = if result.process_state.core_dump { ", core_dump" } else { "" };
        let _ = write!(words, ", died of {name} ({number}, signaled{dumped})");
    }
    page.line(format_args!("{words}: {}", result.command));
    if !result.directory.is_empty() {
        page.line(format_args!("directory: {} (relative places may be in relation to it)", result.directory));
    }
    let mut words =
        format!("job {}, attempt {}, state {}", result.job_id, result.attempt, result.state.name());
    if let Some(build) = &result.request_id {
        let _ = write!(words, ", part of {build}");
    }
    if let Some(worker) = &result.worker {
        let _ = write!(words, ", worker {worker}");
    }
    if let Some(secs) = result.duration_secs {
        let _ = write!(words, ", ran {secs} s");
    }
    if let Some(secs) = result.queued_secs {
        let _ = write!(words, ", queued {secs} s");
    }
    page.line(words);
}

fn facts(page: &mut Page, result: &JobResult, extras: &Extras) {
    if let Some(chosen) = &extras.chosen {
        page.line(format_args!("chosen: {chosen}"));
    }
    if extras.reattached {
        page.line(format_args!("reattached: this is the job of an earlier {}", earlier(extras)));
    }
    if let Some(note) = &extras.note {
        page.line(format_args!("note: {note}"));
    }
    if result.state == JobState::Done {
        page.line(format_args!("success: {}", result.success));
    } else if !result.connected && result.state != JobState::Queued {
        page.line("connected: false; the job goes on, its worker can't be reached at the moment");
    }
    if let Some(reason) = &result.fallback {
        page.line(format_args!("fallback: {reason}"));
    }
    if let Some(waiting) = &result.waiting {
        let place = waiting.position.map(|position| format!(", position {position}")).unwrap_or_default();
        let estimate =
            waiting.estimate_secs.map(|secs| format!(", begins in about {secs} s")).unwrap_or_default();
        page.line(format_args!("waiting: {}{place}, since {}{estimate}", waiting.reason, waiting.since));
    }
    if let Some(cause) = &result.cause {
        page.line(format_args!("cause, known from {}:", json_word(&cause.known_from)));
        page.quote(&cause.text);
    }
    for earlier in &result.earlier_attempts {
        page.line(format_args!(
            "attempt {} on {} did not count: {}",
            earlier.attempt, earlier.worker, earlier.reason
        ));
    }
    if result.process_crashed {
        page.line("process_crashed: the command itself died");
    }
    if result.silent_failure {
        page.line("silent_failure: nothing in output or reports explains the end");
    }
    if let Some(tests) = &result.tests {
        page.line(format_args!(
            "tests: {} failed, {} passed, {} skipped, {} expected failures, {} in all, by",
            tests.failed, tests.passed, tests.skipped, tests.expected_failures, tests.total
        ));
        page.quote(&tests.source);
    }
    let signs = signs(result);
    if !signs.is_empty() {
        page.line(format_args!("crash_indicators: {}", signs.join(", ")));
    }
    if result.warnings.count > 0 {
        page.line(format_args!("warnings: {}", result.warnings.count));
    }
}

/// What the earlier call had in common with this one.
pub(super) fn earlier(extras: &Extras) -> &'static str {
    if extras.by_request_id { "call with this client_request_id" } else { "equal call" }
}

fn signs(result: &JobResult) -> Vec<String> {
    match serde_json::to_value(result.crash_indicators) {
        Ok(serde_json::Value::Object(map)) => {
            map.into_iter().filter(|(_, value)| *value == true).map(|(name, _)| name).collect()
        }
        _ => Vec::new(),
    }
}

/// One finding, whole.
pub(super) fn finding(page: &mut Page, title: &str, finding: &Finding, job: &str) {
    let mut words = format!("{title} {}", json_word(&finding.severity));
    let _ = write!(words, " ({}, tier {}, confidence {}", finding.id, finding.tier, finding.confidence);
    if let Some(stream) = finding.stream {
        let _ = write!(words, ", {stream}");
    }
    if finding.recurrence != 1 {
        let _ = write!(words, ", seen {} times", finding.recurrence);
    }
    if finding.also_in_passing_jobs {
        words.push_str(", also_in_passing_jobs");
    }
    if let Some(category) = &finding.category {
        let _ = write!(words, ", {category}");
    }
    if finding.job != job {
        let _ = write!(words, ", job {}", finding.job);
    }
    page.line(format_args!("{words})"));
    // The job named its files and tests itself.
    let test = finding.test.as_ref().map(|test| format!("in test {test}"));
    let place: Vec<String> = finding.location.as_ref().map(place).into_iter().chain(test).collect();
    if !place.is_empty() {
        page.quote(&place.join(" "));
    }
    finding.pre_context.iter().for_each(|line| page.quote_as("|< ", line));
    page.quote(&finding.message);
    finding.post_context.iter().for_each(|line| page.quote_as("|> ", line));
}

fn place(location: &Location) -> String {
    let mut text = format!("at {}", location.file);
    for number in [location.line, location.column].into_iter().flatten() {
        let _ = write!(text, ":{number}");
    }
    text
}

fn crash_report(page: &mut Page, report: &CrashReport) {
    page.line("crash report:");
    let mut words = format!("{}: {}", report.file_path, report.process_name);
    if let Some(pid) = report.pid {
        let _ = write!(words, " (pid {pid})");
    }
    let termination = report.termination.clone().unwrap_or_default();
    let code = termination.code.map(|code| code.to_string());
    for part in [
        &report.process_path,
        &report.exception_type,
        &report.signal,
        &termination.namespace,
        &code,
        &termination.indicator,
        &report.timestamp,
        &report.matched_by,
    ]
    .into_iter()
    .flatten()
    {
        let _ = write!(words, ", {part}");
    }
    page.quote(&words);
    report.message.iter().for_each(|message| page.quote(message));
    report.top_frames.iter().for_each(|frame| page.quote(frame));
}

/// What is rarely there, what was left out, and what to do.
fn tail(page: &mut Page, result: &JobResult) {
    let survivors: Vec<String> =
        result.survivors.iter().map(|s| format!("{} (pid {})", s.command, s.pid)).collect();
    page.quoted("survivors, processes that could not be ended:", &survivors);
    let gaps: Vec<String> = result
        .gaps
        .iter()
        .map(|gap| format!("{}: {} bytes from {} on: {}", gap.stream, gap.bytes, gap.offset, gap.reason))
        .collect();
    page.list("gaps in the log:", &gaps);
    let artifacts: Vec<String> = result
        .artifacts
        .iter()
        .map(|artifact| {
            let executable = if artifact.executable { ", executable" } else { "" };
            format!("{} ({} bytes, blake3 {}{executable})", artifact.path, artifact.bytes, artifact.blake3)
        })
        .collect();
    page.quoted("artifacts:", &artifacts);
    if let Some(snapshot) = &result.snapshot {
        page.line(format_args!("snapshot {} of {} files", snapshot.id, snapshot.files));
        page.list("kept_back, because they look like secrets:", &snapshot.kept_back);
        page.list("changed_meanwhile:", &snapshot.changed_meanwhile);
        page.list("other than in the working tree:", &snapshot.notes);
    }
    if let Some(usage) = &result.usage {
        page.line(format_args!(
            "usage: {} s user, {} s system, {} bytes of memory",
            usage.user_secs, usage.system_secs, usage.max_rss_bytes
        ));
    }
    let mut about = Vec::new();
    for (name, value) in [
        ("created", &result.created_at),
        ("started", &result.started_at),
        ("finished", &result.finished_at),
        ("submitter", &result.submitter),
    ] {
        about.extend(value.as_ref().map(|value| format!("{name} {value}")));
    }
    if !result.labels.is_empty() {
        about.push(format!("labels {}", result.labels.join(", ")));
    }
    if !about.is_empty() {
        page.line(about.join(", "));
    }
    page.omitted(&result.omitted);
    page.list("next:", &result.next);
}

/// A value of one of the protocol's enums, as it is in JSON.
pub(super) fn json_word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    }
}
