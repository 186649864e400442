//! Groups tests that failed for the same reason: one in full, the others by name.

use super::Page;
use super::cut::{cut_end, is_rule};
use crate::compress;
use crate::found::{Found, normalised};
use crate::rules::Kind;
use crate::tier::Ranked;
use crate::view::thousands;
use buildpool_protocol::limits::TIER_1_FINDINGS_MAX;
use buildpool_protocol::report::{Finding, FindingSummary, Severity};
use buildpool_protocol::spec::Verbosity;
use std::collections::BTreeMap;

/// Minimum number of tests with the same reason in a group.
const GROUP_MIN: usize = 3;
/// Number of failed tests from which groups ignore the location, because not every location fits.
const FLOOD_MIN: usize = 40;
/// Number of findings that remain next to the groups in that case.
const FLOOD_EXPANDED: usize = 1;
/// Maximum length of a group's line, in characters.
const LINE_CHARS_MAX: usize = 240;
/// Share of the characters for findings that groups and test names can use, in tenths.
const GROUPS_TENTHS: usize = 8;
/// Characters of a list entry beyond the name: the mark and the line end.
const NAME_CHARS: usize = 2;
/// Lines of an answer reserved for everything except test names.
const OTHER_LINES: usize = 18;
/// Minimum number of letters of a reason.
const REASON_LETTERS_MIN: usize = 4;

type Entry<'a> = (&'a Ranked, &'a Finding);

impl Page<'_> {
    /// Removes the tests of groups from `ranked`. Keeps the first of the most likely group, or of
    /// each group beyond `minimal`. Fills the names and returns a line for each group.
    pub(super) fn groups(&mut self, ranked: &mut Vec<Entry<'_>>, chars: &mut usize) -> Vec<FindingSummary> {
        let are_all_expanded = self.verbosity != Verbosity::Minimal && ranked.len() <= TIER_1_FINDINGS_MAX;
        let groups = if are_all_expanded { Vec::new() } else { groups(ranked) };
        if groups.is_empty() {
            return Vec::new();
        }
        let is_flood = ranked.iter().filter(|(ranked, _)| is_test(&ranked.found)).count() >= FLOOD_MIN;
        let roots = self.digest.roots();
        let mut left = *chars * GROUPS_TENTHS / 10;
        let mut take = |page: &mut Self, text: &str, extra: usize| {
            let used = text.chars().count() + extra;
            let fits = used <= left && page.budget.lines > OTHER_LINES;
            if fits {
                left -= used;
                *chars = chars.saturating_sub(used);
                page.budget = page.budget.less(super::Budget { lines: 1, chars: used });
            }
            fits
        };
        let mut summaries = Vec::new();
        let mut gone = vec![false; ranked.len()];
        for (index, group) in groups.iter().enumerate() {
            let (first, finding) = &ranked[group.members[0]];
            let kept = usize::from(index == 0 || self.verbosity != Verbosity::Minimal);
            let line = compress::relative(&group.line(&first.found), roots).into_owned();
            let message = cut_end(&line, LINE_CHARS_MAX);
            if !take(self, &message, super::findings::ID_CHARS) {
                break;
            }
            group.members.iter().skip(kept).for_each(|member| gone[*member] = true);
            summaries.push(FindingSummary { message, ..FindingSummary::from(*finding) });
        }
        if is_flood && self.verbosity == Verbosity::Minimal {
            // Each other finding would take a line of its own. A name is shorter.
            let others = ranked.iter().enumerate().filter(|(_, (ranked, _))| is_test(&ranked.found));
            let others = others.filter(|(index, _)| groups.iter().all(|group| group.members[0] != *index));
            others.skip(FLOOD_EXPANDED).for_each(|(index, _)| gone[index] = true);
        }
        let mut names_left = 0;
        for (entry, _) in ranked.iter().zip(&gone).filter(|(_, gone)| **gone) {
            let name = entry.0.found.test.clone().unwrap_or_default();
            if names_left == 0 && take(self, &name, NAME_CHARS) {
                entry.0.found.lines.iter().for_each(|line| self.seen.add(line));
                self.into.failed_tests.push(name);
            } else {
                names_left += 1;
            }
        }
        if names_left > 0 {
            let get = match self.verbosity {
                Verbosity::Minimal => self.job_call("--verbosity normal"),
                Verbosity::Normal => self.job_call("--verbosity full"),
                Verbosity::Full => self.logs_call(),
            };
            self.omit("failed_tests", names_left, 0, get);
        }
        let mut gone = gone.iter();
        ranked.retain(|_| !gone.next().copied().unwrap_or(false));
        summaries
    }
}

