//! A rule's pattern by itself: whether it matches a line, and the groups of the match.

use super::Rule;
use super::group_splitter::{GroupSplitter, Left};
use super::pattern_shape::{after_anything, parsed, until_read};
use crate::text::lossy;
use memchr::memmem::Finder;
use regex_automata::meta::Regex;
use regex_automata::util::primitives::NonMaxUsize;
use regex_automata::{Anchored, Input};
use regex_syntax::hir::{Hir, HirKind, Look};
use std::borrow::Cow;
use std::sync::OnceLock;

/// Most groups of one pattern, the whole match included; a test holds the tables to it.
pub(super) const GROUPS_MAX: usize = 16;

/// The name of a group as a number, which is compared without a call. A name has at most 16 bytes.
type Name = u128;

/// Where each group begins and ends, if it took part.
pub(super) type Slots = [Option<NonMaxUsize>; 2 * GROUPS_MAX];

/// The groups of the last match, and buffers that are used for one line after the other.
#[derive(Default)]
pub(super) struct Reading {
    pub(super) slots: Slots,
    /// Open alternatives.
    left: Vec<Left>,
    /// Where the pattern may begin after any text.
    places: Vec<usize>,
}

/// A rule, and the reader of its pattern, which is made when a line is tried for the first time.
pub(super) struct Compiled {
    pub(super) rule: &'static Rule,
    reader: OnceLock<Reader>,
    /// Reads the whole pattern.
    #[cfg(test)]
    whole: OnceLock<Regex>,
}

/// Reads the groups of a pattern, up to the last text that a rule reads.
struct Reader {
    /// The named groups that can be read, with their numbers.
    names: Vec<(Name, usize)>,
    /// If the pattern begins with `.*` and a text: finds the text. The pattern is the part after `.*`.
    after: Option<Finder<'static>>,
    /// The text that a line must end with, maybe empty.
    end: Box<[u8]>,
    pattern: Hir,
    split: Option<GroupSplitter>,
    general: OnceLock<Regex>,
}

impl Compiled {
    pub(super) const fn new(rule: &'static Rule) -> Self {
        Self {
            rule,
            reader: OnceLock::new(),
            #[cfg(test)]
            whole: OnceLock::new(),
        }
    }

    /// Returns true if the line matches. The groups are then in `reading`.
    pub(super) fn reads(&self, line: &[u8], reading: &mut Reading) -> bool {
        self.reader().reads(line, reading)
    }

    fn reader(&self) -> &Reader {
        self.reader.get_or_init(|| Reader::new(&parsed(self.rule.pattern)))
    }
}

impl Reader {
    fn new(pattern: &Hir) -> Self {
        let end = last_text(pattern).into();
        let pattern = until_read(pattern);
        let mut names = Vec::new();
        named(&pattern, &mut names);
        let after = after_anything(&pattern).and_then(|rest| Some((first_text(&rest)?, rest)));
        let (after, pattern) = after.map_or((None, pattern), |(text, rest)| (Some(text), rest));
        Self { names, after, end, split: GroupSplitter::of(&pattern), pattern, general: OnceLock::new() }
    }

    fn reads(&self, line: &[u8], reading: &mut Reading) -> bool {
        let Reading { slots, left, places } = reading;
        if !line.ends_with(&self.end) {
            return false;
        }
        let Some(text) = &self.after else {
            let may_match = self.split.as_ref().is_none_or(|split| split.may_begin_with(line.first()));
            return may_match && self.reads_from(line, 0, slots, left);
        };
        places.clear();
        let mut from = 0;
        // Forwards it is searched for many bytes at a time.
        while let Some(at) = line.get(from..).and_then(|rest| text.find(rest)) {
            places.push(from + at);
            from += at + 1;
        }
        // `.*` is greedy: the last place at which the rest matches.
        places.iter().rev().any(|place| self.reads_from(line, *place, slots, left))
    }

    fn reads_from(&self, line: &[u8], from: usize, slots: &mut Slots, left: &mut Vec<Left>) -> bool {
        match self.split.as_ref().map(|split| split.reads(line, from, slots, left)) {
            Some(Ok(is_match)) => is_match,
            None | Some(Err(_)) => {
                let input = Input::new(line).span(from..line.len()).anchored(Anchored::Yes);
                let general = self.general.get_or_init(|| general(&self.pattern));
                slots.fill(None);
                general.search_slots(&input, slots).is_some()
            }
        }
    }
}

/// The text that a pattern begins with.
fn first_text(pattern: &Hir) -> Option<Finder<'static>> {
    let first = match pattern.kind() {
        HirKind::Concat(parts) => parts.first()?,
        _ => pattern,
    };
    let HirKind::Literal(text) = first.kind() else { return None };
    Some(Finder::new(&text.0).into_owned())
}

