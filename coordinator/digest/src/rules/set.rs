//! All rules, matched together.
//!
//! Most lines of a log match no rule and must cost little. A line that matches a rule contains one of its texts. So one search
//! finds which texts of all rules are in a line, and only rules with one of them are tried. The few rules without a rare text
//! are found by an automaton, which stays small because it has only these.

use super::group_splitter::begins_widely;
use super::groups::{Compiled, Groups, Reading, Slots};
use super::known_texts::KnownTexts;
use super::literal_search::{
    BorderedLine, LiteralSearch, PICKED_BYTES, Sought, TEXT_BYTES_MIN, likely_picks,
};
use super::literals::{best, candidates, shortest};
use super::pattern_shape::{parsed, until_known};
use super::{Rule, is_named};
use crate::configure_probes;
use crate::keyword_lines;
use crate::limits::AUTOMATON_BYTES_MAX;
use crate::text::has_control;
use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;
use regex_automata::util::pool::{Pool, PoolGuard};
use regex_automata::{Anchored, Input, MatchKind};
use regex_syntax::hir::Hir;
use std::borrow::Cow;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, LazyLock};

/// Limit on the short texts of a rule: each of them makes the search slower.
const SHORT_TEXTS_MAX: usize = 8;

/// The rules, and what finds those that a line may match.
pub(crate) struct RuleSet {
    rules: Vec<Compiled>,
    texts: LiteralSearch<Meaning>,
    automaton: Arc<Automaton>,
    states: StatePool,
}

type StatePool = Pool<State, Box<dyn Fn() -> State + Send + Sync + UnwindSafe + RefUnwindSafe>>;

/// Rules without a rare text as one automaton.
struct Automaton {
    dfa: DFA,
    /// The index of the rule behind each of its patterns.
    members: Vec<u16>,
}

/// Meaning of a text in a line.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    /// The line may match the rule with this index.
    Rule(u16),
    /// The line reports a problem.
    ErrorWord,
    /// The line may name a probe of a configuration.
    Probe,
}

/// State of the matcher: the automaton's states so far, and the result.
struct State {
    automaton: Cache,
    line: BorderedLine,
    /// A bit for each rule that the line may match.
    tried: Vec<u64>,
    reading: Reading,
    /// The rules that match the line, in order, each with the places of its groups.
    matches: Vec<(u16, Slots)>,
    has_error_word: bool,
    may_name_probe: bool,
}

static ALL: LazyLock<Arc<RuleSet>> = LazyLock::new(|| Arc::new(RuleSet::new()));

impl RuleSet {
    /// The rules of all tools.
    pub(crate) fn all() -> Arc<Self> {
        Arc::clone(&ALL)
    }

    fn new() -> Self {
        let mut members = Vec::new();
        let likely = |text: Cow<'static, [u8]>, value| Sought { picks: likely_picks(&text), text, value };
        let known = |texts: &'static [&str], value| {
            texts.iter().map(move |text| likely(Cow::Borrowed(text.as_bytes()), value))
        };
        let mut texts: Vec<_> = known(keyword_lines::TEXTS, Meaning::ErrorWord)
            .chain(known(configure_probes::PROBES, Meaning::Probe))
            .collect();
        let known_texts = KnownTexts::new();
        for (index, rule) in (0..).zip(crate::tools::rules()) {
            let before = texts.len();
            let value = Meaning::Rule(index);
            match known_texts.of(rule.pattern) {
                Some(known) => texts.extend(known.map(|(text, picks)| Sought { text, picks, value })),
                None => {
                    let needs = search_texts(&parsed(rule.pattern)).unwrap_or_default();
                    texts.extend(needs.into_iter().map(|text| likely(text.into(), value)));
                }
            }
            if texts.len() == before {
                members.push((index, until_known(&parsed(rule.pattern))));
            }
        }
        let rules: Vec<_> = crate::tools::rules().map(Compiled::new).collect();
        let automaton = Arc::new(Automaton::new(members));
        let (asked, words) = (Arc::clone(&automaton), rules.len().div_ceil(64));
        assert!(words <= 64, "a word has a bit for each 64 rules");
        let states = Pool::new(Box::new(move || State::new(&asked, words)) as Box<_>);
        Self { rules, texts: LiteralSearch::new(texts), automaton, states }
    }

    /// A matcher for lines that ignores the disabled rules.
    pub(crate) fn matcher<'r>(&'r self, left_out: &'r [u16]) -> LineMatcher<'r> {
        LineMatcher { set: self, left_out, state: self.states.get() }
    }

    /// The rule with this name, or a tool's rules: `go.fail`, `go`.
    pub(crate) fn named(&self, name: &str) -> Vec<u16> {
        let named = (0..).zip(self.rules()).filter(|(_, rule)| is_named(rule.name, name));
        named.map(|(index, _)| index).collect()
    }

    /// All rules, in the order of the tables.
    pub(crate) fn rules(&self) -> impl Iterator<Item = &'static Rule> {
        self.rules.iter().map(|compiled| compiled.rule)
    }
}

