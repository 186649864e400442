//! Collects the selected lines of one text.

use super::{Choice, PatternFilter, TextPlan};
use buildpool_protocol::client_link::TextPlace;
use buildpool_protocol::output::Gap;
use std::collections::VecDeque;

/// Limit on the bytes of a shown line. The rest of the line counts as omitted.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Maximum sizes of one byte, of text without control characters and of any text; see [`TextPlan::measure`].
const LONGEST_SIZES_OF_BYTE: [usize; 2] = [3, super::CONTROL_SIZE];

/// A line and its place in the log.
struct CollectedLine {
    bytes: Vec<u8>,
    at: TextPlace,
    /// Whether its beginning is omitted.
    is_cut: bool,
    /// Size of the line; see [`TextPlan::measure`].
    size: usize,
}

/// Result for one text.
pub(super) struct TextPart {
    pub(super) text: String,
    /// Number of requested lines and bytes that were omitted.
    pub(super) lines: u64,
    pub(super) bytes: u64,
    /// Place of the first omitted line. An answer from there on contains everything that this one
    /// omits.
    pub(super) left: Option<TextPlace>,
    /// Place of the first shown line, if the line is whole.
    pub(super) begin: Option<TextPlace>,
    /// Place at which the text continues when the log grows.
    pub(super) end: TextPlace,
}

impl TextPart {
    /// Returns the place from which a reader of this tail knows all lines. A reader that got the whole text
    /// needs nothing, so this is the start of the log.
    pub(super) fn known_from(&self) -> TextPlace {
        self.left.map_or(TextPlace::default(), |_| self.begin.unwrap_or(self.end))
    }
}

/// Collects a text from consecutive pieces.
pub(super) struct Collector<'a> {
    plan: &'a TextPlan,
    /// Start of the text.
    from: TextPlace,
    shown: VecDeque<CollectedLine>,
    /// Total size of `shown`, at least its number of characters.
    size: usize,
    carry: Vec<u8>,
    carry_at: TextPlace,
    /// Bytes of the current line beyond the maximum for any answer.
    carry_cut: u64,
    /// Number of complete lines.
    lines: u64,
    omitted_lines: u64,
    omitted_bytes: u64,
    left: Option<TextPlace>,
    /// Number of context lines that are still due after a match.
    after: u32,
    before: VecDeque<(Vec<u8>, TextPlace)>,
}

impl<'a> Collector<'a> {
    pub(super) fn new(plan: &'a TextPlan, from: TextPlace) -> Self {
        let context = plan.filter.as_ref().map_or(0, |filter| filter.context);
        Self {
            plan,
            from,
            shown: VecDeque::new(),
            size: 0,
            carry: Vec::new(),
            carry_at: TextPlace::default(),
            carry_cut: 0,
            lines: 0,
            omitted_lines: 0,
            omitted_bytes: 0,
            left: None,
            after: from.after.min(context),
            before: VecDeque::new(),
        }
    }

    /// Returns true if the answer can't take more lines.
    pub(super) fn is_full(&self) -> bool {
        self.is_part() && self.left.is_some()
    }

    /// Returns the size of the collected text.
    pub(super) fn size(&self) -> usize {
        let under_way = if self.plan.filter.is_none() { self.plan.size_of(&self.carry) } else { 0 };
        self.size + under_way
    }

    /// Returns true if the log is read by cursor, in several answers.
    fn is_part(&self) -> bool {
        matches!(self.plan.choice, Choice::From(_))
    }

    /// Takes bytes. If the answer is full, the rest is left to a later answer. `other` is the size
    /// of the other text if both share the limit.
    pub(super) fn take(&mut self, bytes: &[u8], at: TextPlace, other: usize) {
        if !self.is_part() || self.plan.filter.is_some() {
            return self.split(bytes, at, other);
        }
        let taken = self.fitting(bytes, other);
        self.split(&bytes[..taken], at, other);
        if taken == bytes.len() {
            return;
        }
        let within = at.within.saturating_add(u32::try_from(taken).unwrap_or(u32::MAX));
        let mut rest = TextPlace { within, ..at };
        if !self.carry.is_empty() {
            if self.shown.is_empty() && other == 0 {
                // The line is longer than any answer, so its next part goes into the next answer.
                self.end_line(other);
            } else {
                // Leave the whole current line to the next answer.
                self.carry.clear();
                self.carry_cut = 0;
                rest = self.carry_at;
            }
        }
        self.left.get_or_insert(rest);
    }

