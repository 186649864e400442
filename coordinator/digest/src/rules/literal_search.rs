//! Multi-string search: finds which of many texts occur in a line, with one hash lookup at every second byte.
//!
//! An automaton that searches hundreds of texts depends on its previous state at each step. Here, two picks of four bytes, one place
//! apart, are taken from each text, and a bit table marks the hashes of the picks. One of the two is at an even place of a
//! line that contains the text. The lookup of a place does not depend on the previous one, and the table rejects almost all places.

use crate::hashing::ByHash;
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

/// Texts to search for, with the values of each.
pub(super) struct LiteralSearch<T> {
    /// A bit for each hash, whether some pick has it.
    picked: Box<[u64; 1 << (HASH_BITS - 6)]>,
    /// By their hash.
    picks: Vec<Pick>,
    /// Index of the first pick with each hash. Valid only if the bit of the hash is set.
    first: Vec<u32>,
    texts: Vec<(Cow<'static, [u8]>, Vec<T>)>,
}

struct Pick {
    hash: u32,
    /// Index of the text.
    text: u32,
    /// The picked bytes as a number.
    picked: u32,
    /// Where in the text they are.
    at: usize,
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
        let mut shared = ByHash::default();
        for (text, _) in &texts {
            text.windows(TEXT_BYTES_MIN).for_each(|pick| *shared.entry(window_hash(pick)).or_default() += 1);
        }
        let mut picks = Vec::new();
        for (index, (text, _)) in (0..).zip(&texts) {
            let rarest = rarest(text, &shared);
            let mut pick = |at: usize, last: u8| {
                let picked = u32::from_le_bytes([text[at], text[at + 1], text[at + 2], last]);
                picks.push(Pick { hash: hash(picked), text: index, picked, at });
            };
            pick(rarest, text[rarest + 3]);
            match text.get(rarest + PICKED_BYTES) {
                Some(last) => pick(rarest + 1, *last),
                None => (0..=u8::MAX).for_each(|last| pick(rarest + 1, last)),
            }
        }
        picks.sort_by_key(|pick| (pick.hash, pick.text));
        let mut picked = Box::new([0; 1 << (HASH_BITS - 6)]);
        let mut first = vec![0; 1 << HASH_BITS];
        for (index, pick) in picks.iter().enumerate().rev() {
            picked[pick.hash as usize >> 6] |= 1 << (pick.hash & 63);
            first[pick.hash as usize] = u32::try_from(index).expect("there are fewer than 2^32 picks");
        }
        Self { picked, picks, first, texts }
    }

    /// Calls the function with the values of each text that occurs.
    pub(super) fn each(&self, line: &[u8], mut found: impl FnMut(T)) {
        let mut from = 0;
        while let Some(block) = line[from..].first_chunk() {
            self.block(line, from, block, &mut found);
            from += BLOCK_BYTES;
        }
        // The end of the line, with zeros behind it.
        let rest = &line[from..];
        let mut block = [0; READ_BYTES];
        block[..rest.len()].copy_from_slice(rest);
        self.block(line, from, &block, &mut found);
    }

    #[inline(always)]
    fn block(&self, line: &[u8], from: usize, block: &[u8; READ_BYTES], found: &mut impl FnMut(T)) {
        let places = (0..BLOCK_BYTES).step_by(STRIDE);
        let any = places.clone().fold(0, |any, place| any | self.bit(hash(picked(block, place))));
        if any & 1 != 0 {
            for place in places {
                let here = picked(block, place);
                if self.bit(hash(here)) & 1 != 0 {
                    self.at(line, from + place, here, found);
                }
            }
        }
    }

    /// The lowest bit is set if a pick has this hash.
    fn bit(&self, hash: u32) -> u64 {
        self.picked[hash as usize >> 6] >> (hash & 63)
    }

    /// Reports the texts with these picked bytes at this place, if a pick has the same hash.
    fn at(&self, line: &[u8], place: usize, here: u32, found: &mut impl FnMut(T)) {
        let hash = hash(here);
        let first = self.first[hash as usize] as usize;
        for pick in self.picks[first..].iter().take_while(|pick| pick.hash == hash) {
            let (text, values) = &self.texts[pick.text as usize];
            if pick.picked == here
                && let Some(start) = place.checked_sub(pick.at)
                && line[start..].starts_with(text)
            {
                values.iter().copied().for_each(&mut *found);
            }
        }
    }
}

/// The picked bytes at a place of a block as a number.
#[inline(always)]
fn picked(block: &[u8; READ_BYTES], place: usize) -> u32 {
    u32::from_le_bytes([block[place], block[place + 1], block[place + 2], block[place + 3]])
}

/// A hash of picked bytes.
#[inline(always)]
const fn hash(picked: u32) -> u32 {
    picked.wrapping_mul(0x9e37_79b1) >> (u32::BITS - HASH_BITS)
}

/// Returns the offset in a text of the two picks that the fewest texts have, and of these the rarest in logs.
fn rarest(text: &[u8], shared: &ByHash<u32>) -> usize {
    let often = |byte: &u8| match byte {
        b'e' | b't' | b'a' | b'o' | b'i' | b'n' | b's' | b'r' | b' ' => 4,
        b'a'..=b'z' | b'0'..=b'9' | b'.' | b'/' | b'-' | b':' => 3,
        b'A'..=b'Z' => 2,
        _ => 1,
    };
    let rarity = |pick: &[u8]| (shared.get(&window_hash(pick)).copied(), pick.iter().map(often).sum::<u32>());
    let picks = text.windows(TEXT_BYTES_MIN).map(rarity).enumerate();
    picks.min_by_key(|(_, rarity)| *rarity).map_or(0, |(at, _)| at)
}

/// Hash of the bytes of two picks.
fn window_hash(pick: &[u8]) -> u64 {
    let number = pick.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
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
    fn every_occurrence_is_found() {
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
                    let mut expected = Vec::new();
                    for word in words {
                        let places = (0..line.len()).filter(|at| line[*at..].starts_with(word));
                        expected.extend(places.map(|_| word));
                    }
                    expected.sort_unstable();
                    assert_eq!(found, expected, "{line}");
                }
            }
        }
    }
}
