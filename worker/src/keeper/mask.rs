//! Masks secrets in a stream before its first byte is stored, wherever the stream is cut.
//!
//! A value is looked for as it is; in base64, at each of the three places that it can have in a longer text, in lines of any
//! length; and with any of its bytes in percent form, whichever of them an encoder leaves alone. The lines of a value of
//! several lines are looked for by themselves too. The leftmost, longest occurrence becomes `***`. Bytes at the end of a read
//! that may be the beginning of an occurrence are held back until they can be judged.

use std::collections::BTreeSet;

/// What stands in place of a secret.
pub const MASK: &[u8] = b"***";
/// Lines of a secret that are shorter are no secret by themselves.
const LINE_BYTES_MIN: usize = 6;
/// Encoded forms that are shorter would mask common text.
const ENCODED_BYTES_MIN: usize = 4;
/// Longest break between two digits of base64, in bytes: the end of a line and the indentation of the next one.
const BREAK_BYTES_MAX: usize = 34;

/// How an occurrence looks.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    /// These bytes.
    Plain(Vec<u8>),
    /// These digits of base64, with line breaks anywhere between them.
    Digits(Vec<u8>),
    /// These bytes, each as it is or as `%` and two hexadecimal digits; a space also as `+`.
    Percent(Vec<u8>),
}

/// What bytes are to a form.
enum Look {
    /// No beginning of it.
    No,
    /// All of them are its beginning: more decide.
    More,
    /// So many of them are an occurrence.
    Whole(usize),
}

/// Masks one stream. The result does not depend on how the stream is cut.
#[derive(Clone)]
pub struct Masker {
    forms: Vec<Form>,
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
        let mut starts = [false; 256];
        for form in &forms {
            form.note_starts(&mut starts);
        }
        let forms: Vec<Form> = forms.into_iter().collect();
        (!forms.is_empty()).then_some(Self { forms, starts, held: Vec::new() })
    }

    /// A whole text, masked. What this value was given of a stream does not matter.
    pub fn text(&self, text: &str) -> String {
        let mut masker = Self { held: Vec::new(), ..self.clone() };
        let mut out = Vec::with_capacity(text.len());
        masker.push(text.as_bytes(), &mut out);
        masker.finish(&mut out);
        String::from_utf8_lossy(&out).into_owned()
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

    /// All that follows may be the beginning of an occurrence: more bytes decide.
    fn may_begin_at(&self, at: usize) -> bool {
        self.forms.iter().any(|form| matches!(form.look(&self.held[at..]), Look::More))
    }

    fn longest_at(&self, at: usize) -> Option<usize> {
        let lengths = self.forms.iter().filter_map(|form| match form.look(&self.held[at..]) {
            Look::Whole(length) => Some(length),
            Look::No | Look::More => None,
        });
        lengths.max()
    }
}

impl Form {
    fn look(&self, text: &[u8]) -> Look {
        match self {
            Self::Plain(bytes) if text.starts_with(bytes) => Look::Whole(bytes.len()),
            Self::Plain(bytes) if bytes.starts_with(text) => Look::More,
            Self::Plain(_) => Look::No,
            Self::Digits(digits) => look_for(digits, text, |digit, text, is_first| {
                let gap = if is_first { 0 } else { break_length(text) };
                match text.get(gap) {
                    None => Look::More,
                    Some(found) if *found == digit => Look::Whole(gap + 1),
                    Some(_) => Look::No,
                }
            }),
            Self::Percent(bytes) => look_for(bytes, text, |byte, text, _| percent(byte, text)),
        }
    }

    fn note_starts(&self, starts: &mut [bool; 256]) {
        let (Self::Plain(bytes) | Self::Digits(bytes) | Self::Percent(bytes)) = self;
        let Some(first) = bytes.first() else { return };
        starts[usize::from(*first)] = true;
        if matches!(self, Self::Percent(_)) {
            starts[usize::from(b'%')] = true;
            starts[usize::from(b'+')] |= *first == b' ';
        }
    }
}

/// Looks for one unit after the other.
fn look_for(units: &[u8], text: &[u8], one: impl Fn(u8, &[u8], bool) -> Look) -> Look {
    let mut at = 0;
    for (index, unit) in units.iter().enumerate() {
        match one(*unit, &text[at..], index == 0) {
            Look::Whole(length) => at += length,
            other => return other,
        }
    }
    Look::Whole(at)
}

