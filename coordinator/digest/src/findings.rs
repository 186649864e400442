//! Findings of the recognizers, bounded: the first and last errors and the first warnings, each
//! once with a count.

mod raw_finding;

pub(crate) use raw_finding::{RawFinding, normalised};

use crate::hashing::{ByHash, FastHasher};
use crate::limits::{
    ERRORS_FIRST_MAX, ERRORS_LAST_MAX, REMARKS_MAX, SORT_FIRST_MAX, SORTS_BEYOND_MAX, SORTS_MAX, TESTS_MAX,
    WARNINGS_MAX,
};
use crate::rules::{Join, Kind, Role};
use buildpool_protocol::report::Severity;
use std::collections::{HashMap, VecDeque};

/// Certainty, in percent, of a crash message if the program continued after it.
const TAKEN_BACK_SURE: u8 = 72;

/// List and index of a kept finding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slot {
    Error(usize),
    Warning(usize),
    Remark(usize),
}

/// All findings of a log and its reports.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) errors: Vec<RawFinding>,
    pub(crate) errors_total: u64,
    pub(crate) warnings: Vec<RawFinding>,
    pub(crate) warnings_total: u64,
    pub(crate) remarks: Vec<RawFinding>,
    pub(crate) remarks_total: u64,
    /// The highest order of a finding.
    last_order: u64,
    seen: ByHash<Option<Slot>>,
    tests: ByHash<Slot>,
    blocks: HashMap<String, VecDeque<Slot>>,
    /// Slots of lines that report a failed test, by the name of its block.
    lines: HashMap<String, VecDeque<Slot>>,
    /// Number of warnings and remarks of each sort. The first ones of each sort are kept regardless
    /// of the number of others.
    sorts: ByHash<u32>,
}

impl Findings {
    /// Adds a finding, or counts it again. Returns its slot if it is new and kept.
    pub(crate) fn add(&mut self, mut found: RawFinding) -> Option<Slot> {
        if self.is_repeat(&mut found) { None } else { self.add_new(found) }
    }

    /// Counts a finding again, and returns true, if it is known. Otherwise sets its key.
    pub(crate) fn is_repeat(&mut self, found: &mut RawFinding) -> bool {
        let key = found.reckoned_key();
        found.key = key;
        let Some(slot) = self.seen.get(&key).copied() else { return false };
        if let Some(kept) = slot.and_then(|slot| self.get_mut(slot))
            && kept.key == key
        {
            kept.recurrence += 1;
            kept.last = found.last;
        }
        true
    }

    /// Adds a finding that is not a repeat. Returns its slot if it is kept.
    pub(crate) fn add_new(&mut self, found: RawFinding) -> Option<Slot> {
        let key = found.key;
        self.last_order = self.last_order.max(found.order);
        if let Some(Join::Title(name)) = &found.join
            && let Some(slot) = self.blocks.get_mut(name).and_then(VecDeque::pop_front)
            && let Some(block) = self.get_mut(slot)
            && matches!(&block.join, Some(Join::Block(own)) if own == name)
        {
            block.lines.splice(0..0, found.lines);
            block.head = 0;
            block.test = found.test;
            block.key = block.reckoned_key();
            self.remember(key, Some(slot));
            return None;
        }
        let block = match &found.join {
            Some(Join::Block(name)) => Some(name.clone()),
            Some(Join::Title(_) | Join::Line(_)) | None => None,
        };
        let line = match &found.join {
            Some(Join::Line(name)) => Some(name.clone()),
            Some(Join::Block(_) | Join::Title(_)) | None => None,
        };
        if let Some(name) = &block
            && let Some(slot) = self.lines.get_mut(name).and_then(VecDeque::pop_front)
            && let Some(kept) = self.get_mut(slot)
            && matches!(&kept.join, Some(Join::Line(own)) if own == name)
        {
            *kept = found;
            self.remember(key, Some(slot));
            self.blocks.entry(name.clone()).or_default().push_back(slot);
            return Some(slot);
        }
        let test = found
            .test
            .as_deref()
            .filter(|_| found.severity >= Severity::Fatal && found.severity <= Severity::Error);
        let test_key = test.map(|test| {
            let mut hasher = FastHasher::default();
            hasher.text(test);
            hasher.0
        });
        if let Some(slot) = test_key.and_then(|key| self.tests.get(&key).copied())
            && let Some(kept) = self.get_mut(slot)
            && kept.test == found.test
            // A parameterized test has several such lines under one name.
            && ![kept.role, found.role].contains(&Role::Listed)
        {
            if found.bare {
                return None;
            }
            if kept.bare {
                *kept = found;
                self.remember(key, Some(slot));
                return Some(slot);
            }
        }
        let slot = self.keep(found);
        self.remember(key, slot);
        if let (Some(name), Some(slot)) = (block, slot)
            && self.blocks.len() < TESTS_MAX
        {
            self.blocks.entry(name).or_default().push_back(slot);
        }
        if let (Some(name), Some(slot)) = (line, slot)
            && self.lines.len() < TESTS_MAX
        {
            self.lines.entry(name).or_default().push_back(slot);
        }
        if let (Some(key), Some(slot)) = (test_key, slot)
            && self.tests.len() < TESTS_MAX
        {
            self.tests.entry(key).or_insert(slot);
        }
        slot
    }

