//! Texts of errors in a query, a path or a body: the field, its value and the valid values.

use super::{BASE, document};
use axum::http::{Method, Uri};
use serde_json::Value;
use serde_path_to_error::{Path, Segment};
use std::sync::OnceLock;

/// Start of the errors of the parser of queries.
const PARSER: &str = "Failed to deserialize query string: ";
/// Limit on the characters of a value that an error repeats.
const SHOWN_CHARS: usize = 60;

/// Returns the text for a query that the parser refused with this error.
pub(super) fn of_query(uri: &Uri, error: &str) -> String {
    let error = error.strip_prefix(PARSER).unwrap_or(error);
    let named = error.split_once(": ").and_then(|(field, _)| {
        let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri).ok()?;
        let (_, value) = pairs.0.into_iter().find(|(name, _)| name == field)?;
        let parameters = operation(&Method::GET, uri)?.get("parameters")?.as_array()?;
        let parameter = parameters.iter().find(|parameter| parameter["name"] == field)?;
        Some(format!("{field}: `{}`: {}", value.escape_debug(), valid(parameter.get("schema")?)?))
    });
    named.unwrap_or_else(|| format!("query: {error}"))
}

/// Returns the text for a path that the parser refused with this error: its id is not a UUID.
pub(super) fn of_path(uri: &Uri, error: &str) -> String {
    let path = uri.path();
    let mut parts = path.strip_prefix(BASE).unwrap_or(path).split('/').filter(|part| !part.is_empty());
    match (parts.next(), parts.next()) {
        (Some(list), Some(id)) => {
            format!("id: `{}`: {error}; `GET {BASE}/{list}` lists the valid ids", id.escape_debug())
        }
        _ => format!("path: {error}"),
    }
}

/// Returns the text for a body that the parser refused with this error.
pub(super) fn of_body(
    method: &Method,
    uri: &Uri,
    body: &Value,
    error: &serde_path_to_error::Error<serde_json::Error>,
) -> String {
    let (path, inner) = (error.path(), error.inner());
    let Some(value) = path.iter().try_fold(body, value_at).filter(|_| path.iter().next().is_some()) else {
        return format!("body: {inner}");
    };
    let valid = || {
        let content = operation(method, uri)?.get("requestBody")?.get("content")?.get("application/json")?;
        valid(schema_of(content.get("schema")?, path)?)
    };
    match valid() {
        Some(valid) => format!("{path}: `{}`: {valid}", shown(value)),
        None => format!("body: {path}: `{}`: {inner}", shown(value)),
    }
}

/// Returns the part of a value that a segment of a path names.
fn value_at<'a>(value: &'a Value, segment: &Segment) -> Option<&'a Value> {
    match segment {
        Segment::Map { key } => value.get(key),
        Segment::Seq { index } => value.get(index),
        Segment::Enum { .. } | Segment::Unknown => None,
    }
}

/// Returns the schema of the value at a path.
fn schema_of(schema: &'static Value, path: &Path) -> Option<&'static Value> {
    path.iter().try_fold(resolved(schema), |schema, segment| {
        let inner = match segment {
            Segment::Map { key } => {
                let named = schema.get("properties").and_then(|properties| properties.get(key));
                named.or_else(|| schema.get("additionalProperties"))?
            }
            Segment::Seq { .. } => schema.get("items")?,
            Segment::Enum { .. } | Segment::Unknown => return None,
        };
        Some(resolved(inner))
    })
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

fn contract() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(document::document)
}

fn operation(method: &Method, uri: &Uri) -> Option<&'static Value> {
    let paths = contract().get("paths")?.as_object()?;
    // A handler below a nested router gets the path without its prefix.
    let path = uri.path().strip_prefix(BASE).unwrap_or(uri.path());
    let (_, operations) =
        paths.iter().find(|(template, _)| is_of(template.strip_prefix(BASE).unwrap_or(template), path))?;
    operations.get(method.as_str().to_ascii_lowercase())
}

/// Returns the schema that a reference names, or the schema itself. Of an optional one, it returns the one of a value.
fn resolved(schema: &'static Value) -> &'static Value {
    let of_value = ["oneOf", "anyOf"].iter().find_map(|list| schema.get(*list)?.as_array());
    let schema = of_value.and_then(|all| all.iter().find(|one| one["type"] != "null")).unwrap_or(schema);
    let named = schema.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix('#'));
    named.and_then(|pointer| contract().pointer(pointer)).unwrap_or(schema)
}

