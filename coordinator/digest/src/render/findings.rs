//! Renders findings: the most likely causes in full, each other one on one line.

use super::Page;
use super::budget::Budget;
use super::cut::{KEY_CHARS_MIN, brief, cut_lines, drop_excerpts, is_rule};
use crate::answer_text::lead;
use crate::compress;
use crate::ranking::RankedFinding;
use crate::rules::Kind;
use crate::text::clip_chars;
use buildpool_protocol::limits::TIER_1_FINDINGS_MAX;
use buildpool_protocol::report::{Finding, FindingSummary, Severity};
use buildpool_protocol::spec::Verbosity;
use std::collections::BTreeSet;

/// Maximum number of warnings among the findings of `minimal`.
const MINIMAL_WARNINGS: usize = 5;

/// Certainty, in percent, above which a finding needs no context in `minimal`.
const SURE_ENOUGH: u8 = 85;

/// Maximum length of a finding's line in `minimal` if not all of them fit, in characters.
const TIGHT_LINE_CHARS: usize = 70;

/// Maximum length of such a line beyond its location, in characters.
const TIGHT_MESSAGE_CHARS: usize = 34;

/// Maximum length for the first finding of a sort, in characters.
const NEW_SORT_CHARS: usize = 140;

/// Characters of a finding's id and its separator.
pub(super) const ID_CHARS: usize = 10;

/// Lines of an answer reserved for the summary lines of tools.
const OTHER_LINES: usize = 10;

/// Maximum length of an extra line of a finding, in characters.
const BESIDE_CHARS_MAX: usize = 200;

/// Minimum number of expanded findings, if there are as many.
const EXPANDED_MIN: usize = 3;
/// Minimum number of characters of an expanded finding.
const EXPANDED_CHARS_MIN: usize = 100;

/// Characters reserved for an expanded finding if the others do not all fit.
const EXPANDED_CHARS_BEFORE: usize = 165;

/// Characters wanted for an expanded finding if each other finding gets a line and the message is
/// long enough.
const EXPANDED_CHARS_WANTED: usize = 250;
/// Part of the lines of a `minimal` answer that the first finding may take.
const FIRST_LINES_PART: usize = 2;
/// Lines wanted for an expanded finding in the same case.
const EXPANDED_LINES_WANTED: usize = 6;

