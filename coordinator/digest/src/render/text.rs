//! Renders the text of an answer: template output, summary lines of tools, warnings, and the ends
//! of both streams.

use super::Page;
use super::budget::Budget;
use super::cut::{clip_middle, cut_lines, folded};
use crate::answer_text::counted;
use crate::digester::SummaryLine;
use crate::limits::SHOWN_LINE_CHARS;
use crate::noise::is_noise;
use crate::records;
use crate::template::{Capture, Filtered};
use crate::text::clipped;
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::Severity;
use buildpool_protocol::spec::{TemplateSpec, Verbosity};

/// Maximum number of lines of a stream whose noise is shown. It can be the complete output of a
/// command.
const SHORT_STREAM_LINES: usize = 20;

/// Part of the budget for the first lines of a run that nothing explains.
const HEAD_PART: usize = 5;
/// Budget reserved for the number of lines left out.
const GAP: Budget = Budget { lines: 1, chars: 40 };

/// Filter for the end of a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Show {
    /// Omits noise and lines that were already shown.
    Filtered,
    /// Shows every line.
    Everything,
}

impl Page<'_> {
    /// Adds both streams within the budget, unfiltered.
    pub(super) fn raw(&mut self) {
        let half = Budget { lines: self.budget.lines / 2, chars: self.budget.chars / 2 };
        for stream in [Stream::Stderr, Stream::Stdout] {
            let mut budget = if stream == Stream::Stderr { half } else { self.budget };
            let before = budget;
            let text = self.tail_text(stream, usize::MAX, Show::Everything, &mut budget);
            self.budget.lines -= before.lines - budget.lines;
            self.budget.chars -= before.chars - budget.chars;
            match stream {
                Stream::Stdout => self.into.stdout = Some(text),
                Stream::Stderr => self.into.stderr = Some(text),
            }
        }
    }

    /// Adds the output of a template. If the budget is short, the end is kept.
    pub(super) fn template(&mut self, template: &TemplateSpec) {
        let own = self.digest.options.template.as_ref() == Some(template);
        let view = match (&self.digest.capture, own) {
            (Some(capture), true) => capture.view(self.digest.passed()),
            _ => self.template_over_tails(template),
        };
        let mut kept: Vec<String> = Vec::new();
        let mut clipped = 0;
        for line in view.lines.iter().rev() {
            let shown = clip_middle(&line.text, self.budget.chars).to_owned();
            if !self.budget.take(&shown) {
                break;
            }
            let is_whole = shown.len() == line.text.len();
            clipped += if is_whole { line.clipped } else { line.length.saturating_sub(shown.len() as u64) };
            kept.push(shown);
        }
        kept.reverse();
        // The view is of both streams, so it states what both lack.
        let totals = self.digest.counts.iter().fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        let shown: usize = kept.iter().map(|line| line.len() + 1).sum();
        let lines = totals.0.saturating_sub(kept.len() as u64);
        let bytes = if lines == 0 { clipped } else { totals.1.saturating_sub(shown as u64) };
        self.into.filtered_output = Some(kept.join("\n"));
        self.is_view = true;
        if lines + bytes > 0 {
            let get = self.logs_call();
            self.omit("filtered_output", lines, bytes, get);
        }
    }

    /// Applies a template other than the job's own to the ends of the streams, because only those
    /// are kept.
    fn template_over_tails(&self, template: &TemplateSpec) -> Filtered {
        let Some(mut capture) = Capture::new(template) else { return Filtered::default() };
        let mut order = 0;
        for stream in Stream::ALL {
            for line in self.digest.tails[stream.index()].last(usize::MAX) {
                order += 1;
                capture.line(stream, order, line.as_bytes());
            }
        }
        capture.view(self.digest.passed())
    }

    /// Adds summary lines, warnings, stderr and stdout, by verbosity.
    pub(super) fn text(&mut self) {
        self.summary();
        self.warnings();
        let explained = self.into.tier_1_findings.iter().any(|finding| finding.severity <= Severity::Error);
        match self.verbosity {
            Verbosity::Minimal => {
                if !self.digest.passed() && !explained {
                    let text = self.ends();
                    self.append_filtered(text);
                }
            }
            Verbosity::Normal | Verbosity::Full => {
                let full = self.verbosity == Verbosity::Full;
                let show = if full { Show::Everything } else { Show::Filtered };
                let mut budget = self.budget;
                if full {
                    // stderr comes first, but stdout keeps a third of the budget.
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

    /// The ends of a run that nothing else explains: the first lines of each stream, the number of lines left out,
    /// and the last lines.
    fn ends(&mut self) -> String {
        let mut budget = self.budget;
        let before = budget;
        let mut texts = Vec::new();
        for (stream, most) in
            [(Stream::Stderr, self.allowance.stderr_lines), (Stream::Stdout, self.allowance.stdout_lines)]
        {
            let head = self.head_lines(stream, most, &mut budget);
            let text = self.tail_text(stream, most, Show::Filtered, &mut budget);
            let hidden =
                self.digest.counts[stream.index()].0.saturating_sub(self.shown[stream.index()].lines);
            if !head.is_empty() {
                texts.push(head.join("\n"));
                texts.extend((hidden > 0).then(|| format!("[… {} not shown …]", counted(hidden, "line"))));
            }
            if !text.is_empty() {
                texts.push(text);
            }
        }
        self.budget.lines -= before.lines - budget.lines;
        self.budget.chars -= before.chars - budget.chars;
        texts.join("\n")
    }

    /// First lines of a stream that is too long to show, from at most a part of the budget.
    fn head_lines(&mut self, stream: Stream, most: usize, budget: &mut Budget) -> Vec<String> {
        let lines = &self.digest.tails[stream.index()];
        let is_whole = lines.len() as u64 == self.digest.counts[stream.index()].0;
        let chars = || -> usize { lines.backwards().map(|line| line.chars().count() + 1).sum() };
        if is_whole && lines.len() <= most.min(budget.lines) && chars() <= budget.chars {
            return Vec::new();
        }
        let part = |of: usize| of / HEAD_PART;
        let mut left = Budget { lines: part(most.min(budget.lines)), chars: part(budget.chars) };
        let before = left;
        let texts = self.digest.heads[stream.index()].iter().filter(|line| !is_noise(line.as_bytes()));
        let head: Vec<String> = texts
            .map(|line| clipped(line, SHOWN_LINE_CHARS))
            .take_while(|(line, _)| left.take(line))
            .map(|(line, cut)| {
                self.shown[stream.index()].add(&line, cut);
                line.into_owned()
            })
            .collect();
        head.iter().for_each(|line| self.seen.add(line));
        *budget = budget.less(before.less(left)).less(GAP);
        head
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

    /// Reserves space for the last summary line before findings take it. No limit removes that
    /// line.
    pub(super) fn reserve_last_word(&mut self) {
        let Some(line) = self.digest.summary.last() else { return };
        let text = self.summary_text(line);
        let before = self.budget;
        if self.budget.take(&text) {
            self.reserved = before.less(self.budget);
        }
    }

    /// Text of a summary line.
    fn summary_text(&mut self, line: &SummaryLine) -> String {
        let mut text = self.compressed_line(&line.text);
        if line.repeated > 1 {
            text.push_str(&format!(" (×{})", line.repeated));
        }
        text
    }

    /// Adds summary lines that no finding contains.
    fn summary(&mut self) {
        self.budget = self.budget.plus(std::mem::take(&mut self.reserved));
        let mut kept = Vec::new();
        for line in self.digest.summary.iter().rev() {
            if kept.len() == self.allowance.summary_lines {
                break;
            }
            if self.seen.has(&line.text) {
                continue;
            }
            let text = self.summary_text(line);
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

    pub(super) fn warnings(&mut self) {
        let total = self.digest.warnings.len();
        let mut shown = Vec::new();
        let room = self.budget.chars / 4;
        let mut used = 0;
        for warning in self.digest.warnings.iter().take(self.allowance.warnings) {
            let lines: Vec<String> = warning.lines().map(str::to_owned).collect();
            let text = cut_lines(&self.compressed(&lines), 0, 4, 400);
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

    /// Last lines of a stream, from at most its last `most` lines. The filtered form omits noise
    /// and lines that were already shown.
    fn tail_text(&mut self, stream: Stream, most: usize, show: Show, budget: &mut Budget) -> String {
        let everything = show == Show::Everything;
        let lines = self.digest.tails[stream.index()].last(most);
        let lines = if everything { lines } else { unfolded(lines) };
        let all: Vec<&str> = lines.iter().map(String::as_str).collect();
        let compressed = if everything { Vec::new() } else { self.compressed_each(&all) };
        // A few lines that all look like noise can be the complete output of the command.
        let is_chatter = |line: &str| is_noise(line.as_bytes());
        let is_all_there_is = all.len() <= SHORT_STREAM_LINES
            && all.len() as u64 == self.digest.counts[stream.index()].0
            && all.iter().all(|line| line.trim().is_empty() || is_chatter(line));
        let (mut texts, mut cuts) = (Vec::new(), Vec::new());
        for (index, line) in all.iter().enumerate() {
            let is_left_out = is_chatter(line) && !is_all_there_is;
            if !everything && (is_left_out || !line.trim().is_empty() && self.seen.has(line)) {
                continue;
            }
            let text = compressed.get(index).map_or(*line, String::as_str);
            let (text, cut) = clipped(text, SHOWN_LINE_CHARS);
            cuts.push(cut);
            texts.push(text.into_owned());
        }
        self.whole_end = everything;
        let texts = match everything {
            true => texts.into_iter().enumerate().collect(),
            false => folded(&texts),
        };
        let mut kept = Vec::new();
        for (first, text) in texts.iter().rev() {
            if !budget.take(text) {
                break;
            }
            self.shown[stream.index()].add(text, cuts[*first]);
            kept.push(text.as_str());
        }
        kept.reverse();
        kept.join("\n").trim_matches('\n').to_owned()
    }
}

/// Lines of a stream. A line that is a document is replaced by the document's text.
fn unfolded(lines: Vec<String>) -> Vec<String> {
    let mut all = Vec::with_capacity(lines.len());
    for line in lines {
        match records::shown(line.as_bytes()) {
            Some(told) => all.extend(told.lines().map(str::to_owned)),
            None => all.push(line),
        }
    }
    all
}
