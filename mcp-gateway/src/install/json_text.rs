//! Changing one member of a JSON text and nothing else of it: neither order nor spaces nor how a number is written.

use serde_json::Value;
use std::ops::Range;

/// Spaces of one step of indentation.
const STEP: usize = 2;

/// The text with `value` at a path of names. The text must be valid JSON, an object at each step of the path that is there.
pub(super) fn with_member(text: &str, path: &[&str], value: &Value) -> Option<String> {
    let start = text.find('{')?;
    with_member_of(text, start, path, 1, value)
}

fn with_member_of(text: &str, start: usize, path: &[&str], depth: usize, value: &Value) -> Option<String> {
    let (name, rest) = path.split_first()?;
    let members = members(text, start)?;
    let found = members
        .iter()
        .rev()
        .find(|(key, _)| serde_json::from_str::<String>(&text[key.clone()]).is_ok_and(|key| key == *name));
    match found {
        Some((_, place)) if rest.is_empty() => {
            Some(format!("{}{}{}", &text[..place.start], indented(value, depth), &text[place.end..]))
        }
        Some((_, place)) => with_member_of(text, place.start, rest, depth + 1, value),
        None => {
            let mut whole = value.clone();
            for name in rest.iter().rev() {
                whole = serde_json::json!({ *name: whole });
            }
            let member =
                format!("\n{}{}: {}", " ".repeat(depth * STEP), Value::from(*name), indented(&whole, depth));
            let (at, before, after) = match members.last() {
                Some((_, last)) => (last.end, ",", String::new()),
                None => (start + 1, "", format!("\n{}", " ".repeat((depth - 1) * STEP))),
            };
            Some(format!("{}{before}{member}{after}{}", &text[..at], &text[at..]))
        }
    }
}

/// As it stands at this depth.
fn indented(value: &Value, depth: usize) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.replace('\n', &format!("\n{}", " ".repeat(depth * STEP)))
}

/// Where the names and values of the object are that begins at `start`.
fn members(text: &str, start: usize) -> Option<Vec<(Range<usize>, Range<usize>)>> {
    let mut found = Vec::new();
    let mut at = skip_space(text, start.checked_add(1)?);
    while text[at..].starts_with('"') {
        let key = at..end_of_value(text, at)?;
        at = skip_space(text, key.end);
        at = skip_space(text, text[at..].starts_with(':').then_some(at + 1)?);
        let value = at..end_of_value(text, at)?;
        at = skip_space(text, value.end);
        found.push((key, value));
        if !text[at..].starts_with(',') {
            break;
        }
        at = skip_space(text, at + 1);
    }
    text[at..].starts_with('}').then_some(found)
}

fn skip_space(text: &str, from: usize) -> usize {
    from + text[from..].len() - text[from..].trim_start().len()
}

/// Where the value that begins here ends.
fn end_of_value(text: &str, start: usize) -> Option<usize> {
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for (index, byte) in text.bytes().enumerate().skip(start) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => {
                in_text = !in_text;
                if !in_text && depth == 0 {
                    return Some(index + 1);
                }
            }
            _ if in_text => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return Some(index),
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(index + 1);
                }
            }
            b',' | b' ' | b'\n' | b'\r' | b'\t' if depth == 0 => return Some(index),
            _ => {}
        }
    }
    None
}
