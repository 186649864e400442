//! All rules, asked at once.
//!
//! Most lines of a log mean nothing, and are to cost little. So the rules are a few automata. The rules that begin with text
//! give a line up after a few bytes. All others would read most of it; of them it is known which texts a line must contain, and
//! one automaton looks for all these texts and wakes the others. They are apart because a rule that may begin with anything
//! multiplies the states of all that are in an automaton with it.

use super::groups::{Compiled, Groups};
use super::literals::{required, shortest};
use super::shape::{anywhere, begins_with_anything, narrow_before_wide, parsed, until_known};
use super::{Rule, TABLES};
use crate::doubtful;
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
const RARE_BYTES_MIN: usize = 4;
/// A pattern that begins with so many bytes of text is soon given up.
const SOON_BYTES_MIN: usize = 3;

/// The rules and their automata.
pub(crate) struct RuleSet {
    rules: Vec<Compiled>,
    automata: Arc<[Automaton; 5]>,
    caches: CachePool,
}

type CachePool = Pool<Caches, Box<dyn Fn() -> Caches + Send + Sync + UnwindSafe + RefUnwindSafe>>;

/// Some of the rules as one automaton.
struct Automaton {
    dfa: DFA,
    /// What is behind each of its patterns: the index of a rule, or a sort.
    members: Vec<u16>,
}

/// Which automaton a rule is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sort {
    /// It begins with text, and is given up after a few bytes of another line: asked always.
    Soon,
    /// It may begin with much, and nothing rare need occur: asked always.
    Open,
    /// It may begin with much, and needs a rare text: asked where one occurs.
    Rare,
    /// The same, and it begins with anything at all.
    Anywhere,
}

impl Sort {
    const ALL: [Self; 4] = [Self::Soon, Self::Open, Self::Rare, Self::Anywhere];

    fn of(pattern: &Hir, needs: Option<&[Vec<u8>]>) -> Self {
        match narrow_before_wide(pattern).wide_after {
            None | Some(SOON_BYTES_MIN..) => Self::Soon,
            Some(_) if needs.is_none_or(|texts| shortest(texts) < RARE_BYTES_MIN) => Self::Open,
            Some(_) if begins_with_anything(pattern) => Self::Anywhere,
            Some(_) => Self::Rare,
        }
    }
}

/// What the texts wake that say that something is wrong: no rules.
const DOUBTFUL: u16 = u16::MAX;

/// What asking about a line works with: the automata's states so far, and the answer.
struct Caches {
    automata: [Cache; 5],
    /// Indices of the rules that speak to the line, ascending.
    spoken: Vec<u16>,
    /// The line contains a text that says that something is wrong.
    doubtful: bool,
}

static ALL: LazyLock<Arc<RuleSet>> = LazyLock::new(|| Arc::new(RuleSet::new()));

impl RuleSet {
    /// The rules of all tools.
    pub(crate) fn all() -> Arc<Self> {
        Arc::clone(&ALL)
    }

    fn new() -> Self {
        let rules: Vec<_> = TABLES.iter().flat_map(|table| table.iter()).map(Compiled::new).collect();
        let (mut members, mut texts) = (Sort::ALL.map(|_| Vec::new()), Sort::ALL.map(|_| Vec::new()));
        for (index, Compiled { rule, .. }) in (0..).zip(&rules) {
            let pattern = parsed(rule.pattern);
            let needs = required(&pattern);
            let sort = Sort::of(&pattern, needs.as_deref());
            members[sort as usize].push((index, until_known(&pattern)));
            texts[sort as usize].extend(needs.unwrap_or_default());
        }
        let wakes = [Sort::Rare, Sort::Anywhere]
            .map(|sort| (sort as u16, anywhere(std::mem::take(&mut texts[sort as usize]))));
        let doubtful = doubtful::TEXTS.iter().map(|text| text.as_bytes().to_vec()).collect();
        let wakes = wakes.into_iter().chain([(DOUBTFUL, anywhere(doubtful))]).collect();
        let [soon, open, rare, anywhere] = members.map(Automaton::new);
        let automata = Arc::new([soon, open, Automaton::new(wakes), rare, anywhere]);
        let asked = Arc::clone(&automata);
        let caches = Pool::new(Box::new(move || Caches::new(&asked)) as Box<_>);
        Self { rules, automata, caches }
    }

