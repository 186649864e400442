//! A digest into an answer, within a budget that is spent on failures first, then on tools' last words, then on the last
//! lines.

use crate::compress;
use crate::digest::Digest;
use crate::found::Fnv;
use crate::limits::NEXT_MAX;
use crate::noise::is_noise;
use crate::rules::Kind;
use crate::template::{Capture, Filtered, RAW};
use crate::text::{TailLine, clip_chars};
use crate::tier::Ranked;
use buildpool_protocol::limits::{POST_CONTEXT_LINES, PRE_CONTEXT_LINES, TIER_1_FINDINGS_MAX};
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::{Finding, FindingSummary, JobResult, Omission, Severity, Verdict, Warnings};
use buildpool_protocol::spec::{TemplateSpec, Verbosity};
use std::collections::BTreeSet;

/// What a verbosity allows beside its budget.
struct Allowance {
    /// Of ten parts of the characters, those that findings may use.
    findings_tenths: usize,
    message_lines: usize,
    pre: usize,
    post: usize,
    /// Context is shown for at most this many findings.
    context_findings: usize,
    /// Most findings in a line each.
    other_findings: usize,
    /// Longest such line, in characters.
    one_liner: usize,
    summary_lines: usize,
    warnings: usize,
    notes: usize,
    stderr_lines: usize,
    stdout_lines: usize,
}

const fn allowance(verbosity: Verbosity) -> Allowance {
    match verbosity {
        Verbosity::Minimal => Allowance {
            findings_tenths: 9,
            message_lines: 14,
            pre: 1,
            post: 1,
            context_findings: 3,
            other_findings: 100,
            one_liner: 180,
            summary_lines: 6,
            warnings: 0,
            notes: 6,
            stderr_lines: 15,
            stdout_lines: 15,
        },
        Verbosity::Normal => Allowance {
            findings_tenths: 7,
            message_lines: 40,
            pre: PRE_CONTEXT_LINES,
            post: POST_CONTEXT_LINES,
            context_findings: 6,
            other_findings: 120,
            one_liner: 320,
            summary_lines: 25,
            warnings: 20,
            notes: 20,
            stderr_lines: 100,
            stdout_lines: 50,
        },
        Verbosity::Full => Allowance {
            findings_tenths: 5,
            message_lines: 120,
            pre: PRE_CONTEXT_LINES,
            post: POST_CONTEXT_LINES,
            context_findings: TIER_1_FINDINGS_MAX,
            other_findings: 400,
            one_liner: 400,
            summary_lines: 60,
            warnings: 400,
            notes: 200,
            stderr_lines: usize::MAX,
            stdout_lines: usize::MAX,
        },
    }
}

/// A log this short is shown whole when it did not pass: lines and characters.
const SHORT_LOG: (usize, usize) = (80, 3_400);
/// The output of a command that passed is shown even in `minimal` when it is this short: lines and characters.
const SHORT_ANSWER: (usize, usize) = (20, 1_000);

/// Warnings among the findings of `minimal`.
const MINIMAL_WARNINGS: usize = 3;
/// A finding as sure as this, in percent, needs no context in `minimal`.
const SURE_ENOUGH: u8 = 85;
/// A finding's line in `minimal` when not all of them fit, in characters.
const TIGHT_LINE_CHARS: usize = 70;
/// Longest remark, in characters.
const NOTE_CHARS_MAX: usize = 400;
/// What such a line has beside its place, in characters.
const TIGHT_MESSAGE_CHARS: usize = 34;
/// The same for the first finding of a sort.
const NEW_SORT_CHARS: usize = 140;
/// Characters of a finding's id and what separates it.
const ID_CHARS: usize = 10;
/// Least characters that say what a finding is about.
const KEY_CHARS_MIN: usize = 40;
/// Lines of an answer that findings leave to tools' last words.
const OTHER_LINES: usize = 10;
/// Least characters of an expanded finding.
const EXPANDED_CHARS_MIN: usize = 100;
/// Characters that an expanded finding gets before findings that do not all fit anyway.
const EXPANDED_CHARS_WANTED: usize = 165;

/// Lines and characters that are left.
#[derive(Clone, Copy)]
struct Budget {
    lines: usize,
    chars: usize,
}

impl Budget {
    fn take(&mut self, text: &str) -> bool {
        let (lines, chars) = (text.split('\n').count(), text.chars().count() + 1);
        if lines > self.lines || chars > self.chars {
            return false;
        }
        self.lines -= lines;
        self.chars -= chars;
        true
    }
}