impl Page<'_> {
    /// Adds tier 1 in full and the rest on one line each. One line for each comes first. The
    /// remaining budget extends the most likely ones.
    pub(super) fn findings(&mut self) {
        let digest = self.digest;
        let mut ranked: Vec<(&RankedFinding, &Finding)> =
            digest.ranked.iter().zip(&digest.findings).collect();
        if self.verbosity == Verbosity::Minimal {
            self.drop_warnings(&mut ranked);
        }
        let all = self.budget.plus(self.reserved).chars;
        let mut chars = (all * self.allowance.findings_tenths / 10).min(self.budget.chars);
        let groups = self.groups(&mut ranked, &mut chars);
        let expanded =
            ranked.iter().take_while(|(ranked, _)| ranked.tier == 1).take(TIER_1_FINDINGS_MAX).count();
        let expanded = self.fitting(&ranked, expanded, chars);
        let (expanded, others) = ranked.split_at(expanded);
        let others = self.one_liners(others, expanded, &mut chars);
        let count = expanded.len();
        for (index, (ranked, finding)) in expanded.iter().enumerate() {
            // The most likely causes get larger shares.
            let weight = |index: usize| 4_usize.saturating_sub(index).max(1);
            let shares: usize = (index..count).map(weight).sum();
            let mut share = chars / shares * weight(index);
            let mut lines = self.budget.lines.saturating_sub(OTHER_LINES) / (count - index);
            if index == 0 && self.verbosity == Verbosity::Minimal {
                // The first failure is shown whole (SPEC section 4, "What an answer shows", rule 3).
                let whole = self.whole(ranked, finding);
                share = share.max(whole.chars.min(chars.saturating_sub((count - 1) * EXPANDED_CHARS_BEFORE)));
                lines = lines.max(whole.lines.min(self.budget.lines / FIRST_LINES_PART));
            }
            let shown = self.expand(ranked, finding, share, lines.max(1), count);
            let used = cost(&shown);
            chars = chars.saturating_sub(used);
            self.budget.chars = self.budget.chars.saturating_sub(used);
            let lines = shown.message.lines().count() + shown.pre_context.len() + shown.post_context.len();
            self.budget.lines = self.budget.lines.saturating_sub(lines);
            self.into.tier_1_findings.push(shown);
        }
        self.into.other_findings = [groups, others].concat();
    }

    /// Number of expanded findings. `minimal` reduces it if that leaves a line for each other
    /// finding. It uses the minimum if not even the names of the failed tests fit.
    fn fitting(&self, ranked: &[(&RankedFinding, &Finding)], expanded: usize, chars: usize) -> usize {
        if self.verbosity != Verbosity::Minimal {
            return expanded;
        }
        let least = EXPANDED_MIN.min(expanded);
        // Characters of the lines of all findings from each one on.
        let mut keys = vec![0; ranked.len() + 1];
        for (at, (ranked, _)) in ranked.iter().enumerate().rev() {
            keys[at] = keys[at + 1] + self.key_chars(ranked);
        }
        let well = |count: &usize| {
            let wanted = ranked[..*count].iter().map(|finding| self.wanted(finding));
            let wanted = wanted.fold(Budget { lines: OTHER_LINES, chars: 0 }, Budget::plus);
            wanted.chars + keys[*count] <= chars && wanted.lines + ranked.len() - count <= self.budget.lines
        };
        let barely = |count: &usize| self.least(&ranked[..*count]) + keys[*count] <= chars;
        let is_flood = ranked.len() > TIER_1_FINDINGS_MAX;
        let counts = || (least..=expanded).rev();
        let fits = counts().find(|count| is_flood && well(count)).or_else(|| counts().find(barely));
        let are_tests = is_flood && ranked.iter().all(|(ranked, _)| ranked.found.test.is_some());
        fits.unwrap_or(if are_tests { least } else { expanded })
    }

    /// Budget for a finding with all of its lines.
    fn whole(&self, ranked: &RankedFinding, finding: &Finding) -> Budget {
        let lead = compress::relative(&lead(finding), self.digest.roots()).chars().count();
        let lines = &ranked.found.lines;
        let own: usize = lines.iter().map(|line| line.chars().count() + 3).sum();
        Budget { lines: lines.len(), chars: lead + own + 1 }
    }

    /// Minimum budget wanted for an expanded finding while others need a line.
    fn wanted(&self, (ranked, finding): &(&RankedFinding, &Finding)) -> Budget {
        let lead = compress::relative(&lead(finding), self.digest.roots()).chars().count();
        let lines = &ranked.found.lines;
        let own: usize = lines.iter().map(|line| line.chars().count() + 3).sum();
        Budget { lines: lines.len().min(EXPANDED_LINES_WANTED), chars: lead + own.min(EXPANDED_CHARS_WANTED) }
    }

    /// Minimum number of characters for expanded findings.
    fn least(&self, expanded: &[(&RankedFinding, &Finding)]) -> usize {
        let least = |(_, finding): &(&RankedFinding, &Finding)| {
            compress::relative(&lead(finding), self.digest.roots()).chars().count() + EXPANDED_CHARS_MIN
        };
        expanded.iter().map(least).sum()
    }

    /// Length of the shortest line of a finding, in characters.
    fn key_chars(&self, ranked: &RankedFinding) -> usize {
        let key = ranked.key();
        compress::relative(&key, self.digest.roots()).chars().count().max(KEY_CHARS_MIN) + ID_CHARS
    }

    /// In `minimal`, keeps only the first warnings next to errors.
    fn drop_warnings(&mut self, ranked: &mut Vec<(&RankedFinding, &Finding)>) {
        let warning = |ranked: &RankedFinding| ranked.tier > 1 && ranked.found.severity > Severity::Error;
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

    /// Adds a line for each finding that is not expanded. If they do not fit, the lines shrink down
    /// to the test or the location. If even that does not fit, the middle ones are left out.
    fn one_liners(
        &mut self,
        others: &[(&RankedFinding, &Finding)],
        expanded: &[(&RankedFinding, &Finding)],
        chars: &mut usize,
    ) -> Vec<FindingSummary> {
        if others.is_empty() {
            return Vec::new();
        }
        let roots = self.digest.roots();
        let natural: Vec<String> =
            others.iter().map(|(ranked, _)| self.compressed_line(&ranked.headline())).collect();
        let keys: Vec<usize> = others.iter().map(|(ranked, _)| self.key_chars(ranked)).collect();
        let least = self.least(expanded);
        let room = chars.saturating_sub(least);
        let lines_room =
            self.budget.lines.saturating_sub(expanded.len() * 2 + 8).min(self.allowance.other_findings);
        let all_keys: usize = keys.iter().sum();
        let widths = self.widths(others, &keys);
        let (kept, each): (Vec<usize>, Option<usize>) = if all_keys <= room && others.len() <= lines_room {
            ((0..others.len()).collect(), Some((room - all_keys) / others.len()))
        } else {
            let room = chars.saturating_sub(least.max(expanded.len() * EXPANDED_CHARS_BEFORE));
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
            ranked.found.lines.iter().for_each(|line| self.seen.add(line));
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
            let get = if self.verbosity == Verbosity::Full { self.logs_call() } else { self.job_call(wider) };
            self.omit("other_findings", skipped + dropped, 0, get);
        } else if dropped > 0 {
            let get = self.logs_call();
            self.omit("other_findings", dropped, 0, get);
        }
        out
    }

    /// Width of each finding's line if not all of them fit. The first of a sort gets more.
    fn widths(&self, others: &[(&RankedFinding, &Finding)], keys: &[usize]) -> Vec<usize> {
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

    /// Renders a finding: compressed, its middle cut, with as much context as fits its share.
    fn expand(
        &mut self,
        ranked: &RankedFinding,
        finding: &Finding,
        share: usize,
        lines_max: usize,
        count: usize,
    ) -> Finding {
        let roots = self.digest.roots();
        let mut shown = finding.clone();
        let mut lines = self.compressed(&ranked.found.lines);
        let is_first = self.verbosity == Verbosity::Minimal && self.into.tier_1_findings.is_empty();
        let flood = self.digest.ranked.len() > TIER_1_FINDINGS_MAX;
        if self.verbosity == Verbosity::Minimal && flood && ranked.found.kind == Kind::Lint {
            drop_excerpts(&mut lines, ranked.found.head);
        }
        if let Some(location) = &mut shown.location {
            location.file = compress::relative(&location.file, roots).into_owned();
        }
        let share = share.saturating_sub(lead(&shown).chars().count());
        let most = if is_first { lines_max } else { self.allowance.message_lines.min(lines_max) };
        let kept = cut_lines(&lines, ranked.found.head, most, share.max(100));
        ranked.found.lines.iter().for_each(|line| self.seen.add(line));
        shown.message = kept;
        self.beside(ranked, share, &mut shown.message);
        let mut left = share.saturating_sub(shown.message.chars().count() + 40);
        let wanted = count <= self.allowance.context_findings
            && (self.verbosity != Verbosity::Minimal
                || ranked.found.lines.len() <= 2 && ranked.found.sure < SURE_ENOUGH);
        let lines_left = lines_max.saturating_sub(shown.message.lines().count());
        let wanted = wanted && lines_left > 1;
        let (pre, post) = if wanted { (self.allowance.pre, self.allowance.post) } else { (0, 0) };
        let mut context = |lines: &[String], last: bool, most: usize| {
            let lines: Vec<String> = lines.iter().filter(|line| !self.seen.has(line)).cloned().collect();
            let each = self.compressed_each(&lines);
            let from = if last { lines.len().saturating_sub(most) } else { 0 };
            let mut out: Vec<String> = Vec::new();
            for (whole, line) in lines[from..].iter().zip(&each[from..]).take(most) {
                let line = clip_chars(line, 300).into_owned();
                let used = line.chars().count() + 1;
                if is_rule(&line) || used > left {
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
}

impl Page<'_> {
    /// Appends the extra lines of a finding. Advice is always shown. Details from a report are
    /// shown beyond `minimal`, if they fit the share.
    fn beside(&self, ranked: &RankedFinding, share: usize, message: &mut String) {
        let is_advice = ranked.found.kind == Kind::Infrastructure;
        if self.verbosity == Verbosity::Minimal && !is_advice {
            return;
        }
        let mut left = share.saturating_sub(message.chars().count());
        for line in &ranked.found.beside {
            let line = clip_chars(line, BESIDE_CHARS_MAX);
            let used = line.chars().count() + 1;
            if used > left && !is_advice {
                return;
            }
            left = left.saturating_sub(used);
            message.push('\n');
            message.push_str(&line);
        }
    }
}

/// Length of a rendered finding, with line prefixes, in characters.
fn cost(finding: &Finding) -> usize {
    let context = finding.pre_context.iter().chain(&finding.post_context);
    let context: usize = context.map(|line| line.chars().count() + 5).sum();
    let message = finding.message.chars().count() + 2 * finding.message.lines().count();
    lead(finding).chars().count() + message + context
}

/// Indices of the shown lines: the first ones and, in a fifth of the space, the last ones.
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
