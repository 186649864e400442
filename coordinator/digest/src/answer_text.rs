//! Formats an answer as text: one line with the verdict, then the cause, the findings and the
//! output. Text behind a bar comes from the job. All other text comes from the pool.

use crate::verdict::{CHILD_CRASHED, NO_TEST_RAN};
use buildpool_protocol::outcome::CrashType;
use buildpool_protocol::report::{
    Cause, CrashReport, EARLIER_OUTPUT, Finding, FindingSummary, HIDDEN_TESTS_HEADING, JobResult, JobState,
    KnownFrom, Location, Omission, Severity, TestCounts, Verdict,
};
pub(crate) use buildpool_protocol::shown::{counted, thousands};
use buildpool_protocol::shown::{one_line, printable};
use std::fmt::{Display, Write};

/// Maximum length of the command in the first line, in characters.
pub const COMMAND_CHARS_MAX: usize = 100;
/// The same above a complete log, which often begins with the command.
const COMMAND_CHARS_BESIDE_LOG: usize = 24;
/// Maximum number of characters next to a complete log. Further pointers are left out, because the
/// log contains the lines.
const BESIDE_WHOLE_LOG_CHARS: usize = 190;

/// Minimum number of lines of a log with pointers.
const POINTED_LINES_MIN: usize = 12;

/// Options for the text of an answer.
#[derive(Clone, Copy, Debug)]
pub struct TextForm<'a> {
    /// Additional lines of the caller, below the first line.
    pub extra: &'a [String],
    /// Includes the job's output. A terminal that has streamed it leaves it out.
    pub output: bool,
    /// Includes times, submitter, snapshot and resource usage.
    pub details: bool,
    /// Names the worker of a job that did not pass. A pool with one worker leaves it out.
    pub worker: bool,
    /// Includes the cause. A caller whose own lines state it leaves it out.
    pub cause: bool,
}

impl Default for TextForm<'_> {
    fn default() -> Self {
        Self { extra: &[], output: true, details: false, worker: true, cause: true }
    }
}

/// Text builder whose lines are safe to print: control, bidirectional and zero-width characters are
/// escaped.
#[derive(Default)]
pub struct TextPage {
    text: String,
}

impl TextPage {
    /// Adds a line of the pool.
    pub fn line(&mut self, line: impl Display) {
        self.text.push_str(&one_line(&line.to_string()));
        self.text.push('\n');
    }

    /// Adds lines of the job, each behind a bar.
    pub fn quote(&mut self, text: &str) {
        let text = printable(text);
        for line in text.strip_suffix('\n').unwrap_or(&text).split('\n') {
            self.text.push('|');
            self.text.push_str(line);
            self.text.push('\n');
        }
    }

    /// Adds a line of the pool that ends with text of the job: `title|text`. Further lines are
    /// behind a bar.
    pub fn quote_after(&mut self, title: &str, text: &str) {
        self.text.push_str(&one_line(title));
        self.text.push(' ');
        self.quote(text);
    }

    /// Adds a title, then one line for each entry.
    pub fn list(&mut self, title: &str, entries: &[String]) {
        if !entries.is_empty() {
            self.line(title);
            entries.iter().for_each(|entry| self.line(format!("- {entry}")));
        }
    }

    /// Adds a title, then one quoted line for each entry of the job.
    pub fn quoted(&mut self, title: &str, entries: &[String]) {
        if !entries.is_empty() {
            self.line(title);
            entries.iter().for_each(|entry| self.quote(&one_line(entry)));
        }
    }

    /// Adds one finding: its id, the facts that its message lacks, then its lines.
    pub fn finding(&mut self, finding: &Finding, job: &str) {
        let mut title = lead(finding);
        if finding.recurrence > 1 {
            let _ = write!(title, " (×{})", finding.recurrence);
        }
        if finding.also_in_passing_jobs {
            title.push_str(" (also in passing runs)");
        }
        if finding.job != job && !finding.job.is_empty() {
            let _ = write!(title, " job {}", finding.job);
        }
        if finding.pre_context.is_empty() {
            self.quote_after(&title, &finding.message);
        } else {
            self.line(&title);
            finding.pre_context.iter().for_each(|line| self.quote(line));
            self.quote(&finding.message);
        }
        finding.post_context.iter().for_each(|line| self.quote(line));
    }

