//! Multi-string search: finds which of many texts occur in a line, with one lookup at every second byte.
//!
//! An automaton that searches hundreds of texts depends on its previous state at each step. Here, two picks of four bytes, one at an
//! even and one at an odd offset, are taken from each text, and a table leads from the hash of four bytes to the texts with such a pick.
//! One of the two is at an even place of a line that contains the text. The lookup of a place does not depend on the previous one, and
//! almost all places lead nowhere: each text has its picks where logs have the rarest bytes.

use super::literals::LINE_BORDER;
use crate::hashing::FastHasher;
use std::borrow::Cow;

/// Length from which on a text has two picks. A shorter one has one, and one for each byte that may follow it.
pub(super) const TEXT_BYTES_MIN: usize = PICKED_BYTES + 1;
/// Bytes of a pick, and of the shortest text.
pub(super) const PICKED_BYTES: usize = 4;
/// Distance of the places that are looked up.
pub(super) const STRIDE: usize = 2;
/// Bytes of a line whose places are looked up together.
const BLOCK_BYTES: usize = 16;
/// Bytes that are read for a block.
const READ_BYTES: usize = BLOCK_BYTES - STRIDE + PICKED_BYTES;
/// Bits of the hash of picked bytes: the table takes 256 KiB, of which a log uses a small part.
const HASH_BITS: u32 = 17;
/// Zeros behind a line: blocks and the beginnings of texts are read beyond its end. No text has a zero.
const PADDING_BYTES: usize = 32;
/// Limit on the offset of a pick.
const PICKED_AT_MAX: usize = 63;

/// A text to search for.
pub(super) struct Sought<T> {
    pub(super) text: Cow<'static, [u8]>,
    /// Offsets of its picks: an even and an odd one.
    pub(super) picks: [u8; STRIDE],
    pub(super) value: T,
}

/// Texts to search for, with the values of each.
pub(super) struct LiteralSearch<T> {
    /// For each hash, the number of the first group with it, counted from 1; 0 if there is none.
    first: Box<[u16; 1 << HASH_BITS]>,
    groups: Vec<Group>,
    /// The buckets of one group after those of another.
    buckets: Vec<Bucket>,
    /// The picks of one bucket after those of another: the first bytes of a text as a number, in order, and the text's index.
    picks: Vec<(u64, u32)>,
    texts: Vec<Text>,
    /// Values, and the number of the next value of the same text, counted from 1; 0 for the last.
    values: Vec<(T, u32)>,
}

/// All picks of the same four bytes.
struct Group {
    /// The picked bytes as a number.
    picked: u32,
    /// Its buckets.
    from: u32,
    to: u32,
    /// Number of the next group with the same hash, or 0.
    next: u16,
}

/// Picks of a group from the same offset of texts of the same length, up to eight bytes.
struct Bucket {
    /// Where in the texts the bytes are.
    at: u32,
    /// Its picks.
    from: u32,
    to: u32,
    /// Which bits of the first bytes, as a number, belong to the texts.
    mask: u64,
}

/// A pick while the search is built.
#[derive(Clone, Copy)]
struct Pick {
    text: u32,
    at: u32,
    begin: u64,
    mask: u64,
}

struct Text {
    bytes: Cow<'static, [u8]>,
    /// Number of its first value.
    value: u32,
    /// Number of the next text with the same hash, or 0.
    next: u32,
}

/// A line between two [`LINE_BORDER`]s, as it is searched. The buffer is used for one line after the other.
#[derive(Default)]
pub(super) struct BorderedLine(Vec<u8>);

impl BorderedLine {
    pub(super) fn set(&mut self, line: &[u8]) {
        self.0.clear();
        self.0.extend_from_slice(LINE_BORDER);
        self.0.extend_from_slice(line);
        self.0.extend_from_slice(LINE_BORDER);
        self.0.extend_from_slice(&[0; PADDING_BYTES]);
    }
}

impl<T: Copy> LiteralSearch<T> {
    /// Each text has at least [`PICKED_BYTES`].
    pub(super) fn new(sought: Vec<Sought<T>>) -> Self {
        let mut all = Self {
            first: Box::new([0; 1 << HASH_BITS]),
            groups: Vec::with_capacity(STRIDE * sought.len()),
            buckets: Vec::with_capacity(STRIDE * sought.len()),
            picks: Vec::with_capacity(STRIDE * sought.len()),
            texts: Vec::with_capacity(sought.len()),
            values: Vec::with_capacity(sought.len()),
        };
        // Each pick with its group.
        let mut picks = Vec::with_capacity(2 * STRIDE * sought.len());
        // For each hash of a text, the number of the first text with it.
        let mut known = vec![0; sought.len().next_power_of_two()];
        for Sought { text, picks: places, value } in sought {
            let Some(text) = all.add_text(text, value, &mut known) else { continue };
            let bytes = &all.texts[text as usize].bytes;
            let (begin, mask) = begin_of(bytes);
            let pick = |at: u8| Pick { text, at: u32::from(at), begin, mask };
            let bytes_at = |at: u8| picked(&bytes[usize::from(at)..]);
            let [even, odd] = places;
            let (first, second) = (bytes_at(even), bytes_at(odd));
            let is_short = bytes.len() == PICKED_BYTES;
            let rest = [bytes[1], bytes[2], bytes[3]];
            picks.push((all.group(first), pick(even)));
            if !is_short {
                picks.push((all.group(second), pick(odd)));
                continue;
            }
            for last in 0..=u8::MAX {
                let followed = u32::from_le_bytes([rest[0], rest[1], rest[2], last]);
                picks.push((all.group(followed), pick(1)));
            }
        }
        all.sort(picks);
        all
    }

