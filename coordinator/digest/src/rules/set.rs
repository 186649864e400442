//! All rules, matched at once.
//!
//! Most lines of a log match no rule and must cost little. So the rules are compiled into a few automata. Rules that begin with
//! text fail after a few bytes of a line. Most others would read much of it. A line must contain one of their known texts, and
//! an occurrence activates them. They are separate because a rule with an open beginning multiplies the states of its
//! automaton. Most such rules have known texts after the open beginning: they are matched from there.

use super::Rule;
use super::groups::{Compiled, Groups};
use super::literal_search::{LiteralSearch, TEXT_BYTES_MIN};
use super::literals::{beginnings, required, shortest};
use super::pattern_shape::{after_anything, begins_with_anything, narrow_before_wide, parsed, until_known};
use crate::configure_probes;
use crate::keyword_lines;
use crate::limits::AUTOMATON_BYTES_MAX;
use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;
use regex_automata::util::pool::{Pool, PoolGuard};
use regex_automata::{Anchored, Input, MatchKind};
use regex_syntax::hir::Hir;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, LazyLock};

/// From this length on a text is rare, in bytes.
const RARE_BYTES_MIN: usize = TEXT_BYTES_MIN;
/// Limit on the positions of a line from which rules are matched. With more, they are matched on the whole line.
const PLACES_MAX: usize = 4;
/// A pattern that begins with so many bytes of text is soon given up.
const SOON_BYTES_MIN: usize = 3;

/// The rules and their automata.
pub(crate) struct RuleSet {
    rules: Vec<Compiled>,
    texts: LiteralSearch<Activates>,
    automata: Arc<[Automaton; AUTOMATA]>,
    caches: CachePool,
}

type CachePool = Pool<Caches, Box<dyn Fn() -> Caches + Send + Sync + UnwindSafe + RefUnwindSafe>>;

/// Some of the rules as one automaton.
struct Automaton {
    dfa: DFA,
    /// The index of the rule behind each of its patterns.
    members: Vec<u16>,
}

/// How many there are.
const AUTOMATA: usize = 4;

/// Which automaton a rule is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sort {
    /// Begins with text, and fails after a few bytes of another line, or needs no rare text: always matched.
    Always,
    /// May begin with many texts, and needs a rare text: matched where one occurs.
    Rare,
    /// The same, and it begins with anything at all.
    Anywhere,
}

impl Sort {
    fn of(pattern: &Hir, needs: Option<&[Vec<u8>]>) -> Self {
        match narrow_before_wide(pattern).wide_after {
            None | Some(SOON_BYTES_MIN..) => Self::Always,
            Some(_) if needs.is_none_or(|texts| shortest(texts) < RARE_BYTES_MIN) => Self::Always,
            Some(_) if begins_with_anything(pattern) => Self::Anywhere,
            Some(_) => Self::Rare,
        }
    }
}

/// Rules that a text activates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Activates {
    Rare,
    Anywhere,
    /// The rules that begin with anything and go on with such a text, from where it is.
    Here,
    /// No rule: the text shows that a line reports a problem.
    Doubt,
    /// No rule: the line may name a probe of a configuration.
    Probe,
}

/// State of the matcher: the automata's states so far, and the result.
struct Caches {
    automata: [Cache; AUTOMATA],
    /// Where texts begin with which rules go on after anything.
    places: Vec<usize>,
    /// Indices of the rules that match the line, ascending.
    spoken: Vec<u16>,
    /// True if the line contains a text that reports a problem.
    doubtful: bool,
    /// True if the line may name a probe of a configuration.
    probe: bool,
}

static ALL: LazyLock<Arc<RuleSet>> = LazyLock::new(|| Arc::new(RuleSet::new()));

impl RuleSet {
    /// The rules of all tools.
    pub(crate) fn all() -> Arc<Self> {
        Arc::clone(&ALL)
    }

    fn new() -> Self {
        let mut rules = Vec::new();
        let [mut always, mut rare, mut anywhere, mut here] = [const { Vec::new() }; AUTOMATA];
        let known =
            |texts: &'static [&str], wakes| texts.iter().map(move |text| (text.as_bytes().to_vec(), wakes));
        let mut texts: Vec<_> = known(keyword_lines::TEXTS, Activates::Doubt)
            .chain(known(configure_probes::PROBES, Activates::Probe))
            .collect();
        for (index, rule) in (0..).zip(crate::tools::rules()) {
            let pattern = parsed(rule.pattern);
            rules.push(Compiled::new(rule, &pattern));
            let needs = required(&pattern);
            let member = (index, until_known(&pattern));
            let mut wakes = |needs: Option<Vec<_>>, wakes| {
                texts.extend(needs.into_iter().flatten().map(|text| (text, wakes)));
            };
            match Sort::of(&pattern, needs.as_deref()) {
                Sort::Always => always.push(member),
                Sort::Rare => {
                    wakes(needs, Activates::Rare);
                    rare.push(member);
                }
                Sort::Anywhere => {
                    match on_from(&pattern) {
                        Some((rest, beginnings)) => {
                            wakes(Some(beginnings), Activates::Here);
                            here.push((index, until_known(&rest)));
                        }
                        None => wakes(needs, Activates::Anywhere),
                    }
                    anywhere.push(member);
                }
            }
        }
        let automata = Arc::new([always, rare, anywhere, here].map(Automaton::new));
        let asked = Arc::clone(&automata);
        let caches = Pool::new(Box::new(move || Caches::new(&asked)) as Box<_>);
        Self { rules, texts: LiteralSearch::new(texts), automata, caches }
    }

