//! All rules, asked at once.
//!
//! Most lines of a log mean nothing, and are to cost little. So the rules are a few automata. Those whose text begins with
//! fixed words are given up after a few bytes of a line. All others would have to read most of it; of them it is known which
//! texts a line must contain, and one scan for all these texts tells which automata are worth asking.

use super::literals::{required, shortest};
use super::{Act, Groups, Rule, TABLES};
use crate::limits::AUTOMATON_BYTES_MAX;
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};
use std::sync::{LazyLock, OnceLock};

/// Shortest text that is rare enough to be waited for, in bytes: `:7` is one.
const TEXT_BYTES_MIN: usize = 2;
/// From this length on a text is rare, in bytes.
const RARE_BYTES_MIN: usize = 4;

/// The rules' automata and what a line must contain to be worth asking them.
pub(crate) struct RuleSet {
    rules: Vec<(&'static Rule, OnceLock<Regex>)>,
    sets: [Automaton; Sort::ALL.len()],
    texts: AhoCorasick,
    /// The automata that are asked when a text occurs, by the text's number.
    wakes: Vec<Wanted>,
}

/// Some of the rules as one automaton. Apart they stay small: a pattern that may begin with anything would multiply the
/// states of all others.
struct Automaton {
    set: RegexSet,
    members: Vec<usize>,
}

/// Which automata are asked about a line, or speak to it; a bit each.
type Wanted = u8;

/// How much of a line a pattern reads before it is given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sort {
    /// It begins with fixed text.
    Fixed,
    /// It begins with a name or a place, and nothing need occur.
    Open,
    /// It needs a short text, as the number in a place.
    Place,
    /// It begins with a name or a place, and needs a rare text.
    Rare,
    /// It begins with anything, and needs a rare text.
    Anywhere,
}

impl Sort {
    const ALL: [Self; 5] = [Self::Fixed, Self::Open, Self::Place, Self::Rare, Self::Anywhere];
    /// Those that every line is asked of.
    const ALWAYS: Wanted = Self::Fixed.bit() | Self::Open.bit();

    const EVERY: Wanted = (1 << Self::ALL.len()) - 1;

    const fn bit(self) -> Wanted {
        1 << self as u8
    }

    fn of(pattern: &str, needs: Option<&[Vec<u8>]>) -> Self {
        let body = pattern.trim_start_matches("(?i)").trim_start_matches('^');
        let front: String = body.chars().take(24).collect();
        let anything = front.starts_with(".*") || front.starts_with("(?:.*");
        let open = ["[^", r"\S", r"\w", "(?P<t>", "(?P<m>"].iter().any(|open| front.contains(open));
        match needs.map_or(0, shortest) {
            _ if !anything && !open => Self::Fixed,
            RARE_BYTES_MIN.. if anything => Self::Anywhere,
            RARE_BYTES_MIN.. => Self::Rare,
            TEXT_BYTES_MIN.. => Self::Place,
            _ => Self::Open,
        }
    }
}

static ALL: LazyLock<RuleSet> = LazyLock::new(|| RuleSet::without(None));

