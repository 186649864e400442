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

/// Texts; each match contains at least one of them. `None` if no text is known. The list and its texts are never empty.
pub(super) fn required(pattern: &Hir) -> Option<Vec<Vec<u8>>> {
    let mut best = Known::of(pattern).required();
    // A part may be optional, and the texts that go on behind it are longer. To find them takes time at the start.
    let is_short = best.as_deref().is_some_and(|texts| shortest(texts) < TEXT_BYTES_MIN);
    if is_short && let HirKind::Concat(parts) = pattern.kind() {
        for at in 1..parts.len() {
            if let Some(texts) = beginnings(&Hir::concat(parts[at..].to_vec())) {
                keep_better(&mut best, texts);
            }
        }
    }
    best
}

/// Texts; each match begins with one of them. `None` if they are unknown or too many.
fn beginnings(pattern: &Hir) -> Option<Vec<Vec<u8>>> {
    let mut texts = Extractor::new().kind(ExtractKind::Prefix).extract(pattern);
    texts.minimize_by_preference();
    let texts = texts.literals()?.iter().map(Literal::as_bytes).map(<[u8]>::to_vec).collect::<Vec<_>>();
    (texts.len() <= TEXTS_MAX).then_some(texts)
}

/// Known properties of the text that a part of a pattern matches.
#[derive(Debug, Default)]
struct Known {
    /// All texts that it matches, if they are few.
    exact: Option<Vec<Vec<u8>>>,
    /// Texts of which one occurs in it, if some are known.
    within: Option<Vec<Vec<u8>>>,
}

impl Known {
    const fn exactly(texts: Vec<Vec<u8>>) -> Self {
        Self { exact: Some(texts), within: None }
    }

    fn of(hir: &Hir) -> Self {
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => Self::exactly(vec![Vec::new()]),
            HirKind::Literal(literal) => Self::exactly(vec![literal.0.to_vec()]),
            HirKind::Class(class) => Self { exact: members(class), within: None },
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
        let mut exact = vec![Vec::new()];
        let mut within = None;
        let mut whole = true;
        for part in parts {
            let crossed = part.exact.as_deref().and_then(|texts| cross(&exact, texts));
            if let Some(crossed) = crossed {
                if crossed.len() > exact.len() {
                    keep_better(&mut within, exact);
                }
                if let Some(texts) = part.exact.filter(|texts| crossed.len() > texts.len()) {
                    keep_better(&mut within, texts);
                }
                exact = crossed;
                continue;
            }
            whole = false;
            keep_better(&mut within, std::mem::replace(&mut exact, vec![Vec::new()]));
            if let Some(texts) = part.within {
                keep_better(&mut within, texts);
            }
            exact = part.exact.unwrap_or(exact);
        }
        if whole {
            return Self { exact: Some(exact), within };
        }
        keep_better(&mut within, exact);
        Self { exact: None, within }
    }

    fn any_of(parts: Vec<Self>) -> Self {
        let count: usize = parts.iter().filter_map(|part| part.exact.as_ref()).map(Vec::len).sum();
        if count <= TEXTS_MAX && parts.iter().all(|part| part.exact.is_some()) {
            return Self::exactly(parts.into_iter().filter_map(|part| part.exact).flatten().collect());
        }
        let required: Option<Vec<_>> = parts.into_iter().map(Self::required).collect();
        let within = required.map(|texts| texts.concat()).filter(|texts| texts.len() <= TEXTS_MAX);
        Self { exact: None, within }
    }

    fn required(self) -> Option<Vec<Vec<u8>>> {
        let mut best = self.within;
        if let Some(exact) = self.exact {
            keep_better(&mut best, exact);
        }
        best
    }
}

/// The bytes of a class, if they are few.
fn members(class: &Class) -> Option<Vec<Vec<u8>>> {
    let Class::Bytes(class) = class else { return None };
    let count: usize = class.ranges().iter().map(regex_syntax::hir::ClassBytesRange::len).sum();
    let bytes = class.ranges().iter().flat_map(|range| range.start()..=range.end());
    (count <= TEXTS_MAX).then(|| bytes.map(|byte| vec![byte]).collect())
}

/// Each text of the one followed by each of the other, if they are few.
fn cross(left: &[Vec<u8>], right: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
    let few = left.len() * right.len() <= TEXTS_MAX;
    few.then(|| left.iter().flat_map(|a| right.iter().map(move |b| [a.as_slice(), b].concat())).collect())
}

/// Longer texts are rarer, up to a length. Of these, fewer ones are better.
fn keep_better(best: &mut Option<Vec<Vec<u8>>>, texts: Vec<Vec<u8>>) {
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
        check(r"^\S*", None);
    }
}