    /// Adds the line of a finding that is not expanded.
    pub fn finding_line(&mut self, finding: &FindingSummary, job: &str) {
        let of = match finding.job.as_str() {
            "" => String::new(),
            of if of == job => String::new(),
            of => format!(" job {of}"),
        };
        self.quote_after(&format!("{}{of}", finding.id), &finding.message);
    }

    /// Adds the counts of omitted parts. Each command that returns parts stands behind them, once.
    pub fn omitted(&mut self, cuts: &[Omission]) {
        let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
        for omission in cuts {
            match groups.iter_mut().find(|(get, _)| *get == omission.get) {
                Some((_, parts)) => parts.push(cut(omission)),
                None => groups.push((&omission.get, vec![cut(omission)])),
            }
        }
        let named = |(get, parts): &(&str, Vec<String>)| match (*get, parts.join(", ")) {
            ("", parts) => parts,
            (get, parts) => format!("{parts}: `{get}`"),
        };
        if !groups.is_empty() {
            self.line(format!("not shown: {}", groups.iter().map(named).collect::<Vec<_>>().join("; ")));
        }
    }

    /// Adds suggested commands.
    pub fn next(&mut self, calls: &[String]) {
        calls.iter().for_each(|call| self.line(format!("next: {call}")));
    }

    /// Number of characters so far.
    fn chars(&self) -> usize {
        self.text.chars().count()
    }

    /// Returns the text.
    pub fn done(self) -> String {
        self.text
    }
}

/// Formats an answer with the default options.
pub fn text(result: &JobResult) -> String {
    text_as(result, &TextForm::default())
}

/// Formats an answer with the given options.
pub fn text_as(result: &JobResult, form: &TextForm<'_>) -> String {
    let mut page = TextPage::default();
    page.line(headline(result, form));
    form.extra.iter().for_each(|line| page.line(line));
    status(&mut page, result, form.cause);
    setup(&mut page, result, form.details);
    running(&mut page, result);
    match (result.success, result.complete_log) {
        (true, _) => {}
        (false, true) => pointers(&mut page, result),
        (false, false) => findings(&mut page, result),
    }
    if result.warnings.count > 0
        && !result.complete_log
        && (!result.success || !result.warnings.shown.is_empty())
    {
        page.line(counted(result.warnings.count, "warning"));
        result.warnings.shown.iter().for_each(|warning| page.quote(warning));
    }
    if form.output {
        output(&mut page, result);
    }
    facts(&mut page, result, form.details);
    if form.details {
        details(&mut page, result);
    }
    // A one-line answer lists no omitted parts: it leaves out only the output of a passed test run.
    let shows_output = result.stdout.is_some() || result.stderr.is_some() || result.filtered_output.is_some();
    if form.output && (!result.success || shows_output) {
        let short = |cut: &Omission| Omission { get: with_short_id(&cut.get, result), ..cut.clone() };
        page.omitted(&result.omitted.iter().map(short).collect::<Vec<_>>());
    }
    page.next(&result.next.iter().map(|call| with_short_id(call, result)).collect::<Vec<_>>());
    page.done()
}

/// Returns a command or call with the short id of the job.
fn with_short_id(command: &str, result: &JobResult) -> String {
    match result.job_id.as_str() {
        "" => command.to_owned(),
        id => command.replace(id, result.shown_id()),
    }
}

