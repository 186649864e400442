//! Renders a digest into an answer within a budget. Failures come first, then summary lines of
//! tools, then the last lines of the log.

mod budget;
mod cut;
mod findings;
mod groups;
mod output;
mod text;

use crate::compress;
use crate::digest::Digest;
use crate::limits::{NEXT_MAX, WHOLE_LOG_CHARS};
use crate::template::RAW;
use budget::{Allowance, Budget, Seen, allowance};
use buildpool_protocol::limits::TIER_1_FINDINGS_MAX;
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::{JobResult, Omission, Verdict, Warnings};
use buildpool_protocol::spec::{TemplateSpec, Verbosity};
use cut::cut_end;
pub(crate) use cut::is_rule;

/// Logs of at most this many bytes are never compressed.
const COMPRESSED_FROM_BYTES: u64 = 8_000;
/// Name of the `omitted` entry for the original text of a compressed answer.
pub(crate) const ORIGINAL: &str = "original";
/// Maximum length of a note, in characters.
const NOTE_CHARS_MAX: usize = 400;
/// Notes that take at most this part of the verbosity's budget come before the findings.
const NOTES_FIRST_PART: usize = 5;
/// Maximum number of attempts to fit an answer, with less text each time.
const FITTINGS_MAX: usize = 6;
/// Minimum reduction of the budget if an answer does not fit.
const FITTING_STEP: Budget = Budget { lines: 1, chars: 16 };
/// Share of the estimated budget that is left after an answer's JSON form did not fit, in percent.
const JSON_STEP_PERCENT: usize = 90;
/// Maximum share of a large log that `minimal` shows for a failure, in percent.
const MINIMAL_PERCENT: u64 = 15;
/// Minimum size of a large log, in bytes.
const LARGE_LOG_BYTES: u64 = 20_000;
/// Characters reserved for each finding if there are few findings.
const FINDING_CHARS: usize = 640;
/// Characters reserved for the pool's fields: worker and duration.
const POOL_CHARS: usize = 120;

impl Digest {
    /// Fills all fields of an answer that come from the digest. `characters_max` limits the answer
    /// further than the verbosity's own budget. A template's view replaces the text of both
    /// streams.
    pub fn render(
        &self,
        verbosity: Verbosity,
        template: Option<&TemplateSpec>,
        characters_max: Option<usize>,
        into: &mut JobResult,
    ) {
        self.render_form(verbosity, template, characters_max, false, into);
    }

    /// Renders an answer whose text form fits. `is_json`: its JSON form is used.
    fn render_form(
        &self,
        verbosity: Verbosity,
        template: Option<&TemplateSpec>,
        characters_max: Option<usize>,
        is_json: bool,
        into: &mut JobResult,
    ) {
        let (lines, chars) = verbosity.budget();
        // A short log is shown whole, also if its lines are short (SPEC section 4, "What an answer shows", rule 2).
        let lines = if self.whole.is_some() { lines.max(WHOLE_LOG_CHARS) } else { lines };
        let chars = chars.min(characters_max.unwrap_or(usize::MAX));
        let pool_chars = if self.options.job.is_empty() { 0 } else { POOL_CHARS };
        let chars = chars.min(self.characters_worth(verbosity));
        let most = Budget { lines, chars: chars.saturating_sub(pool_chars) };
        let mut budget = most;
        for _ in 0..FITTINGS_MAX {
            self.render_within(budget, verbosity, template, is_json, into);
            let text = crate::answer_text::text(into);
            let lines = text.lines().count().saturating_sub(most.lines);
            let chars = text.chars().count().saturating_sub(most.chars);
            if lines == 0 && chars == 0 {
                return;
            }
            if lines > 0 {
                budget.lines = budget.lines.saturating_sub(lines + FITTING_STEP.lines);
            }
            if chars > 0 {
                budget.chars = budget.chars.saturating_sub(chars + FITTING_STEP.chars);
            }
        }
    }

