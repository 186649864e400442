//! Which of many texts occur in a line, found by looking at each place of it once.
//!
//! An automaton that searches hundreds of texts depends on its previous state at each step. Here, four rare bytes
//! are picked from each text, and a bit table marks the hashes of picked bytes. The lookup of a position does not depend on the
//! previous one, and the table rejects almost all positions.

/// Bytes of a text that are picked.
pub(super) const PICKED_BYTES: usize = 4;
/// Number of positions that are looked up together.
const BLOCK_PLACES: usize = 8;
/// Bits of the hash of picked bytes: the table of bits takes 8 KiB, and stays where the processor reads fastest.
const HASH_BITS: u32 = 16;

/// Texts to search for, with the value of each.
pub(super) struct Texts<T> {
    /// A bit for each hash, whether some text's picked bytes have it.
    picked: Box<[u64; 1 << (HASH_BITS - 6)]>,
    /// By their hash.
    texts: Vec<Text<T>>,
    /// By hash, which of the texts is the first that has it. Beyond the bits' answer only.
    first: Vec<u16>,
}

struct Text<T> {
    hash: u16,
    /// The picked bytes as a number.
    picked: u32,
    /// Where in the text the picked bytes are.
    at: usize,
    text: Vec<u8>,
    what: T,
}

impl<T: Copy + Ord> Texts<T> {
    /// Each text has at least [`PICKED_BYTES`].
    pub(super) fn new(texts: impl IntoIterator<Item = (Vec<u8>, T)>) -> Self {
        let mut texts: Vec<_> = texts
            .into_iter()
            .map(|(text, what)| {
                let at = rarest(&text);
                Text { hash: hash(&text[at..]), picked: first_bytes(&text[at..]), at, text, what }
            })
            .collect();
        texts.sort_by(|one, other| {
            (one.hash, &one.text, one.what).cmp(&(other.hash, &other.text, other.what))
        });
        texts.dedup_by(|one, other| one.text == other.text && one.what == other.what);
        let mut picked = Box::new([0; 1 << (HASH_BITS - 6)]);
        let mut first = vec![0; 1 << HASH_BITS];
        for (index, text) in (0..texts.len() as u16).zip(&texts).rev() {
            picked[usize::from(text.hash >> 6)] |= 1 << (text.hash & 63);
            first[usize::from(text.hash)] = index;
        }
        Self { picked, texts, first }
    }

    /// Calls the function with the value and the position of each text that occurs.
    pub(super) fn each(&self, line: &[u8], mut found: impl FnMut(T, usize)) {
        let places = line.len().saturating_sub(PICKED_BYTES - 1);
        let mut from = 0;
        while let Some(block) = line[from..].first_chunk::<{ BLOCK_PLACES + PICKED_BYTES - 1 }>() {
            let any = (0..BLOCK_PLACES).fold(0, |any, place| any | self.bit(hash(&block[place..])));
            if any & 1 != 0 {
                let picked = |place: &usize| self.bit(hash(&block[*place..])) & 1 != 0;
                (0..BLOCK_PLACES).filter(picked).for_each(|place| self.at(line, from + place, &mut found));
            }
            from += BLOCK_PLACES;
        }
        let picked = |place: &usize| self.bit(hash(&line[*place..])) & 1 != 0;
        (from..places).filter(picked).for_each(|place| self.at(line, place, &mut found));
    }

    /// The lowest bit is set if the picked bytes of a text have this hash.
    fn bit(&self, hash: u16) -> u64 {
        self.picked[usize::from(hash >> 6)] >> (hash & 63)
    }

    /// Reports the texts with these picked bytes at this position, if a text has the same hash.
    #[inline]
    fn at(&self, line: &[u8], place: usize, found: &mut impl FnMut(T, usize)) {
        let here = first_bytes(&line[place..]);
        let hash = hash(&line[place..]);
        let first = usize::from(self.first[usize::from(hash)]);
        for text in self.texts[first..].iter().take_while(|text| text.hash == hash) {
            if text.picked == here
                && let Some(start) = place.checked_sub(text.at)
                && line[start..].starts_with(&text.text)
            {
                found(text.what, start);
            }
        }
    }
}

/// The first bytes as a number.
fn first_bytes(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// A hash of the first bytes.
fn hash(bytes: &[u8]) -> u16 {
    (first_bytes(bytes).wrapping_mul(0x9e37_79b1) >> (u32::BITS - HASH_BITS)) as u16
}

/// Where in a text the bytes are that the fewest lines have.
fn rarest(text: &[u8]) -> usize {
    let often = |byte: &u8| match byte {
        b'e' | b't' | b'a' | b'o' | b'i' | b'n' | b's' | b'r' | b' ' => 4,
        b'a'..=b'z' | b'0'..=b'9' | b'.' | b'/' | b'-' | b':' => 3,
        b'A'..=b'Z' => 2,
        _ => 1,
    };
    let picks = text.windows(PICKED_BYTES).map(|pick| pick.iter().map(often).sum::<u32>());
    picks.enumerate().min_by_key(|(_, often)| *often).map_or(0, |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_occurrence_is_found() {
        let words = ["Test Case '", "error", "rror", "Killed: 9", "test", "----", "--- FAIL: "];
        let texts = Texts::new(words.iter().map(|word| (word.as_bytes().to_vec(), *word)));
        let pieces =
            ["", "x", " Test Case '", "an error: ", "terror", "-----", "--- FAIL: t", "Killed: 8", "tes"];
        for first in pieces {
            for second in pieces {
                for third in pieces {
                    let line = [first, second, third].concat();
                    let mut found = Vec::new();
                    texts.each(line.as_bytes(), |word, at| found.push((at, word)));
                    found.sort_unstable();
                    let mut expected = Vec::new();
                    for word in words {
                        expected.extend(
                            (0..line.len()).filter(|at| line[*at..].starts_with(word)).map(|at| (at, word)),
                        );
                    }
                    expected.sort_unstable();
                    assert_eq!(found, expected, "{line}");
                }
            }
        }
    }
}