/// First line: verdict, counts, time, command and job.
fn headline(result: &JobResult, form: &TextForm<'_>) -> String {
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

/// Adds the state of the job and the reason of its end.
fn status(page: &mut TextPage, result: &JobResult, shows_cause: bool) {
    if let Some(reason) = &result.fallback {
        page.line(format!("fallback: {reason}"));
    }
    if let Some(waiting) = &result.waiting {
        let place = waiting.position.map(|position| format!(", position {position}")).unwrap_or_default();
        let estimate = waiting.estimate_secs.map(|secs| format!(", begins in about {secs} s"));
        let since =
            if waiting.since.is_empty() { String::new() } else { format!(", since {}", waiting.since) };
        page.line(format!("waiting: {}{place}{since}{}", waiting.reason, estimate.unwrap_or_default()));
    }
    if result.state == JobState::Running && !result.connected {
        page.line("connected: false; the worker can't be reached now, the job goes on");
    }
    if let Some(cause) = result.cause.as_ref().filter(|cause| shows_cause && !is_repeated(cause, result)) {
        page.line(format!("cause: {}", unquoted(cause, result)));
    }
    for earlier in &result.earlier_attempts {
        page.line(format!(
            "attempt {} on {} did not count: {}",
            earlier.attempt, earlier.worker, earlier.reason
        ));
    }
}

/// Adds the progress of a running job: its current test, time without output, and last lines.
fn running(page: &mut TextPage, result: &JobResult) {
    if let Some(test) = &result.running_test {
        page.quote_after("running test:", &one_line(test));
    }
    if let Some(secs) = result.silent_secs {
        page.line(format!("last output: {} ago", counted(secs, "second")));
    }
    result.last_lines.iter().for_each(|line| page.quote(line));
}

/// Adds the setup of the workspace: its log if present, otherwise one line if times are shown.
fn setup(page: &mut TextPage, result: &JobResult, details: bool) {
    let Some(setup) = &result.setup else { return };
    let command = crate::text::clip_chars(setup.command.trim(), COMMAND_CHARS_MAX);
    let how = match (setup.ran, setup.duration_secs) {
        (true, Some(secs)) => format!("ran for {secs:.1} s, {} of output", counted(setup.log_bytes, "byte")),
        _ => "did not run: its inputs are unchanged in this workspace".to_owned(),
    };
    if setup.log.is_some() || details {
        page.line(format!("setup (`{command}`): {how}"));
    }
    setup.log.iter().filter(|log| !log.is_empty()).for_each(|log| page.quote(log));
}

/// Text of a cause without the exit code, which the first line has, and without its quoted line, if
/// the complete log has that line.
fn unquoted<'a>(cause: &'a Cause, result: &JobResult) -> &'a str {
    let code = result.exit_code.map(|code| format!("The command exited with code {code}. "));
    if let Some(rest) = code.and_then(|code| cause.text.strip_prefix(&code)) {
        return rest;
    }
    let quoted = log_lines(result).filter(|line| cause.text.ends_with(line)).max_by_key(|line| line.len());
    let head = quoted.and_then(|line| cause.text.strip_suffix(line)?.strip_suffix(": "));
    head.unwrap_or(&cause.text)
}

/// Shown lines of the log, in the form in which a cause quotes them: without the mark that pytest
/// puts before the lines of an error.
fn log_lines(result: &JobResult) -> impl Iterator<Item = &str> {
    let log = result.filtered_output.as_deref().unwrap_or_default();
    log.lines().map(|line| line.strip_prefix("E  ").unwrap_or(line).trim()).filter(|line| !line.is_empty())
}

