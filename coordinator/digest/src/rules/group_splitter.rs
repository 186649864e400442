//! Matches a simple pattern and reads its groups by splitting the line: at texts, and where runs of bytes of a class end.
//!
//! Nearly all patterns of the tables are texts, runs, and choices between such. A general matcher keeps note of all that it has
//! tried; to try the same things in the same order takes a tenth of the time, because most lines end the first try.
//! Lines that would take many steps are left to the general matcher.

use super::groups::Slots;
use crate::text::has_control;
use memchr::{memchr, memchr2, memchr3, memrchr};
use regex_automata::util::primitives::NonMaxUsize;
use regex_syntax::hir::{Class, Hir, HirKind, Look, Repetition};

/// Steps that any line may take, and for each byte of it.
const STEPS_MIN: usize = 256;
const STEPS_A_BYTE: usize = 8;
/// So many bytes of a run are looked at in about the time of a step.
const BYTES_A_STEP: usize = 8;
/// Limit on copies of a part that is repeated a limited number of times.
const COPIES_MAX: u32 = 16;

/// Most bytes that are searched for as the end of a run.
const STOPS_MAX: usize = 6;
/// Most first bytes of a pattern that few lines begin with.
const NARROW_BYTES_MAX: usize = 128;

/// Whether a pattern can begin with most bytes: an automaton would read much of each line.
pub(super) fn begins_widely(pattern: &Hir) -> bool {
    let first = GroupSplitter::of(pattern).and_then(|split| split.first);
    first.is_none_or(|first| first.bytes.iter().filter(|byte| **byte).count() > NARROW_BYTES_MAX)
}

/// A pattern as steps to take.
#[derive(Debug, Default)]
pub(super) struct GroupSplitter {
    steps: Vec<Step>,
    /// What a line begins with, if that is known.
    first: Option<Box<Then>>,
}

#[derive(Debug)]
enum Step {
    Text(Box<[u8]>),
    /// One byte of a class.
    One(ByteClass),
    Run(Run),
    /// Notes where a group begins or ends.
    Note(usize),
    /// The steps that follow, or else those from there on. The byte with which the first ones begin, if that is known.
    Or(usize, Option<u8>),
    Goto(usize),
    Start,
    End,
    WordBorder,
}

/// For each byte, whether it is of the class.
type ByteClass = Box<[bool; 256]>;

/// Bytes of a class.
#[derive(Debug)]
struct Run {
    class: ByteClass,
    /// The bytes that end it, if they are so few that they can be searched for. Control bytes, except tabs, are left out: lines that
    /// are matched have none.
    stops: Option<Box<[u8]>>,
    min: usize,
    max: usize,
    greedy: bool,
    /// The number of the note where it begins, if it is a whole group. The next number is of its end.
    group: Option<usize>,
    /// What must follow it, if that is known.
    then: Option<Box<Then>>,
    /// No byte of the class may follow it, so it ends where the class ends.
    ends_once: bool,
}

/// Bytes with one of which the part after a run begins.
#[derive(Debug)]
struct Then {
    bytes: [bool; 256],
    /// It may also be the end of the line.
    end: bool,
    /// The byte, if there is only one and no end.
    only: Option<u8>,
}

impl Then {
    /// Returns the possible first bytes of the pattern from this step on, or `None` if the rest may be empty.
    fn of(steps: &[Step], at: usize) -> Option<Box<Self>> {
        let mut then = Box::new(Self { bytes: [false; 256], end: false, only: None });
        then.add(steps, at)?;
        let mut bytes = (0..=u8::MAX).filter(|byte| then.bytes[usize::from(*byte)]);
        then.only = match (bytes.next(), bytes.next()) {
            (Some(only), None) if !then.end => Some(only),
            _ => None,
        };
        Some(then)
    }