/// Returns the valid values of a number or a flag, as the document states them. Other errors of the parser list them.
fn valid(schema: &'static Value) -> Option<String> {
    let schema = resolved(schema);
    let is = |name: &str| match &schema["type"] {
        Value::Array(types) => types.iter().any(|one| one == name),
        one => one == name,
    };
    if is("integer") {
        let bound = |name: &str| schema[name].as_i64();
        // The document states the type of the others.
        let range = match (bound("minimum"), bound("maximum"), schema["format"] == "int32") {
            (least, Some(most), _) => (least, Some(most)),
            (None, None, true) => (Some(i32::MIN.into()), Some(i32::MAX.into())),
            (least, None, true) => (least, Some(u32::MAX.into())),
            (least, None, false) => (least, None),
        };
        return Some(match range {
            (Some(least), Some(most)) => format!("valid is a whole number from {least} to {most}"),
            (Some(least), None) => format!("valid is a whole number from {least} on"),
            (None, _) => "valid is a whole number".to_owned(),
        });
    }
    is("boolean").then(|| "valid are true and false".to_owned())
}

/// Returns true if a path of the document names this path.
fn is_of(template: &str, path: &str) -> bool {
    let is_same = |(part, given): (&str, &str)| part == given || part.starts_with('{');
    template.split('/').count() == path.split('/').count()
        && template.split('/').zip(path.split('/')).all(is_same)
}

#[cfg(test)]
mod tests {
    use super::{contract, of_body, of_path, of_query};
    use axum::http::Method;
    use serde_json::{Value, json};

    #[test]
    fn an_error_names_the_field_its_value_and_the_valid_values() {
        let text = |uri: &str, error: &str| of_query(&uri.parse().expect("a path"), error);
        let parser = "Failed to deserialize query string: ";
        assert_eq!(
            text("/api/v1/jobs?limit=-1", &format!("{parser}limit: invalid digit found in string")),
            "limit: `-1`: valid is a whole number from 1 to 1000"
        );
        assert_eq!(
            text("/jobs?limit=abc", &format!("{parser}limit: invalid digit found in string")),
            "limit: `abc`: valid is a whole number from 1 to 1000",
            "a nested router removes the prefix"
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

    #[test]
    fn the_document_states_the_valid_numbers_and_flags_of_each_query() {
        let mut checked = 0;
        for (path, operations) in contract()["paths"].as_object().unwrap() {
            for parameter in operations["get"]["parameters"].as_array().into_iter().flatten() {
                let (name, kind) = (parameter["name"].as_str().unwrap(), &parameter["schema"]["type"]);
                let is =
                    |one: &str| *kind == one || kind.as_array().is_some_and(|all| all.contains(&json!(one)));
                if parameter["in"] != "query" || !(is("integer") || is("boolean")) {
                    continue;
                }
                let uri = format!("{path}?{name}=abc").replace(['{', '}'], "");
                let error =
                    format!("Failed to deserialize query string: {name}: invalid digit found in string");
                let text = of_query(&uri.parse().unwrap(), &error);
                assert!(text.starts_with(&format!("{name}: `abc`: valid ")), "{uri}: {text}");
                checked += 1;
            }
        }
        assert!(checked > 10, "{checked}");
    }

    #[test]
    fn an_error_in_a_body_names_the_field_its_value_and_the_valid_values() {
        let text = |body: Value| {
            let read: Result<super::super::new_job::NewJob, _> = serde_path_to_error::deserialize(&body);
            let error = read.err().expect("it is not valid");
            of_body(&Method::POST, &"/api/v1/jobs".parse().unwrap(), &body, &error)
        };
        assert_eq!(
            text(json!({"command": "x", "timeout_secs": -4})),
            "timeout_secs: `-4`: valid is a whole number from 1 to 604800"
        );
        assert_eq!(
            text(json!({"command": "x", "clean": "yes"})),
            "clean: `\"yes\"`: valid are true and false"
        );
        let inner = text(json!({"command": "x", "env": {"A": 1}}));
        assert!(inner.starts_with("body: env.A: `1`: invalid type: integer `1`"), "{inner}");
        let command = "expected a text for `sh -c`, or a list of texts: the program and its arguments";
        for value in [json!(3), json!({"a": 1})] {
            let refused = text(json!({"command": value}));
            assert!(refused.starts_with(&format!("body: command: `{value}`: ")), "{refused}");
            assert!(refused.ends_with(command), "{refused}");
        }
        let argument = text(json!({"command": ["true", 5]}));
        assert_eq!(argument, "body: command[1]: `5`: invalid type: integer `5`, expected a string");
        assert_eq!(
            text(json!({"command": "x", "priority": 1_000_000_000_000_i64})),
            "priority: `1000000000000`: valid is a whole number from -2147483648 to 2147483647"
        );
        assert_eq!(
            text(json!({"command": "x", "resources": {"sim": -1}})),
            "resources.sim: `-1`: valid is a whole number from 0 to 4294967295"
        );
        assert!(text(json!({"command": "x", "comand": 1})).contains("unknown field `comand`"));
    }

    #[test]
    fn an_error_in_a_path_names_the_id_and_the_list() {
        let text = of_path(&"/api/v1/tokens/nope".parse().unwrap(), "UUID parsing failed");
        assert_eq!(text, "id: `nope`: UUID parsing failed; `GET /api/v1/tokens` lists the valid ids");
    }
}
