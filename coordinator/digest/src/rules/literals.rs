//! Texts that a line must contain for a pattern to match: the cheapest reason to skip a pattern.
//!
//! A line feed in a text is the beginning or the end of the line: most lines with `error: ` do not begin with it.

use crate::text::has_control;
use regex_syntax::hir::{Class, Hir, HirKind, Look};

/// Most texts of which one must occur; beyond it they would cost more than they save.
const TEXTS_MAX: usize = 160;
/// Texts from this length on are rare in logs, in bytes: of such ones, fewer are better than longer ones.
const RARE_BYTES_MIN: usize = 7;
/// How often a repeated part is written out, so that texts grow longer than the part.
const UNROLLED_MAX: u32 = 3;

/// Byte for the beginning and the end of a line.
pub(super) const LINE_BORDER: &[u8] = b"\n";

/// Texts of which one occurs in each match.
type Texts = Vec<Vec<u8>>;

/// Texts; each match contains at least one of them. `None` if no text is known. The list and its texts are never empty.
#[cfg(test)]
fn required(pattern: &Hir) -> Option<Texts> {
    best(candidates(pattern))
}

/// All known lists of texts of which each match contains one. No list and no text is empty.
pub(super) fn candidates(pattern: &Hir) -> Vec<Texts> {
    let mut candidates = Known::of(pattern).candidates();
    if let HirKind::Concat(parts) = pattern.kind() {
        // The texts of the first parts may be too many to be written out with those of the others.
        let rests = (1..parts.len()).map(|from| Known::concatenated(parts[from..].iter().map(Known::of)));
        candidates.extend(rests.flat_map(Known::candidates));
    }
    candidates.sort_unstable();
    candidates.dedup();
    candidates
}

/// Returns true if a line can be without any of the texts. An empty text, and one that is in each line, are in all of them.
fn tells(texts: &[Vec<u8>]) -> bool {
    !texts.is_empty() && texts.iter().all(|text| !text.is_empty() && text != LINE_BORDER)
}

/// The list that probably occurs in the fewest lines.
pub(super) fn best(candidates: Vec<Texts>) -> Option<Texts> {
    let mut best = None;
    candidates.into_iter().for_each(|texts| keep_better(&mut best, texts));
    best
}

/// Known properties of the text that a part of a pattern matches.
#[derive(Debug, Default)]
struct Known {
    /// All texts that it matches, if they are few.
    exact: Option<Texts>,
    /// If they aren't: texts with one of which it begins, and texts with one of which it ends.
    begin: Option<Texts>,
    end: Option<Texts>,
    /// Lists of texts of which one occurs in it.
    within: Vec<Texts>,
    /// If it may be empty: texts with one of which it ends otherwise. Nothing else is known then.
    optional_end: Option<Texts>,
}

impl Known {
    fn exactly(texts: Texts) -> Self {
        Self { exact: Some(texts), ..Self::default() }
    }

    fn of(hir: &Hir) -> Self {
        match hir.kind() {
            HirKind::Look(Look::Start | Look::End) => Self::exactly(vec![LINE_BORDER.to_vec()]),
            HirKind::Empty | HirKind::Look(_) => Self::exactly(vec![Vec::new()]),
            HirKind::Literal(literal) => Self::exactly(vec![literal.0.to_vec()]),
            HirKind::Class(class) => Self { exact: members(class), ..Self::default() },
            HirKind::Capture(capture) => Self::of(&capture.sub),
            HirKind::Repetition(repetition) => {
                Self::repeated(&repetition.sub, repetition.min, repetition.max)
            }
            HirKind::Concat(parts) => Self::concatenated(parts.iter().map(Self::of)),
            HirKind::Alternation(parts) => Self::any_of(parts.iter().map(Self::of).collect()),
        }
    }

    fn repeated(sub: &Hir, min: u32, max: Option<u32>) -> Self {
        if min == 0 {
            let few =
                max.filter(|max| *max <= UNROLLED_MAX).and_then(|max| up_to(&Self::of(sub).exact?, max));
            return few.map_or_else(|| Self::optional(Self::repeated(sub, 1, max)), Self::exactly);
        }
        let written = min.min(UNROLLED_MAX);
        let known = Self::concatenated((0..written).map(|_| Self::of(sub)));
        if max == Some(written) {
            return known;
        }
        // However often it is repeated, it begins and ends as these copies do.
        let Self { exact, begin, end, mut within, .. } = known;
        within.extend(exact.clone());
        let (begin, end) = (begin.or_else(|| exact.clone()), end.or(exact));
        Self { begin, end, within, ..Self::default() }
    }

    fn optional(known: Self) -> Self {
        let end = known.exact.or(known.end).filter(|end| shortest(end) > 0);
        Self { optional_end: end, ..Self::default() }
    }