    fn add(&mut self, steps: &[Step], at: usize) -> Option<()> {
        match steps.get(at)? {
            Step::Text(text) => self.bytes[usize::from(*text.first()?)] = true,
            Step::One(class) => self.bytes.iter_mut().zip(&**class).for_each(|(byte, own)| *byte |= own),
            Step::Run(run) => {
                self.bytes.iter_mut().zip(&*run.class).for_each(|(byte, own)| *byte |= own);
                if run.min == 0 {
                    self.add(steps, at + 1)?;
                }
            }
            Step::Note(_) | Step::Start | Step::WordBorder => self.add(steps, at + 1)?,
            Step::Or(other, _) => {
                self.add(steps, at + 1)?;
                self.add(steps, *other)?;
            }
            Step::Goto(other) => self.add(steps, *other)?,
            Step::End => self.end = true,
        }
        Some(())
    }

    fn is_apart_from(&self, class: &[bool; 256]) -> bool {
        self.bytes.iter().zip(class).all(|(byte, own)| !byte || !own)
    }

    fn accepts(&self, next: Option<&u8>) -> bool {
        next.map_or(self.end, |byte| self.bytes[usize::from(*byte)])
    }
}

/// An open alternative.
pub(super) enum Left {
    /// To go on with this step at this place.
    Step(usize, usize),
    /// To end the run of this step at one of these places.
    Ends(usize, usize, usize),
    /// Restores an earlier state.
    Noted(usize, Option<NonMaxUsize>),
}

/// It would take too many steps.
#[derive(Debug)]
pub(super) struct TooLong;

impl GroupSplitter {
    /// `None` if the pattern has other parts.
    pub(super) fn of(pattern: &Hir) -> Option<Self> {
        let mut split = Self::default();
        split.add(pattern)?;
        for at in 0..split.steps.len() {
            if matches!(split.steps[at], Step::Run(_)) {
                let then = Then::of(&split.steps, at + 1);
                if let Step::Run(run) = &mut split.steps[at] {
                    run.ends_once = then.as_ref().is_some_and(|then| then.is_apart_from(&run.class));
                    run.then = then;
                }
            }
        }
        for at in 0..split.steps.len() {
            let next = split.steps[at + 1..].iter().find(|step| !matches!(step, Step::Note(_)));
            let byte = if let Some(Step::Text(text)) = next { text.first().copied() } else { None };
            if let Step::Or(_, first) = &mut split.steps[at] {
                *first = byte;
            }
        }
        split.first = Then::of(&split.steps, 0);
        Some(split)
    }

    fn add(&mut self, pattern: &Hir) -> Option<()> {
        match pattern.kind() {
            HirKind::Empty => {}
            // Every pattern begins there.
            HirKind::Look(Look::Start) if self.steps.is_empty() => {}
            HirKind::Look(Look::Start) => self.steps.push(Step::Start),
            HirKind::Look(Look::End) => self.steps.push(Step::End),
            HirKind::Look(Look::WordAscii) => self.steps.push(Step::WordBorder),
            HirKind::Literal(literal) => self.steps.push(Step::Text(literal.0.clone())),
            HirKind::Class(_) => self.steps.push(Step::One(byte_class(pattern)?)),
            HirKind::Capture(capture) => {
                let slot = 2 * capture.index as usize;
                if let HirKind::Repetition(Repetition { min, max, greedy, sub }) = capture.sub.kind()
                    && let Some(Step::Run(run)) =
                        self.run(sub, *min, *max, *greedy).and_then(|()| self.steps.last_mut())
                {
                    run.group = Some(slot);
                    return Some(());
                }
                self.steps.push(Step::Note(slot));
                self.add(&capture.sub)?;
                self.steps.push(Step::Note(slot + 1));
            }
            HirKind::Repetition(Repetition { min, max, greedy, sub }) => {
                if self.run(sub, *min, *max, *greedy).is_none() {
                    self.repeat(sub, *min, *max, *greedy)?;
                }
            }
            HirKind::Concat(parts) => parts.iter().try_for_each(|part| self.add(part))?,
            HirKind::Alternation(parts) => {
                let mut gotos = Vec::new();
                let (last, before) = parts.split_last()?;
                for part in before {
                    let or = self.steps.len();
                    self.steps.push(Step::Goto(0));
                    self.add(part)?;
                    gotos.push(self.steps.len());
                    self.steps.push(Step::Goto(0));
                    self.steps[or] = Step::Or(self.steps.len(), None);
                }
                self.add(last)?;
                let end = self.steps.len();
                gotos.into_iter().for_each(|goto| self.steps[goto] = Step::Goto(end));
            }
            HirKind::Look(_) => return None,
        }
        Some(())
    }

