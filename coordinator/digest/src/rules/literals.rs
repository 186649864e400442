//! Texts that a line must contain for a pattern to match: the cheapest reason to skip a pattern.

use super::literal_search::TEXT_BYTES_MIN;
use regex_syntax::hir::literal::{ExtractKind, Extractor, Literal};
use regex_syntax::hir::{Class, Hir, HirKind};

/// Most texts of which one must occur; beyond it they would cost more than they save.
const TEXTS_MAX: usize = 160;
/// Texts from this length on are rare in logs, in bytes: of such ones, fewer are better than longer ones.
const RARE_BYTES_MIN: usize = 7;
/// How often a repeated part is written out, so that texts grow longer than the part.
const UNROLLED_MAX: u32 = 3;

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
    // A part may be optional, and the texts that go on behind it are longer. To find them takes time at the start.
    let is_short = candidates.iter().all(|texts| shortest(texts) < TEXT_BYTES_MIN);
    let has_any = !candidates.is_empty();
    if is_short
        && has_any
        && let HirKind::Concat(parts) = pattern.kind()
    {
        candidates.extend((1..parts.len()).filter_map(|at| beginnings(&Hir::concat(parts[at..].to_vec()))));
    }
    candidates.retain(|texts| shortest(texts) > 0);
    candidates
}

/// The list that probably occurs in the fewest lines.
pub(super) fn best(candidates: Vec<Texts>) -> Option<Texts> {
    let mut best = None;
    candidates.into_iter().for_each(|texts| keep_better(&mut best, texts));
    best
}

/// Texts; each match begins with one of them. `None` if they are unknown or too many.
fn beginnings(pattern: &Hir) -> Option<Texts> {
    let mut texts = Extractor::new().kind(ExtractKind::Prefix).extract(pattern);
    texts.minimize_by_preference();
    let texts = texts.literals()?.iter().map(Literal::as_bytes).map(<[u8]>::to_vec).collect::<Vec<_>>();
    (texts.len() <= TEXTS_MAX).then_some(texts)
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
}

impl Known {
    fn exactly(texts: Texts) -> Self {
        Self { exact: Some(texts), ..Self::default() }
    }

    fn of(hir: &Hir) -> Self {
        match hir.kind() {
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
            return match (max, Self::of(sub).exact) {
                (Some(1), Some(mut exact)) => {
                    exact.push(Vec::new());
                    Self::exactly(exact)
                }
                _ => Self::default(),
            };
        }
        let written = min.min(UNROLLED_MAX);
        let rest = (max != Some(written)).then(Self::default);
        Self::concatenated((0..written).map(|_| Self::of(sub)).chain(rest))
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
            all.within.push(exact);
            all.within.extend(joined);
            all.within.extend(part.within);
            exact = part.exact.or(part.end).unwrap_or_else(|| vec![Vec::new()]);
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
        Self { exact: None, begin, end, within: within.into_iter().collect() }
    }

    /// All lists of texts of which one occurs in it.
    fn candidates(self) -> Vec<Texts> {
        let mut candidates = self.within;
        candidates.extend(self.exact);
        candidates.retain(|texts| shortest(texts) > 0);
        candidates
    }
}

/// The bytes of a class, if they are few.
fn members(class: &Class) -> Option<Texts> {
    let Class::Bytes(class) = class else { return None };
    let count: usize = class.ranges().iter().map(regex_syntax::hir::ClassBytesRange::len).sum();
    let bytes = class.ranges().iter().flat_map(|range| range.start()..=range.end());
    (count <= TEXTS_MAX).then(|| bytes.map(|byte| vec![byte]).collect())
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
    if shortest(&texts) > 0 && is_better {
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
        check(r"^(?P<f>\S+\.(?:pl|t)) line \d", Some(&[".pl line ", ".t line "]));
        check(r"^x(?P<f>a\w+b)cd", Some(&["bcd"]));
        check(r"^(?:a.*b|c.*de)f.*", Some(&["bf", "def"]));
        check(r"^\S*", None);
    }
}