    /// A matcher for lines that ignores the disabled rules.
    pub(crate) fn matcher<'r>(&'r self, left_out: &'r [u16]) -> LineMatcher<'r> {
        LineMatcher { set: self, left_out, caches: self.caches.get() }
    }

    /// The rule with this name, or a tool's rules: `go.fail`, `go`.
    pub(crate) fn named(&self, name: &str) -> Vec<u16> {
        let is_it = |rule: &Rule| {
            rule.name.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        (0..).zip(self.rules()).filter(|(_, rule)| is_it(rule)).map(|(index, _)| index).collect()
    }

    /// All rules, in the order of the tables.
    pub(crate) fn rules(&self) -> impl Iterator<Item = &'static Rule> {
        self.rules.iter().map(|compiled| compiled.rule)
    }
}

impl std::fmt::Debug for RuleSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuleSet").field("rules", &self.rules.len()).finish_non_exhaustive()
    }
}

/// How a pattern that begins with anything goes on, and the texts with one of which that begins.
fn on_from(pattern: &Hir) -> Option<(Hir, Vec<Vec<u8>>)> {
    let rest = after_anything(pattern)?;
    let texts = beginnings(&rest).filter(|texts| shortest(texts) >= RARE_BYTES_MIN)?;
    Some((rest, texts))
}

impl Caches {
    fn new(automata: &[Automaton; AUTOMATA]) -> Self {
        Self {
            automata: automata.each_ref().map(|automaton| automaton.dfa.create_cache()),
            places: Vec::new(),
            spoken: Vec::new(),
            doubtful: false,
            probe: false,
        }
    }
}

/// Matches the rules on one line after the other.
pub(crate) struct LineMatcher<'r> {
    set: &'r RuleSet,
    /// Indices of disabled rules.
    left_out: &'r [u16],
    caches: PoolGuard<'r, Caches, Box<dyn Fn() -> Caches + Send + Sync + UnwindSafe + RefUnwindSafe>>,
}

impl LineMatcher<'_> {
    /// Returns true if a rule matches the line.
    pub(crate) fn is_match(&mut self, line: &[u8]) -> bool {
        let RuleSet { texts, automata, .. } = self.set;
        let [always, rare, anywhere, here] = &**automata;
        let Caches {
            automata: [always_states, rare_states, anywhere_states, here_states],
            places,
            spoken,
            doubtful,
            probe,
        } = &mut *self.caches;
        spoken.clear();
        places.clear();
        let (mut is_rare, mut is_anywhere, mut has_error_word, mut is_probe) = (false, false, false, false);
        texts.each(line, |wakes, at| match wakes {
            Activates::Rare => is_rare = true,
            Activates::Anywhere => is_anywhere = true,
            Activates::Doubt => has_error_word = true,
            Activates::Probe => is_probe = true,
            Activates::Here if places.contains(&at) => {}
            Activates::Here if places.len() == PLACES_MAX => is_anywhere = true,
            Activates::Here => places.push(at),
        });
        (*doubtful, *probe) = (has_error_word, is_probe);
        always.matches(always_states, line, 0, |rule| spoken.push(rule));
        if is_rare {
            rare.matches(rare_states, line, 0, |rule| spoken.push(rule));
        }
        if is_anywhere {
            anywhere.matches(anywhere_states, line, 0, |rule| spoken.push(rule));
        }
        for place in places {
            here.matches(here_states, line, *place, |rule| spoken.push(rule));
        }
        if spoken.len() > 1 {
            spoken.sort_unstable();
            spoken.dedup();
        }
        if !self.left_out.is_empty() {
            spoken.retain(|rule| !self.left_out.contains(rule));
        }
        !spoken.is_empty()
    }

    /// Returns true if the last matched line contains a text that reports a problem.
    pub(crate) fn has_error_word(&self) -> bool {
        self.caches.doubtful
    }

    /// Returns false if the last matched line certainly does not name a probe of a configuration.
    pub(crate) fn may_name_probe(&self) -> bool {
        self.caches.probe
    }

    /// Calls the function with each rule that matches the last line, in the order of the tables.
    pub(crate) fn each(&self, line: &[u8], mut found: impl FnMut(usize, &'static Rule, &Groups<'_>)) {
        for index in &self.caches.spoken {
            let index = usize::from(*index);
            let compiled = &self.set.rules[index];
            found(index, compiled.rule, &Groups::new(line, compiled));
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

    /// Calls with each member that matches from this place on; with the same one maybe more than once.
    fn matches(&self, cache: &mut Cache, line: &[u8], from: usize, mut found: impl FnMut(u16)) {
        let mut told = |cache: &Cache, state: LazyStateID| {
            for nth in 0..self.dfa.match_len(cache, state) {
                found(self.members[self.dfa.match_pattern(cache, state, nth)]);
            }
        };
        let input = Input::new(line).span(from..line.len()).anchored(Anchored::Yes);
        let Ok(mut state) = self.dfa.start_state_forward(cache, &input) else { return };
        let mut at = from;
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
        let (mut spoken, mut split) = (0, 0);
        for log in &all {
            let lines: Vec<&[u8]> = log.split(|byte| *byte == b'\n').collect();
            let (first, last) = lines.split_at(lines.len().min(LINES));
            for line in first.iter().chain(last.iter().rev().take(LINES)) {
                let line = &line[..line.len().min(300)];
                let mut found = Vec::new();
                let is_match = matcher.is_match(line);
                matcher.each(line, |index, rule, _| {
                    found.push(rule.name);
                    let alike = set.rules[index].reads_alike(line);
                    assert_ne!(alike, Some(false), "{}: {}", rule.name, String::from_utf8_lossy(line));
                    split += usize::from(alike.is_some());
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
