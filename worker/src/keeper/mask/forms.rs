//! The forms of secrets, and matching at a position of a text.
//!
//! All forms of a kind are in one sorted list. Forms with the same prefix are a range of it, and
//! each unit of the text narrows the range. The cost per position therefore does not depend on the
//! number of forms. Most positions are skipped by a check of their first bytes.

use std::collections::BTreeSet;
use std::ops::Range;

/// Minimum length of a line of a secret, or of a value without surrounding white space, to count as
/// a secret.
const PART_BYTES_MIN: usize = 6;
/// Minimum length of an encoded form. Shorter ones would mask common text.
const ENCODED_BYTES_MIN: usize = PREFIX_BYTES;
/// Longest gap between two base64 digits, in bytes: the end of a line and the indentation of the
/// next one.
const BREAK_BYTES_MAX: usize = 34;
/// Length of the prefix that is checked first, in bytes.
const PREFIX_BYTES: usize = 4;
/// Size of the prefix table, as a power of two in bits: 16 KiB, sparse for some thousand forms.
const PREFIX_TABLE_BITS: u32 = 17;

/// All forms to match.
pub(super) struct Forms {
    /// Values, plain or with any of their bytes percent-encoded.
    values: Sorted,
    /// Base64 digits of each value, with line breaks at any place.
    digits: Sorted,
    /// The bytes that can start a match.
    starts: [bool; 256],
}

/// Result of matching at a position.
#[derive(Default)]
pub(super) struct Found {
    /// Length of the longest match.
    pub(super) longest: Option<usize>,
    /// True if the whole text may be a prefix of a match, so that more bytes are needed.
    pub(super) more: bool,
}

impl Forms {
    /// Creates the forms of these values. Empty values are ignored. Returns `None` if no value is
    /// left.
    pub(super) fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let mut parts = BTreeSet::new();
        for value in values {
            parts.insert(value.as_bytes());
            // The part that remains after a shell or a tool trims the value.
            let trimmed = std::iter::once(value.trim()).chain(value.lines().map(str::trim));
            parts.extend(trimmed.filter(|part| part.len() >= PART_BYTES_MIN).map(str::as_bytes));
        }
        parts.remove(b"".as_slice());
        let digits: BTreeSet<Vec<u8>> = parts.iter().flat_map(|part| encoded(part)).collect();
        let values = Sorted::new(parts.into_iter().map(<[u8]>::to_vec).collect());
        let digits = Sorted::new(digits.into_iter().collect());
        let mut starts = [false; 256];
        for first in values.texts.iter().chain(&digits.texts).filter_map(|text| text.first()) {
            starts[usize::from(*first)] = true;
        }
        starts[usize::from(b'%')] = true;
        starts[usize::from(b'+')] |= starts[usize::from(b' ')];
        (!values.texts.is_empty()).then_some(Self { values, digits, starts })
    }

    /// Returns true if a match can start with this byte.
    pub(super) fn may_start(&self, byte: u8) -> bool {
        self.starts[usize::from(byte)]
    }

    /// Matches the start of a text.
    pub(super) fn look(&self, text: &[u8]) -> Found {
        let mut found = Found::default();
        if self.values.may_begin(text, |byte| matches!(byte, b'%' | b'+')) {
            self.values.walk(text, &mut found, Sorted::step);
            self.values.walk(text, &mut found, Sorted::step_percent);
        }
        if self.digits.may_begin(text, |byte| matches!(byte, b'\r' | b'\n')) {
            self.digits.walk(text, &mut found, Sorted::step_digit);
        }
        found
    }
}

/// Sorted, unique, non-empty texts.
struct Sorted {
    texts: Vec<Vec<u8>>,
    /// The first bytes of texts shorter than a prefix.
    short: [bool; 256],
    /// Hashes of the prefixes of the other texts.
    prefixes: Vec<u64>,
}

/// The texts that match the input so far.
#[derive(Clone)]
struct Reading {
    /// Range of the texts. All are longer than the matched part, except that the first may have
    /// equal length.
    range: Range<usize>,
    /// Number of matched units.
    depth: usize,
    /// Number of input bytes consumed.
    at: usize,
}

impl Sorted {
    fn new(texts: Vec<Vec<u8>>) -> Self {
        let mut sorted = Self {
            texts: Vec::new(),
            short: [false; 256],
            prefixes: vec![0; 1 << (PREFIX_TABLE_BITS - u64::BITS.ilog2())],
        };
        for text in &texts {
            match (text.first_chunk(), text.first()) {
                (Some(prefix), _) => {
                    let (word, bit) = place(*prefix);
                    sorted.prefixes[word] |= bit;
                }
                (None, Some(first)) => sorted.short[usize::from(*first)] = true,
                (None, None) => {}
            }
        }
        sorted.texts = texts;
        sorted
    }

    /// Returns false if no text can match. A special byte represents another byte.
    fn may_begin(&self, text: &[u8], is_special: impl Fn(&u8) -> bool) -> bool {
        let Some(prefix) = text.first_chunk::<PREFIX_BYTES>() else { return true };
        let (word, bit) = place(*prefix);
        self.prefixes[word] & bit != 0 || self.short[usize::from(prefix[0])] || prefix.iter().any(is_special)
    }