    /// Fills all fields of an answer for its JSON form, which has the same limits. Each finding in it has
    /// fields beside its text, so it holds fewer findings than the text. `reserved` characters are left
    /// for fields that the caller adds.
    pub fn render_json(
        &self,
        verbosity: Verbosity,
        template: Option<&TemplateSpec>,
        characters_max: Option<usize>,
        reserved: usize,
        into: &mut JobResult,
    ) {
        let most = verbosity.budget().1.min(characters_max.unwrap_or(usize::MAX)).saturating_sub(reserved);
        let mut chars = most;
        for _ in 0..FITTINGS_MAX {
            self.render_form(verbosity, template, Some(chars), true, into);
            let length = json_chars(into);
            if length <= most {
                return;
            }
            chars = chars.min(self.characters_worth(verbosity)) * most / length * JSON_STEP_PERCENT / 100;
        }
        // The text of many findings can be shorter than their fields.
        let whole = into.tier_1_findings.len();
        let get = self.job_call("--verbosity full");
        while json_chars(into) > most && into.tier_1_findings.len() > 1 {
            into.tier_1_findings.pop();
            let what = "tier_1_findings".to_owned();
            into.omitted.retain(|omission| omission.what != what);
            let lines = (whole - into.tier_1_findings.len()) as u64;
            into.omitted.push(Omission { what, lines, bytes: 0, get: get.clone() });
        }
    }

    fn render_within(
        &self,
        budget: Budget,
        verbosity: Verbosity,
        template: Option<&TemplateSpec>,
        is_json: bool,
        into: &mut JobResult,
    ) {
        self.facts_into(into);
        let mut page = Page {
            digest: self,
            allowance: allowance(verbosity),
            verbosity,
            budget,
            reserved: Budget::default(),
            seen: Seen::default(),
            shown: Default::default(),
            is_json,
            is_view: false,
            whole_end: false,
            is_compressed: false,
            into,
        };
        page.clear();
        let template = template.or(self.options.template.as_ref());
        if let (None, Some(ends)) = (template, &self.ends) {
            page.notes(false);
            page.passed(ends);
            return;
        }
        if let (None, Some(whole)) = (template, &self.whole) {
            page.notes(false);
            if page.whole_log(whole) {
                return;
            }
            page.clear();
            page.budget = budget;
        }
        page.reserve_last_word();
        // Short notes first: many findings may take the whole budget, and a note may state that the log is wrong.
        let are_notes_short = page.notes_chars() <= verbosity.budget().1 / NOTES_FIRST_PART;
        if are_notes_short {
            page.notes(true);
        }
        page.findings();
        if !are_notes_short {
            page.notes(false);
        }
        match template {
            Some(template) if template.name == RAW => page.raw(),
            Some(template) => page.template(template),
            None => page.text(),
        }
        page.omissions();
        page.next();
    }

    /// Maximum number of characters of an answer. For a failure with `minimal` it is a part of a
    /// large log's size.
    fn characters_worth(&self, verbosity: Verbosity) -> usize {
        if verbosity != Verbosity::Minimal || self.passed() {
            return usize::MAX;
        }
        let bytes: u64 = self.counts.iter().map(|(_, bytes)| bytes).sum();
        let part = bytes * MINIMAL_PERCENT / 100;
        let needed = match self.findings.len() {
            0..=TIER_1_FINDINGS_MAX => self.findings.len() * FINDING_CHARS,
            _ => 0,
        };
        if bytes < LARGE_LOG_BYTES {
            usize::MAX
        } else {
            usize::try_from(part).unwrap_or(usize::MAX).max(needed)
        }
    }

    fn facts_into(&self, into: &mut JobResult) {
        into.verdict = Some(self.verdict);
        into.success = self.success;
        into.exit_code = self.exit_code;
        into.process_state = self.process_state.clone();
        into.process_crashed = self.process_crashed;
        into.crash_type = self.crash_type;
        into.cause = self.cause.clone();
        into.crash_indicators = self.crash_indicators;
        into.crash_reports = self.crash_reports.clone();
        into.silent_failure = self.silent_failure;
        into.tests = self.tests.clone();
        into.survivors = self.survivors.clone();
        into.gaps = self.gaps.clone();
    }

