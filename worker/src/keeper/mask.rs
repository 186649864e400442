//! Masks secrets in a stream before its first byte is stored, wherever the stream is cut.
//!
//! A value is looked for as it is, in base64 (at each of the three places it can have in a longer text) and in percent
//! form; the lines of a value of several lines also by themselves. The leftmost, longest occurrence becomes `***`. Bytes
//! at the end of a read that may be the beginning of an occurrence are held back until they can be judged.

use std::collections::BTreeSet;

/// What stands in place of a secret.
pub const MASK: &[u8] = b"***";
/// Lines of a secret that are shorter are no secret by themselves.
const LINE_BYTES_MIN: usize = 6;
/// Encoded forms that are shorter would mask common text.
const ENCODED_BYTES_MIN: usize = 4;

/// Masks one stream. The result does not depend on how the stream is cut.
#[derive(Clone)]
pub struct Masker {
    /// Longest first.
    patterns: Vec<Vec<u8>>,
    starts: [bool; 256],
    held: Vec<u8>,
}

impl Masker {
    /// For these values; empty ones are no secret. None if nothing is to be masked.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let mut forms = BTreeSet::new();
        for value in values {
            add_forms(&mut forms, value.as_bytes());
            if value.contains('\n') {
                for line in value.lines().map(str::trim).filter(|line| line.len() >= LINE_BYTES_MIN) {
                    add_forms(&mut forms, line.as_bytes());
                }
            }
        }
        let mut patterns: Vec<Vec<u8>> = forms.into_iter().collect();
        patterns.sort_by_key(|pattern| std::cmp::Reverse(pattern.len()));
        let mut starts = [false; 256];
        for first in patterns.iter().filter_map(|pattern| pattern.first()) {
            starts[usize::from(*first)] = true;
        }
        (!patterns.is_empty()).then_some(Self { patterns, starts, held: Vec::new() })
    }

    /// Takes bytes of the stream and adds to `out` what can be judged.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.held.extend_from_slice(bytes);
        let decided = self.scan(out);
        self.held.drain(..decided);
    }

    /// The stream has ended: what was held back is no secret.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        // A held-back beginning may contain a shorter secret.
        let mut at = 0;
        while at < self.held.len() {
            match self.longest_at(at) {
                Some(length) => {
                    out.extend_from_slice(MASK);
                    at += length;
                }
                None => {
                    out.push(self.held[at]);
                    at += 1;
                }
            }
        }
        self.held.clear();
    }

    /// How many bytes wait to be judged.
    pub fn held_bytes(&self) -> usize {
        self.held.len()
    }

    fn scan(&self, out: &mut Vec<u8>) -> usize {
        let mut at = 0;
        let mut plain_from = 0;
        while at < self.held.len() {
            if !self.starts[usize::from(self.held[at])] {
                at += 1;
                continue;
            }
            if self.may_begin_at(at) {
                break;
            }
            match self.longest_at(at) {
                Some(length) => {
                    out.extend_from_slice(&self.held[plain_from..at]);
                    out.extend_from_slice(MASK);
                    at += length;
                    plain_from = at;
                }
                None => at += 1,
            }
        }
        out.extend_from_slice(&self.held[plain_from..at]);
        at
    }

    /// All that follows is the proper beginning of a pattern: more bytes decide.
    fn may_begin_at(&self, at: usize) -> bool {
        let rest = &self.held[at..];
        self.patterns.iter().any(|pattern| pattern.len() > rest.len() && pattern.starts_with(rest))
    }

    fn longest_at(&self, at: usize) -> Option<usize> {
        let rest = &self.held[at..];
        self.patterns.iter().find(|pattern| rest.starts_with(pattern)).map(Vec::len)
    }
}

