//! A simple reference implementation, form by form. A masker must give the same result.

use super::super::forms::{STANDARD, URL_SAFE, base64_inside};
use std::collections::BTreeSet;

/// A form of a match.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    /// These bytes.
    Plain(Vec<u8>),
    /// These base64 digits, with line breaks at any place.
    Digits(Vec<u8>),
    /// These bytes, each plain or as `%` and two hexadecimal digits; a space also as `+`.
    Percent(Vec<u8>),
}

/// Result of matching bytes with a form.
enum Look {
    /// No match.
    No,
    /// All bytes are a prefix, so more are needed.
    More,
    /// The first bytes are a match of this length.
    Whole(usize),
}

/// Masks a whole text.
pub(super) fn mask(values: &[&str], text: &[u8]) -> Vec<u8> {
    let mut forms = BTreeSet::new();
    for value in values {
        add_forms(&mut forms, value.as_bytes());
        for part in std::iter::once(*value).chain(value.lines()).map(str::trim).filter(|part| part.len() >= 6)
        {
            add_forms(&mut forms, part.as_bytes());
        }
    }
    let mut out = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let lengths = forms.iter().filter_map(|form| match form.look(&text[at..]) {
            Look::Whole(length) => Some(length),
            Look::No | Look::More => None,
        });
        if let Some(length) = lengths.max() {
            out.extend_from_slice(b"***");
            at += length;
        } else {
            out.push(text[at]);
            at += 1;
        }
    }
    out
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
}

/// Matches one unit after the other.
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

/// Returns the length of a line end and the indentation after it.
fn break_length(text: &[u8]) -> usize {
    if !matches!(text.first(), Some(b'\r' | b'\n')) {
        return 0;
    }
    let blank = text.iter().take_while(|byte| matches!(byte, b'\r' | b'\n' | b' ' | b'\t')).count();
    blank.min(34)
}

/// Matches a byte, plain or percent-encoded.
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
            if encoded.len() >= 4 {
                forms.insert(Form::Digits(encoded));
            }
        }
    }
}