/// Texts of which each match contains one, if they are rare enough to search for them. Other patterns are the automaton's.
fn search_texts(pattern: &Hir) -> Option<Vec<Vec<u8>>> {
    best(search_candidates(pattern))
}

/// All lists of such texts.
pub(super) fn search_candidates(pattern: &Hir) -> Vec<Vec<Vec<u8>>> {
    let mut candidates = candidates(pattern);
    candidates.retain(|texts| match shortest(texts) {
        TEXT_BYTES_MIN.. => true,
        PICKED_BYTES => {
            let short = texts.iter().filter(|text| text.len() == PICKED_BYTES).count();
            short <= SHORT_TEXTS_MAX && begins_widely(pattern)
        }
        _ => false,
    });
    candidates
}

impl std::fmt::Debug for RuleSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuleSet").field("rules", &self.rules.len()).finish_non_exhaustive()
    }
}

impl State {
    fn new(automaton: &Automaton, words: usize) -> Self {
        Self {
            automaton: automaton.dfa.create_cache(),
            line: BorderedLine::default(),
            tried: vec![0; words],
            reading: Reading::default(),
            matches: Vec::new(),
            has_error_word: false,
            may_name_probe: false,
        }
    }
}

/// Matches the rules on one line after the other.
pub(crate) struct LineMatcher<'r> {
    set: &'r RuleSet,
    /// Indices of disabled rules.
    left_out: &'r [u16],
    state: PoolGuard<'r, State, Box<dyn Fn() -> State + Send + Sync + UnwindSafe + RefUnwindSafe>>,
}

impl LineMatcher<'_> {
    /// Returns true if a rule matches the line, which has no control bytes.
    pub(crate) fn is_match(&mut self, line: &[u8]) -> bool {
        debug_assert!(!has_control(line), "{} was not cleaned", line.escape_ascii());
        let RuleSet { rules, texts, automaton, .. } = self.set;
        let State {
            automaton: states,
            line: bordered,
            tried,
            reading,
            matches,
            has_error_word,
            may_name_probe,
        } = &mut *self.state;
        bordered.set(line);
        matches.clear();
        (*has_error_word, *may_name_probe) = (false, false);
        // A bit for each word of `tried` that is not zero.
        let mut words = 0_u64;
        let mut try_rule = |rule: u16| {
            words |= 1 << (rule / 64);
            tried[usize::from(rule / 64)] |= 1 << (rule % 64);
        };
        texts.each(bordered, |sought| match sought {
            Meaning::Rule(rule) => try_rule(rule),
            Meaning::ErrorWord => *has_error_word = true,
            Meaning::Probe => *may_name_probe = true,
        });
        automaton.matches(states, line, try_rule);
        while words != 0 {
            let word = words.trailing_zeros() as u16;
            words &= words - 1;
            let mut rest = std::mem::take(&mut tried[usize::from(word)]);
            while rest != 0 {
                let rule = 64 * word + rest.trailing_zeros() as u16;
                rest &= rest - 1;
                if rules[usize::from(rule)].reads(line, reading) && !self.left_out.contains(&rule) {
                    matches.push((rule, reading.slots));
                }
            }
        }
        !matches.is_empty()
    }

    /// Returns true if the last matched line contains a text that reports a problem.
    pub(crate) fn has_error_word(&self) -> bool {
        self.state.has_error_word
    }

    /// Returns false if the last matched line certainly does not name a probe of a configuration.
    pub(crate) fn may_name_probe(&self) -> bool {
        self.state.may_name_probe
    }

    /// The rules that match the last line.
    pub(crate) fn rules(&self) -> impl Iterator<Item = &'static Rule> {
        self.state.matches.iter().map(|(index, _)| self.set.rules[usize::from(*index)].rule)
    }

    /// Calls the function with each rule that matches the last line, in the order of the tables.
    pub(crate) fn each(&self, line: &[u8], mut found: impl FnMut(usize, &'static Rule, &Groups<'_>)) {
        for (index, slots) in &self.state.matches {
            let index = usize::from(*index);
            let compiled = &self.set.rules[index];
            found(index, compiled.rule, &Groups::new(line, compiled, slots));
        }
    }
}