    /// Adds a value to a text. Returns the text's index if it is new.
    fn add_text(&mut self, bytes: Cow<'static, [u8]>, value: T, known: &mut [u32]) -> Option<u32> {
        let mut hasher = FastHasher::default();
        hasher.bytes(&bytes);
        let number = |count: usize| u32::try_from(count).expect("there are fewer than 2^32 texts");
        let slot = &mut known[hasher.0 as usize % known.len()];
        let mut same = *slot;
        while let Some(index) = (same as usize).checked_sub(1) {
            let text = &mut self.texts[index];
            if text.bytes == bytes {
                self.values.push((value, text.value));
                text.value = number(self.values.len());
                return None;
            }
            same = text.next;
        }
        self.values.push((value, 0));
        let index = number(self.texts.len());
        self.texts.push(Text { bytes, value: number(self.values.len()), next: *slot });
        *slot = index + 1;
        Some(index)
    }

    /// Index of the group with these bytes, which gets one more pick.
    fn group(&mut self, picked: u32) -> usize {
        let first = &mut self.first[hash(picked) as usize];
        let mut number = *first;
        while let Some(index) = usize::from(number).checked_sub(1) {
            let group = &mut self.groups[index];
            if group.picked == picked {
                group.to += 1;
                return index;
            }
            number = group.next;
        }
        self.groups.push(Group { picked, from: 0, to: 1, next: *first });
        *first = u16::try_from(self.groups.len()).expect("the texts have fewer than 2^16 picks");
        self.groups.len() - 1
    }

    /// Puts the picks of each group into its buckets. So far, a group only counts its picks.
    fn sort(&mut self, picks: Vec<(usize, Pick)>) {
        let mut end = 0;
        for group in &mut self.groups {
            let count = group.to;
            (group.from, group.to) = (end, end);
            end += count;
        }
        let mut sorted = vec![Pick { text: 0, at: 0, begin: 0, mask: 0 }; picks.len()];
        for (group, pick) in picks {
            let to = &mut self.groups[group].to;
            sorted[*to as usize] = pick;
            *to += 1;
        }
        for group in &mut self.groups {
            let own = &mut sorted[group.from as usize..group.to as usize];
            own.sort_unstable_by_key(|pick| (pick.at, pick.mask, pick.begin));
            group.from = self.buckets.len() as u32;
            for bucket in own.chunk_by(|one, other| (one.at, one.mask) == (other.at, other.mask)) {
                let from = self.picks.len() as u32;
                self.picks.extend(bucket.iter().map(|pick| (pick.begin, pick.text)));
                let Pick { at, mask, .. } = bucket[0];
                self.buckets.push(Bucket { at, mask, from, to: self.picks.len() as u32 });
            }
            group.to = self.buckets.len() as u32;
        }
    }

    /// Calls the function with the values of each text that occurs, for some places more than once.
    pub(super) fn each(&self, line: &BorderedLine, mut found: impl FnMut(T)) {
        let line = line.0.as_slice();
        let length = line.len().saturating_sub(PADDING_BYTES);
        for from in (0..length).step_by(BLOCK_BYTES) {
            let Some(block) = line[from..].first_chunk::<READ_BYTES>() else { return };
            for place in (0..BLOCK_BYTES).step_by(STRIDE) {
                let here = picked(&block[place..]);
                if self.first[hash(here) as usize] != 0
                    && let Some(group) = self.group_of(here)
                {
                    self.of_group(group, line, from + place, &mut found);
                }
            }
        }
    }

    /// The group of these bytes. Mostly there is none, and other bytes have the same hash: a function of its own without a
    /// state to save costs least.
    #[inline(never)]
    fn group_of(&self, picked: u32) -> Option<&Group> {
        let mut number = self.first[hash(picked) as usize];
        loop {
            let group = self.groups.get(usize::from(number).checked_sub(1)?)?;
            if group.picked == picked {
                return Some(group);
            }
            number = group.next;
        }
    }

    /// Reports the texts of a group whose bytes are at this place.
    #[inline(never)]
    fn of_group(&self, group: &Group, line: &[u8], place: usize, found: &mut impl FnMut(T)) {
        for bucket in &self.buckets[group.from as usize..group.to as usize] {
            let line = place.checked_sub(bucket.at as usize).and_then(|start| line.get(start..));
            let Some((line, begin)) = line.and_then(|line| Some((line, line.first_chunk()?))) else {
                continue;
            };
            let begin = u64::from_le_bytes(*begin) & bucket.mask;
            let picks = &self.picks[bucket.from as usize..bucket.to as usize];
            let first = if picks.len() > 1 { picks.partition_point(|pick| pick.0 < begin) } else { 0 };
            for (_, text) in picks[first..].iter().take_while(|pick| pick.0 == begin) {
                self.text(*text, line, found);
            }
        }
    }