/// Tests that failed for the same reason.
struct Group {
    reason: String,
    /// All of them failed at the location of the first.
    is_one_place: bool,
    /// Indices of the findings, most likely first.
    members: Vec<usize>,
}

impl Group {
    fn line(&self, first: &Found) -> String {
        let count = thousands(self.members.len() as u64);
        let place = first.location.as_ref().filter(|_| self.is_one_place).map(|location| {
            let row = location.line.map_or(String::new(), |line| format!(":{line}"));
            format!(" at {}{row}", location.file)
        });
        format!("{count} tests fail{}: {}", place.unwrap_or_default(), self.reason)
    }
}

/// Returns groups of at least [`GROUP_MIN`] failed tests, most likely first. They share reason and
/// location, or only the reason if there are many.
fn groups(ranked: &[Entry<'_>]) -> Vec<Group> {
    let tests = || ranked.iter().enumerate().filter(|(_, (ranked, _))| is_test(&ranked.found));
    let by = |with_place: bool| {
        type Key<'a> = (String, Option<(&'a str, Option<u32>)>);
        let mut all: BTreeMap<Key<'_>, Group> = BTreeMap::new();
        for (index, (ranked, _)) in tests() {
            let found = &ranked.found;
            let reason = reason(found);
            if reason.is_empty() {
                continue;
            }
            let place = found.location.as_ref().map(|location| (location.file.as_str(), location.line));
            let key = (normalised(&reason), place.filter(|_| with_place));
            let group = all.entry(key).or_insert_with(|| Group {
                reason,
                is_one_place: with_place && place.is_some(),
                members: Vec::new(),
            });
            group.members.push(index);
        }
        let mut all: Vec<Group> =
            all.into_values().filter(|group| group.members.len() >= GROUP_MIN).collect();
        all.sort_by_key(|group| group.members[0]);
        all
    };
    by(tests().count() < FLOOD_MIN)
}

fn is_test(found: &Found) -> bool {
    // pytest prints this for a file that it cannot collect. It is not a failed test.
    let test = found.test.as_deref().unwrap_or_default();
    let is_collection = found.lines.iter().any(|line| line.contains("ERROR ") && line.contains(test));
    found.test.is_some() && found.kind == Kind::Test && found.severity <= Severity::Error && !is_collection
}

/// Reason of a failed test on one line, without test name and location. Empty if no line contains
/// it.
fn reason(found: &Found) -> String {
    let test = found.test.as_deref().unwrap_or_default();
    let last = test.rsplit([':', '.', '/', ' ', '\u{203a}']).next().unwrap_or_default();
    let of_line = |line: &String| {
        let mut text = line.replace(test, " ");
        if last.len() >= REASON_LETTERS_MIN {
            text = text.replace(last, " ");
        }
        if let Some((_, after)) = found.location.as_ref().and_then(|location| text.split_once(&location.file))
        {
            let is_position = |c: char| c.is_ascii_digit() || matches!(c, ':' | ')' | ',');
            text = after.trim_start_matches(is_position).to_owned();
        }
        let words =
            text.trim_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '\'' | '"' | '`' | ')' | ']'));
        let words = ["FAILED", "FAIL", "Failed", "failed", "not ok"].iter().fold(words, |words, word| {
            words.strip_prefix(word).unwrap_or(words).trim_start_matches(|c: char| !c.is_alphanumeric())
        });
        words.trim().to_owned()
    };
    let says_why = |text: &String| text.chars().filter(|c| c.is_alphabetic()).count() >= REASON_LETTERS_MIN;
    let speaks = |line: &&String| {
        ["rror", "xception", "xpected", "panicked", "assert", "Assert"].iter().any(|word| line.contains(word))
    };
    // A runner truncates the lines of its summary to the width of the terminal.
    let is_whole = |line: &&String| !line.trim_end().ends_with(['.', '\u{2026}']);
    let lines = || found.lines.iter().filter(|line| !is_rule(line));
    let marked = lines().filter(|line| line.starts_with("E ")).map(of_line).find(says_why);
    let spoken = || lines().filter(speaks);
    marked
        .or_else(|| spoken().filter(is_whole).map(of_line).find(says_why))
        .or_else(|| spoken().map(of_line).find(says_why))
        .or_else(|| lines().skip(found.head).map(of_line).find(says_why))
        .unwrap_or_default()
}