    /// Returns the text of an answer for people and agents. It is the same as
    /// [`text`](crate::text()).
    pub fn text(result: &JobResult) -> String {
        crate::answer_text::text(result)
    }

    fn roots(&self) -> &[String] {
        &self.options.roots
    }

    /// Command that returns a part of the same answer.
    fn job_call(&self, rest: &str) -> String {
        match (self.options.job.as_str(), self.exit_code, &self.process_state.signal_name) {
            ("", Some(code), _) => format!("buildpool digest --exit-code {code} {rest} < LOG"),
            ("", None, Some(signal)) => format!("buildpool digest --signal {signal} {rest} < LOG"),
            ("", None, None) => format!("buildpool digest {rest} < LOG"),
            (job, ..) => format!("buildpool job {job} {rest}"),
        }
    }

    fn passed(&self) -> bool {
        self.verdict == Verdict::Passed
    }
}

/// Length of an answer's JSON form, in characters.
fn json_chars(result: &JobResult) -> usize {
    result.to_json().to_string().chars().count()
}

/// The part of a stream that an answer shows.
#[derive(Clone, Copy, Default)]
struct Shown {
    lines: u64,
    bytes: u64,
    /// Bytes left out of shown lines.
    cut: u64,
}

impl Shown {
    fn add(&mut self, line: &str, cut: u64) {
        self.lines += 1;
        self.bytes += line.len() as u64 + 1;
        self.cut += cut;
    }
}

/// An answer while it is rendered.
struct Page<'a> {
    digest: &'a Digest,
    allowance: Allowance,
    verbosity: Verbosity,
    budget: Budget,
    /// Part of the budget reserved for the last summary line of a tool.
    reserved: Budget,
    seen: Seen,
    /// The shown part of each stream.
    shown: [Shown; 2],
    /// The answer's JSON form is used.
    is_json: bool,
    /// The answer has the output of a template, which counts the rest of both streams.
    is_view: bool,
    /// The shown part of a stream is its end, without gaps.
    whole_end: bool,
    /// Whether compression changed a line.
    is_compressed: bool,
    into: &'a mut JobResult,
}

