//! XML helpers: attributes, references, names.

use quick_xml::escape::{resolve_xml_entity, unescape};
use quick_xml::events::{BytesRef, BytesStart};

pub(super) fn is_suite(start: &BytesStart<'_>) -> bool {
    matches!(start.local_name().as_ref(), "testsuite" | "testsuites")
}

pub(super) fn rest(content: &str, from: u64) -> &str {
    let from = usize::try_from(from).unwrap_or(usize::MAX).min(content.len());
    &content[content.floor_char_boundary(from)..]
}

pub(super) fn attribute(start: &BytesStart<'_>, name: &str) -> Option<String> {
    let found =
        start.attributes().with_checks(false).flatten().find(|attribute| attribute.key.as_ref() == name)?;
    // Line breaks stay, although XML replaces them with spaces: messages need them.
    Some(unescape(&found.value).map_or_else(|_| found.value.to_string(), std::borrow::Cow::into_owned))
}

pub(super) fn number(start: &BytesStart<'_>, name: &str) -> Option<u64> {
    attribute(start, name)?.trim().replace(',', "").parse().ok()
}

pub(super) fn resolved(reference: &BytesRef<'_>) -> String {
    if let Ok(Some(character)) = reference.resolve_char_ref() {
        return character.to_string();
    }
    resolve_xml_entity(reference).map_or_else(|| format!("&{};", &**reference), str::to_owned)
}