/// Returns true if the answer already contains the cause: in its first line, in a finding, or in
/// the shown lines of the log.
fn is_repeated(cause: &Cause, result: &JobResult) -> bool {
    if matches!(cause.known_from, KnownFrom::Pool | KnownFrom::ShellConvention | KnownFrom::CrashReport)
        || cause.text.contains(" while `")
        || cause.text.starts_with(NO_TEST_RAN)
        || result.exit_code == Some(0)
    {
        return false;
    }
    if result.verdict == Some(Verdict::Crashed) {
        // The first line has the type of the crash, and the log has the line.
        return cause.text.starts_with(CHILD_CRASHED)
            && log_lines(result).any(|line| cause.text.ends_with(line));
    }
    if result.verdict != Some(Verdict::Failed) {
        return false;
    }
    // The location of the finding stands behind the line.
    let location = result.tier_1_findings.first().and_then(|finding| finding.location.as_ref());
    let without_place = location.and_then(|location| {
        let (line, place) = cause.text.rsplit_once(" (")?;
        (result.complete_log && place.contains(&location.file)).then_some(line)
    });
    let said = without_place.unwrap_or(&cause.text);
    let ends_with = |line: &str| said.ends_with(line);
    let is_count = result.tests.as_ref().is_some_and(|tests| tests.failed > 0)
        && cause.text.ends_with(&format!("; exit code {}.", result.exit_code.unwrap_or_default()))
        && matches!(cause.known_from, KnownFrom::Marker | KnownFrom::Report);
    let first = result.tier_1_findings.first().and_then(|finding| finding.message.lines().next());
    let is_in_log = log_lines(result).any(ends_with);
    is_count || is_in_log || first.is_some_and(|line| !line.is_empty() && ends_with(line.trim()))
}

/// Adds findings next to a complete log: those from reports, and pointers into the log if space
/// remains.
fn pointers(page: &mut TextPage, result: &JobResult) {
    let is_in_log = |finding: &&Finding| finding.stream.is_some();
    let (in_log, unseen): (Vec<_>, Vec<_>) = result.tier_1_findings.iter().partition(is_in_log);
    if !unseen.is_empty() {
        page.line(HIDDEN_TESTS_HEADING);
    }
    unseen.iter().for_each(|finding| page.finding(finding, &result.job_id));
    let rows = result.filtered_output.as_deref().unwrap_or_default().lines().count();
    if rows < POINTED_LINES_MIN {
        return;
    }
    for finding in in_log {
        let title = finding.location.as_ref().map(place).unwrap_or_default();
        let message = finding.message.lines().next().unwrap_or_default();
        let is_named = title.is_empty() || message.contains(&title);
        let line = if is_named { message.to_owned() } else { format!("{title}: {message}") };
        if page.chars() + rows + line.chars().count() + 3 > BESIDE_WHOLE_LOG_CHARS {
            return;
        }
        page.quote_after("-", &line);
    }
}

fn findings(page: &mut TextPage, result: &JobResult) {
    let (hidden, shown): (Vec<_>, Vec<_>) =
        result.tier_1_findings.iter().partition(|finding| finding.is_hidden_test());
    shown.iter().for_each(|finding| page.finding(finding, &result.job_id));
    if !hidden.is_empty() {
        page.line(HIDDEN_TESTS_HEADING);
    }
    hidden.iter().for_each(|finding| page.finding(finding, &result.job_id));
    result.other_findings.iter().for_each(|finding| page.finding_line(finding, &result.job_id));
    page.quoted("failed tests:", &result.failed_tests);
}

/// Id of a finding, and the severity, location and test that its message lacks.
pub(crate) fn lead(finding: &Finding) -> String {
    let mut out = finding.id.clone();
    if finding.severity == Severity::Warning && !finding.message.to_ascii_lowercase().contains("warn") {
        out.push_str(" warning");
    }
    if let Some(location) =
        finding.location.as_ref().filter(|location| !finding.message.contains(&location.file))
    {
        let _ = write!(out, " at {}", place(location));
    }
    if let Some(test) = finding.test.as_ref().filter(|test| !finding.message.contains(test.as_str())) {
        let _ = write!(out, " in {test}");
    }
    out
}

fn place(location: &Location) -> String {
    let mut text = location.file.clone();
    for number in [location.line, location.column].into_iter().flatten() {
        let _ = write!(text, ":{number}");
    }
    text
}