impl Page<'_> {
    fn clear(&mut self) {
        self.into.tier_1_findings.clear();
        self.into.other_findings.clear();
        self.into.failed_tests.clear();
        self.into.omitted.clear();
        self.into.next.clear();
        self.into.notes.clear();
        self.into.stdout = None;
        self.into.stderr = None;
        self.into.filtered_output = None;
        self.into.complete_log = false;
        self.into.warnings = Warnings { count: self.digest.warnings_total, shown: Vec::new() };
    }

    fn omit(&mut self, what: &str, lines: u64, bytes: u64, get: String) {
        self.into.omitted.push(Omission { what: what.to_owned(), lines, bytes, get });
    }

    /// Length of the notes that this verbosity allows, in characters.
    fn notes_chars(&self) -> usize {
        let notes = self.digest.notes.iter().take(self.allowance.notes);
        notes.map(|note| note.chars().count().min(NOTE_CHARS_MAX)).sum()
    }

    /// Adds notes about reports and crash files. If they come first, all that the verbosity allows.
    fn notes(&mut self, is_first: bool) {
        for note in self.digest.notes.iter().take(self.allowance.notes) {
            let note = cut_end(note, NOTE_CHARS_MAX);
            if !self.budget.take(&note) && !is_first {
                break;
            }
            self.into.notes.push(note);
        }
        let left_out = self.digest.notes.len() - self.into.notes.len();
        if left_out > 0 && self.verbosity != Verbosity::Full {
            let get = self.job_call("--verbosity full");
            self.omit("notes", left_out as u64, 0, get);
        }
    }

    /// Returns true if this answer may be compressed (SPEC section 4, "What an answer shows", rule
    /// 4).
    fn may_compress(&self) -> bool {
        !self.digest.passed()
            && self.digest.counts.iter().map(|(_, bytes)| bytes).sum::<u64>() > COMPRESSED_FROM_BYTES
    }

    /// Compresses lines that belong together, if compression is allowed.
    fn compressed(&mut self, lines: &[String]) -> Vec<String> {
        if !self.may_compress() {
            return lines.to_vec();
        }
        let compressed = compress::lines(lines, self.digest.roots());
        self.is_compressed |= compressed != lines;
        compressed
    }

    /// Compresses each line separately, if compression is allowed.
    fn compressed_each<S: AsRef<str>>(&mut self, lines: &[S]) -> Vec<String> {
        if !self.may_compress() {
            return lines.iter().map(|line| line.as_ref().to_owned()).collect();
        }
        let compressed = compress::each(lines, self.digest.roots());
        self.is_compressed |= compressed.iter().zip(lines).any(|(short, line)| short != line.as_ref());
        compressed
    }

    /// Compresses one line, if compression is allowed.
    fn compressed_line(&mut self, line: &str) -> String {
        if !self.may_compress() {
            return line.to_owned();
        }
        let compressed = compress::line(line, self.digest.roots());
        self.is_compressed |= compressed != line;
        compressed
    }

    fn omissions(&mut self) {
        if self.is_compressed {
            let get = self.logs_call();
            self.omit(ORIGINAL, 0, 0, get);
        }
        if self.is_view {
            return;
        }
        let is_cut = |stream: &Stream| {
            let shown = self.shown[stream.index()];
            self.digest.counts[stream.index()].0 > shown.lines || shown.cut > 0
        };
        // One call returns both streams.
        let is_one_call = self.is_compressed || Stream::ALL.iter().all(is_cut);
        for stream in Stream::ALL {
            let (lines, bytes) = self.digest.counts[stream.index()];
            let shown = self.shown[stream.index()];
            let hidden = lines.saturating_sub(shown.lines);
            if hidden + shown.cut > 0 {
                let until = if self.whole_end && shown.cut == 0 { hidden } else { lines };
                let get = if is_one_call { self.logs_call() } else { self.lines_call(stream, until) };
                let left = if hidden == 0 { shown.cut } else { bytes.saturating_sub(shown.bytes) };
                self.omit(stream.name(), hidden, left, get);
            }
        }
    }

    fn job_call(&self, rest: &str) -> String {
        self.digest.job_call(rest)
    }

    /// Command that returns the first lines of a stream, up to this one.
    fn lines_call(&self, stream: Stream, until: u64) -> String {
        match self.digest.options.job.as_str() {
            "" => format!("sed -n 1,{until}p LOG"),
            job => format!("buildpool logs {job} --stream {stream}"),
        }
    }

    /// Command that returns both streams completely.
    fn logs_call(&self) -> String {
        match self.digest.options.job.as_str() {
            "" => format!("sed -n 1,{}p LOG", self.digest.counts.iter().map(|(lines, _)| lines).sum::<u64>()),
            job => format!("buildpool logs {job} --stream interleaved"),
        }
    }

    /// Sets at most [`NEXT_MAX`] suggested commands.
    fn next(&mut self) {
        let digest = self.digest;
        let mut next = Vec::new();
        if !digest.passed() && !digest.options.job.is_empty() {
            let job = &digest.options.job;
            if let Some(finding) = self.into.tier_1_findings.first()
                && finding.message.contains("… ")
            {
                next.push(format!("buildpool job {job} --finding {}", finding.id));
            }
            if self.into.tier_1_findings.is_empty() {
                if digest.counts.iter().any(|(lines, _)| *lines > 0) && !self.into.omitted.is_empty() {
                    next.push(format!("buildpool logs {job} --tail 200"));
                }
            } else if self.verbosity == Verbosity::Minimal && !self.into.other_findings.is_empty() {
                next.push(format!("buildpool job {job} --verbosity normal"));
            }
            if matches!(digest.verdict, Verdict::Inconclusive | Verdict::Crashed) {
                next.push(format!("buildpool job {job} --explain"));
            }
        }
        next.truncate(NEXT_MAX);
        self.into.next = next;
    }
}