/// Lines that an answer already has, so that none is shown twice; and those of them that are cut from their message.
#[derive(Default)]
struct Seen(BTreeSet<u64>, BTreeSet<u64>);

impl Seen {
    fn key(line: &str) -> u64 {
        let mut hasher = Fnv::default();
        let stamp = crate::text::stamp_length(line.as_bytes());
        hasher.text(line.get(stamp..).unwrap_or(line).trim());
        hasher.0
    }

    fn add(&mut self, line: &str) {
        self.0.insert(Self::key(line));
    }

    /// Lines of a finding, of which those in the text are shown and the others are told of.
    fn add_message(&mut self, lines: &[String], shown: &str) {
        let shown: BTreeSet<&str> = shown.lines().map(str::trim).collect();
        for line in lines {
            self.add(line);
            if !shown.contains(line.trim()) && !shown.contains(compress::line(line, &[]).trim()) {
                self.1.insert(Self::key(line));
            }
        }
    }

    /// Whether a line is not there word for word.
    fn lacks(&self, line: &str) -> bool {
        !self.has(line) || self.1.contains(&Self::key(line))
    }

    fn has(&self, line: &str) -> bool {
        self.0.contains(&Self::key(line))
    }
}

impl Digest {
    /// Fills every field of an answer that comes from the digest. `characters_max` is what the reader can take, when that
    /// is less than the verbosity's own budget. With a template, its view takes the place of both streams' text.
    pub fn render(
        &self,
        verbosity: Verbosity,
        template: Option<&TemplateSpec>,
        characters_max: Option<usize>,
        into: &mut JobResult,
    ) {
        self.facts_into(into);
        let (lines, chars) = verbosity.budget();
        let budget = Budget { lines, chars: chars.min(characters_max.unwrap_or(usize::MAX)) };
        let mut page = Page {
            digest: self,
            allowance: allowance(verbosity),
            verbosity,
            budget,
            seen: Seen::default(),
            shown: [0, 0],
            into,
        };
        page.clear();
        page.findings();
        page.notes();
        match template.or(self.options.template.as_ref()) {
            Some(template) if template.name == RAW => page.raw(),
            Some(template) => page.template(template),
            None => page.text(),
        }
        page.omissions(template);
        page.next();
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

    /// The human and agent text of an answer; the same as [`text`](crate::text()).
    pub fn text(result: &JobResult) -> String {
        crate::view::text(result)
    }

    fn roots(&self) -> &[String] {
        &self.options.roots
    }

    fn passed(&self) -> bool {
        self.verdict == Verdict::Passed
    }
}

/// What of a stream's end is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Show {
    /// Without noise and what was shown already.
    Filtered,
    /// Every line, with what contradicts it.
    Everything,
    /// Every line as it is.
    Raw,
}

/// An answer under way.
struct Page<'a> {
    digest: &'a Digest,
    allowance: Allowance,
    verbosity: Verbosity,
    budget: Budget,
    seen: Seen,
    /// Lines of each stream that are shown as such.
    shown: [u64; 2],
    into: &'a mut JobResult,
}

