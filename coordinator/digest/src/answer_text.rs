//! Formats an answer as text: one line with the verdict, then the cause, the findings and the
//! output. Text behind a bar comes from the job. All other text comes from the pool.

mod cause;
mod facts;
mod findings;
mod first_line;
mod page;

use buildpool_protocol::report::{JobResult, JobState, Omission};
use buildpool_protocol::shown::one_line;
pub(crate) use buildpool_protocol::shown::{counted, thousands};
use cause::{is_repeated, unquoted};
use facts::{details, facts};
use findings::{findings, pointers};
use first_line::headline;
pub use page::TextPage;
pub(crate) use page::lead;

/// Maximum length of the command in the first line, in characters.
pub const COMMAND_CHARS_MAX: usize = 100;
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
    if let Some(secs) = result.silent_secs.filter(|secs| *secs > 0) {
        page.line(format!("no output for {}", counted(secs, "second")));
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