    /// Copies of a part, and a loop if their number has no limit.
    fn repeat(&mut self, part: &Hir, min: u32, max: Option<u32>, greedy: bool) -> Option<()> {
        let is_empty = part.properties().minimum_len().is_none_or(|length| length == 0);
        // A repetition of nothing would never end.
        if max.unwrap_or(min) > COPIES_MAX || max.is_none() && is_empty {
            return None;
        }
        for _ in 0..min {
            self.add(part)?;
        }
        let mut optional = Vec::new();
        for _ in min..max.unwrap_or(min + 1) {
            let or = self.steps.len();
            // The step with the place behind all copies comes first, or after the choice of one more copy.
            optional.push(if greedy { or } else { or + 1 });
            self.steps.push(Step::Or(or + 2, None));
            if !greedy {
                self.steps.push(Step::Goto(0));
            }
            self.add(part)?;
            if max.is_none() {
                self.steps.push(Step::Goto(or));
            }
        }
        let end = self.steps.len();
        for at in optional {
            self.steps[at] = if greedy { Step::Or(end, None) } else { Step::Goto(end) };
        }
        Some(())
    }

    /// A run of bytes; `None` if the part is longer than a byte.
    fn run(&mut self, part: &Hir, min: u32, max: Option<u32>, greedy: bool) -> Option<()> {
        let class = byte_class(part)?;
        let others = (0..=u8::MAX).filter(|byte| !class[usize::from(*byte)]);
        let stops: Box<[_]> = others.filter(|byte| !has_control(&[*byte])).collect();
        let stops = (stops.len() <= STOPS_MAX).then_some(stops);
        let max = max.map_or(usize::MAX, |max| max as usize);
        self.steps.push(Step::Run(Run {
            class,
            stops,
            min: min as usize,
            max,
            greedy,
            group: None,
            then: None,
            ends_once: false,
        }));
        Some(())
    }

    /// Whether a line may match that begins with this byte.
    pub(super) fn may_begin_with(&self, first: Option<&u8>) -> bool {
        self.first.as_ref().is_none_or(|known| known.accepts(first))
    }

    /// Returns true if there is a match from this position on. The positions of its groups are then in `slots`.
    pub(super) fn reads(
        &self,
        line: &[u8],
        from: usize,
        slots: &mut Slots,
        left: &mut Vec<Left>,
    ) -> Result<bool, TooLong> {
        slots.fill(None);
        left.clear();
        let (mut step, mut at) = (0, from);
        let mut room = STEPS_MIN + STEPS_A_BYTE * line.len();
        loop {
            let Some(now) = self.steps.get(step) else { return Ok(true) };
            let next = match now {
                // Most texts that differ do so in the first byte.
                Step::Text(text) if line.get(at) != text.first() => None,
                Step::Text(text) => {
                    (text.len() == 1 || line[at..].starts_with(text)).then(|| (step + 1, at + text.len()))
                }
                Step::One(class) => {
                    line.get(at).filter(|byte| class[usize::from(**byte)]).map(|_| (step + 1, at + 1))
                }
                Step::Run(run) => {
                    let most = run.most(&line[at..]);
                    room = room.saturating_sub(most / BYTES_A_STEP);
                    (most >= run.min).then(|| (at + run.min, at + most)).and_then(|(first, last)| {
                        let end = run.end(line, first, last)?;
                        if let Some(slot) = run.group {
                            note(slot, at, slots, left);
                            note(slot + 1, end, slots, left);
                        }
                        run.leave(step, first, last, end, left);
                        Some((step + 1, end))
                    })
                }
                Step::Note(slot) => {
                    note(*slot, at, slots, left);
                    Some((step + 1, at))
                }
                Step::Or(other, Some(first)) if line.get(at) != Some(first) => Some((*other, at)),
                Step::Or(other, _) => {
                    left.push(Left::Step(*other, at));
                    Some((step + 1, at))
                }
                Step::Goto(other) => Some((*other, at)),
                Step::Start => (at == 0).then_some((step + 1, at)),
                Step::End => (at == line.len()).then_some((step + 1, at)),
                Step::WordBorder => is_border(line, at).then_some((step + 1, at)),
            };
            let next = next.or_else(|| self.back(line, slots, left));
            let Some(next) = next else { return Ok(false) };
            (step, at) = next;
            room = room.checked_sub(1).ok_or(TooLong)?;
        }
    }