    /// Returns how many of the bytes fit into the answer. The result ends with a whole line, unless
    /// that line is longer than any answer.
    fn fitting(&self, bytes: &[u8], other: usize) -> usize {
        let mut room = self.plan.characters.saturating_sub(self.size() + other);
        let mut lines = self.plan.limit.saturating_sub(self.shown.len() as u64);
        let mut taken = 0;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if lines == 0 {
                break;
            }
            let (fits, size) = self.plan.measure(line, room);
            if fits < line.len() {
                return if taken == 0 && self.shown.is_empty() && other == 0 { fits } else { taken };
            }
            room -= size;
            taken += fits;
            lines -= u64::from(line.ends_with(b"\n"));
        }
        taken
    }

    /// Counts bytes that lie before all lines that can be shown.
    pub(super) fn pass(&mut self, bytes: &[u8], at: TextPlace) {
        let ends = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.lines += ends;
        self.omitted_lines += ends;
        self.omitted_bytes += bytes.len() as u64;
        self.left.get_or_insert(at);
    }

    pub(super) fn gap(&mut self, payload: &[u8], at: TextPlace, other: usize) {
        if let Ok(gap) = serde_json::from_slice::<Gap>(payload) {
            self.omitted_bytes += gap.missing_bytes;
            let note = format!("[{} bytes are missing here: {}]\n", gap.missing_bytes, gap.reason);
            self.split(note.as_bytes(), at, other);
        }
    }

    fn split(&mut self, bytes: &[u8], at: TextPlace, other: usize) {
        let mut place = at;
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.carry.is_empty() {
                self.carry_at = place;
            }
            let kept = part.len().min(LINE_BYTES_MAX.saturating_sub(self.carry.len()));
            self.carry.extend_from_slice(&part[..kept]);
            self.carry_cut += (part.len() - kept) as u64;
            if part.ends_with(b"\n") {
                self.end_line(other);
            }
            place.within = place.within.saturating_add(u32::try_from(part.len()).unwrap_or(u32::MAX));
        }
    }

    /// Ends the current line.
    fn end_line(&mut self, other: usize) {
        let (line, at) = (std::mem::take(&mut self.carry), self.carry_at);
        self.omitted_bytes += std::mem::take(&mut self.carry_cut);
        let number = self.lines;
        self.lines += 1;
        let plan = self.plan;
        if matches!(plan.choice, Choice::Range { offset } if number < offset) {
            return;
        }
        match &plan.filter {
            Some(filter) => self.matching(line, at, filter, other),
            None => self.keep(line, at, other),
        }
    }

    fn matching(&mut self, line: Vec<u8>, at: TextPlace, filter: &PatternFilter, other: usize) {
        if filter.matches(&line) {
            for (line, at) in std::mem::take(&mut self.before) {
                self.keep(line, at, other);
            }
            self.keep(line, at, other);
            self.after = filter.context;
        } else if self.after > 0 {
            // A reader that continues at this line must know that it is context of a match.
            let at = TextPlace { after: self.after, ..at };
            self.after -= 1;
            self.keep(line, at, other);
        } else {
            self.before.push_back((line, at));
            if self.before.len() > filter.context as usize {
                self.before.pop_front();
            }
        }
    }

    /// Adds a selected line.
    fn keep(&mut self, mut line: Vec<u8>, at: TextPlace, other: usize) {
        if let Choice::Tail(lines) = self.plan.choice {
            let most = lines.unwrap_or(u64::MAX);
            self.show(line, at);
            while self.shown.len() as u64 > most || self.size > self.plan.characters {
                self.drop_first(self.plan.characters);
            }
            return;
        }
        let is_full = self.left.is_some() || self.shown.len() as u64 >= self.plan.limit;
        let room = self.plan.characters.saturating_sub(self.size + other);
        let (fits, _) = if is_full { (0, 0) } else { self.plan.measure(&line, room) };
        if fits == line.len() {
            return self.show(line, at);
        }
        // A match that is longer than any answer is truncated, because it would otherwise block all
        // later lines.
        if self.shown.is_empty() && other == 0 && !is_full && self.plan.filter.is_some() {
            self.omitted_bytes += (line.len() - fits) as u64;
            line.truncate(fits);
            return self.show(line, at);
        }
        self.left.get_or_insert(at);
        self.omit(line.len());
    }

    fn show(&mut self, bytes: Vec<u8>, at: TextPlace) {
        let size = self.plan.size_of(&bytes);
        self.size += size;
        self.shown.push_back(CollectedLine { bytes, at, is_cut: false, size });
    }

    /// Shortens the text to this size. A tail loses its first lines; every other text loses its
    /// last lines.
    pub(super) fn shrink(&mut self, most: usize) {
        while self.size > most {
            if matches!(self.plan.choice, Choice::Tail(_)) {
                self.drop_first(most);
            } else {
                self.drop_last(most);
            }
        }
    }

    /// Removes the first line of a tail, or the beginning of its only line.
    fn drop_first(&mut self, most: usize) {
        let is_only = self.shown.len() == 1 && !matches!(self.plan.choice, Choice::Tail(Some(0)));
        let Some(line) = self.shown.pop_front() else { return };
        self.size -= line.size;
        self.left.get_or_insert(line.at);
        if !is_only {
            return self.omit(line.bytes.len());
        }
        let is_inside = |byte: &u8| byte & 0xc0 == 0x80;
        let start = |longest: usize| {
            let from = line.bytes.len() - line.bytes.len().min(most / longest);
            from + line.bytes[from..].iter().take_while(|byte| is_inside(byte)).count()
        };
        let [text, any] = LONGEST_SIZES_OF_BYTE.map(start);
        let from = if self.plan.size_of(&line.bytes[text..]) > most { any } else { text };
        self.omitted_bytes += from as u64;
        let bytes = line.bytes[from..].to_vec();
        let size = self.plan.size_of(&bytes);
        self.size += size;
        self.shown.push_back(CollectedLine { bytes, at: line.at, is_cut: true, size });
    }

    /// Removes the last line, or the end of the only match.
    fn drop_last(&mut self, most: usize) {
        let Some(mut line) = self.shown.pop_back() else { return };
        self.size -= line.size;
        if self.shown.is_empty() && self.plan.filter.is_some() && line.size > self.plan.characters {
            let (fits, _) = self.plan.measure(&line.bytes, most);
            self.omitted_bytes += (line.bytes.len() - fits) as u64;
            line.bytes.truncate(fits);
            return self.show(line.bytes, line.at);
        }
        self.left = Some(line.at);
        self.omit(line.bytes.len());
    }

    fn omit(&mut self, bytes: usize) {
        if !self.is_part() {
            self.omitted_lines += 1;
            self.omitted_bytes += bytes as u64;
        }
    }

    /// Ends the input. `is_whole` is true if the log has ended. An incomplete last line is shown,
    /// unless a filter decides on it only when it is complete.
    pub(super) fn close(&mut self, is_whole: bool, other: usize) {
        let is_known = is_whole || self.plan.filter.is_none();
        if is_known && !self.carry.is_empty() && !self.is_full() {
            self.end_line(other);
        }
    }

    /// Returns the text, and the counts of omitted lines and bytes up to `position`.
    pub(super) fn finish(self, position: u64) -> TextPart {
        let under_way = (!self.carry.is_empty()).then_some(self.carry_at);
        // These lines may become context of a later match.
        let end = self.before.front().map(|(_, at)| *at).unwrap_or_else(|| {
            let read_to = if position > self.from.position {
                TextPlace { position, ..TextPlace::default() }
            } else {
                self.from
            };
            TextPlace { after: self.after, ..under_way.unwrap_or(read_to) }
        });
        let begin = self.shown.front().filter(|line| !line.is_cut).map(|line| line.at);
        let bytes: Vec<u8> = self.shown.into_iter().flat_map(|line| line.bytes).collect();
        TextPart {
            text: String::from_utf8_lossy(&bytes).into_owned(),
            lines: self.omitted_lines,
            bytes: self.omitted_bytes,
            left: self.left,
            begin,
            end,
        }
    }
}
