//! Input and output schemas, and parameters of several tools. The tool list is part of every
//! context, so descriptions are short: meaning, unit and default of a parameter.

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};
use std::sync::Arc;

/// Current choices from the project's configuration and from the pool.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Choices {
    /// Names of templates, including `raw`.
    pub(crate) templates: Vec<String>,
    /// Labels of the workers, `KEY` or `KEY=VALUE`.
    pub(crate) labels: Vec<String>,
}

/// Amount of choices in the tool list. A project may have any number of templates and a pool any
/// number of labels, but the list has a size limit. It uses the first entry of [`Detail::ALL`] that
/// fits. Choices that it omits are still valid; `list_templates` and `worker_status` return them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Detail {
    /// Templates in each tool that accepts one, and examples of labels.
    Everywhere,
    /// Templates in the tool with the most details, and examples of labels.
    Once,
    /// Examples of labels only.
    Labels,
    /// No choices.
    Least,
}

impl Detail {
    /// From the most to the least detail.
    pub(crate) const ALL: [Self; 4] = [Self::Everywhere, Self::Once, Self::Labels, Self::Least];
}

/// Limit on labels in the list; `worker_status` returns all.
const LABELS_MAX: usize = 4;
/// Limit on the characters of all labels in the list.
const LABELS_CHARS_MAX: usize = 60;

/// Effect of a tool.
#[derive(Clone, Copy)]
pub(crate) enum Effect {
    /// It changes nothing.
    Reads,
    /// It runs a command.
    Runs,
    /// It ends a job; a repeat has no further effect.
    Ends,
}

/// Returns the list entry of a tool.
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

/// Returns the schema of an object without other properties.
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

/// Returns the schema of an answer about a job. It lists only fields that are always present; the
/// documentation contains the whole schema.
pub(crate) fn job_output() -> Option<Value> {
    Some(json!({"type": "object", "required": ["job_id", "state", "verdict"]}))
}

pub(crate) fn described(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

pub(crate) fn integer(description: &str) -> Value {
    json!({"type": "integer", "description": description})
}

pub(crate) fn flag(description: &str) -> Value {
    json!({"type": "boolean", "description": description})
}

fn texts() -> Value {
    json!({"type": "array", "items": {"type": "string"}})
}

pub(crate) fn verbosity() -> Value {
    json!({"enum": ["minimal", "normal", "full"], "default": "minimal"})
}

pub(crate) fn show_artifacts() -> Value {
    flag("Return images; default false")
}

pub(crate) fn job_id() -> Value {
    described("Id or prefix")
}

/// The names of templates where they fit, otherwise where to find them.
pub(crate) fn template(choices: &Choices, detail: Detail) -> Value {
    match detail {
        Detail::Everywhere => json!({"type": "string", "enum": choices.templates}),
        Detail::Once | Detail::Labels | Detail::Least => described("See list_templates"),
    }
}

/// Returns the parameters of a tool that runs something, with `more` first. Only the tool with
/// `is_described` describes the shared parameters; the others refer to it.
pub(crate) fn run_input(
    choices: &Choices,
    detail: Detail,
    more: Value,
    required: &[&str],
    is_described: bool,
) -> Value {
    let mut properties = json!({
        "cwd": {"type": "string"},
        "env": {"type": "object"},
        "labels": texts(),
        "on": {"type": "array", "items": texts()},
        "timeout_secs": integer("Ends the job; default 3600"),
        "verbosity": verbosity(),
        "template": template(choices, detail),
        "reports": texts(),
        "artifacts": texts(),
        "show_artifacts": show_artifacts(),
        "wait_secs": integer("Default: client limit"),
        "client_request_id": {"type": "string"},
    });
    if is_described {
        for (name, description) in SHARED {
            properties[name]["description"] = json!(description);
        }
        show_choices(&mut properties, choices, detail);
    }
    if let (Value::Object(properties), Value::Object(more)) = (&mut properties, more) {
        properties.extend(more);
    }
    input(properties, required)
}

/// Description of the parameters that all tools share.
const SHARED: [(&str, &str); 7] = [
    ("cwd", "Directory; default: the project"),
    ("env", "Variables"),
    ("labels", "Of the worker: KEY or KEY=VALUE"),
    ("on", "Label sets, one job each"),
    ("reports", "Globs of JUnit XML or xcresult"),
    ("artifacts", "Globs of files to keep"),
    ("client_request_id", "Calls with one id are one job"),
];

fn show_choices(properties: &mut Value, choices: &Choices, detail: Detail) {
    if detail == Detail::Once {
        properties["template"] = template(choices, Detail::Everywhere);
    }
    let known = shown_labels(choices);
    if !known.is_empty() && detail != Detail::Least {
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