    fn remember(&mut self, key: u64, slot: Option<Slot>) {
        if self.seen.len() < TESTS_MAX {
            self.seen.insert(key, slot);
        }
    }

    fn keep(&mut self, found: RawFinding) -> Option<Slot> {
        let info = found.remark || found.severity == Severity::Info;
        if !info && found.severity <= Severity::Error {
            self.errors_total += 1;
            return Some(Slot::Error(self.keep_error(found)));
        }
        let first = self.is_among_first(&found);
        if info {
            self.remarks_total += 1;
            keep_first(&mut self.remarks, REMARKS_MAX, found, first).map(Slot::Remark)
        } else {
            self.warnings_total += 1;
            keep_first(&mut self.warnings, WARNINGS_MAX, found, first).map(Slot::Warning)
        }
    }

    /// Counts the finding. Returns true if it is among the first [`SORT_FIRST_MAX`] of its sort.
    fn is_among_first(&mut self, found: &RawFinding) -> bool {
        let sort = found.sort();
        if self.sorts.len() == SORTS_MAX && !self.sorts.contains_key(&sort) {
            return false;
        }
        let count = self.sorts.entry(sort).or_default();
        *count = count.saturating_add(1);
        *count <= SORT_FIRST_MAX
    }

    /// Stores an error. Keeps the first errors, and the last of all others.
    fn keep_error(&mut self, found: RawFinding) -> usize {
        if self.errors.len() < ERRORS_FIRST_MAX + ERRORS_LAST_MAX {
            self.errors.push(found);
            return self.errors.len() - 1;
        }
        let beyond = self.errors_total - 1 - ERRORS_FIRST_MAX as u64;
        let at = ERRORS_FIRST_MAX + (beyond % ERRORS_LAST_MAX as u64) as usize;
        self.errors[at] = found;
        at
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut RawFinding> {
        match slot {
            Slot::Error(at) => self.errors.get_mut(at),
            Slot::Warning(at) => self.warnings.get_mut(at),
            Slot::Remark(at) => self.remarks.get_mut(at),
        }
    }

    /// Reduces crash messages between these two lines to runtime errors, because the program
    /// continued after them.
    pub(crate) fn take_back_words(&mut self, after: u64, before: u64) {
        if self.last_order <= after {
            return;
        }
        for found in &mut self.errors {
            if found.word && found.order > after && found.order < before {
                found.kind = Kind::Runtime;
                found.sure = found.sure.min(TAKEN_BACK_SURE);
            }
        }
    }

    /// Returns true if an error of a compiler or a linter has a location.
    pub(crate) fn has_placed_error(&self) -> bool {
        let placed =
            |found: &RawFinding| found.location.is_some() && matches!(found.kind, Kind::Build | Kind::Lint);
        self.errors.iter().any(placed)
    }

    /// Marks errors between these two lines as output of a test that passed.
    pub(crate) fn stand_in_test(&mut self, after: u64, before: u64) {
        if self.last_order <= after {
            return;
        }
        for found in self.errors.iter_mut().filter(|found| found.order > after && found.order < before) {
            found.in_test = true;
        }
    }

    /// Turns build errors in the output of passed tests into runtime errors.
    pub(crate) fn take_back_build_errors(&mut self) {
        for found in self.errors.iter_mut().filter(|found| found.in_test && found.kind == Kind::Build) {
            found.kind = Kind::Runtime;
            found.sure = found.sure.min(TAKEN_BACK_SURE);
        }
    }

    /// Sorts the errors in the order of the log.
    pub(crate) fn into_ordered(mut self) -> Self {
        self.errors.sort_by_key(|found| found.order);
        self
    }
}

/// Keeps the first `most` findings, and up to [`SORTS_BEYOND_MAX`] more that are the first of their
/// sort.
fn keep_first(
    list: &mut Vec<RawFinding>,
    most: usize,
    found: RawFinding,
    first_of_sort: bool,
) -> Option<usize> {
    let most = if first_of_sort { most + SORTS_BEYOND_MAX } else { most };
    (list.len() < most).then(|| {
        list.push(found);
        list.len() - 1
    })
}