impl Page<'_> {
    fn clear(&mut self) {
        self.into.tier_1_findings.clear();
        self.into.other_findings.clear();
        self.into.omitted.clear();
        self.into.next.clear();
        self.into.notes.clear();
        self.into.stdout = None;
        self.into.stderr = None;
        self.into.filtered_output = None;
        self.into.warnings = Warnings { count: self.digest.warnings_total, shown: Vec::new() };
    }

    fn omit(&mut self, what: &str, lines: u64, bytes: u64, get: String) {
        self.into.omitted.push(Omission { what: what.to_owned(), lines, bytes, get });
    }

    /// Tier 1 whole, the rest in a line each. A line for each comes first; what is left makes the likeliest longer.
    fn findings(&mut self) {
        let digest = self.digest;
        let mut ranked: Vec<(&Ranked, &Finding)> = digest.ranked.iter().zip(&digest.findings).collect();
        if self.verbosity == Verbosity::Minimal {
            self.drop_warnings(&mut ranked);
        }
        let expanded =
            ranked.iter().take_while(|(ranked, _)| ranked.tier == 1).take(TIER_1_FINDINGS_MAX).count();
        let (expanded, others) = ranked.split_at(expanded);
        let mut chars = self.budget.chars * self.allowance.findings_tenths / 10;
        let others = self.one_liners(others, expanded.len(), &mut chars);
        let count = expanded.len();
        for (index, (ranked, finding)) in expanded.iter().enumerate() {
            // The likeliest causes get more than the others.
            let weight = |index: usize| 4_usize.saturating_sub(index).max(1);
            let shares: usize = (index..count).map(weight).sum();
            let share = chars / shares * weight(index);
            let lines = self.budget.lines.saturating_sub(OTHER_LINES) / (count - index);
            let shown = self.expand(ranked, finding, share, lines.max(1), count);
            let used = cost(&shown);
            chars = chars.saturating_sub(used);
            self.budget.chars = self.budget.chars.saturating_sub(used);
            let lines = shown.message.lines().count() + shown.pre_context.len() + shown.post_context.len();
            self.budget.lines = self.budget.lines.saturating_sub(lines);
            self.into.tier_1_findings.push(shown);
        }
        self.into.other_findings = others;
    }

    /// Remarks about reports and crash files.
    fn notes(&mut self) {
        for note in self.digest.notes.iter().take(self.allowance.notes) {
            let note = cut_end(note, NOTE_CHARS_MAX);
            if !self.budget.take(&note) {
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

    /// Of the warnings beside errors only the first ones are shown in `minimal`.
    fn drop_warnings(&mut self, ranked: &mut Vec<(&Ranked, &Finding)>) {
        let warning = |ranked: &Ranked| ranked.tier > 1 && ranked.found.severity > Severity::Error;
        let mut warnings = 0;
        let before = ranked.len();
        ranked.retain(|(ranked, _)| {
            warnings += usize::from(warning(ranked));
            !warning(ranked) || warnings <= MINIMAL_WARNINGS
        });
        if ranked.len() < before {
            let get = self.job_call("--verbosity normal");
            self.omit("warnings", (before - ranked.len()) as u64, 0, get);
        }
    }

    /// A line for each finding beyond those that are expanded. When they do not fit, they get shorter, down to the test or
    /// the place; when even that does not fit, the middle ones go.
    fn one_liners(
        &mut self,
        others: &[(&Ranked, &Finding)],
        expanded: usize,
        chars: &mut usize,
    ) -> Vec<FindingSummary> {
        if others.is_empty() {
            return Vec::new();
        }
        let roots = self.digest.roots();
        let natural: Vec<String> =
            others.iter().map(|(ranked, _)| compress::line(&ranked.headline(), roots)).collect();
        let keys: Vec<usize> = others
            .iter()
            .map(|(ranked, _)| {
                compress::relative(&ranked.key(), roots).chars().count().max(KEY_CHARS_MIN) + ID_CHARS
            })
            .collect();
        let room = chars.saturating_sub(expanded * EXPANDED_CHARS_MIN);
        let lines_room =
            self.budget.lines.saturating_sub(expanded * 2 + 8).min(self.allowance.other_findings);
        let all_keys: usize = keys.iter().sum();
        let widths = self.widths(others, &keys);
        let (kept, each): (Vec<usize>, Option<usize>) = if all_keys <= room && others.len() <= lines_room {
            ((0..others.len()).collect(), Some((room - all_keys) / others.len()))
        } else {
            let room = chars.saturating_sub(expanded * EXPANDED_CHARS_WANTED);
            (ends(&natural, room, lines_room, &widths), None)
        };
        let mut out = Vec::new();
        for &index in &kept {
            let (ranked, finding) = &others[index];
            let most = each.map_or(widths[index], |extra| {
                (keys[index] - ID_CHARS + extra).min(self.allowance.one_liner)
            });
            let key = compress::relative(&ranked.key(), roots).into_owned();
            let message = brief(&natural[index], &key, most);
            self.seen.add_message(&ranked.found.lines, &message);
            let used = message.chars().count() + ID_CHARS;
            *chars = chars.saturating_sub(used);
            self.budget.chars = self.budget.chars.saturating_sub(used);
            self.budget.lines = self.budget.lines.saturating_sub(1);
            out.push(FindingSummary {
                id: finding.id.clone(),
                tier: finding.tier,
                message,
                severity: finding.severity,
                confidence: finding.confidence,
                job: finding.job.clone(),
            });
        }
        let skipped = (others.len() - kept.len()) as u64;
        let errors =
            self.digest.findings.iter().filter(|finding| finding.severity <= Severity::Error).count() as u64;
        let dropped = self.digest.errors_total.saturating_sub(errors);
        if skipped > 0 {
            let wider =
                if self.verbosity == Verbosity::Minimal { "--verbosity normal" } else { "--verbosity full" };
            let get =
                if self.verbosity == Verbosity::Full { self.logs_call(None) } else { self.job_call(wider) };
            self.omit("other_findings", skipped + dropped, 0, get);
        } else if dropped > 0 {
            let get = self.logs_call(None);
            self.omit("other_findings", dropped, 0, get);
        }
        out
    }

    /// The width of each finding's line when not all of them fit: the first of a sort says more than those like it.
    fn widths(&self, others: &[(&Ranked, &Finding)], keys: &[usize]) -> Vec<usize> {
        if self.verbosity != Verbosity::Minimal {
            return vec![self.allowance.one_liner; others.len()];
        }
        let mut sorts: BTreeSet<u64> = BTreeSet::new();
        let widths = others.iter().zip(keys).map(|((ranked, _), key)| {
            if ranked.found.test.is_some() {
                TIGHT_LINE_CHARS
            } else if sorts.insert(ranked.found.sort()) {
                NEW_SORT_CHARS
            } else {
                TIGHT_LINE_CHARS.max(key - ID_CHARS + TIGHT_MESSAGE_CHARS)
            }
        });
        widths.collect()
    }

    /// A finding as it is shown: compressed, its middle cut, with as much context as fits its share.
    fn expand(
        &mut self,
        ranked: &Ranked,
        finding: &Finding,
        share: usize,
        lines_max: usize,
        count: usize,
    ) -> Finding {
        let roots = self.digest.roots();
        let mut shown = finding.clone();
        let mut lines = compress::lines(&ranked.found.lines, roots);
        let flood = self.digest.ranked.len() > TIER_1_FINDINGS_MAX;
        if self.verbosity == Verbosity::Minimal && flood && ranked.found.kind == Kind::Lint {
            drop_excerpts(&mut lines, ranked.found.head);
        }
        let kept =
            cut_lines(&lines, ranked.found.head, self.allowance.message_lines.min(lines_max), share.max(100));
        self.seen.add_message(&ranked.found.lines, &kept);
        shown.message = kept;
        if let Some(location) = &mut shown.location {
            location.file = compress::relative(&location.file, roots).into_owned();
        }
        let mut left = share.saturating_sub(shown.message.chars().count() + 40);
        let wanted = count <= self.allowance.context_findings
            && (self.verbosity != Verbosity::Minimal
                || ranked.found.lines.len() <= 2 && ranked.found.sure < SURE_ENOUGH);
        let lines_left = lines_max.saturating_sub(shown.message.lines().count());
        let wanted = wanted && lines_left > 1;
        let (pre, post) = if wanted { (self.allowance.pre, self.allowance.post) } else { (0, 0) };
        let mut context = |lines: &[String], last: bool, most: usize| {
            let lines: Vec<String> = lines.iter().filter(|line| !self.seen.has(line)).cloned().collect();
            let from = if last { lines.len().saturating_sub(most) } else { 0 };
            let mut out: Vec<String> = Vec::new();
            for whole in lines[from..].iter().take(most) {
                let line = clip_chars(&compress::line(whole, roots), 300).into_owned();
                let used = line.chars().count() + 1;
                if line.trim().is_empty() || used > left {
                    continue;
                }
                left -= used;
                self.seen.add(whole);
                out.push(line);
            }
            out
        };
        shown.pre_context = context(&finding.pre_context, true, pre);
        shown.post_context = context(&finding.post_context, false, post);
        shown
    }

    /// Both streams within the budget, unfiltered.
    fn raw(&mut self) {
        let half = Budget { lines: self.budget.lines / 2, chars: self.budget.chars / 2 };
        for stream in [Stream::Stderr, Stream::Stdout] {
            let mut budget = if stream == Stream::Stderr { half } else { self.budget };
            let before = budget;
            let text = self.tail_text(stream, usize::MAX, Show::Raw, &mut budget);
            self.budget.lines -= before.lines - budget.lines;
            self.budget.chars -= before.chars - budget.chars;
            match stream {
                Stream::Stdout => self.into.stdout = Some(text),
                Stream::Stderr => self.into.stderr = Some(text),
            }
        }
    }

    /// What a template lets through, its end kept when the budget is short.
    fn template(&mut self, template: &TemplateSpec) {
        let own = self.digest.options.template.as_ref() == Some(template);
        let view = match (&self.digest.capture, own) {
            (Some(capture), true) => capture.view(self.digest.passed()),
            _ => self.template_over_tails(template),
        };
        let mut kept: Vec<String> = Vec::new();
        for line in view.lines.iter().rev() {
            let corrected = self.digest.claims.correct(line, line.to_owned());
            let line = clip_middle(&corrected, self.budget.chars).to_owned();
            if !self.budget.take(&line) {
                break;
            }
            kept.push(line);
        }
        kept.reverse();
        let cut = (view.lines.len() - kept.len()) as u64;
        let left_out = view.left_out + cut;
        self.into.filtered_output = Some(kept.join("\n"));
        if left_out > 0 {
            let get = self.logs_call(None);
            self.omit("filtered_output", left_out, 0, get);
        }
    }

    /// A template other than the job's own sees the ends of the streams, which is what is kept.
    fn template_over_tails(&self, template: &TemplateSpec) -> Filtered {
        let Some(mut capture) = Capture::new(template) else { return Filtered::default() };
        let mut order = 0;
        for stream in Stream::ALL {
            for line in &self.digest.tails[stream.index()] {
                order += 1;
                capture.line(stream, order, line.text.as_bytes());
            }
        }
        capture.view(self.digest.passed())
    }

    /// Text by verbosity: tools' last words, warnings, stderr, stdout.
    fn text(&mut self) {
        let whole = self.whole_if_short();
        if whole.is_none() {
            self.summary();
        }
        self.warnings();
        let explained = self.into.tier_1_findings.iter().any(|finding| finding.severity <= Severity::Error);
        match self.verbosity {
            Verbosity::Minimal => {
                let text = match whole {
                    Some(text) => text,
                    None if !self.digest.passed() && !explained => self.last_lines(),
                    None => String::new(),
                };
                self.append_filtered(text);
            }
            Verbosity::Normal | Verbosity::Full => {
                let full = self.verbosity == Verbosity::Full;
                let show = if full { Show::Everything } else { Show::Filtered };
                let mut budget = self.budget;
                if full {
                    // stderr first, but never so much that nothing of stdout is left.
                    budget = Budget { lines: budget.lines * 2 / 3, chars: budget.chars * 2 / 3 };
                }
                let before = budget;
                let stderr = self.tail_text(Stream::Stderr, self.allowance.stderr_lines, show, &mut budget);
                self.budget.lines -= before.lines - budget.lines;
                self.budget.chars -= before.chars - budget.chars;
                let mut budget = self.budget;
                let stdout = self.tail_text(Stream::Stdout, self.allowance.stdout_lines, show, &mut budget);
                self.budget = budget;
                self.into.stderr = Some(stderr);
                self.into.stdout = Some(stdout);
            }
        }
    }

    /// The unseen lines of both streams when there are few of them: short logs explain themselves.
    fn whole_if_short(&mut self) -> Option<String> {
        if self.verbosity != Verbosity::Minimal {
            return None;
        }
        let (lines, chars) = if self.digest.passed() { SHORT_ANSWER } else { SHORT_LOG };
        let bytes: u64 = self.digest.counts.iter().map(|(_, bytes)| bytes).sum();
        let all: u64 = self.digest.counts.iter().map(|(lines, _)| lines).sum();
        if bytes > chars as u64 * 4 || all > lines as u64 * 2 {
            return None;
        }
        let mut out = Vec::new();
        for stream in [Stream::Stderr, Stream::Stdout] {
            for line in &self.digest.tails[stream.index()] {
                if !line.text.trim().is_empty() && self.seen.lacks(&line.text) {
                    let shown = compress::line(&line.text, self.digest.roots());
                    out.push(self.digest.claims.correct(&line.text, shown));
                }
            }
        }
        let text = folded(&out).join("\n");
        let fits = out.len() <= lines && text.chars().count() <= chars;
        if fits && self.budget.take(&text) {
            self.shown = [self.digest.counts[0].0, self.digest.counts[1].0];
            Some(text)
        } else {
            None
        }
    }

    /// The last lines of a run that nothing else explains.
    fn last_lines(&mut self) -> String {
        let mut budget = Budget { lines: self.budget.lines.min(20), chars: self.budget.chars.min(2_000) };
        let before = budget;
        let mut texts = Vec::new();
        for (stream, most) in
            [(Stream::Stderr, self.allowance.stderr_lines), (Stream::Stdout, self.allowance.stdout_lines)]
        {
            let text = self.tail_text(stream, most, Show::Filtered, &mut budget);
            if !text.is_empty() {
                texts.push(text);
            }
        }
        self.budget.lines -= before.lines - budget.lines;
        self.budget.chars -= before.chars - budget.chars;
        texts.join("\n")
    }

    fn append_filtered(&mut self, text: String) {
        if text.is_empty() {
            return;
        }
        match &mut self.into.filtered_output {
            Some(output) => {
                output.push('\n');
                output.push_str(&text);
            }
            None => self.into.filtered_output = Some(text),
        }
    }

    /// Tools' last words that no finding has said.
    fn summary(&mut self) {
        let mut kept = Vec::new();
        for line in self.digest.summary.iter().rev() {
            if kept.len() == self.allowance.summary_lines {
                break;
            }
            if self.seen.has(&line.text) {
                continue;
            }
            let text = compress::line(&line.text, self.digest.roots());
            let mut text = self.digest.claims.correct(&line.text, text);
            if line.repeated > 1 {
                text.push_str(&format!(" (×{})", line.repeated));
            }
            if !self.budget.take(&text) {
                break;
            }
            self.seen.add(&line.text);
            kept.push(text);
        }
        kept.reverse();
        if !kept.is_empty() {
            self.into.filtered_output = Some(kept.join("\n"));
        }
    }

    fn warnings(&mut self) {
        let total = self.digest.warnings.len();
        let mut shown = Vec::new();
        let room = self.budget.chars / 4;
        let mut used = 0;
        for warning in self.digest.warnings.iter().take(self.allowance.warnings) {
            let lines: Vec<String> = warning.lines().map(str::to_owned).collect();
            let text = cut_lines(&compress::lines(&lines, self.digest.roots()), 0, 4, 400);
            used += text.chars().count();
            if used > room || !self.budget.take(&text) {
                break;
            }
            for line in &lines {
                self.seen.add(line);
            }
            shown.push(text);
        }
        let hidden = total - shown.len();
        if hidden > 0 && self.verbosity > Verbosity::Minimal {
            let get = self.job_call("--verbosity full");
            self.omit("warnings", hidden as u64, 0, get);
        }
        self.into.warnings.shown = shown;
    }

    /// The last lines of a stream. Filtered: without noise and without what was shown already; at most `most` of the lines
    /// of the stream are looked at.
    fn tail_text(&mut self, stream: Stream, most: usize, show: Show, budget: &mut Budget) -> String {
        let (everything, is_raw) = (show != Show::Filtered, show == Show::Raw);
        let lines = &self.digest.tails[stream.index()];
        let from = lines.len().saturating_sub(most);
        let roots = self.digest.roots();
        let wanted: Vec<&TailLine> = lines[from..]
            .iter()
            .filter(|line| {
                everything
                    || !(is_noise(line.text.as_bytes())
                        || !line.text.trim().is_empty() && self.seen.has(&line.text))
            })
            .collect();
        let texts: Vec<String> = wanted
            .iter()
            .map(|line| {
                let text = if everything { line.text.clone() } else { compress::line(&line.text, roots) };
                let text = clip_chars(&text, crate::limits::SHOWN_LINE_CHARS).into_owned();
                if is_raw { text } else { self.digest.claims.correct(&line.text, text) }
            })
            .collect();
        let texts = if everything { texts } else { folded(&texts) };
        let mut kept = Vec::new();
        for text in texts.iter().rev() {
            if !budget.take(text) {
                break;
            }
            kept.push(text.as_str());
        }
        kept.reverse();
        self.shown[stream.index()] += kept.len() as u64;
        kept.join("\n").trim_matches('\n').to_owned()
    }

    fn omissions(&mut self, _template: Option<&TemplateSpec>) {
        for stream in Stream::ALL {
            let (lines, bytes) = self.digest.counts[stream.index()];
            let shown = self.shown[stream.index()];
            if lines > shown {
                let get = self.logs_call(Some(stream));
                let text = match stream {
                    Stream::Stdout => self.into.stdout.as_deref(),
                    Stream::Stderr => self.into.stderr.as_deref(),
                };
                let left = bytes.saturating_sub(text.map_or(0, |text| text.len() as u64));
                self.omit(stream.name(), lines - shown, left, get);
            }
        }
    }

    fn job_call(&self, rest: &str) -> String {
        match self.digest.options.job.as_str() {
            "" => format!("buildpool digest {rest} < LOG"),
            job => format!("buildpool job {job} {rest}"),
        }
    }

    fn logs_call(&self, stream: Option<Stream>) -> String {
        match (self.digest.options.job.as_str(), stream) {
            ("", _) => "buildpool digest --template raw --verbosity full < LOG".to_owned(),
            (job, Some(stream)) => format!("buildpool logs {job} --stream {stream}"),
            (job, None) => format!("buildpool logs {job} --stream interleaved"),
        }
    }

    /// At most three calls that are worth making now.
    fn next(&mut self) {
        let digest = self.digest;
        let mut next = Vec::new();
        if !digest.passed() && !digest.options.job.is_empty() {
            let job = &digest.options.job;
            if let Some(finding) = self.into.tier_1_findings.first()
                && (finding.message.contains("… ") || finding.message.contains(" more lines"))
            {
                next.push(format!("buildpool job {job} --finding {}", finding.id));
            }
            if self.into.tier_1_findings.is_empty() {
                next.push(format!("buildpool logs {job} --tail 200"));
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

fn cost(finding: &Finding) -> usize {
    let context =
        finding.pre_context.iter().chain(&finding.post_context).map(|line| line.chars().count() + 1);
    finding.message.chars().count() + context.sum::<usize>() + 12
}

fn clip_middle(text: &str, chars: usize) -> &str {
    match text.char_indices().nth(chars.saturating_sub(2)) {
        Some((at, _)) => &text[..at],
        None => text,
    }
}

/// Which of many lines are shown: the first ones and, for a fifth of the room, the last ones.
fn ends(lines: &[String], room: usize, lines_max: usize, widths: &[usize]) -> Vec<usize> {
    let cost = |index: usize| lines[index].chars().count().min(widths[index]) + ID_CHARS;
    let mut left = room / 5;
    let mut last = Vec::new();
    for index in (0..lines.len()).rev().take(lines_max / 5) {
        if cost(index) > left {
            break;
        }
        left -= cost(index);
        last.push(index);
    }
    let mut left = left + room - room / 5;
    let mut kept = Vec::new();
    let until = last.last().copied().unwrap_or(lines.len());
    for index in (0..until).take(lines_max - last.len()) {
        if cost(index) > left {
            break;
        }
        left -= cost(index);
        kept.push(index);
    }
    kept.extend(last.into_iter().rev());
    kept
}

/// A line of at most so many characters that keeps what the finding is about.
fn brief(line: &str, key: &str, chars: usize) -> String {
    let chars = chars.max(KEY_CHARS_MIN);
    if line.chars().count() <= chars {
        return line.to_owned();
    }
    let clipped = cut_end(line, chars);
    if key.is_empty() || clipped.contains(key) {
        return clipped;
    }
    let key_chars = key.chars().count();
    if key_chars + 12 > chars {
        return clip_chars(key, chars.max(key_chars.min(400))).into_owned();
    }
    let rest = line.strip_prefix(key).unwrap_or(line).trim_start_matches([':', ' ']);
    format!("{key}: {}", cut_end(rest, chars - key_chars - 2))
}

/// The beginning of a text, with a mark when something is missing.
fn cut_end(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        None => text.to_owned(),
        Some(_) => {
            let at = text.char_indices().nth(chars.saturating_sub(1)).map_or(text.len(), |(at, _)| at);
            format!("{}…", text[..at].trim_end())
        }
    }
}

/// How much lines about system and third-party sources matter, and candidates that a compiler did not take.
const FOREIGN_RANK: u8 = 6;
/// A message that is cut to fewer lines than this goes without them.
const FOREIGN_FROM_LINES: usize = 20;
/// Places in system and third-party sources, which say less than one's own.
const FOREIGN: &[&str] = &[
    "/usr/",
    "/Applications/",
    "node_modules",
    "site-packages",
    "/rustc/",
    "/.cargo/",
    "dist-packages",
    "java.base/",
    "node:internal",
];

/// A linter's row under the name of its file: `  12:3  error …`.
fn is_row(line: &str) -> bool {
    let place = line.split_whitespace().next().unwrap_or_default();
    line.starts_with(' ')
        && place
            .split_once(':')
            .is_some_and(|(row, column)| row.parse::<u32>().is_ok() && column.parse::<u32>().is_ok())
}

/// How much a line of a long message matters; smaller matters more.
fn rank_line(lines: &[String], index: usize, head: usize) -> u8 {
    let line = &lines[index];
    if is_row(line) {
        return u8::from(index != head) * 3;
    }
    let outer = !line.starts_with([' ', '\t']) && !line.trim().is_empty();
    let foreign = FOREIGN.iter().any(|part| line.contains(part)) || line.contains("note: candidate");
    let place = line.as_bytes().windows(2).any(|pair| pair[0] == b':' && pair[1].is_ascii_digit());
    let after_head = index > head && index <= head + 2;
    if index == head {
        0
    } else if index + 1 == lines.len() && !foreign || place && !foreign && line.trim_start().starts_with("E ")
    {
        1
    } else if line.starts_with("E ") || line.contains("Error: ") || line.contains("xception: ") {
        2
    } else if place && !foreign || after_head {
        3
    } else if (outer || index + 4 > lines.len()) && !foreign {
        4
    } else if foreign {
        FOREIGN_RANK
    } else {
        5
    }
}

/// For each line, whether it is part of a note about a candidate that a compiler did not take.
fn rejected_candidates(lines: &[String]) -> Vec<bool> {
    let mut inside = false;
    lines
        .iter()
        .map(|line| {
            if line.contains("note: ") || line.contains("error: ") {
                inside = line.contains("note: candidate");
            }
            inside
        })
        .collect()
}

/// In a flood of remarks a source line and the carets under it say less than one more remark.
fn drop_excerpts(lines: &mut Vec<String>, head: usize) {
    let is_carets = |line: &str| {
        line.contains('^')
            && line.chars().all(|c| matches!(c, ' ' | '\t' | '^' | '~' | '|' | '-' | '+' | '…'))
    };
    let mut at = head + 1;
    while at < lines.len() {
        if is_carets(&lines[at]) {
            let from = if at > head + 1 { at - 1 } else { at };
            lines.drain(from..=at);
            at = from;
        } else {
            at += 1;
        }
    }
}

/// Lines as one text of at most so many lines and characters. What matters most stays, in its order; where lines are
/// missing, their number stands.
fn cut_lines(lines: &[String], head: usize, lines_max: usize, chars_max: usize) -> String {
    let size = |line: &String| line.chars().count() + 1;
    if lines.len() <= lines_max && lines.iter().map(size).sum::<usize>() <= chars_max {
        return lines.join("\n");
    }
    let mut order: Vec<usize> = (0..lines.len()).collect();
    if lines_max < FOREIGN_FROM_LINES {
        let rejected = rejected_candidates(lines);
        order.retain(|index| {
            *index == head || !rejected[*index] && rank_line(lines, *index, head) < FOREIGN_RANK
        });
    }
    order.sort_by_key(|index| (rank_line(lines, *index, head), *index));
    let mut kept = std::collections::BTreeMap::new();
    let mut left = chars_max.max(60);
    for index in order {
        if kept.len() >= lines_max {
            break;
        }
        let line = &lines[index];
        if size(line) + 8 <= left {
            left -= size(line) + 8;
            kept.insert(index, line.clone());
        } else if kept.is_empty() {
            kept.insert(index, cut_end(line, left));
            break;
        } else if left > 60 && rank_line(lines, index, head) <= 3 {
            kept.insert(index, cut_end(line, left - 10));
            break;
        }
    }
    let mut out: Vec<String> = Vec::new();
    let mut next = 0;
    for (index, line) in kept {
        if index > next {
            out.push(format!("… {} more lines", index - next));
        }
        out.push(line);
        next = index + 1;
    }
    if next < lines.len() {
        out.push(format!("… {} more lines", lines.len() - next));
    }
    out.join("\n")
}

/// Runs of equal lines as one with a count.
fn folded(lines: &[String]) -> Vec<String> {
    let mut out: Vec<(String, u64)> = Vec::new();
    for line in lines {
        match out.last_mut() {
            Some((last, count)) if last == line => *count += 1,
            _ => out.push((line.clone(), 1)),
        }
    }
    out.into_iter()
        .map(|(line, count)| match (line.trim().is_empty(), count) {
            (_, 1) => line,
            (true, _) => String::new(),
            (false, count) => format!("{line} (×{count})"),
        })
        .collect()
}