/// The text that each match ends with, if it ends with the line; otherwise empty.
fn last_text(pattern: &Hir) -> &[u8] {
    let HirKind::Concat(parts) = pattern.kind() else { return &[] };
    match parts.as_slice() {
        [.., text, end] if *end.kind() == HirKind::Look(Look::End) => match text.kind() {
            HirKind::Literal(text) => &text.0,
            _ => &[],
        },
        _ => &[],
    }
}

/// The named groups of a pattern and their numbers.
fn named(pattern: &Hir, names: &mut Vec<(Name, usize)>) {
    match pattern.kind() {
        HirKind::Capture(capture) => {
            names.extend(capture.name.as_deref().map(|text| (name(text), capture.index as usize)));
            named(&capture.sub, names);
        }
        HirKind::Repetition(repetition) => named(&repetition.sub, names),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().for_each(|part| named(part, names));
        }
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => {}
    }
}

/// A constant for a constant text.
#[inline(always)]
const fn name(text: &str) -> Name {
    let mut name = 0;
    let mut at = 0;
    while at < text.len() {
        name = name << u8::BITS | text.as_bytes()[at] as Name;
        at += 1;
    }
    name
}

/// Reads any pattern.
fn general(pattern: &Hir) -> Regex {
    Regex::builder()
        .configure(Regex::config().hybrid(false).utf8_empty(false))
        .build_from_hir(pattern)
        .expect("a test builds the pattern of each rule")
}

/// The named groups of a match. The group `m`, the message, only documents the rest of the line in the tables.
pub(crate) struct Groups<'a> {
    line: &'a [u8],
    rule: &'a Compiled,
    slots: &'a Slots,
}

impl<'a> Groups<'a> {
    pub(super) const fn new(line: &'a [u8], rule: &'a Compiled, slots: &'a Slots) -> Self {
        Self { line, rule, slots }
    }

    /// A group as text.
    #[inline]
    pub(crate) fn text(&self, group: &str) -> Option<Cow<'a, str>> {
        self.named(name(group))
    }

    fn named(&self, name: Name) -> Option<Cow<'a, str>> {
        let (_, group) = self.rule.reader().names.iter().find(|(known, _)| *known == name)?;
        let (from, to) = (self.slots[2 * group]?, self.slots[2 * group + 1]?);
        Some(lossy(&self.line[from.get()..to.get()]))
    }

    /// A group as a number; 0 if it took no part.
    #[inline]
    pub(crate) fn number(&self, group: &str) -> u64 {
        self.numbered(name(group))
    }

    fn numbered(&self, name: Name) -> u64 {
        let Some(text) = self.named(name) else { return 0 };
        text.parse().or_else(|_| text.replace([',', '.'], "").parse()).unwrap_or(0)
    }
}

#[cfg(test)]
impl Groups<'_> {
    /// Returns true if the general matcher reads the same groups from the whole pattern.
    pub(super) fn are_as_in_general(&self) -> bool {
        let whole = self.rule.whole.get_or_init(|| general(&parsed(self.rule.rule.pattern)));
        let mut slots = Slots::default();
        let found = whole.search_slots(&Input::new(self.line).anchored(Anchored::Yes), &mut slots);
        // The match as a whole is no group that is read.
        let mut read = self.rule.reader().names.iter().map(|(_, group)| *group);
        found.is_some() && read.all(|group| slots[2 * group..][..2] == self.slots[2 * group..][..2])
    }
}

#[cfg(test)]
impl Compiled {
    /// Returns true if lines are matched without the general matcher.
    pub(super) fn is_split(&self) -> bool {
        self.reader().split.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_after_anything_has_the_groups_of_the_whole_pattern() {
        let pattern = r"^.*Test [Cc]ase '(?P<t>[^']+)' passed (?:on '|\()";
        let rule = crate::tools::rules().find(|rule| rule.pattern == pattern).expect("the rule is there");
        let compiled = Compiled::new(rule);
        assert!(compiled.reader().after.is_some());
        for (line, test) in [
            ("Test Case 'a' passed (0.1 seconds)", Some("a")),
            ("glued Test case '-[A b]' passed on 'x'", Some("-[A b]")),
            ("Test Case 'a' passed (0.1 seconds) Test Case 'b' passed (", Some("b")),
            ("Test Case 'a' passed (0.1 seconds) Test Case 'b' started", Some("a")),
            ("Test Case 'a' passed (0.1 seconds) Test again", Some("a")),
            ("Test Case 'a' started", None),
            ("Test", None),
        ] {
            let mut reading = Reading::default();
            let is_match = compiled.reads(line.as_bytes(), &mut reading);
            let groups = is_match.then(|| Groups::new(line.as_bytes(), &compiled, &reading.slots));
            assert!(groups.as_ref().is_none_or(Groups::are_as_in_general), "{line}");
            let told = groups.and_then(|groups| groups.text("t"));
            assert_eq!(told.as_deref(), test, "{line}");
        }
    }
}
