//! Properties of a pattern that are known without a match.

use regex_syntax::hir::{Class, Hir, HirKind, Look, Repetition};

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
