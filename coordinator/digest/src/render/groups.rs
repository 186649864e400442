//! Groups tests, and files that a runner could not load, that failed for the same reason: one in
//! full, the others by name.

use super::Page;
use super::cut::cut_end;
use crate::answer_text::thousands;
use crate::compress;
use crate::findings::{RawFinding, normalised};
use crate::ranking::RankedFinding;
use crate::reason::reason;
use crate::rules::Kind;
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

/// Beginning of pytest's line about a file that it could not load.
const LOAD_ERROR: &str = "ERROR ";

type Entry<'a> = (&'a RankedFinding, &'a Finding);

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
        let (mut names_left, mut files_left) = (0, 0);
        for ((ranked, finding), _) in ranked.iter().zip(&gone).filter(|(_, gone)| **gone) {
            let name = ranked.found.test.clone().unwrap_or_default();
            let is_test = is_test(&ranked.found);
            let left = if is_test { &mut names_left } else { &mut files_left };
            let chars = if is_test { NAME_CHARS } else { LOAD_ERROR.len() + super::findings::ID_CHARS };
            if *left > 0 || !take(self, &name, chars) {
                *left += 1;
                continue;
            }
            ranked.found.lines.iter().for_each(|line| self.seen.add(line));
            if is_test {
                self.into.failed_tests.push(name);
            } else {
                let message = format!("{LOAD_ERROR}{name}");
                summaries.push(FindingSummary { message, ..FindingSummary::from(*finding) });
            }
        }
        for (what, left) in [("failed_tests", names_left), ("other_findings", files_left)] {
            if left > 0 {
                let get = match self.verbosity {
                    Verbosity::Minimal => self.job_call("--verbosity normal"),
                    Verbosity::Normal => self.job_call("--verbosity full"),
                    Verbosity::Full => self.logs_call(),
                };
                self.omit(what, left, 0, get);
            }
        }
        let mut gone = gone.iter();
        ranked.retain(|_| !gone.next().copied().unwrap_or(false));
        summaries
    }
}

/// Tests or files that failed for the same reason.
struct Group {
    reason: String,
    /// All of them failed at the location of the first.
    is_one_place: bool,
    /// Indices of the findings, most likely first.
    members: Vec<usize>,
}

impl Group {
    fn line(&self, first: &RawFinding) -> String {
        let count = thousands(self.members.len() as u64);
        let place = first.location.as_ref().filter(|_| self.is_one_place).map(|location| {
            let row = location.line.map_or(String::new(), |line| format!(":{line}"));
            format!(" at {}{row}", location.file)
        });
        let what = if is_test(first) { "tests fail" } else { "errors" };
        format!("{count} {what}{}: {}", place.unwrap_or_default(), self.reason)
    }
}

/// Returns groups of at least [`GROUP_MIN`] failures, most likely first. They share reason and
/// location, or only the reason if there are many.
fn groups(ranked: &[Entry<'_>]) -> Vec<Group> {
    let tests = || ranked.iter().enumerate().filter(|(_, (ranked, _))| is_of_test(&ranked.found));
    let by = |with_place: bool| {
        type Key<'a> = (bool, String, Option<(&'a str, Option<u32>)>);
        let mut all: BTreeMap<Key<'_>, Group> = BTreeMap::new();
        for (index, (ranked, _)) in tests() {
            let found = &ranked.found;
            let reason = reason(found);
            if reason.is_empty() {
                continue;
            }
            let place = found.location.as_ref().map(|location| (location.file.as_str(), location.line));
            let key = (is_test(found), normalised(&reason), place.filter(|_| with_place));
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

/// Returns true for a failed test, and for a file with tests that the runner could not load.
fn is_of_test(found: &RawFinding) -> bool {
    let kinds = [Kind::Test, Kind::Build];
    found.test.is_some() && kinds.contains(&found.kind) && found.severity <= Severity::Error
}

/// Returns true for a failed test. pytest prints `ERROR` for a file that it could not load.
fn is_test(found: &RawFinding) -> bool {
    let test = found.test.as_deref().unwrap_or_default();
    let is_load_error = || found.lines.iter().any(|line| line.contains(LOAD_ERROR) && line.contains(test));
    is_of_test(found) && found.kind == Kind::Test && !is_load_error()
}
