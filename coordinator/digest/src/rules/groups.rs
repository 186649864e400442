//! The groups of a rule's pattern, read from a line that it is known to match.

use super::Rule;
use super::group_splitter::GroupSplitter;
use super::pattern_shape::{after_anything, parsed, until_read};
use crate::text::lossy;
use memchr::memmem::Finder;
use regex_automata::meta::Regex;
use regex_automata::util::primitives::NonMaxUsize;
use regex_automata::{Anchored, Input};
use regex_syntax::hir::{Hir, HirKind};
use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::OnceLock;

/// Most groups of one pattern, the whole match included; a test holds the tables to it.
pub(super) const GROUPS_MAX: usize = 16;

/// Where each group begins and ends, if it took part.
pub(super) type Slots = [Option<NonMaxUsize>; 2 * GROUPS_MAX];

/// A rule, and its pattern by itself to read its groups.
pub(super) struct Compiled {
    pub(super) rule: &'static Rule,
    /// The named groups that can be read, with their numbers.
    names: Vec<(Box<str>, usize)>,
    alone: OnceLock<GroupReader>,
    after_anything: OnceLock<Option<AfterAnything>>,
}

/// The part of a pattern after its leading `.*`. Matching it alone takes a fraction of the time.
struct AfterAnything {
    /// Finds the text that it begins with.
    text: Finder<'static>,
    rest: GroupReader,
}

/// Reads the groups of a pattern.
struct GroupReader {
    pattern: Hir,
    split: Option<GroupSplitter>,
    general: OnceLock<Regex>,
}

impl Compiled {
    /// A rule and its pattern.
    pub(super) fn new(rule: &'static Rule, pattern: &Hir) -> Self {
        let mut names = Vec::new();
        named(&until_read(pattern), &mut names);
        Self { rule, names, alone: OnceLock::new(), after_anything: OnceLock::new() }
    }

    /// Where the groups of a line are that it matches.
    fn slots(&self, line: &[u8]) -> Slots {
        // `.*` is greedy: the part after it matches at the last possible position.
        let after = self.after_anything.get_or_init(|| AfterAnything::of(self.rule.pattern));
        after.as_ref().and_then(|after| after.slots(line)).unwrap_or_else(|| self.slots_of_all(line))
    }

    fn slots_of_all(&self, line: &[u8]) -> Slots {
        let alone = self.alone.get_or_init(|| GroupReader::new(until_read(&parsed(self.rule.pattern))));
        alone.slots(line, 0).unwrap_or_default()
    }
}

/// The named groups of a pattern and their numbers.
fn named(pattern: &Hir, names: &mut Vec<(Box<str>, usize)>) {
    match pattern.kind() {
        HirKind::Capture(capture) => {
            names.extend(capture.name.clone().map(|name| (name, capture.index as usize)));
            named(&capture.sub, names);
        }
        HirKind::Repetition(repetition) => named(&repetition.sub, names),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().for_each(|part| named(part, names));
        }
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => {}
    }
}

impl AfterAnything {
    fn of(pattern: &str) -> Option<Self> {
        let rest = after_anything(&until_read(&parsed(pattern)))?;
        let first = match rest.kind() {
            HirKind::Concat(parts) => parts.first()?,
            _ => &rest,
        };
        let HirKind::Literal(text) = first.kind() else { return None };
        Some(Self { text: Finder::new(&text.0).into_owned(), rest: GroupReader::new(rest) })
    }

    /// `None` if only the whole pattern can decide.
    fn slots(&self, line: &[u8]) -> Option<Slots> {
        // Forwards it is searched for many bytes at a time.
        let next = |from: usize| self.text.find(line.get(from..)?).map(|at| from + at);
        let at = std::iter::successors(next(0), |at| next(at + 1)).last()?;
        self.rest.slots(line, at)
    }
}

impl GroupReader {
    fn new(pattern: Hir) -> Self {
        Self { split: GroupSplitter::of(&pattern), pattern, general: OnceLock::new() }
    }