    fn concatenated(parts: impl Iterator<Item = Self>) -> Self {
        let mut all = Self::default();
        let mut exact = vec![Vec::new()];
        for part in parts {
            let crossed = part.exact.as_deref().and_then(|texts| cross(&exact, texts));
            if let Some(crossed) = crossed {
                if crossed.len() > exact.len() {
                    all.within.push(exact);
                }
                if let Some(texts) = part.exact.filter(|texts| crossed.len() > texts.len()) {
                    all.within.push(texts);
                }
                exact = crossed;
                continue;
            }
            let joined = part.begin.as_deref().and_then(|texts| cross(&exact, texts));
            all.begin.get_or_insert_with(|| joined.clone().unwrap_or_else(|| exact.clone()));
            all.within.push(exact.clone());
            all.within.extend(joined);
            all.within.extend(part.within);
            let either = part
                .optional_end
                .filter(|ends| shortest(&exact) > 0 && exact.len() + ends.len() <= TEXTS_MAX);
            exact = match either {
                Some(ends) => [exact, ends].concat(),
                None => part.exact.or(part.end).unwrap_or_else(|| vec![Vec::new()]),
            };
        }
        if all.begin.is_none() {
            return Self { exact: Some(exact), ..all };
        }
        all.within.push(exact.clone());
        Self { end: Some(exact), ..all }
    }

    fn any_of(parts: Vec<Self>) -> Self {
        let joined = |texts: fn(&Self) -> Option<&Texts>| {
            let all: Option<Vec<&Texts>> = parts.iter().map(texts).collect();
            all.map(|all| all.into_iter().flatten().cloned().collect())
                .filter(|all: &Texts| all.len() <= TEXTS_MAX)
        };
        if let Some(exact) = joined(|part| part.exact.as_ref()) {
            return Self::exactly(exact);
        }
        let begin = joined(|part| part.exact.as_ref().or(part.begin.as_ref()));
        let end = joined(|part| part.exact.as_ref().or(part.end.as_ref()));
        let required: Option<Vec<_>> = parts.into_iter().map(|part| best(part.candidates())).collect();
        let within = required.map(|texts| texts.concat()).filter(|texts| texts.len() <= TEXTS_MAX);
        Self { begin, end, within: within.into_iter().collect(), ..Self::default() }
    }

    /// All lists of texts of which one occurs in it.
    fn candidates(self) -> Vec<Texts> {
        let mut candidates = self.within;
        candidates.extend(self.exact);
        candidates.retain(|texts| tells(texts));
        candidates
    }
}

/// The bytes of a class that a line may have, if they are few: lines that are matched have no control bytes.
fn members(class: &Class) -> Option<Texts> {
    let Class::Bytes(class) = class else { return None };
    let bytes = class.ranges().iter().flat_map(|range| range.start()..=range.end());
    let texts: Texts = bytes.map(|byte| vec![byte]).filter(|byte| !has_control(byte)).collect();
    (1..=TEXTS_MAX).contains(&texts.len()).then_some(texts)
}

/// Texts that so many copies at most may be, if these are few.
fn up_to(texts: &[Vec<u8>], max: u32) -> Option<Texts> {
    let mut all = vec![Vec::new()];
    let mut copies = all.clone();
    for _ in 0..max {
        copies = cross(&copies, texts)?;
        all.extend_from_slice(&copies);
    }
    (all.len() <= TEXTS_MAX).then_some(all)
}

/// Each text of the one followed by each of the other, if they are few.
fn cross(left: &[Vec<u8>], right: &[Vec<u8>]) -> Option<Texts> {
    let few = left.len() * right.len() <= TEXTS_MAX;
    few.then(|| left.iter().flat_map(|a| right.iter().map(move |b| [a.as_slice(), b].concat())).collect())
}

/// Longer texts are rarer, up to a length. Of these, fewer ones are better.
fn keep_better(best: &mut Option<Texts>, texts: Texts) {
    let worth = |texts: &[Vec<u8>]| {
        let shortest = shortest(texts);
        (shortest.min(RARE_BYTES_MIN), usize::MAX - texts.len(), shortest)
    };
    let is_better = best.as_deref().is_none_or(|best| worth(&texts) > worth(best));
    if tells(&texts) && is_better {
        *best = Some(texts);
    }
}

/// Length of the shortest text, in bytes.
pub(super) fn shortest(texts: &[Vec<u8>]) -> usize {
    texts.iter().map(Vec::len).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, expected: Option<&[&str]>) {
        let found = required(&super::super::pattern_shape::parsed(pattern)).map(|texts| {
            texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect::<Vec<_>>()
        });
        let expected = expected.map(|texts| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
        assert_eq!(found, expected, "{pattern}");
    }

    #[test]
    fn the_longest_text_that_must_occur_is_found() {
        check("^.*(?:Early exit|never began)", Some(&["Early exit", "never began"]));
        check(r"^[^:]+:\d+: error: (?P<m>.*)", Some(&[": error: "]));
        check("^.*[Tt]est [^a]*", Some(&["Test ", "test "]));
        check("^(?:make: )?.*x", Some(&["x"]));
        check("^.*(?:abc)+[^d]ef", Some(&["abc"]));
        check("^.*(?:abc|d*)", None);
        check("^(?:abc)?(?:.*ab|cd{2})", Some(&["ab", "cdd"]));
        check("^.*(?:ab)?cdefg: +ef$", Some(&["cdefg: "]));
        check("^(?:a+b)? c+d$", Some(&["cd\n"]));
        check(r"^\w+:\serror", Some(&[":\terror", ": error"]));
        check("^error: (?P<m>.*)", Some(&["\nerror: "]));
        check("^[^a]*(?:[^a]*bc)? de", Some(&[" de"]));
        check(r"^(?P<f>\S+\.(?:pl|t)) line \d", Some(&[".pl line ", ".t line "]));
        check(r"^.*x(?P<f>a\S+b)cd", Some(&["bcd"]));
        check(r"^.*(?:a.*b|c.*de)f.*", Some(&["bf", "def"]));
        check(r"^\S*", None);
    }
}