    /// Matches the text unit by unit, until no form matches or the text ends.
    fn walk(
        &self,
        text: &[u8],
        found: &mut Found,
        step: impl Fn(&Self, &Reading, &[u8], &mut Vec<Reading>) -> bool,
    ) {
        let mut open = vec![Reading { range: 0..self.texts.len(), depth: 0, at: 0 }];
        while let Some(mut reading) = open.pop() {
            if self.texts.get(reading.range.start).is_some_and(|text| text.len() == reading.depth) {
                found.longest = found.longest.max(Some(reading.at));
                reading.range.start += 1;
            }
            if !reading.range.is_empty() {
                found.more |= step(self, &reading, &text[reading.at..], &mut open);
            }
        }
    }

    /// Matches a plain byte. Returns true if more bytes are needed, as in the other steps.
    fn step(&self, reading: &Reading, text: &[u8], open: &mut Vec<Reading>) -> bool {
        match text.first() {
            None => true,
            Some(byte) => {
                self.go_on(reading, *byte, 1, open);
                false
            }
        }
    }

    /// Matches a digit. A line may end before each digit except the first.
    fn step_digit(&self, reading: &Reading, text: &[u8], open: &mut Vec<Reading>) -> bool {
        let gap = if reading.depth == 0 { 0 } else { break_length(text) };
        match text.get(gap) {
            None => true,
            Some(digit) => {
                self.go_on(reading, *digit, gap + 1, open);
                false
            }
        }
    }

    /// Matches a percent-encoded unit. A byte represents itself, `+` also a space, and `%` with two
    /// hexadecimal digits the encoded byte.
    fn step_percent(&self, reading: &Reading, text: &[u8], open: &mut Vec<Reading>) -> bool {
        match text {
            [] | [b'%'] => true,
            [b'%', high, rest @ ..] => {
                let (high, low) = (hex(*high), rest.first().map(|low| hex(*low)));
                if high != Some(b'%' >> 4) || low.is_some_and(|low| low != Some(b'%' & 15)) {
                    self.go_on(reading, b'%', 1, open);
                }
                match (high, low) {
                    (Some(high), Some(Some(low))) => self.go_on(reading, high << 4 | low, 3, open),
                    (Some(high), None) => return self.goes_on_with(reading, high),
                    (None, _) | (_, Some(None)) => {}
                }
                false
            }
            [byte, ..] => {
                self.go_on(reading, *byte, 1, open);
                if *byte == b'+' {
                    self.go_on(reading, b' ', 1, open);
                }
                false
            }
        }
    }

    /// Continues with the texts that have this unit next. The unit took `bytes` bytes.
    fn go_on(&self, reading: &Reading, unit: u8, bytes: usize, open: &mut Vec<Reading>) {
        let Reading { ref range, depth, at } = *reading;
        let texts = &self.texts[range.clone()];
        let from = texts.partition_point(|text| text[depth] < unit);
        let count = texts[from..].partition_point(|text| text[depth] == unit);
        if count > 0 {
            let from = range.start + from;
            open.push(Reading { range: from..from + count, depth: depth + 1, at: at + bytes });
        }
    }

    /// Returns true if the next unit of one of the texts has these upper four bits.
    fn goes_on_with(&self, reading: &Reading, high: u8) -> bool {
        let texts = &self.texts[reading.range.clone()];
        let from = texts.partition_point(|text| text[reading.depth] >> 4 < high);
        texts.get(from).is_some_and(|text| text[reading.depth] >> 4 == high)
    }
}

/// Returns the position of a prefix in the table.
fn place(prefix: [u8; PREFIX_BYTES]) -> (usize, u64) {
    // Fibonacci hashing: the upper bits of the product depend on all bytes.
    let hash = u32::from_le_bytes(prefix).wrapping_mul(0x9E37_79B1) >> (u32::BITS - PREFIX_TABLE_BITS);
    ((hash / u64::BITS) as usize, 1 << (hash % u64::BITS))
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// Returns the length of a line end and the indentation after it.
fn break_length(text: &[u8]) -> usize {
    if !matches!(text.first(), Some(b'\r' | b'\n')) {
        return 0;
    }
    let blank = text.iter().take_while(|byte| matches!(byte, b'\r' | b'\n' | b' ' | b'\t')).count();
    blank.min(BREAK_BYTES_MAX)
}

/// Returns the base64 of a value at each of the three offsets in a longer text.
fn encoded(value: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let each = (0..3).flat_map(|shift| [STANDARD, URL_SAFE].map(|alphabet| (shift, alphabet)));
    let each = each.map(|(shift, alphabet)| base64_inside(value, shift, alphabet));
    each.filter(|digits| digits.len() >= ENCODED_BYTES_MIN)
}

pub(super) const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
pub(super) const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Returns the base64 digits that depend only on the value, if `shift` bytes (modulo 3) come before
/// it and any bytes after.
pub(super) fn base64_inside(value: &[u8], shift: usize, alphabet: &[u8; 64]) -> Vec<u8> {
    let bit = |index: usize| value[index / 8] >> (7 - index % 8) & 1;
    // Digits start at every sixth bit of the whole text. The first digit inside the value starts
    // here.
    let first = (6 - shift * 8 % 6) % 6;
    let bits = value.len() * 8;
    let mut digits = Vec::new();
    let mut at = first;
    while at + 6 <= bits {
        let digit = (at..at + 6).fold(0, |digit, index| digit << 1 | bit(index));
        digits.push(alphabet[usize::from(digit)]);
        at += 6;
    }
    digits
}
