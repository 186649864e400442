//! Properties of a pattern that are known without a match.

use regex_syntax::hir::{Class, Hir, HirKind, Look, Repetition};

/// A class of no more bytes than this, as the digits and the blanks are, takes little of a line.
const NARROW_BYTES_MAX: usize = 16;

pub(super) fn parsed(pattern: &str) -> Hir {
    regex_syntax::ParserBuilder::new()
        .unicode(false)
        .utf8(false)
        .build()
        .parse(pattern)
        .expect("the tables' patterns are valid; a test compiles each")
}

/// The shortest pattern that matches the same lines: once it is known that a line matches, its rest need not be read.
pub(super) fn until_known(pattern: &Hir) -> Hir {
    match pattern.kind() {
        HirKind::Empty | HirKind::Look(_) | HirKind::Literal(_) | HirKind::Class(_) => pattern.clone(),
        HirKind::Capture(capture) => until_known(&capture.sub),
        HirKind::Repetition(repetition) => {
            Hir::repetition(Repetition { max: Some(repetition.min), ..repetition.clone() })
        }
        HirKind::Concat(parts) => {
            let mut parts = without_rest(parts);
            while let Some((last, before)) = parts.split_last() {
                let last = until_known(last);
                if *last.kind() != HirKind::Empty {
                    return Hir::concat([before, &[last]].concat());
                }
                parts = without_rest(before);
            }
            Hir::empty()
        }
        HirKind::Alternation(parts) => {
            let parts: Vec<_> = parts.iter().map(until_known).collect();
            let known = parts.iter().any(|part| *part.kind() == HirKind::Empty);
            if known { Hir::empty() } else { Hir::alternation(parts) }
        }
    }
}

/// The pattern up to the last text that a rule reads. Messages are not read.
pub(super) fn until_read(pattern: &Hir) -> Hir {
    match pattern.kind() {
        HirKind::Concat(parts) => Hir::concat(without_rest(parts).to_vec()),
        _ => pattern.clone(),
    }
}

/// The parts before those that match any rest of a line.
fn without_rest(parts: &[Hir]) -> &[Hir] {
    let mut kept = parts.strip_suffix(&[Hir::look(Look::End)]).unwrap_or(parts);
    let whole = kept.len();
    while let Some((last, before)) = kept.split_last()
        && is_any_rest(last)
    {
        kept = before;
    }
    if kept.len() == whole { parts } else { kept }
}

/// The part of a pattern after its leading `.*`. `None` if there is no such beginning, or if it is not greedy.
pub(super) fn after_anything(pattern: &Hir) -> Option<Hir> {
    let HirKind::Concat(parts) = pattern.kind() else { return None };
    let [start, anything, rest @ ..] = parts.as_slice() else { return None };
    let greedy = matches!(anything.kind(), HirKind::Repetition(Repetition { greedy: true, .. }));
    let is_it = *start.kind() == HirKind::Look(Look::Start) && greedy && is_any_rest(anything);
    is_it.then(|| Hir::concat(rest.to_vec()))
}

/// Returns true if it matches any content of a line.
pub(super) fn is_any_rest(part: &Hir) -> bool {
    match part.kind() {
        HirKind::Capture(capture) => is_any_rest(&capture.sub),
        HirKind::Repetition(Repetition { min: 0, max: None, sub, .. }) => {
            matches!(sub.kind(), HirKind::Class(Class::Bytes(class)) if {
                let mut others = class.clone();
                others.negate();
                others.ranges().iter().all(|range| (range.start(), range.end()) == (b'\n', b'\n'))
            })
        }
        _ => false,
    }
}

/// Whether any text may come first.
pub(super) fn begins_with_anything(pattern: &Hir) -> bool {
    match pattern.kind() {
        HirKind::Capture(capture) => begins_with_anything(&capture.sub),
        HirKind::Repetition(repetition) => is_any_rest(pattern) || begins_with_anything(&repetition.sub),
        HirKind::Alternation(parts) => parts.iter().any(begins_with_anything),
        HirKind::Concat(parts) => parts
            .iter()
            .find(|part| !matches!(part.kind(), HirKind::Look(_)))
            .is_some_and(begins_with_anything),
        _ => false,
    }
}

/// How a pattern begins, in the fewest bytes that a way through it takes.
pub(super) struct Beginning {
    /// Bytes that few texts have, before a part that takes any text of any length. `None` if there is no such part.
    pub(super) wide_after: Option<usize>,
    /// Bytes that only few texts have, in all of it.
    narrow: usize,
}

pub(super) fn narrow_before_wide(pattern: &Hir) -> Beginning {
    let narrow = |narrow| Beginning { wide_after: None, narrow };
    match pattern.kind() {
        HirKind::Empty | HirKind::Look(_) => narrow(0),
        HirKind::Literal(literal) => narrow(literal.0.len()),
        HirKind::Class(class) => narrow(usize::from(!is_wide(class))),
        HirKind::Capture(capture) => narrow_before_wide(&capture.sub),
        HirKind::Repetition(Repetition { min, max, sub, .. }) => match sub.kind() {
            HirKind::Class(class) if max.is_none() && is_wide(class) => {
                Beginning { wide_after: Some(0), narrow: 0 }
            }
            _ => {
                let Beginning { wide_after, narrow } = narrow_before_wide(sub);
                Beginning { wide_after, narrow: narrow * *min as usize }
            }
        },
        HirKind::Concat(parts) => parts.iter().fold(narrow(0), |before, part| {
            let part = narrow_before_wide(part);
            let wide_after = part.wide_after.map(|after| before.narrow + after);
            Beginning {
                wide_after: before.wide_after.into_iter().chain(wide_after).min(),
                narrow: before.narrow + part.narrow,
            }
        }),
        HirKind::Alternation(parts) => {
            let parts: Vec<_> = parts.iter().map(narrow_before_wide).collect();
            Beginning {
                wide_after: parts.iter().filter_map(|part| part.wide_after).min(),
                narrow: parts.iter().map(|part| part.narrow).min().unwrap_or(0),
            }
        }
    }
}

/// Whether most texts are made of such bytes.
fn is_wide(class: &Class) -> bool {
    let Class::Bytes(class) = class else { return true };
    class.ranges().iter().map(regex_syntax::hir::ClassBytesRange::len).sum::<usize>() > NARROW_BYTES_MAX
}
