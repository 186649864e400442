//! Strict parser of a tool's arguments. Its errors contain the valid values.

use buildpool_protocol::spec::check_given_variable;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Limit on the characters of a wrong value that an error repeats.
const SHOWN_CHARS: usize = 60;
/// Up to 2 to the 53rd, a floating-point number represents each integer exactly.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// The arguments of one call. The tool takes each known one; the remaining ones are errors.
#[derive(Debug)]
pub(crate) struct Arguments {
    given: Map<String, Value>,
    known: Vec<&'static str>,
    example: &'static str,
}

/// An invalid argument.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{field}` {reason}. A valid call has arguments like {example}")]
pub(crate) struct ArgumentError {
    field: String,
    reason: String,
    example: String,
}

/// Valid values of parameters that are not in the example of their tool.
const VALUES: &[(&str, &str)] = &[
    ("artifacts", r#"["out/**/*.png"]"#),
    ("client_request_id", r#""nightly-1""#),
    ("command", r#""make test""#),
    ("context", "2"),
    ("cursor", r#""1:4096""#),
    ("cwd", r#""/home/ada/project""#),
    ("env", r#"{"RUST_LOG":"debug"}"#),
    ("filter", r#""parser""#),
    ("grep", r#""error""#),
    ("labels", r#"["os=macos"]"#),
    ("limit", "100"),
    ("offset", "0"),
    ("on", r#"[["os=linux"],["os=macos"]]"#),
    ("release", "true"),
    ("reports", r#"["target/junit.xml"]"#),
    ("request_id", r#""build-0198c0de-0000-7000-8000-000000000000""#),
    ("show_artifacts", "true"),
    ("stdin", r#""text""#),
    ("stream", r#""stdout""#),
    ("tail", "100"),
    ("target", r#""app""#),
    ("template", r#""vitest""#),
    ("timeout_secs", "600"),
    ("verbosity", r#""normal""#),
    ("wait_secs", "50"),
];

/// Returns arguments with the field, as JSON: the example of the tool, and a valid value of the field.
fn example_with(field: &str, example: &str) -> String {
    let value = VALUES.iter().find(|(name, _)| *name == field).map(|(_, value)| *value);
    let (Some(value), Ok(Value::Object(members))) = (value, serde_json::from_str(example)) else {
        return example.to_owned();
    };
    if members.contains_key(field) {
        return example.to_owned();
    }
    // These replace other parameters: both can't be given.
    match field {
        "request_id" => return format!(r#"{{"request_id":{value},"finding_id":"f1"}}"#),
        "command" => return format!(r#"{{"command":{value}}}"#),
        _ => {}
    }
    match example.strip_suffix('}') {
        Some("{") => format!(r#"{{"{field}":{value}}}"#),
        Some(members) => format!(r#"{members},"{field}":{value}}}"#),
        None => example.to_owned(),
    }
}

impl Arguments {
    /// Creates the parser. `example` contains valid arguments as JSON.
    pub(crate) fn new(given: Option<Map<String, Value>>, example: &'static str) -> Self {
        Self { given: given.unwrap_or_default(), known: Vec::new(), example }
    }

    /// Returns an error about a field, for checks of the tool itself.
    pub(crate) fn wrong(&self, field: impl Into<String>, reason: impl Into<String>) -> ArgumentError {
        let field = field.into();
        ArgumentError { reason: reason.into(), example: example_with(&field, self.example), field }
    }

    /// Removes a field. An explicit null counts as missing, because some clients send all fields.
    fn take(&mut self, field: &'static str) -> Option<Value> {
        self.known.push(field);
        self.given.remove(field).filter(|value| !value.is_null())
    }

    fn mistaken(&self, field: &str, value: &Value, valid: &str) -> ArgumentError {
        self.wrong(field, format!("is {}; valid is {valid}", shown(value)))
    }

    pub(crate) fn text(&mut self, field: &'static str) -> Result<Option<String>, ArgumentError> {
        match self.take(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.mistaken(field, &other, "text")),
        }
    }

    pub(crate) fn required_text(&mut self, field: &'static str) -> Result<String, ArgumentError> {
        match self.text(field)? {
            Some(text) if !text.trim().is_empty() => Ok(text),
            Some(_) => Err(self.wrong(field, "is empty")),
            None => Err(self.wrong(field, "is missing")),
        }
    }

    pub(crate) fn flag(&mut self, field: &'static str) -> Result<bool, ArgumentError> {
        match self.take(field) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(other) => Err(self.mistaken(field, &other, "true or false")),
        }
    }

    /// Takes an integer between the bounds, which are valid values too.
    pub(crate) fn number(
        &mut self,
        field: &'static str,
        least: u64,
        most: u64,
    ) -> Result<Option<u64>, ArgumentError> {
        let Some(value) = self.take(field) else { return Ok(None) };
        match whole_number(&value) {
            Some(number) if (least..=most).contains(&number) => Ok(Some(number)),
            _ => Err(self.mistaken(field, &value, &format!("a whole number from {least} to {most}"))),
        }
    }

    /// Takes a value of a closed set. The error lists the valid values.
    pub(crate) fn word<T>(&mut self, field: &'static str) -> Result<Option<T>, ArgumentError>
    where
        T: FromStr,
        T::Err: fmt::Display,
    {
        let Some(text) = self.text(field)? else { return Ok(None) };
        match text.parse() {
            Ok(word) => Ok(Some(word)),
            Err(error) => {
                let error = error.to_string();
                let reason = error.strip_prefix(&format!("{field}: ")).unwrap_or(&error);
                Err(self.wrong(field, format!("is not valid: {reason}")))
            }
        }
    }

    pub(crate) fn texts(&mut self, field: &'static str) -> Result<Vec<String>, ArgumentError> {
        let Some(value) = self.take(field) else { return Ok(Vec::new()) };
        texts_of(&value).ok_or_else(|| self.mistaken(field, &value, "a list of texts"))
    }

    pub(crate) fn lists_of_texts(&mut self, field: &'static str) -> Result<Vec<Vec<String>>, ArgumentError> {
        let Some(value) = self.take(field) else { return Ok(Vec::new()) };
        value
            .as_array()
            .and_then(|lists| lists.iter().map(texts_of).collect())
            .ok_or_else(|| self.mistaken(field, &value, "a list of lists of texts"))
    }

    pub(crate) fn variables(
        &mut self,
        field: &'static str,
    ) -> Result<BTreeMap<String, String>, ArgumentError> {
        let Some(value) = self.take(field) else { return Ok(BTreeMap::new()) };
        let read = |object: &Map<String, Value>| {
            object.iter().map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
        };
        let variables: BTreeMap<String, String> = value
            .as_object()
            .and_then(read)
            .ok_or_else(|| self.mistaken(field, &value, "an object with text values"))?;
        for name in variables.keys() {
            check_given_variable(field, name).map_err(|error| self.wrong(field, error.reason))?;
        }
        Ok(variables)
    }

    /// Fails if arguments remain.
    pub(crate) fn finish(self) -> Result<(), ArgumentError> {
        match self.given.keys().next() {
            None => Ok(()),
            Some(field) => {
                let valid = if self.known.is_empty() { "none".to_owned() } else { self.known.join(", ") };
                Err(ArgumentError {
                    field: field.clone(),
                    reason: format!("is not a parameter of this tool; valid are {valid}"),
                    example: self.example.to_owned(),
                })
            }
        }
    }
}

/// Returns a number without a fraction. `5.0` is an integer in JSON Schema too.
pub(crate) fn whole_number(value: &Value) -> Option<u64> {
    let written = |number: &f64| number.fract() == 0.0 && (0.0..=EXACT_MAX).contains(number);
    value.as_u64().or_else(|| value.as_f64().filter(written).map(|number| number as u64))
}

fn texts_of(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use buildpool_protocol::Verbosity;
    use serde_json::json;

    fn arguments(value: serde_json::Value) -> Arguments {
        Arguments::new(value.as_object().cloned(), r#"{"command":"make"}"#)
    }

    #[test]
    fn each_mistake_names_field_value_and_what_is_valid() {
        let check = |error: super::ArgumentError, parts: &[&str]| {
            let text = error.to_string();
            for part in parts.iter().chain(&[r#"{"command":"make""#]) {
                assert!(text.contains(part), "{text}");
            }
        };
        let mut given = arguments(json!({
            "command": "", "tail": -1, "limit": 2.5, "verbosity": "loud", "labels": ["a", 1], "on": ["a"],
            "env": {"A": 1}, "release": "yes", "cwd": 7,
        }));
        check(given.required_text("command").unwrap_err(), &["`command` is empty"]);
        check(given.required_text("job_id").unwrap_err(), &["`job_id` is missing"]);
        check(given.number("tail", 1, 9).unwrap_err(), &["`tail` is -1", "from 1 to 9"]);
        check(given.number("limit", 1, 9).unwrap_err(), &["`limit` is 2.5"]);
        let mut written = arguments(json!({"tail": 5.0, "limit": -1.0, "context": 1e300}));
        assert_eq!(written.number("tail", 1, 9).unwrap(), Some(5));
        check(written.number("limit", 0, 9).unwrap_err(), &["`limit` is -1.0"]);
        check(written.number("context", 0, 9).unwrap_err(), &["`context` is"]);
        check(given.word::<Verbosity>("verbosity").unwrap_err(), &["loud", "minimal", "normal", "full"]);
        check(given.texts("labels").unwrap_err(), &["`labels`", "a list of texts"]);
        check(given.lists_of_texts("on").unwrap_err(), &["`on`", "a list of lists"]);
        check(given.variables("env").unwrap_err(), &["`env`", "text values"]);
        let mut named = arguments(json!({"command": "x", "env": {"1 A": "b"}}));
        check(named.variables("env").unwrap_err(), &["`1 A`", "not a valid variable name"]);
        check(given.flag("release").unwrap_err(), &["`release`", "true or false"]);
        check(given.text("cwd").unwrap_err(), &["`cwd` is 7"]);
        given.finish().unwrap();
    }

    #[test]
    fn what_is_left_over_is_an_error_and_null_is_absence() {
        let mut given = arguments(json!({"command": "x", "comand": "y", "tail": null}));
        assert_eq!(given.required_text("command").unwrap(), "x");
        assert_eq!(given.number("tail", 1, 9).unwrap(), None);
        let error = given.finish().unwrap_err().to_string();
        assert!(error.contains("`comand`") && error.contains("command, tail"), "{error}");
    }

    #[test]
    fn a_long_value_is_not_repeated_whole() {
        let mut given = arguments(json!({"tail": "ä".repeat(10_000)}));
        assert!(given.number("tail", 1, 9).unwrap_err().to_string().len() < 400);
    }
}