impl RuleSet {
    /// The rules of all tools.
    pub(crate) fn all() -> &'static Self {
        &ALL
    }

    /// All rules but those whose name begins with this: shows what a recogniser is worth.
    pub(crate) fn without(prefix: Option<&str>) -> Self {
        let rules: Vec<_> = TABLES
            .iter()
            .flat_map(|table| table.iter())
            .filter(|rule| prefix.is_none_or(|prefix| !rule.name.starts_with(prefix)))
            .map(|rule| (rule, OnceLock::new()))
            .collect();
        let mut members = Sort::ALL.map(|_| Vec::new());
        let (mut texts, mut wakes) = (Vec::new(), Vec::new());
        for (index, (rule, _)) in rules.iter().enumerate() {
            let needs = required(rule.pattern);
            let sort = Sort::of(rule.pattern, needs.as_deref());
            members[sort as usize].push(index);
            if sort.bit() & Sort::ALWAYS == 0 {
                for text in needs.unwrap_or_default() {
                    texts.push(text);
                    wakes.push(sort.bit());
                }
            }
        }
        let sets = members.map(|members| Automaton::new(&rules, members));
        let texts = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::DFA))
            .match_kind(MatchKind::Standard)
            .build(texts)
            .expect("the tables' texts are few and short; a test builds this");
        Self { rules, sets, texts, wakes }
    }

    /// Which automata have a rule that speaks to the line.
    pub(crate) fn speaks(&self, line: &[u8]) -> Speaks {
        let wanted = self.wanted(line);
        let mut speaks = 0;
        for (sort, automaton) in Sort::ALL.iter().zip(&self.sets) {
            if wanted & sort.bit() != 0 && automaton.set.is_match(line) {
                speaks |= sort.bit();
            }
        }
        Speaks(speaks)
    }

    /// The automata that are worth asking.
    fn wanted(&self, line: &[u8]) -> Wanted {
        let mut wanted = Sort::ALWAYS;
        // No text ends before the one that ends first, so none begins long before it.
        let Some(first) = self.texts.find(line) else { return wanted };
        let from = first.end().saturating_sub(self.texts.max_pattern_len());
        for found in self.texts.find_overlapping_iter(&line[from..]) {
            wanted |= self.wakes[found.pattern().as_usize()];
            if wanted == Sort::EVERY {
                break;
            }
        }
        wanted
    }

    /// Calls with each rule that speaks to the line, in the order of the tables.
    pub(crate) fn each<'t>(
        &self,
        line: &'t [u8],
        Speaks(speaks): Speaks,
        mut found: impl FnMut(&'static Rule, &Groups<'t>),
    ) {
        let mut indices: Vec<usize> = Vec::new();
        for (sort, automaton) in Sort::ALL.iter().zip(&self.sets) {
            if speaks & sort.bit() != 0 {
                indices.extend(automaton.set.matches(line).iter().map(|index| automaton.members[index]));
            }
        }
        indices.sort_unstable();
        for index in indices {
            let (rule, regex) = &self.rules[index];
            if !rule.acts.iter().any(Act::reads_groups) {
                found(rule, &Groups(None));
            } else if let Some(captures) = regex.get_or_init(|| alone(rule)).captures(line) {
                found(rule, &Groups(Some(captures)));
            }
        }
    }
}

impl Automaton {
    fn new(rules: &[(&'static Rule, OnceLock<Regex>)], members: Vec<usize>) -> Self {
        let set = RegexSetBuilder::new(members.iter().map(|index| rules[*index].0.pattern))
            .unicode(false)
            .size_limit(64 << 20)
            .dfa_size_limit(AUTOMATON_BYTES_MAX)
            .build()
            .expect("the tables' patterns are valid; a test compiles each");
        Self { set, members }
    }
}

/// One rule by itself, to read its groups. That it matches is known already, so it gets no room for an automaton that would
/// find out once more.
fn alone(rule: &Rule) -> Regex {
    RegexBuilder::new(rule.pattern)
        .unicode(false)
        .dfa_size_limit(0)
        .build()
        .expect("the set that matched was built from the same pattern")
}

/// Which of the automata speak to a line.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Speaks(Wanted);

impl Speaks {
    /// Whether any does.
    pub(crate) const fn any(self) -> bool {
        self.0 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Lines of each log that are asked: its beginning and its end.
    const LINES: usize = 20;

    fn logs(folder: &Path, logs: &mut Vec<Vec<u8>>) {
        for path in std::fs::read_dir(folder).expect("the logs are there").flatten().map(|entry| entry.path())
        {
            if path.is_dir() {
                self::logs(&path, logs);
            } else {
                logs.push(std::fs::read(path).expect("the log is there"));
            }
        }
    }

    #[test]
    fn no_rule_is_kept_from_a_line_that_it_speaks_to() {
        let set = RuleSet::all();
        let everything = Automaton::new(&set.rules, (0..set.rules.len()).collect());
        let mut all = Vec::new();
        logs(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logs"), &mut all);
        let mut spoken = 0;
        for log in &all {
            let lines: Vec<&[u8]> = log.split(|byte| *byte == b'\n').collect();
            let (first, last) = lines.split_at(lines.len().min(LINES));
            for line in first.iter().chain(last.iter().rev().take(LINES)) {
                let line = &line[..line.len().min(300)];
                let mut found = Vec::new();
                set.each(line, set.speaks(line), |rule, _| found.push(rule.name));
                let expected = everything.set.matches(line);
                let expected: Vec<_> = expected.iter().map(|index| set.rules[index].0.name).collect();
                assert_eq!(found, expected, "{}", String::from_utf8_lossy(line));
                spoken += found.len();
            }
        }
        assert!(spoken > 500, "{spoken} matches say little");
    }
}
