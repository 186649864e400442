//! The text of an error in a query: the field, its value and the valid values.

use super::document;
use axum::http::Uri;
use serde_json::Value;
use std::sync::OnceLock;

/// Start of the errors of the parser.
const PARSER: &str = "Failed to deserialize query string: ";

/// Returns the text for a query that the parser refused with this error.
pub(super) fn text(uri: &Uri, error: &str) -> String {
    let error = error.strip_prefix(PARSER).unwrap_or(error);
    let named = error.split_once(": ").and_then(|(field, _)| {
        let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri).ok()?;
        let (_, value) = pairs.0.into_iter().find(|(name, _)| name == field)?;
        Some(format!("{field}: `{}`: {}", value.escape_debug(), valid(uri.path(), field)?))
    });
    named.unwrap_or_else(|| format!("query: {error}"))
}

/// Returns the valid values of a number or a flag, as the document states them. Other errors of the parser list them.
fn valid(path: &str, field: &str) -> Option<String> {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    let paths = DOCUMENT.get_or_init(document::document).get("paths")?.as_object()?;
    let (_, operations) = paths.iter().find(|(template, _)| is_of(template, path))?;
    let parameters = operations.get("get")?.get("parameters")?.as_array()?;
    let schema = parameters.iter().find(|parameter| parameter["name"] == field)?.get("schema")?;
    match schema["type"].as_str()? {
        "integer" => {
            Some(format!("valid is a whole number from {} to {}", schema["minimum"], schema["maximum"]))
        }
        "boolean" => Some("valid are true and false".to_owned()),
        _ => None,
    }
}

/// Returns true if a path of the document names this path.
fn is_of(template: &str, path: &str) -> bool {
    let is_same = |(part, given): (&str, &str)| part == given || part.starts_with('{');
    template.split('/').count() == path.split('/').count()
        && template.split('/').zip(path.split('/')).all(is_same)
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn an_error_names_the_field_its_value_and_the_valid_values() {
        let text = |uri: &str, error: &str| text(&uri.parse().expect("a path"), error);
        let parser = "Failed to deserialize query string: ";
        assert_eq!(
            text("/api/v1/jobs?limit=-1", &format!("{parser}limit: invalid digit found in string")),
            "limit: `-1`: valid is a whole number from 1 to 1000"
        );
        assert_eq!(
            text("/api/v1/jobs/01a2/logs?tail=1&attempt=x", &format!("{parser}attempt: invalid digit")),
            "attempt: `x`: valid is a whole number from 1 to 4294967295"
        );
        assert_eq!(
            text("/api/v1/tests?flaky=2", &format!("{parser}flaky: provided string was not a flag")),
            "flaky: `2`: valid are true and false"
        );
        let listed = "state: unknown variant `x`, expected one of `queued`, `done`";
        assert_eq!(text("/api/v1/jobs?state=x", &format!("{parser}{listed}")), format!("query: {listed}"));
    }
}