fn output(page: &mut TextPage, result: &JobResult) {
    if let Some(text) = result.filtered_output.as_deref().filter(|text| !text.is_empty()) {
        page.quote(text);
    }
    let streams = [("stderr:", &result.stderr), ("stdout:", &result.stdout)];
    let shown = || streams.iter().filter_map(|(name, text)| Some((name, text.as_deref()?)));
    let shown: Vec<_> = shown().filter(|(_, text)| !text.is_empty()).collect();
    let is_named =
        shown.len() > 1 || shown.iter().any(|(name, _)| **name == "stderr:") || !result.complete_log;
    for (name, text) in shown {
        if is_named {
            page.line(name);
        }
        page.quote(text);
    }
}

/// Adds facts that are rarely present.
fn facts(page: &mut TextPage, result: &JobResult, details: bool) {
    result.crash_reports.iter().for_each(|report| crash_report(page, report));
    result.notes.iter().for_each(|note| page.line(format!("note: {note}")));
    for gap in &result.gaps {
        let bytes = counted(gap.bytes, "byte");
        page.line(format!("gap: {bytes} of {} missing at {}: {}", gap.stream, gap.offset, gap.reason));
    }
    for survivor in &result.survivors {
        page.line(format!("still running: {} (pid {})", survivor.command, survivor.pid));
    }
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
        page.list("kept_back, because they look like secrets:", &snapshot.kept_back);
        if details {
            page.list(
                "left_behind, because git ignores it or it leads out of the tree:",
                &snapshot.left_behind,
            );
        }
        page.list("changed_meanwhile:", &snapshot.changed_meanwhile);
        page.list("the snapshot differs from the working tree:", &snapshot.notes);
    }
}

fn crash_report(page: &mut TextPage, report: &CrashReport) {
    let mut words = format!("{}: {}", report.file_path, report.process_name);
    if let Some(pid) = report.pid {
        let _ = write!(words, " (pid {pid})");
    }
    let termination = report.termination.clone().unwrap_or_default();
    let code = termination.code.map(|code| code.to_string());
    let parts = [
        &report.process_path,
        &report.exception_type,
        &report.signal,
        &termination.namespace,
        &code,
        &termination.indicator,
        &report.timestamp,
        &report.matched_by,
    ];
    parts.into_iter().flatten().for_each(|part| {
        let _ = write!(words, ", {part}");
    });
    page.quote_after("crash report:", &one_line(&words));
    report.message.iter().for_each(|message| page.quote(message));
    report.top_frames.iter().for_each(|frame| page.quote(frame));
}

fn details(page: &mut TextPage, result: &JobResult) {
    let mut about = vec![format!("job {}", result.job_id), format!("attempt {}", result.attempt)];
    if let Some(worker) = result.worker.as_ref().filter(|_| result.success) {
        about.push(format!("worker {worker}"));
    }
    if let Some(build) = &result.request_id {
        about.push(format!("part of {build}"));
    }
    if let Some(secs) = result.queued_secs {
        about.push(format!("queued {secs:.1} s"));
    }
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
    if !result.directory.is_empty() {
        about.push(format!("directory {}", result.directory));
    }
    if let Some(snapshot) = &result.snapshot {
        about.push(format!("snapshot {} of {}", snapshot.id, counted(snapshot.files, "file")));
    }
    if let Some(usage) = &result.usage {
        about.push(format!(
            "usage {:.2} s user, {:.2} s system, {} bytes of memory",
            usage.user_secs, usage.system_secs, usage.max_rss_bytes
        ));
    }
    page.line(about.join(", "));
}

/// Describes an omitted part: `231 lines of stdout`, `1 other finding`.
fn cut(omission: &Omission) -> String {
    if omission.lines == 0 && omission.bytes > 0 {
        let what = omission.what.replace('_', " ");
        return format!("{} of {what}", counted(omission.bytes, "byte"));
    }
    let lines = counted(omission.lines, "line");
    match omission.what.as_str() {
        "stdout" | "stderr" => format!("{lines} of {}", omission.what),
        "filtered_output" => format!("{lines} of the filtered output"),
        EARLIER_OUTPUT => format!("{lines} of earlier output"),
        crate::render::ORIGINAL => "the original of this compressed text".to_owned(),
        list => counted(omission.lines, &list.trim_end_matches('s').replace('_', " ")),
    }
}