    /// Reports a text if it begins here.
    fn text(&self, index: u32, line: &[u8], found: &mut impl FnMut(T)) {
        let text = &self.texts[index as usize];
        if line.starts_with(&text.bytes) {
            let mut number = text.value;
            while let Some((value, next)) = (number as usize).checked_sub(1).map(|index| self.values[index]) {
                found(value);
                number = next;
            }
        }
    }
}

/// The first bytes of a text as a number, and which of its bits belong to the text.
fn begin_of(text: &[u8]) -> (u64, u64) {
    let mut begin = [0; size_of::<u64>()];
    let known = text.len().min(begin.len());
    begin[..known].copy_from_slice(&text[..known]);
    (u64::from_le_bytes(begin), u64::MAX >> (u64::BITS as usize - 8 * known))
}

/// Picked bytes as a number. One load: the compiler does not join loads of single bytes.
#[inline(always)]
fn picked(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// A hash of picked bytes.
#[inline(always)]
const fn hash(picked: u32) -> u32 {
    picked.wrapping_mul(0x9e37_79b1) >> (u32::BITS - HASH_BITS)
}

/// The even and the odd offset in a text of the bytes with the lowest cost.
pub(super) fn picks(text: &[u8], cost: impl Fn(&[u8]) -> usize) -> [u8; STRIDE] {
    let pick = |from: usize| {
        let places = text.windows(PICKED_BYTES).enumerate().take(PICKED_AT_MAX + 1);
        let pick = places.skip(from).step_by(STRIDE).min_by_key(|(_, bytes)| cost(bytes));
        pick.map_or(0, |(at, _)| at as u8)
    };
    [pick(0), pick(1)]
}

/// The picks of a text whose bytes were not counted in logs: those that are rare in general.
pub(super) fn likely_picks(text: &[u8]) -> [u8; STRIDE] {
    // A logarithm of how often a byte occurs.
    let often = |byte: &u8| match byte {
        b'e' | b't' | b'a' | b'o' | b'i' | b'n' | b's' | b'r' | b' ' => 4,
        b'a'..=b'z' | b'.' | b'/' => 3,
        b'A'..=b'Z' | b'0'..=b'9' | b'-' | b':' | b'\n' => 2,
        _ => 1,
    };
    picks(text, |bytes| bytes.iter().map(often).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bordered(line: &[u8]) -> BorderedLine {
        let mut bordered = BorderedLine::default();
        bordered.set(line);
        bordered
    }

    fn search<T: Copy>(texts: impl IntoIterator<Item = (Vec<u8>, T)>) -> LiteralSearch<T> {
        let sought =
            |(text, value): (Vec<u8>, T)| Sought { picks: likely_picks(&text), text: text.into(), value };
        LiteralSearch::new(texts.into_iter().map(sought).collect())
    }

    #[test]
    fn more_texts_than_sixteen_bits_can_count_are_found() {
        let number = |number: u32| format!("<{number:05}>").into_bytes();
        let texts = search((0..70_000).map(|value| (number(value), value)));
        for value in (0..70_000).step_by(997) {
            let mut found = Vec::new();
            texts.each(&bordered(&number(value)), |value| found.push(value));
            found.dedup();
            assert_eq!(found, [value]);
        }
    }

    #[test]
    fn every_value_of_a_text_is_found() {
        let texts = search([(b"error".to_vec(), 1), (b"other".to_vec(), 2), (b"error".to_vec(), 3)]);
        let mut found = Vec::new();
        texts.each(&bordered(b"an error"), |value| found.push(value));
        found.sort_unstable();
        assert_eq!(found, [1, 3]);
    }

    #[test]
    fn every_text_is_found() {
        let words = [
            "\nTest Case '",
            "Test Case '",
            "error",
            "rror",
            "tes\n",
            "Killed: 9",
            "test",
            "----",
            "--- FAIL: ",
        ];
        let texts = search(words.map(|word| (word.as_bytes().to_vec(), word)));
        let pieces =
            ["", "x", " Test Case '", "an error: ", "terror", "-----", "--- FAIL: t", "Killed: 8", "tes"];
        for first in pieces {
            for second in pieces {
                for third in pieces {
                    let line = [first, second, third].concat();
                    let mut found = Vec::new();
                    texts.each(&bordered(line.as_bytes()), |word| found.push(word));
                    found.sort_unstable();
                    found.dedup();
                    let mut expected = Vec::new();
                    let line = format!("\n{line}\n");
                    for word in words {
                        expected.extend(line.contains(word).then_some(word));
                    }
                    expected.sort_unstable();
                    assert_eq!(found, expected, "{line}");
                }
            }
        }
    }
}
