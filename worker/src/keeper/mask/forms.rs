//! What is looked for, and whether a text begins with it.
//!
//! All forms of a kind lie sorted in one list: those with the same beginning are a range of it, which each unit of the text
//! narrows. So what a place in a text costs does not depend on how many forms there are, and most places are passed by one
//! look at their first bytes.

use std::collections::BTreeSet;
use std::ops::Range;

/// Lines of a secret that are shorter are no secret by themselves; neither is a value without the blanks around it.
const PART_BYTES_MIN: usize = 6;
/// Encoded forms that are shorter would mask common text.
const ENCODED_BYTES_MIN: usize = PREFIX_BYTES;
/// Longest break between two digits of base64, in bytes: the end of a line and the indentation of the next one.
const BREAK_BYTES_MAX: usize = 34;
/// Bytes that are looked at before anything else.
const PREFIX_BYTES: usize = 4;
/// Size of the table of such beginnings, as a power of two in bits: 16 KiB, sparse for some thousand forms.
const PREFIX_TABLE_BITS: u32 = 17;

/// All that is looked for.
pub(super) struct Forms {
    /// Values, as they are or with any of their bytes in percent form.
    values: Sorted,
    /// Digits of base64 of each, with line breaks anywhere between them.
    digits: Sorted,
    /// Bytes that an occurrence may begin with.
    starts: [bool; 256],
}

/// What begins at a place of a text.
#[derive(Default)]
pub(super) struct Found {
    /// The length of the longest occurrence there.
    pub(super) longest: Option<usize>,
    /// All of the text may be the beginning of an occurrence: more bytes decide.
    pub(super) more: bool,
}

impl Forms {
    /// Of these values; empty ones are no secret. None if nothing is left.
    pub(super) fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let mut parts = BTreeSet::new();
        for value in values {
            parts.insert(value.as_bytes());
            // What a shell or a tool leaves of it.
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

    /// Whether an occurrence may begin with this byte.
    pub(super) fn may_start(&self, byte: u8) -> bool {
        self.starts[usize::from(byte)]
    }

    /// What the text begins with.
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

/// Texts in their order, each once, none empty.
struct Sorted {
    texts: Vec<Vec<u8>>,
    /// The first bytes of those that are shorter than a prefix.
    short: [bool; 256],
    /// Hashes of the prefixes of the others.
    prefixes: Vec<u64>,
}

/// Texts that agree with what was read.
#[derive(Clone)]
struct Reading {
    /// Which. All of them are longer than what was read of them, or the first is as long.
    range: Range<usize>,
    /// Units of them that were read.
    depth: usize,
    /// Bytes that this took.
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

    /// False when no text is the beginning. A special byte stands for something else than itself.
    fn may_begin(&self, text: &[u8], is_special: impl Fn(&u8) -> bool) -> bool {
        let Some(prefix) = text.first_chunk::<PREFIX_BYTES>() else { return true };
        let (word, bit) = place(*prefix);
        self.prefixes[word] & bit != 0 || self.short[usize::from(prefix[0])] || prefix.iter().any(is_special)
    }

    /// Reads the text unit by unit, until no form agrees with it or it is over.
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

    /// A byte stands for itself. True when more bytes decide, as in the other steps.
    fn step(&self, reading: &Reading, text: &[u8], open: &mut Vec<Reading>) -> bool {
        match text.first() {
            None => true,
            Some(byte) => {
                self.go_on(reading, *byte, 1, open);
                false
            }
        }
    }

    /// A line may end before each digit but the first.
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

    /// A byte stands for itself, `+` for a space too, and `%` with two hexadecimal digits for one byte where that is the one.
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

    /// Reads on with those that have this unit next, which took so many bytes.
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

    /// Whether the next unit of one of them has these upper four bits.
    fn goes_on_with(&self, reading: &Reading, high: u8) -> bool {
        let texts = &self.texts[reading.range.clone()];
        let from = texts.partition_point(|text| text[reading.depth] >> 4 < high);
        texts.get(from).is_some_and(|text| text[reading.depth] >> 4 == high)
    }
}

/// Where in the table of prefixes one is noted.
fn place(prefix: [u8; PREFIX_BYTES]) -> (usize, u64) {
    // Fibonacci hashing: the upper bits of the product depend on all bytes.
    let hash = u32::from_le_bytes(prefix).wrapping_mul(0x9E37_79B1) >> (u32::BITS - PREFIX_TABLE_BITS);
    ((hash / u64::BITS) as usize, 1 << (hash % u64::BITS))
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// Length of a line's end and the indentation after it.
fn break_length(text: &[u8]) -> usize {
    if !matches!(text.first(), Some(b'\r' | b'\n')) {
        return 0;
    }
    let blank = text.iter().take_while(|byte| matches!(byte, b'\r' | b'\n' | b' ' | b'\t')).count();
    blank.min(BREAK_BYTES_MAX)
}

/// The base64 of a value at each of the three places that it can have in a longer text.
fn encoded(value: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let each = (0..3).flat_map(|shift| [STANDARD, URL_SAFE].map(|alphabet| (shift, alphabet)));
    let each = each.map(|(shift, alphabet)| base64_inside(value, shift, alphabet));
    each.filter(|digits| digits.len() >= ENCODED_BYTES_MIN)
}

pub(super) const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
pub(super) const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The base64 digits that only the value decides, when `shift` bytes (modulo 3) come before it and anything after.
pub(super) fn base64_inside(value: &[u8], shift: usize, alphabet: &[u8; 64]) -> Vec<u8> {
    let bit = |index: usize| value[index / 8] >> (7 - index % 8) & 1;
    // Digits are cut at every sixth bit of the whole text; the first that lies inside the value starts here.
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