    /// The next alternative and its position.
    fn back(&self, line: &[u8], slots: &mut Slots, left: &mut Vec<Left>) -> Option<(usize, usize)> {
        loop {
            match left.pop()? {
                Left::Step(step, at) => return Some((step, at)),
                Left::Noted(slot, noted) => slots[slot] = noted,
                Left::Ends(step, first, last) => {
                    if let Step::Run(run) = &self.steps[step]
                        && let Some(end) = run.end(line, first, last)
                    {
                        if let Some(slot) = run.group {
                            slots[slot + 1] = NonMaxUsize::new(end);
                        }
                        run.leave(step, first, last, end, left);
                        return Some((step + 1, end));
                    }
                }
            }
        }
    }
}

impl Run {
    /// How long it can be.
    fn most(&self, line: &[u8]) -> usize {
        let line = &line[..line.len().min(self.max)];
        if let Some(stops) = &self.stops {
            let mut kept = line;
            for stops in stops.chunks(3) {
                let end = match *stops {
                    [one] => memchr(one, kept),
                    [one, two] => memchr2(one, two, kept),
                    [one, two, three] => memchr3(one, two, three, kept),
                    _ => None,
                };
                kept = &kept[..end.unwrap_or(kept.len())];
            }
            return kept.len();
        }
        let end = line.iter().position(|byte| !self.class[usize::from(*byte)]);
        end.unwrap_or(line.len())
    }

    /// Where it ends that is to be tried first of these places.
    fn end(&self, line: &[u8], first: usize, last: usize) -> Option<usize> {
        let Some(then) = &self.then else { return Some(if self.greedy { last } else { first }) };
        match then.only {
            _ if self.ends_once => then.accepts(line.get(last)).then_some(last),
            Some(byte) if self.greedy => {
                memrchr(byte, &line[first..line.len().min(last + 1)]).map(|at| first + at)
            }
            _ if self.greedy => (first..=last).rev().find(|at| then.accepts(line.get(*at))),
            Some(byte) => memchr(byte, &line[first..line.len().min(last + 1)]).map(|at| first + at),
            None => (first..=last).find(|at| then.accepts(line.get(*at))),
        }
    }

    /// Leaves the other places to be tried.
    fn leave(&self, step: usize, first: usize, last: usize, end: usize, left: &mut Vec<Left>) {
        if self.ends_once {
            return;
        }
        if self.greedy && end > first {
            left.push(Left::Ends(step, first, end - 1));
        } else if !self.greedy && end < last {
            left.push(Left::Ends(step, end + 1, last));
        }
    }
}

/// The bytes of a part that is one byte long.
fn byte_class(part: &Hir) -> Option<ByteClass> {
    let mut class = Box::new([false; 256]);
    match part.kind() {
        HirKind::Class(Class::Bytes(bytes)) => {
            for range in bytes.ranges() {
                class[usize::from(range.start())..=usize::from(range.end())].fill(true);
            }
        }
        HirKind::Literal(literal) if literal.0.len() == 1 => class[usize::from(literal.0[0])] = true,
        _ => return None,
    }
    Some(class)
}

/// Notes a place. If alternatives are open, the earlier note is restored for them.
#[inline(always)]
fn note(slot: usize, at: usize, slots: &mut Slots, left: &mut Vec<Left>) {
    if !left.is_empty() {
        left.push(Left::Noted(slot, slots[slot]));
    }
    slots[slot] = NonMaxUsize::new(at);
}

/// Whether a word begins or ends at this place.
fn is_border(line: &[u8], at: usize) -> bool {
    let is_word = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    is_word(at.checked_sub(1).and_then(|before| line.get(before))) != is_word(line.get(at))
}