    /// Somebody who asks about lines and does not hear the rules that are left out.
    pub(crate) fn asker<'r>(&'r self, left_out: &'r [u16]) -> Asker<'r> {
        Asker { set: self, left_out, caches: self.caches.get() }
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

impl Caches {
    fn new(automata: &[Automaton; 5]) -> Self {
        Self {
            automata: automata.each_ref().map(|automaton| automaton.dfa.create_cache()),
            spoken: Vec::new(),
            doubtful: false,
        }
    }
}

/// Asks the rules about one line after the other.
pub(crate) struct Asker<'r> {
    set: &'r RuleSet,
    /// Indices of rules that are not heard.
    left_out: &'r [u16],
    caches: PoolGuard<'r, Caches, Box<dyn Fn() -> Caches + Send + Sync + UnwindSafe + RefUnwindSafe>>,
}

impl Asker<'_> {
    /// Whether any rule speaks to the line.
    pub(crate) fn speaks(&mut self, line: &[u8]) -> bool {
        let [soon, open, wakes, rare, anywhere] = &*self.set.automata;
        let Caches {
            automata: [soon_states, open_states, wakes_states, rare_states, anywhere_states],
            spoken,
            doubtful,
        } = &mut *self.caches;
        spoken.clear();
        *doubtful = false;
        soon.matches(soon_states, line, |rule| spoken.push(rule));
        open.matches(open_states, line, |rule| spoken.push(rule));
        if wakes.any(wakes_states, line) {
            let (mut is_rare, mut is_anywhere) = (false, false);
            wakes.matches(wakes_states, line, |sort| {
                is_rare |= sort == Sort::Rare as u16;
                is_anywhere |= sort == Sort::Anywhere as u16;
                *doubtful |= sort == DOUBTFUL;
            });
            if is_rare {
                rare.matches(rare_states, line, |rule| spoken.push(rule));
            }
            if is_anywhere {
                anywhere.matches(anywhere_states, line, |rule| spoken.push(rule));
            }
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

    /// Whether the line that was asked about last contains a text that says that something is wrong.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.caches.doubtful
    }

    /// Calls with each rule that speaks to the line that was asked about last, in the order of the tables.
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

    /// Whether any member matches.
    fn any(&self, cache: &mut Cache, line: &[u8]) -> bool {
        let input = Input::new(line).anchored(Anchored::Yes).earliest(true);
        matches!(self.dfa.try_search_fwd(cache, &input), Ok(Some(_)))
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
            // Almost all states are plain ones that are known: they are passed through without asking what they are.
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
        let everything = RegexSetBuilder::new(set.rules.iter().map(|compiled| compiled.rule.pattern))
            .unicode(false)
            .size_limit(64 << 20)
            .build()
            .expect("the patterns are valid");
        let mut asker = set.asker(&[]);
        let mut all = Vec::new();
        logs(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logs"), &mut all);
        let mut spoken = 0;
        for log in &all {
            let lines: Vec<&[u8]> = log.split(|byte| *byte == b'\n').collect();
            let (first, last) = lines.split_at(lines.len().min(LINES));
            for line in first.iter().chain(last.iter().rev().take(LINES)) {
                let line = &line[..line.len().min(300)];
                let mut found = Vec::new();
                let speaks = asker.speaks(line);
                asker.each(line, |_, rule, _| found.push(rule.name));
                let expected = everything.matches(line);
                let expected: Vec<_> = expected.iter().map(|index| set.rules[index].rule.name).collect();
                assert_eq!(found, expected, "{}", String::from_utf8_lossy(line));
                assert_eq!(speaks, !found.is_empty());
                spoken += found.len();
            }
        }
        assert!(spoken > 500, "{spoken} matches say little");
    }
}
