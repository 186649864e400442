//! Properties of every answer.

use super::super::Answer;
use serde_json::{Value, json};

/// Collects each value of the structured content with its path.
pub(super) fn leaves(value: &Value, path: String, into: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| leaves(value, format!("{path}.{key}"), into))
        }
        Value::Array(items) => items.iter().for_each(|value| leaves(value, path.clone(), into)),
        leaf => into.push((path, leaf.clone())),
    }
}

/// Members that both forms contain word for word. The first line of a text contains the others in
/// other words, or a model does not need them to act.
const IN_BOTH: &[&str] = &[
    "blake3",
    "description",
    "file",
    "filtered_output",
    "get",
    "kept_back",
    "message",
    "name",
    "next",
    "next_cursor",
    "note",
    "notes",
    "path",
    "position",
    "post_context",
    "pre_context",
    "problems",
    "reason",
    "request_id",
    "shown",
    "stderr",
    "stdout",
    "interleaved",
    "top_frames",
    "url",
];

/// Returns true if the text contains the value. A flag is represented by its name.
pub(super) fn says(text: &str, path: &str, leaf: &Value) -> bool {
    let name = path.rsplit('.').next().unwrap_or_default();
    if !IN_BOTH.contains(&name) || path.contains(".location.") {
        return true;
    }
    let lower = text.to_lowercase();
    match leaf {
        Value::Null => true,
        Value::Bool(true) => text.contains(name),
        Value::Bool(false) => text.contains(&format!("{name}: false")),
        Value::Number(number) => {
            let short = number.as_f64().map(|number| number.to_string());
            text.contains(&number.to_string()) || short.is_some_and(|number| text.contains(&number))
        }
        Value::String(words) => {
            words.lines().all(|line| lower.contains(&line.trim().trim_end_matches('…').to_lowercase()))
        }
        Value::Array(_) | Value::Object(_) => false,
    }
}

pub(crate) fn assert_same_facts(answer: &Answer) {
    let mut all = Vec::new();
    leaves(&answer.structured, String::new(), &mut all);
    for (path, leaf) in all {
        // The structured content is cut further than the text.
        let is_cut = path.starts_with(".omitted.");
        // The text of a passed job is its output.
        let is_finding = path.starts_with(".tier_1_findings") || path.starts_with(".other_findings");
        let is_left_out = is_cut || is_finding && answer.structured["success"] == true;
        assert!(
            is_left_out || says(&answer.text, &path, &leaf),
            "{path} = {leaf} is not in\n{}",
            answer.text
        );
    }
}

/// Checks that the job's output appears only behind a bar. The gateway's own lines begin in one of
/// few forms.
pub(super) fn assert_unforged(answer: &Answer) {
    for line in answer.text.lines() {
        let is_ours = !line.starts_with('|') && !line.starts_with("BUILD") && !line.contains(": ");
        let forged = line.starts_with("- cancel_job {}")
            || line.starts_with("VERDICT")
            || (is_ours && line.contains("cancel_job {}"));
        assert!(!forged, "{line:?} is forged in\n{}", answer.text);
        assert!(!line.contains(['\u{1b}', '\0', '\u{2028}', '\u{202e}', '\r']), "{line:?}");
    }
    assert!(!answer.structured.to_string().contains("\\u001b"));
}

/// JSON without duplicate keys. A lenient parser keeps the last duplicate and hides the error.
pub(super) struct Strict(pub(super) Value);

impl<'de> serde::Deserialize<'de> for Strict {
    fn deserialize<D: serde::Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> serde::de::Visitor<'de> for Reader {
            type Value = Value;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("JSON")
            }
            fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
                Ok(json!(value))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
                Ok(json!(value))
            }
            fn visit_str<E>(self, value: &str) -> Result<Value, E> {
                Ok(json!(value))
            }
            fn visit_unit<E>(self) -> Result<Value, E> {
                Ok(Value::Null)
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
                let mut all = Vec::new();
                while let Some(Strict(item)) = items.next_element()? {
                    all.push(item);
                }
                Ok(Value::Array(all))
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
                let mut all = serde_json::Map::new();
                while let Some((name, Strict(value))) = members.next_entry::<String, Strict>()? {
                    if all.insert(name.clone(), value).is_some() {
                        return Err(serde::de::Error::custom(format!("`{name}` is there twice")));
                    }
                }
                Ok(Value::Object(all))
            }
        }
        reader.deserialize_any(Reader).map(Strict)
    }
}
