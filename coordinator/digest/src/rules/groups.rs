//! The groups of a rule's pattern, read from a line that it is known to match.

use super::Rule;
use super::shape::{is_any_rest, parsed, until_read};
use regex_automata::meta::Regex;
use regex_automata::util::captures::Captures;
use regex_automata::{Anchored, Input};
use regex_syntax::hir::{Hir, HirKind, Look, Repetition};
use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::OnceLock;

/// A rule, and its pattern by itself to read its groups.
pub(super) struct Compiled {
    pub(super) rule: &'static Rule,
    alone: OnceLock<Regex>,
    after_anything: OnceLock<Option<AfterAnything>>,
}

/// What comes after the `.*` that a pattern begins with. Read by itself it takes a fraction of the time.
struct AfterAnything {
    /// The text that it begins with.
    text: Vec<u8>,
    pattern: Regex,
}

impl Compiled {
    pub(super) const fn new(rule: &'static Rule) -> Self {
        Self { rule, alone: OnceLock::new(), after_anything: OnceLock::new() }
    }

    /// The groups of a line that it matches.
    fn groups(&self, line: &[u8]) -> Captures {
        // `.*` takes as much as it can: what comes after it is at the last place where it can be, if it is there at all.
        let after = self.after_anything.get_or_init(|| AfterAnything::of(self.rule.pattern));
        after.as_ref().and_then(|after| after.groups(line)).unwrap_or_else(|| self.groups_of_all(line))
    }

    fn groups_of_all(&self, line: &[u8]) -> Captures {
        let alone = self.alone.get_or_init(|| reader(&until_read(&parsed(self.rule.pattern))));
        let mut captures = alone.create_captures();
        alone.captures(Input::new(line).anchored(Anchored::Yes), &mut captures);
        captures
    }
}

impl AfterAnything {
    fn of(pattern: &str) -> Option<Self> {
        let pattern = until_read(&parsed(pattern));
        let HirKind::Concat(parts) = pattern.kind() else { return None };
        let [start, anything, rest @ ..] = parts.as_slice() else { return None };
        let greedy = matches!(anything.kind(), HirKind::Repetition(Repetition { greedy: true, .. }));
        let (HirKind::Look(Look::Start), HirKind::Literal(text)) = (start.kind(), rest.first()?.kind())
        else {
            return None;
        };
        let is_it = greedy && is_any_rest(anything);
        is_it.then(|| Self { text: text.0.to_vec(), pattern: reader(&Hir::concat(rest.to_vec())) })
    }

    /// None where only the whole pattern can tell.
    fn groups(&self, line: &[u8]) -> Option<Captures> {
        let at = memchr::memmem::rfind(line, &self.text)?;
        let mut captures = self.pattern.create_captures();
        self.pattern.captures(Input::new(line).span(at..line.len()).anchored(Anchored::Yes), &mut captures);
        captures.is_match().then_some(captures)
    }
}

/// Reads groups. That the pattern matches is known already, so it gets no room for an automaton that would find out once more.
fn reader(pattern: &Hir) -> Regex {
    Regex::builder()
        .configure(Regex::config().hybrid(false).utf8_empty(false))
        .build_from_hir(pattern)
        .expect("the automaton that matched was built from the same pattern")
}

/// The named groups of a match. They are read when the first is asked for, since most matches are not asked. What a rule
/// calls `m`, the message, only says in the tables what the rest of the line is.
pub(crate) struct Groups<'a> {
    line: &'a [u8],
    rule: &'a Compiled,
    captures: OnceCell<Captures>,
}

impl<'a> Groups<'a> {
    pub(super) const fn new(line: &'a [u8], rule: &'a Compiled) -> Self {
        Self { line, rule, captures: OnceCell::new() }
    }

    /// A group as text.
    pub(crate) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        let captures = self.captures.get_or_init(|| self.rule.groups(self.line));
        captures.get_group_by_name(name).map(|span| String::from_utf8_lossy(&self.line[span.range()]))
    }

    /// A group as a number; 0 if it took no part.
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.text(name).and_then(|text| text.replace([',', '.'], "").parse().ok()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_after_anything_has_the_groups_of_the_whole_pattern() {
        let pattern = r"^.*Test [Cc]ase '(?P<t>[^']+)' passed (?:on '|\()";
        let rule = super::super::TABLES
            .iter()
            .flat_map(|table| table.iter())
            .find(|rule| rule.pattern == pattern)
            .expect("the rule is there");
        let compiled = Compiled::new(rule);
        for (line, test) in [
            ("Test Case 'a' passed (0.1 seconds)", "a"),
            ("glued Test case '-[A b]' passed on 'x'", "-[A b]"),
            ("Test Case 'a' passed (0.1 seconds) Test Case 'b' passed (", "b"),
            ("Test Case 'a' passed (0.1 seconds) Test Case 'b' started", "a"),
            ("Test Case 'a' passed (0.1 seconds) Test again", "a"),
        ] {
            let told = |captures: Captures| captures.get_group_by_name("t").map(|span| &line[span.range()]);
            assert_eq!(told(compiled.groups(line.as_bytes())), Some(test), "{line}");
            assert_eq!(told(compiled.groups_of_all(line.as_bytes())), Some(test), "{line}");
        }
        let after = compiled.after_anything.get().expect("it was asked").as_ref().expect("it begins with .*");
        assert!(after.groups(b"Test Case 'a' passed (0.1 seconds)").is_some());
    }
}
