//! Multi-string search: finds which of many texts occur in a line, with one hash lookup at every second byte.
//!
//! An automaton that searches hundreds of texts depends on its previous state at each step. Here, two picks of four bytes, one place
//! apart, are taken from each text, and a bit table marks the hashes of the picks. One of the two is at an even place of a
//! line that contains the text. The lookup of a place does not depend on the previous one, and the table rejects almost all places.

use std::borrow::Cow;

/// Length from which on a text has two picks. A shorter one has one, and one for each byte that may follow it.
pub(super) const TEXT_BYTES_MIN: usize = PICKED_BYTES + 1;
/// Bytes of a pick, and of the shortest text.
pub(super) const PICKED_BYTES: usize = 4;
/// Distance of the places that are looked up.
const STRIDE: usize = 2;
/// Bytes of a line whose places are looked up together.
const BLOCK_BYTES: usize = 16;
/// Bytes that are read for a block.
const READ_BYTES: usize = BLOCK_BYTES - STRIDE + PICKED_BYTES;
/// Bits of the hash of picked bytes: the table of bits takes 32 KiB, of which a log uses a small part.
const HASH_BITS: u32 = 18;
/// Bits of the hash of the bytes of two picks.
const SHARED_BITS: u32 = 14;

/// Texts to search for, with the values of each.
pub(super) struct LiteralSearch<T> {
    /// A bit for each hash, whether some pick has it.
    picked: Box<[u64; 1 << (HASH_BITS - 6)]>,
    picks: Vec<Pick>,
    /// Number of a pick with each hash, counted from 1; 0 if there is none.
    first: Vec<u32>,
    texts: Vec<(Cow<'static, [u8]>, Vec<T>)>,
}

struct Pick {
    /// The picked bytes as a number.
    picked: u32,
    /// Number of the next pick with the same hash, or 0.
    next: u32,
    /// Index of the text.
    text: u32,
    /// Where in the text they are.
    at: u32,
    /// The first bytes of the text as a number, and which of its bits belong to the text: a comparison without a call.
    begin: u64,
    mask: u64,
}

impl<T: Copy + Ord> LiteralSearch<T> {
    /// Each text has at least [`PICKED_BYTES`].
    pub(super) fn new(texts: impl IntoIterator<Item = (Cow<'static, [u8]>, T)>) -> Self {
        let mut sought: Vec<_> = texts.into_iter().collect();
        sought.sort_unstable();
        sought.dedup();
        let mut texts: Vec<(Cow<'static, [u8]>, Vec<T>)> = Vec::new();
        for (text, value) in sought {
            match texts.last_mut() {
                Some((last, values)) if *last == text => values.push(value),
                _ => texts.push((text, vec![value])),
            }
        }
        let mut shared = SharedPicks::default();
        texts.iter().for_each(|(text, _)| shared.add(text));
        let mut picks = Vec::new();
        let mut picked = Box::new([0; 1 << (HASH_BITS - 6)]);
        let mut first = vec![0; 1 << HASH_BITS];
        for (index, (text, _)) in (0..).zip(&texts) {
            let rarest = shared.rarest(text);
            let mut begin = [0; size_of::<u64>()];
            let known = text.len().min(begin.len());
            begin[..known].copy_from_slice(&text[..known]);
            let begin = u64::from_le_bytes(begin);
            let mask = u64::MAX >> (u64::BITS as usize - 8 * known);
            let mut pick = |at: usize, last: u8| {
                let bytes = u32::from_le_bytes([text[at], text[at + 1], text[at + 2], last]);
                let hash = hash(bytes);
                let number = u32::try_from(picks.len() + 1).expect("there are fewer than 2^32 picks");
                let next = std::mem::replace(&mut first[hash as usize], number);
                picked[hash as usize >> 6] |= 1 << (hash & 63);
                picks.push(Pick { picked: bytes, next, text: index, at: at as u32, begin, mask });
            };
            pick(rarest, text[rarest + 3]);
            match text.get(rarest + PICKED_BYTES) {
                Some(last) => pick(rarest + 1, *last),
                None => (0..=u8::MAX).for_each(|last| pick(rarest + 1, last)),
            }
        }
        Self { picked, picks, first, texts }
    }

    /// Calls the function with the values of each text that occurs, for some places more than once.
    pub(super) fn each(&self, line: &[u8], mut found: impl FnMut(T)) {
        let Some(last) = line.last_chunk() else {
            // A short line, with zeros behind it.
            let mut block = [0; READ_BYTES];
            block[..line.len()].copy_from_slice(line);
            return self.block(line, 0, &block, &mut found);
        };
        let mut from = 0;
        while let Some(block) = line[from..].first_chunk() {
            self.block(line, from, block, &mut found);
            from += BLOCK_BYTES;
        }
        // It overlaps the block before it. Of a text's two picks, one is at a place of either block.
        self.block(line, line.len() - READ_BYTES, last, &mut found);
    }

    #[inline(always)]
    fn block(&self, line: &[u8], from: usize, block: &[u8; READ_BYTES], found: &mut impl FnMut(T)) {
        // A bit for each place.
        let mut places = 0_u64;
        for place in 0..BLOCK_BYTES / STRIDE {
            places |= (self.bit(hash(picked(block, STRIDE * place))) & 1) << place;
        }
        while places != 0 {
            let place = STRIDE * places.trailing_zeros() as usize;
            places &= places - 1;
            self.at(line, from + place, picked(block, place), found);
        }
    }

    /// The lowest bit is set if a pick has this hash.
    fn bit(&self, hash: u32) -> u64 {
        self.picked[hash as usize >> 6] >> (hash & 63)
    }

    /// Reports the texts with these picked bytes at this place, if a pick has the same hash.
    #[inline(always)]
    fn at(&self, line: &[u8], place: usize, here: u32, found: &mut impl FnMut(T)) {
        let mut number = self.first[hash(here) as usize];
        while let Some(pick) = (number as usize).checked_sub(1).and_then(|index| self.picks.get(index)) {
            number = pick.next;
            if pick.picked == here
                && let Some(start) = place.checked_sub(pick.at as usize)
                && pick.may_begin(&line[start..])
            {
                self.text(pick.text, &line[start..], found);
            }
        }
    }

    /// Reports a text if it begins here.
    #[inline(never)]
    fn text(&self, index: u32, line: &[u8], found: &mut impl FnMut(T)) {
        let (text, values) = &self.texts[index as usize];
        if line.starts_with(text) {
            values.iter().copied().for_each(found);
        }
    }
}

impl Pick {
    /// Returns false if the text certainly does not begin here.
    #[inline(always)]
    fn may_begin(&self, line: &[u8]) -> bool {
        line.first_chunk().is_none_or(|bytes| u64::from_le_bytes(*bytes) & self.mask == self.begin)
    }
}

/// The picked bytes at a place of a block as a number. One load: the compiler does not join loads of single bytes.
#[inline(always)]
fn picked(block: &[u8; READ_BYTES], place: usize) -> u32 {
    block[place..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// A hash of picked bytes.
#[inline(always)]
const fn hash(picked: u32) -> u32 {
    picked.wrapping_mul(0x9e37_79b1) >> (u32::BITS - HASH_BITS)
}

/// How many texts have the same bytes for two picks, by a hash of these bytes.
struct SharedPicks(Vec<u16>);

impl Default for SharedPicks {
    fn default() -> Self {
        Self(vec![0; 1 << SHARED_BITS])
    }
}

impl SharedPicks {
    fn add(&mut self, text: &[u8]) {
        for pick in text.windows(TEXT_BYTES_MIN) {
            let count = &mut self.0[window_hash(pick)];
            *count = count.saturating_add(1);
        }
    }

    /// Returns the offset in a text of the two picks that the fewest texts have, and of these the rarest in logs.
    fn rarest(&self, text: &[u8]) -> usize {
        let often = |byte: &u8| match byte {
            b'e' | b't' | b'a' | b'o' | b'i' | b'n' | b's' | b'r' | b' ' => 4,
            b'a'..=b'z' | b'0'..=b'9' | b'.' | b'/' | b'-' | b':' => 3,
            b'A'..=b'Z' => 2,
            _ => 1,
        };
        let rarity = |pick: &[u8]| (self.0[window_hash(pick)], pick.iter().map(often).sum::<u32>());
        let picks = text.windows(TEXT_BYTES_MIN).map(rarity).enumerate();
        picks.min_by_key(|(_, rarity)| *rarity).map_or(0, |(at, _)| at)
    }
}

/// Hash of the bytes of two picks.
fn window_hash(pick: &[u8]) -> usize {
    let number = pick.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SHARED_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_texts_than_sixteen_bits_can_count_are_found() {
        let number = |number: u32| format!("<{number:05}>").into_bytes();
        let texts = LiteralSearch::new((0..70_000).map(|value| (number(value).into(), value)));
        for value in (0..70_000).step_by(997) {
            let mut found = Vec::new();
            texts.each(&number(value), |value| found.push(value));
            assert_eq!(found, [value]);
        }
    }

    #[test]
    fn every_text_is_found() {
        let words = ["Test Case '", "error", "rror", "Killed: 9", "test", "----", "--- FAIL: "];
        let texts = LiteralSearch::new(words.map(|word| (word.as_bytes().into(), word)));
        let pieces =
            ["", "x", " Test Case '", "an error: ", "terror", "-----", "--- FAIL: t", "Killed: 8", "tes"];
        for first in pieces {
            for second in pieces {
                for third in pieces {
                    let line = [first, second, third].concat();
                    let mut found = Vec::new();
                    texts.each(line.as_bytes(), |word| found.push(word));
                    found.sort_unstable();
                    found.dedup();
                    let mut expected = Vec::new();
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