    /// Groups of a match from this position on. `None` if there is no match.
    fn slots(&self, line: &[u8], from: usize) -> Option<Slots> {
        match self.split.as_ref().map(|split| split.slots(line, from)) {
            Some(Ok(slots)) => slots,
            None | Some(Err(_)) => self.slots_in_general(line, from),
        }
    }

    fn slots_in_general(&self, line: &[u8], from: usize) -> Option<Slots> {
        let mut slots = Slots::default();
        let input = Input::new(line).span(from..line.len()).anchored(Anchored::Yes);
        self.general.get_or_init(|| general(&self.pattern)).search_slots(&input, &mut slots).map(|_| slots)
    }
}

/// Reads any pattern. That it matches is known already, so it gets no room for an automaton that would find out once more.
fn general(pattern: &Hir) -> Regex {
    Regex::builder()
        .configure(Regex::config().hybrid(false).utf8_empty(false))
        .build_from_hir(pattern)
        .expect("the automaton that matched was built from the same pattern")
}

/// The named groups of a match. They are computed at the first access, because most matches need none. The group `m`, the
/// message, only documents the rest of the line in the tables.
pub(crate) struct Groups<'a> {
    line: &'a [u8],
    rule: &'a Compiled,
    slots: OnceCell<Slots>,
}

impl<'a> Groups<'a> {
    pub(super) const fn new(line: &'a [u8], rule: &'a Compiled) -> Self {
        Self { line, rule, slots: OnceCell::new() }
    }

    /// A group as text.
    pub(crate) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        let (_, group) = self.rule.names.iter().find(|(known, _)| **known == *name)?;
        let slots = self.slots.get_or_init(|| self.rule.slots(self.line));
        let (from, to) = (slots[2 * group]?, slots[2 * group + 1]?);
        Some(lossy(&self.line[from.get()..to.get()]))
    }

    /// A group as a number; 0 if it took no part.
    pub(crate) fn number(&self, name: &str) -> u64 {
        let Some(text) = self.text(name) else { return 0 };
        text.parse().or_else(|_| text.replace([',', '.'], "").parse()).unwrap_or(0)
    }
}

#[cfg(test)]
impl Compiled {
    /// Returns true if splitting reads the same groups as the general matcher.
    pub(super) fn reads_alike(&self, line: &[u8]) -> Option<bool> {
        let alone = self.alone.get_or_init(|| GroupReader::new(until_read(&parsed(self.rule.pattern))));
        let split = alone.split.as_ref()?.slots(line, 0).ok()?;
        let general = alone.slots_in_general(line, 0);
        // The match as a whole is no group that is read.
        Some(split.map(|slots| slots[2..].to_vec()) == general.map(|slots| slots[2..].to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_after_anything_has_the_groups_of_the_whole_pattern() {
        let pattern = r"^.*Test [Cc]ase '(?P<t>[^']+)' passed (?:on '|\()";
        let rule = crate::tools::rules().find(|rule| rule.pattern == pattern).expect("the rule is there");
        let compiled = Compiled::new(rule, &parsed(pattern));
        let group = compiled.names.iter().find(|(name, _)| **name == *"t").expect("it names the test").1;
        for (line, test) in [
            ("Test Case 'a' passed (0.1 seconds)", "a"),
            ("glued Test case '-[A b]' passed on 'x'", "-[A b]"),
            ("Test Case 'a' passed (0.1 seconds) Test Case 'b' passed (", "b"),
            ("Test Case 'a' passed (0.1 seconds) Test Case 'b' started", "a"),
            ("Test Case 'a' passed (0.1 seconds) Test again", "a"),
        ] {
            let told = |slots: Slots| Some(&line[slots[2 * group]?.get()..slots[2 * group + 1]?.get()]);
            assert_eq!(told(compiled.slots(line.as_bytes())), Some(test), "{line}");
            assert_eq!(told(compiled.slots_of_all(line.as_bytes())), Some(test), "{line}");
        }
        let after = compiled.after_anything.get().expect("it was asked").as_ref().expect("it begins with .*");
        assert!(after.slots(b"Test Case 'a' passed (0.1 seconds)").is_some());
    }
}
