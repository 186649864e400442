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

/// How much of the choices the listing says. A project may have any number of templates and a pool any number of labels,
/// and the listing has a limit: it takes the first of [`Detail::ALL`] that fits. What it does not say is checked all the
/// same, and `list_templates` and `worker_status` have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Detail {
    /// The templates wherever one can be named, and examples of labels.
    Everywhere,
    /// The templates with the tool that says the most, and examples of labels.
    Once,
    /// Examples of labels.
    Labels,
    /// Neither.
    Least,
}

impl Detail {
    /// From the most to the least.
    pub(crate) const ALL: [Self; 4] = [Self::Everywhere, Self::Once, Self::Labels, Self::Least];
}

/// Labels that the listing shows; more are in `worker_status`.
const LABELS_MAX: usize = 4;
/// Characters of all labels that the listing shows.
const LABELS_CHARS_MAX: usize = 60;

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
    output: Option<Value>,
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
    let tool = Tool::new(name, description, object(input)).with_title(title).with_annotations(annotations);
    match output {
        Some(output) => tool.with_raw_output_schema(object(output)),
        None => tool,
    }
}

fn object(value: Value) -> Arc<JsonObject> {
    match value {
        Value::Object(map) => Arc::new(map),
        _ => Arc::default(),
    }
}

/// A strict object.
pub(crate) fn input(properties: Value, required: &[&str]) -> Value {
    let mut schema = json!({"type": "object", "additionalProperties": false});
    if properties.as_object().is_some_and(|properties| !properties.is_empty()) {
        schema["properties"] = properties;
    }
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

/// The answer about a job: open, and says only what is always there. The whole schema is in the documentation.
pub(crate) fn job_output() -> Option<Value> {
    Some(json!({"type": "object", "required": ["job_id", "state", "verdict"]}))
}

pub(crate) fn text() -> Value {
    json!({"type": "string"})
}

pub(crate) fn described(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

pub(crate) fn integer() -> Value {
    json!({"type": "integer"})
}

fn texts() -> Value {
    json!({"type": "array", "items": {"type": "string"}})
}

pub(crate) fn verbosity() -> Value {
    json!({"type": "string", "enum": ["minimal", "normal", "full"]})
}

pub(crate) fn template(choices: &Choices, detail: Detail) -> Value {
    match detail {
        Detail::Everywhere => json!({"type": "string", "enum": choices.templates}),
        Detail::Once | Detail::Labels | Detail::Least => text(),
    }
}

/// The parameters of all tools that run something, `more` first. Only one of them, the described one, says about the
/// shared ones what their names do not.
pub(crate) fn run_input(
    choices: &Choices,
    detail: Detail,
    more: Value,
    required: &[&str],
    is_described: bool,
) -> Value {
    let mut properties = json!({
        "cwd": text(),
        "env": {"type": "object"},
        "labels": texts(),
        "on": {"type": "array", "items": texts()},
        "timeout_secs": integer(),
        "verbosity": verbosity(),
        "template": template(choices, detail),
        "reports": texts(),
        "artifacts": texts(),
        "wait_secs": integer(),
        "client_request_id": text(),
    });
    if is_described {
        describe(&mut properties, choices, detail);
    }
    if let (Value::Object(properties), Value::Object(more)) = (&mut properties, more) {
        properties.extend(more);
    }
    input(properties, required)
}

fn describe(properties: &mut Value, choices: &Choices, detail: Detail) {
    properties["template"] = match detail {
        Detail::Everywhere | Detail::Once => template(choices, Detail::Everywhere),
        Detail::Labels | Detail::Least => described("See list_templates"),
    };
    for (name, description) in [
        ("on", "Label sets, a job each"),
        ("reports", "JUnit, xcresult"),
        ("artifacts", "Globs"),
        ("client_request_id", "Same id, same job"),
    ] {
        properties[name]["description"] = json!(description);
    }
    let known = shown_labels(choices);
    if known.is_empty() || detail == Detail::Least {
        properties["labels"]["description"] = json!("KEY or KEY=VALUE");
    } else {
        properties["labels"]["items"]["examples"] = json!(known);
    }
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
