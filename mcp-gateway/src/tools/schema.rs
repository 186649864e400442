//! Input and output schemas, and the parameters that several tools share. The listing is read into every context, so
//! each byte of it is weighed: what a name says needs no description.

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};
use std::sync::Arc;

/// What may be chosen at the moment: from the project's configuration and from the pool.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Choices {
    /// Names of templates, `raw` among them.
    pub(crate) templates: Vec<String>,
    /// Labels of the workers, `KEY` or `KEY=VALUE`.
    pub(crate) labels: Vec<String>,
}

/// Labels that the listing shows; more are in `worker_status`.
const LABELS_MAX: usize = 12;
/// Characters of all labels that the listing shows.
const LABELS_CHARS_MAX: usize = 240;

/// What a tool does to the world.
#[derive(Clone, Copy)]
pub(crate) enum Effect {
    /// Nothing.
    Reads,
    /// Runs what it is told to.
    Runs,
    /// Ends something, once.
    Ends,
}

/// A tool's listing.
pub(crate) fn tool(
    name: &'static str,
    title: &'static str,
    description: &'static str,
    effect: Effect,
    input: Value,
    output: Value,
) -> Tool {
    let (reads, destroys, is_idempotent) = match effect {
        Effect::Reads => (true, false, true),
        Effect::Runs => (false, true, false),
        Effect::Ends => (false, true, true),
    };
    let annotations = ToolAnnotations::new()
        .read_only(reads)
        .destructive(destroys)
        .idempotent(is_idempotent)
        .open_world(false);
    Tool::new(name, description, object(input))
        .with_title(title)
        .with_annotations(annotations)
        .with_raw_output_schema(object(output))
}

fn object(value: Value) -> Arc<JsonObject> {
    match value {
        Value::Object(map) => Arc::new(map),
        _ => Arc::default(),
    }
}

/// A strict object.
pub(crate) fn input(properties: Value, required: &[&str]) -> Value {
    let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

/// An open object that says only what is always there.
pub(crate) fn output(required: &[&str]) -> Value {
    json!({"type": "object", "required": required})
}

/// The answer about a job.
pub(crate) fn job_output() -> Value {
    json!({
        "type": "object",
        "properties": {"state": {"type": "string"}, "next": {"type": "array", "items": {"type": "string"}}},
        "required": ["job_id", "state", "verdict", "next"],
    })
}

pub(crate) fn text() -> Value {
    json!({"type": "string"})
}

pub(crate) fn described(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

pub(crate) fn integer(least: u64) -> Value {
    json!({"type": "integer", "minimum": least})
}

fn texts() -> Value {
    json!({"type": "array", "items": {"type": "string"}})
}

pub(crate) fn verbosity() -> Value {
    json!({"type": "string", "enum": ["minimal", "normal", "full"]})
}

pub(crate) fn template(choices: &Choices) -> Value {
    if choices.templates.is_empty() { text() } else { json!({"type": "string", "enum": choices.templates}) }
}

/// The parameters of all tools that run something, `more` first. Only one of them describes what the others share.
pub(crate) fn run_input(choices: &Choices, more: Value, required: &[&str], is_described: bool) -> Value {
    let with = |mut schema: Value, description: &str| {
        if is_described {
            schema["description"] = json!(description);
        }
        schema
    };
    let mut labels = with(texts(), "Workers that will do: KEY or KEY=VALUE");
    let known = shown_labels(choices);
    if is_described && !known.is_empty() {
        labels["items"]["examples"] = json!(known);
    }
    let mut properties = more;
    let shared = json!({
        "cwd": text(),
        "env": {"type": "object", "additionalProperties": {"type": "string"}},
        "labels": labels,
        "on": with(json!({"type": "array", "items": texts()}), "Run on each of these label sets at once"),
        "timeout_secs": integer(1),
        "verbosity": verbosity(),
        "template": with(template(choices), "Output filter"),
        "reports": with(texts(), "Test report globs"),
        "artifacts": with(texts(), "Globs of files to bring back"),
        "wait_secs": integer(0),
        "client_request_id": with(text(), "Same id, same job"),
    });
    if let (Value::Object(properties), Value::Object(shared)) = (&mut properties, shared) {
        properties.extend(shared);
    }
    input(properties, required)
}

fn shown_labels(choices: &Choices) -> Vec<&str> {
    let mut characters = 0;
    choices
        .labels
        .iter()
        .map(String::as_str)
        .take(LABELS_MAX)
        .take_while(|label| {
            characters += label.chars().count();
            characters <= LABELS_CHARS_MAX
        })
        .collect()
}