/// Length of a line's end and the indentation after it.
fn break_length(text: &[u8]) -> usize {
    if !matches!(text.first(), Some(b'\r' | b'\n')) {
        return 0;
    }
    let blank = text.iter().take_while(|byte| matches!(byte, b'\r' | b'\n' | b' ' | b'\t')).count();
    blank.min(BREAK_BYTES_MAX)
}

/// A byte as it is or in percent form.
fn percent(byte: u8, text: &[u8]) -> Look {
    if text.first() == Some(&b'%') {
        let hex = format!("{byte:02x}");
        let given = text.get(1..text.len().min(3)).unwrap_or_default();
        if hex.as_bytes().get(..given.len()).is_some_and(|hex| hex.eq_ignore_ascii_case(given)) {
            return if given.len() == 2 { Look::Whole(3) } else { Look::More };
        }
    }
    match text.first() {
        None => Look::More,
        Some(found) if *found == byte || *found == b'+' && byte == b' ' => Look::Whole(1),
        Some(_) => Look::No,
    }
}

fn add_forms(forms: &mut BTreeSet<Form>, value: &[u8]) {
    if value.is_empty() {
        return;
    }
    forms.insert(Form::Plain(value.to_vec()));
    forms.insert(Form::Percent(value.to_vec()));
    for shift in 0..3 {
        for alphabet in [STANDARD, URL_SAFE] {
            let encoded = base64_inside(value, shift, alphabet);
            if encoded.len() >= ENCODED_BYTES_MIN {
                forms.insert(Form::Digits(encoded));
            }
        }
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
    fn percent_forms_of_every_encoder_are_masked_at_every_cut() {
        // encodeURIComponent, encodeURI, URLSearchParams, Python's quote and quote_plus, Java's URLEncoder, Go's PathEscape.
        let secret = "pa(ss)!word/x y~*'&$";
        for text in [
            "pa(ss)!word%2Fx%20y~*'%26%24",
            "pa(ss)!word/x%20y~*'&$",
            "pa%28ss%29%21word%2Fx+y%7E*%27%26%24",
            "pa%28ss%29%21word/x%20y~%2A%27%26%24",
            "pa%28ss%29%21word%2Fx+y~%2A%27%26%24",
            "pa%28ss%29%21word%2fx%20y%7e*%27&$",
            "%70%61%28%73%73%29%21%77%6f%72%64%2f%78%20%79%7e%2a%27%26%24",
        ] {
            for cut in 0..=text.len() {
                let (one, other) = text.as_bytes().split_at(cut);
                let masked = mask(&[secret], &[b"<", one, other, b">"]);
                assert_eq!(String::from_utf8_lossy(&masked), "<***>", "`{text}` cut at {cut}");
            }
        }
        assert_eq!(mask(&["100%"], &[b"100% 100%25 100%2 100%"]), b"*** *** ***2 ***");
    }

    #[test]
    fn base64_in_lines_is_masked_at_every_cut() {
        // 72 bytes through base64(1), which breaks lines after 76 digits; then as MIME does, and indented.
        let secret = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.:,;#+=!";
        let digits = "MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXZ3eHl6QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVotXy46LDsjKz0h";
        for gap in ["\n", "\r\n", "\n      "] {
            for width in [1, 7, 64, 76] {
                let lines: Vec<_> = digits.as_bytes().chunks(width).map(String::from_utf8_lossy).collect();
                let text = lines.join(gap);
                for cut in [0, 1, width, width + 1, width + 2, text.len() - 1] {
                    let (one, other) = text.as_bytes().split_at(cut);
                    let masked = mask(&[secret], &[b"<", one, other, b"\n>"]);
                    assert_eq!(String::from_utf8_lossy(&masked), "<***\n>", "lines of {width}, cut at {cut}");
                }
            }
        }
        let long = format!("MDEy{}MzQ1", "\n".repeat(1000));
        assert_eq!(mask(&[secret], &[long.as_bytes()]), long.as_bytes(), "a gap without an end is none");
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