impl Automaton {
    fn new(members: Vec<(u16, Hir)>) -> Self {
        let (members, patterns): (Vec<_>, Vec<_>) = members.into_iter().unzip();
        let nfa = thompson::Compiler::new()
            .configure(thompson::Config::new().utf8(false).which_captures(thompson::WhichCaptures::None))
            .build_many_from_hir(&patterns)
            .expect("the tables' patterns are few and small; a test builds this");
        let config = DFA::config()
            .match_kind(MatchKind::All)
            .cache_capacity(AUTOMATON_BYTES_MAX)
            .skip_cache_capacity_check(true);
        let dfa = DFA::builder().configure(config).build_from_nfa(nfa).expect("nothing in it needs Unicode");
        Self { dfa, members }
    }

    /// Calls with each member that matches; with the same one maybe more than once.
    fn matches(&self, cache: &mut Cache, line: &[u8], mut found: impl FnMut(u16)) {
        let mut told = |cache: &Cache, state: LazyStateID| {
            for nth in 0..self.dfa.match_len(cache, state) {
                found(self.members[self.dfa.match_pattern(cache, state, nth)]);
            }
        };
        let input = Input::new(line).anchored(Anchored::Yes);
        let Ok(mut state) = self.dfa.start_state_forward(cache, &input) else { return };
        let mut at = 0;
        while at < line.len() {
            // Almost all states are plain and cached: they are passed without a check of their kind.
            while !state.is_tagged() && at < line.len() {
                let next = self.dfa.next_state_untagged(cache, state, line[at]);
                if next.is_tagged() {
                    break;
                }
                state = next;
                at += 1;
            }
            let Some(byte) = line.get(at) else { break };
            let Ok(next) = self.dfa.next_state(cache, state, *byte) else { return };
            (state, at) = (next, at + 1);
            if state.is_match() {
                told(cache, state);
            } else if state.is_dead() {
                return;
            }
        }
        if let Ok(state) = self.dfa.next_eoi_state(cache, state)
            && state.is_match()
        {
            told(cache, state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Cleaner;
    use regex::bytes::RegexSetBuilder;
    use std::path::Path;

    /// Lines of each log that are matched: its beginning and its end.
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
        let everything = RegexSetBuilder::new(set.rules.iter().map(|compiled| compiled.rule.pattern))
            .unicode(false)
            .size_limit(64 << 20)
            .build()
            .expect("the patterns are valid");
        let mut matcher = set.matcher(&[]);
        let mut all = Vec::new();
        logs(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logs"), &mut all);
        let mut cleaner = Cleaner::default();
        let (mut spoken, mut split) = (0, 0);
        for log in &all {
            let lines: Vec<&[u8]> = log.split(|byte| *byte == b'\n').collect();
            let (first, last) = lines.split_at(lines.len().min(LINES));
            for line in first.iter().chain(last.iter().rev().take(LINES)) {
                let line = cleaner.clean(&line[..line.len().min(300)]);
                let mut found = Vec::new();
                let is_match = matcher.is_match(line);
                matcher.each(line, |index, rule, groups| {
                    found.push(rule.name);
                    assert!(groups.are_as_in_general(), "{}: {}", rule.name, String::from_utf8_lossy(line));
                    split += usize::from(set.rules[index].is_split());
                });
                let expected = everything.matches(line);
                let expected: Vec<_> = expected.iter().map(|index| set.rules[index].rule.name).collect();
                assert_eq!(found, expected, "{}", String::from_utf8_lossy(line));
                assert_eq!(is_match, !found.is_empty());
                spoken += found.len();
            }
        }
        assert!(spoken > 500, "{spoken} matches say little");
        assert!(split * 10 > spoken * 9, "of {spoken} matches only {split} are read by splitting");
    }
}