fn add_forms(forms: &mut BTreeSet<Vec<u8>>, value: &[u8]) {
    if value.is_empty() {
        return;
    }
    forms.insert(value.to_vec());
    for shift in 0..3 {
        for alphabet in [STANDARD, URL_SAFE] {
            let encoded = base64_inside(value, shift, alphabet);
            if encoded.len() >= ENCODED_BYTES_MIN {
                forms.insert(encoded);
            }
        }
    }
    for (upper, keep_slash, plus) in
        [(true, false, false), (false, false, false), (true, true, false), (true, false, true)]
    {
        forms.insert(percent(value, upper, keep_slash, plus));
    }
}

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The base64 digits that only the value decides, when `shift` bytes (modulo 3) come before it and anything after.
fn base64_inside(value: &[u8], shift: usize, alphabet: &[u8; 64]) -> Vec<u8> {
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

fn percent(value: &[u8], upper: bool, keep_slash: bool, plus: bool) -> Vec<u8> {
    let mut text = Vec::with_capacity(value.len() * 3);
    for byte in value {
        match byte {
            b' ' if plus => text.push(b'+'),
            b'/' if keep_slash => text.push(b'/'),
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => text.push(*byte),
            other if upper => text.extend_from_slice(format!("%{other:02X}").as_bytes()),
            other => text.extend_from_slice(format!("%{other:02x}").as_bytes()),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Masker, STANDARD, base64_inside};
    use proptest::prelude::*;

    fn mask(values: &[&str], parts: &[&[u8]]) -> Vec<u8> {
        let mut masker = Masker::new(values.iter().copied()).expect("there are secrets");
        let mut out = Vec::new();
        for part in parts {
            masker.push(part, &mut out);
        }
        masker.finish(&mut out);
        out
    }

    #[test]
    fn each_form_is_masked_at_every_cut() {
        let secret = "s3cr3t/pass word+1";
        for (text, expected) in [
            ("before s3cr3t/pass word+1 after", "before *** after"),
            ("s3cr3t/pass word+1s3cr3t/pass word+1", "******"),
            ("url s3cr3t%2Fpass%20word%2B1.", "url ***."),
            ("url s3cr3t%2fpass%20word%2b1.", "url ***."),
            ("path s3cr3t/pass%20word%2B1.", "path ***."),
            ("form s3cr3t%2Fpass+word%2B1.", "form ***."),
            ("only s3cr3t/pass word+ the beginning", "only s3cr3t/pass word+ the beginning"),
            ("s3cr3t/pass s3cr3t/pass word+1", "s3cr3t/pass ***"),
            ("ends with s3cr3t/pass wor", "ends with s3cr3t/pass wor"),
        ] {
            let bytes = text.as_bytes();
            for cut in 0..=bytes.len() {
                let masked = mask(&[secret], &[&bytes[..cut], &bytes[cut..]]);
                assert_eq!(String::from_utf8_lossy(&masked), expected, "`{text}` cut at {cut}");
            }
        }
    }

    #[test]
    fn base64_is_masked_at_each_place_in_a_longer_text() {
        // `user:hunter2secret` and its neighbours, encoded elsewhere (coreutils base64).
        for text in [
            "aHVudGVyMnNlY3JldA==",
            "eGh1bnRlcjJzZWNyZXQ=",
            "eHlodW50ZXIyc2VjcmV0",
            "dXNlcjpodW50ZXIyc2VjcmV0IQ==",
        ] {
            let masked = String::from_utf8(mask(&["hunter2secret"], &[text.as_bytes()])).expect("text");
            assert!(masked.contains("***"), "{text} became {masked}");
            assert!(masked.len() <= 14, "{text} became {masked}");
        }
        assert_eq!(base64_inside(b"hunter2secret", 0, STANDARD), b"aHVudGVyMnNlY3JldA"[..17]);
    }

    #[test]
    fn a_longer_secret_wins_and_lines_count_by_themselves() {
        assert_eq!(mask(&["abc", "abcdef"], &[b"xabcdefabcy"]), b"x******y");
        assert_eq!(mask(&["abc", "abcdef"], &[b"xab", b"cde", b"zabc"]), b"x***dez***");
        let key = "-----BEGIN-----\nMIIEvQIBADAN\nshort\n";
        assert_eq!(mask(&[key], &[b"  MIIEvQIBADAN\n short"]), b"  ***\n short");
    }

    #[test]
    fn nothing_to_mask_is_no_masker() {
        assert!(Masker::new([""]).is_none());
        assert!(Masker::new([]).is_none());
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(
            text in "[abc]{0,60}",
            secrets in proptest::collection::vec("[abc]{1,5}", 1..4),
            cuts in proptest::collection::vec(0usize..60, 0..8),
        ) {
            let secrets: Vec<&str> = secrets.iter().map(String::as_str).collect();
            let whole = mask(&secrets, &[text.as_bytes()]);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.sort_unstable();
            let mut parts = Vec::new();
            let mut from = 0;
            for cut in cuts {
                parts.push(&text.as_bytes()[from..cut]);
                from = cut;
            }
            parts.push(&text.as_bytes()[from..]);
            prop_assert_eq!(mask(&secrets, &parts), whole);
        }
    }
}
